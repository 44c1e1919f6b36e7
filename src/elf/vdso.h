// The vdso: code that the kernel maps into every process, of no file. Each ABI has its own; they change with the kernel alone.
#ifndef PERFSAMPLE_ELF_VDSO_H
#define PERFSAMPLE_ELF_VDSO_H

#include "elf/image.h"

enum { VDSO_BYTES_MAX = 1 << 20 };

// What such a mapping is called: "[vdso]", and "[vdso32]" that of 32-bit processes beside it, perf's word (tools/perf/util/vdso.h).
#define VDSO_NAME "[vdso]"
#define VDSO32_NAME "[vdso32]"

// A copy of this very process's: the running kernel's, of our ABI. The caller's; NULL: there is none.
struct image *vdso_own(void);

#endif
