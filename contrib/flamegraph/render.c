// The picture. Positions, labels and colours are complete without the script, which only moves what is there.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/escape.h"
#include "flamegraph.h"
#include "marks.h"
#include "page.h"
#include "tree.h"

enum { PITCH = 18, MARGIN = 12, HUES = 16, FALLBACK_WIDTH = 1200 };
#define COLUMN_PX 7.23 // a monospaced letter at 12 px
#define SUBTITLE_PX 6.6  // letters of the subtitle and the title, on average
#define TITLE_PX 9.4
#define LEAST_PX 0.1

// Built from flamegraph.css and flamegraph.js by the makefile.
extern const char asset_flamegraph_css[], asset_flamegraph_js[];
extern const size_t asset_flamegraph_css_size, asset_flamegraph_js_size;

struct palette { double from_hue, to_hue, saturation, lightness; };
static const struct palette palettes[FLAMEGRAPH_COLORS][4] = { // user, inlined, kernel, JIT
	{ { 14, 48, 0.86, 0.64 }, { 18, 52, 0.80, 0.80 }, { 200, 226, 0.62, 0.70 }, { 262, 282, 0.56, 0.76 } },
	{ { 158, 200, 0.48, 0.60 }, { 160, 200, 0.48, 0.78 }, { 258, 290, 0.52, 0.76 }, { 316, 340, 0.50, 0.76 } },
	{ { 30, 30, 0.03, 0.76 }, { 30, 30, 0.03, 0.88 }, { 215, 215, 0.10, 0.66 }, { 270, 270, 0.08, 0.76 } },
};

bool flamegraph_colors_find(const char *name, enum flamegraph_colors *out)
{
	static const char *const names[FLAMEGRAPH_COLORS] = { "warm", "cool", "gray" };
	for (int i = 0; i < FLAMEGRAPH_COLORS; i++) {
		if (strcmp(name, names[i]) == 0) {
			*out = (enum flamegraph_colors)i;
			return true;
		}
	}
	return false;
}

static unsigned channel(double h, double s, double l, double n) // CSS Color 4, section 7.1
{
	double k = fmod(n + h / 30, 12), a = s * fmin(l, 1 - l);
	return (unsigned)lround(255 * (l - a * fmax(-1, fmin(fmin(k - 3, 9 - k), 1))));
}

static void color_rules(struct buf *out, const struct flamegraph_options *options)
{
	static const char letters[] = "uikj";
	for (size_t kind = 0; kind < 4; kind++) {
		const struct palette *p = &palettes[options->colors][kind];
		for (int i = 0; i < HUES; i++) {
			double h = p->from_hue + (p->to_hue - p->from_hue) * i / (HUES - 1), l = p->lightness + 0.014 * (i * 7 % 5 - 2);
			buf_printf(out, ".%c%d{fill:#%02x%02x%02x}\n", letters[kind], i, channel(h, p->saturation, l, 0), channel(h, p->saturation, l, 8),
			           channel(h, p->saturation, l, 4));
		}
	}
	buf_string(out, ".t{fill:#d6d2cc}\n.m{fill:#e7e2db}\n.r{fill:#cdc6bc}\n");
}

struct picture {
	const struct flamegraph_options *options;
	const struct flame_tree *tree;
	struct flame_boxes boxes;
	double width, scale;
	size_t head, height; // of the title part; of everything
	struct buf *out;
};

// The name as far as `columns` letters hold it.
static void label(struct buf *out, const char *name, size_t length, size_t columns)
{
	if (utf8_columns(name, length) <= columns) {
		escape_xml(out, name, length);
		return;
	}
	size_t end = 0;
	for (size_t column = 0; column + 1 < columns && end < length; column++) {
		uint32_t c;
		size_t n = utf8_decode(name + end, length - end, &c);
		end += n > 0 ? n : 1;
	}
	escape_xml(out, name, end);
	buf_string(out, "\xe2\x80\xa6");
}

static const char *unit_of(const struct picture *p)
{
	return p->options->unit != NULL ? p->options->unit : "samples";
}

static double percent_of(uint64_t part, uint64_t whole)
{
	return whole > 0 ? 100.0 * (double)part / (double)whole : 0;
}

static void class_of(const struct picture *p, const struct flame_box *box, enum mark_kind kind, int change, const char *name, size_t length)
{
	if (box->merged > 0)
		buf_string(p->out, "m");
	else if (box->depth == 0)
		buf_string(p->out, "r");
	else if (kind == MARK_KIND_END)
		buf_string(p->out, "t");
	else if (p->options->is_comparison)
		buf_printf(p->out, "c %s%d", change == 0 ? "c" : change > 0 ? "p" : "n", abs(change));
	else
		buf_printf(p->out, "%c %c%u", "uikj"[kind], "uikj"[kind], (unsigned)(hash_bytes_fixed(name, length) % HUES));
}

static void box_element(const struct picture *p, const struct flame_box *box, struct buf *merged_name)
{
	const struct flame_tree *tree = p->tree;
	uint32_t id = tree->nodes.data[box->node].name;
	const char *name = box->depth == 0 ? "all" : intern_text(&tree->names, id);
	size_t length = box->depth == 0 ? 3 : intern_length(&tree->names, id);
	int change = mark_of_change(name, &length);
	enum mark_kind kind = mark_of(name, &length);
	if (box->merged > 0) {
		buf_clear(merged_name);
		buf_printf(merged_name, "(%u narrower frame%s)", box->merged, box->merged == 1 ? "" : "s");
		name = merged_name->data;
		length = merged_name->size;
	}
	double x = MARGIN + (double)box->start * p->scale, w = (double)box->total * p->scale;
	size_t row = p->options->inverted ? box->depth : p->boxes.depth - box->depth;
	size_t y = p->head + row * PITCH;
	buf_string(p->out, "<g class=\"f ");
	class_of(p, box, kind, change, name, length);
	buf_printf(p->out, "\" data-s=\"%llu\" data-n=\"%llu\" data-d=\"%u\"", (unsigned long long)box->start, (unsigned long long)box->total,
	           box->depth);
	if (p->options->both_counts)
		buf_printf(p->out, " data-k=\"%llu\"", (unsigned long long)box->samples);
	if (box->self > 0)
		buf_printf(p->out, " data-o=\"%llu\"", (unsigned long long)box->self);
	buf_string(p->out, "><title>");
	escape_xml(p->out, name, length);
	buf_byte(p->out, '\n');
	buf_grouped(p->out, box->total);
	buf_byte(p->out, ' ');
	escape_xml(p->out, unit_of(p), strlen(unit_of(p)));
	buf_printf(p->out, ", %.2f%%", percent_of(box->total, tree->nodes.data[0].total));
	if (p->options->both_counts) {
		buf_string(p->out, ", ");
		buf_grouped(p->out, box->samples);
		buf_string(p->out, box->samples == 1 ? " sample" : " samples");
	}
	buf_printf(p->out, "</title><rect x=\"%.1f\" y=\"%zu\" width=\"%.2f\" height=\"%d\"/>",
	           x, y, w > 2 ? w - 0.6 : w, PITCH - 1);
	if ((w - 6) / COLUMN_PX >= 3) {
		buf_printf(p->out, "<text x=\"%.1f\" y=\"%.1f\">", x + 3, (double)y + 12.5);
		label(p->out, name, length, (size_t)((w - 6) / COLUMN_PX));
		buf_string(p->out, "</text>");
	}
	buf_string(p->out, "</g>\n");
}

// The subtitle's next line: up to its end, or to the last blank that keeps it inside the picture.
static size_t line_length(const char *text, size_t columns)
{
	size_t length = strcspn(text, "\n"), end = length;
	while (end > 0 && utf8_columns(text, end) > columns) {
		const char *blank = memrchr(text, ' ', end);
		if (blank == NULL || blank == text)
			break;
		end = (size_t)(blank - text);
	}
	return end > 0 ? end : length;
}

static const char *line_after(const char *line, size_t length)
{
	return line + length + (line[length] == '\n' || line[length] == ' ');
}

static size_t line_count(const char *text, size_t columns)
{
	size_t lines = 0;
	for (; text != NULL && *text != '\0'; lines++)
		text = line_after(text, line_length(text, columns));
	return lines;
}

static size_t subtitle_columns(const struct picture *p)
{
	return (size_t)((p->width - 2 * MARGIN) / SUBTITLE_PX);
}

static void head(const struct picture *p)
{
	const char *title = p->options->title != NULL ? p->options->title : "Flame graph";
	buf_printf(p->out, "<g class=\"head\"><rect class=\"back\" width=\"%.0f\" height=\"%zu\"/><text class=\"title\" x=\"%d\" y=\"30\">", p->width,
	           p->head - 6, MARGIN);
	label(p->out, title, strlen(title), (size_t)((p->width - 2 * MARGIN) / TITLE_PX));
	buf_string(p->out, "</text>\n");
	size_t y = 50;
	for (const char *line = p->options->subtitle; line != NULL && *line != '\0'; y += 16) {
		size_t length = line_length(line, subtitle_columns(p));
		buf_printf(p->out, "<text class=\"sub\" x=\"%d\" y=\"%zu\">", MARGIN, y);
		escape_xml(p->out, line, length);
		buf_string(p->out, "</text>\n");
		line = line_after(line, length);
	}
	buf_string(p->out, "</g>\n");
}

struct swatch { const char *class, *text; };

static void swatches(const struct picture *p, const struct swatch *list, const bool *occurs, size_t count, size_t y)
{
	for (size_t i = 0, x = MARGIN; i < count; i++) {
		if (!occurs[i])
			continue;
		buf_printf(p->out, "<rect class=\"%s\" x=\"%zu\" y=\"%zu\" width=\"10\" height=\"10\"/><text class=\"hint\" x=\"%zu\" y=\"%zu\">%s</text>\n",
		           list[i].class, x, y - 9, x + 14, y, list[i].text);
		x += 30 + 6 * strlen(list[i].text);
	}
}

// What the colours and the order mean, of those that occur.
static void legend(const struct picture *p)
{
	enum { CHANGES = 4, WIDE = 760 };
	static const struct swatch kinds[MARK_KINDS] = {
		[MARK_KIND_USER] = { "u5", "user" }, [MARK_KIND_INLINED] = { "i5", "inlined" }, [MARK_KIND_KERNEL] = { "k5", "kernel" }, [MARK_KIND_JIT] = { "j5", "JIT" },
		[MARK_KIND_END] = { "t", "not unwound" }, [MARK_KIND_MERGED] = { "m", "too narrow" },
	};
	static const struct swatch changes[2 * CHANGES + 1] = {
		{ "p3", "slower, surest" }, { "p2", "slower, surer" }, { "p1", "slower, sure" }, { "p4", "slower in these runs" }, { "c0", "not distinguishable" },
		{ "n4", "faster in these runs" }, { "n1", "faster, sure" }, { "n2", "faster, surer" }, { "n3", "faster, surest" },
	};
	static const int place[2 * CHANGES + 1] = { 5, 8, 7, 6, 4, 2, 1, 0, 3 }; // by change + 4
	bool kind_occurs[MARK_KINDS] = { false }, change_occurs[2 * CHANGES + 1] = { false };
	size_t y = p->height - 26;
	for (size_t i = 1; i < p->boxes.items.count; i++) {
		const struct flame_box *box = &p->boxes.items.data[i];
		uint32_t id = p->tree->nodes.data[box->node].name;
		size_t length = intern_length(&p->tree->names, id);
		const char *name = intern_text(&p->tree->names, id);
		int change = mark_of_change(name, &length);
		enum mark_kind kind = box->merged > 0 ? MARK_KIND_MERGED : mark_of(name, &length);
		if (p->options->is_comparison && kind != MARK_KIND_MERGED && kind != MARK_KIND_END)
			change_occurs[place[change + CHANGES]] = true;
		else
			kind_occurs[kind] = true;
	}
	if (p->options->is_comparison)
		swatches(p, changes, change_occurs, 2 * CHANGES + 1, y);
	else
		swatches(p, kinds, kind_occurs, MARK_KINDS, y);
	buf_printf(p->out, "<text class=\"hint\" x=\"%d\" y=\"%zu\">Left to right is by name, not by time.%s</text>\n", MARGIN, y + 16,
	           p->width < WIDE ? "" : " Click zooms; / searches; arrows and Enter walk and zoom; Esc goes back.");
}

static void svg(const struct picture *p, const char *style, size_t style_size)
{
	const char *title = p->options->title != NULL ? p->options->title : "Flame graph";
	buf_printf(p->out, "<svg xmlns=\"http://www.w3.org/2000/svg\" version=\"1.1\" class=\"flamegraph\" width=\"%.0f\" height=\"%zu\" viewBox=\"0 0 %.0f %zu\" data-total=\"%llu\" data-inverted=\"%d\" "
	           "data-width=\"%u\" data-unit=\"", p->width, p->height,
	           p->width, p->height, (unsigned long long)p->tree->nodes.data[0].total, p->options->inverted, p->options->width);
	escape_xml(p->out, unit_of(p), strlen(unit_of(p)));
	buf_string(p->out, "\">\n");
	buf_string(p->out, "<title>");
	escape_xml(p->out, title, strlen(title));
	buf_string(p->out, "</title>\n<style>");
	buf_add(p->out, style, style_size);
	buf_string(p->out, "</style>\n");
	buf_printf(p->out, "<rect class=\"back\" width=\"%.0f\" height=\"%zu\"/>\n", p->width, p->height);
	head(p);
	struct buf merged_name = { 0 };
	for (size_t i = 0; i < p->boxes.items.count; i++)
		box_element(p, &p->boxes.items.data[i], &merged_name);
	buf_release(&merged_name);
	legend(p);
	buf_string(p->out, "<script><![CDATA[");
	buf_add(p->out, asset_flamegraph_js, asset_flamegraph_js_size);
	buf_string(p->out, "]]></script>\n");
	buf_string(p->out, "</svg>\n");
}

// Each stack of the folded text is so many samples of one thread at one time.
static bool page_of_folded(struct flame_tree *tree, const struct flamegraph_options *options, struct buf *out, struct err *err)
{
	struct flamegraph_page page = { .tree = *tree, .bins = 1, .has_weights = true };
	flamegraph_page_thread(&page, "all");
	for (uint32_t i = 0; i < tree->nodes.count; i++)
		if (tree->nodes.data[i].self > 0)
			vec_push(&page.samples, (struct flamegraph_sample){ .node = i, .weight = (double)tree->nodes.data[i].self });
	page.threads.data[0].count = page.samples.count;
	bool good = flamegraph_page_render(&page, options, out, err);
	*tree = page.tree;
	page.tree = (struct flame_tree){ 0 };
	flamegraph_page_release(&page);
	return good;
}

static void draw(struct flame_tree *tree, const struct flamegraph_options *options, struct buf *out)
{
	uint64_t total = tree->nodes.data[0].total;
	struct picture p = { .options = options, .tree = tree, .width = options->width > 0 ? options->width : FALLBACK_WIDTH, .out = out };
	p.scale = total > 0 ? (p.width - 2 * MARGIN) / (double)total : 0;
	flame_tree_layout(tree, total > 0 ? LEAST_PX / p.scale : 0, &p.boxes);
	p.head = 46 + 16 * line_count(options->subtitle, subtitle_columns(&p)) + 10;
	p.height = p.head + (p.boxes.depth + 1) * PITCH + 46;
	struct buf style = { 0 };
	color_rules(&style, options);
	buf_add(&style, asset_flamegraph_css, asset_flamegraph_css_size);
	svg(&p, style.data, style.size);
	buf_release(&style);
	vec_release(&p.boxes.items);
}

bool flamegraph_render(const char *folded, size_t size, const struct flamegraph_options *options, struct buf *out, struct err *err)
{
	struct flame_tree tree;
	flame_tree_init(&tree);
	bool good = flame_tree_add(&tree, folded, size, options->reverse && options->format == FLAMEGRAPH_SVG, options->both_counts, err);
	if (good && options->format == FLAMEGRAPH_HTML)
		good = page_of_folded(&tree, options, out, err);
	else if (good)
		draw(&tree, options, out);
	flame_tree_release(&tree);
	return good;
}
