"""What the benchmarks work on, made here."""
import contextlib
import glob
import os
import pwd
import shutil
import struct
import subprocess
from random import Random
import tempfile
import time


def big_c(path, functions=300):
    """A C file that keeps gcc -O2 busy for a second or two."""
    with open(path, "w") as f:
        f.write("#include <stdio.h>\n#include <math.h>\n")
        for i in range(functions):
            f.write(f"""struct s{i} {{ int a[{i % 7 + 3}]; double d; struct s{max(0, i - 1)} *next; }};
static inline int mix{i}(int x) {{ return (x ^ {i}) * {i % 13 + 3} + (x >> {i % 9 + 1}); }}
int fn{i}(int *p, int n, struct s{i} *q)
{{
    int t = 0;
    for (int k = 0; k < n; k++) {{
        t += p[k] * {i + 3} + mix{i}(p[k]);
        if (t % {i + 7} == 0) q->d += sqrt(t) * {i}.5; else q->a[(unsigned)t % {i % 7 + 3}] += k;
    }}
    switch (t % {i % 11 + 4}) {{
    case 0: return t + {i};
    case 1: return printf("%d", t);
    case 2: q->d = sin(q->d) + {i}; break;
    default: t ^= {i * 37};
    }}
    return t + (int)q->d;
}}
""")
    return path


def templates_cc(path):
    """A C++ file of deep templates: clang's stacks are deeper than a copy of 64 KiB."""
    with open(path, "w") as f:
        f.write("#include <algorithm>\n#include <map>\n#include <regex>\n#include <string>\n#include <vector>\n")
        f.write("""template<int N> struct step {
    std::map<int, std::vector<std::string>> m;
    std::string run(const std::string &s) {
        std::vector<int> v{N, 1, 2};
        std::sort(v.begin(), v.end(), [](int a, int b) { return a > b; });
        m[N].push_back(s);
        return std::regex_replace(s, std::regex("a+b*"), std::to_string(v[0] + (int)m.size())) + step<N - 1>().run(s);
    }
};
template<> struct step<0> { std::string run(const std::string &s) { return s; } };
std::string all(const std::string &s) { return step<14>().run(s); }
""")
    return path


def libraries(folder, count):
    """lib0.so … with a function `work` each, every one with a build ID of its own."""
    os.makedirs(folder, exist_ok=True)
    running = []
    for i in range(count):
        out = os.path.join(folder, f"lib{i}.so")
        if os.path.exists(out):
            continue
        source = os.path.join(folder, f"lib{i}.c")
        with open(source, "w") as f:
            f.write(f"static __attribute__((noinline)) unsigned inner{i}(unsigned x) {{ for (int i = 0; i < 20000; i++) x = x * 1664525 + {i}; "
                    f"return x; }}\nunsigned work(unsigned x) {{ return inner{i}(x) + 1; }}\n")
        running.append(subprocess.Popen(["gcc", "-O1", "-g", "-shared", "-fPIC", "-nostdlib", "-o", out, source]))
        if len(running) >= 2:
            running.pop(0).wait()
    for p in running:
        p.wait()
    return folder


def deep_cc(path):
    """A C++ program of virtual calls and templates that goes 50 to 400 deep: deep SECONDS."""
    with open(path, "w") as f:
        f.write("""#include <cstdlib>
#include <ctime>
#include <vector>
struct base { virtual ~base() {} virtual unsigned long go(int depth, const std::vector<int> &v, unsigned long x) = 0; };
template <int N> struct level : base {
	base *next;
	unsigned long go(int depth, const std::vector<int> &v, unsigned long x) override
	{
		unsigned long a[N % 5 + 1];
		for (int i = 0; i <= N % 5; i++) a[i] = x * (i + N);
		if (depth == 0) {
			for (int i = 0; i < 2000; i++) x = x * 1664525 + v[i % v.size()];
			return x;
		}
		unsigned long r = next->go(depth - 1, v, x ^ a[N % 3 % (N % 5 + 1)]);
		for (int i = 0; i <= N % 5; i++) r += a[i];
		return r + N;
	}
};
static volatile unsigned long sink;
int main(int argc, char **argv)
{
	level<1> a; level<2> b; level<3> c; level<4> d;
	a.next = &b; b.next = &c; c.next = &d; d.next = &a;
	std::vector<int> v(100, 7);
	double seconds = argc > 1 ? atof(argv[1]) : 3;
	for (unsigned i = 0; clock() < seconds * CLOCKS_PER_SEC; i++) sink = sink + a.go(50 + i * 37 % 350, v, i);
}
""")
    return path


def postgres_tools():
    """Where initdb, postgres and pgbench are; None: not here, or no user to run them as."""
    for folder in sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True) + [os.path.dirname(shutil.which("initdb") or "")]:
        if all(os.access(os.path.join(folder, tool), os.X_OK) for tool in ("initdb", "postgres", "pgbench")):
            return folder
    return None


def backends_of(server):
    """Process ids of a postmaster's backends that serve a client of ours."""
    pids = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as cmdline, open(f"/proc/{pid}/stat") as stat:
                if stat.read().rsplit(")", 1)[1].split()[1] == str(server) and b"postgres: bench postgres" in cmdline.read():
                    pids.append(pid)
        except OSError:
            pass
    return pids


@contextlib.contextmanager
def postgres_backends(tools, seconds, clients=4):
    """A database cluster of its own under pgbench -S, for `seconds` at least; yields the backends' process ids once they work."""
    how = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "stdin": subprocess.DEVNULL}
    folder = tempfile.mkdtemp(prefix="perfsample-bench-")
    if os.geteuid() == 0: # the server refuses to run as root
        user = pwd.getpwnam("nobody")
        os.chown(folder, user.pw_uid, user.pw_gid)
        how.update({"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []})
    how["cwd"] = folder
    tool = lambda name: os.path.join(tools, name) # noqa: E731
    data, server, load = os.path.join(folder, "data"), None, None
    try:
        subprocess.run([tool("initdb"), "-D", data, "-U", "bench", "-A", "trust", "--no-sync"], check=True, **how)
        server = subprocess.Popen([tool("postgres"), "-D", data, "-k", folder, "-c", "listen_addresses=", "-c", "fsync=off"], **how)
        pgbench = [tool("pgbench"), "-h", folder, "-U", "bench"]
        for _ in range(100):
            if subprocess.run(pgbench + ["-i", "-q", "-s", "3", "postgres"], check=False, **how).returncode == 0:
                break
            time.sleep(0.1)
        for _ in range(3): # it may give up when the server is slow to take its connections
            with open(os.path.join(folder, "errors"), "w") as errors:
                load = subprocess.Popen(pgbench + ["-c", str(clients), "-j", "2", "-T", str(seconds + 30), "-n", "-S", "postgres"], **how | {"stderr": errors})
            for _ in range(150):
                time.sleep(0.1)
                if len(backends_of(server.pid)) >= clients or load.poll() is not None:
                    break
            time.sleep(0.3) # the connection that pgbench asks for the table's size by is gone then
            pids = backends_of(server.pid)
            if load.poll() is None and len(pids) >= clients:
                break
            load.terminate()
            load.wait()
        else:
            raise RuntimeError("pgbench ended early: " + open(os.path.join(folder, "errors")).read()[-500:])
        yield pids
    finally:
        for process in (load, server):
            if process is not None and process.poll() is None:
                process.terminate()
                process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def many_functions(folder, count):
    """A library of `count` functions of 16 bytes each: (path, mapping's pgoff, its length, offset of each function in the mapping)."""
    source, out = os.path.join(folder, "many.s"), os.path.join(folder, "many.so")
    with open(source, "w") as f:
        f.write(".text\n" + "".join(f".globl function_{i}\n.type function_{i},@function\n.balign 16\nfunction_{i}: ret\n.size function_{i},16\n"
                                    for i in range(count)) + '.section .note.GNU-stack,"",@progbits\n')
    subprocess.run(["gcc", "-shared", "-nostdlib", "-Wl,--build-id", "-o", out, source], check=True)
    headers = subprocess.run(["readelf", "-lW", out], stdout=subprocess.PIPE, text=True, check=True).stdout
    code = next(line.split() for line in headers.splitlines() if line.split()[:1] == ["LOAD"] and " E " in line)
    offset, start, length = int(code[1], 16), int(code[2], 16), int(code[4], 16)
    names = subprocess.run(["nm", out], stdout=subprocess.PIPE, text=True, check=True).stdout.split("\n")
    places = sorted(int(line.split()[0], 16) - start for line in names if " function_" in line)
    return out, offset, length, places


def wide_recording(path, folder, functions, samples):
    """One thread in `functions` functions, some far more often than others, three frames a stack,
    each function with three callers: a perf.data written here. Visits of a few samples."""
    library, pgoff, length, places = many_functions(folder, functions)
    base, pid, random = 0x7f0000000000, 1000, Random(1)
    sample_type = 1 | 2 | 4 | 32 | 128 # IP, TID, TIME, CALLCHAIN, CPU
    attr = struct.pack("<IIQQQQQ", 1, 136, 0, 1000000, sample_type, 0, 1 << 18).ljust(136, b"\0") + struct.pack("<QQ", 0, 0)
    data_at = 104 + len(attr)

    def trailer(time_ns):
        return struct.pack("<IIQII", pid, pid, time_ns, 0, 0)

    name = library.encode() + b"\0"
    name += b"\0" * (-len(name) % 8)
    mapping = struct.pack("<IIQQQ", pid, pid, base, (length + 4095) & ~4095, pgoff) + name + trailer(1)
    comm = struct.pack("<II", pid, pid) + b"many\0\0\0\0" + trailer(1)
    front = struct.pack("<IHH", 3, 0, 8 + len(comm)) + comm + struct.pack("<IHH", 1, 2, 8 + len(mapping)) + mapping
    sample, round_ = struct.Struct("<IHHQIIQIIQQQQQ"), struct.pack("<IHH", 68, 0, 8)
    size, time_ns, leaf, caller = 0, 1000000, 0, 0
    with open(path, "wb") as out:
        out.write(bytes(data_at) + front)
        size = len(front)
        for first in range(0, samples, 1000):
            piece = []
            for _ in range(first, min(first + 1000, samples)):
                time_ns += 1000000
                if random.random() < 0.25:
                    function = int(functions * random.random() ** 4)
                    leaf, caller = base + places[function] + 1, base + places[(function * 7 + int(3 * random.random())) % functions] + 1
                piece.append(sample.pack(9, 2, sample.size, leaf, pid, pid, time_ns, 0, 0, 4, (1 << 64) - 512, leaf, caller, base + places[0] + 1))
            piece.append(round_)
            piece = b"".join(piece)
            size += len(piece)
            out.write(piece)
        out.seek(0)
        out.write(struct.pack("<8sQQQQQQQQ4Q", b"PERFILE2", 104, len(attr), 104, len(attr), data_at, size, 0, 0, 0, 0, 0, 0) + attr)
