"""What the benchmarks work on, made here."""
import os
import subprocess


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
