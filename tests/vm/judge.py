#!/usr/bin/env python3
"""TAP about what came out of the guest. usage: judge.py FOLDER PERFSAMPLE WORKLOAD"""
import json
import os
import re
import shutil
import subprocess
import sys

folder, perfsample, workload = sys.argv[1:]
count = failed = 0


def ok(good, name):
    global count, failed
    count += 1
    failed += not good
    print(f"{'ok' if good else 'not ok'} {count} - {name}")


def read(name):
    try:
        return open(os.path.join(folder, name)).read()
    except OSError:
        return ""


def here(*words):
    return subprocess.run([perfsample, *words], cwd=folder, capture_output=True, text=True).stdout


def folded(text):
    for line in text.splitlines():
        stack, n = line.rsplit(" ", 1)
        yield stack.split(";"), int(n)


def is_same(a, b):
    """Numbers may differ in their last digits: AArch64 multiplies and adds in one step."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(is_same(a[k], b[k]) for k in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(is_same, a, b))
    if isinstance(a, float) or isinstance(b, float):
        return a == b or abs(a - b) <= 1e-9 * max(abs(a), abs(b), 1)
    return a == b


def event_of(kind):
    try:
        return json.loads(read(kind + ".json"))["events"][0]
    except (ValueError, KeyError, IndexError):
        return None


ok(read("kernel") != "" and read("failed") == "", f"in the guest, {read('kernel').strip()}, every command ended well {read('failed')}")
for kind, least in (("shares", 1000), ("deep", 500), ("handler", 500)):
    event = event_of(kind)
    if event is None:
        ok(False, f"{kind}: a report came out; record said {read(kind + '.err')[-300:]!r}")
        continue
    taken, stacks = event["samples"]["taken"], event["stacks"]
    ok(event["name"].startswith("cycles") and taken >= least, f"{kind}: {taken} samples of {event['name']}")
    complete = stacks["complete"] + stacks["joined"]
    ok(complete >= 0.99 * taken, f"{kind}: {complete} of {taken} stacks complete, ends {event['stack_ends']}")
    ok(event["samples"]["lost"] <= 0.01 * taken, f"{kind}: {event['samples']['lost']} lost")

event = event_of("shares")
if event is not None:
    rows = {row["symbol"]: row["self"] for row in event["functions"] if re.fullmatch(r"part_\d+", row["symbol"] or "")}
    whole = sum(row["samples"] for row in rows.values()) or 1
    ok(whole >= 0.97 * event["samples"]["taken"], f"shares: {whole} of {event['samples']['taken']} samples in the seven parts")
    for name in ("part_40", "part_25", "part_15", "part_10", "part_5", "part_3", "part_2"):
        truth, row = int(name[5:]) / 100, rows.get(name)
        if row is None:
            ok(False, f"shares: {name} is there")
            continue
        share, half = row["samples"] / whole, (row["run"][1] - row["run"][0]) / 2
        # The run interval holds the truth 19 times in 20; twice as wide it misses one in 15,000.
        ok(abs(share - truth) <= 2 * half, f"shares: {name} has {100 * share:.2f} %, run interval {100 * row['run'][0]:.2f} to {100 * row['run'][1]:.2f}")



def through_descend(text):
    right = wrong = 0
    for stack, n in folded(text):
        if "bottom" in stack:
            full = stack.count("descend") == 301 and "main" in stack
            right, wrong = right + n * full, wrong + n * (not full)
    return right, wrong


right, wrong = through_descend(read("deep.folded"))
ok(right >= 500 and wrong <= 0.01 * right, f"deep: {right} stacks hold each of the 301 frames, {wrong} do not")


def through_signal(text):
    right = wrong = 0
    for stack, n in folded(text):
        if "in_handler" in stack:
            good = re.search(r";main;interrupted_leaf;(?:.*;)?on_alarm;in_handler", ";".join(stack)) is not None
            good = good or re.search(r";main;(?:.*;)?on_alarm;in_handler", ";".join(stack)) is not None
            right, wrong = right + n * good, wrong + n * (not good)
    return right, wrong


right, wrong = through_signal(read("handler.folded"))
ok(right >= 50 and wrong <= 0.01 * right, f"handler: {right} stacks lead through the signal frame to main, {wrong} do not")
for kind in ("shares", "deep", "handler"):
    ok(read(kind + ".folded") != "" and here("fold", "-i", kind + ".data") == read(kind + ".folded"), f"{kind}: fold reads the recording the same here")
    mine, theirs = here("report", "-i", kind + ".data", "--format", "json"), read(kind + ".json")
    try:
        ok(is_same(json.loads(mine)["events"], json.loads(theirs)["events"]), f"{kind}: report reads it the same here")
    except (ValueError, KeyError):
        ok(False, f"{kind}: report reads it here")


def guesses(text):
    """Frames guessed right above code of the vdso, which has no CFI in AArch64's kernels, and anywhere else."""
    vdso = elsewhere = 0
    for paragraph in text.split("\n\n"):
        frames = [line for line in paragraph.splitlines() if line.startswith("\t")]
        for below, frame in zip(frames, frames[1:]):
            if frame.endswith((" fp", " leaf_rule", " code")):
                vdso, elsewhere = vdso + ("([vdso])" in below), elsewhere + ("([vdso])" not in below)
    return len(text), vdso, elsewhere


for kind in ("shares", "deep", "handler"):
    size, vdso, elsewhere = guesses(here("script", "-i", kind + ".data", "--no-inline", "-F", "ip,sym,dso,via"))
    ok(size > 0 and elsewhere == 0, f"{kind}: {vdso} frames are guessed above the vdso's code, {elsewhere} elsewhere")
symfs = os.path.join(folder, "symfs", "bin")
os.makedirs(symfs, exist_ok=True)
shutil.copy(workload, symfs)
mine, theirs = through_descend(here("fold", "-i", "raw.data", "--symfs", os.path.join(folder, "symfs"))), through_descend(read("raw.folded"))
ok(mine[0] >= 100 and mine == theirs, f"registers and stack copies are unwound here as there: {mine[0]} whole stacks, {mine[1]} others; there {theirs}")
print(f"1..{count}")
sys.exit(failed > 0)
