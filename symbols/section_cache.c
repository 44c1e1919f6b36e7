#include "symbols/section_cache.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/mem.h"

#define LEAST_BYTES (1u << 20)
#define MOST_BYTES (128u << 20)
#define TOTAL_BYTES (512ull << 20)
enum { SECTIONS_LIMIT = 16, BOOT_ID_BYTES = 36 };
#define STAMP_SECTION ".perfsample.stamp"

static const char *const kept[] = { ".debug_info", ".debug_abbrev", ".debug_line", ".debug_str", ".debug_line_str", ".debug_ranges",
                                    ".debug_rnglists", ".debug_addr", ".debug_str_offsets", ".debug_aranges" };
enum { KEPT = sizeof(kept) / sizeof(kept[0]) };

struct stamp {
	char boot_id[BOOT_ID_BYTES];
	uint32_t version;
	uint64_t source_size;    // of the file it was made from
	uint64_t size, checksum; // of what stands between the ELF header and the stamp
};

// ---------------------------------------------------------------- where

// Makes the directory and its parents below the cache home; an fd of it when it is ours alone, else -1.
static int open_directory(void)
{
	const char *home = getenv("HOME"), *xdg = getenv("XDG_CACHE_HOME");
	char *base = xdg != NULL && xdg[0] == '/' ? mem_string(xdg) : home != NULL && home[0] == '/' ? mem_printf("%s/.cache", home) : NULL;
	if (base == NULL)
		return -1;
	int fd = -1;
	struct stat st;
	char *middle = mem_printf("%s/perfsample", base), *path = mem_printf("%s/sections-1", middle);
	(void)mkdir(base, 0700);
	(void)mkdir(middle, 0700);
	if (mkdir(path, 0700) == 0 || errno == EEXIST)
		fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0 && (fstat(fd, &st) != 0 || st.st_uid != geteuid() || (st.st_mode & 022))) {
		close(fd);
		fd = -1;
	}
	free(path);
	free(middle);
	free(base);
	return fd;
}

static void read_boot_id(char *boot_id)
{
	memset(boot_id, 0, BOOT_ID_BYTES);
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		if (read(fd, boot_id, BOOT_ID_BYTES) != BOOT_ID_BYTES)
			memset(boot_id, 0, BOOT_ID_BYTES);
		close(fd);
	}
}

// ---------------------------------------------------------------- reading

static bool is_sound(const struct image *entry, const struct image *source)
{
	const struct image_section *section = image_find_section(entry, STAMP_SECTION);
	struct bytes b;
	struct stamp stamp;
	char boot_id[BOOT_ID_BYTES];
	if (!build_id_equal(&entry->build_id, &source->build_id) || section == NULL || !image_section_raw(entry, section, &b) ||
	    bytes_left(&b) != sizeof(stamp))
		return false;
	memcpy(&stamp, b.at, sizeof(stamp));
	if (stamp.version != 1 || stamp.source_size != source->size || stamp.size != section->offset - sizeof(Elf64_Ehdr))
		return false;
	// Bytes are lost when a host goes down before they reached its disk; since it started, what was renamed into place is whole.
	read_boot_id(boot_id);
	return (boot_id[0] != '\0' && memcmp(boot_id, stamp.boot_id, BOOT_ID_BYTES) == 0) ||
		hash_bytes_fixed(entry->data + sizeof(Elf64_Ehdr), stamp.size) == stamp.checksum;
}

static struct image *read_entry(int directory, const char *name, const struct image *source)
{
	struct stat st;
	struct image *image = NULL;
	int fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	if (fstat(fd, &st) == 0 && st.st_uid == geteuid() && !(st.st_mode & 022) && image_open_fd(&image, fd, source->path, NULL) &&
	    !is_sound(image, source)) {
		image_release(image);
		image = NULL;
	}
	close(fd);
	return image;
}

// ---------------------------------------------------------------- writing

struct writing {
	struct buf out;
	Elf64_Shdr headers[SECTIONS_LIMIT];
	size_t count;
	struct buf names;
};

static void add_section(struct writing *w, const char *name, uint32_t type, const void *bytes, size_t size)
{
	buf_align(&w->out, 8);
	w->headers[w->count++] = (Elf64_Shdr){
		.sh_name = (uint32_t)w->names.size, .sh_type = type, .sh_offset = w->out.size, .sh_size = size, .sh_addralign = 4,
	};
	buf_add(&w->names, name, strlen(name) + 1);
	buf_add(&w->out, bytes, size);
}

static void add_build_id(struct writing *w, const struct build_id *id)
{
	struct buf note = { 0 };
	buf_u32(&note, 4);
	buf_u32(&note, id->size);
	buf_u32(&note, NT_GNU_BUILD_ID);
	buf_add(&note, "GNU", 4);
	buf_add(&note, id->bytes, id->size);
	buf_align(&note, 4);
	add_section(w, ".note.gnu.build-id", SHT_NOTE, note.data, note.size);
	buf_release(&note);
}

static const struct image_section *find(const struct image *image, const char *name)
{
	char old[40];
	const struct image_section *section = image_find_section(image, name);
	if (section != NULL)
		return section;
	snprintf(old, sizeof(old), ".z%s", name + 1);
	return image_find_section(image, old);
}

static bool write_all(int fd, const char *data, size_t size)
{
	while (size > 0) {
		ssize_t n = write(fd, data, size);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		data += n;
		size -= (size_t)n;
	}
	return true;
}

// The whole file; false when a section cannot be decompressed.
static bool compose(struct writing *w, const struct image *source)
{
	Elf64_Ehdr header = { .e_type = ET_DYN, .e_machine = source->machine, .e_version = EV_CURRENT,
	                      .e_ehsize = sizeof(header), .e_shentsize = sizeof(Elf64_Shdr) };
	memcpy(header.e_ident, ELFMAG, SELFMAG);
	header.e_ident[EI_CLASS] = ELFCLASS64;
	header.e_ident[EI_DATA] = source->data[EI_DATA];
	header.e_ident[EI_VERSION] = EV_CURRENT;
	buf_add(&w->out, &header, sizeof(header));
	buf_byte(&w->names, 0);
	w->count = 1; // the null section
	add_build_id(w, &source->build_id);
	for (size_t i = 0; i < KEPT; i++) {
		const struct image_section *section = find(source, kept[i]);
		struct buf storage = { 0 };
		struct bytes b;
		if (section == NULL || section->type == SHT_NOBITS)
			continue;
		bool good = image_section_contents(source, section, &storage, &b, NULL);
		if (good)
			add_section(w, kept[i], SHT_PROGBITS, b.at, bytes_left(&b));
		buf_release(&storage);
		if (!good)
			return false;
	}
	buf_align(&w->out, 8);
	struct stamp stamp = { .version = 1, .source_size = source->size, .size = w->out.size - sizeof(header) };
	read_boot_id(stamp.boot_id);
	stamp.checksum = hash_bytes_fixed(w->out.data + sizeof(header), stamp.size);
	add_section(w, STAMP_SECTION, SHT_PROGBITS, &stamp, sizeof(stamp));
	size_t names_at = w->names.size; // the name of the names' own section goes in first
	buf_add(&w->names, ".shstrtab", 10);
	add_section(w, "", SHT_STRTAB, w->names.data, w->names.size);
	w->headers[w->count - 1].sh_name = (uint32_t)names_at;
	buf_align(&w->out, 8);
	header.e_shoff = w->out.size;
	header.e_shnum = (uint16_t)w->count;
	header.e_shstrndx = (uint16_t)(w->count - 1);
	buf_add(&w->out, w->headers, w->count * sizeof(w->headers[0]));
	memcpy(w->out.data, &header, sizeof(header));
	return true;
}

// Removes the entries not written for the longest time until there is room.
static void make_room(int directory, size_t size)
{
	for (int removed = 0; removed < 1000; removed++) {
		int copy = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		DIR *dir = copy >= 0 ? fdopendir(copy) : NULL;
		if (dir == NULL) {
			if (copy >= 0)
				close(copy);
			return;
		}
		uint64_t total = size;
		char oldest[256] = "";
		time_t oldest_at = 0;
		struct stat st;
		for (struct dirent *d; (d = readdir(dir)) != NULL;) {
			if (fstatat(directory, d->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode))
				continue;
			total += (uint64_t)st.st_size;
			if (oldest[0] == '\0' || st.st_mtime < oldest_at) {
				snprintf(oldest, sizeof(oldest), "%s", d->d_name);
				oldest_at = st.st_mtime;
			}
		}
		closedir(dir);
		if (total <= TOTAL_BYTES || oldest[0] == '\0' || unlinkat(directory, oldest, 0) != 0)
			return;
	}
}

static void write_entry(int directory, const char *name, const struct image *source)
{
	struct writing w = { 0 };
	if (compose(&w, source)) {
		char temporary[128];
		snprintf(temporary, sizeof(temporary), ".%s.%d", name, (int)getpid());
		make_room(directory, w.out.size);
		(void)unlinkat(directory, temporary, 0); // of a process of this number that was killed
		int fd = openat(directory, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (fd >= 0) {
			bool good = write_all(fd, w.out.data, w.out.size);
			good = close(fd) == 0 && good && renameat(directory, temporary, directory, name) == 0;
			if (!good)
				(void)unlinkat(directory, temporary, 0);
		}
	}
	buf_release(&w.out);
	buf_release(&w.names);
}

// Whether anything is compressed, and of a size that is worth it.
static bool is_worth_it(const struct image *image)
{
	uint64_t plain = 0, compressed = 0;
	for (size_t i = 0; i < KEPT; i++) {
		const struct image_section *section = find(image, kept[i]);
		if (section != NULL && section->type != SHT_NOBITS)
			*((section->flags & SHF_COMPRESSED) || section->name[1] == 'z' ? &compressed : &plain) += section->size;
	}
	// DWARF compresses to a third or a fourth.
	return compressed > plain && compressed * 3 >= LEAST_BYTES && compressed * 3 <= MOST_BYTES;
}

struct image *section_cache_open(const struct image *image)
{
	if (image->build_id.size == 0 || !image->is_64 || image->swap || !is_worth_it(image))
		return NULL;
	int directory = open_directory();
	if (directory < 0)
		return NULL;
	char name[2 * sizeof(image->build_id.bytes) + 1];
	build_id_hex(&image->build_id, name);
	struct image *entry = read_entry(directory, name, image);
	if (entry == NULL) {
		write_entry(directory, name, image);
		entry = read_entry(directory, name, image);
	}
	close(directory);
	return entry;
}
