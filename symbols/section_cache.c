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

#include "base/blake2b.h"
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

enum { STAMP_VERSION = 2 };

struct stamp {
	char boot_id[BOOT_ID_BYTES];
	uint32_t version;
	uint8_t key[BLAKE2B_BYTES];
	uint64_t size, checksum; // of what stands between the ELF header and the stamp
};

// ---------------------------------------------------------------- whose sections
// What an entry depends on, and all of it.
static void begin_key(struct blake2b *hash, const struct image *image)
{
	const uint8_t words[] = { STAMP_VERSION, image->data[EI_CLASS], image->data[EI_DATA], (uint8_t)image->machine, (uint8_t)(image->machine >> 8), image->build_id.size };
	blake2b_init(hash);
	blake2b_add(hash, words, sizeof(words));
	blake2b_add(hash, image->build_id.bytes, image->build_id.size);
}

static void add_to_key(struct blake2b *hash, const struct image_section *section, const void *bytes, uint64_t size)
{
	const uint64_t words[] = { section->flags, strlen(section->name), size };
	blake2b_add(hash, words, sizeof(words));
	blake2b_add(hash, section->name, strlen(section->name));
	blake2b_add(hash, bytes, size);
}

enum { ENTRY_NAME_BYTES = 2 * BLAKE2B_BYTES + 1 };

static void entry_name(const uint8_t key[BLAKE2B_BYTES], char name[ENTRY_NAME_BYTES])
{
	for (size_t i = 0; i < BLAKE2B_BYTES; i++)
		snprintf(name + 2 * i, 3, "%02x", key[i]);
}

// ---------------------------------------------------------------- where

static void remove_all(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	if (dir == NULL) {
		if (fd >= 0)
			close(fd);
		return;
	}
	for (struct dirent *d; (d = readdir(dir)) != NULL;)
		(void)unlinkat(fd, d->d_name, 0);
	closedir(dir);
	(void)rmdir(path);
}

// Makes the directory and its parents below the cache home; an fd of it when it is ours alone, else -1.
static int open_directory(void)
{
	const char *home = getenv("HOME"), *xdg = getenv("XDG_CACHE_HOME");
	char *base = xdg != NULL && xdg[0] == '/' ? mem_string(xdg) : home != NULL && home[0] == '/' ? mem_printf("%s/.cache", home) : NULL;
	if (base == NULL)
		return -1;
	int fd = -1;
	struct stat st;
	char *middle = mem_printf("%s/perfsample", base), *path = mem_printf("%s/sections-2", middle), *before = mem_printf("%s/sections-1", middle);
	(void)mkdir(base, 0700);
	(void)mkdir(middle, 0700);
	bool is_new = mkdir(path, 0700) == 0;
	if (is_new)
		remove_all(before); // whose entries went by the build ID, which anybody can give a file
	if (is_new || errno == EEXIST)
		fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0 && (fstat(fd, &st) != 0 || st.st_uid != geteuid() || (st.st_mode & 022))) {
		close(fd);
		fd = -1;
	}
	free(before);
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

static bool is_sound(const struct image *entry, const struct image *source, const uint8_t key[BLAKE2B_BYTES])
{
	const struct image_section *section = image_find_section(entry, STAMP_SECTION);
	struct bytes b;
	struct stamp stamp;
	char boot_id[BOOT_ID_BYTES];
	if (!build_id_equal(&entry->build_id, &source->build_id) || section == NULL || !image_section_raw(entry, section, &b) ||
	    bytes_left(&b) != sizeof(stamp))
		return false;
	memcpy(&stamp, b.at, sizeof(stamp));
	if (stamp.version != STAMP_VERSION || memcmp(stamp.key, key, BLAKE2B_BYTES) != 0 || stamp.size != section->offset - sizeof(Elf64_Ehdr))
		return false;
	// Bytes are lost when a host goes down before they reached its disk; since it started, what was renamed into place is whole.
	read_boot_id(boot_id);
	return (boot_id[0] != '\0' && memcmp(boot_id, stamp.boot_id, BOOT_ID_BYTES) == 0) ||
		hash_bytes_fixed(entry->data + sizeof(Elf64_Ehdr), stamp.size) == stamp.checksum;
}

static struct image *read_entry(int directory, const char *name, const struct image *source, const uint8_t key[BLAKE2B_BYTES])
{
	struct stat st;
	struct image *image = NULL;
	int fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	if (fstat(fd, &st) == 0 && st.st_uid == geteuid() && !(st.st_mode & 022) && image_open_fd(&image, fd, source->path, NULL) &&
	    !is_sound(image, source, key)) {
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

// A section is copied, and then hashed and decompressed: the file may be another's to change, and what comes out has to be of what the key is of.
static bool add_kept(struct writing *w, const struct image *source, const struct image_section *section, const char *name, struct blake2b *hash)
{
	struct bytes raw, b;
	struct buf storage = { 0 };
	if (!image_section_raw(source, section, &raw))
		return false;
	uint8_t *copied = mem_copy(raw.at, bytes_left(&raw));
	struct image alone = *source;
	struct image_section of = *section;
	alone.data = copied;
	alone.size = bytes_left(&raw);
	of.offset = 0;
	add_to_key(hash, section, copied, alone.size);
	bool good = image_section_contents(&alone, &of, &storage, &b, NULL);
	if (good)
		add_section(w, name, SHT_PROGBITS, b.at, bytes_left(&b));
	buf_release(&storage);
	free(copied);
	return good;
}

// The whole file, and the key it was made under; false when a section cannot be decompressed.
static bool compose(struct writing *w, const struct image *source, uint8_t key[BLAKE2B_BYTES])
{
	struct blake2b hash;
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
	begin_key(&hash, source);
	for (size_t i = 0; i < KEPT; i++) {
		const struct image_section *section = find(source, kept[i]);
		if (section != NULL && section->type != SHT_NOBITS && !add_kept(w, source, section, kept[i], &hash))
			return false;
	}
	blake2b_end(&hash, key);
	buf_align(&w->out, 8);
	struct stamp stamp = { .version = STAMP_VERSION, .size = w->out.size - sizeof(header) };
	memcpy(stamp.key, key, BLAKE2B_BYTES);
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

static void write_entry(int directory, const struct image *source)
{
	struct writing w = { 0 };
	uint8_t key[BLAKE2B_BYTES];
	if (compose(&w, source, key)) {
		char name[ENTRY_NAME_BYTES], temporary[ENTRY_NAME_BYTES + 16];
		entry_name(key, name);
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

static void key_of(const struct image *image, uint8_t key[BLAKE2B_BYTES])
{
	struct blake2b hash;
	begin_key(&hash, image);
	for (size_t i = 0; i < KEPT; i++) {
		const struct image_section *section = find(image, kept[i]);
		struct bytes raw;
		if (section != NULL && section->type != SHT_NOBITS && image_section_raw(image, section, &raw))
			add_to_key(&hash, section, raw.at, bytes_left(&raw));
	}
	blake2b_end(&hash, key);
}

struct image *section_cache_open(const struct image *image)
{
	if (image->build_id.size == 0 || !image->is_64 || image->swap || !is_worth_it(image))
		return NULL;
	int directory = open_directory();
	if (directory < 0)
		return NULL;
	uint8_t key[BLAKE2B_BYTES];
	char name[ENTRY_NAME_BYTES];
	key_of(image, key);
	entry_name(key, name);
	struct image *entry = read_entry(directory, name, image, key);
	if (entry == NULL) {
		write_entry(directory, image);
		entry = read_entry(directory, name, image, key);
	}
	close(directory);
	return entry;
}
