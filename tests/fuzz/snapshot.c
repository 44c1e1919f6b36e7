// Any bytes as a snapshot's registers, and each of their lines as a mapping: no crash, results within the text.
#include "cmd/debug_snapshot.h"

#include "base/mem.h"
#include "tests/fuzz/replay.h"
#include "unwind/unwind.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = mem_string_n((const char *)data, size), *lines = mem_string_n((const char *)data, size), *save = NULL;
	const char *end = lines + strlen(lines);
	struct snapshot_registers registers;
	struct snapshot_map map;
	struct err err = { 0 };

	if (snapshot_parse_registers(text, &registers, &err)) {
		struct unwind_regs numbers;
		if (!unwind_regs_for(registers.machine, &numbers) || (registers.mask >> numbers.pc & registers.mask >> numbers.sp & 1) == 0)
			abort();
	} else if (err.status != STATUS_INPUT) {
		abort();
	}
	for (char *line = strtok_r(lines, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save))
		if (snapshot_parse_map(line, &map) && (map.end <= map.start || map.name < line || map.name > end))
			abort();
	free(text);
	free(lines);
	return 0;
}
