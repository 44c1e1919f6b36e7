#include "cmd/flame_page.h"

#include <stdlib.h>
#include <string.h>

#include "export/json_write.h"
#include "export/place.h"
#include "proc/dso.h"
#include "report/build.h"
#include "report/estimate.h"
#include "report/tally.h"

enum { BINS = 1000, MOST_LOSSES = 20000, MOST_BLOCKS = 20 };

struct making {
	const struct export_input *input;
	const struct profile *profile;
	const struct flame_changes *changes;
	struct flamegraph_page page;
	uint32_t *frame_of_line;   // by 2 * line of the chains + is_kernel: its frame of the page + 1
	struct hash_map tops;      // by comm and mark: node
	struct hash_map nodes;     // by (top, node of the profile): node of the page
	VEC(uint32_t) path;
};

static const struct profile_dso *dso_of(const struct profile *p, uint32_t dso)
{
	return dso != PROFILE_NONE ? &p->dsos.data[dso] : NULL;
}

bool flame_is_jit(const struct profile *profile, const struct profile_function *function)
{
	const struct profile_dso *dso = dso_of(profile, function->dso);
	if (dso == NULL || !function->is_known)
		return false;
	struct dso seen = { .path = profile_text(profile, dso->path), .kind = dso->kind };
	return dso->kind == DSO_ANON || dso_is_jitdump(&seen);
}

// ---------------------------------------------------------------- frames and nodes

static uint32_t make_frame(struct making *m, const struct profile_frame *frame, uint32_t line)
{
	const struct profile *p = m->profile;
	const struct profile_line *at = frame->line_count > 0 ? &p->chains.data[line] : NULL;
	const struct profile_function *function = at != NULL ? &p->functions.data[at->function] : NULL;
	const struct profile_dso *dso = dso_of(p, function != NULL ? function->dso : frame->dso);
	struct flamegraph_frame made = { .image = dso != NULL ? profile_text(p, dso->short_name) : NULL, .is_inlined = at != NULL && at->is_inlined };
	struct buf name = { 0 };
	if (function != NULL && function->is_known) {
		made.name = profile_text(p, function->name);
		made.kind = frame->is_kernel ? FLAMEGRAPH_KERNEL : function->is_nameless ? FLAMEGRAPH_UNKNOWN : flame_is_jit(p, function) ? FLAMEGRAPH_JIT : FLAMEGRAPH_USER;
	} else {
		const char *where = made.image != NULL ? made.image : "unknown";
		buf_printf(&name, where[0] == '[' ? "%s" : "[%s]", where);
		made.name = buf_text(&name);
		made.kind = frame->is_kernel ? FLAMEGRAPH_KERNEL : FLAMEGRAPH_UNKNOWN;
	}
	if (m->changes != NULL && function != NULL)
		made.row = at->function + 1;
	uint32_t id = flamegraph_page_frame(&m->page, &made);
	buf_release(&name);
	return id;
}

static uint32_t frame_id(struct making *m, const struct profile_frame *frame, uint32_t line)
{
	if (frame->line_count == 0)
		return make_frame(m, frame, line);
	uint32_t *id = &m->frame_of_line[2 * (size_t)line + frame->is_kernel];
	if (*id == 0)
		*id = make_frame(m, frame, line) + 1;
	return *id - 1;
}

static uint32_t child(struct making *m, uint32_t parent, const char *name, enum flamegraph_kind kind)
{
	return flamegraph_page_child(&m->page, parent, flamegraph_page_frame(&m->page, &(struct flamegraph_frame){ .name = name, .kind = kind }));
}

// The command, and below it where the stack ends that is not whole; as the folded format has it.
static uint32_t top_of(struct making *m, const struct profile_sample *sample)
{
	const char *mark = stack_mark(sample->end), *comm = profile_text(m->profile, sample->comm);
	uint64_t which = mark == NULL ? 0 : mark[1] == 't' ? 1 : 2;
	bool is_new;
	uint32_t *node = hash_map_put(&m->tops, hash_pair(*comm != '\0' ? sample->comm : (uint64_t)(uint32_t)sample->pid << 32, which), 0, &is_new);
	if (!is_new)
		return *node;
	struct buf text = { 0 };
	if (*comm == '\0')
		buf_printf(&text, ":%d", sample->pid);
	uint32_t made = child(m, 0, *comm != '\0' ? comm : buf_text(&text), FLAMEGRAPH_TOP);
	buf_release(&text);
	if (mark != NULL && made != UINT32_MAX)
		made = child(m, made, mark, FLAMEGRAPH_END);
	*node = made;
	return made;
}

// One box has what several ways of unwinding led to: it is drawn as a guess where no unwind information led to any of it, and one stack in thousands does not
// hatch the whole.
static uint32_t frame_node(struct making *m, uint32_t node, const struct profile_frame *frame)
{
	bool is_guessed = frame_via_is_guessed(frame->via);
	uint32_t lines = frame->line_count > 0 ? frame->line_count : 1, last = m->input->inlines ? 0 : lines - 1;
	for (uint32_t i = lines; i-- > last && node != UINT32_MAX;) {
		size_t known = m->page.guessed.count;
		node = flamegraph_page_child(&m->page, node, frame_id(m, frame, frame->first_line + i));
		if (node != UINT32_MAX)
			m->page.guessed.data[node] = is_guessed && (node >= known || m->page.guessed.data[node] != 0);
	}
	return node;
}

static uint32_t node_of(struct making *m, const struct profile_sample *sample)
{
	uint32_t top = top_of(m, sample), node = top, stack = sample->stack;
	vec_clear(&m->path);
	while (stack != PROFILE_NONE) {
		const uint32_t *known = hash_map_get(&m->nodes, (uint64_t)top << 32 | stack);
		if (known != NULL) {
			node = *known;
			break;
		}
		vec_push(&m->path, stack);
		stack = m->profile->nodes.data[stack].parent;
	}
	while (m->path.count > 0 && node != UINT32_MAX) {
		uint32_t at = m->path.data[--m->path.count];
		node = frame_node(m, node, &m->profile->frames.data[m->profile->nodes.data[at].frame]);
		*hash_map_put(&m->nodes, (uint64_t)top << 32 | at, 0, NULL) = node;
	}
	return node;
}

// ---------------------------------------------------------------- samples

static bool add_samples(struct making *m, const struct report *report, const struct report_event *event, struct err *err)
{
	const struct profile *p = m->profile;
	struct export_threads threads = { 0 };
	struct tally tally;
	struct buf name = { 0 };
	bool good = true;
	double span = (double)(report->to_ns - report->from_ns);
	export_threads_read(&threads, m->input);
	tally_build(&tally, p, m->input->event, &report->options, report->from_ns, report->to_ns); // for its weights
	m->page.has_weights = event->is_weighted || event->source->counts_by_weight;
	m->page.bins = span > 0 && !event->source->counts_by_weight ? BINS : 1;
	for (size_t t = 0; t < threads.threads.count && good; t++) {
		const struct export_thread *thread = &threads.threads.data[t];
		buf_clear(&name);
		export_thread_name(p, thread, &name);
		flamegraph_page_thread(&m->page, buf_text(&name));
		m->page.threads.data[t].count = thread->count;
		for (size_t i = 0; i < thread->count && good; i++) {
			const struct profile_sample sample = samples_at(&p->samples, threads.samples.data[thread->first + i]), *s = &sample;
			uint32_t node = node_of(m, s);
			double bin = span > 0 && s->time_ns > report->from_ns ? (double)(s->time_ns - report->from_ns) * m->page.bins / span : 0;
			vec_push(&m->page.samples, (struct flamegraph_sample){ .node = node, .weight = tally_weight(&tally, s->weight),
				.bin = bin < m->page.bins - 1 ? (uint32_t)bin : m->page.bins - 1 });
			good = node != UINT32_MAX || err_set(err, STATUS_INPUT, "too many different stacks for one page");
		}
	}
	tally_release(&tally);
	export_threads_release(&threads);
	buf_release(&name);
	return good;
}

// ---------------------------------------------------------------- facts

static double since(const struct report *report, uint64_t time_ns)
{
	return time_ns > report->from_ns ? (double)(time_ns - report->from_ns) : 0;
}

static void span_json(const struct report *report, uint64_t from_ns, uint64_t to_ns, double count, struct buf *out)
{
	json_open_array(out, NULL);
	json_put_number(out, NULL, since(report, from_ns));
	json_put_number(out, NULL, since(report, to_ns));
	if (count > 0)
		json_put_number(out, NULL, count);
	json_close_array(out);
}

static void missing_json(const struct making *m, const struct report *report, const struct report_event *event, struct buf *out)
{
	const struct profile *p = m->profile;
	const struct report_filter *filter = &report->options.filter;
	json_put_number(out, "missing", event->missing);
	json_put_bool(out, "lossy", event->is_lossy);
	json_put_number(out, "dropped", event->dropped);
	json_put_number(out, "periodNs", event->source->is_clock ? (double)event->source->period : 0);
	json_open_array(out, "losses");
	for (size_t i = 0, put = 0; i < p->losses.count && put < MOST_LOSSES; i++) {
		const struct profile_loss *l = &p->losses.data[i];
		if (l->event != m->input->event || l->is_sideband || l->to_ns < report->from_ns || l->from_ns > report->to_ns || l->count == 0 ||
		    !build_keeps_cpu(filter, l->cpu))
			continue;
		span_json(report, l->from_ns, l->to_ns, (double)l->count, out);
		put++;
	}
	json_close_array(out);
	json_open_array(out, "throttles");
	for (size_t i = 0, put = 0; i < p->throttles.count && put < MOST_LOSSES; i++) {
		const struct profile_throttle *t = &p->throttles.data[i];
		if (t->event != m->input->event || !build_keeps_cpu(filter, t->cpu))
			continue;
		span_json(report, t->from_ns, t->to_ns, 0, out);
		put++;
	}
	json_close_array(out);
}

// What page_numbers.js needs to make every interval by the formulas of report/.
static void facts_json(const struct making *m, const struct report *report, const struct report_event *event, struct buf *out)
{
	double confidence = report->options.confidence, p = 1 - (1 - confidence) / 2;
	json_open_object(out, NULL);
	json_put_number(out, "confidence", confidence);
	json_put_number(out, "seconds", report->seconds);
	json_put_bool(out, "weighted", event->is_weighted);
	json_put_bool(out, "runOnly", event->blocks_off > 0 || event->source->counts_by_weight);
	missing_json(m, report, event, out);
	json_open_array(out, "tRatio");
	for (size_t blocks = 0; blocks <= MOST_BLOCKS; blocks++)
		json_put_number(out, NULL, blocks > 1 ? normal_quantile(p) / student_quantile(p, (double)blocks - 1) : 1);
	json_close_array(out);
	if (m->changes != NULL)
		flame_changes_json(m->changes, out);
	json_close_object(out);
}

bool flame_page_write(const struct export_input *input, const struct report *report, const struct report_event *event,
                      const struct flame_changes *changes, const struct flamegraph_options *options, struct buf *out, struct err *err)
{
	static const char *const classes[] = { [VERDICT_SOUND] = "sound", [VERDICT_CARE] = "care", [VERDICT_NO_RANKING] = "bad" };
	struct making m = { .input = input, .profile = input->profile, .changes = changes,
		.frame_of_line = mem_zero(2 * input->profile->chains.count + 2, sizeof(*m.frame_of_line)) };
	struct buf facts = { 0 };
	flamegraph_page_init(&m.page);
	bool good = add_samples(&m, report, event, err);
	if (good) {
		facts_json(&m, report, event, &facts);
		m.page.facts = buf_text(&facts);
		m.page.verdict = verdict_word(event->verdict);
		m.page.verdict_class = classes[event->verdict];
		good = flamegraph_page_render(&m.page, options, out, err);
	}
	flamegraph_page_release(&m.page);
	buf_release(&facts);
	hash_map_release(&m.tops);
	hash_map_release(&m.nodes);
	vec_release(&m.path);
	free(m.frame_of_line);
	return good;
}
