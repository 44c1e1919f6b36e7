#!/usr/bin/env python3
"""Compares `perfsample fold --no-inline` with stacks that others folded.

usage: compare_folded.py KIND GOLDEN OURS, where KIND is
  totals  GOLDEN has one frame, the command: our lines add up to it
  leaf    GOLDEN is perf 6.1's of a program without .eh_frame_hdr, which it does not unwind: of user space it has the innermost frame, or none.
          Counts of (command, innermost user function) are the same; where perf has no name, ours is not told by another line of perf's
  depth   GOLDEN is perf 6.1's of an LBR call stack, where nothing had to be unwound: counts of (command, number of frames) are the same
Prints how many samples agree; status 1 when one does not."""
import re
import sys
from collections import Counter

MARKS = ("[unwind failed]", "[truncated]")


def read(path):
    for line in open(path):
        stack, count = line.rstrip("\n").rsplit(" ", 1)
        frames = [frame for frame in stack.split(";") if frame not in MARKS]
        yield frames[0], frames[1:], int(count)


def innermost(frames):
    """Its user function, without return type and parameters, as perf 6.1 writes it; a PLT's slot by the symbol before it."""
    name = next((frame for frame in reversed(frames) if not re.fullmatch(r"\[.*\]", frame)), "")
    name = "_init" if name.endswith("@plt") else re.sub(r"\(.*$", "", name)
    return re.sub(r"^(void|double|int|bool|unsigned long) ", "", name)


def main():
    kind, golden, ours = sys.argv[1:]
    key = {"totals": lambda comm, frames: (comm,), "leaf": lambda comm, frames: (comm, innermost(frames)),
           "depth": lambda comm, frames: (comm, len(frames))}[kind]
    wanted, got = Counter(), Counter()
    for path, counts in ((golden, wanted), (ours, got)):
        for comm, frames, count in read(path):
            counts[key(comm, frames)] += count
    if kind == "leaf":
        for comm in {k[0] for k in wanted}:
            unnamed = wanted.pop((comm, ""), 0)
            more = sum(n - wanted[k] for k, n in got.items() if k[0] == comm and n > wanted[k])
            if more == unnamed:
                for k in [k for k in got if k[0] == comm]:
                    wanted[k] = max(wanted[k], got[k])
    for k in sorted(set(wanted) | set(got), key=str):
        if wanted[k] != got[k]:
            print(f"#   {k}: {got[k]}, expected {wanted[k]}")
    print(f"{sum((wanted & got).values())} of {sum(wanted.values())} by {kind}")
    return 0 if wanted == got and got else 1


sys.exit(main())
