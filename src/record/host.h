// What this host is called and made of: for the file's standard features.
#ifndef PERFSAMPLE_RECORD_HOST_H
#define PERFSAMPLE_RECORD_HOST_H

#include <stdint.h>

struct host {
	char name[256], release[256], arch[64], cpu[256]; // uname(2); cpu: "" unknown
	uint16_t machine;          // EM_* that runs here
	uint32_t cpus_online, cpus_available;
	uint64_t memory_kib;
};
void host_describe(struct host *host);

#endif
