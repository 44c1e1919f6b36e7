#include "record/host.h"

#include <elf.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>

// "model name : …" of the first CPU; other architectures name theirs elsewhere, and then it stays empty.
static void describe_cpu(char *text, size_t size)
{
	char line[512];
	FILE *file = fopen("/proc/cpuinfo", "re");
	if (file == NULL)
		return;
	while (text[0] == '\0' && fgets(line, sizeof(line), file) != NULL) {
		char *colon = strchr(line, ':');
		if (strncmp(line, "model name", 10) != 0 || colon == NULL)
			continue;
		colon += strspn(colon, ": \t");
		colon[strcspn(colon, "\n")] = '\0';
		snprintf(text, size, "%s", colon);
	}
	fclose(file);
}

static uint16_t machine_of(const char *arch)
{
	static const struct { const char *arch; uint16_t machine; } known[] = {
		{ "x86_64", EM_X86_64 }, { "aarch64", EM_AARCH64 }, { "i686", EM_386 }, { "i586", EM_386 }, { "riscv64", EM_RISCV },
		{ "ppc64le", EM_PPC64 }, { "s390x", EM_S390 },
	};
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strcmp(known[i].arch, arch) == 0)
			return known[i].machine;
	return EM_NONE;
}

void host_describe(struct host *host)
{
	struct utsname names;
	*host = (struct host){ 0 };
	if (uname(&names) == 0) {
		snprintf(host->name, sizeof(host->name), "%s", names.nodename);
		snprintf(host->release, sizeof(host->release), "%s", names.release);
		snprintf(host->arch, sizeof(host->arch), "%.63s", names.machine);
		host->machine = machine_of(names.machine);
	}
	struct sysinfo info;
	if (sysinfo(&info) == 0)
		host->memory_kib = (uint64_t)info.totalram * info.mem_unit / 1024;
	host->cpus_online = (uint32_t)get_nprocs();
	host->cpus_available = (uint32_t)get_nprocs_conf();
	describe_cpu(host->cpu, sizeof(host->cpu));
}
