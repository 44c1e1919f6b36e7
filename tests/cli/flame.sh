#!/bin/bash
# flame: one file that needs nothing else, well-formed, with the figures it stands on.
. "$(dirname "$0")/tap.sh"
small=$fixtures/small.data

ps flame -i "$small" -o "$work/f.svg"
is $status 0 "drawn"
like "$err" "wrote $work/f.svg" "and said"
svg=$(cat "$work/f.svg")
samples=$("$perfsample" fold -i "$small" | awk '{ n += $NF } END { print n }')
like "$svg" "<text class=\"title\"[^>]*>./small</text>" "the title is what was recorded"
like "$svg" "<text class=\"sub\"[^>]*>$samples samples of cpu-clock, one per 1\.295 ms · lost 0 \(0\.00%\)(, silent [0-9,]+ \([0-9.]+%\))? · 0\.[0-9] s from 20[0-9-]+ [0-9:]+Z on " "the subtitle: samples, loss, window"
like "$svg" 'stacks complete [0-9]+ \([0-9.]+%\)' "and how far the stacks reach"
like "$svg" "<title>all$" "a box for all"
like "$svg" '<title>spin$' "functions"
like "$svg" 'class="f i i[0-9]+".*<title>spin$' "an inlined function looks like one"
like "$svg" 'class="f k k[0-9]+"' "a kernel function too"
like "$svg" '<title>a:b\\x1b\[31m&lt;/x&gt;\\x0a$' "a hostile name is text"
unlike "$svg" "$(printf '\033')" "no control character"
ps flame -i "$small" -o "$work/f.html" --inverted
html=$(cat "$work/f.html")
like "$html" "Content-Security-Policy\" content=\"default-src 'none'" "HTML: a policy that lets nothing in"
unlike "$html" '(src|href)="?[a-z]*:?//' "HTML: nothing from elsewhere"
python3 - "$work" <<'P'
import re, sys, xml.etree.ElementTree as ET
from html.parser import HTMLParser
tree = ET.parse(sys.argv[1] + "/f.svg")
boxes = [g for g in tree.getroot().iter("{http://www.w3.org/2000/svg}g") if g.get("class", "").startswith("f ")]
total = int(tree.getroot().get("data-total"))
own = sum(int(g.get("data-o", 0)) for g in boxes)
print("own", own, "total", total)
assert boxes and own <= total and own >= 0.99 * total
class P(HTMLParser):
    stack = []
    def handle_starttag(self, tag, attrs):
        assert not any(k.startswith("on") or k == "style" for k, v in attrs), attrs
    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
P().feed(open(sys.argv[1] + "/f.html").read())
P
ok $? "SVG is well-formed XML, its boxes' own samples are all; HTML has no inline handlers or styles"
is "$(stat -c %a "$work/f.svg")" 600 "not for others to read"
ps flame -i "$small" -o "$work/f.png"
is $status 2 "another ending: status 2"
like "$err" 'f.png ends neither in .svg nor in .html' "and why"
ps flame -i "$small" -o -
like "$out" '^<svg ' "-o - writes SVG to standard output"
is "$err" "" "and says nothing"
ps flame -i "$small" -o - --reverse
like "$out" 'data-d="1"[^>]*><title>spin$' "--reverse merges from the leaf"
ps flame -i "$small" -o - --width 800 --title 'A <title>' --colors cool
like "$out" 'width="800".*data-width="800"' "--width"
like "$out" '>A &lt;title&gt;</text>' "--title"
for wrong in "--width 10" "--width x" "--colors pink"; do
	# shellcheck disable=SC2086
	ps flame -i "$small" -o - $wrong
	is $status 2 "$wrong is refused"
done
ps flame -i "$small" -o - -c small
unlike "$out" 'a:b' "-c keeps one command"
ps flame -i "$small" -o - -c nobody
is $status 0 "no sample left: an empty graph"
like "$out" '>0 samples of cpu-clock' "that says so"

# ---------------------------------------------------------------- comparisons
python3 "$root/tests/browser/make_runs.py" "$work"
changed() { # FILE: "CLASS NAME" of each function, once
	grep -o '<g class="f c [^"]*"[^>]*><title>[a-z_]*$' "$1" | sed 's/.*"f c \([^"]*\)".*<title>/\1 /' | sort -u | tr '\n' ' '
}
runs="--new $work/new2 --new $work/new3 --diff $work/base1 --diff $work/base2 --diff $work/base3"
# shellcheck disable=SC2086
ps flame -i "$work/new1" $runs -o "$work/d.svg"
is "$status" 0 "--diff, three runs a side"
is "$(changed "$work/d.svg")" "c0 app c0 main c0 run c0 start_thread c0 steady n2 idle_check p2 work " "coloured where a change is sure, gray elsewhere"
like "$(cat "$work/d.svg")" '>2 of 3 functions differ \(own code, q at most 0.05\), 1 not distinguishable; widths: the new side<' "and told"
like "$(cat "$work/d.svg")" '>not distinguishable</text>' "the legend"
is "$(grep -A1 '<title>work$' "$work/d.svg" | grep -o '^[0-9]* samples' | tr '\n' ' ')" "605 samples 611 samples " "widths are those of -i"
# shellcheck disable=SC2086
ps flame -i "$work/new1" $runs --widths base --children -o "$work/d.svg"
like "$(cat "$work/d.svg")" '\(with callees, .*widths: the base side<' "--widths base, --children"
ps flame -i "$work/new1" --diff "$work/base1" -o "$work/d.svg"
is "$(changed "$work/d.svg")" "c0 app c0 main c0 run c0 start_thread c0 steady n4 idle_check p4 work " "one run a side: pale, no finding"
like "$(cat "$work/d.svg")" 'pale: differs between these runs, which says nothing of the next' "and said"
ps flame -i "$work/new1" --diff "$work/new1" -o "$work/d.svg"
unlike "$(changed "$work/d.svg")" '[np][1-4]' "with itself: nothing is coloured"
python3 -c 'import sys, xml.etree.ElementTree as E; E.parse(sys.argv[1])' "$work/d.svg"
ok $? "well-formed"
ps flame -i "$work/new1" --diff "$work/none" -o "$work/d.svg"
is "$status" 4 "a base that is not there"
ps flame -i "$small" --diff "$work/base1" -o "$work/d.svg"
is "$status" 4 "a base that cannot be compared"
like "$err" 'cannot be compared' "and why"
ps flame -i "$small" --widths base -o "$work/d.svg"
is "$status" 2 "--widths without --diff"
ps flame -i "$small" --diff "$small" --widths old -o "$work/d.svg"
is "$status" 2 "--widths of no side"

# ---------------------------------------------------------------- hostile and long names, kinds
long=$(printf 'n%.0s' {1..5000})
printf '%s;k_[k];j_[j];%s 3\na;]]>;<![CDATA[;&amp;;--><!-- 2\nb;\x01\x7f\xff\xc0\xaf\xed\xa0\x80\xef\xbf\xbe;_[k];_[+3] 4\n' "$long" "$long" >"$work/hostile"
for width in 400 2000; do
	"$(dirname "$perfsample")/flamegraph" --width $width <"$work/hostile" >"$work/h.svg"
	python3 - "$work/h.svg" $width <<'P'
import sys, xml.etree.ElementTree as ET
root = ET.parse(sys.argv[1]).getroot()
width, space = float(sys.argv[2]), "{http://www.w3.org/2000/svg}"
for g in root.iter(space + "g"):
    if not g.get("class", "").startswith("f "):
        continue
    rect = g.find(space + "rect")
    assert 0 <= float(rect.get("x")) and float(rect.get("x")) + float(rect.get("width")) <= width, rect.attrib
    text = g.find(space + "text")
    assert text is None or len(text.text or "") * 7.23 <= float(rect.get("width")), text.text
names = {t.text.split("\n")[0] for t in root.iter(space + "title")}
assert {"]]>", "<![CDATA[", "&amp", "--><!--", "k", "j"} <= names, names
P
	ok $? "$width px: hostile names are text, labels stay inside their boxes"
done
like "$(cat "$work/h.svg")" '>kernel</text>.*' "the legend has the kernel"
like "$(cat "$work/h.svg")" '>JIT</text>' "and JIT code"

tool=$(dirname "$perfsample")/flamegraph
is "$("$perfsample" fold -i "$small" | "$tool" --title T --subtitle S | grep -c '<title>spin$')" "$(grep -c '<title>spin$' <<<"$svg")" "the renderer alone draws what fold writes"
echo 'a;b' | "$tool" 2>"$work/err" >/dev/null
is "$?/$(cat "$work/err")" "4/perfsample: flamegraph: line 1: expected 'frame;frame;frame COUNT'" "it names the line that is not folded"
"$tool" --help | grep -q 'usage: flamegraph'
ok $? "it has --help"
if command -v chromium >/dev/null; then
	sed 's|</svg>$|<script><![CDATA[const i=document.querySelector("input");i.value="spin";i.dispatchEvent(new Event("input"));document.querySelectorAll("g.f")[3].dispatchEvent(new MouseEvent("click",{bubbles:true}));]]></script></svg>|' "$work/f.svg" >"$work/driven.svg"
	timeout 300 chromium --headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-component-update --disable-sync \
		--user-data-dir="$work/chromium" --virtual-time-budget=1000 --dump-dom "file://$work/driven.svg" >"$work/dom" 2>/dev/null
	like "$(cat "$work/dom")" '<span class="share" role="status">[0-9.]+% matched' "in a browser: search tells the matched share"
	like "$(cat "$work/dom")" 'class="f[^"]* hit"' "and marks what matched"
	unlike "$(cat "$work/dom")" '<button[^>]*hidden' "a click zooms: the way back is offered"
else
	skip "chromium is not installed" "search and zoom in a browser"
fi
done_testing
