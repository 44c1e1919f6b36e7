// One constant table per architecture: unwind/arch/NAME.c defines `const struct unwind_arch unwind_arch_NAME`. Chosen at run time by
// the image's machine, never by #ifdef in neutral code.
#ifndef PERFSAMPLE_UNWIND_ARCH_H
#define PERFSAMPLE_UNWIND_ARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "unwind/code_rule.h"

// DWARF registers the evaluator keeps: enough for x86-64 (17) and aarch64 (33, and VG, which has a place of its own).
enum { UNWIND_REGISTERS = 34, UNWIND_VG = 33 };
enum { UNWIND_CALL_BYTES = 8, UNWIND_CODE_BYTES = 16, UNWIND_EXIT_BYTES = 24, UNWIND_THREAD_BYTES = 32, UNWIND_THREAD_BEFORE = 8, UNWIND_JUMP_BYTES = 256 };

enum unwind_framed { FRAMED_UNSAID, FRAMED, FRAMED_NOT };

// Where a signal frame that no CFI describes keeps the interrupted registers, counted from sp at the trampoline.
struct unwind_sigframe {
	uint16_t pc, sp, fp, lr; // lr: where there is one
	// A pair of fp and lr as they were, which the kernel puts above all that, this far at least: the handler's frame pointer leads to it. 0: there is none.
	uint16_t pair;
};

struct unwind_arch {
	const char *name;
	uint16_t machine;       // EM_*
	uint8_t word_bytes;
	uint8_t dwarf_sp, dwarf_fp, dwarf_ra; // DWARF register numbers (psABI)
	uint8_t perf_pc, perf_sp, perf_fp, perf_lr; // asm/perf_regs.h; perf_lr 0xff: none
	uint64_t perf_mask;     // registers to ask the kernel for
	uint8_t dwarf_to_perf[UNWIND_REGISTERS]; // 0xff: not delivered
	uint64_t callee_saved;  // DWARF registers that every function leaves as they were, a bit each
	uint64_t ra_mask;       // bits of a return address that count (PAC stripped)
	bool signs_addresses;   // a signature may stand in bits of return addresses that `ra_mask` keeps, where addresses have fewer
	uint64_t addr_end;      // first address that user space cannot have
	// The frame pointer points at {caller's frame pointer, return address}, and the caller's sp is right above them (x86). Where it
	// is not (aarch64 puts the pair at the frame's low end), sp is unknown after such a step.
	bool fp_gives_sp;
	uint8_t red_zone_bytes; // below sp, which signal handlers leave alone (AMD64 psABI, 3.2.2)
	// The bytes that end at a return address: are they a call? `size` (at most UNWIND_CALL_BYTES) of them are there. For a direct call
	// `*distance` is where it goes, counted from `end`, else 0. NULL: nothing is guessed on this machine.
	bool (*is_call)(const uint8_t *end, size_t size, int64_t *distance);
	// Where the next call that begins at `from` or behind it ends, by its bytes; above `size`: there is none. NULL with is_call.
	size_t (*next_call)(const uint8_t *code, size_t size, size_t from);
	// Where nothing is mapped by the records: is it where the kernel has return probes return to? That is the highest page of user space if nothing else was
	// there (xol_add_vma in kernel/events/uprobes.c), and no record tells of it.
	bool (*is_probe_return)(uint64_t addr);
	// The bytes at an address: a stub that jumps on through a table, as in a PLT?
	bool (*is_stub)(const uint8_t *code, size_t size);
	// The UNWIND_JUMP_BYTES bytes at a function: does it set up no frame, and seem to jump on to another function? Bytes are not decoded.
	// NULL: not asked, as the link register keeps addresses of calls long past.
	bool (*jumps_on)(const uint8_t *code, size_t size);
	// The bytes at an address: the `sigreturn` trampoline?
	bool (*is_sigreturn)(const uint8_t *code, size_t size);
	// Among the bytes from one address to another: does a function end there? What stands behind is another one then. Bytes are not
	// decoded where instructions differ in length: a constant may pass for an end.
	bool (*has_end)(const uint8_t *code, size_t size);
	// The bytes that end at an address (link-time, for alignment): has the function that they are of set up a frame (and not begun to leave it), or
	// none yet? Bytes are not decoded: what may be an instruction that leaves is taken for one. NULL: not asked.
	enum unwind_framed (*in_frame)(const uint8_t *end, size_t size, uint64_t end_addr);
	// The rule that the instructions from a pc on tell (code_rule.h), and perf's registers by their number in them. NULL: none is told.
	code_follow_fn *follow;
	uint8_t insn_to_perf[16];
	// What a function has done from its beginning on, which is guessed. NULL with `follow`.
	code_enter_fn *enter;
	// The bytes at a return address: do they leave the thread or the program before they return?
	bool (*is_exit)(const uint8_t *code, size_t size);
	// The bytes at an address, `size` of them, UNWIND_THREAD_BEFORE of them before it: behind a system call, and soon the frame pointer is made 0, as the ABIs want it in the
	// outermost frame? So clone's code goes on in the new thread, without CFI and with nothing on its stack. NULL: not asked. perf_result: where its result is.
	bool (*begins_thread)(const uint8_t *code, size_t size);
	uint8_t perf_result;
	struct unwind_sigframe sigframe;
	// Registers in which a landing pad gets the exception (EH_RETURN_DATA_REGNO of gcc, as DWARF numbers them), and how many registers libgcc's unwinder keeps
	// (DWARF_FRAME_REGISTERS); 0: its functions that throw are not known.
	uint8_t eh_data[2], eh_columns;
};
extern const struct unwind_arch *const unwind_archs[]; // NULL-terminated, generated

// Where the evaluator keeps a DWARF register; UNWIND_REGISTERS or more: nowhere. AArch64's VG, how many 64-bit parts a scalable vector has, is 46 (AADWARF64);
// frames that save such vectors lie that many times further apart.
static inline uint64_t unwind_register(uint16_t machine, uint64_t number)
{
	enum { AARCH64 = 183, DWARF_VG = 46 }; // EM_AARCH64

	if (__builtin_expect(number < UNWIND_VG || machine != AARCH64, 1))
		return number;
	return number == DWARF_VG ? UNWIND_VG : UNWIND_REGISTERS;
}

// NULL: no table for this machine.
const struct unwind_arch *unwind_arch_for(uint16_t machine);

#endif
