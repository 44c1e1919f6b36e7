#include "export/script_fields.h"

#include <string.h>

static const struct { const char *name; unsigned bit; } known[] = {
	{ "comm", FIELD_COMM }, { "tid", FIELD_TID }, { "pid", FIELD_PID }, { "time", FIELD_TIME }, { "cpu", FIELD_CPU },
	{ "event", FIELD_EVENT }, { "ip", FIELD_IP }, { "sym", FIELD_SYM }, { "dso", FIELD_DSO }, { "symoff", FIELD_SYMOFF },
	{ "srcline", FIELD_SRCLINE }, { "period", FIELD_PERIOD }, { "via", FIELD_VIA },
};
enum { KNOWN = sizeof(known) / sizeof(known[0]) };

static const char *const perfs[] = {
	"trace", "addr", "iregs", "uregs", "brstack", "brstacksym", "flags", "data_src", "weight", "bpf-output", "brstackinsn", "brstackinsnlen",
	"brstackoff", "callindent", "insn", "insnlen", "synth", "phys_addr", "metric", "misc", "srccode", "ipc", "tod", "data_page_size",
	"code_page_size", "ins_lat",
};

static unsigned find(const char *word, size_t length)
{
	for (size_t i = 0; i < KNOWN; i++)
		if (strlen(known[i].name) == length && memcmp(known[i].name, word, length) == 0)
			return known[i].bit;
	return 0;
}

static bool refuse(const char *word, size_t length, struct err *err)
{
	for (size_t i = 0; i < sizeof(perfs) / sizeof(perfs[0]); i++)
		if (strlen(perfs[i]) == length && memcmp(perfs[i], word, length) == 0)
			return err_set(err, STATUS_USAGE, "-F: field '%.*s' is not supported: recordings of ours hold no such data", (int)length, word);
	char list[160] = "";
	for (size_t i = 0; i < KNOWN; i++) {
		strcat(list, i > 0 ? ", " : "");
		strcat(list, known[i].name);
	}
	return err_set(err, STATUS_USAGE, "-F: no field '%.*s'; there are %s", (int)length, word, list);
}

bool script_fields_parse(const char *text, unsigned *fields, struct err *err)
{
	const unsigned usual = FIELD_COMM | FIELD_TID | FIELD_CPU | FIELD_TIME | FIELD_PERIOD | FIELD_EVENT | FIELD_IP | FIELD_SYM | FIELD_SYMOFF |
	                       FIELD_DSO;
	bool is_change = text == NULL || text[0] == '+' || text[0] == '-';
	*fields = is_change ? usual : 0;
	for (const char *at = text; at != NULL;) {
		size_t length = strcspn(at, ",");
		const char *word = at;
		char sign = length > 0 && (*word == '+' || *word == '-') ? *word : '\0';
		if (is_change != (sign != '\0'))
			return err_set(err, STATUS_USAGE, "-F: '%s' mixes fields with changes (+field, -field) of the default", text);
		size_t skip = sign != '\0';
		unsigned bit = find(word + skip, length - skip);
		if (bit == 0)
			return refuse(word + skip, length - skip, err);
		if (sign == '-')
			*fields &= ~bit;
		else
			*fields |= bit;
		at = at[length] == ',' ? at + length + 1 : NULL;
	}
	if (*fields == 0)
		return err_set(err, STATUS_USAGE, "-F: '%s' leaves no field", text);
	return true;
}
