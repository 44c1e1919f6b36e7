// What the recorders are measured on: THREADS threads that use SECONDS of CPU together, each FRAMES calls deep; with a folder, each of its
// shared libraries (lib0.so, lib1.so, …) is called in turn as the innermost function.
//
//   busy THREADS FRAMES SECONDS [FOLDER LIBRARIES]
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef unsigned work_fn(unsigned);

struct plan {
	int frames, libraries;
	double seconds;
	work_fn **works;
};

static double thread_seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static __attribute__((noinline)) unsigned spin(const struct plan *plan)
{
	unsigned x = 1;
	for (int turn = 0; thread_seconds() < plan->seconds; turn++) {
		if (plan->libraries > 0)
			x += plan->works[turn % plan->libraries](x);
		else
			for (int i = 0; i < 20000; i++)
				x = x * 1664525 + 1013904223;
	}
	return x;
}

static __attribute__((noinline)) unsigned descend(const struct plan *plan, int depth)
{
	unsigned x = depth > 1 ? descend(plan, depth - 1) : spin(plan);
	__asm__ volatile("" : "+r"(x)); // no tail call
	return x + 1;
}

static void *run(void *argument)
{
	return (void *)(uintptr_t)descend(argument, ((struct plan *)argument)->frames);
}

int main(int argc, char **argv)
{
	if (argc != 4 && argc != 6) {
		fprintf(stderr, "usage: busy THREADS FRAMES SECONDS [FOLDER LIBRARIES]\n");
		return 2;
	}
	int threads = atoi(argv[1]);
	struct plan plan = { .frames = atoi(argv[2]), .seconds = atof(argv[3]) / (threads > 0 ? threads : 1) };
	if (threads < 1 || plan.frames < 1)
		return 2;
	plan.libraries = argc == 6 ? atoi(argv[5]) : 0;
	plan.works = calloc((size_t)plan.libraries + 1, sizeof(*plan.works));
	for (int i = 0; i < plan.libraries && plan.works != NULL; i++) {
		char path[4096];
		snprintf(path, sizeof(path), "%s/lib%d.so", argv[4], i);
		void *library = dlopen(path, RTLD_NOW);
		if (library == NULL || (plan.works[i] = (work_fn *)(uintptr_t)dlsym(library, "work")) == NULL) {
			fprintf(stderr, "busy: %s\n", dlerror());
			return 1;
		}
	}
	pthread_t *ids = calloc((size_t)threads, sizeof(*ids));
	pthread_attr_t attr;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 256 * 1024);
	int started = 0;
	for (; ids != NULL && started < threads; started++)
		if (pthread_create(&ids[started], &attr, run, &plan) != 0)
			break;
	for (int i = 0; i < started; i++)
		pthread_join(ids[i], NULL);
	free(ids);
	free(plan.works);
	return started == threads ? 0 : 1;
}
