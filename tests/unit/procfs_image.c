// Opening what a process has mapped: every way there is, the wrong file refused, deleted files from memory, the vdso.
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proc/procfs.h"
#include "proc/procfs_memory.h"
#include "proc/procfs_read.h"
#include "tests/scratch.h"

struct seen { uint64_t start, end, pgoff; struct dso dso; char path[512]; bool found; };

// The executable mapping whose path begins with `prefix`, as a record would tell it.
static struct seen *mapping_of(pid_t pid, const char *prefix)
{
	static struct seen seen;
	struct proc_lines lines;
	struct proc_mapping m;
	char path[64], *line;
	size_t length;

	memset(&seen, 0, sizeof(seen));
	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	if (!proc_lines_open(&lines, path))
		return &seen;
	while (!seen.found && (line = proc_lines_next(&lines, &length)) != NULL) {
		if (!proc_mapping_parse(line, &m) || (m.protection & PROT_EXEC) == 0 || strncmp(m.path, prefix, strlen(prefix)) != 0)
			continue;
		seen = (struct seen){ .start = m.start, .end = m.end, .pgoff = m.pgoff, .found = true };
		snprintf(seen.path, sizeof(seen.path), "%s", m.path);
		char *mark = strstr(seen.path, " (deleted)");
		seen.dso = (struct dso){ .path = seen.path, .kind = DSO_FILE, .major = m.major, .minor = m.minor, .inode = m.inode, .deleted = mark != NULL };
		if (mark != NULL)
			*mark = '\0';
	}
	proc_lines_close(&lines);
	return &seen;
}

static bool copy_file(const char *from, const char *to)
{
	char command[1300];
	snprintf(command, sizeof(command), "cp %s %s && chmod 755 %s", from, to, to);
	return system(command) == 0;
}

// A sleeping process that runs `program` with `preload` (or NULL) loaded.
static pid_t start(const char *program, const char *preload)
{
	pid_t pid = fork();
	if (pid == 0) {
		if (preload != NULL)
			setenv("LD_PRELOAD", preload, 1);
		unsetenv("ASAN_OPTIONS");
		execl(program, program, "100", (char *)NULL);
		_exit(127);
	}
	for (int i = 0; i < 60000 && !(mapping_of(pid, program)->found && (preload == NULL || mapping_of(pid, preload)->found)); i++)
		usleep(1000);
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static bool opens(pid_t pid, const struct seen *seen, struct image **image, struct err *err)
{
	return procfs_open_image(image, pid, &seen->dso, seen->start, seen->end, seen->pgoff, err);
}

static const char *some_library(void)
{
	static char path[512];
	struct proc_lines lines;
	struct proc_mapping m;
	char *line;
	size_t length;

	proc_lines_open(&lines, "/proc/self/maps");
	while ((line = proc_lines_next(&lines, &length)) != NULL)
		if (proc_mapping_parse(line, &m) && strstr(m.path, "/libz.so") != NULL)
			snprintf(path, sizeof(path), "%s", m.path);
	proc_lines_close(&lines);
	return path;
}

static void ordinary(void)
{
	struct err err = { 0 };
	struct image *image = NULL;
	struct seen seen = *mapping_of(getpid(), "/");
	seen.dso.path = seen.path;

	bool good = opens(getpid(), &seen, &image, &err);
	ok(good && image->machine != 0 && image->segment_count > 0, "our own program: %s %s", seen.path, err.text);
	struct build_id id = good ? image->build_id : (struct build_id){ 0 };
	image_release(image);

	seen.dso.inode = 0; // the kernel's records have a build ID instead of the inode, or nothing
	ok(opens(getpid(), &seen, &image, &err), "without any identity");
	image_release(image);
	seen.dso.build_id = id;
	ok(id.size > 0 && opens(getpid(), &seen, &image, &err), "by its build ID");
	image_release(image);
	seen.dso.build_id.bytes[0] ^= 1;
	ok(!opens(getpid(), &seen, &image, &err) && image == NULL && strstr(err.text, "build ID") != NULL, "another build ID: %s", err.text);
	seen.dso.build_id.size = 0;

	struct seen whole = *mapping_of(getpid(), "/");
	whole.dso.path = whole.path;
	whole.dso.inode ^= 1;
	ok(!opens(getpid(), &whole, &image, &err) && image == NULL, "another inode: %s", err.text);
	// btrfs and overlayfs: the device in maps is not that of stat. Contents decide.
	whole = *mapping_of(getpid(), "/");
	whole.dso.path = whole.path;
	whole.dso.major ^= 0x55;
	ok(opens(getpid(), &whole, &image, &err), "the inode of another device, same contents %s", err.text);
	image_release(image);
	whole.dso.path = "/etc/passwd";
	whole.dso.inode = 0;
	ok(opens(getpid(), &whole, &image, &err) || err.status != STATUS_OK, "a path that is no image");
	image_release(image);
	ok(!procfs_open_image(&image, getpid(), &whole.dso, 4096, 4096, 0, &err), "an empty mapping: %s", err.text);
}

// Code in a file that is no ELF image.
static void other_files(void)
{
	struct seen own = *mapping_of(getpid(), "/");
	own.dso.path = own.path;
	ok(!procfs_maps_other(getpid(), &own.dso, own.start, own.end), "our own program is an image");

	char name[sizeof(scratch) + 16];
	snprintf(name, sizeof(name), "%s/code.bin", scratch);
	int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
	bool is_written = write(fd, "core of something", 17) == 17;
	void *at = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	struct seen seen = *mapping_of(getpid(), name);
	seen.dso.path = seen.path;
	struct image *image = NULL;
	ok(is_written && seen.found && !opens(getpid(), &seen, &image, NULL), "a file that is none does not open");
	ok(procfs_maps_other(getpid(), &seen.dso, seen.start, seen.end), "and is told from one that is missing");
	ok(procfs_maps_other(getpid(), &seen.dso, 4096, 8192), "by its path, where the mapping is not there any more");
	seen.dso.inode ^= 1;
	ok(!procfs_maps_other(getpid(), &seen.dso, 4096, 8192), "if it is the same file");
	ok(ftruncate(fd, 2) == 0 && !procfs_maps_other(getpid(), &seen.dso, seen.start, seen.end), "of two bytes nothing is said");
	unlink(name);
	seen.dso.deleted = true;
	ok(!procfs_maps_other(getpid(), &seen.dso, 4096, 8192), "nor of one that is gone");
	munmap(at, 4096);
	close(fd);
}

// A library that is replaced under its name while a process runs with it: the old one is found, never the new one.
static void replaced(void)
{
	struct err err = { 0 };
	struct image *image = NULL;
	char program[256], library[256], other[300];
	struct stat st;

	snprintf(program, sizeof(program), "%s/sleep", scratch);
	snprintf(library, sizeof(library), "%s/libtest.so", scratch);
	if (!copy_file("/bin/sleep", program) || !copy_file(some_library(), library)) {
		skip("cp failed", "a replaced library");
		return;
	}
	pid_t pid = start(program, library);
	struct seen lib = *mapping_of(pid, library), exe = *mapping_of(pid, program);
	lib.dso.path = lib.path, exe.dso.path = exe.path;
	ok(lib.found && exe.found, "a process with a library of ours");
	bool good = opens(pid, &lib, &image, &err);
	ok(good, "its library %s", err.text);
	struct build_id id = good ? image->build_id : (struct build_id){ 0 };
	struct image *file = image;

	// From memory, while the file is still there to compare with.
	struct image *memory = NULL;
	good = procfs_image_from_memory(&memory, pid, &lib.dso, lib.start, &err);
	ok(good && build_id_equal(&memory->build_id, &id) && memory->machine == file->machine, "made again from memory: same build ID %s", err.text);
	uint64_t bias_file = 0, bias_memory = 1;
	ok(good && image_bias(file, lib.start, lib.end, lib.pgoff, &bias_file) && image_bias(memory, lib.start, lib.end, lib.pgoff, &bias_memory) &&
	   bias_file == bias_memory, "same load bias from the same mapping");
	const char *names[] = { ".eh_frame_hdr", ".eh_frame", ".dynsym", ".dynstr" };
	for (size_t i = 0; good && i < 4; i++) {
		const struct image_section *a = image_find_section(file, names[i]), *b = image_find_section(memory, names[i]);
		struct bytes x, y;
		bool same = a != NULL && b != NULL && a->vaddr == b->vaddr && a->offset == b->offset && image_section_raw(file, a, &x) &&
		            image_section_raw(memory, b, &y) && bytes_left(&y) >= bytes_left(&x) && memcmp(x.at, y.at, bytes_left(&x)) == 0 &&
		            (i == 1 || bytes_left(&x) == bytes_left(&y));
		ok(same, "%s from memory has the file's bytes (%llu)", names[i], (unsigned long long)(a != NULL ? a->size : 0));
	}
	image_release(memory);
	image_release(file);

	unlink(library);
	copy_file("/bin/true", library);
	struct seen now = *mapping_of(pid, library);
	now.dso.path = now.path;
	ok(now.dso.deleted && stat(library, &st) == 0 && st.st_ino != now.dso.inode, "the library is replaced by another file");
	ok(opens(pid, &now, &image, &err) && build_id_equal(&image->build_id, &id), "what is opened is the one that is mapped %s", err.text);
	image_release(image);
	// As an ordinary user's recorder has it: no map_files. The record's range is made to differ, so that it does not lead there.
	now.end -= 4096;
	ok(opens(pid, &now, &image, &err) && build_id_equal(&image->build_id, &id), "also without map_files: from memory %s", err.text);
	ok(image != NULL && image_find_section(image, ".eh_frame") != NULL && strcmp(image->path, library) == 0, "under its own name");
	image_release(image);
	now.dso.deleted = false;
	ok(opens(pid, &now, &image, &err) && build_id_equal(&image->build_id, &id), "and when the record was made before it was deleted %s", err.text);
	image_release(image);

	// The program itself.
	unlink(program);
	exe.end -= 4096;
	exe.dso.deleted = true;
	ok(opens(pid, &exe, &image, &err), "a deleted program through exe %s", err.text);
	image_release(image);

	// Another file of the same inode number and device cannot be made up; a FIFO under the name can.
	unlink(library);
	snprintf(other, sizeof(other), "%s", library);
	if (mkfifo(other, 0600) == 0) {
		alarm(120);
		good = opens(pid, &now, &image, &err);
		alarm(0);
		ok(good && build_id_equal(&image->build_id, &id), "a FIFO under its name does not stop us");
		image_release(image);
	}
	end(pid);
	ok(!opens(pid, &now, &image, &err) && image == NULL, "when the process has ended, too: nothing: %s", err.text);
	unlink(library);
}

// A short process: its file is still there for us, and identity says it is the same.
static void ended(void)
{
	struct err err = { 0 };
	struct image *image = NULL;
	char program[256];

	snprintf(program, sizeof(program), "%s/sleep", scratch);
	copy_file("/bin/sleep", program);
	pid_t pid = start(program, NULL);
	struct seen exe = *mapping_of(pid, program);
	exe.dso.path = exe.path;
	// Inode numbers are used again: the kernel's records have the generation, too.
	long generation = 0;
	int fd = open(program, O_RDONLY | O_CLOEXEC);
	bool has_generation = ioctl(fd, FS_IOC_GETVERSION, &generation) == 0;
	close(fd);
	exe.dso.inode_generation = (uint32_t)generation;
	end(pid);
	ok(opens(pid, &exe, &image, &err), "the file of a process that has ended %s", err.text);
	struct build_id id = image != NULL ? image->build_id : (struct build_id){ 0 };
	image_release(image);
	struct seen bare = exe;
	bare.dso.path = exe.path, bare.dso.inode = 0;
	ok(!opens(pid, &bare, &image, &err), "not without any identity: %s", err.text);
	bare.dso.build_id = id;
	ok(opens(pid, &bare, &image, &err), "by its build ID");
	image_release(image);
	unlink(program);
	copy_file("/bin/true", program);
	struct stat again;
	if (!has_generation && stat(program, &again) == 0 && again.st_ino == exe.dso.inode)
		skip("the file system used the inode again and has no generations", "not when another file has its name");
	else
		ok(!opens(pid, &exe, &image, &err), "not when another file has its name: %s", err.text);
	ok(!opens(pid, &bare, &image, &err), "nor by its build ID: %s", err.text);
	exe.dso.inode_generation = 0;
	unlink(program);
	const char *garbage[] = { "", "x", "\177ELF", "\177ELF\2\1\1" };
	for (size_t i = 0; i < 4; i++) {
		FILE *f = fopen(program, "w");
		fputs(garbage[i], f);
		fclose(f);
		struct stat st;
		stat(program, &st);
		exe.dso.inode = st.st_ino, exe.dso.major = major(st.st_dev), exe.dso.minor = minor(st.st_dev);
		ok(!opens(pid, &exe, &image, &err) && image == NULL, "garbage of %zu bytes: %s", strlen(garbage[i]), err.text);
	}
	unlink(program);
}

static void vdso(void)
{
	struct err err = { 0 };
	struct image *image = NULL;
	struct seen seen = *mapping_of(getpid(), "[vdso]");

	if (!seen.found) {
		skip("this host maps none", "the vdso");
		return;
	}
	ok(procfs_open_vdso(&image, getpid(), seen.start, seen.end, &err) && image->build_id.size > 0, "our vdso %s", err.text);
	uint64_t bias = 0;
	ok(image != NULL && image_bias(image, seen.start, seen.end, 0, &bias), "has a load bias");
	image_release(image);
	ok(procfs_open_vdso(&image, 999999999, seen.start, seen.end, &err), "that of a process that has ended is the same");
	image_release(image);
	ok(!procfs_open_vdso(&image, 999999999, seen.start, seen.end + 8192, &err) && image == NULL, "unless its size differs: %s", err.text);
	ok(!procfs_open_vdso(&image, getpid(), seen.start, seen.start + (2u << 20), &err), "a mapping too large: %s", err.text);
	ok(!procfs_open_vdso(&image, getpid(), 4096, 4096 + (4u << 10), &err), "nothing mapped there: %s", err.text);
}

// An ELF header in memory whose figures are hostile: refused or bounded, whatever they are.
static void hostile_memory(void)
{
	struct err err = { 0 };
	char path[256];
	uint8_t page[8192] = { 0 };
	Elf64_Ehdr *e = (void *)page;
	Elf64_Phdr *p = (void *)(page + sizeof(*e));
	static const struct { const char *what; uint64_t offset, vaddr, file_size, mem_size; } cases[] = {
		{ "a segment of 2^40 bytes", 0, 0, 1ull << 40, 1ull << 40 },
		{ "an offset of 2^60", 1ull << 60, 0, 4096, 4096 },
		{ "addresses that wrap around", 0, UINT64_MAX - 4095, 8192, 8192 },
		{ "a size beyond what is mapped", 0, 0, 64u << 20, 64u << 20 },
		{ "an offset and size that overflow together", UINT64_MAX - 100, 0x1000, 4096, 4096 },
	};

	snprintf(path, sizeof(path), "%s/hostile", scratch);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		memset(page, 0, sizeof(page));
		memcpy(e->e_ident, ELFMAG, SELFMAG);
		e->e_ident[EI_CLASS] = ELFCLASS64, e->e_ident[EI_DATA] = ELFDATA2LSB, e->e_ident[EI_VERSION] = EV_CURRENT;
		e->e_type = ET_DYN, e->e_machine = EM_X86_64, e->e_phoff = sizeof(*e), e->e_phentsize = sizeof(*p), e->e_phnum = 3;
		e->e_shoff = 64, e->e_shnum = 60000, e->e_shentsize = 64;
		p[0] = (Elf64_Phdr){ .p_type = PT_LOAD, .p_flags = PF_R, .p_offset = cases[i].offset, .p_vaddr = cases[i].vaddr, .p_filesz = cases[i].file_size, .p_memsz = cases[i].mem_size };
		p[1] = (Elf64_Phdr){ .p_type = PT_GNU_EH_FRAME, .p_vaddr = cases[i].vaddr + 16, .p_memsz = UINT64_MAX };
		p[2] = (Elf64_Phdr){ .p_type = PT_DYNAMIC, .p_vaddr = cases[i].vaddr + 512, .p_memsz = UINT64_MAX };
		uint64_t *d = (void *)(page + 512); // symbols and hash tables that lead anywhere
		d[0] = DT_SYMTAB, d[1] = 1024, d[2] = DT_STRTAB, d[3] = 2048, d[4] = DT_STRSZ, d[5] = UINT64_MAX, d[6] = i % 2 ? DT_HASH : DT_GNU_HASH, d[7] = 600;
		memset(page + 600, 0xff, 16);
		FILE *f = fopen(path, "w");
		fwrite(page, 1, sizeof(page), f);
		fclose(f);
		int fd = open(path, O_RDONLY);
		uint8_t *mapped = mmap(NULL, sizeof(page), PROT_READ, MAP_PRIVATE, fd, 0);
		struct stat st;
		fstat(fd, &st);
		struct dso dso = { .path = path, .kind = DSO_FILE, .inode = st.st_ino, .major = major(st.st_dev), .minor = minor(st.st_dev) };
		struct image *image = NULL;
		bool good = procfs_image_from_memory(&image, getpid(), &dso, (uint64_t)(uintptr_t)mapped, &err);
		ok(good ? image->size <= (65u << 20) : err.text[0] != '\0', "%s: %s", cases[i].what, good ? "bounded" : err.text);
		image_release(image);
		munmap(mapped, sizeof(page));
		close(fd);
		unlink(path);
	}
}

// Containers' file systems: what maps says of device and inode need not be what stat says.
static void overlay(void)
{
	struct err err = { 0 };
	struct image *image = NULL;
	char base[128], path[256], options[700];
	struct stat st;

	snprintf(base, sizeof(base), "%s/overlay", scratch);
	mkdir(base, 0755);
	if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 || mount("tmpfs", base, "tmpfs", 0, NULL) != 0) {
		skip("needs root and mount namespaces", "a program on overlayfs");
		return;
	}
	const char *parts[] = { "lower", "upper", "work", "merged" };
	for (size_t i = 0; i < 4; i++) {
		snprintf(path, sizeof(path), "%s/%s", base, parts[i]);
		mkdir(path, 0755);
	}
	snprintf(options, sizeof(options), "lowerdir=%s/lower,upperdir=%s/upper,workdir=%s/work", base, base, base);
	snprintf(path, sizeof(path), "%s/lower/sleep", base);
	bool copied = copy_file("/bin/sleep", path);
	snprintf(path, sizeof(path), "%s/merged", base);
	if (!copied || mount("overlay", path, "overlay", 0, options) != 0) {
		skip("overlayfs cannot be mounted here", "a program on overlayfs");
		umount2(base, MNT_DETACH);
		return;
	}
	snprintf(path, sizeof(path), "%s/merged/sleep", base);
	pid_t pid = start(path, NULL);
	struct seen exe = *mapping_of(pid, path);
	exe.dso.path = exe.path;
	stat(path, &st);
	diag("maps says %x:%x inode %llu, stat %x:%x inode %llu", exe.dso.major, exe.dso.minor, (unsigned long long)exe.dso.inode, major(st.st_dev),
	     minor(st.st_dev), (unsigned long long)st.st_ino);
	ok(exe.found && opens(pid, &exe, &image, &err), "a program on overlayfs %s", err.text);
	image_release(image);
	exe.end -= 4096; // no map_files
	ok(opens(pid, &exe, &image, &err), "and without map_files %s", err.text);
	image_release(image);
	// A record of an older kernel has the lower file's device and inode: contents decide, for it and against another file.
	exe.dso.inode ^= 0x1000, exe.dso.minor ^= 0x40;
	ok(opens(pid, &exe, &image, &err), "a record with the lower file's inode %s", err.text);
	image_release(image);
	exe.dso.path = "/bin/true";
	ok(!opens(pid, &exe, &image, &err) && image == NULL, "not another program's contents: %s", err.text);
	end(pid);
	snprintf(path, sizeof(path), "%s/merged", base);
	umount2(path, MNT_DETACH);
	umount2(base, MNT_DETACH);
}

int main(void)
{
	scratch_make();
	size_t before = open_fds();
	ordinary();
	other_files();
	replaced();
	ended();
	vdso();
	hostile_memory();
	overlay();
	is_u64(open_fds(), before, "no descriptor is left open");
	return tap_done();
}
