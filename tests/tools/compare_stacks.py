#!/usr/bin/env python3
"""Compares `perfsample script` with the stacks that KDAB's perfparser (elfutils) expects of a recording: every frame of every sample.

usage: compare_stacks.py EXPECTED SCRIPT BINARY [lbr]

A frame of theirs is two lines, an address (of a caller: inside the call) and a function; kernel and unknown code has no name. A frame of ours
has an offset in the file, of a caller: behind the call. Four conventions differ, and are told by what the files say, not by how many:
- user code outside every mapping, or of a thread whose registers are gone, is a last frame of ours, and none of theirs;
- theirs has one of the names of an address, ours another: BINARY's symbol table says that both stand there, undecorated;
- a PLT's slots have names with us; elfutils names them after the symbol before them, _init;
- with LBR theirs has the sample's address and then the last call's target; ours has where user space was left, which is inside the function
  called, or where its PLT slot jumped to.
Prints how many samples and frames agree; status 1 when one does not."""
import re
import struct
import sys

KERNEL = 1 << 63


class Binary:
    def __init__(self, path):
        self.data = data = open(path, "rb").read()
        self.name = path.rsplit("/", 1)[1]
        at, sections = struct.unpack_from("<QQ", data, 32)
        size, count, section_size, section_count = struct.unpack_from("<HHHH", data, 54)
        headers = [struct.unpack_from("<IIQQQQQQ", data, at + i * size) for i in range(count)]
        self.loads = [(h[2], h[3], h[5]) for h in headers if h[0] == 1]  # offset, vaddr, size
        tables = [struct.unpack_from("<IIQQQQIIQQ", data, sections + i * section_size) for i in range(section_count)]
        self.symbols = {}
        for table in (t for t in tables if t[1] in (2, 11)):  # SHT_SYMTAB, SHT_DYNSYM
            strings = tables[table[6]][4]
            for i in range(table[5] // 24):
                name, _, _, _, value, _ = struct.unpack_from("<IBBHQQ", data, table[4] + 24 * i)
                end = data.index(b"\0", strings + name)
                self.symbols.setdefault(data[strings + name:end].decode(errors="replace"), set()).add(value)

    def vaddr(self, offset):
        return next((offset - o + v for o, v, size in self.loads if o <= offset < o + size), offset)

    def is_same(self, ours, theirs):
        if ours == theirs or (ours == "[unknown]" and theirs == ""):
            return True
        if ours.endswith("@plt"):
            return theirs == "_init"
        return bool(self.symbols.get(ours.split("@")[0], set()) & self.symbols.get(theirs.split("@")[0], set()))


def read_expected(path, binary):
    """Samples, each a list of [address, name, is_inlined]."""
    samples = []
    for line in open(path):
        line = line.rstrip("\n")
        if line and line[0] != "\t":
            samples.append([])
        elif line and not re.match(r"\t\S+: \d+$", line):
            samples[-1].append(line[1:])
    for rows in samples:
        frames = []
        for where, function in zip(rows[::2], rows[1::2]):
            mark = f" {binary.name} /"
            name = function.split("\t")[-1].split(mark)[0] if mark in function else ""
            name = re.sub(r"^[0-9a-f]+ [0-9a-f]+ ", "", name)
            # The first row of a frame that others are inlined into names a line of those; its address is that of the first.
            inside = frames and frames[-1][2]
            frames.append([frames[-1][0] if inside else int(where.split()[0], 16), name, function.endswith("(inlined)")])
        rows[:] = frames
    return samples


def read_script(path):
    samples = []
    for line in open(path):
        match = re.match(r"\t\s*([0-9a-f]+) (.*) \((.*)\)$", line.rstrip("\n"))
        if match:
            addr, name, dso = match.groups()
            samples[-1].append((int(addr, 16), re.sub(r"\+0x[0-9a-f]+$", "", name), dso))
        elif line.strip():
            samples.append([])
    return samples


def group_end(frames, at, inlined):
    """Behind the frame at `at` and all that it is inlined into; `inlined` says what is."""
    while at < len(frames) and inlined(frames[at]):
        at += 1
    return at + 1


def without_lbr_start(mine, theirs, leaf, binary):
    """Both from where they must agree; None: the functions there differ."""
    is_inlined = lambda frame: frame[2] is True or frame[2] == "inlined"
    own = group_end(theirs, leaf, is_inlined)
    if theirs[leaf][0] < KERNEL:
        return mine, theirs[:own] + theirs[group_end(theirs, own, is_inlined):]
    called, left = group_end(theirs, own, is_inlined), group_end(mine, leaf, is_inlined)
    wanted = theirs[called - 1][1]
    if wanted not in ("_init", "") and not binary.is_same(mine[left - 1][1], wanted):
        return None
    return mine[:leaf] + mine[left:], theirs[:leaf] + theirs[called:]


def compare(mine, theirs, binary, is_lbr):
    """None, or what is wrong."""
    if not is_lbr and mine[-1][0] < KERNEL and all(frame[0] >= KERNEL for frame in theirs):
        mine = mine[:-1]
    user = [i for i, frame in enumerate(mine) if frame[0] < KERNEL]
    leaf = user[0] if user else len(mine)
    leaf_addr = mine[leaf][0] if user else None
    if is_lbr and user:
        rest = without_lbr_start(mine, theirs, leaf, binary)
        if rest is None:
            return f"frame {leaf}: {mine[leaf][1]}, where another function was called"
        mine, theirs = rest
    if len(mine) != len(theirs):
        return f"{len(mine)} frames, expected {len(theirs)}"
    for i, ((addr, name, dso), (wanted, wanted_name, inlined)) in enumerate(zip(mine, theirs)):
        back = 1 if wanted_name and addr != leaf_addr else 0
        at = binary.vaddr(addr - back) if wanted_name else addr
        if at != wanted or not binary.is_same(name, wanted_name) or (dso == "inlined") != inlined:
            return f"frame {i}: {at:#x} {name} ({dso}), expected {wanted:#x} {wanted_name}{' (inlined)' if inlined else ''}"
    return None


def main():
    binary = Binary(sys.argv[3])
    expected, ours = read_expected(sys.argv[1], binary), read_script(sys.argv[2])
    right = 0
    for number, (theirs, mine) in enumerate(zip(expected, ours)):
        problem = compare(mine, theirs, binary, "lbr" in sys.argv[4:])
        if problem:
            print(f"#   sample {number}: {problem}")
        right += problem is None
    print(f"{right} of {len(expected)} samples, {sum(map(len, expected))} frames")
    return 0 if right == len(expected) == len(ours) and right > 0 else 1


sys.exit(main())
