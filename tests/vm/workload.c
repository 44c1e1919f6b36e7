// Three programs in one whose stacks and shares are known by construction, for a guest in which cycles are exact.
// usage: workload shares|deep|handler SECONDS
#include <alloca.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

#define APART __attribute__((noinline, noclone))

static double until;

static double cpu_seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static inline __attribute__((always_inline)) uint64_t spin(uint64_t turns, uint64_t x)
{
	for (uint64_t i = 0; i < turns; i++) {
		x = x * 6364136223846793005u + 1442695040888963407u;
		__asm__ volatile("" : "+r"(x));
	}
	return x;
}

// ---------------------------------------------------------------- shares: 40, 25, 15, 10, 5, 3 and 2 % of the turns of one loop

#define PART(name, offset) APART static uint64_t name(uint64_t turns, uint64_t x) { return spin(turns, x + (offset)); }
PART(part_40, 1) PART(part_25, 2) PART(part_15, 3) PART(part_10, 4) PART(part_5, 5) PART(part_3, 6) PART(part_2, 7)

APART static uint64_t one_round(uint64_t x)
{
	static const struct { uint64_t (*part)(uint64_t, uint64_t); unsigned turns; } parts[] = {
		{ part_40, 40 }, { part_25, 25 }, { part_15, 15 }, { part_10, 10 }, { part_5, 5 }, { part_3, 3 }, { part_2, 2 },
	};
	// Rounds differ in length, so that they keep step with no clock.
	unsigned length = 300 + (unsigned)(x >> 33) % 601;
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		x = parts[i].part((uint64_t)parts[i].turns * length, x);
	return x;
}

static void *rounds(void *seed)
{
	uint64_t x = (uint64_t)(uintptr_t)seed;
	while (cpu_seconds() < until)
		x = one_round(x);
	return (void *)(uintptr_t)x;
}

// ---------------------------------------------------------------- deep: 300 frames, none of them with a frame pointer

APART static uint64_t bottom(uint64_t x)
{
	return spin(20000, x);
}

APART static uint64_t descend(int depth, uint64_t x)
{
	volatile char room[48];
	room[depth % 48] = (char)x;
	return (depth > 0 ? descend(depth - 1, x) : bottom(x)) + (uint64_t)room[depth % 48];
}

// ---------------------------------------------------------------- handler: above a leaf that a signal interrupted

APART static uint64_t in_handler(uint64_t x)
{
	return spin(200000, x);
}

static volatile uint64_t sink;

static void on_alarm(int number)
{
	sink += in_handler((uint64_t)number);
}

APART static uint64_t interrupted_leaf(uint64_t x)
{
	return spin(50000, x);
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	until = cpu_seconds() + atof(argv[2]);
	uint64_t x = 1;
	if (strcmp(argv[1], "shares") == 0) {
		pthread_t other;
		pthread_create(&other, NULL, rounds, (void *)(uintptr_t)12345);
		rounds((void *)(uintptr_t)67890);
		pthread_join(other, NULL);
	} else if (strcmp(argv[1], "deep") == 0) {
		while (cpu_seconds() < until)
			x = descend(300, x);
	} else if (strcmp(argv[1], "handler") == 0) {
		signal(SIGALRM, on_alarm);
		struct itimerval every = { { 0, 4000 }, { 0, 4000 } };
		setitimer(ITIMER_REAL, &every, NULL);
		while (cpu_seconds() < until)
			x = interrupted_leaf(x);
	} else {
		return 2;
	}
	return x == 42;
}
