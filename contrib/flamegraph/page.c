// The page: what it holds as text (title, facts, names), the samples as packed columns, and the script that draws both.
#include "page.h"

#include <stdlib.h>
#include <string.h>

#include "base/escape.h"
#include "base/gzip.h"
#include "marks.h"
#include "sha256.h"

// Built from page.css and the scripts by the makefile.
extern const char asset_page_css[], asset_page_numbers_js[], asset_page_data_js[], asset_page_draw_js[], asset_page_js[];
extern const size_t asset_page_css_size, asset_page_numbers_js_size, asset_page_data_js_size, asset_page_draw_js_size, asset_page_js_size;

void flamegraph_page_init(struct flamegraph_page *page)
{
	*page = (struct flamegraph_page){ .bins = 1 };
	flame_tree_init(&page->tree);
	vec_push(&page->guessed, 0);
}

void flamegraph_page_release(struct flamegraph_page *page)
{
	flame_tree_release(&page->tree);
	vec_release(&page->guessed);
	vec_release(&page->samples);
	for (size_t i = 0; i < page->threads.count; i++)
		free(page->threads.data[i].name);
	vec_release(&page->threads);
}

// ---------------------------------------------------------------- frames

// Name, NUL, image, NUL, and these: names come first, so that children in the order of the text are in the order of names.
struct packed { uint32_t row; uint8_t kind, is_inlined; };

uint32_t flamegraph_page_frame(struct flamegraph_page *page, const struct flamegraph_frame *frame)
{
	struct packed packed;
	struct buf text = { 0 };
	memset(&packed, 0, sizeof(packed)); // with its padding
	packed.row = frame->row;
	packed.kind = (uint8_t)frame->kind;
	packed.is_inlined = frame->is_inlined;
	buf_add(&text, frame->name, strlen(frame->name) + 1);
	buf_add(&text, frame->image != NULL ? frame->image : "", (frame->image != NULL ? strlen(frame->image) : 0) + 1);
	buf_add(&text, &packed, sizeof(packed));
	uint32_t id = intern_bytes(&page->tree.names, text.data, text.size);
	buf_release(&text);
	return id;
}

// A frame of folded text has no NUL: its marks say the kind.
static struct flamegraph_frame frame_of(const struct flamegraph_page *page, uint32_t id, size_t *name_length)
{
	const char *text = intern_text(&page->tree.names, id);
	size_t length = intern_length(&page->tree.names, id), name = strlen(text);
	struct packed packed;
	if (name == length || length < name + 2 + sizeof(packed)) {
		*name_length = length;
		enum mark_kind mark = mark_of(text, name_length);
		return (struct flamegraph_frame){ .name = text, .image = "", .is_inlined = mark == MARK_KIND_INLINED,
			.kind = mark == MARK_KIND_KERNEL ? FLAMEGRAPH_KERNEL : mark == MARK_KIND_JIT ? FLAMEGRAPH_JIT : mark == MARK_KIND_END ? FLAMEGRAPH_END
			: FLAMEGRAPH_USER };
	}
	memcpy(&packed, text + length - sizeof(packed), sizeof(packed));
	*name_length = name;
	return (struct flamegraph_frame){ .name = text, .image = text + name + 1, .kind = packed.kind, .is_inlined = packed.is_inlined, .row = packed.row };
}

uint32_t flamegraph_page_child(struct flamegraph_page *page, uint32_t parent, uint32_t frame)
{
	uint32_t node = flame_tree_child(&page->tree, parent, frame);
	if (node == page->guessed.count)
		vec_push(&page->guessed, 0);
	return node;
}

void flamegraph_page_thread(struct flamegraph_page *page, const char *name)
{
	vec_push(&page->threads, (struct flamegraph_thread){ .name = mem_string(name) });
}

// ---------------------------------------------------------------- columns

struct writing {
	const struct flamegraph_page *page;
	struct buf columns, images;
	uint32_t *place, *frame_number; // by node: its place in preorder; by name: its number among frames written
	VEC(uint32_t) frames;           // names, in the order written
};

// Nodes in preorder: how many levels it is above the one before (0: a child), its frame and whether it is guessed.
static void put_nodes(struct writing *w)
{
	const struct flame_tree *tree = &w->page->tree;
	struct flame_children children = flame_tree_children(tree);
	VEC(uint32_t) path = { 0 };
	uint32_t place = 0, *next = mem_zero(tree->nodes.count, sizeof(*next)), last_depth = 0;
	buf_uleb(&w->columns, tree->nodes.count);
	vec_push(&path, 0);
	while (path.count > 0) {
		uint32_t node = path.data[path.count - 1];
		const struct flame_node *n = &tree->nodes.data[node];
		size_t first = children.first[node], count = children.first[node + 1] - first;
		if (next[node] == 0) {
			w->place[node] = place++;
			if (node > 0) {
				uint32_t *number = &w->frame_number[n->name];
				if (*number == 0) {
					vec_push(&w->frames, n->name);
					*number = (uint32_t)w->frames.count;
				}
				buf_uleb(&w->columns, last_depth + 1 - n->depth);
				buf_uleb(&w->columns, (uint64_t)(*number - 1) << 1 | (node < w->page->guessed.count && w->page->guessed.data[node]));
				last_depth = n->depth;
			}
		}
		if (next[node] == count) {
			path.count--;
			continue;
		}
		vec_push(&path, children.nodes[first + next[node]++]);
	}
	free(next);
	free(children.nodes);
	free(children.first);
	vec_release(&path);
}

static void put_double(struct buf *out, double value)
{
	uint64_t bits;
	memcpy(&bits, &value, sizeof(bits));
	for (int i = 0; i < 8; i++)
		buf_byte(out, (uint8_t)(bits >> (8 * i)));
}

// Per thread: how many; each sample's bin as what it is beyond the one before, and its node. Then the weights, if any, little-endian.
static void put_samples(struct writing *w)
{
	const struct flamegraph_page *page = w->page;
	size_t at = 0;
	buf_uleb(&w->columns, page->threads.count);
	for (size_t t = 0; t < page->threads.count; t++) {
		uint32_t bin = 0;
		buf_uleb(&w->columns, page->threads.data[t].count);
		for (size_t i = 0; i < page->threads.data[t].count; i++, at++) {
			const struct flamegraph_sample *s = &page->samples.data[at];
			buf_uleb(&w->columns, s->bin > bin ? s->bin - bin : 0);
			bin = s->bin > bin ? s->bin : bin;
			buf_uleb(&w->columns, w->place[s->node]);
		}
	}
	for (size_t i = 0; page->has_weights && i < page->samples.count; i++)
		put_double(&w->columns, page->samples.data[i].weight);
}

// ---------------------------------------------------------------- names

static void put_text(struct buf *out, const char *text, size_t length)
{
	struct buf shown = { 0 };
	escape_terminal(&shown, text, length); // as it stands on the page: controls and bidirectional marks are spelled
	buf_byte(out, '"');
	escape_json(out, buf_text(&shown), shown.size);
	buf_byte(out, '"');
	buf_release(&shown);
}

static void put_names(struct writing *w, struct buf *out)
{
	struct intern images;
	intern_init(&images);
	buf_string(out, "\"frames\":[");
	for (size_t i = 0; i < w->frames.count; i++) {
		size_t length;
		struct flamegraph_frame frame = frame_of(w->page, w->frames.data[i], &length);
		uint32_t image = intern_string(&images, frame.image);
		buf_string(out, i > 0 ? ",\n[" : "\n[");
		put_text(out, frame.name, length);
		buf_printf(out, ",%u,%d,%u]", image, (int)frame.kind | (frame.is_inlined ? 8 : 0), frame.row);
	}
	buf_string(out, "],\n\"images\":[");
	for (uint32_t i = 0; i < images.entries.count; i++) {
		buf_string(out, i > 0 ? "," : "");
		put_text(out, intern_text(&images, i), intern_length(&images, i));
	}
	buf_string(out, "],\n\"threads\":[");
	for (size_t i = 0; i < w->page->threads.count; i++) {
		buf_string(out, i > 0 ? "," : "");
		put_text(out, w->page->threads.data[i].name, strlen(w->page->threads.data[i].name));
	}
	buf_byte(out, ']');
	intern_release(&images);
}

// ---------------------------------------------------------------- the file

static void add_script(struct buf *script)
{
	buf_string(script, "(function () {\n\"use strict\";\n");
	buf_add(script, asset_page_numbers_js, asset_page_numbers_js_size);
	buf_add(script, asset_page_data_js, asset_page_data_js_size);
	buf_add(script, asset_page_draw_js, asset_page_draw_js_size);
	buf_add(script, asset_page_js, asset_page_js_size);
	buf_string(script, "})();\n");
}

static void head(struct buf *out, const char *title, const struct buf *script)
{
	buf_string(out, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
	           "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; base-uri 'none'; form-action 'none'; style-src 'sha256-");
	sha256_base64(out, asset_page_css, asset_page_css_size);
	buf_string(out, "'; script-src 'sha256-");
	sha256_base64(out, script->data, script->size);
	buf_string(out, "'\">\n<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><meta name=\"color-scheme\" content=\"light dark\">\n<title>");
	escape_xml(out, title, strlen(title));
	buf_string(out, "</title>\n<style>");
	buf_add(out, asset_page_css, asset_page_css_size);
	buf_string(out, "</style></head>\n");
}

// Title, verdict and facts are text: they are there without the script too.
static void top(const struct flamegraph_page *page, const struct flamegraph_options *options, const char *title, struct buf *out)
{
	buf_string(out, "<body>\n<header><h1>");
	escape_xml(out, title, strlen(title));
	buf_string(out, "</h1>");
	if (page->verdict != NULL) {
		buf_printf(out, "<span class=\"verdict %s\">", page->verdict_class);
		escape_xml(out, page->verdict, strlen(page->verdict));
		buf_string(out, "</span>");
	}
	for (const char *line = options->subtitle; line != NULL && *line != '\0'; line += *line == '\n') {
		size_t length = strcspn(line, "\n");
		buf_string(out, "\n<p>");
		escape_xml(out, line, length);
		buf_string(out, "</p>");
		line += length;
	}
	buf_string(out, "</header>\n<noscript><p>This page is drawn by its script. The same picture as .svg needs none.</p></noscript>\n");
}

static bool body(const struct flamegraph_page *page, const struct flamegraph_options *options, const char *title, struct buf *out, struct err *err)
{
	struct writing w = { .page = page, .place = mem_zero(page->tree.nodes.count, sizeof(*w.place)),
		.frame_number = mem_zero(page->tree.names.entries.count + 1, sizeof(*w.frame_number)) };
	struct buf packed = { 0 };
	put_nodes(&w);
	put_samples(&w);
	bool good = gzip_pack(&packed, w.columns.data, w.columns.size, err);
	if (good) {
		top(page, options, title, out);
		buf_string(out, "<script type=\"application/json\" id=\"data\">{");
		buf_printf(out, "\"unit\":");
		put_text(out, options->unit != NULL ? options->unit : "samples", strlen(options->unit != NULL ? options->unit : "samples"));
		buf_printf(out, ",\"view\":\"%s\",\"reverse\":%s,\"colors\":%d,\"bins\":%u,\"weights\":%s,\"samples\":%zu,\"facts\":%s,\n",
		           options->inverted ? "icicle" : "flame", options->reverse ? "true" : "false", (int)options->colors, page->bins,
		           page->has_weights ? "true" : "false", page->samples.count, page->facts != NULL ? page->facts : "null");
		put_names(&w, out);
		buf_string(out, "}</script>\n<script type=\"application/gzip\" id=\"columns\">");
		base64_encode(out, packed.data, packed.size);
		buf_string(out, "</script>\n");
	}
	buf_release(&packed);
	buf_release(&w.columns);
	vec_release(&w.frames);
	free(w.place);
	free(w.frame_number);
	return good;
}

bool flamegraph_page_render(const struct flamegraph_page *page, const struct flamegraph_options *options, struct buf *out, struct err *err)
{
	const char *title = options->title != NULL ? options->title : "Flame graph";
	struct buf script = { 0 };
	add_script(&script);
	head(out, title, &script);
	bool good = body(page, options, title, out, err);
	if (good) {
		buf_string(out, "<script>");
		buf_add(out, script.data, script.size);
		buf_string(out, "</script>\n</body></html>\n");
	}
	buf_release(&script);
	return good;
}
