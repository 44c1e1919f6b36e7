#!/usr/bin/env python3
"""make_runs.py FOLDER: recordings as perf script's text, three runs of each side: base1 … base3, new1 … new3. In the new ones `work` takes
50 % instead of 30 %, `idle_check` less, `steady` what it took. The same text at every call."""
import random
import sys

ADDRESSES = {"main": 0x401000, "run": 0x402000, "work": 0x403000, "steady": 0x404000, "idle_check": 0x405000, "start_thread": 0x7f0000001000}


def run(path, seed, shares):
    chance = random.Random(seed)
    with open(path, "w") as out:
        for i in range(2400):
            tid = 4242 + i % 2
            leaf = chance.choices(list(shares), shares.values())[0]
            stack = [leaf, "run"] + (["start_thread"] if tid != 4242 else ["main"])
            out.write("app %d/%d [%03d] %.6f: 1000000 cpu-clock:\n" % (4242, tid, i % 2, 100 + i * 0.001))
            for name in stack:
                out.write("\t%16x %s+0x10 (/opt/%s)\n" % (ADDRESSES[name] + 16, name, "libc.so.6" if name == "start_thread" else "app"))
            out.write("\n")


def main():
    folder = sys.argv[1]
    for i in range(1, 4):
        run("%s/base%d" % (folder, i), i, {"work": 30, "steady": 40, "idle_check": 30})
        run("%s/new%d" % (folder, i), 10 + i, {"work": 50, "steady": 40, "idle_check": 10})


main()
