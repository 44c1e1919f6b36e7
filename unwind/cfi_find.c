#include "unwind/cfi_find.h"

#include <string.h>

enum { PE_ABSOLUTE = 0x00, PE_PCREL = 0x10, CIE_BYTES_MOST = 256, FDE_BYTES_MOST = 1 << 16 };

// Compilers write these: version 1 or 3, augmentation z with an R. Anything else is taken for what looks like one.
static bool is_cie_at(const struct cfi_section *memory, size_t offset, struct cfi_entry *entry, struct cfi_cie *cie)
{
	const uint8_t *at = memory->data.start + offset;
	uint32_t length, id;

	if ((size_t)(memory->data.end - at) < 16 || memory->data.swap)
		return false;
	memcpy(&length, at, sizeof(length));
	memcpy(&id, at + 4, sizeof(id));
	if (id != 0 || length < 12 || length > CIE_BYTES_MOST || length % 4 != 0 || (at[8] != 1 && at[8] != 3) || at[9] != 'z')
		return false;
	*entry = cfi_entry_at(memory, offset);
	if (entry->kind != CFI_CIE || !cfi_read_cie(memory, entry, cie) || cie->code_align == 0 || cie->data_align >= 0 ||
	    cie->ra_register >= UNWIND_REGISTERS)
		return false;
	const char *augmentation = (const char *)at + 9; // ends within the entry: it was read
	// Where text and data are nobody knows here.
	return strchr(augmentation, 'R') != NULL && ((cie->fde_encoding & 0xf0) == PE_ABSOLUTE || (cie->fde_encoding & 0xf0) == PE_PCREL);
}

// An FDE whose CIE stands in the same section, from `first` on; `cie` is the last one that was read.
static bool is_fde_of(const struct cfi_section *memory, const struct cfi_entry *entry, size_t first, struct cfi_cie *cie, struct cfi_fde *fde)
{
	struct cfi_entry other;

	if (entry->kind != CFI_FDE || entry->next - entry->offset > FDE_BYTES_MOST || entry->cie_offset < first)
		return false;
	if (entry->cie_offset != cie->offset && !is_cie_at(memory, entry->cie_offset, &other, cie))
		return false;
	fde->cie = *cie;
	return cfi_read_fde(memory, entry, fde);
}

bool cfi_find(const struct cfi_section *memory, size_t from, uint64_t start, uint64_t end, struct cfi_found *out)
{
	size_t size = (size_t)(memory->data.end - memory->data.start);
	struct cfi_entry entry;
	struct cfi_cie cie;

	for (size_t offset = (from + 3) / 4 * 4; offset < size; offset += 4) {
		if (!is_cie_at(memory, offset, &entry, &cie))
			continue;
		bool describes = false;
		out->start = offset;
		out->end = entry.next;
		for (;;) {
			entry = cfi_entry_at(memory, out->end);
			struct cfi_fde fde;
			if (entry.kind == CFI_CIE) {
				if (!is_cie_at(memory, out->end, &entry, &cie))
					break;
			} else if (is_fde_of(memory, &entry, out->start, &cie, &fde)) {
				describes |= fde.start < fde.end && fde.start >= start && fde.end <= end;
			} else {
				break;
			}
			out->end = entry.next;
		}
		if (describes)
			return true;
		offset = out->end - 4; // what was read is no start of another
	}
	return false;
}
