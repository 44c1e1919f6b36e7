// Which images are worth asking servers for.
#ifndef PERFSAMPLE_LOAD_HOT_H
#define PERFSAMPLE_LOAD_HOT_H

#include "base/vec.h"
#include "profile/profile.h"

struct hot_dso { uint32_t dso; uint64_t samples; };
struct hot_dsos { VEC(struct hot_dso) rows; };

// The dsos that at least one sample in a hundred has a frame in, most samples first. Released by vec_release(&rows).
void hot_dsos(struct hot_dsos *out, const struct profile *profile);

#endif
