// Inside the text exporter: shared pieces of the narrow and the wide layout.
#ifndef PERFSAMPLE_EXPORT_TEXT_H
#define PERFSAMPLE_EXPORT_TEXT_H

#include "export/exporter.h"

struct text {
	const struct export_input *in;
	const struct report *report;
	const struct report_event *event;
	struct buf *out;
	size_t width;      // columns
	size_t shown;      // rows of this event
	bool children;
};

void text_narrow(struct text *t);
void text_wide(struct text *t);
void text_explain(struct text *t, const char *symbol);
void text_fields(struct text *t, const char *fields);
bool text_check_fields(const char *fields, struct err *err);

// "60,150"; rounds to whole.
void text_count(struct buf *out, double value);
// Share as per cent with its decimals; outward rounding by the two that follow.
void text_percent(struct buf *out, double share, int decimals);
double floor_to(double value, int decimals);
double ceil_to(double value, int decimals);
// "81%", "6.1%", "0.6%", "0%".
void text_short_percent(struct buf *out, double share);
void text_share_of(struct buf *out, double share, double n); // the same of n samples: - of none
// "0.11%", "3.0%", "12.0%".
void text_loss_percent(struct buf *out, double share);
// "12% hold a frame found without CFI, 3.1% end at a guessed root": of all stacks; the second only where there are such.
void text_guessed(struct buf *out, const struct report_event *event);
// "11.8% TRUNCATED (over 64 KB deep), 0.4% CUT (stack page not in memory), 2.1% FAILED": what did not reach a root, by the reason.
void text_cut(struct text *t, struct buf *out);
void text_seconds(struct buf *out, double seconds); // "30 s", "0.3 s"
// Of the rows shown that have too few, inside or outside; UINT64_MAX: none.
uint64_t text_fewest_visits(const struct text *t);
// "45 s", "13 min", "2.3 h".
void text_time(struct buf *out, double seconds);
// Escaped for a terminal; at most `columns` wide, the middle cut out ("…") where it is longer. Returns the columns written.
size_t text_name(struct buf *out, const char *name, size_t columns);
// The same of a function: parameters, template arguments and the type returned go first.
size_t text_symbol(struct buf *out, const char *symbol, size_t columns);
// Escaped, behind `word`, in lines that end before `columns`; those that follow begin at `indent`.
void text_wrapped(struct text *t, const char *word, size_t indent, size_t columns, const char *text);
// What the samples that the worst case adds are: "lost"; "missing" where they are silent, dropped or throttled; "lost or missing".
const char *text_lost_word(const struct report_event *event);
void text_pad(struct buf *out, size_t from_column, size_t to_column);

// What the target is: "postgres[4242]", "postgres[4242] and 17 more", "all CPUs".
void text_target(struct text *t);
void text_start(struct text *t); // "2026-11-29 14:02:11Z", nothing when unknown
const struct row_measure *text_measure(const struct text *t, const struct report_row *row);
// "3", "3-5", "4+" where nothing below is told apart from it, "-" without a ranking; and the columns the widest of the rows shown takes.
void text_rank(const struct text *t, const struct report_row *row, char *out, size_t size);
size_t text_rank_width(const struct text *t);
// Symbol and dso, or the other keys, in the columns that are left.
void text_label(struct text *t, const struct report_row *row, size_t at_column);
void text_label_header(struct text *t);
// What a row that goes by an address is, where one is shown.
void text_nameless(struct text *t, const char *word, size_t indent, size_t columns);
void text_calls(struct text *t, const struct report_row *row, size_t indent);
// Largest share a function that is not shown can have: of the rows, and of none at all.
double text_largest_hidden(const struct text *t, bool worst_case);
// "~", "^", "!", "*" or "".
const char *text_mark(const struct report_row *row);

#endif
