#!/bin/bash
# The program around the commands: help, version, likely words meant, statuses, standard streams.
. "$(dirname "$0")/tap.sh"

ps --version
is $status 0 "--version answers 0"
like "$out" '^perfsample [0-9]+\.[0-9]+' "--version names program and version"
like "$out" 'libraries: zlib [0-9.]+, zstd [0-9.]+, lzma [0-9.]+, jansson [0-9.]+' "--version names libraries with versions"
like "$out" 'x86_64' "--version names what was built in"
ps
is "$status/${out:0:6}" "2/usage:" "no command: usage, status 2"
ps --help
is "$status/${out:0:6}" "0/usage:" "--help: usage, status 0"
ps help
commands=$(sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p' <<<"$out")
for c in $commands; do
	ps "$c" --help
	[ "$status" -eq 0 ] && [ ${#out} -gt 150 ] && [ -z "$err" ] && [[ $out = "usage: perfsample $c"* ]]
	ok $? "$c --help"
	first=$out
	ps "$c" --help-all
	[ "$status" -eq 0 ] && [ "$(grep -c '^ *-' <<<"$out")" -ge "$(grep -c '^ *-' <<<"$first")" ]
	ok $? "$c --help-all lists no fewer options"
	ps help "$c"
	is "$out" "$first" "help $c is $c --help"
	wide=$(awk '!/^(usage:|      ) perfsample / && length($0) > 80 { print length($0) ": " $0 }' < <("$perfsample" "$c" --help-all | iconv -t ASCII//TRANSLIT 2>/dev/null))
	is "$wide" "" "$c --help-all fits 80 columns"
	ps "$c" --no-such-option
	is $status 2 "$c --no-such-option: status 2"
	like "$err" "no-such-option" "$c names the option it does not know"
	is "$out" "" "$c writes nothing to standard output then"
done
ps recrod
is $status 2 "an unknown command: status 2"
like "$err" 'unknown command recrod; did you mean record\?' "and the likely one"
ps repotr --whatever
like "$err" 'did you mean report\?' "swapped letters"
ps --versoin
like "$err" 'did you mean --version\?' "an unknown option of the program itself"
ps help flod
like "$err" 'did you mean fold\?' "help of an unknown command"
is $status 2 "its status"
ps fold --imput x
like "$err" 'unknown option --imput; did you mean --input\?' "a misspelt option"
ps fold --inp /nonexistent/recording
is $status 4 "options may be shortened; a missing recording is status 4"
like "$err" '/nonexistent/recording' "and named"
ps fold --de
like "$err" '' "an unambiguous beginning is taken"
ps fold --i
is $status 2 "an ambiguous one is refused"
like "$err" 'could be' "naming two that it could be"
ps fold -i
like "$err" '-i needs a value: FILE' "a missing value"
ps fold surplus
like "$err" 'unexpected word surplus' "a surplus word"
ps inject --itrace other
is $status 2 "an option that is refused: status 2"
like "$err" '--itrace: not supported: .*' "with the reason"

ps fold -q -i "$fixtures/small.data"
is "$status/$err" "0/" "-q is silent"
ps fold -q -i /nonexistent
like "$err" 'nonexistent' "-q still tells errors"
"$perfsample" help >/dev/full 2>"$work/err"
is $? 6 "output that cannot be written: status 6"
like "$(cat "$work/err")" 'standard output: No space left' "and why"
"$perfsample" help >&- 2>"$work/err"
is $? 6 "closed standard output: status 6"
"$perfsample" script -i "$fixtures/small.data" 2>"$work/err" | head -n 1 >"$work/out"
is "${PIPESTATUS[0]}/$(wc -l <"$work/out")/$(cat "$work/err")" "141/1/" "a reader that closes ends it silently, as by SIGPIPE" ||
	true
(trap '' PIPE; "$perfsample" script -i "$fixtures/small.data" 2>"$work/err"; echo $? >"$work/status") | head -n 1 >/dev/null
is "$(cat "$work/status")/$(cat "$work/err")" "141/" "the same where SIGPIPE is ignored by whoever started it"
"$perfsample" fold -i "$fixtures/small.data" <&- >"$work/a" 2>&1
is $? 0 "closed standard input harms nothing"

ps completion bash
bash -n <<<"$out"
ok $? "the bash completion is a script"
complete_words() { # WORDS…: what bash offers for the last
	bash -c '. /dev/stdin; shift 0; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _perfsample; printf "%s\n" "${COMPREPLY[@]}"' bash "$@" <<<"$completion"
}
completion=$out
is "$(complete_words perfsample rep)" "report" "bash completes a command"
like "$(complete_words perfsample fold --ker)" '^--kernel$' "bash completes an option"
like "$(complete_words perfsample fold --no-in)" '^--no-inline$' "bash completes a negated option"
is "$(complete_words perfsample flame --colors c)" "cool" "bash completes a value"
is "$(cd "$fixtures" && complete_words perfsample fold -i small.d)" "small.data" "bash completes a file"
is "$(complete_words perfsample fold --time '')" "" "bash offers nothing for a value that cannot be guessed"
if command -v zsh >/dev/null; then
	"$perfsample" completion zsh >"$work/_perfsample"
	zsh -n "$work/_perfsample"
	ok $? "the zsh completion is a script"
else
	skip "zsh is not installed" "the zsh completion is a script"
fi
ps completion fish
is $status 2 "no other shell"
for c in $commands; do
	ps manpage "$c" options
	printf '.TH X 1\n.SH OPTIONS\n%s\n' "$out" | man --warnings -l - 2>&1 >/dev/null | grep -q . && ok 1 "$c: man page options are clean" || ok 0 "$c: man page options are clean"
done
done_testing
