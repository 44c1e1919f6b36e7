// For those who check the program itself: hidden from `perfsample help`.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/terminal.h"
#include "cmd/debug_unwind.h"
#include "report/vectors.h"

enum { MAX_VECTORS_BYTES = 64 << 20, OPTION_TOLERANCE = 1 };

static bool read_whole(const char *path, struct buf *out, struct err *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0)
		return err_errno(err, STATUS_INPUT, "%s", path);
	ssize_t n;
	do {
		buf_reserve(out, 65536);
		n = read(fd, out->data + out->size, 65536);
		out->size += n > 0 ? (size_t)n : 0;
	} while (n > 0 && out->size < MAX_VECTORS_BYTES);
	int saved = errno;
	close(fd);
	errno = saved;
	if (n < 0)
		return err_errno(err, STATUS_INPUT, "%s", path);
	return n == 0 || err_set(err, STATUS_INPUT, "%s: larger than %d MiB", path, MAX_VECTORS_BYTES >> 20);
}

// 0: all within tolerance; 1: a difference.
static int check_vectors(const char *path, double tolerance)
{
	struct buf text = { 0 }, out = { 0 };
	struct err err = { 0 };
	struct vectors_result result = { 0 };
	int status = STATUS_OK;
	if (!read_whole(path, &text, &err)) {
		status = err.status;
	} else if (!vectors_check(buf_text(&text), tolerance, &result, &out, &err)) {
		err_context(&err, "%s", path);
		status = err.status;
	} else {
		buf_printf(&out, "%s: %zu rows, %zu cells, %zu wrong, worst relative difference %.2g (%s)\n", path, result.rows, result.cells,
		           result.wrong, result.worst, result.where);
		status = result.wrong > 0 ? STATUS_NO : STATUS_OK;
		if (!output_write(buf_text(&out), out.size, &err))
			status = err.status;
	}
	if (err.status != STATUS_OK)
		log_error("%s", err.text);
	buf_release(&text);
	buf_release(&out);
	return status;
}

static const struct option options[] = {
	{ .name = "tolerance", .argument = "REL", .help = "largest relative difference allowed (default 1e-8)", .id = OPTION_TOLERANCE },
	{ 0 },
};

static int run(int argc, char **argv)
{
	struct option_parser parser;
	struct option_value value;
	struct err err = { 0 };
	double tolerance = 1e-8;
	option_parser_init(&parser, options, argc, argv, false);
	while (option_next(&parser, &value, &err))
		if (value.id == OPTION_TOLERANCE && !value_double(value.value, 0, 1, value.spelled, &tolerance, &err))
			break;
	if (err.status == STATUS_OK && parser.next + 2 == argc && strcmp(argv[parser.next], "unwind") == 0)
		return debug_unwind(argv[parser.next + 1]);
	if (err.status == STATUS_OK && (parser.next + 1 >= argc || strcmp(argv[parser.next], "vectors") != 0))
		err_set(&err, STATUS_USAGE, "expected: debug vectors FILE.tsv…, or debug unwind FILE");
	if (err.status != STATUS_OK) {
		log_error("%s", err.text);
		return (int)err.status;
	}
	int status = STATUS_OK;
	for (int i = parser.next + 1; i < argc; i++) {
		int one = check_vectors(argv[i], tolerance);
		status = one > status ? one : status;
	}
	return status;
}

static const char *const usages[] = { "perfsample debug vectors [--tolerance REL] FILE.tsv…", "perfsample debug unwind FILE", NULL };

const struct command command_debug = {
	.name = "debug",
	.summary = "check the program itself",
	.usages = usages,
	.description = "vectors: recomputes tables of statistical test vectors (TSV, one header line) and says how far each is off. "
	               "Status 1 when a cell differs by more than the tolerance.\n"
	               "unwind: unwinds the stack copies of a recording (perf's, or --unwind post) with our unwinder and with libunwind: how often they "
	               "agree, an example of each kind of difference, time per frame, why stacks end.",
	.options = options,
	.run = run,
	.is_hidden = true,
};
