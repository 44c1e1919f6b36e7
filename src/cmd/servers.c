#include "cmd/servers.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/size_text.h"

struct servers {
	struct debuginfod *client;
	bool shows_progress; // on a terminal
	bool is_shown;       // a line of it stands there
	double shown_s;
};

static double now_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static const char *kind_text(enum debuginfod_kind kind)
{
	return kind == DEBUGINFOD_DEBUG_FILE ? "the debug file" : "the binary";
}

static void progress(void *context, const struct build_id *id, enum debuginfod_kind kind, uint64_t bytes, uint64_t total_bytes)
{
	struct servers *servers = context;
	char hex[65];
	if (!servers->shows_progress || now_s() - servers->shown_s < 0.2)
		return;
	servers->shown_s = now_s();
	servers->is_shown = true;
	fprintf(stderr, "\r\033[Kperfsample: debuginfod: %s of build ID %.12s…", kind_text(kind), build_id_hex(id, hex));
	if (total_bytes > 0)
		fprintf(stderr, " %.1f of %.1f MB", (double)bytes / 1e6, (double)total_bytes / 1e6);
	else if (bytes > 0)
		fprintf(stderr, " %.1f MB", (double)bytes / 1e6);
	fprintf(stderr, "  (Ctrl-C ends it)");
	fflush(stderr);
}

static void done(void *context, const struct build_id *id, enum debuginfod_kind kind, const struct image *image, const char *why, bool is_failure)
{
	struct servers *servers = context;
	char hex[65], size[SIZE_TEXT_BYTES];
	if (servers->is_shown)
		fputs("\r\033[K", stderr);
	servers->is_shown = false;
	build_id_hex(id, hex);
	if (image != NULL)
		log_info("debuginfod: %s of build ID %s, %s", kind_text(kind), hex, size_text(image->size, size));
	else if (is_failure)
		log_warn("debuginfod: %s of build ID %s did not come: %s", kind_text(kind), hex, why);
	else
		log_debug("debuginfod: %s of build ID %s: %s", kind_text(kind), hex, why);
}

bool servers_open(struct servers **out, const char *spelled, struct err *err)
{
	struct servers *servers = NEW(struct servers);
	servers->shows_progress = isatty(STDERR_FILENO) == 1 && log_level() >= LOG_INFO;
	struct debuginfod_options options = { .progress = progress, .done = done, .context = servers };
	*out = NULL;
	if (!debuginfod_open(&servers->client, &options, err)) {
		free(servers);
		return err_context(err, "%s", spelled);
	}
	*out = servers;
	return true;
}

void servers_close(struct servers *servers)
{
	if (servers == NULL)
		return;
	debuginfod_close(servers->client);
	free(servers);
}

struct debuginfod *servers_client(const struct servers *servers)
{
	return servers != NULL ? servers->client : NULL;
}
