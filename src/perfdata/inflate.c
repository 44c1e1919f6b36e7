#include "perfdata/inflate.h"

#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "base/mem.h"

enum {
	FED_BYTES = 1 << 16,
	OUT_BYTES = 1 << 18,
	RATIO = 1000,            // a record that grows more than this is an attack,
	ALWAYS_ALLOWED = 1 << 20, // unless it grows to little: zeros of a short ring compress better
};

struct inflate {
	ZSTD_DStream *stream;
	uint8_t fed[FED_BYTES];
	size_t fed_at, fed_size;
	uint8_t *out;
	size_t begin, end;
	uint64_t made; // of this record
	bool is_flushed;
};

struct inflate *inflate_new(void)
{
	struct inflate *inflate = NEW(struct inflate);
	inflate->out = mem_alloc(OUT_BYTES);
	inflate->stream = ZSTD_createDStream();
	if (inflate->stream != NULL)
		ZSTD_initDStream(inflate->stream);
	inflate->is_flushed = true;
	return inflate;
}

void inflate_free(struct inflate *inflate)
{
	if (inflate == NULL)
		return;
	ZSTD_freeDStream(inflate->stream);
	free(inflate->out);
	free(inflate);
}

void inflate_feed(struct inflate *inflate, const void *bytes, size_t size)
{
	if (size > FED_BYTES)
		size = FED_BYTES;
	if (size > 0)
		memcpy(inflate->fed, bytes, size);
	inflate->fed_at = 0;
	inflate->fed_size = size;
	inflate->made = 0;
	inflate->is_flushed = false;
}

// One step: more output. false with err: the stream is broken.
static bool step(struct inflate *inflate, struct err *err)
{
	memmove(inflate->out, inflate->out + inflate->begin, inflate->end - inflate->begin);
	inflate->end -= inflate->begin;
	inflate->begin = 0;
	ZSTD_inBuffer in = { inflate->fed, inflate->fed_size, inflate->fed_at };
	ZSTD_outBuffer out = { inflate->out, OUT_BYTES, inflate->end };
	size_t status = inflate->stream != NULL ? ZSTD_decompressStream(inflate->stream, &out, &in) : (size_t)-1;
	uint64_t allowed = (uint64_t)inflate->fed_size * RATIO;
	inflate->made += out.pos - inflate->end;
	bool bomb = inflate->made > (allowed > ALWAYS_ALLOWED ? allowed : ALWAYS_ALLOWED);
	if (inflate->stream == NULL || ZSTD_isError(status) || bomb) {
		inflate->fed_at = inflate->fed_size;
		inflate->is_flushed = true;
		if (bomb)
			return err_set(err, STATUS_INPUT, "compressed record of %zu bytes holds more than %llu", inflate->fed_size,
			               (unsigned long long)allowed);
		return err_set(err, STATUS_INPUT, "compressed record: expected zstd: %s", ZSTD_getErrorName(status));
	}
	// Everything is out when the input is used up and the last call left room.
	inflate->fed_at = in.pos;
	inflate->is_flushed = in.pos == in.size && out.pos < OUT_BYTES;
	inflate->end = out.pos;
	return true;
}

uint8_t *inflate_peek(struct inflate *inflate, size_t need, size_t *available, struct err *err)
{
	while (inflate->end - inflate->begin < need && !inflate->is_flushed) {
		if (!step(inflate, err))
			return NULL;
	}
	*available = inflate->end - inflate->begin;
	return inflate->out + inflate->begin;
}

// Over the whole recording, as many small records may each grow as far as one may. Two measures, for bytes are copied and records are looked at. perf's copies of 64 KiB of a stack
// that stands still come to 1,300 times what they take, of zeros to 4,600 times: 11 bytes for a record, whose time at least is another one. So no record takes less than 8, and
// only where records are as large may there be so many bytes; small ones are bounded by their number.
enum { TOTAL_RATIO = 65536 / 8, TOTAL_BYTES = 64 << 20, TOTAL_RECORDS_A_BYTE = 8, TOTAL_RECORDS = 1 << 20 };

bool inflate_count(struct inflate_work *work, size_t size, struct err *err)
{
	work->bytes += size;
	work->records++;
	uint64_t bytes = work->fed * TOTAL_RATIO, records = work->fed * TOTAL_RECORDS_A_BYTE;
	bytes = bytes > TOTAL_BYTES ? bytes : TOTAL_BYTES;
	records = records > TOTAL_RECORDS ? records : TOTAL_RECORDS;
	if (work->bytes <= bytes && work->records <= records)
		return true;
	return err_set(err, STATUS_INPUT, "compressed records of %llu bytes in all hold more than %llu %s: expected no more than that (--salvage reads on)",
	               (unsigned long long)work->fed, (unsigned long long)(work->bytes > bytes ? bytes : records), work->bytes > bytes ? "bytes" : "records");
}

void inflate_skip(struct inflate *inflate, size_t size)
{
	inflate->begin += size;
}
