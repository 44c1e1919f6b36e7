// The picture. Positions, labels and colours are complete without the script, which only moves what is there.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/escape.h"
#include "flamegraph.h"
#include "sha256.h"
#include "tree.h"

enum { PITCH = 18, MARGIN = 12, HUES = 16, FALLBACK_WIDTH = 1200 };
#define COLUMN_PX 7.23 // a monospaced letter at 12 px
#define LEAST_PX 0.1

// Built from flamegraph.css and flamegraph.js by the makefile.
extern const char asset_flamegraph_css[], asset_flamegraph_js[];
extern const size_t asset_flamegraph_css_size, asset_flamegraph_js_size;

enum kind { KIND_USER, KIND_INLINED, KIND_KERNEL, KIND_END, KIND_MERGED };

struct palette { double from_hue, to_hue, saturation, lightness; };
static const struct palette palettes[FLAMEGRAPH_COLORS][3] = { // user, inlined, kernel
	{ { 14, 48, 0.86, 0.64 }, { 18, 52, 0.80, 0.80 }, { 200, 226, 0.62, 0.70 } },
	{ { 158, 200, 0.48, 0.60 }, { 160, 200, 0.48, 0.78 }, { 258, 290, 0.52, 0.76 } },
	{ { 30, 30, 0.03, 0.76 }, { 30, 30, 0.03, 0.88 }, { 215, 215, 0.10, 0.66 } },
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

static void color_rules(struct buf *out, enum flamegraph_colors colors)
{
	static const char letters[] = "uik";
	for (size_t kind = 0; kind < 3; kind++) {
		const struct palette *p = &palettes[colors][kind];
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

// A frame's kind by its marks, which are cut off the name.
static enum kind kind_of(const char *name, size_t *length)
{
	if (*length > 4 && memcmp(name + *length - 4, "_[k]", 4) == 0)
		return *length -= 4, KIND_KERNEL;
	if (*length > 4 && memcmp(name + *length - 4, "_[i]", 4) == 0)
		return *length -= 4, KIND_INLINED;
	bool is_bracketed = *length > 2 && name[0] == '[' && name[*length - 1] == ']';
	static const char *const ends[] = { "[truncated]", "[unwind failed]", "[unknown]" };
	for (size_t i = 0; is_bracketed && i < sizeof(ends) / sizeof(ends[0]); i++)
		if (*length == strlen(ends[i]) && memcmp(name, ends[i], *length) == 0)
			return KIND_END;
	return KIND_USER;
}

// 1234567 as 1,234,567.
static void grouped(struct buf *out, uint64_t n)
{
	char digits[24];
	int length = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)n);
	for (int i = 0; i < length; i++) {
		if (i > 0 && (length - i) % 3 == 0)
			buf_byte(out, ',');
		buf_byte(out, (uint8_t)digits[i]);
	}
}

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

static void class_of(const struct picture *p, const struct flame_box *box, enum kind kind, const char *name, size_t length)
{
	if (box->merged > 0)
		buf_string(p->out, "m");
	else if (box->depth == 0)
		buf_string(p->out, "r");
	else if (kind == KIND_END)
		buf_string(p->out, "t");
	else
		buf_printf(p->out, "%c %c%u", "uik"[kind], "uik"[kind], (unsigned)(hash_bytes(name, length) % HUES));
}

static void box_element(const struct picture *p, const struct flame_box *box, struct buf *merged_name)
{
	const struct flame_tree *tree = p->tree;
	uint32_t id = tree->nodes.data[box->node].name;
	const char *name = box->depth == 0 ? "all" : intern_text(&tree->names, id);
	size_t length = box->depth == 0 ? 3 : intern_length(&tree->names, id);
	enum kind kind = kind_of(name, &length);
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
	class_of(p, box, kind, name, length);
	buf_printf(p->out, "\" data-s=\"%llu\" data-n=\"%llu\" data-d=\"%u\"", (unsigned long long)box->start, (unsigned long long)box->total,
	           box->depth);
	if (box->self > 0)
		buf_printf(p->out, " data-o=\"%llu\"", (unsigned long long)box->self);
	buf_string(p->out, "><title>");
	escape_xml(p->out, name, length);
	buf_byte(p->out, '\n');
	grouped(p->out, box->total);
	buf_byte(p->out, ' ');
	escape_xml(p->out, unit_of(p), strlen(unit_of(p)));
	buf_printf(p->out, ", %.2f%%</title><rect x=\"%.1f\" y=\"%zu\" width=\"%.2f\" height=\"%d\"/>",
	           percent_of(box->total, tree->nodes.data[0].total), x, y, w > 2 ? w - 0.6 : w, PITCH - 1);
	if ((w - 6) / COLUMN_PX >= 3) {
		buf_printf(p->out, "<text x=\"%.1f\" y=\"%.1f\">", x + 3, (double)y + 12.5);
		label(p->out, name, length, (size_t)((w - 6) / COLUMN_PX));
		buf_string(p->out, "</text>");
	}
	buf_string(p->out, "</g>\n");
}

static size_t line_count(const char *text)
{
	size_t lines = text != NULL && *text != '\0';
	for (; lines > 0 && *text != '\0'; text++)
		lines += *text == '\n';
	return lines;
}

static void head(const struct picture *p)
{
	const char *title = p->options->title != NULL ? p->options->title : "Flame graph";
	buf_printf(p->out, "<g class=\"head\"><rect class=\"back\" width=\"%.0f\" height=\"%zu\"/><text class=\"title\" x=\"%d\" y=\"30\">", p->width,
	           p->head - 6, MARGIN);
	escape_xml(p->out, title, strlen(title));
	buf_string(p->out, "</text>\n");
	const char *line = p->options->subtitle;
	size_t lines = line_count(line);
	for (size_t i = 0; i < lines; i++) {
		size_t length = strcspn(line, "\n");
		buf_printf(p->out, "<text class=\"sub\" x=\"%d\" y=\"%zu\">", MARGIN, 50 + 16 * i);
		escape_xml(p->out, line, length);
		buf_string(p->out, "</text>\n");
		line += length + (line[length] == '\n');
	}
	buf_string(p->out, "</g>\n");
}

// What the colours and the order mean, of those that occur.
static void legend(const struct picture *p)
{
	static const struct { const char *class, *text; } kinds[] = {
		[KIND_USER] = { "u5", "user" }, [KIND_INLINED] = { "i5", "inlined" }, [KIND_KERNEL] = { "k5", "kernel" },
		[KIND_END] = { "t", "not unwound" }, [KIND_MERGED] = { "m", "too narrow" },
	};
	bool occurs[KIND_MERGED + 1] = { false };
	size_t y = p->height - 10, x = MARGIN;
	for (size_t i = 1; i < p->boxes.items.count; i++) {
		const struct flame_box *box = &p->boxes.items.data[i];
		uint32_t id = p->tree->nodes.data[box->node].name;
		size_t length = intern_length(&p->tree->names, id);
		occurs[box->merged > 0 ? KIND_MERGED : kind_of(intern_text(&p->tree->names, id), &length)] = true;
	}
	for (size_t kind = 0; kind <= KIND_MERGED; kind++) {
		if (!occurs[kind])
			continue;
		buf_printf(p->out, "<rect class=\"%s\" x=\"%zu\" y=\"%zu\" width=\"10\" height=\"10\"/><text class=\"hint\" x=\"%zu\" y=\"%zu\">%s</text>\n",
		           kinds[kind].class, x, y - 9, x + 14, y, kinds[kind].text);
		x += 30 + 6 * strlen(kinds[kind].text);
	}
	buf_printf(p->out, "<text class=\"hint\" x=\"%zu\" y=\"%zu\">Left to right is by name, not by time. Click zooms; / searches; arrows and Enter walk and "
	           "zoom; Esc goes back.</text>\n", x + 6, y);
}

static void svg(const struct picture *p, const char *style, size_t style_size, bool is_alone)
{
	const char *title = p->options->title != NULL ? p->options->title : "Flame graph";
	buf_printf(p->out, "<svg %sclass=\"flamegraph\" width=\"%.0f\" height=\"%zu\" viewBox=\"0 0 %.0f %zu\" data-total=\"%llu\" data-inverted=\"%d\" "
	           "data-width=\"%u\" data-unit=\"", is_alone ? "xmlns=\"http://www.w3.org/2000/svg\" version=\"1.1\" " : "", p->width, p->height,
	           p->width, p->height, (unsigned long long)p->tree->nodes.data[0].total, p->options->inverted, p->options->width);
	escape_xml(p->out, unit_of(p), strlen(unit_of(p)));
	buf_string(p->out, "\">\n");
	if (is_alone) {
		buf_string(p->out, "<title>");
		escape_xml(p->out, title, strlen(title));
		buf_string(p->out, "</title>\n<style>");
		buf_add(p->out, style, style_size);
		buf_string(p->out, "</style>\n");
	}
	buf_printf(p->out, "<rect class=\"back\" width=\"%.0f\" height=\"%zu\"/>\n", p->width, p->height);
	head(p);
	struct buf merged_name = { 0 };
	for (size_t i = 0; i < p->boxes.items.count; i++)
		box_element(p, &p->boxes.items.data[i], &merged_name);
	buf_release(&merged_name);
	legend(p);
	if (is_alone) {
		buf_string(p->out, "<script><![CDATA[");
		buf_add(p->out, asset_flamegraph_js, asset_flamegraph_js_size);
		buf_string(p->out, "]]></script>\n");
	}
	buf_string(p->out, "</svg>\n");
}

static void page(const struct picture *p, const char *style, size_t style_size)
{
	const char *title = p->options->title != NULL ? p->options->title : "Flame graph";
	buf_string(p->out, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
	           "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; base-uri 'none'; form-action 'none'; style-src 'sha256-");
	sha256_base64(p->out, style, style_size);
	buf_string(p->out, "'; script-src 'sha256-");
	sha256_base64(p->out, asset_flamegraph_js, asset_flamegraph_js_size);
	buf_string(p->out, "'\">\n<meta name=\"viewport\" content=\"width=device-width\"><meta name=\"color-scheme\" content=\"light dark\">\n<title>");
	escape_xml(p->out, title, strlen(title));
	buf_string(p->out, "</title>\n<style>");
	buf_add(p->out, style, style_size);
	buf_string(p->out, "</style></head>\n<body>\n");
	svg(p, NULL, 0, false);
	buf_string(p->out, "<script>");
	buf_add(p->out, asset_flamegraph_js, asset_flamegraph_js_size);
	buf_string(p->out, "</script>\n</body></html>\n");
}

bool flamegraph_render(const char *folded, size_t size, const struct flamegraph_options *options, struct buf *out, struct err *err)
{
	struct flame_tree tree;
	flame_tree_init(&tree);
	if (!flame_tree_add(&tree, folded, size, options->reverse, err)) {
		flame_tree_release(&tree);
		return false;
	}
	uint64_t total = tree.nodes.data[0].total;
	struct picture p = { .options = options, .tree = &tree, .width = options->width > 0 ? options->width : FALLBACK_WIDTH, .out = out };
	p.scale = total > 0 ? (p.width - 2 * MARGIN) / (double)total : 0;
	flame_tree_layout(&tree, total > 0 ? LEAST_PX / p.scale : 0, &p.boxes);
	p.head = 46 + 16 * line_count(options->subtitle) + 10;
	p.height = p.head + (p.boxes.depth + 1) * PITCH + 30;
	struct buf style = { 0 };
	if (options->format == FLAMEGRAPH_HTML)
		buf_string(&style, "body{margin:0;background:#fffdf9}\n@media (prefers-color-scheme:dark){body{background:#1a1816}}\n");
	color_rules(&style, options->colors);
	buf_add(&style, asset_flamegraph_css, asset_flamegraph_css_size);
	if (options->format == FLAMEGRAPH_HTML)
		page(&p, style.data, style.size);
	else
		svg(&p, style.data, style.size, true);
	buf_release(&style);
	vec_release(&p.boxes.items);
	flame_tree_release(&tree);
	return true;
}
