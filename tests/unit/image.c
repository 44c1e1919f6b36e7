#include "elf/image.h"

#include <elf.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "base/mem.h"
#include "elf/container.h"
#include "tests/tap.h"

// ---------------------------------------------------------------- a file of our own, of either class and byte order

struct maker {
	struct buf buf;
	bool is_64, swap;
};

static void put(struct maker *m, uint64_t value, size_t size)
{
	uint8_t bytes[8];
	for (size_t i = 0; i < size; i++)
		bytes[m->swap ? size - 1 - i : i] = (uint8_t)(value >> (8 * i));
	buf_add(&m->buf, bytes, size);
}

static void put_word(struct maker *m, uint64_t value)
{
	put(m, value, m->is_64 ? 8 : 4);
}

static void put_program_header(struct maker *m, uint32_t type, uint32_t flags, uint64_t offset, uint64_t vaddr, uint64_t size, uint64_t mem)
{
	put(m, type, 4);
	if (m->is_64)
		put(m, flags, 4);
	put_word(m, offset);
	put_word(m, vaddr);
	put_word(m, vaddr);
	put_word(m, size);
	put_word(m, mem);
	if (!m->is_64)
		put(m, flags, 4);
	put_word(m, type == PT_NOTE ? 4 : 0x1000);
}

static void put_section(struct maker *m, uint32_t name, uint32_t type, uint64_t flags, uint64_t offset, uint64_t size)
{
	put(m, name, 4);
	put(m, type, 4);
	put_word(m, flags);
	put_word(m, 0);
	put_word(m, offset);
	put_word(m, size);
	put(m, 0, 4);
	put(m, 0, 4);
	put_word(m, 1);
	put_word(m, 0);
}

static const char names[] = "\0.shstrtab\0.debug_plain\0.debug_packed\0.zdebug_old";
enum { NAME_STRTAB = 1, NAME_PLAIN = 11, NAME_PACKED = 24, NAME_OLD = 38 };
enum { SHDR_AT = 0x400, PLAIN_AT = 0x300, PACKED_AT = 0x800, OLD_AT = 0xc00, NOTE_AT = 0x200, FILE_BYTES = 0x1100 };
static char contents[2000];

static void pad_to(struct maker *m, size_t offset)
{
	while (m->buf.size < offset)
		buf_byte(&m->buf, 0);
}

static size_t put_packed(struct maker *m, uint32_t type, uint64_t claimed)
{
	size_t before = m->buf.size;
	uint8_t packed[1500];
	put(m, type, 4);
	if (m->is_64)
		put(m, 0, 4);
	put_word(m, claimed);
	put_word(m, 1);
	uLongf size = sizeof(packed);
	if (type == 1)
		compress(packed, &size, (const Bytef *)contents, sizeof(contents));
	else
		size = ZSTD_compress(packed, sizeof(packed), contents, sizeof(contents), 3);
	buf_add(&m->buf, packed, size);
	return m->buf.size - before;
}

static struct buf make_file(bool is_64, bool swap, uint32_t type, uint64_t claimed)
{
	struct maker made = { .is_64 = is_64, .swap = swap }, *m = &made;
	size_t phdr = is_64 ? 64 : 52;

	for (size_t i = 0; i < sizeof(contents); i++)
		contents[i] = (char)(i * i % 61);
	buf_add(&m->buf, "\177ELF", 4);
	put(m, is_64 ? 2 : 1, 1);
	put(m, swap ? 2 : 1, 1);
	put(m, 1, 1);
	pad_to(m, 16);
	put(m, ET_DYN, 2);
	put(m, is_64 ? EM_AARCH64 : EM_386, 2);
	put(m, 1, 4);
	put_word(m, 0x2234);
	put_word(m, phdr);
	put_word(m, SHDR_AT);
	put(m, 0, 4);
	put(m, phdr, 2);
	put(m, is_64 ? 56 : 32, 2);
	put(m, 4, 2);
	put(m, is_64 ? 64 : 40, 2);
	put(m, 5, 2);
	put(m, 1, 2);
	put_program_header(m, PT_LOAD, PF_R, 0, 0, 0x600, 0x600);
	put_program_header(m, PT_LOAD, PF_R | PF_X, 0x600, 0x1600, 0xa00, 0xa00);
	put_program_header(m, PT_LOAD, PF_R | PF_W, 0x1000, 0x4000, 0x100, 0x900);
	put_program_header(m, PT_NOTE, PF_R, NOTE_AT, NOTE_AT, 0x38, 0x38);
	pad_to(m, NOTE_AT);
	put(m, 4, 4), put(m, 4, 4), put(m, 9, 4); // another note first
	buf_add(&m->buf, "XYZ\0abcd", 8);
	put(m, 4, 4), put(m, 20, 4), put(m, 3, 4);
	buf_add(&m->buf, "GNU\0" "0123456789abcdefghij", 24);
	pad_to(m, PLAIN_AT);
	buf_add(&m->buf, names, sizeof(names));
	pad_to(m, PACKED_AT);
	size_t packed = put_packed(m, type, claimed);
	pad_to(m, OLD_AT);
	buf_add(&m->buf, "ZLIB\0\0\0\0\0\0\x07\xd0", 12);
	uint8_t old[1500];
	uLongf old_size = sizeof(old);
	compress(old, &old_size, (const Bytef *)contents, sizeof(contents));
	buf_add(&m->buf, old, old_size);
	pad_to(m, FILE_BYTES);
	size_t end = m->buf.size;
	m->buf.size = SHDR_AT; // the section table goes into the hole
	put_section(m, 0, 0, 0, 0, 0);
	put_section(m, NAME_STRTAB, SHT_STRTAB, 0, PLAIN_AT, sizeof(names));
	put_section(m, NAME_PLAIN, SHT_PROGBITS, 0, NOTE_AT, 0x38);
	put_section(m, NAME_PACKED, SHT_PROGBITS, SHF_COMPRESSED, PACKED_AT, packed);
	put_section(m, NAME_OLD, SHT_PROGBITS, 0, OLD_AT, 12 + old_size);
	m->buf.size = end;
	return m->buf;
}

static struct image *open_bytes(struct buf *file, bool from_memory)
{
	struct image *image;
	struct err err = { 0 };
	if (!image_open_bytes(&image, file->data, file->size, from_memory, "made", &err))
		diag("%s", err.text);
	return image;
}

static bool is_contents(struct image *image, const char *name)
{
	struct buf storage = { 0 };
	struct bytes out = { 0 };
	struct err err = { 0 };
	const struct image_section *section = image_find_section(image, name);
	bool good = section != NULL && image_section_contents(image, section, &storage, &out, &err) &&
	            bytes_left(&out) == sizeof(contents) && memcmp(out.at, contents, sizeof(contents)) == 0;
	if (!good)
		diag("%s: %s", name, err.text);
	buf_release(&storage);
	return good;
}

static void test_classes(void)
{
	for (int variant = 0; variant < 8; variant++) {
		bool is_64 = variant & 1, swap = variant & 2;
		struct buf file = make_file(is_64, swap, variant & 4 ? 2 : 1, sizeof(contents));
		struct image *image = open_bytes(&file, false);
		char hex[65];
		ok(image != NULL && image->is_64 == is_64 && image->swap == swap, "class %d, order %d is opened", is_64, swap);
		if (image == NULL)
			continue;
		is_u64(image->machine, is_64 ? EM_AARCH64 : EM_386, "machine");
		is_u64(image->entry, 0x2234, "entry");
		is_u64(image->segment_count, 3, "segments");
		is_u64(image->segments[2].mem_size, 0x900, "memory size of the third");
		is_u64(image->segments[1].flags, PF_R | PF_X, "flags of the second");
		is_str(build_id_hex(&image->build_id, hex), "303132333435363738396162636465666768696a", "build ID behind another note");
		ok(is_contents(image, ".debug_packed"), "%s section", variant & 4 ? "zstd" : "zlib");
		ok(is_contents(image, ".zdebug_old") && is_contents(image, ".debug_old"), ".zdebug_ section, by either name");
		ok(image_find_section(image, ".debug_none") == NULL, "no such section");
		image_release(image);
		buf_release(&file);
	}
}

static void test_addresses(void)
{
	struct buf file = make_file(true, false, 1, sizeof(contents));
	struct image *image = open_bytes(&file, false);
	uint64_t out = 0;
	struct bytes bytes;

	ok(image_offset_to_vaddr(image, 0x700, &out) && out == 0x1700, "offset in the executable segment");
	ok(image_vaddr_to_offset(image, 0x1700, &out) && out == 0x700, "and back");
	ok(!image_vaddr_to_offset(image, 0x4100, &out), "bss is not in the file");
	ok(!image_offset_to_vaddr(image, 0x10f0f, &out), "no segment there");
	ok(image_at_vaddr(image, NOTE_AT, 4, &bytes) && bytes_u32(&bytes) == 4, "bytes at a vaddr");
	ok(!image_at_vaddr(image, 0x40f8, 16, &bytes), "half in the file is not in the file");
	ok(!image_at_vaddr(image, UINT64_MAX - 4, 8, &bytes), "the end of the address space");
	ok(image_bias(image, 0x7f0000000000, 0x7f0000001000, 0, &out) && out == 0x7f0000000000 - 0x1000,
	   "two segments share the page: the executable one tells the bias");
	ok(image_bias(image, 0x7f0000004000, 0x7f0000005000, 0x1000, &out) && out == 0x7f0000000000, "data segment, moved by 0x3000");
	ok(!image_bias(image, 0x7f0000004000, 0x7f0000005000, 0x200000, &out), "no segment fits");
	ok(!image_bias(image, 0x5000, 0x4000, 0, &out), "an empty mapping fits nowhere");
	struct image *again = image_retain(image);
	image_release(again);
	is_u64(image->size, FILE_BYTES, "still there after one of two releases");
	image_release(image);
	buf_release(&file);
}

static void expect_error(struct buf *file, const char *wanted)
{
	struct image *image;
	struct err err = { 0 };
	bool opened = image_open_bytes(&image, file->data, file->size, false, "made", &err);
	ok(!opened && image == NULL && err.status == STATUS_INPUT && strstr(err.text, wanted) != NULL, "refused: %s", err.text);
	image_release(image);
}

static void test_broken(void)
{
	struct buf file = make_file(true, false, 1, sizeof(contents));
	struct buf cut = file;
	char hex[65];

	cut.size = 3;
	expect_error(&cut, "not an ELF file");
	cut.size = 40;
	expect_error(&cut, "expected an ELF header of 64");
	file.data[4] = 9;
	expect_error(&file, "ELF class 9");
	file.data[4] = 2;
	file.data[5] = 0;
	expect_error(&file, "byte order 0");
	file.data[5] = 1;
	uint64_t far = 0xfffffffffffffff0;
	memcpy(file.data + 32, &far, 8);
	expect_error(&file, "program headers");
	far = 64;
	memcpy(file.data + 32, &far, 8);

	far = 0xfffffffffffffff0;
	memcpy(file.data + 40, &far, 8);
	struct image *image = open_bytes(&file, false);
	ok(image != NULL && image->section_count == 0 && image->segment_count == 3, "a section table out of the file counts as none");
	is_str(build_id_hex(&image->build_id, hex), "303132333435363738396162636465666768696a", "the program headers are good still");
	image_release(image);
	buf_release(&file);

	for (int i = 0; i < 4; i++) {
		static const struct { uint32_t type; uint64_t claimed; const char *wanted; } bad[] = {
			{ 1, 2001, "2000 bytes came out" }, { 1, 1999, NULL }, { 2, 5, "zstd" }, { 1, 1ull << 29, "expected at most" },
		};
		file = make_file(true, false, bad[i].type, bad[i].claimed);
		image = open_bytes(&file, false);
		struct buf storage = { 0 };
		struct bytes out;
		struct err err = { 0 };
		const struct image_section *section = image_find_section(image, ".debug_packed");
		bool good = image_section_contents(image, section, &storage, &out, &err);
		ok(bad[i].wanted == NULL ? good : !good && strstr(err.text, bad[i].wanted) != NULL, "claimed size %llu: %s",
		   (unsigned long long)bad[i].claimed, err.text);
		buf_release(&storage);
		image_release(image);
		buf_release(&file);
	}
}

// Every file of ours cut at every length, and with every byte of its headers changed, must open or be refused.
static void test_mutations(void)
{
	struct buf file = make_file(true, false, 1, sizeof(contents));
	unsigned opened = 0, refused = 0;

	for (size_t at = 0; at < FILE_BYTES; at += at < SHDR_AT + 0x140 ? 1 : 64) {
		for (int way = 0; way < 3; way++) {
			struct buf copy = { 0 };
			buf_add(&copy, file.data, way == 0 ? at : file.size);
			if (way > 0)
				copy.data[at] = way == 1 ? (char)0xff : (char)(copy.data[at] ^ 0x81);
			struct image *image;
			if (image_open_bytes(&image, copy.data, copy.size, at % 2, "mutated", NULL)) {
				opened++;
				for (size_t i = 0; i < image->section_count; i++) {
					struct buf storage = { 0 };
					struct bytes out;
					image_section_contents(image, &image->sections[i], &storage, &out, NULL);
					buf_release(&storage);
				}
			} else {
				refused++;
			}
			image_release(image);
			buf_release(&copy);
		}
	}
	ok(opened > 500 && refused > 100, "%u mutated files opened, %u refused", opened, refused);
	buf_release(&file);
}

// ---------------------------------------------------------------- mappings whose file shrinks

// Did a child end as SIGBUS makes it end? Under a sanitizer that is the sanitizer's report.
static bool died_of_bus(pid_t child)
{
	int status = 0;

	waitpid(child, &status, 0);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
#else
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS;
#endif
}

static volatile char sum;

static void test_cut_short(void)
{
	char path[] = "/tmp/perfsample-image-XXXXXX";
	int fd = mkstemp(path);
	struct buf file = make_file(true, false, 1, sizeof(contents));
	struct image *image;
	struct err err = { 0 };

	unlink(path);
	buf_reserve(&file, 0x10000);
	memset(file.data + file.size, 0x55, 0x10000);
	file.size += 0x10000;
	ok(write(fd, file.data, file.size) == (ssize_t)file.size && image_open_fd(&image, fd, "short", &err), "opened: %s", err.text);
	is_u64(image->data[0x8000], 0x55, "a byte of the file");
	ok(ftruncate(fd, 0x1000) == 0, "the file is cut to one page");
	is_u64(image->data[0x9000], 0, "a page past its end reads as zeros");
	is_u64(image->data[1], 'E', "the page that is left is untouched");
	image_release(image);

	pid_t child = fork();
	if (child == 0) { // a SIGBUS that is none of ours still kills
		close(STDERR_FILENO);
		char *other = mmap(NULL, 0x2000, PROT_READ, MAP_PRIVATE, fd, 0);
		sum = other[0x1800];
		_exit(0);
	}
	ok(died_of_bus(child), "another mapping's SIGBUS ends the process as ever");
	child = fork();
	if (child == 0) {
		close(STDERR_FILENO);
		raise(SIGBUS);
		_exit(0);
	}
	ok(died_of_bus(child), "so does a SIGBUS that was sent");
	close(fd);
	buf_release(&file);
}

static void test_many(void)
{
	enum { COUNT = 600 };
	static struct image *images[COUNT];
	char path[64];
	snprintf(path, sizeof(path), "/proc/self/exe");
	unsigned opened = 0;
	for (int i = 0; i < COUNT; i++)
		opened += image_open_path(&images[i], path, NULL);
	is_u64(opened, COUNT, "more mappings than one block of the registry holds");
	for (int i = 0; i < COUNT; i++)
		image_release(images[i]);
	struct err err = { 0 };
	struct image *image;
	ok(!image_open_path(&image, "/dev/null", &err) && strstr(err.text, "regular") != NULL, "a device is refused: %s", err.text);
	ok(!image_open_path(&image, "/nonexistent", &err) && image == NULL, "no such file: %s", err.text);
}

static void test_build_id(void)
{
	struct build_id a, b;
	char hex[65];

	ok(build_id_parse(&a, "00ff7Fab") && a.size == 4, "parse");
	is_str(build_id_hex(&a, hex), "00ff7fab", "and print");
	ok(build_id_parse(&b, "00FF7FAB") && build_id_equal(&a, &b), "equal");
	ok(!build_id_parse(&b, "123") && !build_id_parse(&b, "") && !build_id_parse(&b, "zz"), "odd, empty, not hex: refused");
	ok(!build_id_equal(&b, &b), "none equals nothing");
}

static void test_vdso(void)
{
	const void *vdso = (const void *)getauxval(AT_SYSINFO_EHDR);
	struct image *image;
	struct err err = { 0 };
	if (vdso == NULL) {
		skip("no vdso", "the vdso");
		return;
	}
	ok(image_open_bytes(&image, vdso, 0x1000, true, "[vdso]", &err), "the vdso of this process opens: %s", err.text);
	ok(image != NULL && image->eh_frame_hdr_size > 0 && image->segment_count > 0, "it has CFI");
	image_release(image);
}

// ---------------------------------------------------------------- the corpus

static struct image *open_corpus(const char *relative)
{
	const char *path = corpus_file(relative);
	struct image *image = NULL;
	struct err err = { 0 };
	if (path != NULL && !image_open_path(&image, path, &err))
		diag("%s", err.text);
	return image;
}

static void test_corpus(void)
{
	static const struct { const char *name, *build_id; size_t segments; bool has_sections; } wanted[] = {
		{ "testfile52-64.so", "b698deac1c81ea8279bbea1b08729649346a93af", 2, true },
		{ "testfile52-64.noshdrs.so", "b698deac1c81ea8279bbea1b08729649346a93af", 2, false },
		{ "testfilebazmdb", "ce0e41f162cbf84ae91267c5a902c6963bfd34be", 2, true },
		{ "x86-32-binary", "c04ed5ab9bdf0b9104355c054bf3176f442fecfd", 2, true },
		{ "x86-32-no-sections", "", 2, false },
		{ "corrupt_sh.elf", "", 2, false },
	};
	if (corpus_file("corpus/elf/testfile52-64.so") == NULL) {
		skip("no corpus (PERFSAMPLE_CORPUS)", "ELF files made by others");
		return;
	}
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		char path[256], hex[65];
		snprintf(path, sizeof(path), "corpus/elf/%s", wanted[i].name);
		struct image *image = open_corpus(path);
		ok(image != NULL, "%s opens", wanted[i].name);
		if (image == NULL)
			continue;
		is_str(build_id_hex(&image->build_id, hex), wanted[i].build_id, "build ID");
		is_u64(image->segment_count, wanted[i].segments, "segments");
		ok((image->section_count > 0) == wanted[i].has_sections, "sections: %zu", image->section_count);
		image_release(image);
	}
	static const struct { const char *file; const char *section; uint64_t size; } packed[] = {
		{ "testfile-zgabi64", ".debug_info", 0 }, { "testfile-zgabi32", ".debug_line", 0 },
		{ "testfile-zgnu64", ".debug_info", 0 }, { "testfile-hello5.dwo", ".debug_str.dwo", 0 },
	};
	for (size_t i = 0; i < sizeof(packed) / sizeof(packed[0]); i++) {
		char path[256];
		snprintf(path, sizeof(path), "corpus/elf/%s", packed[i].file);
		struct image *image = open_corpus(path);
		struct buf storage = { 0 };
		struct bytes out = { 0 };
		struct err err = { 0 };
		const struct image_section *section = image != NULL ? image_find_section(image, packed[i].section) : NULL;
		ok(section != NULL && image_section_contents(image, section, &storage, &out, &err) && bytes_left(&out) > section->size,
		   "%s %s unpacks to %zu bytes%s", packed[i].file, packed[i].section, bytes_left(&out), err.text);
		buf_release(&storage);
		image_release(image);
	}
	static const char *const broken[] = { "compressed_bad_size.o", "compressed_unknown_type.o" };
	for (size_t i = 0; i < 2; i++) {
		char path[256];
		unsigned failed = 0;
		snprintf(path, sizeof(path), "corpus/elf/%s", broken[i]);
		struct image *image = open_corpus(path);
		for (size_t s = 1; image != NULL && s < image->section_count; s++) {
			struct buf storage = { 0 };
			struct bytes out;
			if (image->sections[s].type != SHT_NOBITS)
				failed += !image_section_contents(image, &image->sections[s], &storage, &out, NULL);
			buf_release(&storage);
		}
		ok(failed > 0, "%s: %u sections refused", broken[i], failed);
		image_release(image);
	}
}

// ---------------------------------------------------------------- inside archives

static void put_entry(struct buf *zip, struct buf *directory, const char *name, unsigned method, const struct buf *data)
{
	struct maker local = { .is_64 = true }, central = { .is_64 = true };
	size_t length = strlen(name);

	put(&local, 0x04034b50, 4);
	put(&local, 0, 4);
	put(&local, method, 2);
	put(&local, 0, 8);
	put(&local, data->size, 4);
	put(&local, data->size, 4);
	put(&local, length, 2);
	put(&local, 6, 2); // its extra field is longer than the directory's
	put(&central, 0x02014b50, 4);
	put(&central, 0, 6);
	put(&central, method, 2);
	put(&central, 0, 8);
	put(&central, data->size, 4);
	put(&central, data->size, 4);
	put(&central, length, 2);
	put(&central, 0, 8);
	put(&central, 0, 4);
	put(&central, zip->size, 4);
	buf_add(&central.buf, name, length);
	buf_add(directory, central.buf.data, central.buf.size);
	buf_add(zip, local.buf.data, local.buf.size);
	buf_add(zip, name, length);
	buf_add(zip, "\1\1\2\0\0\0", 6);
	buf_add(zip, data->data, data->size);
	buf_release(&local.buf);
	buf_release(&central.buf);
}

static void put_end(struct buf *zip, const struct buf *directory)
{
	struct maker end = { .is_64 = true };
	size_t start = zip->size;

	put(&end, 0x06054b50, 4);
	put(&end, 0, 8);
	put(&end, directory->size, 4);
	put(&end, start, 4);
	put(&end, 7, 2);
	buf_add(zip, directory->data, directory->size);
	buf_add(zip, end.buf.data, end.buf.size);
	buf_add(zip, "comment", 7);
	buf_release(&end.buf);
}

static uint64_t start_at(int fd, uint64_t offset)
{
	struct image *image;
	struct err err = { 0 };

	if (!image_open_fd_at(&image, fd, offset, "zip", &err))
		return UINT64_MAX;
	uint64_t start = image->file_start;
	image_release(image);
	return start;
}

// How a name is answered: the build ID's first byte; 0: not at all.
static unsigned named(const char *archive, const char *entry, struct err *err)
{
	char *path = mem_printf("%s%s", archive, entry);
	struct image *image;
	unsigned found = image_open_path(&image, path, err) ? image->build_id.bytes[0] : 0;

	image_release(image);
	free(path);
	return found;
}

static void test_archive(void)
{
	struct buf zip = { 0 }, directory = { 0 }, file = make_file(true, false, 1, sizeof(contents)), *elf = &file;
	char path[] = "/tmp/perfsample-image-XXXXXX";
	struct err err = { 0 };
	int fd = mkstemp(path);

	put_entry(&zip, &directory, "packed.so", 8, elf);
	put_entry(&zip, &directory, "lib/any/libx.so", 0, elf);
	uint64_t start = zip.size - elf->size;
	put_end(&zip, &directory);
	ok(write(fd, zip.data, zip.size) == (ssize_t)zip.size, "a zip archive");
	is_u64(start_at(fd, start), start, "an image inside, by its first byte");
	is_u64(start_at(fd, start + elf->size - 1), start, "and by its last");
	is_u64(start_at(fd, start + elf->size), UINT64_MAX, "behind it is none");
	is_u64(start_at(fd, 50), UINT64_MAX, "what is compressed is none");
	ok(named(path, "!/lib/any/libx.so", &err) != 0 && named(path, "!lib/any/libx.so", &err) != 0 && named(path, "!libx.so", &err) != 0, "by its names");
	ok(named(path, "!/packed.so", &err) == 0 && strstr(err.text, "no uncompressed entry packed.so") != NULL, "compressed: %s", err.text);
	ok(named("/nowhere.apk", "!/libx.so", &err) == 0 && strstr(err.text, "/nowhere.apk!/libx.so: No such file") != NULL, "no archive: %s", err.text);
	unsigned survived = 0;
	for (size_t at = 0; at < zip.size; at++) { // damaged in every byte: nothing outside of the archive
		struct container_entry entry;
		zip.data[at] ^= 0x81;
		survived += container_find_at(bytes_of(zip.data, zip.size), start, &entry) && entry.size <= zip.size - entry.start;
		zip.data[at] ^= 0x81;
	}
	ok(survived > elf->size, "damaged in every byte: found %u times", survived);
	close(fd);
	unlink(path);
	buf_release(&zip);
	buf_release(&directory);
	buf_release(elf);
}

int main(void)
{
	test_archive();
	test_build_id();
	test_classes();
	test_addresses();
	test_broken();
	test_mutations();
	test_cut_short();
	test_many();
	test_vdso();
	test_corpus();
	return tap_done();
}
