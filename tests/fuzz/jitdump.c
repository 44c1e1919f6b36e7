// Any bytes as a jitdump: no crash, and every code, name and line it tells of lies inside them.
#include "symbols/jitdump.h"
#include "tests/fuzz/replay.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct jitdump dump;
	(void)jitdump_parse(&dump, data, size, NULL);
	for (size_t i = 0; i < dump.codes.count; i++) {
		const struct jitdump_code *code = &dump.codes.data[i];
		if (code->name + code->name_length > size || code->offset + code->size > size || code->unwind_offset + code->unwind_size > size)
			abort();
		const struct jitdump_code *found = jitdump_find(&dump, code->offset + code->size - 1);
		if (found == NULL || found->offset != code->offset)
			abort();
		const struct jitdump_line *line = jitdump_line(&dump, code, code->offset);
		if (line != NULL && (line->file + line->file_length > size || line->addr > code->addr))
			abort();
	}
	jitdump_release(&dump);
	return 0;
}
