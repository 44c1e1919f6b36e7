// Names of JIT code from a jitdump file, for the recording. Used by record_names.
#ifndef PERFSAMPLE_CMD_RECORD_JIT_H
#define PERFSAMPLE_CMD_RECORD_JIT_H

#include "perfdata/names.h"
#include "record/session.h"
#include "symbols/symbolizer.h"

// `addrs`: the sampled addresses of one process's anonymous code, ascending; `code`: of that, with the dump. Adds to names->codes what code of the
// dump holds any of them, and an image for the dump with the names of these places. Strings live as long as session and symbolizer.
void record_jit(struct names *names, struct symbolizer *symbolizer, const struct sampled_code *code, const struct sampled_addr *addrs, size_t count);

// The same of code of which the process told debuggers, as if it had written a dump of that (path "//jit-PID.dump"): offsets are places of its own in it, from
// `*offset` on, which is moved behind them.
void record_jit_functions(struct names *names, const struct sampled_code *code, const struct sampled_addr *addrs, size_t count, uint64_t *offset);

#endif
