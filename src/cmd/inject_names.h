// What inject puts into our feature section: what was there, what it did, and the names of the sampled functions.
#ifndef PERFSAMPLE_CMD_INJECT_NAMES_H
#define PERFSAMPLE_CMD_INJECT_NAMES_H

#include "perfdata/names.h"
#include "profile/profile.h"

// The pairs of `from` (NULL: none), without those that name the host unless `with_host`.
void inject_meta(struct names *names, const struct names *from, bool with_host);
// The vdso of raw stacks.
void inject_vdsos(struct names *names, const struct names *from);
// One decision more.
void inject_say(struct names *names, const char *format, ...) __attribute__((format(printf, 2, 3)));
// The functions of every address in the profile that has a name; where `from` (NULL: nothing) says that JIT code
// was. Strings are borrowed from both.
void inject_names(struct names *names, const struct profile *profile, const struct names *from);

// What of them shares its code with others: aliases and calls. images[dso of the profile]: index among the names, or PROFILE_NONE.
void inject_folded(struct names *names, const struct profile *profile, const uint32_t *images);

#endif
