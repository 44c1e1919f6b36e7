#!/usr/bin/env python3
"""make stats-coverage-real: what the intervals promise, tried on real samples against a program that knows where its time went (bench/truth.c).

    bench/stats_real.py [--reps N] [--minutes M] [--only CELL]… [--keep] [--summary]

Every run is `perfsample record` of a fresh process, then `perfsample report --format json`. The cells take turns until each has its repetitions or
the minutes are over; what each run found stands in $BUILD/bench/stats_real.jsonl (--keep goes on with it, --summary only makes the tables of it).
Writes bench/stats-real.md and bench/stats-real.json; status 1 when a target is missed by more than chance explains.
"""
import argparse
import datetime
import json
import math
import os
import random
import re
import struct
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.abspath(os.environ.get("BUILD", os.path.join(HERE, "../build")))
OURS = os.path.join(BUILD, "perfsample")
TRUTH = os.path.join(BUILD, "bench/truth")
LINES = os.path.join(BUILD, "bench/stats_real.jsonl")
FUNCTIONS = ["spin_a", "spin_b", "spin_c", "spin_d"]
ONE_PAGE = ["-m", "1", "--call-graph", "none", "-c", "339372"]

RUN_S, COMB_S, LOSS_S = 0.3, 0.5, 15.0
DUMMY = "import time\nwhile time.process_time() < 0.15: pass"


def cells():
    """name: (target, schedule, seconds of CPU time, options of record, share of the repetitions)"""
    all_ = {}
    for schedule in ("short", "mid", "long", "burst", "inc"):
        for hz in (99, 1000):
            all_[f"{schedule} {hz} Hz"] = (3, schedule, RUN_S, ["-F", str(hz)], 1)
    for ms in (1, 4, 10):
        all_[f"lock {ms} ms, default period"] = (4, f"lock:{ms}", RUN_S, [], 1)
    all_["lock 1 ms, period 1 ms"] = (4, "lock:1", RUN_S, ["-c", "1ms"], 1)
    all_["lock 1 ms, combs 1 ms + 2.606182 ms"] = (4, "lock:1", COMB_S, ["--two-combs", "-c", "1ms"], 1)
    for schedule in ("short", "mid", "long", "inc"):
        all_[f"{schedule}, two combs"] = (4, schedule, COMB_S, ["--two-combs"], 1)
    all_["stopped while D runs"] = (6, "tied:25", LOSS_S, ONE_PAGE, 0.1)
    all_["stopped at random"] = (6, "stalls:60", LOSS_S, ONE_PAGE, 0.1)
    for metric in ("cpu", "wall"):
        all_[f"trials without an effect, {metric}"] = (8, None, metric, [], 0.1)
    return all_


# ---------------------------------------------------------------- one run

def report(path):
    out = subprocess.run([OURS, "report", "-i", path, "--format", "json", "--top", "1000000"], check=True, capture_output=True)
    return json.loads(out.stdout)


def accounting(event, found):
    """What does not fit together, in words. Samples are counted in the file, what was due is reckoned from the running time: neither by the report."""
    s, faults = event["samples"], []
    combs = event["sampling"].get("combs_ns") or [event["sampling"]["period_ns"]]
    due = sum(event["time_running_ns"] / period for period in combs)
    if s["taken"] + s["idle"] + s["others"] + s["lost"] + s["silent"] != s["expected"]:
        faults.append("the sum is not what was due")
    if s["taken"] + s["idle"] != found["samples"]:
        faults.append(f"{found['samples']} samples in the file, {s['taken'] + s['idle']} taken")
    if abs(due - s["expected"]) > len(combs):
        faults.append(f"{s['expected']} due, {due:.1f} by the running time")
    if s["silent"] < -len(combs):
        faults.append(f"{-s['silent']} samples more than were due")
    return faults


def records(path):
    """Samples of the clock in a perf.data file, and the sums of its LOST and LOST_SAMPLES records (perf_event.h: types 9, 2, 13)."""
    with open(path, "rb") as file:
        data = file.read()
    at, size = struct.unpack_from("<QQ", data, 40)
    end, found = at + size, {"samples": 0, "lost": 0, "lost_samples": 0}
    while at + 8 <= end:
        kind, _, length = struct.unpack_from("<IHH", data, at)
        if length < 8:
            raise RuntimeError(f"{path}: a record of {length} bytes at {at}")
        found["samples"] += kind == 9
        found["lost"] += struct.unpack_from("<Q", data, at + 16)[0] if kind == 2 else 0
        found["lost_samples"] += struct.unpack_from("<Q", data, at + 8)[0] if kind == 13 else 0
        at += length
    return found


def measure(event, name):
    """Attributed by the bounds of the symbol, as the report does."""
    for row in event["functions"]:
        if row["symbol"] == name:
            m = row["self"]
            return {"k": m["samples"], "run": m["run"], "worst": m["worst_case"], "flags": row["flags"]}
    return {"k": 0, "run": [0, event["largest_unseen"]], "worst": None, "flags": []}


def dummy(name, cell):
    """Ten pairs of trials that record on neither side."""
    out = subprocess.run([OURS, "overhead", "--dummy", "--metric", cell[2], "--format", "json", "--", sys.executable, "-c", DUMMY], check=True,
                         capture_output=True)
    result = json.loads(out.stdout)
    return {"cell": name, "load": os.getloadavg()[0], "interval": result["interval"], "overhead": result["overhead"], "pairs": result["pairs"]}


def one(name, cell, work):
    target, schedule, seconds, options, _ = cell
    data, truth_path = os.path.join(work, "one.data"), os.path.join(work, "truth.json")
    from_s = time.monotonic()
    subprocess.run([OURS, "record", "-q", "-o", data, *options, "--", TRUTH, schedule, str(seconds), truth_path], check=True, capture_output=True)
    wall_s = time.monotonic() - from_s
    with open(truth_path) as file:
        truth = json.load(file)
    event = report(data)["events"][0]
    found = records(data)
    all_s = sum(truth["seconds"].values())
    line = {"cell": name, "wall_s": round(wall_s, 3), "load": os.getloadavg()[0], "n": event["n"], "gap_s": truth["gap_seconds"],
            "faults": accounting(event, found), "samples": event["samples"], "stops": truth["stops"],
            "rows": {f: dict(measure(event, f), truth=truth["seconds"][f] / all_s) for f in FUNCTIONS}}
    aliasing = event["aliasing"]
    if aliasing is not None:
        line["suspected"], line["p"] = aliasing["suspected"], aliasing["p"]
    if target == 6:
        line["lost_records"] = found["lost"]
    for path in (data, truth_path):
        os.unlink(path)
    return line


# ---------------------------------------------------------------- running

def read_lines():
    try:
        with open(LINES) as file:
            return [json.loads(line) for line in file]
    except FileNotFoundError:
        return []


def run_all(wanted, reps, minutes, keep):
    work = os.path.join(BUILD, "bench", f"stats_real.{os.getpid()}")
    os.makedirs(work, exist_ok=True)
    done = {}
    for line in read_lines() if keep else []:
        done[line["cell"]] = done.get(line["cell"], 0) + 1
    end_s = time.monotonic() + 60 * minutes
    with open(LINES, "a" if keep else "w") as out:
        while time.monotonic() < end_s:
            # Whoever is furthest behind its share of the repetitions is next: an early end leaves all cells with alike many.
            due = [(done.get(name, 0) / math.ceil(reps * cell[4]), random.random(), name) for name, cell in wanted.items()]
            least, _, name = min(due)
            if least >= 1:
                break
            done[name] = done.get(name, 0) + 1
            line = dummy(name, wanted[name]) if wanted[name][0] == 8 else one(name, wanted[name], work)
            out.write(json.dumps(line) + "\n")
            out.flush()
    os.rmdir(work)


# ---------------------------------------------------------------- what was found

def tails(k, n, p):
    """P(X >= k), P(X <= k) of a binomial"""
    if p <= 0 or p >= 1:
        at = 0 if p <= 0 else n
        return float(k <= at), float(k >= at)
    log_p, log_q, at_least, at_most = math.log(p), math.log1p(-p), 0.0, 0.0
    for i in range(n + 1):
        term = math.exp(math.lgamma(n + 1) - math.lgamma(i + 1) - math.lgamma(n - i + 1) + i * log_p + (n - i) * log_q)
        at_least += term if i >= k else 0
        at_most += term if i <= k else 0
    return at_least, at_most


def check_printed(line):
    """The printed run interval is Clopper and Pearson's: its ends leave 2.5 % each. Their definition, not our code for it."""
    for row in line["rows"].values():
        k, n, (lo, hi) = round(row["k"]), round(line["n"]), row["run"]
        if n == 0:
            continue
        if (k > 0 and abs(tails(k, n, lo)[0] - 0.025) > 1e-6) or (k < n and abs(tails(k, n, hi)[1] - 0.025) > 1e-6):
            raise RuntimeError(f"{line['cell']}: {k} of {n}: the run interval [{lo}, {hi}] is not Clopper and Pearson's")


def run_covers(line, name):
    """Among the four functions alone: what runs between and beneath them is not in the truth. The interval of k of n holds p when neither tail at p is rarer
    than 2.5 %."""
    n = round(sum(row["k"] for row in line["rows"].values()))
    return min(tails(round(line["rows"][name]["k"]), n, line["rows"][name]["truth"])) > 0.025


def worst_covers(line, name):
    row = line["rows"][name]
    if row["worst"] is None:
        return False
    four = sum(r["k"] for r in line["rows"].values()) / line["n"]
    return row["worst"][0] / four <= row["truth"] <= row["worst"][1] / four


def chance(hits, count, wanted, least):
    """How probable a result at least as bad is where the target is just met."""
    at_least, at_most = tails(hits, count, wanted)
    return at_most if least else at_least


def kept(hits, count, wanted, least=True):
    """(the share, whether it is kept, missed, or missed by no more than chance explains)"""
    share = hits / count
    if share >= wanted if least else share <= wanted:
        return share, "kept"
    return share, "missed" if chance(hits, count, wanted, least) < 0.01 else "within chance"


class Table:
    def __init__(self):
        self.lines, self.results, self.missed = [], [], 0

    def row(self, target, what, hits, count, wanted, least=True, note=""):
        share, verdict = kept(hits, count, wanted, least)
        error = 1.96 * math.sqrt(max(share * (1 - share), 0.25 / count) / count)
        self.missed += verdict == "missed"
        sign = ">=" if least else "<="
        self.results.append({"target": target, "what": what, "hits": hits, "runs": count, "share": share, "wanted": [sign, wanted], "verdict": verdict,
                             "note": note})
        self.lines.append(f"| {target} | {what} | {share:.3f} | +-{error:.3f} | {count} | {sign} {wanted:g} | {verdict} | {note} |")
        print(f"{target}  {what:62} {share:.3f} +-{error:.3f}  of {count:4}  {sign} {wanted:<5g} {verdict}  {note}")


def summarize(lines):
    table, by_cell = Table(), {}
    for line in lines:
        by_cell.setdefault(line["cell"], []).append(line)
    for name, cell in cells().items():
        found = by_cell.get(name, [])
        if not found:
            continue
        if cell[0] == 8:
            holds = sum(line["interval"][0] <= 0 <= line["interval"][1] for line in found)
            table.row(8, f"{name}: the interval holds 0", holds, len(found), 0.9)
            continue
        for line in found:
            check_printed(line)
        if cell[0] == 6:
            losses(table, name, found)
        else:
            clocks(table, name, cell, found)
    wrong, with_samples = [line for line in lines if line.get("faults")], [line for line in lines if "faults" in line]
    for line in wrong[:10]:
        print(f"{line['cell']}: {'; '.join(line['faults'])}")
    if with_samples:
        table.row(6, "all runs: the samples add up to what was due", len(with_samples) - len(wrong), len(with_samples), 1)
    return table


def clocks(table, name, cell, found):
    count, covered = len(found), {f: sum(run_covers(line, f) for line in found) for f in FUNCTIONS}
    note = "A, B, C, D: " + ", ".join(f"{covered[f] / count:.3f}" for f in FUNCTIONS)
    forced = "-c" in cell[3]
    if "--two-combs" in cell[3]:
        suspected = sum(line["suspected"] for line in found)
        table.row(4, f"{name}: aliasing suspected", suspected, count, 0.3 if forced else 0.01, forced, f"run interval, {note}")
    elif forced: # proves that the experiment bites: every function's interval fails
        table.row(4, f"{name}: run interval, the best of the four", max(covered.values()), count, 0.7, False, note)
    else:
        table.row(cell[0], f"{name}: run interval, the worst of the four", min(covered.values()), count, 0.95 if cell[0] == 4 else 0.92, True, note)


def losses(table, name, found):
    count, lossy, tied = len(found), [line for line in found if line["samples"]["lost"] > 0], name == "stopped while D runs"
    lost = sorted(line["samples"]["lost_share"] for line in found)[count // 2]
    if not lossy:
        return
    table.row(6, f"{name}: worst case holds D", sum(worst_covers(line, "spin_d") for line in lossy), len(lossy), 0.95, True,
              f"median loss {100 * lost:.2g} %; the run interval alone: {sum(run_covers(line, 'spin_d') for line in lossy) / max(1, len(lossy)):.3f}")
    table.row(6, f"{name}: worst case, the worst of the four", min(sum(worst_covers(line, f) for line in lossy) for f in FUNCTIONS), len(lossy), 0.95)
    if tied:
        table.row(6, f"{name}: loss is tied to spin_d", sum(line["samples"]["tied_to"] == "spin_d" for line in found), count, 0.8)
    else:
        table.row(6, f"{name}: loss is tied to anything", sum(line["samples"]["tied_to"] is not None for line in found), count, 0.08, False)
    table.row(6, f"{name}: LOST records within the read(2) counter", sum(line["lost_records"] <= line["samples"]["lost"] for line in found), count, 1)


def write_results(table, lines):
    model = re.search("model name\\s*: (.*)", open("/proc/cpuinfo").read())
    loads = [line["load"] for line in lines]
    version = subprocess.run([OURS, "--version"], capture_output=True, text=True).stdout.split("\n")[0]
    when = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")
    machine = f"{model.group(1) if model else os.uname().machine}, {os.cpu_count()} CPUs, Linux {os.uname().release}"
    head = f"""# What the intervals promise, on real samples

`make stats-coverage-real`, {version} on {machine}, {when}; load from {min(loads):.0f} to {max(loads):.0f} meanwhile. Every run is a fresh process that knows
where its time went (bench/truth.c), recorded by `perfsample record`. Targets: statistics, section 13; of {RUN_S} s, {COMB_S} s (two combs) and
{LOSS_S:g} s (loss) of CPU time. Each line beside 1.96 standard errors of chance; *within chance* is a miss that the number of runs does not prove.

| target | what | found | +- | runs | wanted | | |
| --- | --- | --- | --- | --- | --- | --- | --- |
"""
    with open(os.path.join(HERE, "stats-real.md"), "w") as out:
        out.write(head + "\n".join(table.lines) + "\n")
    with open(os.path.join(HERE, "stats-real.json"), "w") as out:
        json.dump({"version": version, "machine": machine, "date": when, "loads": [min(loads), max(loads)], "results": table.results}, out, indent=1)
        out.write("\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--reps", type=int, default=300)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--only", action="append", default=[], help="cells whose name starts so")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--summary", action="store_true")
    options = parser.parse_args()
    wanted = {name: cell for name, cell in cells().items() if not options.only or any(name.startswith(o) for o in options.only)}
    if not options.summary:
        run_all(wanted, options.reps, options.minutes, options.keep)
    lines = read_lines()
    table = summarize(lines)
    if lines:
        write_results(table, lines)
    print(f"{table.missed} missed; {len(lines)} runs")
    return int(table.missed > 0 or not lines)


if __name__ == "__main__":
    sys.exit(main())
