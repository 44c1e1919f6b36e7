#include "load/hot.h"

#include <stdlib.h>

#include "base/mem.h"
#include "base/sort.h"

enum { HOT_ONE_IN = 100 };

static int most_first(const void *a, const void *b)
{
	const struct hot_dso *x = a, *y = b;
	if (x->samples != y->samples)
		return x->samples > y->samples ? -1 : 1;
	return x->dso < y->dso ? -1 : x->dso > y->dso;
}

void hot_dsos(struct hot_dsos *out, const struct profile *profile)
{
	uint64_t *of_stack = mem_zero(profile->nodes.count + 1, sizeof(*of_stack)), total = 0;
	uint64_t *of_dso = mem_zero(profile->dsos.count + 1, sizeof(*of_dso));
	uint32_t *seen_in = mem_zero(profile->dsos.count + 1, sizeof(*seen_in)); // stack + 1
	for (size_t i = 0; i < profile->samples.count; i++) {
		struct profile_sample sample = samples_at(&profile->samples, i);
		uint64_t count = profile_sample_count(profile, &sample);
		total += count;
		if (sample.stack < profile->nodes.count)
			of_stack[sample.stack] += count;
	}
	for (uint32_t stack = 0; stack < profile->nodes.count; stack++) {
		for (uint32_t node = of_stack[stack] > 0 ? stack : PROFILE_NONE; node != PROFILE_NONE; node = profile->nodes.data[node].parent) {
			uint32_t dso = profile->frames.data[profile->nodes.data[node].frame].dso;
			if (dso < profile->dsos.count && seen_in[dso] != stack + 1) {
				seen_in[dso] = stack + 1;
				of_dso[dso] += of_stack[stack];
			}
		}
	}
	for (uint32_t dso = 0; dso < profile->dsos.count; dso++)
		if (of_dso[dso] > 0 && of_dso[dso] >= total / HOT_ONE_IN)
			vec_push(&out->rows, (struct hot_dso){ dso, of_dso[dso] });
	if (out->rows.count > 0)
		sort_stable(out->rows.data, out->rows.count, sizeof(out->rows.data[0]), most_first);
	free(of_stack);
	free(of_dso);
	free(seen_in);
}
