#include "perfdata/reader.h"

#include <dirent.h>
#include <fcntl.h>
#include <jansson.h>
#include <sys/stat.h>
#include <zlib.h>
#include <zstd.h>

#include "perfdata/format.h"
#include "tests/recording.h"
#include "tests/scratch.h"

static void put(const char *name, const void *bytes, size_t size)
{
	FILE *f = fopen(scratch_path("%s", name), "wb");
	if (f == NULL || fwrite(bytes, 1, size, f) != size || fclose(f) != 0)
		exit(1);
}

static struct buf slurp(const char *path)
{
	struct buf out = { 0 };
	char chunk[65536];
	gzFile f = gzopen(path, "rb"); // plain files too
	for (int n; f != NULL && (n = gzread(f, chunk, sizeof(chunk))) > 0;)
		buf_add(&out, chunk, (size_t)n);
	if (f != NULL)
		gzclose(f);
	return out;
}

struct outcome {
	bool opened, failed;
	enum status status;
	char text[1024];
	size_t records, samples, by_type[128];
	struct reader_caveats caveats;
	uint64_t ip_sum, time_sum, pid_sum; // something of every sample's contents
};

static struct outcome read_all(const char *path, bool salvage, void (*look)(struct reader *reader))
{
	struct outcome out = { 0 };
	struct reader *reader;
	struct err err = { 0 };
	out.opened = reader_open(&reader, path, salvage, &err);
	if (out.opened) {
		struct record record;
		size_t event;
		uint64_t offset;
		enum reader_next next;
		while ((next = reader_next(reader, &record, &event, &offset, &err)) == READER_RECORD) {
			out.records++;
			if (record.type < 128)
				out.by_type[record.type]++;
			if (record.type == PERF_RECORD_SAMPLE) {
				out.samples++;
				for (uint64_t i = 0; i < record.sample.callchain_count; i++)
					out.ip_sum += record.sample.callchain[i];
				out.time_sum += record.id.time_ns;
				out.pid_sum += (uint64_t)record.id.pid;
			}
		}
		out.failed = next == READER_ERROR;
		out.caveats = *reader_caveats(reader);
		if (look != NULL)
			look(reader);
		reader_free(reader);
	}
	out.status = err.status;
	snprintf(out.text, sizeof(out.text), "%.1000s", err.text);
	return out;
}

static bool same_contents(const struct outcome *a, const struct outcome *b)
{
	return a->samples == b->samples && a->ip_sum == b->ip_sum && a->time_sum == b->time_sum && a->pid_sum == b->pid_sum &&
	       memcmp(a->by_type, b->by_type, 64 * sizeof(a->by_type[0])) == 0;
}

// ---------------------------------------------------------------- what was written comes back

static void look_at_file(struct reader *reader)
{
	is_u64(reader_event_count(reader), 2, "two events");
	is_str(reader_event_at(reader, 0)->name, "cpu-clock", "the first one's name");
	is_str(reader_event_at(reader, 1)->name, "dummy:HG", "the second one's");
	size_t event = 9;
	ok(reader_event_of_id(reader, REC_SIDEBAND_IDS[1], &event) && event == 1 && !reader_event_of_id(reader, 5, &event), "ids lead to events");
	const struct reader_features *f = reader_features(reader);
	is_str(f->hostname, "db-3", "host");
	is_str(f->os_release, "6.18.0", "kernel");
	is_str(f->cpuid, "AuthenticAMD,25,1,1", "CPU id");
	ok(f->cpus_online == 2 && f->cpus_available == 4 && f->total_memory_kib == 1 << 20, "CPUs and memory");
	ok(f->argv.count == 4 && strcmp(f->argv.data[3], "app") == 0, "command line");
	ok(f->has_clock_data && f->clockid == 1 && f->clockid_time_ns == 500, "clock");
	ok(f->first_time_ns == 1000000 && f->last_time_ns == 9000000, "first and last time");
}

static void look_at_finished(struct reader *reader)
{
	look_at_file(reader);
	const struct reader_features *f = reader_features(reader);
	ok(f->build_ids.count == 1 && f->build_ids.data[0].build_id.size == 20 && f->build_ids.data[0].build_id.bytes[19] == 0x14 &&
	   strcmp(f->build_ids.data[0].path, "/opt/app/app") == 0, "build ID");
	ok(f->names != NULL && f->names->images.count == 1 && strcmp(names_meta_get(f->names, "target.kind"), "command") == 0, "names inside");
}

static struct outcome round_trip(void)
{
	struct err err = { 0 };
	ok(rec_write(scratch_path("file"), -1, true, &err), "a file is written");
	struct outcome file = read_all(scratch_path("file"), false, look_at_finished);
	ok(file.opened && !file.failed && !file.caveats.cut_off && file.samples == 3, "and read whole (%s)", file.text);
	ok(file.by_type[PERF_RECORD_MMAP] == 1 && file.by_type[PERF_RECORD_MMAP2] == 1 && file.by_type[PERF_RECORD_COMM] == 2 &&
	   file.by_type[PERF_RECORD_FORK] == 2 && file.by_type[PERF_RECORD_EXIT] == 1 && file.by_type[PERF_RECORD_READ] == 4 &&
	   file.by_type[RECORD_USER_FINISHED_ROUND] == 2, "every record");

	int fd = open(scratch_path("stream"), O_CREAT | O_WRONLY, 0600);
	ok(rec_write("-", fd, true, &err), "a stream is written");
	close(fd);
	struct outcome stream = read_all(scratch_path("stream"), false, look_at_file);
	ok(stream.opened && !stream.failed && !stream.caveats.cut_off && same_contents(&file, &stream), "and reads the same (%s)", stream.text);

	ok(rec_write(scratch_path("killed"), -1, false, &err), "a recording that is not finished");
	struct outcome killed = read_all(scratch_path("killed"), false, NULL);
	ok(killed.opened && !killed.failed && killed.caveats.cut_off && same_contents(&file, &killed), "reads the same, and is said to be cut off (%s)", killed.text);

	// Records behind the last checkpoint.
	struct buf bytes = slurp(scratch_path("killed"));
	struct perfdata_header header;
	memcpy(&header, bytes.data, sizeof(header));
	header.data.size = 0;
	memcpy(bytes.data, &header, sizeof(header));
	put("size0", bytes.data, bytes.size);
	struct outcome zero = read_all(scratch_path("size0"), false, NULL);
	ok(zero.opened && !zero.failed && zero.caveats.cut_off && same_contents(&file, &zero), "data size 0: to the end of the file");
	struct perf_event_header first;
	memcpy(&first, bytes.data + header.data.offset, sizeof(first));
	header.data.size = first.size;
	memcpy(bytes.data, &header, sizeof(header));
	put("behind", bytes.data, bytes.size - 5);
	struct outcome behind = read_all(scratch_path("behind"), false, NULL);
	ok(behind.opened && !behind.failed && behind.caveats.cut_off && behind.samples == 3, "records behind the last checkpoint are read, half ones not");
	buf_release(&bytes);
	return file;
}

// Through a pipe a file of file layout cannot be searched: it is set down first.
static void through_a_pipe(const struct outcome *file)
{
	char command[1024];
	snprintf(command, sizeof(command), "cat %s", scratch_path("file"));
	FILE *f = popen(command, "r");
	int saved = dup(0);
	dup2(fileno(f), 0);
	struct outcome piped = read_all("-", false, look_at_finished);
	dup2(saved, 0);
	close(saved);
	pclose(f);
	ok(piped.opened && !piped.failed && same_contents(file, &piped), "a file through a pipe (%s)", piped.text);
}

// A file or stream that only ends early, at every byte.
static void cut_at_every_byte(const char *name, size_t data_at, const struct outcome *whole)
{
	struct buf bytes = slurp(scratch_path("%s", name));
	size_t wrong = 0, last_records = 0;
	for (size_t size = data_at; size < bytes.size; size++) {
		put("cut", bytes.data, size);
		struct outcome cut = read_all(scratch_path("cut"), false, NULL);
		// A stream has no end but its end: cut between two records it is whole for all that anyone can tell.
		bool good = cut.opened && !cut.failed && cut.records >= last_records && cut.records <= whole->records &&
		            (cut.caveats.cut_off || (strcmp(name, "stream") == 0 && cut.records > last_records) || size == data_at);
		if (!good && wrong++ < 3)
			diag("%s cut at %zu: opened %d failed %d cut %d records %zu (%zu before): %s", name, size, cut.opened, cut.failed, cut.caveats.cut_off,
			     cut.records, last_records, cut.text);
		last_records = cut.records;
	}
	is_u64(wrong, 0, "%s cut at every byte of its data reads to there", name);
	ok(last_records + 1 >= whole->records, "up to all of it");
	wrong = 0;
	size_t sizes[] = { 0, 1, 8, 15, 16, 20, 71, 72, 103, 104, 105, 1000, data_at - 1 };
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes) && strcmp(name, "stream") != 0; i++) {
		put("cut", bytes.data, sizes[i]);
		struct outcome cut = read_all(scratch_path("cut"), false, NULL);
		if (cut.opened || cut.status != STATUS_INPUT || strstr(cut.text, "cut") == NULL)
			wrong++, diag("cut at %zu: %d %s", sizes[i], cut.status, cut.text);
	}
	is_u64(wrong, 0, "cut before its data: status 4, and the file named");
	buf_release(&bytes);
}

// ---------------------------------------------------------------- the other byte order

static void swap_bytes(uint8_t *at, size_t size)
{
	for (size_t i = 0; i < size / 2; i++) {
		uint8_t byte = at[i];
		at[i] = at[size - 1 - i];
		at[size - 1 - i] = byte;
	}
}

// Swaps fields in turn: '4' and '8' by size, 's' a text up to the trailer, 'n' a count and that many words, 'r' raw data.
static void swap_fields(uint8_t *at, const uint8_t *end, const char *fields)
{
	for (; *fields != '\0' && at < end; fields++) {
		if (*fields == '4' || *fields == '8') {
			swap_bytes(at, (size_t)(*fields - '0'));
			at += *fields - '0';
		} else if (*fields == 's') {
			at = (uint8_t *)(uintptr_t)(end - 32);
		} else if (*fields == 'n') {
			uint64_t count;
			memcpy(&count, at, 8);
			swap_bytes(at, 8);
			for (at += 8; count > 0; count--, at += 8)
				swap_bytes(at, 8);
		} else if (*fields == 'r') {
			swap_bytes(at, 4);
			at = (uint8_t *)(uintptr_t)end;
		}
	}
}

static void swap_record(uint8_t *at, size_t size, uint32_t type)
{
	static const char trailer[] = "4484" "48";
	const char *fields = "";
	switch (type) {
	case PERF_RECORD_MMAP: fields = "44888s"; break;
	case PERF_RECORD_MMAP2: fields = "44888" "4488" "44s"; break;
	case PERF_RECORD_COMM: fields = "44s"; break;
	case PERF_RECORD_FORK: case PERF_RECORD_EXIT: fields = "44448"; break;
	case PERF_RECORD_READ: fields = "4488888"; break;
	case PERF_RECORD_SAMPLE: fields = "884484" "48nr"; break;
	case RECORD_USER_EVENT_UPDATE: fields = "88"; break;
	default: break;
	}
	char all[64];
	snprintf(all, sizeof(all), "%s%s", fields, type == PERF_RECORD_SAMPLE || type >= 64 ? "" : trailer);
	swap_bytes(at, 4);
	swap_bytes(at + 4, 2);
	swap_bytes(at + 6, 2);
	swap_fields(at + 8, at + size, all);
}

// The recording as a host of the other byte order would have written it, without features.
static void other_byte_order(const struct outcome *file)
{
	struct buf bytes = slurp(scratch_path("killed"));
	uint8_t *data = (uint8_t *)bytes.data;
	struct perfdata_header header;
	memcpy(&header, data, sizeof(header));
	for (uint64_t i = 0; i < header.attrs.size / header.attr_size; i++) {
		uint8_t *attr = data + header.attrs.offset + i * header.attr_size;
		struct perfdata_section ids;
		memcpy(&ids, attr + 128, sizeof(ids));
		for (uint64_t j = 0; j < ids.size; j += 8)
			swap_bytes(data + ids.offset + j, 8);
		for (size_t j = 0; j < 8; j++) { // flags: bits mirrored in each byte
			uint8_t *flags = attr + 40 + j, mirrored = 0;
			for (int bit = 0; bit < 8; bit++)
				mirrored |= (uint8_t)((*flags >> bit & 1) << (7 - bit));
			*flags = mirrored;
		}
		swap_fields(attr, attr + 144, "448888");
		swap_fields(attr + 48, attr + 144, "44888848");
		swap_fields(attr + 48 + 8 + 32 - 8, attr + 144, ""); // sample_regs_user is the last of those that are set
		swap_fields(attr + 128, attr + 144, "88");
	}
	for (size_t at = header.data.offset; at < header.data.offset + header.data.size;) {
		struct perf_event_header record;
		memcpy(&record, data + at, sizeof(record));
		swap_record(data + at, record.size, record.type);
		at += record.size;
	}
	for (size_t at = 0; at < sizeof(header); at += 8)
		swap_bytes(data + at, 8);
	put("swapped", data, bytes.size);
	buf_release(&bytes);
	struct outcome swapped = read_all(scratch_path("swapped"), false, NULL);
	ok(swapped.opened && !swapped.failed && same_contents(file, &swapped), "a recording of the other byte order reads the same (%s)", swapped.text);
}

// ---------------------------------------------------------------- compressed records

// `piece`: how many compressed bytes a record takes; records inside are cut anywhere.
static void compressed(const struct outcome *file, uint32_t type, size_t piece)
{
	struct buf bytes = slurp(scratch_path("killed")), out = { 0 };
	struct perfdata_header header;
	memcpy(&header, bytes.data, sizeof(header));
	buf_add(&out, bytes.data, header.data.offset);
	ZSTD_CStream *stream = ZSTD_createCStream();
	ZSTD_initCStream(stream, 1);
	char packed[4096];
	for (size_t at = 0; at < header.data.size; at += 100) { // as perf does: a flush for each piece of the ring
		size_t size = header.data.size - at < 100 ? header.data.size - at : 100;
		ZSTD_inBuffer in = { bytes.data + header.data.offset + at, size, 0 };
		ZSTD_outBuffer to = { packed, sizeof(packed), 0 };
		while (in.pos < in.size)
			ZSTD_compressStream(stream, &to, &in);
		ZSTD_flushStream(stream, &to);
		for (size_t done = 0; done < to.pos;) {
			size_t part = to.pos - done < piece ? to.pos - done : piece;
			size_t start = rec_start(&out, type, 0);
			if (type == RECORD_USER_COMPRESSED2) {
				buf_u64(&out, part);
				buf_add(&out, packed + done, part);
				rec_end(&out, start);
			} else { // not padded
				buf_add(&out, packed + done, part);
				uint16_t record_size = (uint16_t)(out.size - start);
				memcpy(out.data + start + 6, &record_size, 2);
			}
			done += part;
		}
	}
	ZSTD_freeCStream(stream);
	header.data.size = out.size - header.data.offset;
	memcpy(out.data, &header, sizeof(header));
	put("packed", out.data, out.size);
	struct outcome packed_file = read_all(scratch_path("packed"), false, NULL);
	ok(packed_file.opened && !packed_file.failed && same_contents(file, &packed_file), "records of type %u with %zu bytes each (%s)", type, piece, packed_file.text);

	out.data[header.data.offset + 60] ^= 0x55;
	put("packed-bad", out.data, out.size);
	struct outcome bad = read_all(scratch_path("packed-bad"), false, NULL);
	ok(!bad.failed || (bad.status == STATUS_INPUT && strstr(bad.text, "0x") != NULL && strstr(bad.text, "packed-bad") != NULL), "damaged: %s", bad.text);
	struct outcome salvaged = read_all(scratch_path("packed-bad"), true, NULL);
	ok(!salvaged.failed, "and salvaged");
	buf_release(&bytes);
	buf_release(&out);
}

// ---------------------------------------------------------------- damage

static void damaged(const struct outcome *file)
{
	struct buf bytes = slurp(scratch_path("file"));
	struct perfdata_header header;
	memcpy(&header, bytes.data, sizeof(header));
	size_t at = header.data.offset, third = 0;
	for (int i = 0; i < 3; i++) {
		struct perf_event_header record;
		memcpy(&record, bytes.data + at, sizeof(record));
		at += record.size;
		third = at;
	}
	// Damage that leads past the data section is no early end: the file goes on behind it. Nor is a type that nobody numbers a kind of record.
	static const struct { size_t offset; uint16_t value; const char *says; } faults[] = {
		{ 6, 3, "size 3 below 8" }, { 0, 0, "type 0" }, { 6, 16, "shorter" }, { 6, 0xfff8, "the data section ends at 0x" },
		{ 2, 0x5a5a, "expected 36863 at most" }, { 0, RECORD_USER_AUXTRACE, "the data section ends at 0x" } };
	for (size_t i = 0; i < sizeof(faults) / sizeof(*faults); i++) {
		struct buf copy = { 0 };
		buf_add(&copy, bytes.data, bytes.size);
		memcpy(copy.data + third + faults[i].offset, &faults[i].value, 2);
		put("bad", copy.data, copy.size);
		struct outcome bad = read_all(scratch_path("bad"), false, NULL);
		char where[32];
		snprintf(where, sizeof(where), "0x%zx", third);
		ok(bad.failed && bad.status == STATUS_INPUT && strstr(bad.text, "bad") != NULL && strstr(bad.text, where) != NULL &&
		   strstr(bad.text, faults[i].says) != NULL, "%s", bad.text);
		struct outcome salvaged = read_all(scratch_path("bad"), true, NULL);
		ok(!salvaged.failed && salvaged.caveats.skipped_bytes > 0 && salvaged.caveats.first_skipped_at == third && salvaged.samples == file->samples,
		   "--salvage skips %llu bytes and reads the rest", (unsigned long long)salvaged.caveats.skipped_bytes);
		buf_release(&copy);
	}
	// A record that reaches past the data section, in a file that goes on: a contradiction, not an early end.
	header.data.size -= 16;
	header.features[0] = header.features[1] = header.features[2] = 0;
	header.features[3] = 1;
	memcpy(bytes.data, &header, sizeof(header));
	put("bad", bytes.data, bytes.size);
	struct outcome bad = read_all(scratch_path("bad"), false, NULL);
	ok(bad.failed && bad.status == STATUS_INPUT, "%s", bad.text);
	buf_release(&bytes);
}

// MISC_MMAP_BUILD_ID where nobody asked for build IDs (a kernel's mistake) and the fields hold device and inode.
static void false_build_id(void)
{
	struct buf bytes = slurp(scratch_path("killed"));
	struct perfdata_header header;
	memcpy(&header, bytes.data, sizeof(header));
	for (size_t at = header.data.offset; at < header.data.offset + header.data.size;) {
		struct perf_event_header record;
		memcpy(&record, bytes.data + at, sizeof(record));
		if (record.type == PERF_RECORD_MMAP2) {
			record.misc |= PERF_RECORD_MISC_MMAP_BUILD_ID;
			memcpy(bytes.data + at, &record, sizeof(record));
			uint32_t major = 0xfe;
			memcpy(bytes.data + at + 40, &major, 4);
		}
		at += record.size;
	}
	put("false-id", bytes.data, bytes.size);
	struct outcome out = read_all(scratch_path("false-id"), false, NULL);
	ok(out.opened && !out.failed && out.by_type[PERF_RECORD_MMAP2] == 1, "a false build ID bit is seen through (%s)", out.text);
	buf_release(&bytes);
}

// A perf.data folder: `data` with the header, data.0 … with records alone. And what only streams and simpleperf have.
static void folder_and_strangers(const struct outcome *file)
{
	struct buf bytes = slurp(scratch_path("killed"));
	struct perfdata_header header;
	memcpy(&header, bytes.data, sizeof(header));
	mkdir(scratch_path("dir"), 0700);
	put("dir/data.0", bytes.data + header.data.offset, header.data.size);
	put("dir/data.1", bytes.data + header.data.offset, header.data.size);
	put("dir/data", bytes.data, bytes.size);
	struct outcome three = read_all(scratch_path("dir"), false, NULL);
	ok(three.opened && !three.failed && three.samples == 3 * file->samples, "a folder's files are read one after the other (%s)", three.text);
	buf_release(&bytes);

	struct buf stream = slurp(scratch_path("stream")), out = { 0 };
	struct perf_event_header tracing = { .type = RECORD_USER_TRACING_DATA, .size = 12 }, aux = { .type = RECORD_USER_AUXTRACE, .size = 48 },
	                         android = { .type = 32770, .misc = 1, .size = 8 }, // misc is the size's upper half
	                         later = { .type = 1000, .size = 8 };
	buf_add(&out, stream.data, PERFDATA_PIPE_HEADER_BYTES);
	buf_add(&out, &tracing, sizeof(tracing));
	buf_u32(&out, 24);
	buf_add(&out, "abcdefghijklmnopqrstuvwx", 24); // what follows stands on 4 bytes
	buf_add(&out, &aux, sizeof(aux));
	buf_u64(&out, 200000);
	buf_add(&out, NULL, 32 + 200000);
	memset(out.data + out.size - 200032, 0, 200032);
	buf_add(&out, &android, sizeof(android));
	buf_add(&out, NULL, 65536);
	memset(out.data + out.size - 65536, 0, 65536);
	buf_add(&out, &later, sizeof(later));
	buf_add(&out, stream.data + PERFDATA_PIPE_HEADER_BYTES, stream.size - PERFDATA_PIPE_HEADER_BYTES);
	put("strangers", out.data, out.size);
	struct outcome strangers = read_all(scratch_path("strangers"), false, NULL);
	ok(strangers.opened && !strangers.failed && strangers.samples == file->samples && strangers.caveats.unknown_records == 1 &&
	   strangers.caveats.unknown_type == 1000 && !strangers.caveats.cut_off,
	   "tracing data, AUX data and simpleperf's records are passed over (%s)", strangers.text);
	buf_release(&stream);
	buf_release(&out);
}

// ---------------------------------------------------------------- recordings of others

static void one_of_the_corpus(const char *expected_path)
{
	json_t *doc = json_load_file(expected_path, 0, NULL);
	json_t *records = json_object_get(json_object_get(doc, "oracle"), "records");
	if (records == NULL)
		records = json_object_get(doc, "records");
	char path[4096];
	snprintf(path, sizeof(path), "%.*s", (int)(strlen(expected_path) - strlen(".expected.json")), expected_path);
	const char *name = strrchr(path, '/') + 1;
	if (access(path, F_OK) != 0)
		snprintf(path + strlen(path), sizeof(path) - strlen(path), ".gz");
	struct buf bytes = slurp(path);
	put("other", bytes.data, bytes.size);
	buf_release(&bytes);
	struct outcome out = read_all(scratch_path("other"), false, NULL);
	bool good = out.opened && !out.failed;
	static const char *const types[] = { "SAMPLE", "MMAP", "MMAP2", "COMM", "EXIT", "FORK", "LOST", "THROTTLE", "FINISHED_ROUND", "LOST_SAMPLES" };
	static const uint32_t numbers[] = { PERF_RECORD_SAMPLE, PERF_RECORD_MMAP, PERF_RECORD_MMAP2, PERF_RECORD_COMM, PERF_RECORD_EXIT, PERF_RECORD_FORK,
	                                    PERF_RECORD_LOST, PERF_RECORD_THROTTLE, RECORD_USER_FINISHED_ROUND, PERF_RECORD_LOST_SAMPLES };
	// Where perf itself gave up its counts are incomplete; of streams it counts records it made up.
	bool perf_failed = json_integer_value(json_object_get(doc, "perf_script_rc")) != 0 && json_object_get(doc, "oracle") == NULL;
	const char *mode = json_string_value(json_object_get(doc, "mode"));
	for (size_t i = 0; i < sizeof(types) / sizeof(*types) && !perf_failed; i++) {
		json_t *wanted = json_object_get(records, types[i]);
		if (wanted == NULL || (i > 0 && mode != NULL && strcmp(mode, "file") != 0))
			continue;
		if ((size_t)json_integer_value(wanted) != out.by_type[numbers[i]]) {
			good = false;
			diag("%s: %zu, perf says %lld", types[i], out.by_type[numbers[i]], (long long)json_integer_value(wanted));
		}
	}
	ok(good, "%s: %zu samples %s", name, out.samples, out.text);
	json_decref(doc);
}

static void corpus(void)
{
	const char *readme = corpus_file("corpus/README.md");
	if (readme == NULL) {
		skip("no corpus (PERFSAMPLE_CORPUS)", "recordings of others");
		return;
	}
	char base[4096];
	snprintf(base, sizeof(base), "%.*sperfdata", (int)(strlen(readme) - strlen("README.md")), readme);
	struct dirent **found;
	int count = scandir(base, &found, NULL, alphasort);
	for (int i = 0; i < count; i++) {
		if (strstr(found[i]->d_name, ".expected.json") != NULL) {
			char path[8192];
			snprintf(path, sizeof(path), "%s/%s", base, found[i]->d_name);
			one_of_the_corpus(path);
		}
		free(found[i]);
	}
	free(found);
	snprintf(base, sizeof(base), "%.*sbadperf", (int)(strlen(readme) - strlen("README.md")), readme);
	count = scandir(base, &found, NULL, alphasort);
	for (int i = 0; i < count; i++) {
		char path[8192];
		snprintf(path, sizeof(path), "%s/%s", base, found[i]->d_name);
		if (strstr(found[i]->d_name, ".data") != NULL) {
			struct outcome out = read_all(path, false, NULL), salvaged = read_all(path, true, NULL);
			ok((out.opened && !out.failed) || (out.status == STATUS_INPUT && strstr(out.text, found[i]->d_name) != NULL), "%s: %.120s", found[i]->d_name, out.text);
			ok(!salvaged.failed, "and with --salvage: %zu records", salvaged.records);
		}
		free(found[i]);
	}
	free(found);
}

int main(void)
{
	scratch_make();
	struct outcome file = round_trip();
	through_a_pipe(&file);
	struct buf bytes = slurp(scratch_path("file"));
	struct perfdata_header header;
	memcpy(&header, bytes.data, sizeof(header));
	buf_release(&bytes);
	cut_at_every_byte("file", header.data.offset, &file);
	struct outcome stream = read_all(scratch_path("stream"), false, NULL);
	cut_at_every_byte("stream", PERFDATA_PIPE_HEADER_BYTES, &stream);
	other_byte_order(&file);
	for (size_t piece = 7; piece < 3000; piece *= 9) {
		compressed(&file, RECORD_USER_COMPRESSED, piece);
		compressed(&file, RECORD_USER_COMPRESSED2, piece);
	}
	damaged(&file);
	false_build_id();
	folder_and_strangers(&file);
	struct outcome absent = read_all(scratch_path("absent"), false, NULL);
	ok(!absent.opened && absent.status == STATUS_INPUT && strstr(absent.text, "absent") != NULL, "%s", absent.text);
	corpus();
	return tap_done();
}
