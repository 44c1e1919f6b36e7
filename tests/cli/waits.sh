# Sourced by the tests that record: they wait for what happens, never for a time in which it should have. A busy machine makes them slow, not wrong.
# shellcheck shell=bash
soon() { # COMMAND…: runs it until it succeeds; what has not come in two minutes does not come
	local end=$((SECONDS + 120))
	until "$@"; do
		[ $SECONDS -lt $end ] || { echo "# in vain: $*"; return 1; }
		sleep 0.01
	done
}
often() { # COMMAND…: tries it up to eight times, for what the host may spoil now and then (a stretch in which it runs something else) and a fault always does
	for _ in 1 2 3 4 5 6 7; do
		"$@" && return 0
	done
	"$@"
}
has_used() { # PID MS: of CPU time, all its threads together
	local stat
	read -r stat 2>/dev/null <"/proc/$1/stat" || return 1
	# shellcheck disable=SC2086 # proc(5): behind the name in parentheses, utime and stime are the 12th and 13th
	set -- ${stat##*) } "$2"
	[ $(((${12} + ${13}) * 1000 / $(getconf CLK_TCK))) -ge "${!#}" ]
}
child_has_used() { # PID MS: of CPU time, the command that this recorder started
	local child
	child=$(pgrep -P "$1" | head -n 1)
	[ -n "$child" ] && has_used "$child" "$2"
}
has_stopped() { # PID
	grep -q '^State:.T' "/proc/$1/status" 2>/dev/null
}
# The recorder has opened its events and its file, and knows its target: from here on a signal is a wish, and what the target does is seen.
is_recording() { # FILE: what it is to write, or writes already: with the first sample it takes the name
	local pid fd
	compgen -G "$1.[0-9]*.tmp" >/dev/null && return 0
	for pid in $(pgrep perfsample); do
		for fd in "/proc/$pid/fd/"*; do
			[ "$fd" -ef "$1" ] && return 0
		done
	done
	return 1
}
# A recorder that stands still while its command uses 0.7 s of CPU time: more than its rings hold.
stand_still() { # PID
	soon child_has_used "$1" 500 && kill -STOP "$1" && soon child_has_used "$1" 1200
	kill -CONT "$1"
}
