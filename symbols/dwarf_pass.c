// Passing over DIEs (7.5.2): nearly all of a unit's are of no interest, and all of them stand between those that are. So this is the
// innermost loop of reading a unit. An abbreviation tells it in 8 bytes how far the next DIE is (struct abbrev_hot); the end of the unit is
// looked for once a DIE, by more than a DIE that fits those 8 bytes can have. The last DIEs of a unit, and DIEs of other shapes, are passed
// one by one.
#include <dwarf.h>
#include <string.h>

#include "symbols/dwarf_internal.h"

// Bytes that a DIE may take without its end being looked at: its code, three groups of fixed size, two LEB128 numbers or short strings.
enum { LEB_BYTES = 10, STRING_BYTES = 64, REACH = 2 + 3 * UINT8_MAX + 2 * (1 + STRING_BYTES) };

static inline const uint8_t *behind_leb(const uint8_t *at)
{
	const uint8_t *limit = at + LEB_BYTES;
	while (*at >= 0x80)
		if (++at == limit)
			return NULL;
	return at + 1;
}

// Behind the value; NULL: it is not of the usual length, or ends less than REACH bytes before the end.
static inline const uint8_t *behind_varying(uint8_t form, const uint8_t *at, const uint8_t *end)
{
	size_t size;
	if (form == VARYING_ULEB)
		return behind_leb(at);
	if (form == VARYING_STRING) {
		const uint8_t *nul = memchr(at, '\0', STRING_BYTES);
		return nul != NULL ? nul + 1 : NULL;
	}
	size = *at++; // of a block
	if (size >= 0x80 && form == VARYING_BLOCK) {
		if (*at >= 0x80)
			return NULL;
		size = (size & 0x7f) | (size_t)*at++ << 7;
	}
	return (size_t)(end - at) >= size + REACH ? at + size : NULL;
}

static inline bool has_sibling(const struct dwarf_pass *p, const struct abbrev_hot *hot, const uint8_t *at, const uint8_t **sibling)
{
	uint32_t offset;
	memcpy(&offset, at + hot->sibling_at, sizeof(offset));
	uint64_t here = (uint64_t)(at + hot->size - p->b.start), target = p->unit->offset + offset;
	if (target < here || target >= p->unit->end || target > (uint64_t)(p->b.end - p->b.start))
		return false;
	*sibling = p->b.start + target;
	return true;
}

enum passed { PASSED_STOP, PASSED_END, PASSED_ONE_BY_ONE };

static enum passed pass_many(struct dwarf_pass *p, unsigned stops, unsigned skips)
{
	const struct abbrev_table *abbrevs = p->unit->abbrevs;
	const struct abbrev_hot *table = abbrevs->hot.data;
	const uint8_t met = (uint8_t)(stops | skips | DIE_LONG), *at = p->b.at, *const end = p->b.end, *const limit = end - REACH, *die = at;
	const size_t count = abbrevs->hot.count;
	size_t depth = p->depth;
	enum passed passed = PASSED_ONE_BY_ONE;
	for (; at <= limit; die = at) {
		size_t code = *at++;
		if (code >= 0x80)
			code = (code & 0x7f) | (size_t)*at++ << 7; // HOT_CODES or more where a third byte follows
		if (code >= count)
			break;
		const struct abbrev_hot *hot = &table[code];
		__builtin_prefetch(at + 512);
		if (__builtin_expect(hot->kinds & met, 0)) {
			const uint8_t *sibling;
			if ((hot->kinds & skips) && hot->sibling_at != NO_SIBLING && has_sibling(p, hot, at, &sibling)) {
				at = sibling;
				continue;
			}
			if (hot->kinds & stops) {
				p->entry = &abbrevs->entries.data[code - 1];
				passed = PASSED_STOP;
				break;
			}
			if (hot->kinds & DIE_LONG)
				break;
		}
		at += hot->size;
		if (hot->varying[0].form != VARYING_NONE) {
			at = behind_varying(hot->varying[0].form, at, end);
			if (at == NULL)
				break;
			at += hot->varying[0].size;
			if (hot->varying[1].form != VARYING_NONE) {
				at = behind_varying(hot->varying[1].form, at, end);
				if (at == NULL)
					break;
				at += hot->varying[1].size;
			}
		}
		depth += (size_t)(ptrdiff_t)hot->depth;
		if (depth == 0) {
			passed = PASSED_END;
			break;
		}
	}
	p->b.at = passed == PASSED_ONE_BY_ONE ? die : at;
	p->die = (uint64_t)(die - p->b.start);
	p->depth = depth;
	return passed;
}

static enum passed pass_one(struct dwarf_pass *p, unsigned stops, unsigned skips)
{
	p->die = bytes_offset(&p->b);
	uint64_t code = dwarf_uleb(&p->b);
	if (code == 0)
		return p->b.bad || --p->depth == 0 ? PASSED_END : PASSED_ONE_BY_ONE;
	p->entry = abbrev_find(p->unit->abbrevs, code);
	if (p->entry == NULL) {
		p->b.bad = true;
		return PASSED_END;
	}
	if ((p->entry->kinds & skips) && dwarf_skip_to_sibling(p->unit, p->entry, &p->b))
		return PASSED_ONE_BY_ONE;
	if (p->entry->kinds & stops)
		return PASSED_STOP;
	dwarf_skip_attributes(p->unit, p->entry, &p->b);
	p->depth += p->entry->has_children;
	return p->depth == 0 ? PASSED_END : PASSED_ONE_BY_ONE;
}

bool dwarf_pass(struct dwarf_pass *p, unsigned stops, unsigned skips)
{
	enum passed passed = PASSED_ONE_BY_ONE;
	while (passed == PASSED_ONE_BY_ONE) {
		if (bytes_left(&p->b) == 0 || p->b.bad)
			return false;
		if (!p->b.swap && bytes_left(&p->b) >= REACH && p->unit->abbrevs->hot.count > 0)
			passed = pass_many(p, stops, skips);
		if (passed == PASSED_ONE_BY_ONE)
			passed = pass_one(p, stops, skips);
	}
	return passed == PASSED_STOP;
}

bool dwarf_jump(const struct dwarf_unit *unit, uint64_t sibling, struct bytes *b)
{
	uint64_t here = bytes_offset(b), target = unit->offset + sibling;
	if (b->bad || target < here || target >= unit->end || target - here > bytes_left(b))
		return false;
	bytes_skip(b, target - here);
	return true;
}

bool dwarf_skip_to_sibling(const struct dwarf_unit *unit, const struct abbrev *entry, struct bytes *from)
{
	if (entry->sibling < 0)
		return false;
	struct bytes b = *from;
	const struct abbrev_attr *attr = &unit->abbrevs->attrs.data[entry->first];
	for (int32_t i = 0; i < entry->sibling; i++)
		form_skip(unit, attr++, &b);
	struct dwarf_value v;
	form_read(unit, attr, &b, &v);
	if (v.form == DW_FORM_ref_addr || !dwarf_jump(unit, v.u, &b))
		return false;
	*from = b;
	return true;
}
