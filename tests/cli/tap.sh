# Sourced by the tests of the command line: TAP lines from shell. PERFSAMPLE is the program; each test works in a directory of its own.
# shellcheck shell=bash
set -u
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
perfsample=$(realpath -m "${PERFSAMPLE:-$root/build/perfsample}")
fixtures=$root/tests/fixtures
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tap_count=0 tap_failed=0

ok() { # STATUS NAME…: a check that went well when STATUS is 0; else what the last command said on standard error, where it is kept in err, is shown
	local status=$1
	shift
	tap_count=$((tap_count + 1))
	[ "$status" -eq 0 ] || { printf 'not '; tap_failed=1; }
	printf 'ok %d - %s\n' "$tap_count" "$*"
	[ "$status" -eq 0 ] || [ ! -s "$work/err" ] || tail -n 5 "$work/err" | cut -c1-300 | sed 's/^/#   /'
	return "$status"
}
is() { # GOT WANTED NAME…
	local got=$1 wanted=$2
	shift 2
	[ "$got" = "$wanted" ]
	ok $? "$@" || printf '#   got    %q\n#   wanted %q\n' "${got:0:400}" "${wanted:0:400}"
}
like() { # TEXT PATTERN(extended) NAME…
	local text=$1 pattern=$2
	shift 2
	grep -q -E -e "$pattern" <<<"$text"
	ok $? "$@" || printf '#   %q\n#   is not like %s\n' "${text:0:600}" "$pattern"
}
unlike() {
	local text=$1 pattern=$2
	shift 2
	! grep -q -E -e "$pattern" <<<"$text"
	ok $? "$@" || printf '#   %q\n#   is like %s\n' "$(grep -m 3 -E -e "$pattern" <<<"$text" | cut -c1-300)" "$pattern"
}
rec() { # OPTIONS…: runs record in the test's folder; its standard output in out there, standard error in err
	(cd "$work" && timeout 200 "$perfsample" record "$@" >out 2>err)
}
skip() { # REASON NAME…
	local reason=$1
	shift
	tap_count=$((tap_count + 1))
	echo "ok $tap_count - $* # SKIP $reason"
}
# ps ARGS…: runs perfsample; out, err and status tell what it did.
ps() {
	status=0
	out=$("$perfsample" "$@" 2>"$work/err") || status=$?
	err=$(cat "$work/err")
}
refuses() { # STATUS PATTERN NAME COMMAND ARGS…: perfsample ends with STATUS and a message that names the matter, and writes nothing on standard output
	local wanted=$1 pattern=$2 name=$3
	shift 3
	ps "$@"
	[ "$status" -eq "$wanted" ] && [ -z "$out" ] && grep -qE -- "$pattern" <<<"$err"
	ok $? "$name" || printf '#   status %d: %q\n' "$status" "${err:0:400}"
}
done_testing() {
	echo "1..$tap_count"
	exit $tap_failed
}
