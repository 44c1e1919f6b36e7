"""What a recorder costs, ours or perf: CPU time (user + system, all threads) of its own process.

What the kernel does at a tick (the interrupt, copying the stack into the ring) happens in the context of the program that is sampled: it is no part of
that process's time, and nothing has to be subtracted. Two figures a sample:

    short   the whole process, exec to exit, of a run of SHORT seconds: its start, images met for the first time, and its end are in it
    steady  between second WARM and second LONG of another run, by the process's CPU clock, read from outside; over the samples of these seconds.
            By then the compilers that are measured have been through one whole compile, so their code's unwind rules are there
"""
import contextlib
import ctypes
import os
import signal
import struct
import subprocess
import time

import inputs

SHORT, WARM, LONG = 3, 5, 10
TRIES, SAMPLES_LEAST = 3, 200
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) # PR_SET_CHILD_SUBREAPER: what a killed command leaves behind is ours to wait for, and its time is known
QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "stdin": subprocess.DEVNULL}


def cpu_seconds(pid):
    """Of all threads, also those that have ended (clock_getcpuclockid(3): the clock's number is made of the process's)."""
    return time.clock_gettime((~pid << 3) | 2)


def pieces_of(path):
    """(sample_type of the first event, the records in pieces). In pieces: a child's peak memory begins with what its parent had at the fork."""
    with open(path, "rb") as file:
        attrs_at, _, at, left = struct.unpack_from("<4Q", file.read(104), 24)
        file.seek(attrs_at + 24)
        yield struct.unpack("<Q", file.read(8))[0]
        file.seek(at)
        piece = b""
        while left > 0 or len(piece) >= 8:
            piece += file.read(min(left, 1 << 20))
            left = max(0, left - (1 << 20))
            i = 0
            while i + 8 <= len(piece):
                kind, _, length = struct.unpack_from("<IHH", piece, i)
                if length < 8:
                    return
                if i + length > len(piece):
                    break
                yield kind, piece, i
                i += length
            if i == 0 and left == 0:
                return
            piece = piece[i:]


class Others:
    """The share of the machine's CPU time that went to others than this program and its children (and to nobody, where the hypervisor took it)."""

    def __init__(self):
        self.since, self.busy, self.own = time.monotonic(), self.machine(), self.ours()

    @staticmethod
    def machine():
        user, nice, system, _, _, irq, softirq, steal = map(int, open("/proc/stat").readline().split()[1:9])
        return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")

    @staticmethod
    def ours():
        times = os.times()
        return times.user + times.system + times.children_user + times.children_system

    def share(self):
        busy = self.machine() - self.busy - (self.ours() - self.own)
        return max(0.0, busy / (time.monotonic() - self.since) / os.cpu_count())


def records(path):
    """(times of the samples, lost) of a perf.data file, from its records."""
    found = pieces_of(path)
    sample_type = next(found)
    time_at = 8 + 8 * bin(sample_type & (1 << 16 | 1 | 2)).count("1") # behind identifier, ip, pid and tid: perf_event_open(2), PERF_RECORD_SAMPLE
    times, lost = [], 0
    for kind, piece, i in found:
        if kind == 9:
            times.append(struct.unpack_from("<Q", piece, i + time_at)[0])
        elif kind == 2:
            lost += struct.unpack_from("<Q", piece, i + 16)[0]
        elif kind == 13:
            lost += struct.unpack_from("<Q", piece, i + 8)[0]
    return times, lost


def count_samples(path):
    """Without keeping their times: a million of them would be in every later child's peak memory."""
    found = pieces_of(path)
    next(found)
    return sum(kind == 9 for kind, _, _ in found)


def held(argv):
    """A command that waits before its exec until it is let go; head of a session of its own."""
    child = subprocess.Popen(["sh", "-c", 'kill -STOP $$; exec "$@"', "sh"] + [str(a) for a in argv], start_new_session=True, **QUIET)
    while open(f"/proc/{child.pid}/stat").read().rsplit(")", 1)[1].split()[0] != "T":
        time.sleep(0.005)
    return child


@contextlib.contextmanager
def command(argv):
    """Yields (pids to attach to, what lets the command run)."""
    child = held(argv)
    try:
        yield [child.pid], lambda: os.kill(child.pid, signal.SIGCONT)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        with contextlib.suppress(ChildProcessError):
            while True:
                os.waitpid(-child.pid, 0)


def again_and_again(argv):
    """A command that begins anew whenever it ends, for as long as a recorder needs."""
    return lambda _: command(["sh", "-c", 'while :; do "$@"; done', "sh"] + [str(a) for a in argv])


@contextlib.contextmanager
def postgres(seconds):
    """The backends of a database cluster of its own under pgbench with four clients."""
    with inputs.postgres_backends(inputs.postgres_tools(), seconds + 2) as pids:
        yield pids, lambda: None


def wait_for_events(pid):
    """Until the process has its events open, and a moment more."""
    for _ in range(200):
        with contextlib.suppress(OSError):
            if any("perf_event" in os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")):
                break
        time.sleep(0.02)
    time.sleep(0.3)


def peak_mb(pid):
    """So far, of the program alone: in what wait4(2) tells of a child is the memory that its parent had at the fork."""
    for line in open(f"/proc/{pid}/status"):
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0 # it has ended already


def attach(recorder, target, seconds, mark=None):
    """Records a target for some seconds. `cpu`: of the whole process; with a mark: `marked`, the CPU time from then to the last second, and its moments."""
    with target(seconds) as (pids, go):
        child = subprocess.Popen([str(a) for a in recorder] + ["-p", ",".join(map(str, pids))], **QUIET)
        wait_for_events(child.pid)
        go()
        result = {}
        if mark is not None:
            time.sleep(mark)
            before, since = cpu_seconds(child.pid), time.monotonic_ns()
        time.sleep(seconds - (mark or 0))
        if mark is not None:
            result = {"marked": cpu_seconds(child.pid) - before, "since": since, "until": time.monotonic_ns()}
        peak = peak_mb(child.pid)
        os.kill(child.pid, signal.SIGINT)
        _, _, usage = os.wait4(child.pid, 0)
    return result | {"cpu": usage.ru_utime + usage.ru_stime, "peak_mb": peak}


def costs(recorder, path, target, repeat, short=SHORT, warm=WARM, long=LONG):
    """µs a sample, short and steady, the least of `repeat`; with the samples and losses of the last long run."""
    def fresh():
        if os.path.exists(path):
            os.unlink(path)

    best = {"short_us": float("inf"), "steady_us": float("inf"), "peak_mb": 0.0}
    for _ in range(repeat):
        for _ in range(TRIES): # a target may end early, and nothing can be said of a few samples
            fresh()
            ran = attach(recorder, target, short)
            count = count_samples(path) if os.path.exists(path) else 0
            if count >= SAMPLES_LEAST:
                best["short_us"] = min(best["short_us"], 1e6 * ran["cpu"] / count)
                break
        fresh()
        ran = attach(recorder, target, long, warm)
        times, lost = records(path)
        steady = sum(ran["since"] <= at < ran["until"] for at in times)
        best["steady_us"] = min(best["steady_us"], 1e6 * ran["marked"] / max(1, steady))
        best |= {"samples": len(times), "lost": lost, "file_mb": os.path.getsize(path) / 1e6, "peak_mb": max(best["peak_mb"], ran["peak_mb"])}
    return {key: None if figure == float("inf") else figure for key, figure in best.items()} # None: it never took enough samples
