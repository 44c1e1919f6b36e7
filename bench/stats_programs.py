#!/usr/bin/env python3
"""Does the workload interval of one recording foretell the others? Real programs, recorded several times each, every recording held against the rest.

    bench/stats_programs.py [--runs N] [--seconds S] [--only PROGRAM,…] [--keep] [--summary]

PostgreSQL (pgbench -S), gcc, Redis (redis-benchmark), nginx (wrk), Python and Node, as far as they are installed; what is not is said. Each run starts the
program afresh; the programs take turns. What the reports said stands in $BUILD/bench/stats_programs.jsonl (--keep goes on with it, --summary only makes the
tables). Writes bench/stats-programs.md and bench/stats-programs.json; status 1 when the unflagged rows are covered less than 90 times in 100.

What is counted, for each of the first 20 rows of a recording and each other recording of that program:
  direct    the other's share lies inside this one's workload interval. Both shares were sampled: the difference of two has 1.4 times the error of one, so
            of intervals that are right some 83 in 100 hold the other's share, not 95.
  covered   the two shares differ by no more than both errors together: sqrt((u - p)^2 + (p' - l')^2) for an other share p' above, with u the upper end of
            this one's interval and l' the lower one of the other's, and the other way round below (Newcombe's square-and-add). 95 in 100 where the
            intervals are right. A function that the other recording does not have is at 0, its upper end being what may be unseen.
  pooled    the mean of all others lies within this one's error and that of the mean, added the same way. 95 in 100.
"""
import argparse
import datetime
import glob
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

import inputs

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.abspath(os.environ.get("BUILD", os.path.join(HERE, "../build")))
OURS = os.path.join(BUILD, "perfsample")
LINES = os.path.join(BUILD, "bench/stats_programs.jsonl")
ROWS = 20
UNSUPPORTED = {"few": "~", "trend": "^", "run_only": "run only", "aliasing": "!", "tied_loss": "*"}
QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "stdin": subprocess.DEVNULL}

PYTHON = """
import json, re, sys, time
end, turn, state = float(sys.argv[1]), 0, 1
words = [f"w{i * 2654435761 % 10007}" for i in range(4000)]
def number():
    global state
    state = (state * 1103515245 + 12345) % 2147483648
    return state
def parse(n):
    text = json.dumps([{"id": i, "name": words[i % 4000], "tags": words[i % 50:i % 50 + 5]} for i in range(n)])
    return sum(len(entry["tags"]) for entry in json.loads(text))
def count(n):
    seen = {}
    for _ in range(n):
        word = words[number() % 4000]
        seen[word] = seen.get(word, 0) + 1
    return sorted(seen.items(), key=lambda item: (-item[1], item[0]))[:10]
def match(n):
    text = " ".join(words[number() % 4000] for _ in range(n))
    return len(re.findall(r"w\\d*7\\b", text))
while time.process_time() < end:
    parse(200 + number() % 400), count(3000 + number() % 3000), match(1000 + number() % 2000)
"""
NODE = """
const end = Number(process.argv[2]) * 1e6, crypto = require('crypto');
let state = 1;
const number = () => (state = (state * 1103515245 + 12345) % 2147483648);
const words = Array.from({ length: 4000 }, (_, i) => 'w' + (i * 2654435761) % 10007);
function parse(n) {
  const text = JSON.stringify(Array.from({ length: n }, (_, i) => ({ id: i, name: words[i % 4000], tags: words.slice(i % 50, i % 50 + 5) })));
  return JSON.parse(text).reduce((sum, entry) => sum + entry.tags.length, 0);
}
function count(n) {
  const seen = new Map();
  for (let i = 0; i < n; i++) { const word = words[number() % 4000]; seen.set(word, (seen.get(word) || 0) + 1); }
  return [...seen].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).slice(0, 10);
}
function digest(n) { return crypto.createHash('sha256').update('x'.repeat(n)).digest('hex'); }
while (process.cpuUsage().user + process.cpuUsage().system < end) {
  parse(300 + number() % 600); count(3000 + number() % 6000); digest(20000 + number() % 40000);
}
"""
NGINX = """
daemon off; worker_processes 1; pid {work}/nginx.pid; error_log /dev/null;
events {{ worker_connections 256; }}
http {{ access_log {work}/access.log; sendfile on; keepalive_requests 1000000;
  client_body_temp_path {work}/t1; proxy_temp_path {work}/t2; fastcgi_temp_path {work}/t3; uwsgi_temp_path {work}/t4; scgi_temp_path {work}/t5;
  server {{ listen unix:{work}/http.sock; listen 127.0.0.1:{port}; root {work}/html; }} }}
"""


# ---------------------------------------------------------------- programs

class Missing(Exception):
    pass


def tool(name):
    for path in [shutil.which(name), *glob.glob(f"/usr/lib/postgresql/*/bin/{name}"), f"/usr/sbin/{name}"]:
        if path and os.access(path, os.X_OK):
            return path
    raise Missing(f"{name} is not installed")


def start(argv, **more):
    return subprocess.Popen([str(a) for a in argv], **{**QUIET, **more})


def stop(child):
    child.terminate()
    child.wait()


def descent(pid):
    """The process and all that it begot."""
    pids = [pid]
    for task in glob.glob(f"/proc/{pid}/task/*/children"):
        with open(task) as file:
            for child in file.read().split():
                pids += descent(int(child))
    return pids


def watch(pids, data, seconds):
    subprocess.run([OURS, "record", "-q", "-o", data, "-p", ",".join(map(str, pids)), "--duration", f"{seconds}s"], check=True, **QUIET)


def command(argv, data):
    subprocess.run([OURS, "record", "-q", "-o", data, "--", *[str(a) for a in argv]], check=True, **QUIET)


def as_postgres(work):
    """PostgreSQL refuses root."""
    if os.geteuid() != 0:
        return {}
    shutil.chown(work, "postgres")
    return {"user": "postgres", "group": "postgres", "extra_groups": [], "cwd": work}


def postgresql(work, data, seconds):
    server, bench, init = tool("postgres"), tool("pgbench"), tool("initdb")
    who, cluster = as_postgres(work), os.path.join(work, "cluster")
    fresh = not os.path.isdir(cluster)
    if fresh:
        subprocess.run([init, "-D", cluster, "-A", "trust", "-U", "bench"], check=True, **QUIET, **who)
    running = start([server, "-D", cluster, "-k", work, "-c", "listen_addresses=", "-c", "shared_buffers=256MB"], **who)
    client = [bench, "-h", work, "-U", "bench"]
    try:
        for _ in range(100):
            if os.path.exists(os.path.join(work, ".s.PGSQL.5432")):
                break
            time.sleep(0.1)
        time.sleep(0.5)
        if fresh:
            subprocess.run([*client, "-i", "-s", "10", "-q", "postgres"], check=True, **QUIET, **who)
        load = start([*client, "-c4", "-j2", "-S", "-T", seconds + 30, "postgres"], **who)
        time.sleep(2)
        watch(descent(running.pid), data, seconds)
        stop(load)
    finally:
        stop(running)


def gcc(work, data, seconds):
    source = os.path.join(work, "big.c")
    if not os.path.exists(source):
        inputs.big_c(source, 70 * seconds)
    command([tool("gcc"), "-O2", "-g", "-c", source, "-o", os.path.join(work, "big.o")], data)


def redis(work, data, seconds):
    server, bench, socket = tool("redis-server"), tool("redis-benchmark"), os.path.join(work, "redis.sock")
    running = start([server, "--port", 0, "--unixsocket", socket, "--save", "", "--dir", work])
    time.sleep(1)
    load = start([bench, "-s", socket, "-t", "set,get,lpush,hset", "-n", 20000, "-r", 100000, "-l", "-q"])
    try:
        time.sleep(2)
        watch(descent(running.pid), data, seconds)
    finally:
        stop(load)
        stop(running)


def nginx(work, data, seconds):
    server, bench, port = tool("nginx"), tool("wrk"), 40000 + os.getpid() % 20000
    os.makedirs(os.path.join(work, "html"), exist_ok=True)
    os.chmod(work, 0o755)
    for i in range(20):
        with open(os.path.join(work, f"html/{i}.txt"), "w") as file:
            file.write("x" * (500 * (i + 1)))
    with open(os.path.join(work, "nginx.conf"), "w") as file:
        file.write(NGINX.format(work=work, port=port))
    with open(os.path.join(work, "ask.lua"), "w") as file:
        file.write('local n = 0\nrequest = function() n = (n * 7 + 3) % 20; return wrk.format("GET", "/" .. n .. ".txt") end\n')
    running = start([server, "-c", os.path.join(work, "nginx.conf")])
    time.sleep(1)
    load = start([bench, "-t1", "-c16", f"-d{seconds + 30}s", "-s", os.path.join(work, "ask.lua"), f"http://127.0.0.1:{port}/"])
    try:
        time.sleep(2)
        watch(descent(running.pid), data, seconds)
    finally:
        stop(load)
        stop(running)


def script(interpreter, name, text, work, data, seconds):
    path = os.path.join(work, name)
    with open(path, "w") as file:
        file.write(text)
    command([interpreter, path, seconds], data)


def python(work, data, seconds):
    script(os.path.realpath(sys.executable), "work.py", PYTHON, work, data, seconds * 3 / 4)


def node(work, data, seconds):
    script(tool("node"), "work.js", NODE, work, data, seconds * 3 / 4)


PROGRAMS = {"PostgreSQL": postgresql, "gcc": gcc, "Redis": redis, "nginx": nginx, "Python": python, "Node": node}


def one(name, work, seconds):
    data, from_s = os.path.join(work, "one.data"), time.monotonic()
    PROGRAMS[name](work, data, seconds)
    out = subprocess.run([OURS, "report", "-i", data, "--format", "json", "--top", "1000000", "-s", "comm,dso,symbol"], check=True, capture_output=True)
    event = json.loads(out.stdout)["events"][0]
    rows = [[f"{row['comm']} {row['dso']} {row['symbol']}", row["self"]["samples"], row["self"]["share"], *row["self"]["workload"], row["deff"],
             row["self"]["visits"], row["flags"], row["kernel"]] for row in event["functions"] if row["self"]["samples"] > 0 and row["self"]["workload"]]
    return {"program": name, "n": event["n"], "cpu_s": event["cpu_seconds"], "wall_s": round(time.monotonic() - from_s, 2), "load": os.getloadavg()[0],
            "verdict": event["verdict"], "unseen": event["largest_unseen"], "rows": rows}


def run_all(wanted, runs, seconds, keep):
    base = tempfile.mkdtemp() # not in BUILD: paths of sockets are short, and a server that gives up root must reach it
    os.chmod(base, 0o755)
    done, missing = {}, set()
    for line in read_lines() if keep else []:
        done[line["program"]] = done.get(line["program"], 0) + 1
    os.makedirs(os.path.dirname(LINES), exist_ok=True)
    with open(LINES, "a" if keep else "w") as out:
        for turn in range(runs):
            for name in wanted:
                if done.get(name, 0) > turn or name in missing:
                    continue
                work = os.path.join(base, name)
                os.makedirs(work, exist_ok=True)
                try:
                    line = one(name, work, seconds)
                except Missing as why:
                    print(f"{name}: skipped: {why}")
                    missing.add(name)
                    continue
                print(f"{name} {turn + 1}: {line['n']:.0f} samples, {line['cpu_s']:.1f} CPU-s, load {line['load']:.0f}", flush=True)
                out.write(json.dumps(line) + "\n")
                out.flush()
    shutil.rmtree(base, ignore_errors=True)


def read_lines():
    try:
        with open(LINES) as file:
            return [json.loads(line) for line in file]
    except FileNotFoundError:
        return []


# ---------------------------------------------------------------- what one recording says of another

class Row:
    def __init__(self, values):
        self.name, self.k, self.share, self.lo, self.hi, self.deff, self.visits, self.flags, self.kernel = values
        self.flagged = bool(self.flags)


def absent(name, line):
    return Row([name, 0, 0, 0, line["unseen"], 1, 0, [], False])


def within(one_, share, error_below, error_above):
    """Does `share` lie within one row's error and its own, added as squares?"""
    if share >= one_.share:
        return share - one_.share <= math.hypot(one_.hi - one_.share, error_below)
    return one_.share - share <= math.hypot(one_.share - one_.lo, error_above)


class Count:
    def __init__(self):
        self.rows = self.pairs = self.direct = self.covered = self.pooled = 0

    def add(self, row, others):
        self.rows += 1
        self.pairs += len(others)
        self.direct += sum(row.lo <= other.share <= row.hi for other in others)
        self.covered += sum(within(row, other.share, other.share - other.lo, other.hi - other.share) for other in others)
        mean, many = sum(other.share for other in others) / len(others), len(others)
        below = math.sqrt(sum((other.share - other.lo) ** 2 for other in others)) / many
        above = math.sqrt(sum((other.hi - other.share) ** 2 for other in others)) / many
        self.pooled += within(row, mean, below, above)

    def shares(self):
        return [self.direct / self.pairs, self.covered / self.pairs, self.pooled / self.rows] if self.rows else [math.nan] * 3


def spread(rows):
    """Standard deviation of a function's share between recordings, over what its intervals say it is: 1 where they are right. A half width is Student's t of
    19 blocks (2.09) standard errors."""
    mean = sum(row.share for row in rows) / len(rows)
    between = sum((row.share - mean) ** 2 for row in rows) / (len(rows) - 1)
    said = sum(((row.hi - row.lo) / 2 / 2.093) ** 2 for row in rows) / len(rows)
    return math.sqrt(between / said) if said > 0 else math.nan


def judge(lines):
    """Per program: counts of unflagged and flagged rows; and every function with its shares by recording."""
    tables = [{row[0]: Row(row) for row in line["rows"]} for line in lines]
    counts, functions = {False: Count(), True: Count()}, {}
    for i, line in enumerate(lines):
        for values in line["rows"][:ROWS]:
            row = Row(values)
            others = [table.get(row.name) or absent(row.name, lines[j]) for j, table in enumerate(tables) if j != i]
            if not others:
                continue
            counts[row.flagged].add(row, others)
            functions.setdefault(row.name, [table.get(row.name) or absent(row.name, lines[j]) for j, table in enumerate(tables)])
    return counts, functions


def missed_most(functions):
    """The functions whose shares differ most from recording to recording, for what their intervals say."""
    found = [(spread(rows), name, rows) for name, rows in functions.items() if sum(row.k for row in rows) >= 10 * len(rows)]
    return sorted((entry for entry in found if not math.isnan(entry[0])), key=lambda entry: -entry[0])


def summarize(lines):
    by_program, total, out, results = {}, {False: Count(), True: Count()}, [], []
    for line in lines:
        by_program.setdefault(line["program"], []).append(line)
    for name in PROGRAMS:
        found = by_program.get(name, [])
        if len(found) < 2:
            continue
        counts, functions = judge(found)
        for flagged in (False, True):
            count, sum_ = counts[flagged], total[flagged]
            for field in ("rows", "pairs", "direct", "covered", "pooled"):
                setattr(sum_, field, getattr(sum_, field) + getattr(count, field))
        worst = missed_most(functions)
        ratios = sorted(entry[0] for entry in worst)
        median = ratios[len(ratios) // 2] if ratios else math.nan
        out.append((name, len(found), sum(line["n"] for line in found) / len(found), sum(line["cpu_s"] for line in found) / len(found), counts, median, worst[:3]))
        results.append({"program": name, "recordings": len(found), "median_spread": median, "rows": {
            "flagged" if flagged else "unflagged": dict(zip(("rows", "direct", "covered", "pooled"), [counts[flagged].rows, *counts[flagged].shares()]))
            for flagged in (False, True)}, "widest": [{"function": function, "spread": ratio, "shares": [row.share for row in rows],
                                                       "intervals": [[row.lo, row.hi] for row in rows], "flags": [row.flags for row in rows]}
                                                      for ratio, function, rows in worst[:5]]})
    return out, total, results


def table_lines(out, total):
    def cells(count):
        return f"{count.rows} | " + " | ".join("-" if math.isnan(x) else f"{x:.3f}" for x in count.shares())
    lines = ["| program | recordings | samples | unflagged rows | direct | covered | pooled | flagged rows | direct | covered | pooled | spread |",
             "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"]
    for name, runs, samples, _, counts, median, _ in out:
        lines.append(f"| {name} | {runs} | {samples:.0f} | {cells(counts[False])} | {cells(counts[True])} | {median:.2f} |")
    lines.append(f"| all | {sum(entry[1] for entry in out)} | | {cells(total[False])} | {cells(total[True])} | |")
    return lines


def widest_lines(out):
    lines = ["| program | function | spread | shares % | flags |", "| --- | --- | --- | --- | --- |"]
    for name, _, _, _, _, _, worst in out:
        for ratio, function, rows in worst:
            shares = " ".join(f"{100 * row.share:.2f}" for row in rows)
            flags = " ".join("".join(UNSUPPORTED.get(flag, flag) for flag in row.flags) or "-" for row in rows)
            lines.append(f"| {name} | {function} | {ratio:.1f} | {shares} | {flags} |")
    return lines


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=8)
    parser.add_argument("--only", default=",".join(PROGRAMS))
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--summary", action="store_true")
    options = parser.parse_args()
    if not options.summary:
        run_all(options.only.split(","), options.runs, options.seconds, options.keep)
    lines = read_lines()
    out, total, results = summarize(lines)
    if not out:
        print("no program was recorded twice")
        return 1
    model = re.search("model name\\s*: (.*)", open("/proc/cpuinfo").read())
    version = subprocess.run([OURS, "--version"], capture_output=True, text=True).stdout.split("\n")[0]
    loads, when = [line["load"] for line in lines], datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")
    machine = f"{model.group(1) if model else os.uname().machine}, {os.cpu_count()} CPUs, Linux {os.uname().release}"
    text = f"""# Does one recording foretell the others?

`bench/stats_programs.py`, {version} on {machine}, {when}; load from {min(loads):.0f} to {max(loads):.0f} meanwhile. The first {ROWS} rows of every recording,
each against every other recording of that program. *direct*: the other's share lies in the workload interval (83 in 100 where that is right, as both
were sampled); *covered*: within both errors together (95 in 100); *pooled*: the mean of all others, within both errors (95 in 100); *spread*: median over
functions with 10 samples a recording of the standard deviation between recordings, over what the intervals say.

{chr(10).join(table_lines(out, total))}

The functions that differ most for what their intervals say:

{chr(10).join(widest_lines(out))}
"""
    with open(os.path.join(HERE, "stats-programs.md"), "w") as file:
        file.write(text)
    with open(os.path.join(HERE, "stats-programs.json"), "w") as file:
        json.dump({"version": version, "machine": machine, "date": when, "loads": [min(loads), max(loads)], "programs": results}, file, indent=1)
        file.write("\n")
    print(text)
    return int(total[False].rows > 0 and total[False].covered < 0.9 * total[False].pairs)


if __name__ == "__main__":
    sys.exit(main())
