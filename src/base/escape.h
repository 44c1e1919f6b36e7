// Names of functions, processes and files are another's data. Here is how they leave, one function per medium.
#ifndef PERFSAMPLE_BASE_ESCAPE_H
#define PERFSAMPLE_BASE_ESCAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

// Decodes one UTF-8 sequence (RFC 3629: no overlong forms, no surrogates); its length, 0 when it is not valid.
size_t utf8_decode(const char *s, size_t left, uint32_t *code_point);
bool utf8_is_valid(const char *s, size_t length);
// Columns on a terminal, by code points (combining and wide characters are counted as one).
size_t utf8_columns(const char *s, size_t length);

// Terminal: C0, C1, DEL and bytes that are not UTF-8 as \xNN, bidi controls as \u{…}.
void escape_terminal(struct buf *out, const char *s, size_t length);
// Folded: as for a terminal, and ';' becomes ':'. The result is one frame.
void escape_folded(struct buf *out, const char *s, size_t length);
// One cell of TSV: controls (tab and newline among them) as \xNN, and so a backslash, and what a spreadsheet takes for the beginning of a formula or a quoted
// cell: a first = + - @ " or '. Whoever turns each \xNN into its byte and \u{…} into its character has the text again. Not for numbers.
void escape_tsv(struct buf *out, const char *s, size_t length);
// XML and HTML text or quoted attribute: & < > " ' as entities; what XML 1.0 forbids, and broken UTF-8, as U+FFFD.
void escape_xml(struct buf *out, const char *s, size_t length);
// JSON string body, without the quotes, for data in <script type=application/json>: '<' as \u003c; broken UTF-8 as U+FFFD.
void escape_json(struct buf *out, const char *s, size_t length);
// The string with each broken byte as U+FFFD: valid UTF-8 for writers that insist on it.
void escape_repair(struct buf *out, const char *s, size_t length);

#endif
