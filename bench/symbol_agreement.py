"""Random addresses in a file, named by ours and by llvm-symbolizer: how often name, line and inline chain are the same.

symbol_agreement.py SYMBOLIZE LLVM-SYMBOLIZER COUNT FILE [names]
prints one line: file, addresses compared (those that neither names are not), percent of names, of lines and of whole chains that agree, addresses that
only ours names; and, with EXAMPLES=N, the first N that do not.
"""
import os, random, re, subprocess, sys


def ranges(path):  # sections of code: (address, size)
    out = subprocess.run(["readelf", "-SW", path], capture_output=True, text=True).stdout
    for m in re.finditer(r"\] (\S+)\s+PROGBITS\s+([0-9a-f]+) [0-9a-f]+ ([0-9a-f]+) \S+\s+AX", out):
        if m[1] not in (".plt", ".plt.got", ".plt.sec", ".init", ".fini"):
            yield int(m[2], 16), int(m[3], 16)


def chains(text):  # per address: [(name, file, line), …]
    for block in text.split("\n\n"):
        lines = [l for l in block.split("\n") if l]
        if lines:
            yield [(lines[i], *place(lines[i + 1])) for i in range(0, len(lines) - 1, 2)]


def place(text):
    m = re.match(r"(.*?):(\d+)(?::\d+)?(?: \(discriminator.*\))?$", text)
    return (os.path.basename(m[1]), int(m[2])) if m else (text, 0)


def main():
    ours, llvm, count, path = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
    names_only = "names" in sys.argv[5:]
    rng = random.Random(20261129)
    sections = list(ranges(path))
    weights = [size for _, size in sections]
    addresses = [a + rng.randrange(size) for a, size in rng.choices(sections, weights, k=count)]
    text = "".join(f"0x{a:x}\n" for a in addresses)
    a = list(chains(subprocess.run([ours, "--no-demangle"] + (["--names"] if names_only else []) + [path], input=text, capture_output=True, text=True,
                                   errors="replace").stdout))
    b = list(chains(subprocess.run([llvm, "--no-demangle", f"--obj={path}"] + (["--no-inlines"] if names_only else []), input=text, capture_output=True,
                                   text=True, errors="replace").stdout))
    if len(a) != count or len(b) != count:
        sys.exit(f"{path}: {len(a)} and {len(b)} answers to {count} questions")
    n = names = lines = whole = more = 0
    examples = int(os.environ.get("EXAMPLES", "0"))
    aliases = symbols_at(path)
    for addr, x, y in zip(addresses, a, b):
        if x[-1][0] == "??" and y[-1][0] == "??":
            continue
        if y[-1] == ("??", "??", 0):  # a name where the other has nothing
            more += 1
            continue
        n += 1
        same = same_name(x[-1][0], y[-1][0], aliases)
        line = names_only or x[0][1:] == y[0][1:] or (x[0][2] == 0 and y[0][2] == 0)
        chain = names_only or (len(x) == len(y) and all(p[1:] == q[1:] or (p[2] == 0 and q[2] == 0) for p, q in zip(x, y)) and
                               all(same_inlined(p[0], q[0]) for p, q in zip(x[:-1], y[:-1])))
        names += same
        lines += line
        whole += same and chain
        if not (same and line and chain) and examples > 0:
            examples -= 1
            print(f"  0x{addr:x}\n    ours {x}\n    llvm {y}")
    print(f"{os.path.basename(path)}\t{n}\t{100 * names / n:.3f}\t{'-' if names_only else f'{100 * lines / n:.3f}'}\t{'-' if names_only else f'{100 * whole / n:.3f}'}\t{more}")


def same_inlined(x, y):  # where there is no linkage name, ours is qualified by its scopes and LLVM's is bare
    return x == y or x.endswith("::" + y)


def symbols_at(path):  # name -> addresses, of the file and its debug file: aliases are the same function
    table = {}
    notes = subprocess.run(["readelf", "-n", path], capture_output=True, text=True).stdout
    build_id = re.search(r"Build ID: (..)([0-9a-f]+)", notes)
    debug = f"/usr/lib/debug/.build-id/{build_id[1]}/{build_id[2]}.debug" if build_id else None
    for arguments in ([path], ["-D", path], [debug] if debug else None):
        out = subprocess.run(["nm", *arguments], capture_output=True, text=True, errors="replace").stdout if arguments else ""
        for l in out.split("\n"):
            parts = l.split()
            if len(parts) == 3:
                table.setdefault(parts[2].split("@")[0], set()).add(parts[0])
    return table


def same_name(x, y, aliases):  # ours may say which clone of a function it is: foo.constprop.0, foo.part.0, foo.cold
    x, y = x.split("@")[0], y.split("@")[0]
    bare = re.sub(r"(\.(constprop|part|isra|cold|lto_priv)(\.\d+)?)+$", "", x)
    return x == y or bare == y or any(aliases.get(name, set()) & aliases.get(y, set()) for name in (x, bare))


main()
