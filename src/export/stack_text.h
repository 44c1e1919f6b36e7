// What the exporters of stacks share: a sample's steps, root first, and how a stack that is not whole is marked.
#ifndef PERFSAMPLE_EXPORT_STACK_TEXT_H
#define PERFSAMPLE_EXPORT_STACK_TEXT_H

#include "base/vec.h"
#include "profile/profile.h"

struct stack_steps { VEC(struct stack_step) items; };
void stack_steps_read(struct stack_steps *steps, const struct profile *profile, uint32_t stack, bool inlines);

// "[truncated]" or "[unwind failed]"; NULL for a stack that reached its root.
const char *stack_mark(enum unwind_end end);

const struct profile_function *step_function(const struct profile *profile, const struct stack_step *step); // NULL: not symbolized
const struct profile_dso *step_dso(const struct profile *profile, const struct stack_step *step);           // NULL: no mapping

// The address that perf shows in call chains (since 5.19): the offset in the file for what is mapped from one, the run-time address for the
// kernel, JIT code and what no mapping explains. A return address stands as the processor left it.
uint64_t step_shown_addr(const struct profile *profile, const struct stack_step *step);

#endif
