// check -p: whether the code of the target can be unwound and named.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/hash.h"
#include "cmd/check.h"
#include "cmd/runtimes.h"
#include "perf/record.h"
#include "proc/dso.h"
#include "proc/space.h"
#include "symbols/debug_file.h"

enum { NAMED_MAX = 3 };

struct findings {
	size_t files, with_cfi, with_names, exported_only, unopened;
	struct buf no_cfi, no_names, failed; // the first few, by name
	size_t no_cfi_named, no_names_named, failed_named;
	char why[1024];                      // one of them could not be opened
	bool has_jit;
	struct buf mapped;                   // names of the target's files, one a line
};

static void name_one(struct buf *list, size_t *count, const char *path)
{
	const char *slash = strrchr(path, '/');

	if ((*count)++ < NAMED_MAX)
		buf_printf(list, "%s%s", list->size > 0 ? ", " : "", slash != NULL ? slash + 1 : path);
}

static bool has_contents(const struct image *image, const char *name)
{
	const struct image_section *section = image_find_section(image, name);
	struct bytes raw;

	return section != NULL && image_section_raw(image, section, &raw) && bytes_left(&raw) > 8; // a terminator alone is no table
}

static void look_at(struct findings *f, struct image *image, const char *path)
{
	static const char *const dirs[] = { "/usr/lib/debug", NULL };
	struct symbolizer_options options = { .debug_dirs = dirs, .use_host_files = true };
	bool wrong, has_cfi = image->eh_frame_hdr_vaddr != 0 || has_contents(image, ".eh_frame") || has_contents(image, ".debug_frame");
	struct image *cfi = has_cfi ? NULL : debug_file_find_cfi(&options, image, true);

	has_cfi = has_cfi || cfi != NULL;
	image_release(cfi);
	if (has_cfi)
		f->with_cfi++;
	else
		name_one(&f->no_cfi, &f->no_cfi_named, path);
	if (has_contents(image, ".symtab")) {
		f->with_names++;
		return;
	}
	struct image *debug = debug_file_find(&options, image, &wrong);
	if (debug != NULL) {
		f->with_names++;
		image_release(debug);
		return;
	}
	f->exported_only += has_contents(image, ".dynsym");
	name_one(&f->no_names, &f->no_names_named, path);
}

// Each mapping as the recorder will see it; a file once.
static void look_at_pid(struct findings *f, struct dso_table *seen, int32_t pid)
{
	struct buf records = { 0 };
	struct record_layout layout = { 0 };
	struct err err;

	procfs_synthesize(pid, false, NULL, 0, &records);
	for (size_t at = 0; at < records.size;) {
		struct perf_event_header *header = (struct perf_event_header *)(void *)(records.data + at);
		struct record record;
		if (header->size == 0 || !record_decode(&layout, header, header->size, &record, &err))
			break;
		at += header->size;
		if (record.type != PERF_RECORD_MMAP2)
			continue;
		const struct record_mapping *m = &record.mapping;
		enum dso_kind kind = dso_kind_of(m->path, false);
		f->has_jit |= kind == DSO_ANON;
		if (kind != DSO_FILE)
			continue;
		struct dso key = { .path = m->path, .kind = kind, .major = m->major, .minor = m->minor, .inode = m->inode };
		size_t mark = strlen(m->path), suffix = strlen(" (deleted)");
		char *path = mem_string(m->path);
		if (mark > suffix && strcmp(path + mark - suffix, " (deleted)") == 0) {
			path[mark - suffix] = '\0';
			key.deleted = true;
		}
		key.path = path;
		size_t before = seen->rows.count;
		dso_intern(seen, &key);
		struct image *image = NULL;
		if (seen->rows.count > before) {
			f->files++;
			buf_printf(&f->mapped, "%s\n", path);
			if (procfs_open_image(&image, pid, &key, m->start, m->start + m->length, m->pgoff, &err)) {
				look_at(f, image, path);
				image_release(image);
			} else {
				f->unopened++;
				name_one(&f->failed, &f->failed_named, path);
				memcpy(f->why, err.text, sizeof(f->why));
			}
		}
		free(path);
	}
	buf_release(&records);
}

static void jit(struct check *check, const struct check_target *target, struct findings *f)
{
	struct err err = { 0 };

	if (!f->has_jit)
		return;
	int fd = procfs_open_perf_map(target->pid, &err);
	if (fd >= 0)
		close(fd);
	struct buf help = { 0 };
	runtime_help(runtime_of(buf_text(&f->mapped)), (uint32_t)target->pid, &help);
	check_add(check, "jit_map", "names of JIT code", fd >= 0 ? ANSWER_YES : ANSWER_NO,
	          fd >= 0 ? mem_printf("/tmp/perf-%" PRId32 ".map", target->status.ns_pid)
	          : err.text[0] != '\0' ? mem_string(err.text)
	                                : mem_printf("code without a file, and no /tmp/perf-%" PRId32 ".map", target->status.ns_pid),
	          fd >= 0 || err.text[0] != '\0' ? NULL : mem_string(buf_text(&help)));
	buf_release(&help);
}

static const char *more(size_t count)
{
	return count > NAMED_MAX ? " …" : "";
}

void check_images(struct check *check, const struct check_target *target)
{
	struct findings f = { 0 };
	struct dso_table seen = { 0 };

	for (size_t i = 0; i < target->pids.ids.count; i++)
		look_at_pid(&f, &seen, target->pids.ids.data[i]);
	if (f.files == 0) {
		check_add(check, "images", "binaries", ANSWER_NO, mem_string("its mappings may not be read"), check_ptrace_fix());
	} else {
		check_add(check, "images", "binaries", f.unopened == 0 ? ANSWER_YES : ANSWER_NO,
		          f.unopened == 0 ? mem_printf("all %zu mapped files can be opened", f.files)
		                          : mem_printf("%zu of %zu mapped files cannot be opened (%s%s): %s", f.unopened, f.files, buf_text(&f.failed), more(f.failed_named), f.why),
		          f.unopened == 0 ? NULL : check_ptrace_fix());
		size_t opened = f.files - f.unopened;
		check_add(check, "cfi", "unwind tables", f.with_cfi == opened ? ANSWER_YES : ANSWER_NO,
		          f.with_cfi == opened ? mem_printf("in all %zu files", opened)
		                               : mem_printf("not in %zu of %zu files (%s%s): frame pointers are tried there", opened - f.with_cfi, opened,
		                                            buf_text(&f.no_cfi), more(f.no_cfi_named)),
		          f.with_cfi == opened ? NULL : mem_string("build them with -fasynchronous-unwind-tables"));
		check_add(check, "names", "function names", f.with_names == opened ? ANSWER_YES : ANSWER_NO,
		          f.with_names == opened ? mem_printf("in all %zu files or their debug files", opened)
		                                 : mem_printf("%s in %zu of %zu files (%s%s)", f.exported_only == opened - f.with_names ? "exported ones only" : "few or none",
		                                              opened - f.with_names, opened, buf_text(&f.no_names), more(f.no_names_named)),
		          f.with_names == opened ? NULL : mem_printf("find-dbgsym-packages --install %" PRId32 " (Debian: in debian-goodies)", target->pid));
	}
	jit(check, target, &f);
	dso_table_release(&seen);
	buf_release(&f.no_cfi);
	buf_release(&f.no_names);
	buf_release(&f.failed);
	buf_release(&f.mapped);
}
