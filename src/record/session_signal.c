// Signals that end a recording: whom they were sent to, and what becomes of the command.
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/unfinished.h"
#include "record/session_private.h"

static void abort_now(struct session *session, int signal)
{
	// The second signal. What was flushed a second ago stays readable; the command and its cgroup go.
	unfinished_remove();
	if (session->target.has_child)
		child_kill(&session->target.child, SIGKILL);
	target_release(&session->target);
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, signal);
	struct sigaction action = { .sa_handler = SIG_DFL };
	sigaction(signal, &action, NULL);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	raise(signal);
}

// A key of the terminal goes to the whole foreground group, so the command has it already, as it has SIGHUP when the session's leader ends. But a terminal that is gone is told
// to the leader alone (tty_signal_session_leader() in drivers/tty/tty_jobctrl.c), which is what we are behind `ssh -t` and `docker exec -t`. From elsewhere it is for both.
static bool is_for_us_alone(const struct signalfd_siginfo *info)
{
	return info->ssi_code <= 0 || (info->ssi_signo == SIGHUP && getsid(0) == getpid());
}

bool session_take_signal(struct session *session)
{
	struct signalfd_siginfo info;
	bool ends = false;
	while (read(session->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		if (session->ended_by_signal != 0)
			abort_now(session, (int)info.ssi_signo);
		session->ended_by_signal = (int)info.ssi_signo;
		if (!session->target.is_command) {
			ends = true;
			continue;
		}
		if (is_for_us_alone(&info)) // its end is ours
			child_kill(&session->target.child, (int)info.ssi_signo);
	}
	session->end = END_SIGNAL;
	return ends;
}
