// The columns of script, in perf script's names.
#ifndef PERFSAMPLE_EXPORT_SCRIPT_FIELDS_H
#define PERFSAMPLE_EXPORT_SCRIPT_FIELDS_H

#include "base/err.h"

enum script_field {
	FIELD_COMM = 1, FIELD_TID = 2, FIELD_PID = 4, FIELD_TIME = 8, FIELD_CPU = 16, FIELD_EVENT = 32, FIELD_IP = 64, FIELD_SYM = 128,
	FIELD_DSO = 256, FIELD_SYMOFF = 512, FIELD_SRCLINE = 1024, FIELD_PERIOD = 2048,
	FIELD_VIA = 4096, // not perf's: how each frame was found
};

// perf's list: "comm,ip,sym", or changes of the default, "+srcline,-dso". NULL: the default. STATUS_USAGE names the unknown word.
bool script_fields_parse(const char *text, unsigned *fields, struct err *err);

#endif
