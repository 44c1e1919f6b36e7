// The -e language, on this host and on hosts made of folders: hybrid, uncore, tracefs.
#include "perf/event_plan.h"
#include "perf/event_spec.h"

#include <errno.h>
#include <linux/hw_breakpoint.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/closest.h"
#include "tests/tap.h"

static char root[64];
static struct event_host fake;
static struct err err;
static struct event_specs specs;

static void put(const char *path, const char *content)
{
	char full[512];
	snprintf(full, sizeof(full), "%s/%s", root, path);
	for (char *p = full + 1; (p = strchr(p, '/')) != NULL; p++) {
		*p = '\0';
		mkdir(full, 0700);
		*p = '/';
	}
	FILE *f = fopen(full, "w");
	if (f == NULL || fputs(content, f) < 0 || fclose(f) != 0) {
		printf("Bail out! %s\n", full);
		exit(1);
	}
}

static void make_host(void)
{
	snprintf(root, sizeof(root), "/tmp/perfsample-test-XXXXXX");
	if (mkdtemp(root) == NULL)
		exit(1);
	put("pmu/cpu_core/type", "4\n");
	put("pmu/cpu_core/cpus", "0-1,4\n");
	put("pmu/cpu_core/format/event", "config:0-7\n");
	put("pmu/cpu_core/format/umask", "config:8-15\n");
	put("pmu/cpu_core/format/split", "config1:0-7,32-35\n");
	put("pmu/cpu_core/format/ldlat", "config1:0-15\n");
	put("pmu/cpu_core/format/edge", "config:18\n");
	put("pmu/cpu_core/format/wide", "config2:0-63\n");
	put("pmu/cpu_core/format/odd", "config9:0\n");
	put("pmu/cpu_core/format/broken", "config:7-3\n");
	put("pmu/cpu_core/events/mem-loads", "event=0xcd,umask=0x1,ldlat=3\n");
	put("pmu/cpu_core/events/loop", "loop\n");
	put("pmu/cpu_atom/type", "10\n");
	put("pmu/cpu_atom/cpus", "2-3\n");
	put("pmu/cpu_atom/format/event", "config:0-7\n");
	put("pmu/uncore_imc_0/type", "24\n");
	put("pmu/uncore_imc_0/cpumask", "0,4\n");
	put("pmu/uncore_imc_0/format/event", "config:0-7\n");
	put("pmu/uncore_imc_0/format/core", "config:16-23\n");
	put("pmu/uncore_imc_0/events/data_reads", "event=0x1\n");
	put("pmu/uncore_imc_0/events/data_reads.scale", "6.1e-5\n");
	put("pmu/uncore_imc_0/events/per_core", "event=0x2,core=?\n");
	put("pmu/software/type", "1\n");
	put("arm/armv8_pmuv3/type", "8\n");
	put("arm/armv8_pmuv3/cpus", "0-3\n");
	put("tracing/events/sched/sched_switch/id", "316\n");
	put("tracing/events/sched/sched_wakeup/id", "318\n");
	put("tracing/events/sched/enable", "0\n");
}

static const struct event_spec *one(const char *text)
{
	static char devices[128], tracing[128];
	snprintf(devices, sizeof(devices), "%s/pmu", root);
	snprintf(tracing, sizeof(tracing), "%s/tracing", root);
	fake = (struct event_host){ .devices = devices, .tracefs = tracing };
	event_specs_release(&specs);
	err_clear(&err);
	static const struct event_spec none;
	if (event_specs_parse_at(&specs, text, &fake, &err))
		return &specs.items.data[specs.items.count - 1];
	diag("'%s': %s", text, err.text);
	return &none;
}

static void event(const char *text, uint32_t type, uint64_t config)
{
	const struct event_spec *s = one(text);
	ok(specs.items.count == 1 && s->attr.type == type && s->attr.config == config, "'%s': type %u, config %#llx", text, type, (unsigned long long)config);
}

// The text must name the offending word and, where given, the likely one.
static void wrong(const char *text, enum status status, const char *names, const char *suggests)
{
	event_specs_release(&specs);
	err_clear(&err);
	bool parsed = event_specs_parse_at(&specs, text, &fake, &err);
	if (!ok(!parsed && err.status == status && strstr(err.text, names) != NULL && (suggests == NULL || strstr(err.text, suggests) != NULL) &&
	        specs.items.count == 0, "'%s' is refused: %s", text, err.text))
		diag("status %d, wanted %d naming '%s' and '%s'", err.status, status, names, suggests ? suggests : "");
}

static void test_generic(void)
{
	event("cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES);
	event("cpu-cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES);
	event("instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS);
	event("branch-misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_MISSES);
	event("cpu-clock", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK);
	ok(specs.items.data[0].is_clock, "a clock");
	event("page-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS);
	ok(!specs.items.data[0].is_clock, "no clock");
	event("cs", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES);
	event("L1-dcache-load-misses", PERF_TYPE_HW_CACHE, 0x10000);
	event("l1-dcache-stores", PERF_TYPE_HW_CACHE, 0x100);
	event("LLC-prefetch-misses", PERF_TYPE_HW_CACHE, 0x10202);
	event("dTLB-loads", PERF_TYPE_HW_CACHE, 3);
	event("iTLB-load-misses", PERF_TYPE_HW_CACHE, 0x10004);
	event("node-store-misses", PERF_TYPE_HW_CACHE, 0x10106);
	event("branch-loads", PERF_TYPE_HW_CACHE, 5);
	event("r1a8", PERF_TYPE_RAW, 0x1a8);
	event("rFFFFFFFFFFFFFFFF", PERF_TYPE_RAW, UINT64_MAX);
	event("ref-cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_REF_CPU_CYCLES);
	event("sched:sched_switch", PERF_TYPE_TRACEPOINT, 316);
	ok(specs.items.data[0].is_tracepoint, "a tracepoint");
	event("sched:sched_switch:u", PERF_TYPE_TRACEPOINT, 316);
	ok(specs.items.data[0].attr.exclude_kernel, "with its modifier");
}

static void test_breakpoints(void)
{
	const struct event_spec *s = one("mem:0x401000");
	ok(s->attr.type == PERF_TYPE_BREAKPOINT && s->attr.bp_addr == 0x401000 && s->attr.bp_type == HW_BREAKPOINT_RW && s->attr.bp_len == 4, "mem:ADDR");
	s = one("mem:0x401000/8:w");
	ok(s->attr.bp_type == HW_BREAKPOINT_W && s->attr.bp_len == 8, "mem:ADDR/LEN:w");
	s = one("mem:0x401000:x:u");
	ok(s->attr.bp_type == HW_BREAKPOINT_X && s->attr.bp_len == sizeof(long) && s->attr.exclude_kernel, "mem:ADDR:x:u");
	s = one("mem:0x401000:u");
	ok(s->attr.bp_type == HW_BREAKPOINT_RW && s->attr.exclude_kernel, "mem:ADDR:u is a modifier");
	one("mem:0x10/4:rw,cycles");
	is_u64(specs.items.count, 2, "its slash does not hide a comma");
	wrong("mem:", STATUS_USAGE, "mem:", NULL);
	wrong("mem:zzz", STATUS_USAGE, "mem:zzz", NULL);
	wrong("mem:0x10/3", STATUS_USAGE, "length", NULL);
	wrong("mem:0x10:rx", STATUS_USAGE, "x goes", NULL);
	wrong("mem:-1", STATUS_USAGE, "no address", NULL);
	wrong("mem:0x10:q", STATUS_USAGE, "mem:0x10:q", NULL);
}

static void test_modifiers(void)
{
	const struct event_spec *s = one("cycles:u");
	ok(s->attr.exclude_kernel && s->attr.exclude_hv && !s->attr.exclude_user && s->rings_given && s->attr.exclude_guest, ":u");
	is_str(s->name, "cycles:u", "the name keeps it");
	s = one("cycles:kpp");
	ok(s->attr.exclude_user && !s->attr.exclude_kernel && s->attr.precise_ip == 2 && !s->precise_max, ":kpp");
	s = one("cycles:P");
	ok(s->attr.precise_ip == 3 && s->precise_max && !s->rings_given && !s->attr.exclude_kernel, ":P");
	s = one("cycles:GDeWI");
	ok(!s->attr.exclude_guest && s->attr.exclude_host && s->attr.pinned && s->attr.exclusive && s->is_weak && s->attr.exclude_idle, ":GDeWI");
	s = one("cycles:GH");
	ok(!s->attr.exclude_guest && !s->attr.exclude_host, ":GH");
	wrong("cycles:q", STATUS_USAGE, "'q'", "ukhp");
	wrong("cycles:uq", STATUS_USAGE, "'q'", NULL);
	wrong("cycles:pppp", STATUS_USAGE, "ppp", NULL);
	wrong("cycles:", STATUS_USAGE, "cycles:", NULL);
	wrong("cycles:uuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuu", STATUS_USAGE, "modifiers", NULL);
}

static void test_lists(void)
{
	one("cycles,instructions:u, cpu-clock");
	is_u64(specs.items.count, 3, "a list with a space");
	ok(specs.items.data[0].group == -1 && !specs.items.data[0].is_leader, "no group");
	one("{cycles,instructions:u}:k,cpu-clock,{task-clock, page-faults}");
	is_u64(specs.items.count, 5, "two groups and one between");
	ok(specs.items.data[0].group == 0 && specs.items.data[0].is_leader && specs.items.data[1].group == 0 && !specs.items.data[1].is_leader, "first group");
	ok(specs.items.data[2].group == -1 && specs.items.data[3].group == 1 && specs.items.data[3].is_leader && specs.items.data[4].group == 1, "second group");
	ok(specs.items.data[0].attr.exclude_user && !specs.items.data[1].attr.exclude_user && !specs.items.data[1].attr.exclude_kernel, "modifiers of a group come on top");
	is_str(specs.items.data[1].name, "instructions:uk", "and stand in the name");
	struct event_specs two = { 0 };
	ok(event_specs_parse_at(&two, "{cycles,cs}", &fake, &err) && event_specs_parse_at(&two, "{cycles,cs}", &fake, &err), "-e twice");
	ok(two.items.count == 4 && two.items.data[2].group == 1 && two.items.data[2].is_leader, "groups are told apart");
	ok(!event_specs_parse_at(&two, "cs,cylces", &fake, &err) && two.items.count == 4, "a wrong one leaves what was there");
	event_specs_release(&two);
	wrong("", STATUS_USAGE, "empty", NULL);
	wrong("cycles,", STATUS_USAGE, "empty", NULL);
	wrong("cycles,,cs", STATUS_USAGE, "empty", NULL);
	wrong("{cycles,cs", STATUS_USAGE, "'}'", NULL);
	wrong("{}", STATUS_USAGE, "empty", NULL);
	wrong("{cycles}x", STATUS_USAGE, "comma", NULL);
	wrong("{cycles,{cs}}", STATUS_USAGE, "{cs", NULL);
}

static void test_pmus(void)
{
	const struct event_spec *s = one("cpu_core/event=0xcd,umask=0x1/");
	ok(s->attr.type == 4 && s->attr.config == 0x1cd, "terms by their formats");
	ok(strcmp(s->pmu, "cpu_core") == 0 && s->cpus.count == 3 && s->cpus.data[2] == 4 && !s->is_uncore, "a core PMU's CPUs");
	s = one("cpu_core/mem-loads,ldlat=30/ppu");
	ok(s->attr.config == 0x1cd && s->attr.config1 == 30 && s->attr.precise_ip == 2 && s->attr.exclude_kernel, "an alias, one of its terms changed, modifiers");
	is_str(s->name, "cpu_core/mem-loads,ldlat=30/:ppu", "name");
	s = one("cpu_core/split=0x345/");
	is_u64(s->attr.config1, 0x300000045, "a value spread over two runs of bits");
	s = one("cpu_core/event=1,edge,wide=0xffffffffffffffff/:k");
	ok(s->attr.config == 0x40001 && s->attr.config2 == UINT64_MAX && s->attr.exclude_user, "a flag, all 64 bits");
	s = one("cpu_core/config=0x99,config1=7,name=mine,period=1000/");
	ok(s->attr.config == 0x99 && s->attr.config1 == 7 && s->has_period && s->period == 1000 && strcmp(s->name, "mine") == 0, "generic terms");
	s = one("uncore_imc_0/data_reads/");
	ok(s->attr.type == 24 && s->is_uncore && s->cpus.count == 2 && s->cpus.data[1] == 4, "uncore: its cpumask");
	s = one("uncore_imc_0/per_core,core=5/");
	is_u64(s->attr.config, 0x50002, "an alias with a parameter");
	event("mem-loads", 4, 0x1cd);
	s = one("cycles");
	ok(s->pmus.count == 2 && s->pmus.data[0].type == 10 && s->pmus.data[0].cpu_count == 2 && s->pmus.data[1].type == 4, "hybrid: cycles on each core PMU");
	is_u64(one("r1a8")->pmus.count, 2, "raw likewise");
	is_u64(one("cpu-clock")->pmus.count, 0, "software is nobody's");
	wrong("cpu_core/event=0x1cd/", STATUS_USAGE, "does not fit", NULL);
	wrong("cpu_core/evnt=1/", STATUS_USAGE, "'evnt'", "'event'");
	wrong("cpu_core/event=x/", STATUS_USAGE, "number", "event");
	wrong("cpu_cor/event=1/", STATUS_USAGE, "'cpu_cor'", "'cpu_core'");
	wrong("nothing_like/event=1/", STATUS_HOST, "nothing_like", NULL);
	wrong("cpu_core/event=1", STATUS_USAGE, "cpu_core/event=1", NULL);
	event("cpu_core//", 4, 0);
	wrong("cpu_core/,/", STATUS_USAGE, "empty", NULL);
	wrong("cpu_core/odd=1/", STATUS_USAGE, "odd", NULL);
	wrong("cpu_core/broken=1/", STATUS_USAGE, "broken", NULL);
	wrong("cpu_core/loop/", STATUS_USAGE, "loop", NULL);
	wrong("cpu_core/period=0/", STATUS_USAGE, "period", NULL);
	wrong("uncore_imc_0/per_core/", STATUS_USAGE, "core=VALUE", NULL);
	wrong("../x/event=1/", STATUS_HOST, "'..'", NULL);
	wrong("cpu_core/../type/", STATUS_USAGE, "../type", NULL);
}

// A PMU that says which CPUs it is for, but is the only one (arm64): its cores are alike, and older kernels refuse the extended type.
static void test_cores_alike(void)
{
	char devices[128];
	snprintf(devices, sizeof(devices), "%s/arm", root);
	struct event_host arm = { .devices = devices, .tracefs = "" };
	struct event_specs alike = { 0 };
	ok(event_specs_parse_at(&alike, "cycles,r11", &arm, &err) && alike.items.count == 2, "events of one core PMU");
	ok(alike.items.data[0].pmus.count == 0 && alike.items.data[1].pmus.count == 0, "are plain events");
	struct event_opened event = { .attr = { .type = PERF_TYPE_HARDWARE, .config = 8ull << 32 | PERF_COUNT_HW_INSTRUCTIONS } };
	struct event_set set = { 0 };
	struct event_options options = { 0 };
	ok(event_plan_retreat(&set, &event, &alike.items.data[0], &options, ENOENT) && event.attr.config == PERF_COUNT_HW_INSTRUCTIONS,
	   "an extended type that is refused is given up");
	ok(!event_plan_retreat(&set, &event, &alike.items.data[0], &options, ENOENT), "once");
	event_specs_release(&alike);
}

static void test_wrong_words(void)
{
	wrong("cylces", STATUS_USAGE, "'cylces'", "'cycles'");
	wrong("no-such-event", STATUS_USAGE, "'no-such-event'", NULL);
	wrong("L1-dcache-loadmisses", STATUS_USAGE, "L1-dcache-loadmisses", "L1-dcache-load-misses");
	wrong("iTLB-stores", STATUS_USAGE, "iTLB", NULL);
	wrong("sched:sched_swich", STATUS_USAGE, "sched_swich", "sched:sched_switch");
	wrong("r12345678901234567", STATUS_USAGE, "16", NULL);
	wrong("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
	      STATUS_USAGE, "longer", NULL);
	fake.tracefs = "";
	wrong("sched:sched_switch", STATUS_HOST, "mount -t tracefs", NULL);
	static const char *const words[] = { "alpha", "beta", NULL };
	is_str(closest_word("aplha", words), "alpha", "closest: a swap");
	ok(closest_word("gamma", words) == NULL, "closest: nothing near");
}

// Every prefix and every one-letter change of long arguments: an answer, never a crash (sanitizers watch).
static void test_mutations(void)
{
	static const char *const seeds[] = { "{cycles:u,cpu_core/mem-loads,ldlat=30/pp}:kW, sched:sched_switch:u,mem:0x10/8:rw:u,L1-dcache-load-misses,r1a8" };
	unsigned answers = 0, parsed = 0;
	for (size_t n = 0; n < strlen(seeds[0]); n++)
		for (unsigned kind = 0; kind < 9; kind++) {
			char text[256];
			strcpy(text, seeds[0]);
			if (kind == 0)
				text[n] = '\0';
			else
				text[n] = "/:,{}=? u"[kind];
			event_specs_release(&specs);
			err_clear(&err);
			bool good = event_specs_parse_at(&specs, text, &fake, &err);
			answers += good ? specs.items.count > 0 : err.status != STATUS_OK && err.text[0] != '\0';
			parsed += good;
		}
	is_u64(answers, strlen(seeds[0]) * 9, "every mutation gets an answer (%u parse)", parsed);
	event_specs_release(&specs);
}

static void count_events(const char *name, const char *description, void *context)
{
	(void)description;
	*(unsigned *)context += name[0] != '\0';
}

static void test_here(void)
{
	struct event_specs here = { 0 };
	ok(event_specs_default(&here, &err) && here.items.data[0].is_default, "the default");
	event_specs_release(&here);
	unsigned count = 0;
	for (const struct event_source *const *s = event_sources; *s != NULL; s++)
		if ((*s)->list != NULL)
			(*s)->list(&event_host_here, count_events, &count);
	ok(count > 40, "%u events listed on this host", count);
	if (access("/sys/bus/event_source/devices/msr/events/tsc", R_OK) != 0)
		skip("no msr PMU on this host", "msr/tsc/");
	else
		ok(event_specs_parse(&here, "msr/tsc/", &err) && strcmp(here.items.data[0].pmu, "msr") == 0, "msr/tsc/ of this host");
	event_specs_release(&here);
}

int main(void)
{
	make_host();
	test_generic();
	test_breakpoints();
	test_modifiers();
	test_lists();
	test_pmus();
	test_cores_alike();
	test_wrong_words();
	test_mutations();
	test_here();
	event_specs_release(&specs);
	char command[128];
	snprintf(command, sizeof(command), "rm -rf %s", root);
	return system(command) != 0 || tap_done();
}
