// mem:ADDR[/LEN][:rwx]: a hardware breakpoint (perf_event_open(2), PERF_TYPE_BREAKPOINT).
#include <errno.h>
#include <linux/hw_breakpoint.h>
#include <stdlib.h>
#include <string.h>

#include "perf/event_spec.h"

static int wrong(const char *word, const char *what, struct err *err)
{
	err_set(err, STATUS_USAGE, "breakpoint '%s': %s; mem:ADDR[/LEN][:rwx] was expected", word, what);
	return -1;
}

static int parse_access(const char *access, uint32_t *type)
{
	*type = 0;
	for (; *access != '\0'; access++) {
		uint32_t bit = *access == 'r' ? HW_BREAKPOINT_R : *access == 'w' ? HW_BREAKPOINT_W : *access == 'x' ? HW_BREAKPOINT_X : 0;
		if (bit == 0 || (*type & bit) != 0)
			return 0;
		*type |= bit;
	}
	return *type != 0;
}

static int parse(const char *word, struct event_spec *spec, struct err *err)
{
	if (strncmp(word, "mem:", 4) != 0)
		return 0;
	char *end;
	errno = 0;
	uint64_t addr = strtoull(word + 4, &end, 0), length = 0;
	if (end == word + 4 || errno != 0 || word[4] == '-')
		return wrong(word, "no address", err);
	if (*end == '/') {
		const char *digits = end + 1;
		length = strtoull(digits, &end, 0);
		if (end == digits || (length != 1 && length != 2 && length != 4 && length != 8))
			return wrong(word, "a length of 1, 2, 4 or 8", err);
	}
	uint32_t type = HW_BREAKPOINT_R | HW_BREAKPOINT_W;
	if (*end == ':' && !parse_access(end + 1, &type))
		return wrong(word, "access is made of r, w and x", err);
	if (*end != ':' && *end != '\0')
		return wrong(word, "text behind the address", err);
	if ((type & HW_BREAKPOINT_X) != 0 && type != HW_BREAKPOINT_X)
		return wrong(word, "x goes with neither r nor w", err);
	spec->attr.type = PERF_TYPE_BREAKPOINT;
	spec->attr.bp_addr = addr;
	spec->attr.bp_type = type;
	// For code the kernel wants the size of a long.
	spec->attr.bp_len = type == HW_BREAKPOINT_X ? sizeof(long) : length != 0 ? length : HW_BREAKPOINT_LEN_4;
	return 1;
}

const struct event_source event_source_breakpoint = { .name = "breakpoint", .order = 50, .parse = parse };
