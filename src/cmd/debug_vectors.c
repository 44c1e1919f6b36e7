#include "cmd/debug.h"

#include <fcntl.h>

#include "base/log.h"
#include "cli/terminal.h"
#include "report/vectors.h"

// 0: all within tolerance; 1: a difference.
static int check_vectors(const char *path, double tolerance)
{
	struct buf text = { 0 }, out = { 0 };
	struct err err = { 0 };
	struct vectors_result result = { 0 };
	int status = STATUS_OK;
	if (!debug_read_file(AT_FDCWD, path, &text, &err)) {
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

int debug_vectors(char **paths, size_t count, double tolerance)
{
	int status = STATUS_OK;

	for (size_t i = 0; i < count; i++) {
		int one = check_vectors(paths[i], tolerance);
		status = one > status ? one : status;
	}
	return status;
}
