// --debuginfod: the client of debuginfod servers, and what it says on standard error while it works.
#ifndef PERFSAMPLE_CMD_SERVERS_H
#define PERFSAMPLE_CMD_SERVERS_H

#include "base/err.h"
#include "symbols/debuginfod.h"

struct servers;

// `spelled`: the option, for the message of an error.
bool servers_open(struct servers **out, const char *spelled, struct err *err);
void servers_close(struct servers *servers); // NULL is allowed
struct debuginfod *servers_client(const struct servers *servers); // NULL for NULL

#endif
