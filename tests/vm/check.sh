#!/bin/bash
# make check-vm: the program built for AArch64, recording hardware events in an emulated guest, and its recordings read here. TAP.
#
# PERFSAMPLE_VM: the program that runs a command in the guest (its options -p, -f, -o, -T as used below). CROSS_SYSROOT: a folder with the target's
# libraries and headers; empty: the runner's own (its --packages-dir).
set -u
cd "$(dirname "$0")/../.." || exit 1
vm=${PERFSAMPLE_VM:-../shared/vm/run-guest}
cross=${CROSS:-aarch64-linux-gnu-}
libraries="libzstd1 zlib1g libjansson4 liblzma5 libc6"
skip() {
	echo "1..0 # SKIP $*"
	exit 0
}
[ -x "$vm" ] || skip "no program that runs a guest at $vm (PERFSAMPLE_VM)"
command -v qemu-system-aarch64 >/dev/null || skip "no qemu-system-aarch64 (package qemu-system-arm)"
command -v "${cross}gcc" >/dev/null || skip "no ${cross}gcc (packages gcc-aarch64-linux-gnu, libc6-dev-arm64-cross)"
sysroot=${CROSS_SYSROOT:-$("$vm" -p "$(make -s cross-packages) zlib1g-dev $libraries" --packages-dir)}
[ -d "$sysroot" ] || skip "the target's libraries are not to be had ($vm --packages-dir)"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
build=build/${cross%-}
make -s -j"$(nproc)" CROSS="$cross" CROSS_SYSROOT="$sysroot" "$build/perfsample" >"$work/make" 2>&1 || {
	echo "not ok 1 - it is built by ${cross}gcc"
	sed 's/^/#   /' "$work/make" | tail -20
	echo "1..1"
	exit 1
}
"${cross}gcc" -O2 -g -fomit-frame-pointer -fno-optimize-sibling-calls -static -pthread -o "$work/workload" tests/vm/workload.c || exit 1
"$vm" -T 170 --nice 0 -o "$work" -p "$libraries" -f "$build/perfsample" -f "$work/workload" -f tests/vm/guest.sh:/guest.sh sh /guest.sh >"$work/console" 2>&1
status=$?
if [ $status -ne 0 ]; then
	echo "not ok 1 - the guest ends with status $status (124: not within 170 s)"
	tail -5 "$work/console" | sed 's/^/#   /'
	echo "1..1"
	exit 1
fi
python3 tests/vm/judge.py "$work" "$PWD/build/perfsample" "$work/workload"
