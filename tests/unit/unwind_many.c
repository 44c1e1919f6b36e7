// Many stacks: together as one by one, and what the walk may not do once its rules are compiled: allocate, lock, call the system.
#include "unwind/unwind.h"

#include "tests/tap.h"

#if defined(__x86_64__)
#include <dlfcn.h>
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "tests/live_stack.h"

// ---------------------------------------------------------------- what is counted

static unsigned long allocations, locks;
static volatile sig_atomic_t calls;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_ALONE 0 // no sanitizer takes locks and makes system calls beside the program
int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void *, size_t), void (*on_free)(const volatile void *));

static void on_malloc(const volatile void *block, size_t size)
{
	(void)block, (void)size;
	allocations++;
}

static void on_free(const volatile void *block)
{
	(void)block;
	allocations++;
}

static void start_counting(void)
{
	__sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
}
#else
#define IS_ALONE 1
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *block, size_t size);
extern void __libc_free(void *block);

void *malloc(size_t size)
{
	allocations++;
	return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
	allocations++;
	return __libc_calloc(count, size);
}

void *realloc(void *block, size_t size)
{
	allocations++;
	return __libc_realloc(block, size);
}

void free(void *block)
{
	allocations++;
	__libc_free(block);
}

void *mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
	allocations++;
	return (void *)syscall(SYS_mmap, at, size, protection, flags, fd, offset);
}

// Whatever these lead to, found before anything is counted.
static int (*real_lock)(pthread_mutex_t *), (*real_try)(pthread_mutex_t *);
static int (*real_read)(pthread_rwlock_t *), (*real_write)(pthread_rwlock_t *);

int pthread_mutex_lock(pthread_mutex_t *mutex)
{
	locks++;
	return real_lock != NULL ? real_lock(mutex) : 0;
}

int pthread_mutex_trylock(pthread_mutex_t *mutex)
{
	locks++;
	return real_try != NULL ? real_try(mutex) : 0;
}

int pthread_rwlock_rdlock(pthread_rwlock_t *lock)
{
	locks++;
	return real_read != NULL ? real_read(lock) : 0;
}

int pthread_rwlock_wrlock(pthread_rwlock_t *lock)
{
	locks++;
	return real_write != NULL ? real_write(lock) : 0;
}

static void start_counting(void)
{
	real_lock = (int (*)(pthread_mutex_t *))dlsym(RTLD_NEXT, "pthread_mutex_lock");
	real_try = (int (*)(pthread_mutex_t *))dlsym(RTLD_NEXT, "pthread_mutex_trylock");
	real_read = (int (*)(pthread_rwlock_t *))dlsym(RTLD_NEXT, "pthread_rwlock_rdlock");
	real_write = (int (*)(pthread_rwlock_t *))dlsym(RTLD_NEXT, "pthread_rwlock_wrlock");
}
#endif

static void on_call(int number)
{
	(void)number;
	calls++;
}

// Every system call but these is refused and raises SIGSYS. false: the host does not let us.
static bool trap_calls(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = sizeof(filter) / sizeof(*filter), .filter = filter };

	signal(SIGSYS, on_call);
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// ---------------------------------------------------------------- stacks of many shapes

enum { SNAPSHOTS = 96, ROUNDS = 20 };
static struct snapshot *taken[SNAPSHOTS];
static size_t taken_count;
static volatile uint64_t sink;

static void keep(const ucontext_t *here)
{
	if (taken_count == SNAPSHOTS)
		return;
	taken[taken_count] = mem_alloc(sizeof(struct snapshot));
	snap(taken[taken_count++], here, MAX_STACK);
}

static __attribute__((noinline)) void take(void)
{
	static ucontext_t here;

	getcontext(&here);
	keep(&here);
}

static void on_signal(int number, siginfo_t *info, void *context)
{
	(void)number, (void)info;
	keep(context); // the interrupted code as the leaf
	take();        // and the handler's own stack
}

static __attribute__((noinline)) void realigned(int depth); // its CFA comes from an expression
static __attribute__((noinline)) void sized(int depth)
{
	volatile char *block = __builtin_alloca((size_t)(depth * 40 + 8));

	block[0] = 1;
	if (depth > 0)
		realigned(depth - 1);
	else
		raise(SIGUSR1);
	sink += (uint64_t)block[0];
}

static __attribute__((noinline)) void realigned(int depth)
{
	__attribute__((aligned(64))) volatile uint64_t block[8];

	block[depth & 7] = (uint64_t)depth;
	if (depth > 0)
		sized(depth - 1);
	else
		take();
	sink += block[depth & 7];
}

static __attribute__((noinline)) int plain(int depth)
{
	if (depth == 0)
		take();
	int below = depth > 0 ? plain(depth - 1) : 0;
	sink += (uint64_t)below;
	return below + 1;
}

static int by_qsort(const void *a, const void *b)
{
	plain(3);
	return *(const int *)a - *(const int *)b;
}

// Code without unwind information, of the program and made at run time: its caller is told by its instructions.
void no_cfi(void);
extern const uint8_t no_cfi_end[];
__asm__(".text\n.globl no_cfi, no_cfi_end\nno_cfi: push %rbx\npush %rcx\nint3\npop %rcx\npop %rbx\nret\nno_cfi_end:\n");
static uint8_t *jit;

static struct unwind_code jit_code(void *context, uint64_t addr)
{
	uint64_t start = (uint64_t)(uintptr_t)jit;

	(void)context;
	return addr - start < 64 ? (struct unwind_code){ .bytes = jit, .start = start, .end = start + 64, .id = 1 } : (struct unwind_code){ 0 };
}

static void take_without_cfi(void)
{
	struct sigaction action = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO };

	sigaction(SIGTRAP, &action, NULL);
	no_cfi();
	jit = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (jit != MAP_FAILED) {
		memcpy(jit, (const void *)(uintptr_t)no_cfi, (size_t)(no_cfi_end - (const uint8_t *)(uintptr_t)no_cfi));
		free_maps(&maps);
		load_maps(&maps);
		((void (*)(void))(uintptr_t)jit)();
	}
	signal(SIGTRAP, SIG_DFL);
}

static void take_all(void)
{
	struct sigaction action = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO };
	int values[] = { 3, 1, 2, 5 };

	take_without_cfi();
	sigaction(SIGUSR1, &action, NULL);
	for (int depth = 0; depth < 24; depth++) {
		plain(depth * 7);
		sized(depth);
	}
	qsort(values, 4, sizeof(*values), by_qsort);
	while (taken_count < SNAPSHOTS)
		plain((int)taken_count * 3);
	signal(SIGUSR1, SIG_DFL);
}

// ---------------------------------------------------------------- together as one by one

enum { CASES = SNAPSHOTS * 3 };
static struct unwind_input inputs[CASES];
static struct unwind_stack one[CASES], many[CASES];
static size_t case_count;

static void make_cases(void)
{
	for (size_t i = 0; i < CASES; i++) {
		struct unwind_input input = input_of(taken[i % SNAPSHOTS], &maps);
		input.generation = 1 + i % 5 / 2;
		input.code = jit_code;
		size_t capacity = UNWIND_MAX_FRAMES;
		switch (i % 13) {
		case 1: input.stack_size = taken[i % SNAPSHOTS]->size / 2 & ~(size_t)7; break; // truncated
		case 2: input.stack_size = 0; break;
		case 3: input.stack_size = i % 16; break;
		case 4: input.regs_mask = 0x7f; break; // neither sp nor pc
		case 5: input.machine = 8; break;      // no table
		case 6: capacity = i % 30; break;      // frames are left out
		case 7: input.stack_top = taken[i % SNAPSHOTS]->regs[7] + 512; break;
		default: break;
		}
		inputs[i] = input;
		one[i] = (struct unwind_stack){ .frames = mem_zero(UNWIND_MAX_FRAMES, sizeof(struct frame)), .capacity = capacity };
		many[i] = (struct unwind_stack){ .frames = mem_zero(UNWIND_MAX_FRAMES, sizeof(struct frame)), .capacity = capacity };
	}
	case_count = CASES;
}

static void test_together(void)
{
	struct unwinder *alone = unwinder_new();
	unsigned ends[UNWIND_END_COUNT] = { 0 }, gaps = 0, by_code = 0;

	make_cases();
	for (size_t i = 0; i < case_count; i++) {
		unwind_stack(alone, &inputs[i], &one[i]);
		ends[one[i].end]++;
		gaps += one[i].gap > 0;
		for (size_t k = 0; k < one[i].count; k++)
			by_code += one[i].frames[k].via == VIA_CODE;
	}
	ok(by_code >= (jit != MAP_FAILED ? 6 : 3), "%u of their frames are told by instructions", by_code);
	ok(ends[UNWIND_ROOT] > 100 && ends[UNWIND_TRUNCATED] > 10 && ends[UNWIND_UNSUPPORTED] > 10 && ends[UNWIND_NO_REGISTERS] > 20 && gaps > 3,
	   "%zu stacks that end in different ways", case_count);
	for (size_t group = 1; group <= case_count; group = group * 2 + 1) {
		struct unwinder *together = unwinder_new();
		unsigned wrong = 0;
		for (size_t from = 0; from < case_count; from += group)
			unwind_stacks(together, inputs + from, many + from, case_count - from < group ? case_count - from : group);
		for (size_t i = 0; i < case_count; i++)
			if (!is_same(&one[i], &many[i]) && wrong++ == 0)
				diag("stack %zu: %zu frames, %s; together %zu, %s", i, one[i].count, unwind_end_name(one[i].end), many[i].count, unwind_end_name(many[i].end));
		struct unwind_counters a = unwinder_counters(alone), b = unwinder_counters(together);
		ok(wrong == 0 && a.samples == b.samples && a.frames == b.frames && a.cache_hits + a.cache_misses == b.cache_hits + b.cache_misses,
		   "%zu at a time: as one by one (%u differ)", group, wrong);
		unwinder_free(together);
	}
	unwind_stacks(alone, inputs, many, 0);
	unwinder_free(alone);
}

// ---------------------------------------------------------------- what the walk does besides

static void walk_all(struct unwinder *by)
{
	unwind_stacks(by, inputs, many, case_count);
	for (size_t i = 0; i < case_count; i++)
		unwind_stack(by, &inputs[i], &one[i]);
}

static struct unwind_map careless_map(void *context, uint64_t addr)
{
	static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	void *volatile block = malloc(10);

	free(block);
	pthread_mutex_lock(&mutex);
	pthread_mutex_unlock(&mutex);
	syscall(SYS_getppid);
	return map_at(context, addr);
}

// System calls of some walks, in a child that may make none; -1 where that cannot be asked for. A sanitizer makes its own, and some until they succeed.
static int calls_in_child(struct unwinder *by, int rounds)
{
	int status;

	if (!IS_ALONE)
		return -1;
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		if (!trap_calls())
			_exit(255);
		for (int i = 0; i < rounds; i++)
			walk_all(by);
		_exit(calls < 254 ? calls : 254);
	}
	if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) == 255)
		return -1;
	return WEXITSTATUS(status);
}

static void test_besides(void)
{
	struct unwinder *by = unwinder_new();

	walk_all(by);
	unsigned long frames_before = unwinder_counters(by).frames;
	allocations = locks = 0;
	for (int i = 0; i < ROUNDS; i++)
		walk_all(by);
	unsigned long counted = allocations, locked = locks, walked = unwinder_counters(by).frames - frames_before;
	ok(walked > 100000 && counted == 0, "%lu frames: %lu allocations", walked, counted);
	if (IS_ALONE)
		ok(locked == 0, "%lu locks", locked);
	else
		skip("under a sanitizer", "locks");
	int made = calls_in_child(by, ROUNDS);
	if (made >= 0)
		ok(made == 0, "%d system calls", made);
	else
		skip(IS_ALONE ? "no seccomp filter here" : "under a sanitizer", "system calls");

	// Rules that another walk compiled are looked up without either.
	struct unwinder *fresh = unwinder_new();
	allocations = locks = 0;
	walk_all(fresh);
	counted = allocations;
	locked = locks;
	ok(unwinder_counters(fresh).cache_misses > 10 && unwinder_counters(fresh).fdes_compiled == 0 && counted == 0 && locked == 0,
	   "nor on %llu misses of the cache whose rules are there (%lu, %lu)", (unsigned long long)unwinder_counters(fresh).cache_misses, counted, locked);
	unwinder_free(fresh);

	// Would any of it be noticed?
	for (size_t i = 0; i < case_count; i++) {
		inputs[i].map = careless_map;
		inputs[i].generation += 100; // so that it is asked
	}
	made = calls_in_child(by, 1);
	if (made >= 0)
		ok(made > 0, "a map callback that calls the system is noticed: %d", made);
	allocations = locks = 0;
	walk_all(by);
	counted = allocations;
	locked = locks;
	ok(counted > 0 && (locked > 0 || !IS_ALONE), "so is one that allocates (%lu) and locks (%lu)", counted, locked);
	unwinder_free(by);
}

int main(void)
{
	start_counting();
	live_start();
	take_all();
	test_together();
	test_besides();
	for (size_t i = 0; i < case_count; i++) {
		free(one[i].frames);
		free(many[i].frames);
	}
	for (size_t i = 0; i < taken_count; i++)
		free(taken[i]);
	live_stop();
	return tap_done();
}

#else
int main(void)
{
	skip("not x86-64", "live stacks");
	return tap_done();
}
#endif
