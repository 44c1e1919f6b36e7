// Any bytes as x86-64 instructions, one behind the other: none is longer than what is there or than one may be, none is read past its end, and what is one is
// the same one whatever stands behind it.
#include "tests/fuzz/replay.h"
#include "unwind/x86_decode.h"

static void check(const uint8_t *data, size_t size, const struct x86_decoded *found)
{
	struct x86_decoded again;
	uint8_t exact[X86_BYTES_MOST];

	if (found->size > size || found->size > X86_BYTES_MOST || found->kind > X86_LANDMARK)
		abort();
	if ((found->reg >= X86_REGISTERS && found->reg != X86_NOTHING) || (found->rm >= X86_REGISTERS && found->rm != X86_NOTHING) ||
	    (found->base >= X86_REGISTERS && found->base != X86_NOTHING) || (found->index >= X86_REGISTERS && found->index != X86_NOTHING))
		abort();
	memcpy(exact, data, found->size);
	if (!x86_decode(exact, found->size, &again) || again.size != found->size || again.kind != found->kind || again.writes != found->writes ||
	    again.value != found->value || again.displacement != found->displacement)
		abort();
	if (x86_decode(exact, found->size - 1u, &again))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct x86_decoded found;

	for (size_t at = 0; at < size;) {
		bool is_known = x86_decode(data + at, size - at, &found);
		if (is_known != (found.size > 0))
			abort();
		if (is_known)
			check(data + at, size - at, &found);
		at += is_known ? found.size : 1;
	}
	return 0;
}
