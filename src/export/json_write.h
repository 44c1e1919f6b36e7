// JSON as it is written, member by member: commas look after themselves. Nothing is kept but the text.
#ifndef PERFSAMPLE_EXPORT_JSON_WRITE_H
#define PERFSAMPLE_EXPORT_JSON_WRITE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

// `key` NULL: an element of an array, or the document itself.
void json_open_object(struct buf *out, const char *key);
void json_open_array(struct buf *out, const char *key);
void json_close_object(struct buf *out);
void json_close_array(struct buf *out);

void json_put_number(struct buf *out, const char *key, double value); // unrounded; null where it is none
void json_put_fixed(struct buf *out, const char *key, double value, int decimals);
void json_put_u64(struct buf *out, const char *key, uint64_t value);
void json_put_i64(struct buf *out, const char *key, int64_t value);
void json_put_hex(struct buf *out, const char *key, uint64_t value);  // "0x1f": an address
void json_put_bool(struct buf *out, const char *key, bool value);
void json_put_null(struct buf *out, const char *key);
void json_put_text(struct buf *out, const char *key, const char *text); // valid UTF-8 in any case
// Another's name for viewers that show it as it is: controls spelled out as on a terminal.
void json_put_shown(struct buf *out, const char *key, const char *text);
// Another's name for programs: repaired where it is not UTF-8, and then what it really was in hex beside it, as "KEY_hex".
void json_put_name(struct buf *out, const char *key, const char *text);
// With the hex as "HEX_KEY_hex".
void json_put_name_as(struct buf *out, const char *key, const char *hex_key, const char *text);

#endif
