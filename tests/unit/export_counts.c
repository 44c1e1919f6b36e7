// Samples counted by stack and context are the samples that export_keeps keeps, one by one, whatever is filtered; rows come in the order of their first.
#include "export/counts.h"

#include "export/place.h"
#include "tests/synthetic.h"
#include "tests/tap.h"

enum { SAMPLES = 20000 };

static struct profile profile;

static void make(void)
{
	static const struct { const char *name, *dso; } functions[] = { { "main", "app" }, { "parse", "app" }, { "malloc", "libc.so.6" }, { "read", "[kernel]" } };
	uint32_t stacks[8] = { PROFILE_NONE }, frames[4], count = 1;
	syn_init(&profile, 20);
	struct profile_event other = profile.events.data[0];
	other.counts_by_weight = true;
	vec_push(&profile.events, other);
	for (size_t i = 0; i < 4; i++)
		frames[i] = syn_function(&profile, functions[i].name, functions[i].dso);
	for (size_t i = 1; i < 4; i++) {
		stacks[count++] = syn_stack(&profile, frames[0], frames[i], PROFILE_NONE);
		stacks[count++] = syn_stack(&profile, frames[0], frames[1], frames[i], PROFILE_NONE);
	}
	uint64_t random = 7;
	for (size_t i = 0; i < SAMPLES; i++) {
		random = random * 6364136223846793005u + 1442695040888963407u;
		uint32_t bits = (uint32_t)(random >> 33);
		int32_t tid = (int32_t)(bits / 8 % 3);
		struct profile_sample s = { .time_ns = profile.meta.start_ns + i * 1000000, .weight = 1 + bits / 64 % 5, .pid = tid, .tid = tid, .cpu = bits / 512 % 2,
		                            .comm = intern_string(&profile.names, tid == 1 ? "one" : "two"), .stack = stacks[bits % count], .event = bits / 1024 % 8 == 0,
		                            .end = bits / 8192 % 16 == 0 ? UNWIND_TRUNCATED : UNWIND_ROOT, .is_idle = tid == 0 };
		samples_add(&profile.samples, &s);
	}
}

static void compare(const char *what, const struct export_input *input)
{
	struct export_counts counts;
	struct hash_map first = { 0 };
	uint64_t kept = 0, samples = 0, weight = 0, more = 0, more_weight = 0;
	bool in_order = true;
	export_counts_read(&counts, input);
	for (size_t i = 0; i < SAMPLES; i++) {
		struct profile_sample s = samples_at(&profile.samples, i);
		if (!export_keeps(input, &s))
			continue;
		struct sample_context context = { .pid = s.pid, .tid = s.tid, .cpu = s.cpu, .comm = s.comm, .event = s.event, .end = s.end, .is_idle = s.is_idle };
		uint64_t both = (uint64_t)s.stack << 32 | samples_context(&profile.samples, &context);
		bool is_new;
		uint32_t row = *hash_map_put(&first, both, (uint32_t)first.count, &is_new);
		in_order &= row < counts.rows.count && counts.rows.data[row].stack == s.stack && counts.rows.data[row].context == (uint32_t)both;
		kept++;
		samples += profile_sample_count(&profile, &s);
		weight += s.weight;
	}
	for (size_t i = 0; i < counts.rows.count; i++) {
		more += counts.rows.data[i].samples;
		more_weight += counts.rows.data[i].weight;
	}
	ok(kept > 0 && kept < SAMPLES && in_order && counts.rows.count == first.count, "%s: %zu rows of %zu samples", what, counts.rows.count, (size_t)kept);
	is_u64(more, samples, "%s: samples", what);
	is_u64(more_weight, weight, "%s: weight", what);
	hash_map_release(&first);
	vec_release(&counts.rows);
}

int main(void)
{
	static const char *const comms[] = { "one", NULL }, *const dsos[] = { "libc.so.6", NULL }, *const symbols[] = { "parse", NULL };
	struct report_filter filter = { 0 };
	struct export_input input = { .profile = &profile };
	make();
	compare("without a filter", &input);
	input.event = 1;
	compare("an event whose rows stand for several", &input);
	input.event = 0;
	input.idle = true;
	compare("idle ones too", &input);
	input.filter = &filter;
	filter.from_ns = profile.meta.start_ns + 3000000500;
	filter.to_ns = profile.meta.start_ns + 9000000500;
	compare("by time", &input);
	filter.dsos = dsos;
	compare("by time and the leaf's object", &input);
	filter = (struct report_filter){ .comms = comms, .symbols = symbols };
	compare("by command and the leaf's symbol", &input);
	profile_release(&profile);
	return tap_done();
}
