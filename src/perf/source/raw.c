// rNNN: a raw event of the core PMU, in hexadecimal.
#include <stdlib.h>
#include <string.h>

#include "perf/event_spec.h"
#include "perf/sysfs.h"

static int parse(const char *word, struct event_spec *spec, struct err *err)
{
	size_t digits = word[0] == 'r' ? strspn(word + 1, "0123456789abcdefABCDEF") : 0;
	if (digits == 0 || word[1 + digits] != '\0')
		return 0;
	if (digits > 16) {
		err_set(err, STATUS_USAGE, "raw event '%s': at most 16 hexadecimal digits were expected", word);
		return -1;
	}
	spec->attr.type = PERF_TYPE_RAW;
	spec->attr.config = strtoull(word + 1, NULL, 16);
	sysfs_core_pmus(spec->host, spec);
	return 1;
}

const struct event_source event_source_raw = { .name = "raw", .order = 40, .parse = parse };
