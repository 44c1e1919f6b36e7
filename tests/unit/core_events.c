// One event on several core PMUs: joined by its name, with all counters; and multiplexing of events of tasks, which are enabled on every CPU.
#include "tests/tap.h"

#include "profile/core_events.h"
#include "profile/weights.h"
#include "tests/synthetic.h"

enum { CORE = 4, ATOM = 10, LOW = 12 }; // types of PMUs

static struct profile_event event_of(struct profile *p, const char *name, uint64_t type, uint64_t config)
{
	return (struct profile_event){ .name = intern_string(&p->names, name), .is_sampling = true, .is_freq = true, .frequency = 4000, .attr_type = type,
		.attr_config = config, .is_accounted = true, .samples_of = PROFILE_NONE, .excludes_kernel = true, .lost = 3, .value = 1000, .time_running_ns = 100,
		.time_enabled_ns = 100, .enabled_most_ns = 60 };
}

// Events by name on three PMUs and something else; a sample of each.
static void make(struct profile *p, const char *const *names, size_t count)
{
	static const uint64_t types[] = { CORE, ATOM, LOW };
	profile_init(p);
	for (uint32_t i = 0; i < count; i++) {
		vec_push(&p->events, event_of(p, names[i], types[i % 3], 0x3c));
		struct profile_sample s = { .time_ns = 1000 + i, .weight = 100 * (i + 1), .pid = 1, .tid = 1, .cpu = i, .event = i, .stack = PROFILE_NONE };
		samples_add(&p->samples, &s);
		vec_push(&p->readings, (struct profile_reading){ .time_ns = 1000, .cpu = i, .event = i });
		vec_push(&p->losses, (struct profile_loss){ .from_ns = 1000, .to_ns = 2000, .count = 1, .cpu = i, .event = i });
		vec_push(&p->throttles, (struct profile_throttle){ .from_ns = 1000, .to_ns = 2000, .cpu = i, .event = i });
	}
}

static void test_joined(void)
{
	static const char *const names[] = { "cpu_core/cycles/u", "cpu_atom/cycles/u", "cpu_lowpower/cycles/u", "cpu_core/instructions/u", "cpu_atom/instructions/u" };
	struct profile p;
	make(&p, names, 5);
	p.events.data[4].is_sampling = p.events.data[3].is_sampling = false;
	p.events.data[3].samples_of = 0;
	p.events.data[4].samples_of = 1;
	ok(profile_join_core_events(&p), "five events are joined");
	is_u64(p.events.count, 2, "to two");
	is_str(profile_text(&p, p.events.data[0].name), "cycles:u", "by the name that is without a PMU");
	is_str(profile_text(&p, p.events.data[1].name), "instructions:u", "and the counting ones");
	ok(p.events.data[0].lost == 9 && p.events.data[0].value == 3000 && p.events.data[0].time_running_ns == 300 && p.events.data[0].time_enabled_ns == 300
	   && p.events.data[0].enabled_most_ns == 60, "counters add up, the longest time on one CPU does not");
	is_u64(p.events.data[1].samples_of, 0, "members follow their leader");
	bool follows = true;
	for (uint32_t i = 0; i < 5; i++) {
		uint32_t wanted = i < 3 ? 0 : 1;
		follows &= samples_at(&p.samples, i).event == wanted && samples_at(&p.samples, i).weight == 100 * (i + 1) && p.readings.data[i].event == wanted
			&& p.losses.data[i].event == wanted && p.throttles.data[i].event == wanted;
	}
	ok(follows, "samples, readings, losses and throttles follow; each sample keeps its period");
	ok(profile_weights_differ(&p, 0), "so the samples weigh unlike");
	ok(profile_event_has_part(&p, &p.events.data[0], "cpu_atom/cycles/u") && profile_event_has_part(&p, &p.events.data[0], "cpu_lowpower/cycles/u")
	   && !profile_event_has_part(&p, &p.events.data[0], "cpu_atom/cycles/") && !profile_event_has_part(&p, &p.events.data[1], "cpu_atom/cycles/u"), "the parts' names are known");
	ok(!profile_join_core_events(&p), "joined once, they stay");
	profile_release(&p);
}

static void stays_two(const char *first, const char *second, const char *name)
{
	struct profile p;
	make(&p, (const char *const[]){ first, second }, 2);
	ok(!profile_join_core_events(&p) && p.events.count == 2, "%s", name);
	profile_release(&p);
}

static void test_others(void)
{
	stays_two("cpu_core/event=0x3c/u", "cpu_atom/event=0x3c/u", "encodings mean another event on another PMU");
	stays_two("cpu_core/cycles/u", "cpu_atom/instructions/u", "names differ");
	stays_two("cpu_core/cycles/u", "cpu_atom/cycles/k", "modifiers differ");
	stays_two("uncore_imc_0/reads/", "uncore_imc_1/reads/", "PMUs of memory controllers are no cores");
	stays_two("cpu_core/cycles/u", "cpu_core/cycles/u", "one PMU, two events");
	stays_two("cycles:u", "cycles:u", "no PMU is named");
	stays_two("cpu_core//u", "cpu_atom//u", "nothing between the slashes");
	stays_two("cpu_core/", "cpu_atom/", "a slash alone");
	struct profile p;
	make(&p, (const char *const[]){ "cpu_core/cycles/u", "cpu_atom/cycles/u" }, 2);
	p.events.data[1].frequency = 1000;
	ok(!profile_join_core_events(&p), "rates differ");
	p.events.data[1].frequency = 4000;
	p.events.data[1].excludes_kernel = false;
	ok(!profile_join_core_events(&p), "what is left out differs");
	profile_release(&p);
	make(&p, (const char *const[]){ "cycles:u", "cycles:u" }, 2);
	p.events.data[0].attr_type = p.events.data[1].attr_type = 0;
	p.events.data[0].attr_config = (uint64_t)CORE << 32;
	p.events.data[1].attr_config = (uint64_t)ATOM << 32;
	ok(profile_join_core_events(&p) && p.events.count == 1, "generic events name their PMU in config");
	is_str(profile_text(&p, p.events.data[0].name), "cycles:u", "and keep the name that both have");
	profile_release(&p);
}

static double multiplexed(struct profile *p, const char *scope)
{
	struct report_options options = report_defaults();
	struct report r;
	struct err err = { 0 };
	p->meta.scope = intern_string(&p->names, scope);
	double found = report_build(&r, p, &options, &err) ? r.events.data[0].multiplexed : -1;
	report_release(&r);
	return found;
}

static void test_multiplexing(void)
{
	struct profile p;
	make(&p, (const char *const[]){ "cpu_core/cycles/u", "cpu_atom/cycles/u" }, 2);
	for (int i = 0; i < 2; i++) { // of a task that ran 100 ns, 70 of them on the one, 30 on the other
		p.events.data[i].time_running_ns = i == 0 ? 70 : 30;
		p.events.data[i].time_enabled_ns = p.events.data[i].enabled_most_ns = 100;
	}
	profile_join_core_events(&p);
	is_close(multiplexed(&p, "events per task and CPU"), 1, 1e-12, "a task's event that ran whenever the task did is not multiplexed");
	is_close(multiplexed(&p, "events per CPU"), 0.5, 1e-12, "a CPU's event that ran half of the time is");
	p.events.data[0].time_running_ns = 50;
	is_close(multiplexed(&p, "events per task and CPU"), 0.5, 1e-12, "and a task's that ran half of its time");
	profile_release(&p);
}

int main(void)
{
	test_joined();
	test_others();
	test_multiplexing();
	return tap_done();
}
