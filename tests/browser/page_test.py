#!/usr/bin/env python3
"""Drives the flame graph's page in Chromium: clicks, searches, chooses, and reads what it shows; holds its figures to those of report.

page_test.py PERFSAMPLE RECORDING FUNCTION figures|all [DIFF.html]: prints "ok - …" and "not ok - …" lines."""
import json
import math
import re
import subprocess
import sys
import tempfile

from devtools import Browser, Page

READY = "window.flamegraph !== undefined"


def ok(good, name, told=""):
    print(("ok" if good else "not ok") + " - " + name)
    if not good and told != "":
        print("#   " + str(told)[:600])


def run(*words):
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout


def report_rows(perfsample, recording, *more):
    event = [e for e in json.loads(run(perfsample, "report", "-i", recording, "--format", "json", "-s", "sym,dso", *more))["events"] if e["samples"]["taken"] > 0][0]
    return {(f["symbol"], f["dso"]): f for f in event["functions"]}, event


def near(a, b):
    return abs(a - b) <= 1e-9 * max(1e-3, abs(a), abs(b))


def differences(theirs, ours):
    """Between a figure of the page and the same one of the report."""
    pairs = [("samples", theirs["k"], ours["samples"]), ("share", theirs["share"], ours["share"]), ("deff", theirs["deff"], ours["deff"]),
             ("visits", theirs["visits"], ours["visits"]), ("visits_outside", theirs["visitsOutside"], ours["visits_outside"])]
    for key, name in (("run", "run"), ("workload", "workload"), ("worst", "worst_case")):
        if ours[name] is not None:
            pairs += [(name + str(i), theirs[key][i], ours[name][i]) for i in (0, 1)]
        elif not theirs["runOnly"]:
            pairs.append((name, 1, 0))
    return ["%s: page %r, report %r" % p for p in pairs if not near(p[1], p[2])]


def figures_agree(page, rows, event, name):
    wrong, count = [], 0
    for f in page.value("flamegraph.figures()"):
        is_unknown = f["kind"] == 3 or f["name"] in (f["image"], "[" + f["image"] + "]")
        ours = rows.get(("[unknown]" if is_unknown else f["name"], f["image"]))
        total, own = f["row"][0]["m"], f["row"][1]["m"]
        if ours is None:
            if total["k"] > 0 and f["kind"] < 4:
                wrong.append("%s is not in the report" % f["name"])
            continue
        count += 1
        for kind, m in (("self", own), ("total", total)):
            wrong += ["%s %s %s" % (f["name"], kind, d) for d in differences(m, ours[kind])]
        if not near(own["shown"][0], ours["range"][0]) or not near(own["shown"][1], ours["range"][1]) or own["shownIsRun"] != ours["range_is_run"]:
            wrong.append("%s: range %r, report %r" % (f["name"], own["shown"], ours["range"]))
    ok(not wrong and count == len(rows) > 0, "%s: %d functions' samples, shares, deff, visits, run, workload and worst-case intervals are the report's" % (name, count),
       "; ".join(wrong[:4]) or "%d of %d" % (count, len(rows)))


def boxes(page):
    return page.value("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(flamegraph.boxes()))))")


def box_of(page, name):
    found = [b for b in boxes(page) if b["name"] == name and not b["merged"]]
    return max(found, key=lambda b: b["w"]) if found else None


def middle(box):
    return box["x"] + min(box["w"] / 2, 60), box["y"] + box["h"] / 2


def text(page, selector):
    return page.value("(e => e && !e.hidden ? e.textContent : '')(document.querySelector(%s))" % json.dumps(selector))


def test_head(page):
    head = text(page, "header")
    ok(re.search(r"[\d,]+ samples of \S+.* lost(?: [\d,]+ \([\d.]+%\)|: not known)", head) is not None, "the head says samples and loss", head)
    ok(text(page, ".verdict") in ("sound", "CARE", "NO RANKING"), "and the verdict", text(page, ".verdict"))
    frames = json.loads(page.value("document.getElementById('data').textContent"))["frames"]
    legend = page.value("Array.from(document.querySelectorAll('.legend .entry'), e => e.textContent)")
    ok(len(legend) > 0 and ("kernel" in legend) == any(f[2] & 7 == 1 for f in frames), "the legend names the kinds", legend)


def test_views(page, function):
    whole = [b for b in boxes(page) if b["name"] == "all"][0]
    ok(whole["y"] == max(b["y"] for b in boxes(page)), "flame: the root is at the bottom")
    page.press(".views button", "Icicle")
    whole = [b for b in boxes(page) if b["name"] == "all"][0]
    ok(whole["y"] == min(b["y"] for b in boxes(page)), "icicle: at the top")
    box = box_of(page, function)
    ok(box is not None, function + " is drawn")
    page.move(*middle(box))
    tip = text(page, ".tip")
    ok(re.search(re.escape(function) + r".*total[\d,]+\d+\.\d\d%\d+\.\d\d–\d+\.\d\d%.*self[\d,]+\d+\.\d\d%\d+\.\d\d–", tip) is not None,
       "its tip has total and self, each with its range", tip)
    page.click(*middle(box))
    zoomed = box_of(page, function)
    ok(near(zoomed["w"], page.value("document.querySelector('.stage').clientWidth")), "a click makes it as wide as the picture", zoomed)
    ok(text(page, ".focus .name") == function and text(page, ".focus .facts").startswith("total "), "and says which it is")
    page.press(".focus button", "Reset zoom")
    ok(near(box_of(page, function)["w"], box["w"]), "the button leads back")
    page.press(".check input")
    below = [b for b in boxes(page) if b["y"] == whole["y"] + whole["h"]]
    ok(abs(sum(b["total"] for b in below if not b["merged"]) - whole["total"]) < 0.05 * whole["total"] and not any(b["name"] in ("main", "_start") for b in below),
       "leaves first: below the root are the innermost functions", [b["name"] for b in below])
    page.press(".check input")


def test_search(page, function, rows):
    page.key("/")
    page.type(function)
    share = re.match(r"([\d.]+)% matched \[([\d.]+)–([\d.]+)%", text(page, ".seek .share"))
    ok(share is not None and abs(float(share[1]) - 100 * rows[function]["total"]["share"]) < 0.006, "the search tells the share that the report has as total",
       text(page, ".seek .share"))
    ok(share is not None and float(share[2]) <= float(share[1]) <= float(share[3]), "with its range")
    page.value("document.querySelector('.seek input').select()")
    page.type("/(/")
    ok(text(page, ".seek .share") == "not a regular expression", "a broken expression is said to be one")
    page.value("document.querySelector('.seek input').select()")
    page.type("no such function")
    ok(text(page, ".seek .share") == "no match", "no match")
    page.key("Escape")
    ok(page.value("document.querySelector('.seek input').value") == "", "Escape ends it")


def test_sandwich(page, function):
    page.press(".views button", "Sandwich")
    listed = page.value("Array.from(document.querySelectorAll('.functions button.name'), e => e.textContent)")
    ok(function in listed, "sandwich: the list of functions", listed[:5])
    page.press(".functions button.name", function)
    centre = box_of(page, function)
    ok(centre is not None and near(centre["w"], page.value("document.querySelector('.stage').clientWidth")), "one of them: as wide as the picture")
    above = [b for b in boxes(page) if b["y"] < centre["y"]]
    ok(any(b["name"] == "main" for b in above), "its callers are above", [b["name"] for b in above])
    ok(sum(b["total"] for b in above if b["y"] == centre["y"] - centre["h"]) <= centre["total"], "and take no more than it has")
    page.key("Escape")
    ok(page.value("!document.querySelector('.functions').hidden"), "Escape: back to the list")
    page.press(".views button", "Icicle")


def test_keys(page):
    page.value("document.querySelector('.stage').focus()")
    for key in ("ArrowDown", "ArrowDown", "ArrowDown"):
        page.key(key)
    said = text(page, ".live")
    ok(re.search(r", total [\d,]+ samples  \d+\.\d\d%", said) is not None, "the arrows walk, and what is reached is said to screen readers", said)
    page.key("Enter")
    name = said.split(", total ")[0]
    ok(text(page, ".focus .name") == name, "Enter zooms")
    page.key("s")
    ok(page.value("document.querySelector('.views [aria-pressed=true]').textContent") == "Sandwich" and text(page, ".focus .name") == name, "s: callers and callees of it")
    page.key("i")
    for _ in range(3):
        page.key("Escape")
    ok(text(page, ".focus") == "" or page.value("document.querySelector('.focus').hidden"), "Escape: everything again")


def test_selection(page, perfsample, recording):
    strip = page.value("(b => [b.left, b.top + b.height / 2, b.width])(document.querySelector('.time canvas').getBoundingClientRect())")
    page.drag(strip[0] + 0.2 * strip[2] + 2, strip[1], strip[0] + 0.6 * strip[2] - 2, strip[1])
    ok(re.match(r"[\d.]+–[\d.]+ s: [\d,]+ samples", text(page, ".chosen")) is not None, "dragging over the strip chooses a part of the time", text(page, ".chosen"))
    facts = json.loads(page.value("document.getElementById('data').textContent"))["facts"]
    seconds = facts["seconds"]
    rows, event = report_rows(perfsample, recording, "--time", "+%.9f,+%.9f" % (0.2 * seconds, 0.6 * seconds))
    figures_agree(page, rows, event, "a part of the time")
    page.value("document.querySelector('.time canvas').focus()")
    page.key("ArrowRight")
    ok(page.value("document.querySelector('.time canvas').getAttribute('aria-valuenow')") == "11", "the arrows move it")
    page.press(".clear")
    ok(text(page, ".chosen") == "", "one button brings all back")
    threads = page.value("Array.from(document.querySelectorAll('.threads label .name'), e => e.textContent)")
    if len(threads) < 2:
        ok(False, "the recording has several threads", threads)
        return
    page.press(".threads summary")
    page.press(".threads button", "none")
    page.press(".threads label .name", threads[0])
    tid = re.search(r"(\d+)$", threads[0])[1]
    rows, event = report_rows(perfsample, recording, "--tid", tid)
    figures_agree(page, rows, event, "one thread")
    page.press(".clear")


def test_looks(page, html):
    for width in (400, 760, 2000):
        page.size(width, 800)
        page.open(html, READY)
        ok(page.value("document.documentElement.scrollWidth <= innerWidth"), "%d px: nothing stands out at the side" % width, page.value("document.documentElement.scrollWidth"))
        ok(len(boxes(page)) > 3, "%d px: boxes are drawn" % width)
    page.size(1200, 800)
    light = page.value("getComputedStyle(document.body).backgroundColor")
    page.scheme("dark")
    ok(page.value("getComputedStyle(document.body).backgroundColor") != light, "it follows the dark mode")
    page.scheme("light")
    ok(len(page.call("Page.printToPDF", printBackground=True)["data"]) > 10000, "it prints")
    tree = page.call("Accessibility.getFullAXTree")["nodes"]
    nameless = [n["role"]["value"] for n in tree if not n.get("ignored") and n.get("role", {}).get("value") in ("button", "checkbox", "searchbox", "slider", "application", "toolbar")
                and not n.get("name", {}).get("value")]
    ok(nameless == [], "buttons, fields and the picture have names", nameless)


def test_many(browser, perfsample):
    """100,000 distinct stacks stay usable."""
    import random
    import time
    chance = random.Random(7)
    with tempfile.TemporaryDirectory() as folder:
        with open(folder + "/many.folded", "w") as out:
            for i in range(100000):
                path = ["app", "_start", "main"] + ["f%d_%d" % (level, int(40 * chance.random() ** 2)) for level in range(12 + i % 20)]
                out.write(";".join(path) + " %d\n" % (1 + int(chance.paretovariate(1.2))))
        began = time.monotonic()
        run(perfsample, "flame", "-i", folder + "/many.folded", "-o", folder + "/many.html")
        made = time.monotonic() - began
        import os
        size = os.path.getsize(folder + "/many.html")
        page = Page(browser)
        began = time.monotonic()
        page.open(folder + "/many.html", READY, 120)
        loaded = time.monotonic() - began
        box = sorted((b for b in boxes(page) if b["w"] > 20 and not b["merged"]), key=lambda b: b["y"])[0]
        began = time.monotonic()
        page.click(*middle(box))
        boxes(page)
        zoomed = time.monotonic() - began
        began = time.monotonic()
        page.value("document.querySelector('.seek input').focus()")
        page.type("f3_1")
        boxes(page)
        found = time.monotonic() - began
        nodes = page.value("flamegraph.nodes")
        told = "%d nodes, %.1f MB, made in %.1f s, loads in %.2f s, a zoom takes %.2f s, a search %.2f s" % (nodes, size / 1e6, made, loaded, zoomed, found)
        print("# 100,000 stacks: " + told)
        ok(nodes > 100000 and size < 10e6 and loaded < 60 and zoomed < 10 and found < 10, "100,000 distinct stacks: loads, zooms and searches", told)


def test_diff(browser, html, function):
    page = Page(browser)
    page.open(html, READY)
    box = box_of(page, function)
    ok(box is not None and box["change"][:1] in ("+", "-"), "a comparison: what changed is coloured", box)
    ok(box_of(page, "main")["change"] == "", "what did not is gray")
    page.move(*middle(box))
    ok(re.search(r"own code:  ×[\d.]+ \[[\d.]+, [\d.∞]+\]  q [\d.<e-]+", text(page, ".tip")) is not None, "the tip has ratio, interval and q", text(page, ".tip"))
    ok("not distinguishable" in text(page, ".legend"), "so says the legend")
    ok(page.complaints() == [], "no error on the console", page.complaints())


def main():
    perfsample, recording, function, what = sys.argv[1:5]
    with tempfile.TemporaryDirectory() as folder, Browser() as browser:
        html = folder + "/page.html"
        run(perfsample, "flame", "-i", recording, "-o", html)
        page = Page(browser)
        page.open(html, READY)
        rows, event = report_rows(perfsample, recording)
        if what != "figures":
            test_head(page)
        figures_agree(page, rows, event, "the whole")
        if what == "figures":
            if event["samples"]["lost"] > 0:
                test_selection(page, perfsample, recording)
            ok(page.complaints() == [], "no error on the console", page.complaints())
            return
        test_views(page, function)
        test_search(page, function, {k[0]: v for k, v in rows.items()})
        test_sandwich(page, function)
        test_keys(page)
        test_selection(page, perfsample, recording)
        test_looks(page, html)
        ok(page.complaints() == [], "no error on the console", page.complaints())
        if len(sys.argv) > 5:
            test_diff(browser, sys.argv[5], function)
        test_many(browser, perfsample)


main()
