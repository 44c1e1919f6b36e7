// Names, what the recording says of itself, and the end of the file.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elf/vdso.h"
#include "record/jit_files.h"
#include "record/jit_pages.h"
#include "record/session_private.h"

static void add_meta(struct session *session, struct names *names)
{
	struct buf ids = { 0 };
	for (size_t i = 0; i < session->config->target.ids.count; i++)
		buf_printf(&ids, "%s%d", i > 0 ? "," : "", session->config->target.ids.data[i]);
	if (session->target.is_command)
		buf_printf(&ids, "%d", (int)session->target.child.pid);
	names_meta(names, "target.kind", "%s", target_kind_name(session->target.kind));
	names_meta(names, "target.ids", "%s", buf_text(&ids));
	names_meta(names, "target.comm", "%s", session->target.comm);
	names_meta(names, "target.threads", "%u", session_facts(session).threads);
	names_meta(names, "record.stack_bytes", "%u", session_facts(session).stack_bytes);
	if (session->left_running > 0)
		names_meta(names, "left_running", "%u", session->left_running);
	if (session->ledger.stuck_times > 0) {
		names_meta(names, "stood_still", "%llu", (unsigned long long)session->ledger.stuck_times);
		names_meta(names, "stood_still.lost", "%llu", (unsigned long long)session->ledger.stuck_lost);
	}
	if (session->unseen_ns > 0)
		names_meta(names, "unseen_exit_ns", "%llu", (unsigned long long)session->unseen_ns);
	names_meta(names, "scope", "%s", event_scope_text(session->target.events.scope));
	for (size_t i = 0; i < session->decisions.items.count; i++) {
		char key[64];
		snprintf(key, sizeof(key), "decision.%zu", i);
		names_meta(names, key, "%s", session->decisions.items.data[i].text);
		enum decision_weight weight = session->decisions.items.data[i].weight;
		snprintf(key, sizeof(key), "decision.%zu.weight", i);
		if (weight == DECISION_BEARS || weight == DECISION_CARE)
			names_meta(names, key, "%s", weight == DECISION_CARE ? "care" : "bears");
	}
	if (session_map_refusal(session) != NULL) { // found out by the helper thread, and said beside the decisions
		char key[64];
		snprintf(key, sizeof(key), "decision.%zu", session->decisions.items.count);
		names_meta(names, key, "%s", session_map_refusal(session));
		snprintf(key, sizeof(key), "decision.%zu.weight", session->decisions.items.count);
		names_meta(names, key, "bears");
	}
	names_meta(names, "recorder.cpu_ns", "%llu", (unsigned long long)session->ledger.recorder_cpu_ns);
	names_meta(names, "start.wall_ns", "%llu", (unsigned long long)session->start_wall_ns);
	names_meta(names, "start.ns", "%llu", (unsigned long long)session->start_ns);
	names_meta(names, "end.ns", "%llu", (unsigned long long)session->end_ns);
	names_meta(names, "host", "%s", session->host.name);
	names_meta(names, "kernel", "%s", session->host.release);
	buf_release(&ids);
}

// Each once: every process has its row of them.
static bool is_listed(const struct writer_build_id *ids, size_t count, const struct dso *dso)
{
	for (size_t i = 0; i < count; i++)
		if (build_id_equal(&ids[i].build_id, &dso->build_id) && strcmp(ids[i].path, dso->path) == 0)
			return true;
	return false;
}

// Of every file that is open, or whose build ID the kernel gave, if anything of it was sampled (or nobody asked what was).
static size_t build_ids(struct session *session, struct writer_build_id **out)
{
	struct dso_table *dsos = spaces_dsos(session->spaces);
	const struct sampled *sampled = &session->drain.sampled;
	bool *used = mem_zero(dsos->rows.count + 1, sizeof(*used));
	for (size_t i = 0; i < sampled->addrs.count; i++)
		used[sampled->addrs.data[i].dso] = true;
	size_t count = 0;
	*out = mem_zero(dsos->rows.count + 1, sizeof(**out));
	for (uint32_t id = 0; id < dsos->rows.count; id++) {
		const struct image *image = session_image(session, id);
		if (image != NULL && dso_get(dsos, id)->build_id.size == 0)
			dso_set_build_id(dsos, id, &image->build_id);
		const struct dso *dso = dso_get(dsos, id);
		bool is_vdso = dso->kind == DSO_VDSO, is_wanted = used[id] || !session->config->want_names || (is_vdso && session->config->mode == CHAIN_POST);
		if ((dso->kind != DSO_FILE && !is_vdso) || dso->build_id.size == 0 || !is_wanted || (is_vdso && is_listed(*out, count, dso)))
			continue;
		(*out)[count++] = (struct writer_build_id){ .build_id = dso->build_id, .path = dso->path, .misc = PERF_RECORD_MISC_USER, .pid = -1 };
	}
	free(used);
	return count;
}

// What unwinds code that no file holds, wherever the stacks are unwound.
static void add_memory(struct session *session, struct names *names)
{
	for (int is_32 = 0; is_32 < 2; is_32++) {
		const struct image *image = images_vdso(session->images, is_32);
		if (image != NULL)
			names_vdso(names, image->data, image->size);
	}
	images_jits(session->images, names);
	jit_pages_names(session->pages, names);
}

bool session_finish(struct session *session, struct names *names, struct err *err)
{
	struct writer_info info;
	struct writer_build_id *ids;
	session_writer_info(session, &info);
	add_meta(session, names);
	if (session->config->mode == CHAIN_POST)
		add_memory(session, names);
	size_t count = build_ids(session, &ids);
	bool good = writer_finish(session->writer, &info, ids, count, names, err);
	free(ids);
	return good;
}
