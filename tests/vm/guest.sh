#!/bin/sh
# Runs in the guest, by its shell: records, and reads there what the host will read again. Files in /out come back.
cd /out || exit 1
for kind in shares deep handler; do
	seconds=1
	[ $kind = shares ] && seconds=2
	perfsample record -e cycles -F 1009 -o $kind.data -- workload $kind $seconds >$kind.out 2>$kind.err || echo "record $kind: status $?" >>failed
	perfsample report -i $kind.data --format json >$kind.json 2>>$kind.err || echo "report $kind: status $?" >>failed
	perfsample fold -i $kind.data >$kind.folded 2>>$kind.err || echo "fold $kind: status $?" >>failed
done
# Registers and stack copies, to be unwound elsewhere.
perfsample record -e cycles -F 1009 --unwind post --call-graph dwarf,40960 -o raw.data -- workload deep 0.25 >raw.out 2>raw.err || echo "record raw: status $?" >>failed
perfsample fold -i raw.data >raw.folded 2>>raw.err || echo "fold raw: status $?" >>failed
uname -srm >kernel
