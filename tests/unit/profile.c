#include "profile/profile.h"

#include "proc/dso.h"
#include "tests/tap.h"

static void rows_are_distinct(struct profile *p)
{
	struct profile_dso dso = { .path = intern_string(&p->names, "/bin/x"), .kind = DSO_FILE };
	uint32_t a = profile_add_dso(p, &dso);
	is_u64(profile_add_dso(p, &dso), a, "the same dso, the same row");
	dso.build_id.size = 1;
	ok(profile_add_dso(p, &dso) != a, "another build ID, another row");
	dso = (struct profile_dso){ .path = dso.path, .kind = DSO_ANON, .pid = 1 };
	uint32_t b = profile_add_dso(p, &dso);
	dso.pid = 2;
	ok(profile_add_dso(p, &dso) != b, "anonymous code of another process, another row");

	struct profile_frame frame = { .addr = 0x1000, .image_addr = 0x10, .dso = a, .kind = FRAME_RETURN, .via = VIA_CFI };
	uint32_t f = profile_add_frame(p, &frame);
	frame.addr = 0x2000;
	is_u64(profile_add_frame(p, &frame), f, "the same place of an image at another address");
	frame.kind = FRAME_LEAF;
	ok(profile_add_frame(p, &frame) != f, "another kind");
	frame.dso = PROFILE_NONE;
	uint32_t g = profile_add_frame(p, &frame);
	frame.addr = 0x3000;
	ok(profile_add_frame(p, &frame) != g, "without an image the address tells");

	struct profile_function function = { .name = intern_string(&p->names, "f"), .dso = a, .is_known = true };
	uint32_t h = profile_add_function(p, &function);
	function.dso = b;
	ok(profile_add_function(p, &function) != h, "the same name in another image is another function");
	function.dso = a;
	is_u64(profile_add_function(p, &function), h, "and the same again");
}

static void many(struct profile *p)
{
	bool good = true;
	size_t before = p->frames.count;
	for (int pass = 0; pass < 2; pass++) {
		for (uint64_t i = 0; i < 50000; i++) {
			struct profile_frame frame = { .addr = i, .image_addr = i * 16, .dso = 0, .kind = (uint8_t)(i % 3) };
			good = good && profile_add_frame(p, &frame) == before + i;
		}
	}
	ok(good, "50,000 frames, each once");
}

// Whatever their numbers: what fits into a key of 63 bits, and what does not.
static void all_tell(struct profile *p)
{
	static const uint64_t addrs[] = { 0, 1, 0x7f, (1ull << 40) - 1, 1ull << 40, 1ull << 41, UINT64_MAX };
	static const uint32_t dsos[] = { 0, 1, (1 << 14) - 1, 1 << 14, PROFILE_NONE };
	size_t before = p->frames.count, made = 0;
	bool good = true;
	for (int round = 0; round < 2; round++) {
		size_t id = before;
		for (size_t a = 0; a < sizeof(addrs) / sizeof(addrs[0]); a++)
			for (size_t d = 0; d < sizeof(dsos) / sizeof(dsos[0]); d++)
				for (unsigned other = 0; other < 3 * 8 * 2; other++, id++, made += round == 0) {
					struct profile_frame frame = { .addr = 1000 + addrs[a], .image_addr = 1000 + addrs[a], .dso = dsos[d], .kind = other % 3,
					                               .via = other / 3 % 8, .is_kernel = other / 24 };
					good = good && profile_add_frame(p, &frame) == id;
				}
	}
	ok(good && p->frames.count == before + made, "%zu frames that differ in one thing are as many rows", made);
}

static void stacks(struct profile *p)
{
	uint32_t function[4];
	static const char *const names[] = { "main", "outer", "inlined_twice", "inlined" };
	for (size_t i = 0; i < 4; i++) {
		struct profile_function row = { .name = intern_string(&p->names, names[i]), .is_known = true };
		function[i] = profile_add_function(p, &row);
	}
	struct profile_frame frame = { .addr = 1, .dso = PROFILE_NONE };
	uint32_t root = profile_add_frame(p, &frame);
	frame.addr = 2;
	uint32_t leaf = profile_add_frame(p, &frame);
	p->frames.data[root].first_line = (uint32_t)p->chains.count;
	p->frames.data[root].line_count = 1;
	vec_push(&p->chains, (struct profile_line){ .function = function[0] });
	p->frames.data[leaf].first_line = (uint32_t)p->chains.count;
	p->frames.data[leaf].line_count = 3; // innermost first
	vec_push(&p->chains, (struct profile_line){ .function = function[3], .is_inlined = true });
	vec_push(&p->chains, (struct profile_line){ .function = function[2], .is_inlined = true });
	vec_push(&p->chains, (struct profile_line){ .function = function[1] });
	uint32_t a = profile_add_node(p, PROFILE_NONE, root), b = profile_add_node(p, a, leaf);
	is_u64(profile_add_node(p, a, leaf), b, "the same step, the same node");
	ok(p->nodes.data[a].depth == 0 && p->nodes.data[b].depth == 1, "depth counts from the root");
	struct stack_step steps[8];
	is_u64(profile_stack(p, b, true, steps, 8), 4, "four steps with inline frames");
	for (size_t i = 0; i < 4; i++)
		is_str(profile_text(p, p->functions.data[p->chains.data[steps[i].line].function].name), names[i], "step %zu", i);
	is_u64(profile_stack(p, b, false, steps, 8), 2, "two without");
	is_str(profile_text(p, p->functions.data[p->chains.data[steps[1].line].function].name), "outer", "the leaf is the function that has the code");
	steps[2].frame = 77;
	is_u64(profile_stack(p, b, true, steps, 2), 4, "a small buffer: how many there are");
	ok(steps[2].frame == 77 && steps[1].frame == leaf, "and no more than fit");
	is_u64(profile_stack(p, PROFILE_NONE, true, steps, 8), 0, "no stack, no steps");
}

int main(void)
{
	struct profile profile;
	profile_init(&profile);
	rows_are_distinct(&profile);
	many(&profile);
	all_tell(&profile);
	stacks(&profile);
	profile_release(&profile);
	return tap_done();
}
