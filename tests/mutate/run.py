#!/usr/bin/env python3
"""Breaks one rule of the unwinder after the other, and demands that a test notices.

Each mutant is one change to one file, in a copy: it is compiled alone, linked before the library (whose own object of that name is then not
taken), and the test named with it is run: one of tests/unit, or NAME.sh of tests/cli. A mutant whose test passes has survived: that rule is not tested, and the status is 1.
Run by `make mutants`, which hands over CC, CFLAGS, LIBS and BUILD. usage: run.py [WORD…]: only those whose description has one of the words."""
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile

# what is broken; file; as it is; as it becomes; the test that must fail
MUTANTS = [
    (".eh_frame without .eh_frame_hdr is not scanned", "unwind/rule_index.c",
     "if (!has_header || !index_from_header(image, table, &header))\n\t\t\trule_index_scan(image, table);",
     "if (has_header)\n\t\t\tindex_from_header(image, table, &header);", "unwind_kinds"),
    ("static-pie: rules go by the file's addresses", "unwind/walk.c", "uint64_t vaddr = lookup - map->bias;", "uint64_t vaddr = lookup;", "unwind_kinds"),
    (".eh_frame_hdr is not checked against the FDEs", "unwind/rule_table.c", "if (table->is_from_header && (!good || fde.start != end))\n\t\treturn false;",
     "", "rule_table"),
    ("what .eh_frame_hdr lacks is not looked for", "unwind/rule_table.c", "if (mend_index(image, t, (uint32_t)at))", "if (0 && mend_index(image, t, (uint32_t)at))",
     "rule_table"),
    ("CFI that cannot be run: no guess", "unwind/rule_table.c", "if (context.end < end)\n", "if (0)\n", "rule_table"),
    ("CFI that cannot be run: the other section is asked", "unwind/rule_table.c", "|| rule.kind == RULE_UNREADABLE); i++", "); i++", "rule_table"),
    ("AArch64: a handler's frame pointer tells sp by the kernel's pair", "unwind/walk.c", "at->sp = sp;\n\t\tat->sp_is_exact = true;", "at->sp_is_exact = true;",
     "unwind_foreign"),
    ("a guess that the entry function called", "unwind/fp.c", "is_entry(map, from->ra))\n\t\treturn false;", "is_entry(map, from->ra) || true)\n\t\treturn false;", "unwind_leaf"),
    ("arm: nothing is guessed", "unwind/fp.c", "if (walk->arch->is_call == NULL)\n\t\treturn NO_CALL;", "if (walk->arch->is_call == NULL)\n\t\treturn UNKNOWN;",
     "unwind_foreign"),
    ("arm: .ARM.exidx is unwind information", "unwind/fp.c", "image->has_exidx) {", "image->has_exidx && false) {", "unwind_foreign"),
    ("AArch64: set_ra_state has two operands", "unwind/cfi_run.c", "bytes_uleb(in);\n\t\tbytes_sleb(in);", "bytes_uleb(in);", "cfi"),
    ("FDEs inside of others", "unwind/rule_table.c", "MAX_NESTED = 4,", "MAX_NESTED = 1,", "snapshots.sh"),
    ("what is in the red zone", "unwind/arch/x86_64.c", ".red_zone_bytes = 128,", ".red_zone_bytes = 0,", "snapshots.sh"),
    (".debug_frame is not read", "unwind/rule_index.c", "if (find_debug_frame(elf, &image->tables[0]))", "if (0 && find_debug_frame(elf, &image->tables[0]))",
     "unwind_kinds"),
    ("where both disagree, .eh_frame is believed", "unwind/rule_table.c", "found = find_in_table(image, &image->tables[i],",
     "found = find_in_table(image, &image->tables[image->table_count - 1 - i],", "unwind_kinds"),
    ("the PLT's expression", "unwind/rule_table.c", "rule->ra_off = shift;", "rule->ra_off = 0;", "unwind_kinds"),
    ("CFA expressions: what is at an address", "unwind/cfi_expr.c", "push(e, size == 8 ? value :", "push(e, size == 8 ? value + 8 :", "cfi"),
    ("a CFA read from a slot", "unwind/rule_table.c", "rule->kind = deref ? RULE_FP_DEREF : RULE_FP;", "rule->kind = RULE_FP;", "unwind_kinds"),
    ("register expressions", "unwind/slow.c", "case CFI_VAL_EXPR:\n\t\treturn evaluate(s, rule, &s->cfa, out);", "case CFI_VAL_EXPR:", "unwind_hard"),
    ("restore_state", "unwind/cfi_run.c", "m->row = m->remembered[--m->depth];", "--m->depth;", "cfi"),
    ("remember_state nests", "unwind/cfi_run.c", "m->remembered[m->depth++] = m->row;", "m->remembered[0] = m->row;\n\tm->depth++;", "cfi"),
    ("GNU_args_size has an operand", "unwind/cfi_run.c", "case CFA_GNU_ARGS_SIZE: // of interest to exception handlers only\n\t\tbytes_uleb(in);",
     "case CFA_GNU_ARGS_SIZE:", "cfi"),
    ("signal frames: one is taken off above them", "unwind/walk.c", "at->kind = is_signal ? FRAME_INTERRUPTED : FRAME_RETURN;", "at->kind = FRAME_RETURN;",
     "unwind"),
    ("signal frames: the trampoline is looked up before its start", "unwind/stacks.c", "last->kind = FRAME_INTERRUPTED;", ";", "unwind"),
    ("a signal trampoline without CFI", "unwind/walk.c", "return walk->arch->is_sigreturn(code.at, size);", "return false;", "unwind_hard"),
    ("a trampoline that is in memory alone", "unwind/walk.c", "if (*end != UNWIND_DEFERRED && at->sp_is_exact && ", "if (0 && ", "snapshots.sh"),
    ("a handler's stack may lie above", "unwind/walk.c", "&& !(is_signal && at->backward++ < MAX_BACKWARD)", "", "unwind_foreign"),
    ("CFA in any register", "unwind/slow.c", "s->cfa = value + (uint64_t)row->cfa_offset;", "s->cfa = s->sp + (uint64_t)row->cfa_offset;", "unwind_hard"),
    ("return address undefined: the root", "unwind/rule_table.c", "return (struct unwind_rule){ .kind = RULE_ROOT };\n\tif (!cfa_into",
     "return slow;\n\tif (!cfa_into", "unwind_kinds"),
    ("return address in a register", "unwind/slow.c", "*known = register_get(s->from, (uint64_t)rule->value, out);", "*known = false;", "unwind_hard"),
    ("the vdso's segments are those of memory", "src/elf/image.c", "p.file_size = p.offset > image->size ? 0 : p.mem_size < image->size - p.offset ?"
     " p.mem_size : image->size - p.offset;", "p.file_size = 0;", "unwind_kinds"),
    ("bias: the segment's own distance (static-pie, lld)", "src/elf/image.c", "*bias = start - pgoff - (best->vaddr - best->offset);", "*bias = start - pgoff;",
     "unwind_kinds"),
    ("bias: the segment that fits, not the first", "src/elf/image.c", "if (score > best_fit) {", "if (score > 0 && best == NULL) {", "unwind_kinds"),
    ("text remapped to huge pages keeps its file", "src/proc/space.c", "if (!is_remapped_text(&spaces->dsos, m, put.start, put.end) &&", "if (", "space"),
    ("PAC bits are stripped", "unwind/arch/aarch64.c", ".ra_mask = ((uint64_t)1 << 48) - 1,", ".ra_mask = UINT64_MAX,", "unwind_foreign"),
    ("AArch64: the link register of what was interrupted", "unwind/arch/aarch64.c", ".lr = 552", ".lr = 560", "unwind_foreign"),
    ("i386: where the kernel saved the pc", "unwind/arch/i386.c", ".pc = 216", ".pc = 212", "unwind_foreign"),
    ("i386: words of four bytes", "unwind/arch/i386.c", ".word_bytes = 4,", ".word_bytes = 8,", "unwind_foreign"),
    ("rows: another CFA register than the row before", "unwind/rule_table.c", "(is_at_fp ? RULE_FP : RULE_SP)", "(c->rule.kind & RULE_BASE_MASK)", "rule_table"),
    ("rows: fp saved by now", "unwind/rule_table.c", "(is_fp_saved ? RULE_FP_SAVED : 0)", "0", "rule_table"),
    ("rules by address: of mappings that the address space has", "unwind/near.h", " && (places >> (entry->key & (PLACES - 1)) & 1) != 0", "", "unwind_near"),
    ("rules by address: an address space's own mappings", "unwind/near.h", "if (space->generation != generation)", "if (0)", "unwind_near"),
    ("rules by address: a mapping of another size is another one", "unwind/near.c", " && known->size == place->size", "", "unwind_near"),
    ("rules by address: what is no address is put down as none", "unwind/stacks.c", "if (__builtin_expect(ra - 1 >= pace->last_addr, 0))", "if (0)",
     "unwind_near"),
    ("rules by address: words outside the frame", "unwind/stacks.c", " && __builtin_expect(size + near_fp_off(rule) < size, 1);", ";", "unwind_near"),
    ("functions that throw have rows of their own", "unwind/rule_table.c", "if (cie->ra_register != arch->dwarf_ra || cfi_row_is_eh_return(arch, row))",
     "if (cie->ra_register != arch->dwarf_ra)", "unwind_throw"),
    ("functions that throw: the sp of the frame that handles", "unwind/eh_return.c", "register_put(to, walk->arch->dwarf_sp, other.cfa);", "", "unwind_throw"),
    ("functions that throw: nothing is begun", "unwind/eh_return.c", "return context_register(walk, to, walk->arch->dwarf_sp, &sp_slot, &sp) && sp_slot < frame->sp && sp == to->cfa && fp",
     "return fp", "unwind_throw"),
    ("functions that throw: a place for sp of a throw long past", "unwind/eh_return.c", "sp == to->cfa && fp", "fp", "unwind_throw"),
    ("functions that throw: the frame pointer as it was", "unwind/eh_return.c", "stack_word(&walk->view, own_slot, &now) && now == then;", "true;", "unwind_throw"),
    ("functions that throw: saved registers as a context", "unwind/eh_return.c", "(walk->arch->eh_columns + 10u) * word + walk->arch->eh_columns + 1;", "(walk->arch->eh_columns + 3u) * word;",
     "unwind_throw"),
    ("functions that throw: a context that returns to no code", "unwind/eh_return.c", "if (!map_is_code(walk_map(walk, pending)))\n\t\treturn false;", "", "unwind_throw"),
    ("functions that throw: registers half put", "unwind/eh_return.c", "if (context_register(walk, &other, reg, &slot, &value))", "if (false)", "unwind_throw"),
    ("functions that throw: the landing pad's address stored", "unwind/eh_return.c", "*ra != pending && pending != other.ra", "*ra != pending", "unwind_throw"),
    ("functions that throw: another frame's context", "unwind/eh_return.c", "} else if (*ra != pending && pending != other.ra) { //", "} else if (false) { //", "unwind_throw"),
    ("functions that throw: their own caller's context", "unwind/eh_return.c", "out->ra_slot == frame->ra_slot && out->cfa == frame->cfa :",
     "out->ra_slot == frame->ra_slot :", "unwind_throw"),
    ("functions that throw: AArch64's own slot", "unwind/eh_return.c", "} else if (*ra == other.ra) {", "} else if (false) {", "unwind_throw"),
    ("functions that throw: AArch64's contexts", "unwind/arch/aarch64.c", ".eh_columns = 97,", ".eh_columns = 96,", "unwind_throw"),
    ("landings: of callers that made no call", "src/cmd/debug_kinds.c", "(called == rest && ", "(called > 0 && ", "debug_code"),
    ("landings: of stacks without a root", "src/cmd/debug_kinds.c", " && unwind_end_is_root(ours->end));\n}\n\nenum kind kind_of", ");\n}\n\nenum kind kind_of", "debug_code"),
    ("landings: with nothing behind the handler", "src/cmd/debug_kinds.c", "rest < 2 || ", "", "debug_code"),
    ("landings: behind which libunwind goes astray", "src/cmd/debug_kinds.c", "first > 0 && first <= ours->count", "false", "debug_code"),
    ("run on: a jump into the middle of another function", "src/cmd/debug_forward.c", "code.is_function && run->code.is_c && insn->operands[0].kind", "false && insn->operands[0].kind", "debug_forward"),
    ("nothing is called at a landing pad", "unwind/slow.c", "at->kind = FRAME_INTERRUPTED; // nothing", "at->kind = FRAME_RETURN; // nothing", "unwind_throw"),
    ("what a reader has not seen holds back the rest", "src/perf/merge.c", "if (time_ns <= horizon_ns)\n\t\t\thorizon_ns", "if (0)\n\t\t\thorizon_ns", "merge"),
    ("clone returns in the child, too", "unwind/fp.c", "return is_new_thread(walk, map, at) || ", "return ", "unwind_begin"),
    ("clone's child by what the system call answered", "unwind/fp.c", "&result) && result == 0 &&", "&result) &&", "unwind_begin"),
    ("clone's child by the system call before it", "unwind/arch/x86_64.c", "is_call = is_call || (code[i] == 0x0f && code[i + 1] == 0x05);", "is_call = true;",
     "unwind_begin"),
    ("who was started was not called", "unwind/walk.c", "if (at->kind == FRAME_RETURN && walk_was_not_called(walk)) {", "if (false) {", "unwind_begin"),
    ("who has moved sp was called", "unwind/fp.c", "if (bytes_u8(&fde.instructions) != 0) // DW_CFA_nop", "if (bytes_u8(&fde.instructions) == 255)", "unwind_begin"),
    ("leaf rule: words pushed since", "unwind/fp.c", "LEAF_WORDS = 3,", "LEAF_WORDS = 1,", "unwind_leaf"),
    ("frame pointers: sp is above the pair", "unwind/fp.c", "out.sp = at->fp + 2 * word;", "out.sp = at->fp + word;", "unwind_hard"),
    ("a root by signs is told apart", "unwind/fp.c", "*end = UNWIND_ROOT_GUESSED;", "*end = UNWIND_ROOT;", "unwind_kinds"),
    ("an entry frame: what it called close behind it is none", "unwind/fp.c",
     "if (stack_word(&walk->view, sp, &word) && trust_in(walk, word, at->pc) >= POSSIBLE)", "if (0)", "unwind_kinds"),
    ("an entry frame may have pushed", "unwind/fp.c", "i <= (may_push ? ENTRY_WORDS : 0)", "i <= 0", "unwind_kinds"),
    ("what was guessed is marked", "unwind/fp.c", "at->via = (uint8_t)from->via;", "at->via = VIA_CFI;", "unwind_hard"),
    ("code without a frame: the return address at sp", "unwind/fp.c", "if (leaf->is_at_sp && leaf->trust != NO_CALL)", "if (false)", "unwind_leaf"),
    ("code without a frame: a direct call made the frame", "unwind/fp.c", "return frame->trust == HERE ? leaf->trust == HERE :", "return", "unwind_leaf"),
    ("code without a frame: who jumps on", "unwind/fp.c", "if (walk->arch->jumps_on != NULL &&", "if (false &&", "unwind_leaf"),
    ("code seen to have a frame: no word at sp", "unwind/fp.c", "if (framed == FRAMED && frame.trust != NO_CALL)", "if (false)", "unwind_leaf"),
    ("code seen to have no frame yet: the word at sp", "unwind/fp.c", "if (framed == FRAMED_NOT && leaf.is_at_sp", "if (false", "unwind_leaf"),
    ("code without a frame: who jumps on further down", "unwind/arch.h", "UNWIND_JUMP_BYTES = 256", "UNWIND_JUMP_BYTES = 64", "unwind_leaf"),
    ("code far behind a frame's beginning", "unwind/fp.c", "FRAME_BYTES = 1 << 15,", "FRAME_BYTES = 2048,", "unwind_leaf"),
    ("traps are no function's beginning", "unwind/arch/x86_64.c", "if (at[-1] != 0xcc || is_trap(at, size - back))", "if (at[-1] != 0xcc)", "unwind_leaf"),
    ("a frame in the middle of a function", "unwind/arch/x86_64.c", "if (has_just_entered(end, size))", "if (0)", "unwind_leaf"),
    ("of two direct calls that to the nearer function", "unwind/fp.c", "(how_far[0] > how_far[1] ? a : b)->trust = ELSEWHERE;", ";", "unwind_leaf"),
    ("a caller without a frame under a function with one", "unwind/fp.c", "return is_here ?", "return false ?", "unwind_leaf"),
    ("code without a frame: its caller's caller", "unwind/fp.c", "if (is_return && walk->arch->perf_lr != 0xff)", "if (is_return)", "unwind_leaf"),
    ("code at run time: frames that stand alike", "unwind/fp.c", "is_generated(walk, &frame) && is_unlike_frames", "false && is_unlike_frames",
     "unwind_leaf"),
    ("what follows: what callees pop", "unwind/x86_follow.c", "if (!pops_nothing(f, debts[i], depth))", "if (false)", "x86_follow"),
    ("what follows: callees that are not known", "unwind/x86_follow.c", "if (debt_count > DEBTS)\n\t\treturn unsure(f, &rule);", "if (debt_count > DEBTS)\n\t\tdebt_count = 0;", "x86_follow"),
    ("what follows: compilers whose functions pop nothing", "unwind/x86_follow.c", "if (f->source->is_generated && rule.leaves_sp)", "if (f->source->is_generated)",
     "unwind_leaf"),
    ("what follows: the frame pointer by an sp that is not sure", "unwind/x86_follow.c", "s->debt_count = s->fp_debts;", "s->debt_count = 0;", "x86_follow"),
    ("what follows: sp aligned for C", "unwind/x86_follow.c", "if (s->is_aligned)\n\t\t;\n\telse if", "if", "x86_follow"),
    ("what follows: what was pushed over", "unwind/x86_follow.c", "if (s->has_pushed && at.symbol", "if (false && at.symbol", "x86_follow"),
    ("what follows: a loop that moves sp", "unwind/x86_follow.c", "|| (f->is_sp_moved && is_by_sp))", ")", "x86_follow"),
    ("what follows: ways that differ", "unwind/x86_follow.c", "f->is_contradicted = f->is_contradicted || !is_same_place(&rule.ra, &f->rule.ra)",
     "f->is_contradicted = f->is_contradicted", "x86_follow"),
    ("what follows: a switch is no end", "unwind/x86_follow.c", "if (!is_switch && (insn->rm", "if ((insn->rm", "x86_follow"),
    ("what follows: a jump that returns", "unwind/x86_follow.c", "|| s->regs[insn->rm].symbol == UNKNOWN))", "|| true))", "x86_follow"),
    ("what follows: behind a call that does not return", "unwind/x86_follow.c", "(was_behind_call && is_another_function(f, s->pc)) ||", "", "x86_follow"),
    ("what follows: a return address popped and pushed again", "unwind/x86_follow.c",
     "return s->slots[i].at.offset == at.offset ? s->slots[i].holds : unknown;", "return unknown;", "x86_follow"),
    ("what follows: a call that tells where code is", "unwind/x86_follow.c", "insn.kind == X86_CALL && insn.value == 0)", "false)", "x86_follow"),
    ("what follows is believed where a call may have led here", "unwind/fp.c",
     "if (trust_in(walk, found.ra, at->pc) == NO_CALL || is_left_by_entry(walk, &found))", "if (false)", "unwind_leaf"),
    ("what follows: rules of other code", "unwind/code.c", "(struct code_entry){ .owner = code.id,", "(struct code_entry){ .owner = 1,", "unwind_leaf"),
    ("clone's child before what follows", "unwind/fp.c", "if (is_return && take_by_code(walk, map, at))", "if (take_by_code(walk, map, at))", "unwind_begin"),
    ("instructions' lengths: an operand-size prefix", "unwind/x86_decode.c", "r->has_66 && (r->rex & REX_W) == 0 ? read_16(r) : read_32(r);", "read_32(r);",
     "x86_decode"),
    ("instructions' lengths: no base register", "unwind/x86_decode.c", "bool has_base = base != 5 || mode != 0;", "bool has_base = true;", "x86_decode"),
    ("instructions: registers of bytes", "unwind/x86_decode.c", "&& !r->has_rex && reg >= 4", "&& reg >= 8", "x86_decode"),
    ("instructions: what VEX names", "unwind/x86_decode.c", "r->out->writes |= bit_of(r->vvvv);", ";", "x86_decode"),
    ("who is right: only what instructions told is proven", "src/cmd/debug_kinds.c",
     "same < third->count && third->frames[same].via == VIA_NONE)\n\t\treturn KIND_PEER_WRONG;", "same < third->count)\n\t\treturn KIND_PEER_WRONG;", "debug_code"),
    ("who is right: ours may be wrong", "src/cmd/debug_kinds.c", "return is_same ? KIND_BOTH_WRONG : KIND_OURS_WRONG;", ";", "debug_code"),
    ("instructions: what two ways differ in", "src/cmd/debug_code.c", "if (slot == NULL || !same_value(&slot->value, &to->slots[i].value)) {", "if (0) {", "debug_code"),
    ("instructions: sp behind a call", "src/cmd/debug_code.c", "s->is_sp_soft = s->is_sp_soft || (!s->is_aligned && !pops_nothing);", ";", "debug_code"),
    ("instructions: registers behind a call", "src/cmd/debug_code.c", "if (reg != RBP && reg != RSP && !(is_c && (reg == RBX || reg >= R12)))", "if (0)", "debug_code"),
    ("run on: what two ways differ in", "src/cmd/debug_forward.c", "if (run->has_found && run->found.value[LIBUNWIND_PC] != ra.bits)\n\t\trun->is_over = true;\n\telse if",
     "if", "debug_forward"),
    ("run on: registers in which two ways differ", "src/cmd/debug_forward.c", "is->known &= ~(1u << reg);",
     ";", "debug_forward"),
    ("run on: where a call is", "src/cmd/debug_forward.c", "if (ra.kind != VALUE_NUMBER || !run->scene->is_caller",
     "if (ra.kind != VALUE_NUMBER || 0 && !run->scene->is_caller", "debug_forward"),
    ("run on: a jump through a table", "src/cmd/debug_forward.c", "(to.origin & OF_TABLE) == 0 && ",
     "", "debug_forward"),
    ("run on: a jump in a frame", "src/cmd/debug_forward.c", " && run->scene->may_leave(run->scene->context, m->pc, is_to_function)",
     "", "debug_forward"),
    ("run on: a jump out of code without functions", "src/cmd/debug_forward.c", ": is_to_function;",
     ": true;", "debug_forward"),
    ("run on: out of a function's end, behind a call", "src/cmd/debug_forward.c", "if (code.is_function && !is_in(&code, next))\n\t\treturn false;",
     "", "debug_forward"),
    ("run on: another function behind a call", "src/cmd/debug_forward.c", " && (run->code.is_function || !begins_function(run, next))",
     "", "debug_forward"),
    ("run on: what ways that tell nothing do to registers", "src/cmd/debug_forward.c", "if (run.has_untold && !run.is_c)",
     "if (0)", "debug_forward"),
    ("run on: what the next function does to registers", "src/cmd/debug_forward.c", "(saved[i] == RBP || run->code.is_c || !is_jump)",
     "1", "debug_forward"),
    ("run on: sp behind a call", "src/cmd/debug_machine.c", "if (!is_c && !keeps_sp)\n\t\tmachine_lose_sp(m, memory);",
     "", "debug_forward"),
    ("run on: registers behind a call", "src/cmd/debug_machine.c", "if (reg != RBP && reg != RSP && !(is_c && (reg == RBX || reg >= R12)))",
     "if (0)", "debug_forward"),
    ("run on: what was below sp behind a call", "src/cmd/debug_machine.c", "hide_below(m, sp->bits);",
     ";", "debug_forward"),
    ("run on: what a sp that nobody knows can reach", "src/cmd/debug_machine.c", "hide_below(m, m->reach);",
     ";", "debug_forward"),
    ("run on: a write somewhere into the stack", "src/cmd/debug_machine.c", "m->is_lost = m->is_lost || (at->origin & OF_STACK) != 0;",
     ";", "debug_forward"),
    ("run on: what a vector writes", "src/cmd/debug_machine.c", "put_cell(m, &(struct cell){ .at = to.bits, .is_place = to.kind == VALUE_PLACE });",
     ";", "debug_forward"),
    ("run on: an array of what is not known", "src/cmd/debug_machine.c", " && !(at >= m->blank && at < m->blank_end)",
     "", "debug_forward"),
    ("run on: a move on a condition that is not known", "src/cmd/debug_machine.c", "same_value(&old, &new) ? old : made_of(memory, &old, &new);",
     "old;", "debug_forward"),
    ("run on: flags behind what is not known", "src/cmd/debug_machine.c", "if (!insn->keeps_flags)\n\t\tm->flags_known = 0;",
     "", "debug_forward"),
    ("run on: the carry of inc and dec", "src/cmd/debug_machine.c", "if (insn->id == X86_INS_INC || insn->id == X86_INS_DEC) {",
     "if (0) {", "debug_forward"),
    ("run on: a part of a register", "src/cmd/debug_machine.c", "else if (op->size == 4) // the upper half is made zero",
     "else if (op->size <= 4)", "debug_forward"),
    ("run on: what was there before, joined", "src/cmd/debug_machine.c", "\tfor (size_t i = 0; i < REGISTERS; i++)\n\t\tjoin_value(",
     "\tfor (size_t i = 0; i < 0; i++)\n\t\tjoin_value(", "debug_forward"),
    ("run on: what covers", "src/cmd/debug_machine.c", "if (!value_covers(memory, &general->regs[i], &one->regs[i]))",
     "if (0)", "debug_forward"),
    ("run on: words that cover", "src/cmd/debug_machine.c", "if (!cell_covers(memory, &general->cells[i], &other))",
     "if (0)", "debug_forward"),
    ("run on: arguments that a return pops", "src/cmd/debug_forward.c", "at->bits + WORD + pops",
     "at->bits + WORD", "debug_forward"),
    ("a new program's stack: the environment", "unwind/fp.c", "return argument > before && argument - before <= STRING_BYTES_MOST;", "return true;", "unwind_leaf"),
    ("memory: an FDE of the code asked for", "unwind/cfi_find.c", "fde.start >= start && fde.end <= end;", "true;", "cfi"),
    ("Go's table: where the flags are", "unwind/go_table.c", "FLAG_AT_118 = 37", "FLAG_AT_118 = 36", "debug_frame"),
    ("Go's table: another stack is no root", "unwind/go_table.c", "? RULE_ROOT : RULE_ROOT | RULE_ELSEWHERE;", "? RULE_ROOT : RULE_ROOT;", "debug_frame"),
    ("past the copy is truncated", "unwind/stack_view.h", "? UNWIND_ABSENT_PAGE : UNWIND_TRUNCATED;", "? UNWIND_ABSENT_PAGE : UNWIND_BAD_READ;", "unwind"),
    ("a copy that is short for what was asked", "unwind/stack_view.h", "? UNWIND_ABSENT_PAGE : UNWIND_TRUNCATED;", "? UNWIND_TRUNCATED : UNWIND_TRUNCATED;", "unwind"),
    ("return probes: several calls that fit", "unwind/probe.c", "found->has_others = true;", ";", "unwind_probe"),
    ("return probes: whether frames are such as can be", "unwind/probe.c", "|| !is_plausible(found->walk, caller, function)", "", "unwind_probe"),
    ("return probes: a stack that lacks a frame is whole", "unwind/stacks.c", "lane->walk.is_probed && unwind_end_is_root", "false && unwind_end_is_root", "unwind_probe"),
    ("return probes: the trampoline by its mapping", "unwind/probe.c", "if (map->missing == UNWIND_UPROBE_TRAMPOLINE", "if (false && map->missing == UNWIND_UPROBE_TRAMPOLINE", "unwind_probe"),
    ("text that is not in the file", "unwind/fp.c", "if (is_blank(&code))", "if (false && is_blank(&code))", "snapshots.sh"),
    ("by pairs: who keeps them pops what it likes", "unwind/fp.c", "if (!is_by_pairs && (take", "if ((take", "unwind_leaf"),
    ("functions that never return", "unwind/fp.c", "(framed != FRAMED && take_by_beginning(walk, map, at))", "false", "bare.sh"),
    ("a core's registers: r12 to r15", "src/elf/core.c", "{ 23, 22, 21, 20, 6, 1,", "{ 20, 21, 22, 23, 1, 6,", "core"),
    (".debug_frame in .gnu_debugdata", "unwind/rule_index.c", "is_sparse(image) ? image_open_mini_debug", "false ? image_open_mini_debug", "snapshots.sh"),
    ("a null pointer that was called", "unwind/fp.c", "if (found.trust == NO_CALL || found.trust == ELSEWHERE)", "if (true)", "snapshots.sh"),
    ("a signal interrupts a call of a null pointer", "unwind/walk.c", "if (__builtin_expect(ra == 0, 0) && !is_signal) {", "if (ra == 0) {", "snapshots.sh"),
    ("a handler without CFI returns to the trampoline", "unwind/fp.c", "&& walk_is_trampoline(walk, map, ra) ? POSSIBLE : NO_CALL;", "? NO_CALL : NO_CALL;",
     "snapshots.sh"),
    ("a trampoline's FDE begins where it does", "unwind/walk.c", "if ((exact.kind & RULE_SIGNAL) != 0)", "if (false)", "snapshots.sh"),
    ("AArch64's trampoline is believed before its CFI", "unwind/walk.c", "walk->arch->perf_lr != 0xff && is_trampoline(walk, map, vaddr + 1))", "false)",
     "snapshots.sh"),
    ("signatures of addresses with fewer than 48 bits", "unwind/arch/aarch64.c", ".signs_addresses = true,", "", "snapshots.sh"),
    ("scalable vectors: VG", "unwind/arch/aarch64.c", "31, 32, 46 },", "31, 32, 0xff },", "snapshots.sh"),
    ("an image at the end of 32-bit addresses", "unwind/walk.c", "if (map->start - origin > UINT32_MAX ||", "if (map->start < origin || map->start - origin > UINT32_MAX ||",
     "snapshots.sh"),
    ("an image inside an archive, by its directory", "src/elf/container.c", "if (entry.method == METHOD_STORED && entry.local < offset &&", "if (false &&",
     "snapshots.sh"),
    ("an image inside an archive, by name", "src/elf/container.c", "if (entry.method == METHOD_STORED && (is_whole || !found) &&", "if (false &&", "archived.sh"),
    ("an image without program headers", "src/elf/image.c", "\tsegments_from_sections(image);\n", "", "snapshots.sh"),
    ("a core's thread: its number", "src/elf/core.c", "{ EM_X86_64, true, 32, 112, 21,", "{ EM_X86_64, true, 36, 112, 21,", "core"),
]


def run(command, **more):
    return subprocess.run(command, shell=True, capture_output=True, text=True, **more)


def try_one(mutant, folder):
    """(kind of end, description, detail)"""
    what, path, old, new, test = mutant
    text = open(path).read()
    if text.count(old) != 1:
        return "broken", what, f"{path}: the text to be changed is there {text.count(old)} times"
    build = os.environ["BUILD"]
    if path.endswith(".h"):  # in whoever uses it
        copy, source = os.path.join(folder, "include", path), {"unwind/near.h": "unwind/stacks.c", "unwind/arch.h": "unwind/fp.c"}.get(path, "unwind/walk.c")
        include = f"-I{folder}/include"
    else:
        copy, source, include = os.path.join(folder, os.path.basename(path)), os.path.join(folder, os.path.basename(path)), ""
    os.makedirs(os.path.dirname(copy), exist_ok=True)
    open(copy, "w").write(text.replace(old, new))
    compiled = run(f"{os.environ['CC']} {include} {os.environ['CFLAGS']} -O1 -g0 -Wno-error -w -c -o {folder}/mutant.o {source}")
    first = "src/main.o" if test.endswith(".sh") else f"tests/unit/{test}.o"
    linked = run(f"{os.environ['CC']} -pthread -o {folder}/test {build}/o/{first} {folder}/mutant.o {build}/libperfsample.a {os.environ['LIBS']}")
    if compiled.returncode or linked.returncode:
        return "broken", what, (compiled.stderr + linked.stderr)[-600:]
    try:
        result = run(f"PERFSAMPLE={folder}/test bash tests/cli/{test}" if test.endswith(".sh") else f"{folder}/test", timeout=120)
    except subprocess.TimeoutExpired:
        return "killed", what, f"{test}: does not end"
    if result.returncode == 0:
        return "SURVIVED", what, f"{test} passes"
    failures = re.findall(r"^not ok \d+ - (.*)$", result.stdout, re.M)
    return "killed", what, f"{test}: " + (failures[0][:90] if failures else f"status {result.returncode}")


def main():
    chosen = [m for m in MUTANTS if m[4] and (len(sys.argv) == 1 or any(word in m[0] for word in sys.argv[1:]))]
    counts = {}
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        folders = [os.path.join(folder, str(i)) for i in range(len(chosen))]
        for each in folders:
            os.mkdir(each)
        for end, what, detail in pool.map(try_one, chosen, folders):
            counts[end] = counts.get(end, 0) + 1
            print(f"{end:8} {what} ({detail})", flush=True)
    print(", ".join(f"{n} {end}" for end, n in sorted(counts.items())))
    return 0 if set(counts) == {"killed"} else 1


sys.exit(main())
