#include "profile/vias.h"

_Static_assert(VIA_COUNT <= 16, "a bit each");

void vias_release(struct vias *vias)
{
	vec_release(&vias->by_node);
}

uint16_t vias_of_stack(struct vias *vias, const struct profile *profile, uint32_t stack)
{
	if (stack == PROFILE_NONE)
		return 0;
	for (size_t i = vias->by_node.count; i <= stack; i++) { // a node's parent comes before it
		const struct profile_node *node = &profile->nodes.data[i];
		uint8_t via = profile->frames.data[node->frame].via;
		uint16_t set = via < VIA_COUNT ? (uint16_t)(1 << via) : 0;
		if (node->parent != PROFILE_NONE && node->parent < i)
			set |= vias->by_node.data[node->parent];
		vec_push(&vias->by_node, set);
	}
	return vias->by_node.data[stack];
}
