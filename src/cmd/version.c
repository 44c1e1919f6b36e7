// perfsample --version: version, libraries with versions, features.
#include <jansson.h>
#include <lzma.h>
#include <stdio.h>
#include <zlib.h>
#include <zstd.h>

#include "base/buf.h"
#include "cli/command.h"
#include "cli/terminal.h"
#include "export/exporter.h"
#include "perf/event_spec.h"
#include "symbols/provider.h"
#include "unwind/arch.h"

#define LIST_NAMES(out, registry) \
	do { \
		for (size_t i_ = 0; (registry)[i_] != NULL; i_++) \
			buf_printf((out), "%s%s", i_ > 0 ? ", " : "", (registry)[i_]->name); \
		buf_byte((out), '\n'); \
	} while (0)

static int run(int argc, char **argv)
{
	(void)argc, (void)argv;
	struct buf out = { 0 };
	buf_printf(&out, "perfsample %s\n", PERFSAMPLE_VERSION);
	buf_printf(&out, "libraries: zlib %s, zstd %s, lzma %s, jansson %s\n", zlibVersion(), ZSTD_versionString(), lzma_version_string(),
	           jansson_version_str());
	buf_string(&out, "events:    ");
	LIST_NAMES(&out, event_sources);
	buf_string(&out, "unwinds:   ");
	LIST_NAMES(&out, unwind_archs);
	buf_string(&out, "symbols:   ");
	LIST_NAMES(&out, symbol_providers);
	buf_string(&out, "exports:   ");
	LIST_NAMES(&out, exporters);
	output_write(out.data, out.size, NULL);
	buf_release(&out);
	return STATUS_OK;
}

static const char *const usages[] = { "perfsample --version", NULL };
static const struct option options[] = { { 0 } };
const struct command command_version = {
	.name = "version", .summary = "version, libraries with versions, features", .usages = usages, .options = options, .run = run,
	.description = "Shows the version of perfsample, those of the libraries it runs with, and what was built in.", .is_hidden = true,
};
