// Weak stand-ins for src/profile, until it is there.
#ifndef PERFSAMPLE_TESTS_PROFILE_DOUBLE_H
#define PERFSAMPLE_TESTS_PROFILE_DOUBLE_H
#include "profile/profile.h"
#define WEAK __attribute__((weak))
WEAK void profile_init(struct profile *p) { *p = (struct profile){ 0 }; intern_init(&p->names); }
WEAK void profile_release(struct profile *p)
{
	intern_release(&p->names); vec_release(&p->dsos); vec_release(&p->functions); vec_release(&p->chains); vec_release(&p->frames);
	vec_release(&p->nodes); vec_release(&p->samples); vec_release(&p->events); vec_release(&p->readings); vec_release(&p->losses);
	vec_release(&p->throttles); vec_release(&p->meta.argv); vec_release(&p->meta.target_ids); vec_release(&p->meta.decisions); vec_release(&p->meta.caveats);
}
WEAK uint32_t profile_add_dso(struct profile *p, const struct profile_dso *d) { vec_push(&p->dsos, *d); return (uint32_t)p->dsos.count - 1; }
WEAK uint32_t profile_add_function(struct profile *p, const struct profile_function *f) { vec_push(&p->functions, *f); return (uint32_t)p->functions.count - 1; }
WEAK uint32_t profile_add_frame(struct profile *p, const struct profile_frame *f) { vec_push(&p->frames, *f); return (uint32_t)p->frames.count - 1; }
WEAK uint32_t profile_add_node(struct profile *p, uint32_t parent, uint32_t frame)
{
	for (size_t i = 0; i < p->nodes.count; i++)
		if (p->nodes.data[i].parent == parent && p->nodes.data[i].frame == frame)
			return (uint32_t)i;
	vec_push(&p->nodes, (struct profile_node){ parent, frame, 0 });
	return (uint32_t)p->nodes.count - 1;
}
WEAK const char *profile_text(const struct profile *p, uint32_t id) { return intern_text(&p->names, id); }
WEAK size_t profile_stack(const struct profile *p, uint32_t stack, bool inlines, struct stack_step *steps, size_t capacity)
{
	size_t count = 0;
	for (uint32_t n = stack; n != PROFILE_NONE; n = p->nodes.data[n].parent) {
		const struct profile_frame *f = &p->frames.data[p->nodes.data[n].frame];
		count += inlines && f->line_count > 0 ? f->line_count : 1;
	}
	size_t at = count;
	for (uint32_t n = stack; n != PROFILE_NONE; n = p->nodes.data[n].parent) {
		const struct profile_frame *f = &p->frames.data[p->nodes.data[n].frame];
		for (uint32_t i = 0; i < (inlines ? f->line_count : 1); i++) {
			at--;
			if (at < capacity)
				steps[at] = (struct stack_step){ p->nodes.data[n].frame, f->line_count == 0 ? PROFILE_NONE : inlines ? f->first_line + i : f->first_line + f->line_count - 1 };
		}
	}
	return count;
}
WEAK const char *unwind_end_name(enum unwind_end end)
{
	static const char *const names[] = { "root", "truncated", "no_cfi", "no_mapping", "bad_read", "no_progress", "bad_ra", "depth_limit",
		"uprobe_trampoline", "no_image", "unsupported", "not_user", "no_registers", "deferred" };
	return names[end];
}
#endif
