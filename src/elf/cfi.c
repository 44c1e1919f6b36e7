#include "elf/cfi.h"

#include <string.h>

enum { // DW_EH_PE_*: LSB 5.0 Core, 10.5.1
	PE_ABSPTR = 0x00, PE_ULEB = 0x01, PE_UDATA2 = 0x02, PE_UDATA4 = 0x03, PE_UDATA8 = 0x04,
	PE_SLEB = 0x09, PE_SDATA2 = 0x0a, PE_SDATA4 = 0x0b, PE_SDATA8 = 0x0c,
	PE_PCREL = 0x10, PE_TEXTREL = 0x20, PE_DATAREL = 0x30, PE_FUNCREL = 0x40, PE_ALIGNED = 0x50,
	PE_INDIRECT = 0x80, PE_OMIT = 0xff,
};

static uint64_t narrow(const struct cfi_section *section, uint64_t value)
{
	return section->address_bytes == 4 ? (uint32_t)value : value;
}

static uint64_t position(const struct cfi_section *section, const struct bytes *cursor)
{
	return section->vaddr + (uint64_t)(cursor->at - section->data.start);
}

static uint64_t fixed(struct bytes *cursor, uint8_t format, uint8_t address_bytes)
{
	switch (format) {
	case PE_ABSPTR:
		return address_bytes == 4 ? bytes_u32(cursor) : address_bytes == 2 ? bytes_u16(cursor) : bytes_u64(cursor);
	case PE_ULEB:
		return bytes_uleb(cursor);
	case PE_UDATA2:
		return bytes_u16(cursor);
	case PE_UDATA4:
		return bytes_u32(cursor);
	case PE_UDATA8:
	case PE_SDATA8:
		return bytes_u64(cursor);
	case PE_SLEB:
		return (uint64_t)bytes_sleb(cursor);
	case PE_SDATA2:
		return (uint64_t)(int16_t)bytes_u16(cursor);
	case PE_SDATA4:
		return (uint64_t)(int32_t)bytes_u32(cursor);
	default:
		cursor->bad = true;
		return 0;
	}
}

uint64_t cfi_pointer(const struct cfi_section *section, struct bytes *cursor, uint8_t encoding, uint64_t function_vaddr)
{
	uint64_t base = 0;

	if (encoding == PE_OMIT || (encoding & PE_INDIRECT) != 0) { // the word it points at is filled by the dynamic linker
		cursor->bad = true;
		return 0;
	}
	switch (encoding & 0x70) {
	case PE_ABSPTR:
		break;
	case PE_PCREL:
		base = position(section, cursor);
		break;
	case PE_TEXTREL:
		base = section->text_vaddr;
		break;
	case PE_DATAREL:
		base = section->data_vaddr;
		break;
	case PE_FUNCREL:
		base = function_vaddr;
		break;
	case PE_ALIGNED:
		bytes_skip(cursor, -position(section, cursor) & (uint64_t)(section->address_bytes - 1));
		break;
	default:
		cursor->bad = true;
	}
	return narrow(section, base + fixed(cursor, encoding & 0x0f, section->address_bytes));
}

struct cfi_entry cfi_entry_at(const struct cfi_section *section, size_t offset)
{
	struct cfi_entry entry = { .kind = CFI_BAD, .offset = offset, .next = offset };
	struct bytes cursor = section->data;

	cursor.at = cursor.start;
	bytes_skip(&cursor, offset);
	if (cursor.bad)
		return entry;
	if (bytes_left(&cursor) < 4) {
		entry.kind = CFI_END;
		return entry;
	}
	uint64_t length = bytes_u32(&cursor);
	bool is_64 = length == 0xffffffff;
	if (is_64)
		length = bytes_u64(&cursor);
	if (length == 0) {
		// .eh_frame ends at a zero word; a linker may leave several, from crtend.o before other objects.
		entry.kind = CFI_END;
		entry.next = bytes_offset(&cursor);
		return entry;
	}
	if (cursor.bad || length > bytes_left(&cursor) || (length >= 0xfffffff0 && !is_64))
		return entry;
	entry.next = bytes_offset(&cursor) + (size_t)length;
	cursor.end = cursor.at + length;
	size_t id_at = bytes_offset(&cursor);
	// .eh_frame's id has four bytes whatever the length's form (LSB 10.6.1.1) and counts backwards from itself.
	uint64_t id = is_64 && section->is_debug_frame ? bytes_u64(&cursor) : bytes_u32(&cursor);
	if (cursor.bad)
		return entry;
	entry.body = cursor;
	if (section->is_debug_frame) {
		bool is_cie = id == (is_64 ? UINT64_MAX : UINT32_MAX);
		entry.kind = is_cie ? CFI_CIE : CFI_FDE;
		entry.cie_offset = (size_t)id;
	} else {
		entry.kind = id == 0 ? CFI_CIE : id <= id_at ? CFI_FDE : CFI_BAD;
		entry.cie_offset = id_at - (size_t)id;
	}
	return entry;
}

// The data behind a 'z' augmentation, letter by letter. An unknown letter ends the reading: what it brings is not known, but its
// length is, and the rules need none of it.
static void read_augmentation(const struct cfi_section *section, const char *letters, struct bytes data, struct cfi_cie *out)
{
	for (; *letters != '\0'; letters++) {
		uint8_t encoding;
		switch (*letters) {
		case 'R':
			out->fde_encoding = bytes_u8(&data);
			break;
		case 'P':
			encoding = bytes_u8(&data);
			if (encoding != PE_OMIT)
				cfi_pointer(section, &data, encoding & (uint8_t)~PE_INDIRECT, 0);
			break;
		case 'L':
			bytes_u8(&data);
			break;
		case 'S':
			out->is_signal = true;
			break;
		case 'B': // AArch64: return addresses are signed with key B; the mask removes either key's signature
		case 'G': // AArch64: the frame's stack is tagged
			break;
		default:
			return;
		}
	}
}

bool cfi_read_cie(const struct cfi_section *section, const struct cfi_entry *entry, struct cfi_cie *out)
{
	struct bytes cursor = entry->body;

	*out = (struct cfi_cie){ .offset = entry->offset, .address_bytes = section->address_bytes };
	uint8_t version = bytes_u8(&cursor);
	if (version != 1 && version != 3 && version != 4)
		return false;
	const char *augmentation = bytes_cstr(&cursor);
	if (version == 4) {
		out->address_bytes = bytes_u8(&cursor);
		out->segment_bytes = bytes_u8(&cursor);
		if ((out->address_bytes != 4 && out->address_bytes != 8) || out->segment_bytes > 8)
			return false;
	}
	if (strcmp(augmentation, "eh") == 0) // gcc 2: a pointer to exception data
		bytes_skip(&cursor, out->address_bytes);
	out->code_align = bytes_uleb(&cursor);
	out->data_align = bytes_sleb(&cursor);
	out->ra_register = version == 1 ? bytes_u8(&cursor) : bytes_uleb(&cursor);
	if (augmentation[0] == 'z') {
		out->has_data = true;
		struct bytes data = bytes_sub(&cursor, (size_t)bytes_uleb(&cursor));
		read_augmentation(section, augmentation + 1, data, out);
	} else if (augmentation[0] != '\0' && strcmp(augmentation, "eh") != 0) {
		return false; // data of unknown length may follow
	}
	out->instructions = cursor;
	return !cursor.bad;
}

bool cfi_read_fde(const struct cfi_section *section, const struct cfi_entry *entry, struct cfi_fde *out)
{
	struct bytes cursor = entry->body;
	uint64_t size;

	if (section->is_debug_frame) {
		bytes_skip(&cursor, out->cie.segment_bytes);
		out->start = fixed(&cursor, PE_ABSPTR, out->cie.address_bytes);
		size = fixed(&cursor, PE_ABSPTR, out->cie.address_bytes);
	} else {
		out->start = cfi_pointer(section, &cursor, out->cie.fde_encoding, 0);
		size = narrow(section, fixed(&cursor, out->cie.fde_encoding & 0x0f, section->address_bytes)); // a length, no address
	}
	if (out->cie.has_data)
		bytes_skip(&cursor, (size_t)bytes_uleb(&cursor));
	out->end = out->start + size;
	out->instructions = cursor;
	return !cursor.bad && out->end >= out->start;
}

bool cfi_fde_at(const struct cfi_section *section, size_t offset, struct cfi_cie *cie, bool *has_cie, struct cfi_fde *out)
{
	struct cfi_entry entry = cfi_entry_at(section, offset);
	if (entry.kind != CFI_FDE)
		return false;
	if (!*has_cie || cie->offset != entry.cie_offset) {
		struct cfi_entry of_cie = cfi_entry_at(section, entry.cie_offset);
		*has_cie = of_cie.kind == CFI_CIE && cfi_read_cie(section, &of_cie, cie);
		if (!*has_cie)
			return false;
	}
	out->cie = *cie;
	return cfi_read_fde(section, &entry, out);
}
