#include "perfdata/writer.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "perfdata/format.h"
#include "tests/recording.h"
#include "tests/scratch.h"

static char *slurp(const char *path, size_t *size)
{
	FILE *f = fopen(path, "rb");
	if (f == NULL)
		return NULL;
	struct buf out = { 0 };
	char chunk[4096];
	for (size_t n; (n = fread(chunk, 1, sizeof(chunk), f)) > 0;)
		buf_add(&out, chunk, n);
	fclose(f);
	*size = out.size;
	return buf_detach(&out);
}

static void finished_file(void)
{
	struct err err = { 0 };
	const char *path = scratch_path("perf.data");
	if (!ok(rec_write(path, -1, true, &err), "a recording is written (%s)", err.text))
		return;
	struct stat st;
	ok(stat(path, &st) == 0 && (st.st_mode & 07777) == 0600, "its mode is 0600");
	size_t size = 0;
	char *bytes = slurp(path, &size);
	struct perfdata_header header;
	memcpy(&header, bytes, sizeof(header));
	ok(memcmp(header.magic, "PERFILE2", 8) == 0 && header.size == 104 && header.attr_size == 144, "magic and sizes");
	is_u64(header.attrs.size, 2 * 144, "two attrs");
	struct perf_event_attr attr;
	memcpy(&attr, bytes + header.attrs.offset, 128);
	is_u64(attr.size, 128, "attrs of the size that perf 6.1 knows");
	struct perfdata_section ids;
	memcpy(&ids, bytes + header.attrs.offset + 128, sizeof(ids));
	ok(ids.size == 16 && memcmp(bytes + ids.offset, REC_IDS, 16) == 0, "its ids");
	uint64_t wanted = 1ull << FEATURE_BUILD_ID | 1ull << FEATURE_HOSTNAME | 1ull << FEATURE_OSRELEASE | 1ull << FEATURE_VERSION | 1ull << FEATURE_ARCH |
	                  1ull << FEATURE_NRCPUS | 1ull << FEATURE_CPUDESC | 1ull << FEATURE_CPUID | 1ull << FEATURE_TOTAL_MEM | 1ull << FEATURE_CMDLINE |
	                  1ull << FEATURE_EVENT_DESC | 1ull << FEATURE_SAMPLE_TIME | 1ull << FEATURE_CLOCKID | 1ull << FEATURE_CLOCK_DATA;
	is_u64(header.features[0], wanted, "standard features");
	is_u64(header.features[3], 1ull << 63, "feature 255");
	size_t sections = (size_t)__builtin_popcountll(header.features[0]) + 1;
	uint64_t before = header.data.offset + header.data.size + sections * sizeof(struct perfdata_section);
	bool in_order = true;
	for (size_t i = 0; i < sections; i++) {
		struct perfdata_section section;
		memcpy(&section, bytes + header.data.offset + header.data.size + i * sizeof(section), sizeof(section));
		in_order = in_order && section.offset >= before && section.offset + section.size <= size;
		before = section.offset + section.size;
	}
	ok(in_order, "sections follow one another inside the file");
	free(bytes);
}

static int count_samples(const char *command)
{
	FILE *f = popen(command, "r");
	int count = 0;
	char line[1024];
	while (f != NULL && fgets(line, sizeof(line), f) != NULL)
		count += strstr(line, "cpu-clock") != NULL;
	int status = f != NULL ? pclose(f) : -1;
	return status == 0 ? count : -1;
}

// perf itself is the judge of the format, where it is installed.
static void perf_reads(const char *name, const char *how)
{
	char command[1024];
	if (system("perf --version >/dev/null 2>&1") != 0) {
		skip("perf is not installed", "perf reads %s", how);
		return;
	}
	snprintf(command, sizeof(command), "perf script -i %s -F comm,event,ip,sym 2>%s", scratch_path("%s", name), scratch_path("stderr"));
	is_u64((unsigned long long)count_samples(command), 3, "perf script shows the 3 samples of %s", how);
	snprintf(command, sizeof(command), "perf report --header-only -i %s 2>>%s >%s && perf evlist -v -i %s >>%s 2>>%s && perf report -i %s --stdio >>%s 2>>%s",
	         scratch_path("%s", name), scratch_path("stderr"), scratch_path("stdout"), scratch_path("%s", name), scratch_path("stdout"), scratch_path("stderr"), scratch_path("%s", name),
	         scratch_path("stdout"), scratch_path("stderr"));
	ok(system(command) == 0, "perf report and evlist take %s", how);
	size_t size = 0;
	char *text = slurp(scratch_path("stderr"), &size);
	ok(text != NULL && strcasestr(text, "warning") == NULL && strcasestr(text, "error") == NULL, "without a warning");
	if (text != NULL && size > 0)
		diag("%s", text);
	free(text);
	text = slurp(scratch_path("stdout"), &size);
	ok(text != NULL && strstr(text, "cpu-clock") != NULL && strstr(text, "db-3") != NULL, "with its event and host");
	free(text);
}

static void streamed(void)
{
	struct err err = { 0 };
	int fd = open(scratch_path("stream"), O_CREAT | O_WRONLY, 0600);
	ok(rec_write("-", fd, true, &err), "a stream is written (%s)", err.text);
	close(fd);
	size_t size = 0;
	char *bytes = slurp(scratch_path("stream"), &size);
	uint64_t header_size;
	memcpy(&header_size, bytes + 8, 8);
	is_u64(header_size, 16, "its header says pipe layout");
	size_t at = 16;
	bool aligned = true;
	while (at + 8 <= size) {
		struct perf_event_header header;
		memcpy(&header, bytes + at, sizeof(header));
		if (header.size < 8)
			break;
		aligned = aligned && header.size % 8 == 0;
		at += header.size;
	}
	ok(at == size && aligned, "whole records to its end");
	free(bytes);
	perf_reads("stream", "a stream");
}

static void put(const char *name, const char *text)
{
	FILE *f = fopen(scratch_path("%s", name), "w");
	fputs(text, f);
	fclose(f);
}

static bool holds(const char *name, const char *text)
{
	size_t size = 0;
	char *bytes = slurp(scratch_path("%s", name), &size);
	bool same = bytes != NULL && strcmp(bytes, text) == 0;
	free(bytes);
	return same;
}

static void nothing_is_destroyed(void)
{
	struct err err = { 0 };
	struct writer *writer;
	put("r.data", "first");
	ok(writer_open(&writer, scratch_path("r.data"), -1, &err), "opens beside an existing file");
	ok(holds("r.data", "first"), "which stays until publication");
	writer_free(writer);
	ok(holds("r.data", "first") && access(scratch_path("r.data.old"), F_OK) != 0, "a start that fails leaves everything untouched");
	char pattern[256];
	snprintf(pattern, sizeof(pattern), "ls %s | grep -q tmp", scratch);
	ok(system(pattern) != 0, "and no temporary file");
	for (int i = 0; i < 13; i++) {
		char text[32];
		snprintf(text, sizeof(text), "number %d", i);
		put("r.data", text);
		if (!writer_open(&writer, scratch_path("r.data"), -1, &err) || !writer_publish(writer, &err))
			ok(false, "publishing: %s", err.text);
		writer_free(writer);
	}
	ok(holds("r.data.old", "number 12") && holds("r.data.old.1", "number 11") && holds("r.data.old.9", "number 3"), ".old … .old.9 hold the last eleven");
	ok(access(scratch_path("r.data.old.10"), F_OK) != 0, "and no more");
	symlink("/etc/passwd", scratch_path("link.data"));
	struct stat st;
	ok(writer_open(&writer, scratch_path("link.data"), -1, &err) && writer_publish(writer, &err) && lstat(scratch_path("link.data"), &st) == 0 && S_ISREG(st.st_mode),
	   "a symbolic link is moved away, not followed (%s)", err.text);
	ok(writer_path(writer)[0] == '/', "the full path is known");
	writer_free(writer);
	ok(!writer_open(&writer, scratch_path("none/x.data"), -1, &err) && err.status == STATUS_FINISH && strstr(err.text, "none") != NULL, "a missing folder: %s", err.text);
	ok(!writer_open(&writer, scratch, -1, &err) && err.status == STATUS_FINISH, "a folder: %s", err.text);
}

static void disk_is_full(void)
{
	struct err err = { 0 };
	struct writer *writer;
	struct perf_event_attr attr = rec_attr(false);
	struct writer_event event = { attr, "cpu-clock", REC_IDS, 2, -1, 0 };
	struct writer_info info = rec_info();
	struct buf body = { 0 };
	rec_body(&body);
	// RLIMIT_FSIZE stands for the full disk: EFBIG with SIGXFSZ ignored.
	struct rlimit old, low;
	getrlimit(RLIMIT_FSIZE, &old);
	low = (struct rlimit){ 300000, old.rlim_max };
	ok(writer_open(&writer, scratch_path("full.data"), -1, &err) && writer_begin(writer, &event, 1, &info, &err), "begins (%s)", err.text);
	setrlimit(RLIMIT_FSIZE, &low);
	bool good = true;
	for (int i = 0; i < 1000 && good; i++)
		good = writer_records(writer, body.data, body.size, &err);
	ok(!good && err.status == STATUS_FINISH, "writing beyond the room fails: %s", err.text);
	ok(!writer_finish(writer, &info, NULL, 0, NULL, &err) && err.status == STATUS_FINISH, "so does finishing");
	setrlimit(RLIMIT_FSIZE, &old);
	writer_free(writer);
	size_t size = 0;
	char *bytes = slurp(scratch_path("full.data"), &size);
	struct perfdata_header header = { 0 };
	if (bytes != NULL)
		memcpy(&header, bytes, sizeof(header));
	ok(header.data.size > 200000 && header.data.offset + header.data.size <= size && header.features[0] == 0, "yet %llu bytes of records stand there, published",
	   (unsigned long long)header.data.size);
	size_t at = header.data.offset;
	while (at + 8 <= header.data.offset + header.data.size) {
		struct perf_event_header record;
		memcpy(&record, bytes + at, sizeof(record));
		if (record.size < 8)
			break;
		at += record.size;
	}
	is_u64(at, header.data.offset + header.data.size, "whole ones");
	free(bytes);
	buf_release(&body);
}

static void more_ids(void)
{
	struct err err = { 0 };
	struct writer *writer;
	struct perf_event_attr attr = rec_attr(false);
	struct writer_event event = { attr, "cpu-clock", REC_IDS, 2, -1, 0 };
	struct writer_info info = rec_info();
	uint64_t ids[3000];
	for (uint64_t i = 0; i < 3000; i++)
		ids[i] = 100 + i;
	ok(writer_open(&writer, scratch_path("ids.data"), -1, &err) && writer_begin(writer, &event, 1, &info, &err), "begins");
	writer_add_ids(writer, 0, ids, 500);
	ok(writer_checkpoint(writer, &err), "a checkpoint (%s)", err.text);
	writer_add_ids(writer, 0, ids + 500, 2500);
	ok(writer_checkpoint(writer, &err) && writer_finish(writer, &info, NULL, 0, NULL, &err), "finishes with more ids than had room (%s)", err.text);
	writer_free(writer);
	size_t size = 0;
	char *bytes = slurp(scratch_path("ids.data"), &size);
	struct perfdata_header header;
	struct perfdata_section section;
	memcpy(&header, bytes, sizeof(header));
	memcpy(&section, bytes + header.attrs.offset + 128, sizeof(section));
	ok(section.size == 3002 * 8 && section.offset + section.size == size && memcmp(bytes + section.offset + 16, ids, sizeof(ids)) == 0, "all of them stand there");
	free(bytes);
}

int main(void)
{
	signal(SIGXFSZ, SIG_IGN);
	scratch_make();
	finished_file();
	perf_reads("perf.data", "a file");
	streamed();
	nothing_is_destroyed();
	disk_is_full();
	more_ids();
	return tap_done();
}
