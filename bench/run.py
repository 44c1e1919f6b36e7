#!/usr/bin/env python3
"""make bench: ours beside each peer that is installed, in one run; writes bench/results.md and bench/results.json.

    bench/run.py [--long] [--only SECTION,…] [--rows TEXT] [--keep]

Sections: unwind, replay, rules, symbols, record, fold, report, samples, reading, statistics, threads, frames, images. Figures are CPU time (user + system) of the one process
that is measured, the least of a few runs, and peak memory. --long takes up to ten minutes and goes to 10,000 threads and 1,000 images.
"""
import argparse
import datetime
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import time

import inputs
import recorders

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.abspath(os.environ.get("BUILD", os.path.join(HERE, "../build")))
OURS = os.path.join(BUILD, "perfsample")
WORK = os.path.join(BUILD, "bench/work")
HAS_PERF = shutil.which("perf") is not None
results, chosen = {"sections": {}}, {"rows": ""}


def at(name):
    return os.path.join(WORK, name)


def run(argv, **more):
    """(CPU seconds, peak MB, exit status) of one process."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "stdin": subprocess.DEVNULL}
    quiet.update(more)
    child = subprocess.Popen([str(a) for a in argv], **quiet)
    _, status, usage = os.wait4(child.pid, 0)
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, os.waitstatus_to_exitcode(status)


def least(argv, times=3):
    taken = [run(argv) for _ in range(times)]
    if any(status != 0 for _, _, status in taken):
        raise RuntimeError(f"failed: {' '.join(map(str, argv))}")
    return min(cpu for cpu, _, _ in taken), max(mb for _, mb, _ in taken)


def least_wall(argv, times=5):
    taken = []
    for _ in range(times):
        start = time.monotonic()
        run(argv)
        taken.append(time.monotonic() - start)
    return min(taken)


def record_row(name, target, hz, copy, times=(recorders.SHORT, recorders.WARM, recorders.LONG), more=()):
    """One line of figures: ours and, where there is perf, perf's."""
    row = {"what": name, "hz": hz, "copy_bytes": copy}
    how = ["-F", hz, "--call-graph", f"dwarf,{copy}", "-e", "cpu-clock"]
    ours, theirs, summary = at("ours.data"), at("perf.data"), at("summary.json")
    found = recorders.costs([OURS, "record", "-q", "--no-symbols", "--summary", summary, "-o", ours, *more] + how, ours, target, 2, *times)
    got = json.load(open(summary))
    counts, stacks = got["events"][0]["samples"], got["stacks"]
    row["ours"] = found | {
        "samples": counts["taken"], "lost": counts["lost"] + counts["dropped"],
        "taken_share": counts["taken"] / max(1, counts["taken"] + counts["lost"] + counts["dropped"]),
        "file_mb_per_cpu_second": found["file_mb"] * hz / max(1, counts["expected"]),
        "complete_share": (stacks.get("complete", 0) + stacks.get("joined", 0)) / max(1, sum(stacks.values())),
    }
    if HAS_PERF:
        found = recorders.costs(["perf", "record", "-q", "-B", "-k", "CLOCK_MONOTONIC", "-o", theirs] + how, theirs, target, 1, *times)
        all_of_them = max(1, found["samples"] + found["lost"])
        row["perf"] = found | {"taken_share": found["samples"] / all_of_them, "file_mb_per_cpu_second": found["file_mb"] * hz / all_of_them}
        row["ratio"] = row["perf"]["steady_us"] / max(row["ours"]["steady_us"], 1e-6)
    return row


RECORD_COLUMNS = [
    ("what", lambda r: r["what"]), ("Hz", lambda r: r["hz"]), ("copy", lambda r: f"{r['copy_bytes'] / 1024:.0f} KiB"),
    ("short run, µs/sample", lambda r: f"{r['ours']['short_us']:.1f}"), ("perf", lambda r: peer(r, "short_us", ".1f")),
    ("steady, µs/sample", lambda r: f"{r['ours']['steady_us']:.1f}"), ("perf ", lambda r: peer(r, "steady_us", ".1f")),
    ("perf / ours", lambda r: f"{r['ratio']:.1f}" if "ratio" in r else "-"),
    ("samples", lambda r: r["ours"]["samples"]), ("kept", lambda r: f"{r['ours']['taken_share']:.4f}"),
    ("perf kept", lambda r: peer(r, "taken_share", ".4f")), ("whole stacks", lambda r: f"{100 * r['ours']['complete_share']:.1f}%"),
    ("MB per CPU s", lambda r: f"{r['ours']['file_mb_per_cpu_second']:.2f}"), ("perf", lambda r: peer(r, "file_mb_per_cpu_second", ".1f")),
    ("peak MB", lambda r: f"{r['ours']['peak_mb']:.0f}"), ("perf", lambda r: peer(r, "peak_mb", ".0f")), ("others' CPU", lambda r: f"{100 * r['others_share']:.1f}%"),
]


def peer(row, key, form):
    return format(row["perf"][key], form) if row.get("perf", {}).get(key) is not None else "-"


def busy(threads, frames, *images):
    """Both CPUs' worth for a while longer than a recorder stays."""
    return lambda seconds: recorders.command([os.path.join(BUILD, "bench/busy"), threads, frames, (seconds + 2) * min(threads, os.cpu_count()), *images])


def record_rows(section, plans, more=lambda row: {}):
    """A row for each plan; with --rows those that have its text in their names are measured, the others stay as they were."""
    before = {(r["what"], r["hz"], r["copy_bytes"]): r for r in results["sections"].get(section, {}).get("rows", []) if "others_share" in r}
    rows = []
    for plan in plans:
        name, _, hz, copy = plan[:4]
        row = before.get((name, hz, copy))
        if chosen["rows"] in f"{name} {hz} {copy / 1024:.0f}K":
            others = recorders.Others()
            row = record_row(*plan) | {"others_share": others.share()}
            row |= more(row)
            print(f"  {name}, {hz} Hz, {copy} bytes: {row['ours']['short_us']:.1f} {row['ours']['steady_us']:.1f}", flush=True)
        if row is not None:
            rows.append(row)
    return rows, RECORD_COLUMNS


# ---------------------------------------------------------------- sections

def unwind(_):
    found = {}
    for _ in range(5): # the least of five
        text = subprocess.run([os.path.join(BUILD, "bench/unwind_bench")], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True).stdout
        for line in text.splitlines():
            stacks, who, frames, ns = line.split("\t")
            row = found.setdefault((stacks, who), {"stacks": stacks, "who": who, "frames": float(frames), "ns_per_frame": float(ns)})
            row["ns_per_frame"] = min(row["ns_per_frame"], float(ns))
    rows = list(found.values())
    return rows, [("stacks", lambda r: r["stacks"]), ("who", lambda r: r["who"]), ("frames a stack", lambda r: f"{r['frames']:.0f}"),
                  ("ns/frame", lambda r: f"{r['ns_per_frame']:.1f}")]


def replayed_recordings():
    """(name, file) of recordings with 64 KiB of stack a sample, of programs whose stacks differ in kind."""
    post = [OURS, "record", "-q", "--no-symbols", "--unwind", "post", "--max-cpu", "100", "-F", "999", "-e", "cpu-clock", "--call-graph", "dwarf,65528"]
    templates, made = inputs.templates_cc(at("t.cc")), []

    def add(name, command):
        path = at(f"replay-{len(made)}.data")
        run(post + ["-o", path] + command)
        made.append((name, path))

    tools = inputs.postgres_tools()
    if tools is not None:
        with inputs.postgres_backends(tools, 6) as pids:
            if pids:
                add("PostgreSQL", ["-p", ",".join(pids), "--duration", "4"])
    if shutil.which("clang++"):
        add("clang", ["--", "clang++", "-O2", "-c", templates, "-o", at("t.o")])
    subprocess.run(["g++", "-O2", "-o", at("deep"), inputs.deep_cc(at("deep.cc"))], check=True)
    add("deep C++ recursion", ["--", at("deep"), "3"])
    add("cc1plus", ["--", "g++", "-O2", "-c", templates, "-o", at("t.o")])
    return made


# Of framehop 0.15 no program is at hand; measured once with stacks cold in memory on a 2-core EPYC VM, libunwind and libdw taking 1436 / 1359 / 568 and
# 564 / 751 / 372 there (PostgreSQL / clang / deep recursion).
FRAMEHOP = {"PostgreSQL": 220, "clang": 218, "deep C++ recursion": 11.8}


def replay(_):
    made = replayed_recordings()
    text = subprocess.run([os.path.join(BUILD, "bench/unwind_replay"), "--passes", "15"] + [f"{name}={path}" for name, path in made],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True).stdout
    rows = []
    for line in text.splitlines():
        stacks, who, frames, ns, median = line.split("\t")
        rows.append({"stacks": stacks, "who": who, "frames": float(frames), "ns_per_frame": float(ns), "median": float(median)})
    for name, ns in FRAMEHOP.items():
        rows.append({"stacks": name, "who": "framehop 0.15, cold stacks in place, published (not run here)", "ns_per_frame": ns})
    rows.sort(key=lambda r: [name for name, _ in made].index(r["stacks"]) if r["stacks"] in dict(made) else 99)
    return rows, [("stacks", lambda r: r["stacks"]), ("who", lambda r: r["who"]), ("frames a stack", lambda r: f"{r['frames']:.0f}" if "frames" in r else "-"),
                  ("ns/frame", lambda r: f"{r['ns_per_frame']:.1f}"), ("median", lambda r: f"{r['median']:.1f}" if "median" in r else "-")]


def rules(_):
    wanted = ["/usr/lib/x86_64-linux-gnu/libLLVM*.so.1", "/usr/lib/gcc/*/*/cc1plus", "/usr/lib/postgresql/*/bin/postgres", "/usr/lib/x86_64-linux-gnu/libc.so.6",
              "/usr/lib/chromium/chromium"]
    files = [sorted(found)[-1] for found in map(glob.glob, wanted) if found]
    text = subprocess.run([os.path.join(BUILD, "bench/rules_bench")] + files, stdout=subprocess.PIPE, text=True, check=True).stdout
    rows = []
    for line in text.splitlines():
        name, fdes, count, us, opened, longest, kb = line.split("\t")
        rows.append({"image": name, "fdes": int(fdes), "rows": int(count), "us_per_row": float(us), "open_us": float(opened), "longest_us": float(longest),
                     "kb": int(kb)})
    return rows, [("image", lambda r: r["image"]), ("FDEs", lambda r: r["fdes"]), ("rows", lambda r: r["rows"]), ("µs/row", lambda r: f"{r['us_per_row']:.3f}"),
                  ("open, µs", lambda r: f"{r['open_us']:.0f}"), ("longest touch, µs", lambda r: f"{r['longest_us']:.0f}"), ("KB, all compiled", lambda r: r["kb"])]


def symbols(_):
    rows = []
    bench, count = os.path.join(BUILD, "bench/symbols_bench"), 5000
    for what in ("names", "lines"):
        cpu = None
        for _ in range(3):
            line = subprocess.run([bench, OURS, str(count)] + (["names"] if what == "names" else []), stdout=subprocess.PIPE, text=True, check=True).stdout
            us = float(line.split("\t")[3])
            cpu = us if cpu is None else min(cpu, us)
        rows.append({"who": f"perfsample, inline chains, {what}", "us_per_address": cpu})
    addresses = subprocess.run([bench, OURS, str(count), "list"], stdout=subprocess.PIPE, check=True).stdout
    open(at("addresses"), "wb").write(addresses)
    for tool in ("addr2line", "eu-addr2line", "llvm-symbolizer"):
        if shutil.which(tool):
            argv = [tool, "-e", OURS] + ([] if tool == "llvm-symbolizer" else ["-i", "-f"])
            with open(at("addresses")) as stdin:
                cpu, _, _ = run(argv, stdin=stdin)
            rows.append({"who": tool + ", one process", "us_per_address": 1e6 * cpu / count})
    return rows, [("who", lambda r: r["who"]), ("µs/address", lambda r: f"{r['us_per_address']:.2f}")]


def record_section(_):
    gcc = recorders.again_and_again(["gcc", "-O2", "-c", inputs.big_c(at("big.c")), "-o", at("big.o")])
    clang = recorders.again_and_again(["clang++", "-O2", "-c", inputs.templates_cc(at("t.cc")), "-o", at("t.o")])
    plans = [("200 threads", busy(200, 20), 999, 8192), ("200 threads", busy(200, 20), 3999, 8192), ("200 threads", busy(200, 20), 999, 65528)]
    for name, target, there in (("PostgreSQL, pgbench -c4 -S", recorders.postgres, inputs.postgres_tools()), ("gcc -O2", gcc, True),
                                ("clang++ -O2", clang, shutil.which("clang++"))):
        if there:
            plans += [(name, target, 999, 8192), (name, target, 999, 65528)]
    if shutil.which("clang++"):
        plans.append(("clang++ -O2, --no-join", clang, 999, 65528, (recorders.SHORT, recorders.WARM, recorders.LONG), ("--no-join",)))
    return record_rows("record", plans)


def raw_recordings():
    """Raw stacks as perf records them, which both read."""
    if not HAS_PERF:
        return []
    plans = [("gcc, 8 KiB", at("gcc8.data"), 3999, 8192, ["gcc", "-O2", "-c", inputs.big_c(at("big.c")), "-o", at("big.o")])]
    if shutil.which("clang++"):
        plans.append(("clang++, 64 KiB", at("clang64.data"), 999, 65528, ["clang++", "-O2", "-c", inputs.templates_cc(at("t.cc")), "-o", at("t.o")]))
    for _, path, hz, copy, command in plans:
        if not os.path.exists(path):
            run(["perf", "record", "-q", "-o", path, "-e", "cpu-clock", "-F", hz, "--call-graph", f"dwarf,{copy}", "--"] + command)
    return plans


def fold(_):
    rows = []
    for name, path, _, _, _ in raw_recordings():
        samples = recorders.count_samples(path)
        cpu, mb = least([OURS, "fold", "-i", path, "--inline"], 5)
        theirs, their_mb = least(["perf", "script", "--no-inline", "-i", path], 2)
        rows.append({"what": name, "samples": samples, "ours_us": 1e6 * cpu / samples, "perf_us": 1e6 * theirs / samples, "ratio": theirs / cpu,
                     "ours_mb": mb, "perf_mb": their_mb})
    return rows, [("raw stacks of", lambda r: r["what"]), ("samples", lambda r: r["samples"]), ("fold --inline, µs/sample", lambda r: f"{r['ours_us']:.1f}"),
                  ("perf script --no-inline", lambda r: f"{r['perf_us']:.0f}"), ("perf / ours", lambda r: f"{r['ratio']:.1f}"),
                  ("peak MB", lambda r: f"{r['ours_mb']:.0f}"), ("perf", lambda r: f"{r['perf_mb']:.0f}")]


def report(_):
    rows = []
    for name, path, _, _, _ in raw_recordings():
        samples = recorders.count_samples(path)
        cpu, mb = least([OURS, "report", "-i", path], 3)
        theirs, their_mb = least(["perf", "report", "--stdio", "--no-inline", "-i", path], 1)
        rows.append({"what": name, "samples": samples, "ours_s": cpu, "perf_s": theirs, "ratio": theirs / cpu, "ours_mb": mb, "perf_mb": their_mb})
    return rows, [("raw stacks of", lambda r: r["what"]), ("samples", lambda r: r["samples"]), ("report, CPU s", lambda r: f"{r['ours_s']:.2f}"),
                  ("perf report --no-inline", lambda r: f"{r['perf_s']:.2f}"), ("perf / ours", lambda r: f"{r['ratio']:.1f}"),
                  ("peak MB", lambda r: f"{r['ours_mb']:.0f}"), ("perf", lambda r: f"{r['perf_mb']:.0f}")]


def samples_curve(_):
    base, rows = at("base.data"), []
    command = ["gcc", "-O2", "-c", inputs.big_c(at("big.c")), "-o", at("big.o")]
    run([OURS, "record", "-q", "-F", "3999", "-o", base, "--"] + command)
    for times in (1, 10, 100):
        path = at(f"x{times}.data")
        subprocess.run([sys.executable, os.path.join(HERE, "multiply.py"), base, path, str(times)], check=True)
        samples = recorders.count_samples(path)
        tries = 3 if times < 100 else 1
        row = {"samples": samples, "file_mb": os.path.getsize(path) / 1e6}
        row["report_s"], row["report_mb"] = least([OURS, "report", "-i", path], tries)
        row["fold_s"], row["fold_mb"] = least([OURS, "fold", "-i", path], tries)
        if HAS_PERF and times <= 10:
            row["perf_s"], row["perf_mb"] = least(["perf", "report", "--stdio", "--no-inline", "-i", path], 1)
        rows.append(row)
        os.unlink(path)
    return rows, [("samples", lambda r: r["samples"]), ("file MB", lambda r: f"{r['file_mb']:.0f}"), ("report, CPU s", lambda r: f"{r['report_s']:.2f}"),
                  ("µs/sample", lambda r: f"{1e6 * r['report_s'] / r['samples']:.2f}"), ("peak MB", lambda r: f"{r['report_mb']:.0f}"),
                  ("fold, CPU s", lambda r: f"{r['fold_s']:.2f}"), ("perf report", lambda r: f"{r['perf_s']:.2f}" if "perf_s" in r else "-"),
                  ("perf peak MB", lambda r: f"{r['perf_mb']:.0f}" if "perf_mb" in r else "-")]


def reading_curve(_):
    """Call chains of one long run, beside what it costs to read their file: cat from the page cache, which calls read(2) as we do."""
    base = at("base.data")
    run([OURS, "record", "-q", "-F", "999", "-o", base, "--", "gcc", "-O2", "-c", inputs.big_c(at("big.c")), "-o", at("big.o")])
    start, _ = least([OURS, "report", "-i", base], 7)
    start_wall = least_wall([OURS, "report", "-i", base])
    rows = []
    for size in ("10M", "100M", "1G"):
        path = at("reading.data")
        subprocess.run([sys.executable, os.path.join(HERE, "multiply.py"), "--samples", base, path, size], check=True)
        cat, _ = least(["cat", path], 7)
        cat_wall, wall, one_wall = (least_wall(argv) for argv in (["cat", path], [OURS, "report", "-i", path], [OURS, "report", "--jobs", "1", "-i", path]))
        seconds, peak = least([OURS, "report", "-i", path], 7)
        fold_seconds, fold_peak = least([OURS, "fold", "-i", path])
        flame_seconds, flame_peak = least([OURS, "flame", "-i", path, "-o", at("reading.svg")])
        rows.append({"wall": wall, "cat_wall": cat_wall, "one_wall": one_wall, "wall_ratio": (wall - start_wall) / cat_wall, "file": size, "cat": cat, "report": seconds, "more": seconds - start, "ratio": (seconds - start) / cat if cat > 0 else 0,
                     "peak": peak, "fold": fold_seconds, "fold_peak": fold_peak, "flame": flame_seconds, "flame_peak": flame_peak})
        os.remove(path)
    return rows, [("file", lambda r: r["file"]), ("cat, CPU s", lambda r: f"{r['cat']:.3f}"), ("report, CPU s", lambda r: f"{r['report']:.2f}"),
                  ("without start, names and intervals", lambda r: f"{r['more']:.3f}"), ("of cat's CPU", lambda r: f"{r['ratio']:.1f}"),
                  ("cat, wall s", lambda r: f"{r['cat_wall']:.3f}"), ("report, wall s", lambda r: f"{r['wall']:.2f}"),
                  ("report --jobs 1, wall s", lambda r: f"{r['one_wall']:.2f}"), ("report without start, of cat's wall", lambda r: f"{r['wall_ratio']:.1f}"),
                  ("peak MB", lambda r: f"{r['peak']:.0f}"), ("fold, CPU s", lambda r: f"{r['fold']:.2f}"),
                  ("peak MB", lambda r: f"{r['fold_peak']:.0f}"), ("flame, CPU s", lambda r: f"{r['flame']:.2f}"),
                  ("peak MB", lambda r: f"{r['flame_peak']:.0f}")]


# What the report does beyond counting: blocks of time and visits while it counts, intervals and ranks of rows, loss, aliasing, verdict.
STATISTICS = {"flush_block", "common_block", "block_of", "tally_count_moves", "tally_settle_moves", "count_start", "count_visits", "count_ends", "build_rows"}


def shares_of(path):
    """By the stacks of the report's own samples, of three runs: (samples, those of statistics, those of all that report_build does). Statistics are
    what has one of the functions above in its stack, and all of report_build but its count of samples by row, which a report of bare counts needs too."""
    own, all_, statistics_, build = at("wide-report.data"), 0, 0, 0
    for _ in range(3):
        run([OURS, "record", "-q", "-F", "1999", "-o", own, "--", OURS, "report", "-i", path])
        for line in subprocess.run([OURS, "fold", "--inline", "-i", own], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines():
            stack, count = line.rsplit(" ", 1)
            frames = {re.sub(r"\.(part|isra|constprop|cold).*", "", frame).removesuffix("_[i]") for frame in stack.split(";")}
            all_ += int(count)
            build += int(count) if "report_build" in frames else 0
            statistics_ += int(count) if frames & STATISTICS or ("report_build" in frames and "count_samples" not in frames) else 0
    return all_, statistics_, build


def statistics(_):
    """Functions of which some have far more of the samples than others; a quarter of the samples are in another function than the one before."""
    rows = []
    for functions, samples in ((10000, 1000000), (10000, 10000000)):
        path = at("wide.data")
        inputs.wide_recording(path, WORK, functions, samples)
        seconds, peak = least([OURS, "report", "-i", path])
        taken, of_statistics, build = shares_of(path)
        rows.append({"functions": functions, "samples": samples, "report": seconds, "peak": peak, "share": of_statistics / taken, "build": build / taken})
        os.remove(path)
    return rows, [("functions", lambda r: f"{r['functions']:,}"), ("samples", lambda r: f"{r['samples']:,}"), ("report, CPU s", lambda r: f"{r['report']:.2f}"),
                  ("statistics", lambda r: f"{100 * r['share']:.1f} %"), ("and the counting of samples by row", lambda r: f"{100 * r['build']:.1f} %"),
                  ("peak MB", lambda r: f"{r['peak']:.0f}")]


def threads_curve(long):
    return record_rows("threads", [(f"{n} threads", busy(n, 20), 999, 8192, (2, 2, 4)) for n in [1, 10, 100, 1000] + ([10000] if long else [])])


def frames_curve(_):
    return record_rows("frames", [(f"{n} frames", busy(2, n), 999, 65528, (2, 2, 4)) for n in (10, 50, 100, 200, 400)])


def images_curve(long):
    plans = []
    for n in [10, 100] + ([1000] if long else []):
        folder = inputs.libraries(os.path.join(BUILD, "bench/libraries"), n)
        plans.append((f"{n} images", busy(2, 10, folder, n), 999, 8192, (2, 2, 4)))
    rows, columns = record_rows("images", plans, lambda _: dict(zip(("report_s", "report_mb"), least([OURS, "report", "-i", at("ours.data")], 3))))
    return rows, columns + [("report, CPU s", lambda r: f"{r['report_s']:.3f}")]


SECTIONS = {
    "unwind": (unwind, "The walk: stacks made by the benchmark itself; peers unwind the live stack"),
    "replay": (replay, "The walk: raw stacks of real programs, libunwind and libdw on the same stacks; the least and the median of 15 passes"),
    "rules": (rules, "Compiling CFI into rules: every FDE of an image on its first touch"),
    "symbols": (symbols, "Names of 5,000 addresses spread over the program's own code"),
    "record": (record_section, "Recording: CPU of the recorder a sample, unwinding included (perf copies stacks and unwinds later)"),
    "fold": (fold, "Folded stacks from raw copies that perf recorded"),
    "report": (report, "Reports of the same recordings"),
    "samples": (samples_curve, "Growth: samples (one gcc recording, repeated)"),
    "reading": (reading_curve, "Reading: call chains beside cat of the same file from the page cache"),
    "statistics": (statistics, "Statistics: their share of a report's CPU time, 10,000 functions"),
    "threads": (threads_curve, "Growth: threads"),
    "frames": (frames_curve, "Growth: frames a stack"),
    "images": (images_curve, "Growth: images"),
}

RECORDED = ("CPU time is that of the recorder's own process, all threads. What the kernel does at a tick (the interrupt, copying the stack into the ring) "
            "happens in the context of the sampled program and is no part of it, so nothing is subtracted. Short run: the whole process, exec to exit, of a "
            "run of {} s, its start, its first meeting with every image and its end included. Steady: second {} to second {} of another run, by the "
            "process's CPU clock. Of ours the least of two runs each; gcc and clang begin anew whenever they end. Names are looked up in neither (ours: "
            "--no-symbols, perf: -B). Others' CPU: what other programs used of the machine meanwhile.")
NOTES = {"record": RECORDED.format(recorders.SHORT, recorders.WARM, recorders.LONG), "threads": RECORDED.format(2, 2, 4),
         "frames": RECORDED.format(2, 2, 4), "images": RECORDED.format(2, 2, 4)}


def machine():
    cpu = re.search(r"model name\s*: (.*)", open("/proc/cpuinfo").read())
    perf = subprocess.run(["perf", "--version"], stdout=subprocess.PIPE, text=True, check=False).stdout.strip() if HAS_PERF else "no perf"
    gcc = subprocess.run(["gcc", "-dumpfullversion"], stdout=subprocess.PIPE, text=True, check=False).stdout.strip()
    memory = int(re.search(r"MemTotal:\s*(\d+)", open("/proc/meminfo").read()).group(1)) / 1e6
    return (f"{cpu.group(1) if cpu else os.uname().machine}, {os.cpu_count()} CPUs, {memory:.0f} GB, Linux {os.uname().release}, gcc {gcc}, {perf}")


def table(rows, columns):
    lines = ["| " + " | ".join(title.strip() for title, _ in columns) + " |", "|" + " --- |" * len(columns)]
    lines += ["| " + " | ".join(str(text(row)) for _, text in columns) + " |" for row in rows]
    return "\n".join(lines)


def write():
    text = [f"# Figures of `make bench`\n\n{results['version']} on {results['machine']}.\n\nEvery figure of ours has its peer beside it from "
            "the same run; times vary from machine to machine and with what else runs (the load at the start is said), ratios less. CPU time is "
            "user + system.\n"]
    for name, (_, title) in SECTIONS.items():
        section = results["sections"].get(name)
        if section is not None:
            others = f"; others used {100 * section['others_share']:.1f}% of the CPUs" if "others_share" in section else ""
            note = f"{section['note']}\n\n" if "note" in section else ""
            text.append(f"## {title}\n\nMeasured {section['measured']}, load {section['load']}{others}.\n\n{note}" + "\n".join(section["table"]) + "\n")
    with open(os.path.join(HERE, "results.md"), "w") as f:
        f.write("\n".join(text))
    with open(os.path.join(HERE, "results.json"), "w") as f:
        json.dump(results, f, indent=1)
        f.write("\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--only", default=",".join(SECTIONS))
    parser.add_argument("--keep", action="store_true", help="keep the inputs in build/bench/work")
    parser.add_argument("--rows", default="", help="of recordings: only rows with this text in \"NAME HZ COPY\", as in \"gcc -O2 999 64K\"")
    options = parser.parse_args()
    chosen["rows"] = options.rows
    wanted = options.only.split(",")
    os.makedirs(WORK, exist_ok=True)
    results["version"] = subprocess.run([OURS, "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()[0]
    results["machine"] = machine()
    path = os.path.join(HERE, "results.json")
    if wanted != list(SECTIONS) and os.path.exists(path): # the others stay as they were measured
        results["sections"] = json.load(open(path))["sections"]
    start = time.monotonic()
    for name, (section, title) in SECTIONS.items():
        if name not in wanted:
            continue
        print(f"== {title}", flush=True)
        others = recorders.Others()
        load, date = os.getloadavg()[0], datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
        rows, columns = section(options.long)
        shown = table(rows, columns) if rows else "needs perf"
        results["sections"][name] = {"measured": date, "load": round(load, 1), "others_share": others.share(), "rows": rows, "table": shown.splitlines()}
        if name in NOTES:
            results["sections"][name]["note"] = NOTES[name]
        print(shown, flush=True)
    write()
    print(f"bench: {time.monotonic() - start:.0f} s; bench/results.md and bench/results.json are written")
    if not options.keep:
        shutil.rmtree(WORK)


main()
