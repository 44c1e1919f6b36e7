// Range lists (2.17.3, 7.25; DWARF 4: .debug_ranges), and which unit has an address.
#include <dwarf.h>

#include "symbols/dwarf_internal.h"

// In one list, and in all that a file has read: units and functions may share lists, by intent or to make work without end.
enum { RANGES_LIMIT = 1 << 20, ALL_RANGES_LIMIT = 1 << 26 };

static bool indexed_address(struct dwarf_unit *unit, uint64_t index, uint64_t *addr)
{
	return value_address(unit, &(struct dwarf_value){ .form = DW_FORM_addrx, .u = index }, addr);
}

// One entry of a .debug_rnglists list; false at its end.
static inline bool rnglist_entry(struct dwarf_unit *unit, struct bytes *b, uint64_t *base, uint64_t *lo, uint64_t *hi)
{
	uint64_t index;
	*lo = *hi = 0;
	switch (bytes_u8(b)) {
	case DW_RLE_offset_pair:
		*lo = *base + dwarf_uleb(b);
		*hi = *base + dwarf_uleb(b);
		break;
	case DW_RLE_base_addressx: return indexed_address(unit, dwarf_uleb(b), base) && !b->bad;
	case DW_RLE_startx_endx:
		index = dwarf_uleb(b);
		return indexed_address(unit, index, lo) && indexed_address(unit, dwarf_uleb(b), hi) && !b->bad;
	case DW_RLE_startx_length:
		index = dwarf_uleb(b);
		if (!indexed_address(unit, index, lo))
			return false;
		*hi = *lo + dwarf_uleb(b);
		break;
	case DW_RLE_base_address: *base = dwarf_address(unit, b); break;
	case DW_RLE_start_end:
		*lo = dwarf_address(unit, b);
		*hi = dwarf_address(unit, b);
		break;
	case DW_RLE_start_length:
		*lo = dwarf_address(unit, b);
		*hi = *lo + dwarf_uleb(b);
		break;
	default: return false; // DW_RLE_end_of_list, or not known
	}
	return !b->bad;
}

// Entries of the kind that nearly all are of, with numbers of one or two bytes, as far as they go.
static size_t offset_pairs(struct bytes *b, uint64_t base, size_t limit, struct dwarf_range_list *out)
{
	size_t count = 0;
	const uint8_t *at = b->at;
	for (; b->end - at >= 5 && *at == DW_RLE_offset_pair && count < limit; count++) {
		const uint8_t *next = at + 1;
		uint64_t lo = *next++, hi;
		if (lo >= 0x80)
			lo = (lo & 0x7f) | (uint64_t)*next++ << 7;
		hi = *next++;
		if (hi >= 0x80)
			hi = (hi & 0x7f) | (uint64_t)*next++ << 7;
		if ((lo | hi) >= 1 << 14)
			break;
		at = next;
		if (hi > lo && base + lo > 1)
			vec_push(out, (struct dwarf_range){ base + lo, base + hi });
	}
	b->at = at;
	return count;
}

// One entry of a .debug_ranges list (DWARF 4, 2.17.3); false at its end.
static bool range_entry(struct dwarf_unit *unit, struct bytes *b, uint64_t *base, uint64_t *lo, uint64_t *hi)
{
	uint64_t first = dwarf_address(unit, b), second = dwarf_address(unit, b);
	*lo = *hi = 0;
	if (b->bad || (first == 0 && second == 0))
		return false;
	if (first == (unit->address_size == 8 ? UINT64_MAX : UINT32_MAX)) {
		*base = second;
		return true;
	}
	*lo = *base + first;
	*hi = *base + second;
	return true;
}

// Where list `index` starts (DW_FORM_rnglistx): offsets stand at the unit's base.
static inline uint64_t indexed_list(struct dwarf_unit *unit, struct bytes section, uint64_t index)
{
	uint64_t base = unit->rnglists_base;
	// A split file's only table stands behind its header: length, version, sizes, count (7.28).
	if (base == 0 && unit->dwarf->is_split)
		base = unit->rnglists_at + (unit->offset_size == 8 ? 20 : 12);
	if (index > UINT32_MAX)
		return UINT64_MAX;
	bytes_skip(&section, base);
	bytes_skip(&section, index * unit->offset_size);
	uint64_t offset = dwarf_offset(unit, &section);
	return section.bad ? UINT64_MAX : base + offset;
}

void dwarf_ranges(struct dwarf_unit *unit, const struct dwarf_value *ranges, struct dwarf_range_list *out)
{
	struct dwarf_unit *skeleton = unit->skeleton != NULL ? unit->skeleton : unit;
	uint64_t base = skeleton->has_low ? skeleton->low_pc : 0, offset = ranges->u, lo, hi;
	// GNU split DWARF 4 keeps ranges in the linked file, from the skeleton's DW_AT_GNU_ranges_base on.
	struct dwarf *owner = unit->version < 5 ? skeleton->dwarf : unit->dwarf;
	struct bytes b = dwarf_section(owner, unit->version < 5 ? DWARF_RANGES : DWARF_RNGLISTS);
	if (ranges->form == DW_FORM_rnglistx)
		offset = indexed_list(unit, b, ranges->u);
	else if (unit->skeleton != NULL && unit->version < 5)
		offset += skeleton->ranges_base;
	bytes_skip(&b, offset);
	// Threads may lose each other's counts; the limit is not that exact.
	uint64_t read_before = __atomic_load_n(&unit->dwarf->ranges_read, __ATOMIC_RELAXED);
	size_t read = 0, limit = read_before < ALL_RANGES_LIMIT ? RANGES_LIMIT : 0;
	while (read < limit && !b.bad) {
		if (unit->version >= 5)
			read += offset_pairs(&b, base, limit - read, out);
		if (!(unit->version < 5 ? range_entry(unit, &b, &base, &lo, &hi) : rnglist_entry(unit, &b, &base, &lo, &hi)))
			break;
		read++;
		// Code that the linker threw away keeps its ranges, at 0 or 1 or -1 (lld: -2 too).
		if (hi > lo && lo > 1)
			vec_push(out, (struct dwarf_range){ lo, hi });
	}
	__atomic_store_n(&unit->dwarf->ranges_read, read_before + read, __ATOMIC_RELAXED);
}

// ---------------------------------------------------------------- which unit

static void read_aranges(struct dwarf *dwarf)
{
	struct bytes b = dwarf_section(dwarf, DWARF_ARANGES);
	while (bytes_left(&b) > 0 && !b.bad) {
		struct dwarf_unit shape = { .offset_size = 4 };
		uint64_t length = bytes_u32(&b);
		if (length == 0xffffffff) {
			length = bytes_u64(&b);
			shape.offset_size = 8;
		}
		struct bytes set = bytes_sub(&b, length);
		uint16_t version = bytes_u16(&set);
		uint64_t unit = dwarf_offset(&shape, &set);
		shape.address_size = bytes_u8(&set);
		if (version != 2 || bytes_u8(&set) != 0 || (shape.address_size != 8 && shape.address_size != 4))
			continue;
		// Tuples are aligned to their size from the start of the set.
		size_t header = (shape.offset_size == 8 ? 12 : 4) + bytes_offset(&set), tuple = 2u * shape.address_size;
		bytes_skip(&set, (tuple - header % tuple) % tuple);
		uint32_t value = (uint32_t)dwarf->unit_offsets.count;
		vec_push(&dwarf->unit_offsets, unit);
		while (bytes_left(&set) >= tuple) {
			uint64_t lo = dwarf_address(&shape, &set), size = dwarf_address(&shape, &set);
			if (lo > 1 && lo + size > lo)
				span_add(&dwarf->by_addr, lo, lo + size, value);
		}
	}
}

static void add_unit_ranges(struct dwarf *dwarf, struct dwarf_unit *unit)
{
	if (!dwarf_unit_root(unit))
		return;
	struct bytes b = dwarf_unit_bytes(unit, unit->first_die);
	const struct abbrev *entry = abbrev_find(unit->abbrevs, dwarf_uleb(&b));
	struct dwarf_value ranges = { 0 }, high = { 0 };
	bool has_ranges = false, has_high = false;
	for (uint32_t i = 0; entry != NULL && i < entry->count && !b.bad; i++) {
		const struct abbrev_attr *attr = &unit->abbrevs->attrs.data[entry->first + i];
		struct dwarf_value v;
		form_read(unit, attr, &b, &v);
		if (attr->name == DW_AT_ranges) {
			ranges = v;
			has_ranges = true;
		} else if (attr->name == DW_AT_high_pc) {
			high = v;
			has_high = true;
		}
	}
	uint32_t value = (uint32_t)dwarf->unit_offsets.count;
	struct dwarf_range_list list = { 0 };
	vec_push(&dwarf->unit_offsets, unit->offset);
	uint64_t hi;
	if (has_ranges) {
		dwarf_ranges(unit, &ranges, &list);
	} else if (has_high && unit->has_low && unit->low_pc > 1) {
		if (!value_address(unit, &high, &hi))
			hi = unit->low_pc + high.u; // an offset (2.17.2)
		span_add(&dwarf->by_addr, unit->low_pc, hi, value);
	}
	for (size_t i = 0; i < list.count; i++)
		span_add(&dwarf->by_addr, list.data[i].lo, list.data[i].hi, value);
	vec_release(&list);
}

// Units that .debug_aranges does not mention (clang writes none): by the ranges of their root DIEs.
static void read_all_ranges(struct dwarf *dwarf)
{
	struct hash_map mentioned = { 0 };
	for (size_t i = 0; i < dwarf->unit_offsets.count; i++)
		hash_map_put(&mentioned, dwarf->unit_offsets.data[i], 0, NULL);
	span_release(&dwarf->by_addr);
	dwarf->by_addr = (struct span_table){ 0 };
	vec_clear(&dwarf->unit_offsets);
	read_aranges(dwarf);
	dwarf_walk_units(dwarf, UINT64_MAX);
	for (size_t i = 0; i < dwarf->slots.count; i++) {
		if (hash_map_get(&mentioned, dwarf->slots.data[i].offset) != NULL)
			continue;
		struct dwarf_unit *unit = dwarf_unit_at(dwarf, dwarf->slots.data[i].offset);
		if (unit != NULL && (unit->type == DW_UT_compile || unit->type == DW_UT_skeleton))
			add_unit_ranges(dwarf, unit);
	}
	span_finish(&dwarf->by_addr);
	hash_map_release(&mentioned);
}

struct dwarf_unit *dwarf_unit_for_address(struct dwarf *dwarf, uint64_t vaddr)
{
	if (!dwarf->has_aranges) {
		dwarf->has_aranges = true;
		read_aranges(dwarf);
		span_finish(&dwarf->by_addr);
	}
	uint32_t found = span_find(&dwarf->by_addr, vaddr);
	if (found == SPAN_NONE && !dwarf->has_all_ranges) {
		dwarf->has_all_ranges = true;
		read_all_ranges(dwarf);
		found = span_find(&dwarf->by_addr, vaddr);
	}
	return found != SPAN_NONE ? dwarf_unit_at(dwarf, dwarf->unit_offsets.data[found]) : NULL;
}
