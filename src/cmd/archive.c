// perfsample archive: the binaries and debug files of a recording in one tar file, laid out as perf keeps them; and back.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "archive/layout.h"
#include "archive/tar.h"
#include "base/log.h"
#include "base/size_text.h"
#include "cli/command.h"
#include "cli/terminal.h"
#include "cmd/select.h"
#include "perfdata/outfile.h"
#include "proc/dso.h"
#include "symbols/debug_file.h"
#include "symbols/jitdump.h"
#include "symbols/split_file.h"

enum { ID_OUTPUT = 1, ID_UNPACK, ID_INTO };

static const struct option options[] = {
	{ 'i', "input", "FILE", "the recording, ours or perf's (default perf.data)", 0, SELECT_INPUT, "Packing", "file" },
	{ 'o', "output", "FILE", "the archive (default: the recording's name and .tar.gz); not compressed where it ends in .tar; - is standard output", 0,
	  ID_OUTPUT, NULL, "file" },
	{ 0, "salvage", NULL, "skip what is damaged in the recording instead of stopping there", 0, SELECT_SALVAGE, NULL, NULL },
	{ 0, "symfs", "DIR", "look for binaries, and for debug files in the usual places, below DIR", OPTION_EXPERT, SELECT_SYMFS, NULL, "file" },
	{ 0, "debug-dir", "DIR", "look for debug files (DIR/.build-id/..., DIR/PATH) there first; repeatable", OPTION_EXPERT, SELECT_DEBUG_DIR, NULL, "file" },
	{ 0, "unpack", "ARCHIVE", "unpack an archive, where perf and perfsample look for binaries", 0, ID_UNPACK, "Unpacking", "file" },
	{ 0, "into", "DIR", "unpack there (default ~/.debug); read with --debug-dir DIR", 0, ID_INTO, NULL, "file" },
	{ 'f', "force", NULL, "accepted from perf without effect", OPTION_IGNORED, SELECT_FORCE, NULL, NULL },
	{ 0 },
};

struct choices {
	struct selection selection;
	const char *output, *unpack, *into;
};

struct packing {
	struct tar_writer *tar;
	const struct symbolizer_options *where;
	struct symbolizer *symbolizer;
	struct hash_map packed; // hashes of members' names
	uint64_t files, debug_files, bytes, missing;
	struct err *err;        // of the split files at hand, and whose they are
	const char *path;
	const struct build_id *id;
};

// ---------------------------------------------------------------- packing

static bool add_file(struct packing *p, const char *name, const struct image *image, struct err *err)
{
	bool is_new;
	hash_map_put(&p->packed, hash_bytes(name, strlen(name)), 1, &is_new);
	if (!is_new)
		return true;
	p->bytes += image->size;
	return tar_add_file(p->tar, name, image->data, image->size, err);
}

static bool add_image(struct packing *p, const char *path, const struct image *image, const struct build_id *id, const char *kind, struct err *err)
{
	bool is_new, good = true;
	char *name = layout_file(path, id, kind);
	if (name == NULL) {
		log_warn("archive: %s is left out: its path would lead out of the archive's folder", path);
		return true;
	}
	good = add_file(p, name, image, err);
	free(name);
	char *link = layout_link(id), *target = layout_link_target(path, id);
	hash_map_put(&p->packed, hash_bytes(link, strlen(link)), 1, &is_new);
	if (good && is_new)
		good = tar_add_link(p->tar, link, target, err);
	free(link);
	free(target);
	return good;
}

// A .dwo file below the program's folder in the archive, the package as elf.dwp: where readers look for them beside the program.
static bool add_split_file(void *context, const char *name, const struct image *file)
{
	struct packing *p = context;
	char *whole = name == NULL || layout_is_inside(name) ? layout_file(p->path, p->id, name != NULL ? name : "elf.dwp") : NULL;
	if (whole == NULL) {
		log_warn("archive: %s of %s is left out: its path would lead out of the archive's folder", name != NULL ? name : "a package", p->path);
		return true;
	}
	bool good = add_file(p, whole, file, p->err);
	p->debug_files++;
	free(whole);
	return good;
}

static bool add_split_files(struct packing *p, const char *path, struct image *image, struct image *debug, struct err *err)
{
	size_t lost = 0;
	p->path = path;
	p->id = &image->build_id;
	p->err = err;
	bool good = split_files_each(p->where, image, debug, add_split_file, p, &lost);
	if (lost > 0)
		log_warn("archive: %zu .dwo files of %s are not here: its lines will be missing there too", lost, path);
	return good;
}

// What several debug files have in common (dwz).
static bool add_alt_file(struct packing *p, const struct image *debug, struct err *err)
{
	struct build_id id;
	struct image *alt = debug_file_find_alt(p->where, debug, &id);
	bool good = alt == NULL || add_image(p, alt->path, alt, &alt->build_id, "debug", err);
	p->debug_files += alt != NULL;
	if (alt == NULL && id.size > 0)
		log_warn("archive: the file that %s shares its debug information with (dwz) is not here", debug->path);
	image_release(alt);
	return good;
}

// Everything that tells of an image's code but the image itself.
static bool add_debug_files(struct packing *p, const char *path, struct image *image, const char *debug_path, struct err *err)
{
	struct image *debug = NULL;
	if (debug_path != NULL && !image_open_path(&debug, debug_path, NULL))
		debug = NULL; // gone since it was found
	bool good = debug == NULL || add_image(p, path, debug, &image->build_id, "debug", err);
	p->debug_files += debug != NULL;
	good = good && add_alt_file(p, debug != NULL ? debug : image, err) && add_split_files(p, path, image, debug, err);
	image_release(debug);
	return good;
}

static bool add_dso(struct packing *p, const struct profile *profile, const struct profile_dso *dso, struct err *err)
{
	const char *path = profile_text(profile, dso->path);
	struct symbol_image wanted = { .kind = SYMBOL_IMAGE_FILE, .path = path, .build_id = dso->build_id, .map_fd = -1 };
	uint32_t id = symbolizer_image(p->symbolizer, &wanted);
	struct image *image = NULL;
	symbolizer_image_open(p->symbolizer, id);
	struct symbol_image_status status = symbolizer_image_status(p->symbolizer, id);
	if (status.file == NULL || !image_open_path(&image, status.file, NULL) || image->build_id.size < 2) {
		bool has_id = image == NULL || image->build_id.size >= 2;
		log_warn("archive: %s is left out: %s", path, !has_id ? "it has no build ID" : symbol_missing_text(status.missing));
		image_release(image);
		p->missing++;
		return true;
	}
	bool good = add_image(p, path, image, &image->build_id, "elf", err) && add_debug_files(p, path, image, status.debug_file, err);
	p->files++;
	image_release(image);
	return good;
}

// As perf archive packs it. A raw recording of ours brings its own.
static bool add_vdso(struct packing *p, const char *path, const struct build_id *id, struct err *err)
{
	struct image *image = id->size > 1 ? debug_file_find_vdso(p->where, id) : NULL;
	bool good = image == NULL || add_image(p, path, image, id, "vdso", err);
	p->files += image != NULL;
	image_release(image);
	return good;
}

static bool add_all(struct packing *p, const struct profile *profile, struct err *err)
{
	bool good = true, *is_sampled = mem_zero(profile->dsos.count + 1, sizeof(*is_sampled));
	for (size_t i = 0; i < profile->frames.count; i++)
		if (profile->frames.data[i].dso < profile->dsos.count)
			is_sampled[profile->frames.data[i].dso] = true;
	for (uint32_t i = 0; good && i < profile->dsos.count; i++)
		if (is_sampled[i] && profile->dsos.data[i].kind == DSO_VDSO)
			good = add_vdso(p, profile_text(profile, profile->dsos.data[i].path), &profile->dsos.data[i].build_id, err);
		else if (is_sampled[i] && profile->dsos.data[i].kind == DSO_FILE && !jitdump_is_path(profile_text(profile, profile->dsos.data[i].path)))
			good = add_dso(p, profile, &profile->dsos.data[i], err);
	free(is_sampled);
	return good;
}

static bool ends_in(const char *text, const char *end)
{
	size_t length = strlen(text), tail = strlen(end);
	return length >= tail && strcmp(text + length - tail, end) == 0;
}

static bool pack(struct choices *c, struct profile *profile, struct err *err)
{
	struct outfile out = { .fd = -1, .folder_fd = -1 };
	struct load_options *load = &c->selection.load;
	load->symbols = false; // nothing needs a name here
	if (!select_load(&c->selection, profile, err))
		return false;
	char size[SIZE_TEXT_BYTES];
	char *path = c->output != NULL ? mem_string(c->output) : mem_printf("%s.tar.gz", strcmp(load->input, "-") == 0 ? "perf.data" : load->input);
	struct symbolizer_options where = { .symfs = load->symfs, .more_debug_dirs = load->debug_dirs, .use_host_files = true };
	struct packing p = { .where = &where, .symbolizer = symbolizer_new(&where) };
	bool good = outfile_open(&out, path, c->output != NULL ? OUTFILE_NAMED : OUTFILE_DEFAULT, STDOUT_FILENO, err) && tar_writer_open(&p.tar, out.fd, !ends_in(path, ".tar"), err) &&
		add_all(&p, profile, err);
	if (good) {
		good = tar_writer_close(p.tar, err);
		p.tar = NULL;
	}
	good = good && outfile_publish(&out, err) && outfile_check(&out, err);
	tar_writer_abort(p.tar);
	if (good)
		log_info("wrote %s: %llu binar%s, %llu debug file%s, %s%s. There: perfsample archive --unpack, or tar xf %s -C ~/.debug", out.path,
		         (unsigned long long)p.files, p.files == 1 ? "y" : "ies", (unsigned long long)p.debug_files, p.debug_files == 1 ? "" : "s",
		         size_text(p.bytes, size), p.missing > 0 ? "; some are missing" : "", out.path);
	outfile_close(&out);
	symbolizer_free(p.symbolizer);
	hash_map_release(&p.packed);
	free(path);
	return good;
}

// ---------------------------------------------------------------- unpacking

static bool unpack(const struct choices *c, struct err *err)
{
	const char *home = getenv("HOME");
	struct tar_figures figures;
	char size[SIZE_TEXT_BYTES];
	if (c->into == NULL && (home == NULL || home[0] != '/'))
		return err_set(err, STATUS_USAGE, "--unpack: there is no HOME; say --into DIR");
	char *folder = c->into != NULL ? mem_string(c->into) : mem_printf("%s/.debug", home);
	int file_fd = open(c->unpack, O_RDONLY | O_NOCTTY | O_CLOEXEC), folder_fd = -1;
	bool good = file_fd >= 0 || err_errno(err, STATUS_INPUT, "%s", c->unpack);
	if (good) {
		(void)mkdir(folder, 0755); // perf's mode
		folder_fd = open(folder, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
		good = folder_fd >= 0 || err_errno(err, STATUS_FINISH, "%s", folder);
	}
	good = good && (tar_unpack(file_fd, folder_fd, &figures, err) || err_context(err, "%s", c->unpack));
	if (good)
		log_info("%s: %llu file%s and %llu link%s, %s; %llu were there already", folder, (unsigned long long)figures.files,
		         figures.files == 1 ? "" : "s", (unsigned long long)figures.links, figures.links == 1 ? "" : "s", size_text(figures.bytes, size),
		         (unsigned long long)figures.present);
	if (file_fd >= 0)
		close(file_fd);
	if (folder_fd >= 0)
		close(folder_fd);
	free(folder);
	return good;
}

static bool take(struct choices *c, const struct option_value *v, struct err *err)
{
	switch (v->id) {
	case ID_OUTPUT: c->output = v->value; return true;
	case ID_UNPACK: c->unpack = v->value; return true;
	case ID_INTO: c->into = v->value; return true;
	case SELECT_FORCE: return true;
	default: return select_take(&c->selection, v, err);
	}
}

static int run(int argc, char **argv)
{
	struct choices c = { 0 };
	struct profile profile = { 0 };
	struct option_parser parser;
	struct option_value value;
	struct err err = { 0 };
	select_init(&c.selection);
	option_parser_init(&parser, options, argc, argv, false);
	while (option_next(&parser, &value, &err))
		if (!take(&c, &value, &err))
			break;
	if (err.status == STATUS_OK && parser.next < argc) // perf archive FILE
		c.selection.load.input = argv[parser.next++];
	if (err.status == STATUS_OK && parser.next < argc)
		err_set(&err, STATUS_USAGE, "unexpected word %s", argv[parser.next]);
	if (err.status == STATUS_OK && c.into != NULL && c.unpack == NULL)
		err_set(&err, STATUS_USAGE, "--into goes with --unpack ARCHIVE");
	bool good = err.status == STATUS_OK && (c.unpack != NULL ? unpack(&c, &err) : pack(&c, &profile, &err));
	if (!good)
		log_error("archive: %s", err.text);
	profile_release(&profile);
	select_release(&c.selection);
	return good ? STATUS_OK : (int)err.status;
}

static const char *const usages[] = { "perfsample archive [-i FILE] [-o FILE.tar.gz]", "perfsample archive --unpack ARCHIVE [--into DIR]", NULL };
const struct command command_archive = {
	.name = "archive", .summary = "pack the binaries and debug files of a recording, to read it elsewhere", .usages = usages, .options = options, .run = run,
	.description = "Packs the files that a recording's samples lie in, and their debug files, by build ID and as perf lays them out below ~/.debug, so that "
	               "perfsample, perf and Hotspot find them on another machine. The functions' names are in a recording of ours anyway: this is for "
	               "annotate, for other tools, and for more debug information.\n"
	               "--unpack puts an archive, of ours or of perf archive, where it is looked for. Members that would lie outside are refused.",
};
