#!/bin/bash
# Code that lies in an image inside a zip archive (Android's APK), in recordings: stacks and names as if the image were a file of its own.
. "$(dirname "$0")/tap.sh"
if ! { command -v clang && command -v ld.lld && command -v python3; } >/dev/null; then
	skip "no clang, lld or python3" "images inside archives"
	done_testing
fi
python3 "$fixtures/archives.py" "$work/made" 2>"$work/err"
ok $? "recordings are made" || sed 's/^/#   /' "$work/err"
for data in "$work"/made/*.data; do
	name=$(basename "$data" .data)
	root=${data%.data}
	ps fold -i "$data" --symfs "$root"
	is "$status $out" "0 app;start;outer;middle;inner 10" "$name: unwound and named"
	ps script -i "$data" --symfs "$root"
	like "$out" 'inner\+0x[0-9a-f]+ \(/data/app/one/base.apk!/?lib/any/liblocal.so\)' "$name: the file is the archive and its entry"
	ps fold -i "$data"
	like "$status $out" '^0 app;\[unwind failed\];\[(base.apk|liblocal.so)\] 10$' "$name: nothing without the archive"
done
ps inject -i "$work/made/x86_64-code.data" --symfs "$work/made/x86_64-code" -o "$work/injected.data"
ps fold -i "$work/injected.data" --symfs "$work/made/x86_64-code"
is "$status $out" "0 app;start;outer;middle;inner 10" "injected: the same"
ps fold -i "$work/injected.data"
is "$status $out" "0 app;start;outer;middle;inner 10" "injected: names are inside, the archive is not needed"
ps archive -i "$work/made/x86_64-entry.data" --symfs "$work/made/x86_64-entry" -o "$work/packed.tar"
ok "$status" "archive: packs what lies in an archive"
like "$(tar -tf "$work/packed.tar" 2>&1)" 'base.apk!/lib/any/liblocal.so/[0-9a-f]{16}/elf' "archive: as an image of its own"
damaged=$work/made/x86_64-code/data/app/one/base.apk
head -c 50000 "$damaged" >"$work/cut" && cp "$work/cut" "$damaged"
ps fold -i "$work/made/x86_64-code.data" --symfs "$work/made/x86_64-code"
like "$status $out" '^0 app;\[unwind failed\];\[base.apk\] 10$' "an archive that was cut short: no name, no crash"
done_testing
