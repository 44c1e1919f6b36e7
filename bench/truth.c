// Ground truth for the statistics: four functions, each on pages of its own, spin to deadlines of the CPU's time stamp counter, and the program says
// at its end how long each really took. What a sampling profiler finds can be held against that.
//
//     truth SCHEDULE CPU-SECONDS [OUT]
//
// SCHEDULE  short, mid, long   renewal: stays exponential times of mean 20 us, 1 ms, 50 ms in a function drawn by its share
//           short:MS           the same with that mean
//           burst              spin_d in bursts of 20 ms, exponential gaps of mean 380 ms between them, the others meanwhile as in short
//           inc                a loop of 0.7368 ms, each function at its place in it
//           lock[:MS]          a loop of 1 ms, or of MS
//           tied:MS            as long, with mean MS; the parent, a recorder, is stopped (SIGSTOP) while spin_d runs
//           stalls:MS          short, and the parent is stopped for MS about once a second, whoever runs
// Shares are .50, .30, .15 and .05 of the CPU seconds. OUT gets a JSON object; default standard output.
//
// Time counts as a function's when two readings of the counter in it lie within 30 us. Longer gaps are the kernel's or the hypervisor's: nobody's. The
// deadlines of a stay move on by them. Those of a loop move on by what the program's CPU clock says it was not running: a sampling clock runs on through
// interrupts, its own among them, and a loop that was put off by each would never be in step with it.
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

enum { FUNCTIONS = 4, D = 3 };
static const double GAP_S = 30e-6;

// One for each function, written by it alone while it spins.
struct stay { uint64_t ticks, gap_ticks, gaps, moved; };
// `ahead`: by how many ticks the counter was ahead of the CPU clock when that was last read; `hz` 0: gaps move deadlines on whole.
struct clock { uint64_t gap; double hz, ahead; };
// `end`: counter at which the stay ends. Returns the counter when it left.
typedef uint64_t spin_function(uint64_t last, uint64_t end, struct clock *clock, struct stay *stay);

static inline __attribute__((always_inline)) uint64_t counter(void)
{
#if defined(__x86_64__)
	uint32_t low, high;
	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	return (uint64_t)high << 32 | low;
#elif defined(__aarch64__)
	uint64_t value;
	__asm__ volatile("isb; mrs %0, cntvct_el0" : "=r"(value));
	return value;
#else
#error "no counter known for this architecture"
#endif
}

static double cpu_seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

// How far a gap of so many ticks moves deadlines on.
static __attribute__((noinline)) uint64_t not_running(struct clock *clock, uint64_t passed)
{
	if (!(clock->hz > 0))
		return passed;
	double ahead = (double)counter() - cpu_seconds() * clock->hz, moved = ahead - clock->ahead;
	if (moved <= 0)
		return 0;
	clock->ahead += (double)(uint64_t)moved;
	return (uint64_t)moved;
}

#define SPIN(name) \
	__attribute__((noinline, noclone, aligned(4096))) static uint64_t name(uint64_t last, uint64_t end, struct clock *clock, struct stay *stay) \
	{ \
		while (last < end) { \
			uint64_t now = counter(), passed = now - last; \
			if (passed > clock->gap) { \
				uint64_t moved = not_running(clock, passed); \
				stay->gap_ticks += passed; \
				stay->gaps++; \
				stay->moved += moved; \
				end += moved; \
			} else { \
				stay->ticks += passed; \
			} \
			last = now; \
		} \
		return last; \
	}

SPIN(spin_a)
SPIN(spin_b)
SPIN(spin_c)
SPIN(spin_d)
// What follows starts on a page of its own too.
__attribute__((noinline, aligned(4096))) static double uniform(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return ((double)(*state >> 11) + 0.5) / 9007199254740992.0;
}

static spin_function *const spins[FUNCTIONS] = { spin_a, spin_b, spin_c, spin_d };
static const char *const names[FUNCTIONS] = { "spin_a", "spin_b", "spin_c", "spin_d" };
static const double shares[FUNCTIONS] = { 0.50, 0.30, 0.15, 0.05 };

struct truth {
	double hz;                       // of the counter
	struct clock clock;
	uint64_t random;
	struct stay stays[FUNCTIONS];
	uint64_t visits[FUNCTIONS];
	int before;                      // function that ran last, -1: none
	uint64_t now, left;              // counter; ticks of work that are left
	double owed;                     // ticks by which the last stay was longer than asked for
	uint64_t stops;                  // of the parent
};

static double seconds_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double counter_hz(void)
{
	double from_s = seconds_now();
	uint64_t from = counter();
	usleep(20000);
	return (double)(counter() - from) / (seconds_now() - from_s);
}

static void stay_in(struct truth *t, int f, double seconds)
{
	double wanted = fmin(seconds * t->hz, (double)t->left) - t->owed;
	t->owed = 0;
	if (wanted <= 0) {
		t->owed = -wanted;
		return;
	}
	uint64_t before = t->stays[f].ticks, ticks = (uint64_t)wanted;
	t->visits[f] += t->before != f;
	t->before = f;
	t->now = counter();
	t->now = spins[f](t->now, t->now + ticks, &t->clock, &t->stays[f]);
	uint64_t spent = t->stays[f].ticks - before;
	t->left = spent < t->left ? t->left - spent : 0;
	t->owed = spent > ticks ? (double)(spent - ticks) : 0;
}

static double exponential(struct truth *t, double mean_s)
{
	return -mean_s * log(uniform(&t->random));
}

static int draw(struct truth *t, int functions)
{
	double sum = 0, u, most = 0;
	for (int f = 0; f < functions; f++)
		most += shares[f];
	u = uniform(&t->random) * most;
	for (int f = 0; f + 1 < functions; f++)
		if (u < (sum += shares[f]))
			return f;
	return functions - 1;
}

static void renew(struct truth *t, double mean_s)
{
	while (t->left > 0)
		stay_in(t, draw(t, FUNCTIONS), exponential(t, mean_s));
}

static void burst(struct truth *t)
{
	double gap_s = uniform(&t->random) < 0.05 ? 0 : exponential(t, 0.38), burst_s = gap_s > 0 ? 0.02 : 0.02 * uniform(&t->random);
	while (t->left > 0) {
		while (gap_s > 0 && t->left > 0) {
			double stay_s = fmin(gap_s, exponential(t, 20e-6));
			stay_in(t, draw(t, FUNCTIONS - 1), stay_s);
			gap_s -= stay_s;
		}
		stay_in(t, D, burst_s);
		burst_s = 0.02;
		gap_s = exponential(t, 0.38);
	}
}

// The time between the stays is the loop's too: the places are kept by the counter, and what a stay came late is not made up twice.
static void loop(struct truth *t, double cycle_s)
{
	double cycle = cycle_s * t->hz, base = (double)counter() - uniform(&t->random) * cycle, shifted = 0;
	t->clock.hz = t->hz;
	t->clock.ahead = (double)counter() - cpu_seconds() * t->hz;
	for (uint64_t round = 0; t->left > 0; round++) {
		double end = base + (double)round * cycle;
		for (int f = 0; f < FUNCTIONS && t->left > 0; f++) {
			end += shares[f] * cycle;
			uint64_t from = counter(), until = (uint64_t)(end + shifted), ticks = t->stays[f].ticks, moved = t->stays[f].moved;
			if (until <= from)
				continue;
			t->visits[f]++;
			spins[f](from, until, &t->clock, &t->stays[f]);
			shifted += (double)(t->stays[f].moved - moved);
			ticks = t->stays[f].ticks - ticks;
			t->left = ticks < t->left ? t->left - ticks : 0;
		}
		// Preempted between two stays: the loop goes on from where it was, as in them.
		if ((double)counter() - (end + shifted) > (double)t->clock.gap)
			shifted += (double)not_running(&t->clock, 0);
	}
}

static void stop_parent(struct truth *t, bool stop)
{
	kill(getppid(), stop ? SIGSTOP : SIGCONT);
	t->stops += stop;
}

static void tied(struct truth *t, double mean_s)
{
	while (t->left > 0) {
		int f = draw(t, FUNCTIONS);
		double stay_s = exponential(t, mean_s);
		if (f == D)
			stop_parent(t, true);
		stay_in(t, f, stay_s);
		if (f == D)
			stop_parent(t, false);
	}
}

// In the program's own time: the recorder stands still for so long, about once a second, whoever runs.
static void stalls(struct truth *t, double mean_s, double stall_s)
{
	double from = (double)t->left, next_s = exponential(t, 1), resume_s = 0;
	while (t->left > 0) {
		double now_s = (from - (double)t->left) / t->hz;
		if (resume_s > 0 && now_s >= resume_s) {
			stop_parent(t, false);
			next_s = now_s + exponential(t, 1);
			resume_s = 0;
		} else if (resume_s == 0 && now_s >= next_s) {
			stop_parent(t, true);
			resume_s = now_s + stall_s;
		}
		stay_in(t, draw(t, FUNCTIONS), exponential(t, mean_s));
	}
	if (resume_s > 0)
		stop_parent(t, false);
}

static bool run(struct truth *t, const char *schedule)
{
	const char *colon = strchr(schedule, ':');
	size_t length = colon != NULL ? (size_t)(colon - schedule) : strlen(schedule);
	double given_s = colon != NULL ? strtod(colon + 1, NULL) / 1e3 : 0;
#define IS(text) (length == sizeof(text) - 1 && memcmp(schedule, text, length) == 0)
	if (IS("short"))
		renew(t, given_s > 0 ? given_s : 20e-6);
	else if (IS("mid"))
		renew(t, 1e-3);
	else if (IS("long"))
		renew(t, 50e-3);
	else if (IS("burst"))
		burst(t);
	else if (IS("inc"))
		loop(t, 0.7368e-3);
	else if (IS("lock"))
		loop(t, given_s > 0 ? given_s : 1e-3);
	else if (IS("tied") && given_s > 0)
		tied(t, given_s);
	else if (IS("stalls") && given_s > 0)
		stalls(t, 20e-6, given_s);
	else
		return false;
	return true;
}

static void say(const struct truth *t, const char *schedule, FILE *out)
{
	uint64_t gaps = 0, gap_ticks = 0;
	fprintf(out, "{\"schedule\": \"%s\", \"seconds\": {", schedule);
	for (int f = 0; f < FUNCTIONS; f++) {
		fprintf(out, "%s\"%s\": %.9f", f > 0 ? ", " : "", names[f], (double)t->stays[f].ticks / t->hz);
		gaps += t->stays[f].gaps;
		gap_ticks += t->stays[f].gap_ticks;
	}
	fprintf(out, "}, \"visits\": {");
	for (int f = 0; f < FUNCTIONS; f++)
		fprintf(out, "%s\"%s\": %llu", f > 0 ? ", " : "", names[f], (unsigned long long)t->visits[f]);
	fprintf(out, "}, \"gaps\": %llu, \"gap_seconds\": %.9f, \"stops\": %llu}\n", (unsigned long long)gaps, (double)gap_ticks / t->hz,
	        (unsigned long long)t->stops);
}

int main(int argc, char **argv)
{
	double seconds = argc > 2 ? atof(argv[2]) : 0;
	if (argc < 3 || argc > 4 || !(seconds > 0) || !(seconds < 3600)) {
		fprintf(stderr, "usage: truth SCHEDULE CPU-SECONDS [OUT]\n");
		return 2;
	}
	struct truth t = { .hz = counter_hz(), .before = -1 };
	if (getrandom(&t.random, sizeof(t.random), 0) != sizeof(t.random))
		return 1;
	t.clock.gap = (uint64_t)(GAP_S * t.hz);
	t.left = (uint64_t)(seconds * t.hz);
	if (!run(&t, argv[1])) {
		fprintf(stderr, "truth: no schedule '%s'\n", argv[1]);
		return 2;
	}
	FILE *out = argc > 3 ? fopen(argv[3], "w") : stdout;
	if (out == NULL)
		return 1;
	say(&t, argv[1], out);
	return fclose(out) == 0 ? 0 : 1;
}
