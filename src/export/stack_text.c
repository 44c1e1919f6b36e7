#include "export/stack_text.h"

void stack_steps_read(struct stack_steps *steps, const struct profile *profile, uint32_t stack, bool inlines)
{
	vec_clear(&steps->items);
	if (stack == PROFILE_NONE)
		return;
	size_t count = profile_stack(profile, stack, inlines, steps->items.data, steps->items.capacity);
	if (count > steps->items.capacity) {
		vec_reserve(&steps->items, count);
		count = profile_stack(profile, stack, inlines, steps->items.data, steps->items.capacity);
	}
	steps->items.count = count;
}

const char *stack_mark(enum unwind_end end)
{
	switch (end) {
	case UNWIND_ROOT:
	case UNWIND_ROOT_GUESSED:
	case UNWIND_NOT_USER:
		return NULL;
	case UNWIND_TRUNCATED:
	case UNWIND_DEPTH_LIMIT:
	case UNWIND_ABSENT_PAGE:
		return "[truncated]";
	default:
		return "[unwind failed]";
	}
}

const struct profile_function *step_function(const struct profile *profile, const struct stack_step *step)
{
	const struct profile_frame *frame = &profile->frames.data[step->frame];
	if (frame->line_count == 0)
		return NULL;
	return &profile->functions.data[profile->chains.data[step->line].function];
}

const struct profile_dso *step_dso(const struct profile *profile, const struct stack_step *step)
{
	uint32_t dso = profile->frames.data[step->frame].dso;
	return dso != PROFILE_NONE ? &profile->dsos.data[dso] : NULL;
}

uint64_t step_shown_addr(const struct profile *profile, const struct stack_step *step)
{
	const struct profile_frame *frame = &profile->frames.data[step->frame];
	if (frame->is_kernel || frame->dso == PROFILE_NONE)
		return frame->addr;
	return frame->image_addr + (frame->kind == FRAME_RETURN);
}
