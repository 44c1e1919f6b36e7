// How often the threads of a target were switched to, by /proc: a task's own events lose some of its time at each (src/DESIGN.md, Kernel facts), which is a
// cause of silence that can be told from others.
#ifndef PERFSAMPLE_RECORD_SWITCHES_H
#define PERFSAMPLE_RECORD_SWITCHES_H

#include <stddef.h>
#include <stdint.h>

#include "base/vec.h"

enum { SWITCHES_THREADS = 1024, SWITCHES_NS = 650 }; // so many are asked; the most that a switch takes of the time that is due

struct switches_thread { int32_t tid; uint64_t before; };
struct switches { VEC(struct switches_thread) threads; };

void switches_begin(struct switches *switches, const int32_t *tids, size_t count);
// Since then, of those of them that live; at least so many.
uint64_t switches_since(const struct switches *switches);
void switches_release(struct switches *switches);

#endif
