#include "symbols/limits.h"

#include <string.h>

bool symbol_limits_tell(const struct symbol_limits *limits, struct buf *out)
{
	const uint64_t cut = limits->names_cut, left_out = limits->names_left_out, lines = limits->lines_left_out;
	if (cut > 0)
		buf_printf(out, "%llu longer than %d bytes %s cut", (unsigned long long)cut, SYMBOL_NAME_BYTES_MOST, cut == 1 ? "was" : "were");
	if (left_out > 0)
		buf_printf(out, "%s%llu left out, as all together took more than %d MiB", out->size > 0 ? "; " : "", (unsigned long long)left_out, SYMBOL_NAMES_BYTES_MOST >> 20);
	if (lines > 0)
		buf_printf(out, "%s%llu lines of perf maps left out, as they took more than %d MiB (%d MiB of all maps)", out->size > 0 ? "; " : "", (unsigned long long)lines,
		           SYMBOL_MAP_BYTES_MOST >> 20, SYMBOL_MAPS_BYTES_MOST >> 20);
	return out->size > 0;
}

bool symbol_limits_take(struct symbol_limits *limits, struct arena *arena, const struct intern *names, const char **text, size_t *length)
{
	size_t kept = *length < SYMBOL_NAME_BYTES_MOST ? *length : SYMBOL_NAME_BYTES_MOST;
	if (names->arena.bytes + kept > SYMBOL_NAMES_BYTES_MOST) {
		limits->names_left_out++;
		return false;
	}
	if (*length == kept)
		return true;
	if (limits->from != *text) {
		limits->names_cut++;
		limits->from = *text;
		limits->cut = arena_string(arena, *text, kept);
	}
	*text = limits->cut;
	*length = kept;
	return true;
}
