#!/usr/bin/env python3
"""multiply.py [--samples] IN OUT TIMES|BYTES: a recording, its records repeated with later times (BYTES: a number with K, M or G behind it).

For growth curves only: counters are left out. With --samples mappings and tasks come once and nobody exits: one long run, not the same run again.
"""
import struct
import sys

SAMPLE, READ, LOST, LOST_SAMPLES, EXIT, FINISHED_ROUND = 9, 8, 2, 13, 4, 68
BIT_IP, BIT_TID, BIT_TIME, BIT_ADDR, BIT_ID, BIT_STREAM, BIT_CPU, BIT_IDENTIFIER = 1, 2, 4, 8, 64, 512, 128, 1 << 16


def time_offsets(sample_type):
    """Where the time is: in a sample, from its start; in other records, from their end (include/uapi/linux/perf_event.h)."""
    front = 8 + 8 * sum(1 for bit in (BIT_IDENTIFIER, BIT_IP, BIT_TID) if sample_type & bit)
    back = 8 * sum(1 for bit in (BIT_TIME, BIT_ID, BIT_STREAM, BIT_CPU, BIT_IDENTIFIER) if sample_type & bit)
    return front, back


class Records:
    """Records one after another, and where in them times stand."""

    def __init__(self):
        self.body, self.places = bytearray(), []

    def add(self, record, kind, front, back):
        place = len(self.body) + (front if kind == SAMPLE else len(record) - back)
        self.body += record
        if kind < 64:
            moment = struct.unpack_from("<Q", self.body, place)[0]
            if moment != 0:
                self.places.append((place, moment))

    def later(self, by):
        for place, moment in self.places:
            struct.pack_into("<Q", self.body, place, moment + by)
        return self.body


def how_often(text, first, rest):
    units = {"K": 1000, "M": 1000000, "G": 1000000000}
    if text[-1] in units:
        return 1 + max(0, round((int(text[:-1]) * units[text[-1]] - first) / rest))
    return int(text)


def main():
    arguments = [a for a in sys.argv[1:] if a != "--samples"]
    samples_alone = len(arguments) + 1 < len(sys.argv)
    source, target, wanted = arguments
    data = open(source, "rb").read()
    magic, _, _, attrs_at, _, data_at, data_size = struct.unpack_from("<8sQQQQQQ", data)
    if magic != b"PERFILE2":
        sys.exit("multiply: not a perf.data file of this byte order")
    front, back = time_offsets(struct.unpack_from("<Q", data, attrs_at + 24)[0])
    first, again, at = Records(), Records(), data_at
    while at < data_at + data_size:
        kind, _, size = struct.unpack_from("<IHH", data, at)
        if size < 8:
            sys.exit("multiply: a record of no size")
        if kind not in (READ, LOST, LOST_SAMPLES) and not (samples_alone and kind == EXIT):
            first.add(data[at:at + size], kind, front, back)
            if not samples_alone or kind in (SAMPLE, FINISHED_ROUND):
                again.add(data[at:at + size], kind, front, back)
        at += size
    times = how_often(wanted, len(first.body), len(again.body))
    moments = [moment for _, moment in first.places]
    span = max(moments) - min(moments) + 1000000
    new_size = len(first.body) + (times - 1) * len(again.body)
    with open(target, "wb") as out:
        header = bytearray(data[:data_at])
        struct.pack_into("<Q", header, 48, new_size)
        out.write(header)
        out.write(first.body)
        for i in range(1, times):
            out.write(again.later(i * span))
        out.write(features(data, data_at, data_size, new_size))


def features(data, data_at, data_size, new_size):
    """The header's feature sections, which point into the file, moved to where the data ends now."""
    tail = bytearray(data[data_at + data_size:])
    bits = sum(bin(b).count("1") for b in data[72:104])
    for i in range(bits):
        offset, size = struct.unpack_from("<QQ", tail, 16 * i)
        struct.pack_into("<QQ", tail, 16 * i, offset + new_size - data_size, size)
    return tail


main()
