#include "perfdata/note.h"

#include "tests/tap.h"

static void round_trip(void)
{
	struct frame frames[300];
	for (size_t i = 0; i < 300; i++)
		frames[i] = (struct frame){ .addr = i, .kind = i == 0 ? FRAME_LEAF : i == 5 ? FRAME_INTERRUPTED : FRAME_RETURN, .via = i < 200 ? VIA_CFI : VIA_FP };
	for (size_t raw_size = 0; raw_size < 20; raw_size++) {
		for (size_t count = 0; count <= 300; count += count < 8 ? 1 : 73) {
			struct buf out = { 0 };
			uint8_t raw[20], kinds[300];
			memset(raw, 0x5a, sizeof(raw));
			memset(kinds, 0xee, sizeof(kinds));
			buf_u64(&out, 0); // what stands before it in a record
			note_encode(&out, &(struct note){ UNWIND_BAD_READ, SPLICE_CHECKED }, frames, count, raw, raw_size);
			uint32_t size;
			memcpy(&size, out.data + 8, sizeof(size));
			struct note note;
			size_t covered, own;
			bool found = note_decode((const uint8_t *)out.data + 12, size, &note, kinds, 300, &covered, &own);
			bool good = out.size % 8 == 0 && size + 12 == out.size && found && covered == count && own == raw_size &&
			            note.end == UNWIND_BAD_READ && note.splice == SPLICE_CHECKED && memcmp(out.data + 12, raw, raw_size) == 0;
			for (size_t i = 0; i < 300; i++)
				good = good && kinds[i] == (i < count ? frames[i].kind << 4 | frames[i].via : 0xee);
			if (!good)
				ok(false, "note of %zu frames behind %zu bytes", count, raw_size);
			buf_release(&out);
		}
	}
	ok(true, "notes come back, behind 0 to 19 bytes of a tracepoint");
}

static void hostile(void)
{
	struct note note;
	uint8_t kinds[4] = { 0 };
	size_t covered, own;
	uint8_t plain[40] = { 1, 0, 0, 0, 3, 0x11, 0 };
	memcpy(plain + 36, "PSn1", 4);
	plain[32] = 40;
	ok(note_decode(plain, 40, &note, kinds, 4, &covered, &own) && covered == 3 && own == 0, "a note made by hand");
	ok(!note_decode(plain + 40, 0, &note, kinds, 4, &covered, &own) && own == 0, "no bytes, no note");
	ok(!note_decode(plain, 39, &note, kinds, 4, &covered, &own) && own == 39, "no magic at the end: all is the event's own");
	static const struct { int at; uint8_t value; const char *what; } wrong[] = {
		{ 32, 41, "length beyond the data" }, { 32, 11, "length below head and tail" }, { 0, 2, "another version" },
		{ 1, UNWIND_END_COUNT, "an unknown end" }, { 2, 3, "an unknown splice" }, { 5, 0xf0, "an unknown kind" } };
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		uint8_t copy[40];
		memcpy(copy, plain, 40);
		copy[wrong[i].at] = wrong[i].value;
		ok(!note_decode(copy, 40, &note, kinds, 4, &covered, &own) && covered == 0 && own == 40, "%s", wrong[i].what);
	}
	uint8_t huge[40];
	memcpy(huge, plain, 40);
	memcpy(huge + 4, "\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x11", 10);
	ok(!note_decode(huge, 40, &note, kinds, 4, &covered, &own), "a run of 2^63 frames");
}

int main(void)
{
	round_trip();
	hostile();
	return tap_done();
}
