#!/usr/bin/env python3
"""multiply.py IN OUT TIMES: a recording of ours, its records repeated with later times. For growth curves only: counters are left out."""
import struct
import sys

SAMPLE, READ, LOST, LOST_SAMPLES = 9, 8, 2, 13
BIT_IP, BIT_TID, BIT_TIME, BIT_ADDR, BIT_ID, BIT_STREAM, BIT_CPU, BIT_IDENTIFIER = 1, 2, 4, 8, 64, 512, 128, 1 << 16


def time_offsets(sample_type):
    """Where the time is: in a sample, from its start; in other records, from their end (include/uapi/linux/perf_event.h)."""
    front = 8 + 8 * sum(1 for bit in (BIT_IDENTIFIER, BIT_IP, BIT_TID) if sample_type & bit)
    back = 8 * sum(1 for bit in (BIT_TIME, BIT_ID, BIT_STREAM, BIT_CPU, BIT_IDENTIFIER) if sample_type & bit)
    return front, back


def main():
    source, target, times = sys.argv[1], sys.argv[2], int(sys.argv[3])
    data = open(source, "rb").read()
    magic, _, _, attrs_at, _, data_at, data_size = struct.unpack_from("<8sQQQQQQ", data)
    if magic != b"PERFILE2":
        sys.exit("multiply: not a perf.data file of this byte order")
    front, back = time_offsets(struct.unpack_from("<Q", data, attrs_at + 24)[0])
    body, places, at, first, last = bytearray(), [], data_at, None, 0
    while at < data_at + data_size:
        kind, _, size = struct.unpack_from("<IHH", data, at)
        if size < 8:
            sys.exit("multiply: a record of no size")
        if kind not in (READ, LOST, LOST_SAMPLES):
            place = len(body) + (front if kind == SAMPLE else size - back)
            body += data[at:at + size]
            if kind < 64:
                moment = struct.unpack_from("<Q", body, place)[0]
                if moment != 0:
                    places.append((place, moment))
                    first = moment if first is None else min(first, moment)
                    last = max(last, moment)
        at += size
    span = last - first + 1000000
    with open(target, "wb") as out:
        header = bytearray(data[:data_at])
        struct.pack_into("<Q", header, 48, len(body) * times)
        out.write(header)
        for i in range(times):
            if i > 0:
                for place, moment in places:
                    struct.pack_into("<Q", body, place, moment + i * span)
            out.write(body)
        out.write(features(data, data_at, data_size, len(body) * times))


def features(data, data_at, data_size, new_size):
    """The header's feature sections, which point into the file, moved to where the data ends now."""
    tail = bytearray(data[data_at + data_size:])
    bits = sum(bin(b).count("1") for b in data[72:104])
    for i in range(bits):
        offset, size = struct.unpack_from("<QQ", tail, 16 * i)
        struct.pack_into("<QQ", tail, 16 * i, offset + new_size - data_size, size)
    return tail


main()
