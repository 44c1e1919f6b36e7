// Call frame information as it stands in a file: CIEs, FDEs, and where an image keeps them. Pure but for the sections' decompression: no errors but "bad".
// What the instructions in them say is the unwinder's business (unwind/cfi.h); symbols/ asks where functions begin and end.
//
// Formats: DWARF 5, 6.4 and 7.24 (.debug_frame, CIE versions 1, 3, 4); LSB 5.0 Core, 10.6 (.eh_frame, .eh_frame_hdr); GNU and
// AArch64 additions as binutils' dwarf2.h and the AArch64 DWARF ABI name them.
#ifndef PERFSAMPLE_ELF_CFI_H
#define PERFSAMPLE_ELF_CFI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "elf/image.h"

struct cfi_section {
	struct bytes data;
	uint64_t vaddr;      // of data.start
	uint64_t text_vaddr; // base of DW_EH_PE_textrel
	uint64_t data_vaddr; // base of DW_EH_PE_datarel
	uint16_t machine;
	bool is_debug_frame;
	uint8_t address_bytes; // 4 or 8
};

struct cfi_cie {
	size_t offset; // in the section
	uint64_t code_align;
	int64_t data_align;
	uint64_t ra_register;
	uint8_t fde_encoding, address_bytes, segment_bytes;
	bool is_signal, has_data; // 'S', 'z'
	struct bytes instructions;
};

struct cfi_fde {
	struct cfi_cie cie;
	uint64_t start, end; // vaddrs
	struct bytes instructions;
};

enum cfi_entry_kind { CFI_CIE, CFI_FDE, CFI_END, CFI_BAD };
struct cfi_entry {
	enum cfi_entry_kind kind;
	size_t offset, next; // of this entry, of the one behind it
	size_t cie_offset;   // FDE
	struct bytes body;   // behind the id
};
// The entry at `offset`. CFI_END at a zero length or at the section's end; CFI_BAD when its length leaves the section, which
// makes everything behind it unreadable too.
struct cfi_entry cfi_entry_at(const struct cfi_section *section, size_t offset);
bool cfi_read_cie(const struct cfi_section *section, const struct cfi_entry *entry, struct cfi_cie *out);
// `out->cie` must hold the entry's CIE already.
bool cfi_read_fde(const struct cfi_section *section, const struct cfi_entry *entry, struct cfi_fde *out);
// The FDE at `offset`, with its CIE. `cie` is the one that was read last, where `has_cie`: most FDEs that follow one another share it. false: no FDE
// stands there, or it cannot be read.
bool cfi_fde_at(const struct cfi_section *section, size_t offset, struct cfi_cie *cie, bool *has_cie, struct cfi_fde *out);

// A pointer encoded as DW_EH_PE `encoding`; sets cursor->bad where it cannot be had (omitted, indirect, unknown).
uint64_t cfi_pointer(const struct cfi_section *section, struct bytes *cursor, uint8_t encoding, uint64_t function_vaddr);

// ---------------------------------------------------------------- where an image keeps it

struct cfi_header { // .eh_frame_hdr
	struct bytes table; // at its first pair of 32 bits, where is_usable
	uint64_t vaddr, eh_frame_vaddr, count;
	bool is_usable; // the table has the one form that linkers write
};
bool cfi_read_header(const struct image *image, struct cfi_header *out); // false: none, or it cannot be read
// .eh_frame, found by its section or, where there are none, through the header (NULL: there is none): then `*stops_at_zero`, as only its terminator tells where it ends.
bool cfi_find_eh_frame(const struct image *image, const struct cfi_header *header, struct cfi_section *out, bool *stops_at_zero);
// .debug_frame, decompressed into `storage` where it is compressed.
bool cfi_find_debug_frame(const struct image *image, struct buf *storage, struct cfi_section *out);
// Whether the FDE is one of code that the image has: empty ones, and those of functions that the linker threw away, are not.
bool cfi_fde_has_code(const struct image *image, const struct cfi_section *section, const struct cfi_fde *fde);

#endif
