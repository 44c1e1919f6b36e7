// For those who check the program itself: hidden from `perfsample help`.
#include "cmd/debug.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "cli/command.h"
#include "proc/procfs.h"

enum { MAX_FILE_BYTES = 64 << 20, OPTION_TOLERANCE = 1, OPTION_EXAMPLES };

bool debug_read_file(int folder, const char *path, struct buf *out, struct err *err)
{
	int fd = folder == AT_FDCWD ? open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY) : procfs_open_below(folder, path);
	if (fd < 0)
		return err_errno(err, STATUS_INPUT, "%s", path);
	ssize_t n;
	do {
		buf_reserve(out, 65536);
		n = read(fd, out->data + out->size, 65536);
		out->size += n > 0 ? (size_t)n : 0;
	} while (n > 0 && out->size < MAX_FILE_BYTES);
	int saved = errno;
	close(fd);
	errno = saved;
	if (n < 0)
		return err_errno(err, STATUS_INPUT, "%s", path);
	return n == 0 || err_set(err, STATUS_INPUT, "%s: larger than %d MiB", path, MAX_FILE_BYTES >> 20);
}

static const struct option options[] = {
	{ .name = "tolerance", .argument = "REL", .help = "largest relative difference allowed (default 1e-8)", .id = OPTION_TOLERANCE },
	{ .name = "examples", .argument = "N", .help = "of each kind of difference (default 1)", .id = OPTION_EXAMPLES },
	{ 0 },
};

static int run(int argc, char **argv)
{
	struct option_parser parser;
	struct option_value value;
	struct err err = { 0 };
	double tolerance = 1e-8;
	uint64_t examples = 1;
	option_parser_init(&parser, options, argc, argv, false);
	while (option_next(&parser, &value, &err))
		if (value.id == OPTION_TOLERANCE ? !value_double(value.value, 0, 1, value.spelled, &tolerance, &err) :
		                                   !value_u64(value.value, 0, UINT32_MAX, value.spelled, &examples, &err))
			break;
	if (err.status == STATUS_OK) {
		char **words = argv + parser.next;
		size_t count = (size_t)(argc - parser.next);
		const char *what = count > 0 ? words[0] : "";
		if (strcmp(what, "vectors") == 0 && count > 1)
			return debug_vectors(words + 1, count - 1, tolerance);
		if (strcmp(what, "unwind") == 0 && count == 2)
			return debug_unwind(words[1], (unsigned)examples);
		if (strcmp(what, "snapshot") == 0 && count == 2)
			return debug_snapshot(words[1]);
		if (strcmp(what, "core") == 0 && count == 3)
			return debug_core(words[1], words[2]);
		err_set(&err, STATUS_USAGE, "expected: debug vectors FILE.tsv…, debug unwind FILE, debug snapshot DIR, or debug core CORE EXE");
	}
	log_error("%s", err.text);
	return (int)err.status;
}

static const char *const usages[] = {
	"perfsample debug vectors [--tolerance REL] FILE.tsv…", "perfsample debug unwind [--examples N] FILE", "perfsample debug snapshot DIR",
	"perfsample debug core CORE EXE", NULL,
};

const struct command command_debug = {
	.name = "debug",
	.summary = "check the program itself",
	.usages = usages,
	.description = "vectors: recomputes tables of statistical test vectors (TSV, one header line) and says how far each is off. "
	               "Status 1 when a cell differs by more than the tolerance.\n"
	               "unwind: unwinds the stack copies of a recording (perf's, or --unwind post) with our unwinder and with libunwind: how often they "
	               "agree, examples of each kind of difference, time per frame, why stacks end. Which of the two is right where there is no CFI the functions' own "
	               "instructions say, followed from each function's beginning (x86-64; libcapstone): only what they say is called proven. They judge stacks, too, on "
	               "which both agree.\n"
	               "snapshot: unwinds from registers (regs.txt), memory (stack*.data and other *.data: its address in 8 bytes, then the bytes) and "
	               "the files that maps.txt names, in DIR or, as ../NAME, beside it. Addresses count from the file's own; those of callers are moved back into the call.\n"
	               "core: unwinds each thread of a core file of the program EXE; files that it had mapped are used where their build IDs are those "
	               "in the core. Addresses are as they stood in memory, not moved back.",
	.options = options,
	.run = run,
	.is_hidden = true,
};
