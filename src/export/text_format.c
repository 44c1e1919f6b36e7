#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/escape.h"
#include "export/text.h"

void text_count(struct buf *out, double value)
{
	char digits[32];
	snprintf(digits, sizeof(digits), "%.0f", fabs(value));
	if (value < -0.5)
		buf_byte(out, '-');
	size_t length = strlen(digits);
	for (size_t i = 0; i < length; i++) {
		if (i > 0 && (length - i) % 3 == 0)
			buf_byte(out, ',');
		buf_byte(out, (uint8_t)digits[i]);
	}
}

// A hair of tolerance: 0.113 read back as 0.11300000000000002 is not 0.12 at two decimals.
double floor_to(double value, int decimals)
{
	double scale = pow(10, decimals);
	return floor(value * scale + 1e-9) / scale;
}

double ceil_to(double value, int decimals)
{
	double scale = pow(10, decimals);
	return ceil(value * scale - 1e-9) / scale;
}

void text_percent(struct buf *out, double share, int decimals)
{
	buf_printf(out, "%.*f", decimals, 100 * share);
}

void text_short_percent(struct buf *out, double share)
{
	double percent = 100 * share;
	if (percent <= 0)
		buf_string(out, "0%");
	else if (percent < 0.05)
		buf_string(out, "<0.1%");
	else
		buf_printf(out, percent >= 9.95 ? "%.0f%%" : "%.1f%%", percent);
}

void text_share_of(struct buf *out, double share, double n)
{
	if (n > 0)
		text_short_percent(out, share);
	else
		buf_byte(out, '-');
}

void text_guessed(struct buf *out, const struct report_event *event)
{
	double all = (double)event->stacks_complete + (double)event->stacks_joined + (double)event->stacks_truncated + (double)event->stacks_failed;
	text_short_percent(out, all > 0 ? (double)event->stacks_guessed / all : 0);
	buf_string(out, " hold a frame found without CFI");
	if (event->ends[UNWIND_ROOT_GUESSED] > 0) {
		buf_string(out, ", ");
		text_short_percent(out, (double)event->ends[UNWIND_ROOT_GUESSED] / all);
		buf_string(out, " end at a guessed root");
	}
}

void text_loss_percent(struct buf *out, double share)
{
	double percent = 100 * share;
	if (percent > 0 && percent < 0.005)
		buf_string(out, "<0.01%");
	else
		buf_printf(out, percent >= 0.995 ? "%.1f%%" : "%.2f%%", percent);
}

void text_seconds(struct buf *out, double seconds)
{
	buf_printf(out, seconds < 9.95 ? "%.1f s" : "%.0f s", seconds);
}

uint64_t text_fewest_visits(const struct text *t)
{
	uint64_t fewest = UINT64_MAX;
	for (size_t i = 0; i < t->shown; i++) {
		const struct report_row *row = &t->event->rows.data[i];
		const struct row_measure *m = text_measure(t, row);
		if ((row->flags & ROW_FEW) == 0)
			continue;
		uint64_t visits = m->visits_outside > 0 && m->visits_outside < m->visits ? m->visits_outside : m->visits;
		fewest = visits < fewest ? visits : fewest;
	}
	return fewest;
}

void text_time(struct buf *out, double seconds)
{
	if (seconds < 90)
		buf_printf(out, "%.0f s", ceil(seconds));
	else if (seconds < 90 * 60)
		buf_printf(out, "%.0f min", ceil(seconds / 60));
	else if (seconds < 48 * 3600)
		buf_printf(out, "%.1f h", seconds / 3600);
	else
		buf_printf(out, "%.0f days", ceil(seconds / 86400));
}

void text_pad(struct buf *out, size_t from_column, size_t to_column)
{
	for (; from_column < to_column; from_column++)
		buf_byte(out, ' ');
}

void text_wrapped(struct text *t, const char *word, size_t indent, size_t columns, const char *text)
{
	struct buf escaped = { 0 };
	escape_terminal(&escaped, text, strlen(text));
	const char *s = buf_text(&escaped);
	size_t room = columns - indent - 1;
	for (size_t at = 0, length = escaped.size; at < length;) {
		size_t end = at + room < length ? at + room : length, cut = end;
		while (cut < length && cut > at && s[cut] != ' ')
			cut--;
		if (cut > at)
			end = cut;
		else // one long word
			while (end < length && ((unsigned char)s[end] & 0xc0) == 0x80)
				end++;
		buf_printf(t->out, "%-*s", (int)indent, at == 0 ? word : "");
		buf_add(t->out, s + at, end - at);
		buf_byte(t->out, '\n');
		at = end + (end < length && s[end] == ' ');
	}
	buf_release(&escaped);
}

const char *text_lost_word(const struct report_event *e)
{
	bool is_more = e->missing * e->taken > e->lost * e->n * (1 + 1e-9);
	return !is_more ? "lost" : e->lost > 0 ? "lost or missing" : "missing";
}

// Where the `columns`th code point of valid UTF-8 starts.
static size_t offset_of_column(const char *s, size_t length, size_t columns)
{
	size_t at = 0;
	for (uint32_t c; columns > 0 && at < length; columns--) {
		size_t n = utf8_decode(s + at, length - at, &c);
		at += n > 0 ? n : 1;
	}
	return at;
}

size_t text_name(struct buf *out, const char *name, size_t columns)
{
	struct buf escaped = { 0 };
	escape_terminal(&escaped, name, strlen(name));
	const char *s = buf_text(&escaped);
	size_t wide = utf8_columns(s, escaped.size);
	if (wide <= columns) {
		buf_add(out, s, escaped.size);
	} else if (columns > 0) {
		size_t head = columns / 2, tail = columns - head - 1;
		buf_add(out, s, offset_of_column(s, escaped.size, head));
		buf_string(out, "…");
		size_t from = offset_of_column(s, escaped.size, wide - tail);
		buf_add(out, s + from, escaped.size - from);
		wide = columns;
	} else {
		wide = 0;
	}
	buf_release(&escaped);
	return wide;
}

static const char *meta_text(const struct text *t, uint32_t id)
{
	return id != 0 ? profile_text(t->report->profile, id) : "";
}

void text_target(struct text *t)
{
	const struct profile *p = t->report->profile;
	const struct profile_meta *meta = &p->meta;
	const char *kind = meta_text(t, meta->target_kind), *comm = meta_text(t, meta->target_comm);
	if (strcmp(kind, "all") == 0 || strcmp(kind, "system") == 0 || strcmp(kind, "cpus") == 0) {
		buf_string(t->out, "all CPUs");
		return;
	}
	int32_t pid = meta->target_ids.count > 0 ? meta->target_ids.data[0] : 0;
	if (*comm == '\0' || pid == 0) // another's recording: what the samples say
		for (size_t i = 0; i < p->samples.count; i++) {
			struct profile_sample s_row;
			const struct profile_sample *s = samples_get(&p->samples, i, &s_row);
			if (s->is_idle)
				continue;
			comm = *comm == '\0' ? profile_text(p, s->comm) : comm;
			pid = pid == 0 ? s->pid : pid;
			break;
		}
	if (*comm == '\0' && pid == 0) {
		buf_string(t->out, "no samples");
		return;
	}
	text_name(t->out, comm, 40);
	buf_printf(t->out, "[%d]", pid);
	if (meta->target_ids.count > 1)
		buf_printf(t->out, " and %zu more", meta->target_ids.count - 1);
}

void text_start(struct text *t)
{
	uint64_t wall_ns = t->report->profile->meta.start_wall_ns;
	if (wall_ns == 0)
		return;
	time_t seconds = (time_t)(wall_ns / 1000000000u);
	struct tm tm;
	char text[40];
	if (gmtime_r(&seconds, &tm) != NULL && strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%SZ", &tm) > 0)
		buf_string(t->out, text);
}

const struct row_measure *text_measure(const struct text *t, const struct report_row *row)
{
	return t->children ? &row->total : &row->self;
}

const char *text_mark(const struct report_row *row)
{
	return row->flags & ROW_ALIASING ? "!" : row->flags & ROW_FEW ? "~" : row->flags & ROW_TREND ? "^" : row->flags & ROW_TIED_LOSS ? "*" : "";
}

// ---------------------------------------------------------------- what a row is

static const char *const key_titles[KEY_COUNT] = { "function", "dso", "comm", "pid", "tid", "cpu", "source line", "event", "cgroup" };

// Keys in the order asked for; symbol takes the dso along, and what is left of the line.
static bool key_has_column(const struct text *t, size_t key)
{
	bool has_symbol = false;
	for (size_t i = 0; i < t->report->options.keys.count; i++)
		has_symbol |= t->report->options.keys.data[i] == KEY_SYMBOL;
	return !(has_symbol && (key == KEY_SYMBOL || key == KEY_DSO));
}

static size_t key_width(const struct text *t, size_t key)
{
	size_t widest = strlen(key_titles[key]), most = key == KEY_SRCLINE ? 40 : key == KEY_DSO ? 30 : 16;
	for (size_t i = 0; i < t->shown; i++) {
		const char *text = t->event->rows.data[i].keys[key];
		struct buf escaped = { 0 };
		if (text != NULL)
			escape_terminal(&escaped, text, strlen(text));
		size_t columns = utf8_columns(buf_text(&escaped), escaped.size);
		widest = columns > widest ? columns : widest;
		buf_release(&escaped);
	}
	return widest < most ? widest : most;
}

static void trim(struct buf *out)
{
	while (out->size > 0 && out->data[out->size - 1] == ' ')
		out->size--;
	buf_text(out);
}

// The name, and what tells the function from others of that name, which stays whole for as long as there is room for it.
static void write_told(struct text *t, const struct report_row *row, size_t left)
{
	struct buf by = { 0 };
	buf_string(&by, " (");
	size_t taken = text_name(&by, row->told_by, left / 2) + 3;
	buf_byte(&by, ')');
	text_symbol(t->out, row->plain_name, left > taken + 8 ? left - taken : 8);
	buf_add(t->out, by.data, by.size);
	buf_release(&by);
}

static void write_symbol(struct text *t, const struct report_row *row, size_t left)
{
	const char *name = row->keys[KEY_SYMBOL], *dso = row->keys[KEY_DSO] != NULL ? row->keys[KEY_DSO] : "";
	struct buf place = { 0 }, escaped = { 0 };
	escape_terminal(&escaped, name, strlen(name));
	size_t wanted = utf8_columns(buf_text(&escaped), escaped.size) + 4, third = left / 3 > 12 ? left / 3 : 12;
	buf_release(&escaped);
	if (*dso != '\0' && !(row->is_unresolved && strcmp(dso, name) == 0)) { // the dso has what the name leaves, a third at least
		buf_string(&place, "  (");
		text_name(&place, dso, left > wanted + third ? left - wanted : third);
		buf_byte(&place, ')');
	}
	size_t taken = utf8_columns(buf_text(&place), place.size);
	left = left > taken + 16 ? left - taken : 16;
	if (row->told_by != NULL)
		write_told(t, row, left);
	else
		text_symbol(t->out, name, left);
	buf_add(t->out, place.data, place.size);
	buf_release(&place);
}

void text_nameless(struct text *t, const char *word, size_t indent, size_t columns)
{
	const struct report_row *row = NULL;
	for (size_t i = 0; i < t->shown && row == NULL; i++)
		if (t->event->rows.data[i].is_nameless)
			row = &t->event->rows.data[i];
	if (row == NULL)
		return;
	struct buf text = { 0 };
	buf_printf(&text, "%s: a function without a name, by where it starts in the file (objdump -d); a part that the compiler moved away is a row of its own",
	           row->keys[KEY_SYMBOL]);
	text_wrapped(t, word, indent, columns, buf_text(&text));
	buf_release(&text);
}

void text_label(struct text *t, const struct report_row *row, size_t at_column)
{
	for (size_t i = 0; i < t->report->options.keys.count; i++) {
		size_t key = t->report->options.keys.data[i];
		if (!key_has_column(t, key))
			continue;
		size_t width = key_width(t, key);
		size_t written = text_name(t->out, row->keys[key] != NULL ? row->keys[key] : "-", width);
		text_pad(t->out, written, width + 2);
		at_column += width + 2;
	}
	if (row->keys[KEY_SYMBOL] != NULL)
		write_symbol(t, row, t->width > at_column + 20 ? t->width - at_column : 20);
	trim(t->out);
	buf_byte(t->out, '\n');
}

void text_label_header(struct text *t)
{
	bool has_symbol = false;
	for (size_t i = 0; i < t->report->options.keys.count; i++) {
		size_t key = t->report->options.keys.data[i];
		has_symbol |= key == KEY_SYMBOL;
		if (!key_has_column(t, key))
			continue;
		buf_string(t->out, key_titles[key]);
		text_pad(t->out, strlen(key_titles[key]), key_width(t, key) + 2);
	}
	if (has_symbol)
		buf_string(t->out, "function");
	trim(t->out);
	buf_byte(t->out, '\n');
}

void text_calls(struct text *t, const struct report_row *row, size_t indent)
{
	enum { MAX_INDENT = 24 };
	for (size_t i = 0; i < row->call_count; i++) {
		const struct call_node *c = &row->calls[i];
		size_t at = indent + 2 * (c->depth < MAX_INDENT / 2 ? c->depth : MAX_INDENT / 2);
		text_pad(t->out, 0, at);
		buf_printf(t->out, "%5.1f  ", 100 * c->share);
		text_symbol(t->out, c->name, t->width > at + 27 ? t->width - at - 7 : 20);
		buf_byte(t->out, '\n');
	}
}

double text_largest_hidden(const struct text *t, bool worst_case)
{
	double largest = worst_case ? t->event->largest_unseen : 0;
	for (size_t i = t->shown; i < t->event->rows.count; i++) {
		const struct row_measure *m = text_measure(t, &t->event->rows.data[i]);
		largest = fmax(largest, worst_case ? m->worst_case.hi : m->share);
	}
	return largest;
}

void text_rank(const struct text *t, const struct report_row *row, char *out, size_t size)
{
	if (t->event->verdict == VERDICT_NO_RANKING || row->rank_lo == 0)
		snprintf(out, size, "-");
	else if (row->rank_lo == row->rank_hi)
		snprintf(out, size, "%u", row->rank_lo);
	else if (row->rank_hi >= t->event->function_count && t->event->function_count > 9)
		snprintf(out, size, "%u+", row->rank_lo);
	else
		snprintf(out, size, "%u-%u", row->rank_lo, row->rank_hi);
}

size_t text_rank_width(const struct text *t)
{
	size_t widest = strlen(" rank");
	for (size_t i = 0; i < t->shown; i++) {
		char rank[32];
		text_rank(t, &t->event->rows.data[i], rank, sizeof(rank));
		widest = strlen(rank) > widest ? strlen(rank) : widest;
	}
	return widest;
}

static void cut_for(struct buf *out, double count, double all, const char *what, size_t *said)
{
	if (!(count > 0))
		return;
	buf_printf(out, "%s%.1f%% %s", *said > 0 ? ", " : "", 100 * count / all, what);
	++*said;
}

void text_cut(struct text *t, struct buf *out)
{
	const struct report_event *e = t->event;
	double all = (double)(e->stacks_complete + e->stacks_joined + e->stacks_truncated + e->stacks_failed);
	uint32_t copy = t->report->profile->meta.stack_bytes;
	char deep[64] = "TRUNCATED (deeper than the copy)";
	size_t said = 0;
	if (copy >= 1024)
		snprintf(deep, sizeof(deep), "TRUNCATED (over %.0f KB deep)", round(copy / 1024.0));
	cut_for(out, (double)e->ends[UNWIND_TRUNCATED], all, deep, &said);
	cut_for(out, (double)e->ends[UNWIND_ABSENT_PAGE], all, "CUT (stack page not in memory)", &said);
	// What has a copy was walked by us, who have a limit of our own.
	cut_for(out, (double)e->ends[UNWIND_DEPTH_LIMIT], all, copy > 0 ? "CUT (more frames than a record holds)" : "CUT (over kernel.perf_event_max_stack)", &said);
	const uint64_t other = e->ends[UNWIND_OTHER_STACK], probed = e->ends[UNWIND_UPROBE_TRAMPOLINE], named = other + probed;
	cut_for(out, (double)other, all, "CUT (on another stack of the thread)", &said);
	cut_for(out, (double)(e->stacks_failed > named ? e->stacks_failed - named : 0), all, "FAILED", &said);
	cut_for(out, (double)probed, all, "FAILED (return address replaced by a probe)", &said);
}
