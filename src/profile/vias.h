// How the frames of a stack were found, all of them together.
#ifndef PERFSAMPLE_PROFILE_VIAS_H
#define PERFSAMPLE_PROFILE_VIAS_H

#include "base/vec.h"
#include "profile/profile.h"

struct vias { VEC(uint16_t) by_node; }; // of the profile, as far as was asked; {0}: none yet
void vias_release(struct vias *vias);
// The set (1 << enum frame_via) of the ways in which the stack's frames were found; PROFILE_NONE: 0. Amortized, one step a node of the profile.
uint16_t vias_of_stack(struct vias *vias, const struct profile *profile, uint32_t stack);

enum { VIAS_GUESSED = 1 << VIA_FP | 1 << VIA_LEAF_RULE | 1 << VIA_CODE | 1 << VIA_CALL_SITE }; // those that frame_via_is_guessed() says

#endif
