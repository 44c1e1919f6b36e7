#!/bin/bash
# make install and uninstall: everything in its place, and nothing left.
. "$(dirname "$0")/tap.sh"

cd "$root" || exit 1
make -s install B="${BUILD:-build}" PREFIX=/opt/ps DESTDIR="$work/root" >"$work/log" 2>&1
ok $? "make install" || sed 's/^/#   /' "$work/log"
installed=$(cd "$work/root" && find . -type f | LC_ALL=C sort)
for f in bin/perfsample share/man/man1/perfsample.1 share/man/man1/perfsample-record.1 share/bash-completion/completions/perfsample \
	share/zsh/site-functions/_perfsample share/doc/perfsample/README.md share/perfsample/schema/perfsample-report-1.json; do
	like "$installed" "^\./opt/ps/$f\$" "$f"
done
is "$("$work/root/opt/ps/bin/perfsample" --version | head -n 1)" "$("$perfsample" --version | head -n 1)" "the installed program runs"
for page in "$work"/root/opt/ps/share/man/man1/*.1; do
	is "$(man --warnings -l "$page" 2>&1 >/dev/null)" "" "man page ${page##*/} has no faults"
	unlike "$(cat "$page")" '^@|@VERSION@' "${page##*/} has no part that was not filled in"
done
for c in $("$perfsample" help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
	[ "$c" = help ] || like "$installed" "perfsample-$c\.1" "command $c has a man page"
done
make -s uninstall B="${BUILD:-build}" PREFIX=/opt/ps DESTDIR="$work/root" >"$work/log" 2>&1
ok $? "make uninstall"
is "$(cd "$work/root" && find . -type f)" "" "nothing is left"
done_testing
