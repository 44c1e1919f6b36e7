// What is done when all records were seen: frames above a signal trampoline, how unmarked call chains ended, and the recording's own words.
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/plural.h"
#include "load/loader.h"
#include "symbols/root_name.h"

// ---------------------------------------------------------------- signal trampolines

// Whether the code at a file offset calls rt_sigreturn(2) at once: the trampoline a signal handler returns to. Debuggers know it by these
// bytes (x86-64: mov $15,%rax; syscall. aarch64: mov x8,#139; svc #0), names or not.
static bool is_trampoline(const struct image *image, uint64_t offset)
{
	static const uint8_t x86_64[] = { 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05 };
	static const uint8_t aarch64[] = { 0x68, 0x11, 0x80, 0xd2, 0x01, 0, 0, 0xd4 };
	const uint8_t *code = image->machine == EM_X86_64 ? x86_64 : aarch64;
	size_t size = image->machine == EM_X86_64 ? sizeof(x86_64) : sizeof(aarch64);
	if (image->machine != EM_X86_64 && image->machine != EM_AARCH64)
		return false;
	return offset <= image->size && image->size - offset >= size && memcmp(image->data + offset, code, size) == 0;
}

static bool is_trampoline_frame(struct loader *loader, const struct profile_frame *frame)
{
	if (frame->dso == PROFILE_NONE || loader->dso_of.data[frame->dso] == DSO_NONE)
		return false;
	uint32_t id = loader->dso_of.data[frame->dso];
	const struct dso *dso = dso_get(spaces_dsos(loader->spaces), id);
	if (dso->kind != DSO_FILE && dso->kind != DSO_VDSO)
		return false;
	const struct image *image = images_get(&loader->images, id, dso, loader_dso_machine(loader, dso));
	return image != NULL && is_trampoline(image, frame->image_addr + 1); // the return address itself
}

static uint32_t as_interrupted(struct loader *loader, uint32_t id)
{
	struct profile_frame frame = loader->profile->frames.data[id];
	if (frame.kind == FRAME_RETURN) {
		frame.kind = FRAME_INTERRUPTED;
		frame.image_addr++;
	}
	return profile_add_frame(loader->profile, &frame);
}

void load_signal_frames(struct loader *loader)
{
	struct profile *profile = loader->profile;
	size_t frames = loader->by_return.count, nodes = profile->nodes.count;
	bool any = false;
	for (size_t i = 0; i < frames; i++) {
		if (loader->by_return.data[i] && is_trampoline_frame(loader, &profile->frames.data[i])) {
			loader->by_return.data[i] = 2;
			any = true;
		}
	}
	for (uint32_t i = 0; i < nodes && any; i++) {
		struct profile_node node = profile->nodes.data[i];
		if (node.frame >= frames || loader->by_return.data[node.frame] != 2)
			continue;
		// The trampoline is looked up at its start, and what called "it" was interrupted where its address says.
		uint32_t parent = node.parent;
		if (parent != PROFILE_NONE) {
			struct profile_node above = profile->nodes.data[parent];
			parent = profile_add_node(profile, above.parent, as_interrupted(loader, above.frame));
		}
		uint32_t frame = as_interrupted(loader, node.frame);
		profile->nodes.data[i].parent = parent;
		profile->nodes.data[i].frame = frame;
	}
}

// ---------------------------------------------------------------- ends of call chains without a note

struct ends {
	const struct profile *profile;
	uint8_t *known; // by node: 0 not asked, 1 a root, 2 not, 3 a return probe has replaced an address below
	size_t unknown, all, count;
	struct decided { uint32_t root, no_cfi, not_user, probed; } *decided; // by context: those that it becomes; its own id where nothing is open
};

// A chain that goes on behind a trampoline, as frame pointers lead there, lacks whoever called the probed function.
static bool is_probed(const struct profile *profile, uint32_t node)
{
	for (; node != PROFILE_NONE; node = profile->nodes.data[node].parent) {
		const struct profile_frame *frame = &profile->frames.data[profile->nodes.data[node].frame];
		const char *path = frame->dso != PROFILE_NONE ? profile_text(profile, profile->dsos.data[frame->dso].path) : "";
		if (path[0] == '[' && (strcmp(path, PROFILE_PROBE_NAME) == 0 || strcmp(path, "[uprobes]") == 0) && frame->kind == FRAME_RETURN)
			return true;
	}
	return false;
}

static uint32_t end_by_name(void *context, const struct sample_point *point)
{
	struct ends *ends = context;
	const struct profile *profile = ends->profile;
	if (point->context >= ends->count || ends->decided[point->context].root == point->context)
		return point->context;
	const struct decided *decided = &ends->decided[point->context];
	if (point->stack == PROFILE_NONE)
		return decided->not_user;
	uint8_t *known = &ends->known[point->stack];
	if (*known == 0) {
		uint32_t root = point->stack;
		while (profile->nodes.data[root].parent != PROFILE_NONE)
			root = profile->nodes.data[root].parent;
		const struct profile_frame *frame = &profile->frames.data[profile->nodes.data[root].frame];
		const struct profile_line *line = &profile->chains.data[frame->first_line + frame->line_count - 1];
		*known = is_probed(profile, point->stack) ? 3 : symbol_is_root(profile_text(profile, profile->functions.data[line->function].name)) ? 1 : 2;
	}
	ends->unknown += *known == 2;
	ends->all++;
	return *known == 1 ? decided->root : *known == 3 ? decided->probed : decided->no_cfi;
}

static uint32_t with_end(struct samples *samples, size_t context, enum unwind_end end)
{
	struct sample_context decided = samples->contexts.data[context];
	decided.end = (uint8_t)end;
	return samples_context(samples, &decided);
}

void load_ends_by_name(struct loader *loader)
{
	struct samples *samples = &loader->profile->samples;
	size_t count = samples->contexts.count;
	if (!loader->has_foreign_chains)
		return;
	struct ends by = { .profile = loader->profile, .known = mem_zero(loader->profile->nodes.count + 1, 1), .count = count,
	                   .decided = mem_alloc((count + 1) * sizeof(*by.decided)) };
	for (size_t i = 0; i < count; i++) {
		by.decided[i] = (struct decided){ (uint32_t)i, (uint32_t)i, (uint32_t)i, (uint32_t)i };
		if (samples->contexts.data[i].end == END_BY_NAME)
			by.decided[i] = (struct decided){ with_end(samples, i, UNWIND_ROOT_GUESSED), with_end(samples, i, UNWIND_NO_CFI), with_end(samples, i, UNWIND_NOT_USER),
			                                  with_end(samples, i, UNWIND_UPROBE_TRAMPOLINE) };
	}
	samples_recontext(samples, end_by_name, &by);
	for (size_t i = 0; i < count; i++) // no sample has them any more
		if (samples->contexts.data[i].end == END_BY_NAME)
			samples->contexts.data[i].end = UNWIND_NO_CFI;
	free(by.decided);
	free(by.known);
	if (by.unknown > 0)
		loader_caveat(loader, "call chains are the kernel's, by frame pointers: %zu of %zu do not end in a function known to be a root",
		              by.unknown, by.all);
}

// ---------------------------------------------------------------- the recording's own words

static uint64_t number_in(const struct names *names, const char *key)
{
	const char *text = names != NULL ? names_meta_get(names, key) : NULL;
	return text != NULL ? strtoull(text, NULL, 10) : 0;
}

static uint32_t text_in(struct loader *loader, const char *key, const char *otherwise)
{
	const struct names *names = reader_features(loader->reader)->names;
	const char *text = names != NULL ? names_meta_get(names, key) : NULL;
	if (text == NULL)
		text = otherwise;
	return text != NULL ? intern_string(&loader->profile->names, text) : 0;
}

static void target_ids(struct profile_meta *meta, const char *list)
{
	while (list != NULL && *list != '\0') {
		char *end;
		long id = strtol(list, &end, 10);
		if (end == list)
			return;
		vec_push(&meta->target_ids, (int32_t)id);
		list = *end == ',' ? end + 1 : end;
	}
}

// Where the recorder did not say what it watched: the one process that all samples are of, if it is one.
static void guess_target(struct loader *loader)
{
	struct profile *profile = loader->profile;
	const struct sample_context *only = NULL; // of those that samples have
	for (size_t i = 0; i < profile->samples.contexts.count; i++) {
		const struct sample_context *context = &profile->samples.contexts.data[i];
		if (context->is_idle)
			continue;
		if (only != NULL && only->pid != context->pid)
			return;
		only = context;
	}
	if (only != NULL && profile->meta.target_comm == 0) {
		struct profile_sample last = { 0 }; // by what it was called in the end
		for (size_t i = profile->samples.count; i > 0; i--) {
			samples_get(&profile->samples, i - 1, &last);
			if (!last.is_idle)
				break;
		}
		uint32_t name = loader_process_name(loader, only->pid); // its threads have names of their own
		profile->meta.target_comm = name != 0 ? name : last.comm;
		if (profile->meta.target_ids.count == 0)
			vec_push(&profile->meta.target_ids, only->pid);
	}
}

static void load_times(struct loader *loader)
{
	const struct reader_features *features = reader_features(loader->reader);
	struct profile_meta *meta = &loader->profile->meta;
	meta->start_ns = number_in(features->names, "start.ns");
	meta->end_ns = number_in(features->names, "end.ns");
	if (meta->start_ns == 0)
		meta->start_ns = features->first_time_ns != 0 ? features->first_time_ns : loader->first_ns != 0 ? loader->first_ns : loader->first_before_ns;
	if (meta->end_ns == 0)
		meta->end_ns = record_is_moment(features->last_time_ns) ? features->last_time_ns : loader->last_ns;
	meta->start_wall_ns = number_in(features->names, "start.wall_ns");
	if (meta->start_wall_ns == 0 && features->has_clock_data)
		meta->start_wall_ns = features->wall_time_ns + (meta->start_ns - features->clockid_time_ns);
}

static void load_caveats(struct loader *loader)
{
	const struct reader_caveats *caveats = reader_caveats(loader->reader);
	loader->profile->meta.cut_off = caveats->cut_off;
	if (caveats->cut_off)
		loader_caveat(loader, "recording was cut off");
	uint64_t left_running = number_in(reader_features(loader->reader)->names, "left_running");
	if (left_running > 0)
		loader_caveat(loader, "%llu process%s of the command ran on when it ended, and the recording with it: what came then is not in here",
		              (unsigned long long)left_running, left_running == 1 ? "" : "es");
	if (loader->deferred.unanswered > 0)
		loader_caveat(loader, "%llu sample%s no callers in user space: the kernel was to write them later, and the file does not hold these records",
		              (unsigned long long)loader->deferred.unanswered, loader->deferred.unanswered == 1 ? " has" : "s have");
	uint64_t unseen_ns = number_in(reader_features(loader->reader)->names, "unseen_exit_ns");
	if (unseen_ns > 0) // that there is such a part at all, the recording's decisions say
		loader_caveat(loader, "%.2f s of the command's CPU time, by rusage, are not in here: what the kernel does last when a task ends", (double)unseen_ns / 1e9);
	uint64_t stood_still = number_in(reader_features(loader->reader)->names, "stood_still");
	if (stood_still > 0)
		loader_caveat(loader, "%llu time%s a ring of the kernel stood still while its events ran: no sample came, and %llu of the lost ones are of that time",
		              (unsigned long long)stood_still, stood_still == 1 ? "" : "s",
		              (unsigned long long)number_in(reader_features(loader->reader)->names, "stood_still.lost"));
	if (caveats->skipped_bytes > 0)
		loader_caveat(loader, "salvaged: %llu damaged bytes were skipped, the first at 0x%llx: %s", (unsigned long long)caveats->skipped_bytes,
		              (unsigned long long)caveats->first_skipped_at, caveats->text);
	if (caveats->unknown_records > 0)
		loader_caveat(loader, "%llu record%s of kinds that are not known %s passed over, the first of type %u", (unsigned long long)caveats->unknown_records,
		              plural((double)caveats->unknown_records), caveats->unknown_records == 1 ? "was" : "were",
		              caveats->unknown_type);
	if (spaces_refused_mappings(loader->spaces) > 0)
		loader_caveat(loader, "%llu mapping%s left out: the file says more of address spaces than its size bears out",
		              (unsigned long long)spaces_refused_mappings(loader->spaces), spaces_refused_mappings(loader->spaces) == 1 ? " was" : "s were");
	if (caveats->feature[0] != '\0')
		loader_caveat(loader, "part of the header could not be read: %s", caveats->feature);
	for (size_t i = 0; i < loader->damages.all.count; i++)
		loader_caveat(loader, "damaged file: %s", loader->damages.all.data[i].text);
	if (loader->has_samples && !loader->has_chains)
		loader_caveat(loader, "recorded without call chains: totals are selfs");
	if (loader->images.assumed_vdso && (loader->has_unwound || reader_features(loader->reader)->names == NULL))
		loader_caveat(loader, "no build ID of the vdso was recorded: the running kernel's, of the same release, is taken for it");
	if (loader->has_unwound && loader->images.not_found > 0)
		loader_caveat(loader, "%llu %s not on this host: stacks end where they lead into %s",
		              (unsigned long long)loader->images.not_found, loader->images.not_found == 1 ? "binary is" : "binaries are",
		              loader->images.not_found == 1 ? "it" : "them");
	if (loader->has_unwound && loader->images.wrong > 0)
		loader_caveat(loader, "%llu %s that ran (build ID or machine differ): stacks end there", (unsigned long long)loader->images.wrong,
		              loader->images.wrong == 1 ? "binary on this host is not the one" : "binaries on this host are not the ones");
}

void load_meta(struct loader *loader)
{
	const struct reader_features *features = reader_features(loader->reader);
	struct profile *profile = loader->profile;
	struct profile_meta *meta = &profile->meta;
	meta->host = text_in(loader, "host", features->hostname);
	meta->kernel = text_in(loader, "kernel", features->os_release);
	meta->tool = features->version != NULL ? intern_string(&profile->names, features->version) : 0;
	meta->cpu_desc = features->cpu_desc != NULL ? intern_string(&profile->names, features->cpu_desc) : 0;
	meta->arch = features->arch != NULL ? intern_string(&profile->names, features->arch) : 0;
	meta->target_kind = text_in(loader, "target.kind", NULL);
	meta->target_comm = text_in(loader, "target.comm", NULL);
	meta->scope = text_in(loader, "scope", NULL);
	meta->silent_reason = text_in(loader, "silent_reason", NULL);
	meta->told_silence = features->names != NULL && names_meta_get(features->names, "silent_reason") != NULL;
	meta->target_threads = (uint32_t)number_in(features->names, "target.threads");
	meta->cpus_online = features->cpus_online;
	if (meta->stack_bytes == 0) // live recordings hold no copies any more
		meta->stack_bytes = (uint32_t)number_in(features->names, "record.stack_bytes");
	for (size_t i = 0; i < features->argv.count; i++)
		vec_push(&meta->argv, intern_string(&profile->names, features->argv.data[i]));
	if (features->names != NULL)
		target_ids(meta, names_meta_get(features->names, "target.ids"));
	for (unsigned i = 0; features->names != NULL; i++) {
		char key[64];
		snprintf(key, sizeof(key), "decision.%u", i);
		const char *text = names_meta_get(features->names, key);
		if (text == NULL)
			break;
		uint32_t decision = intern_string(&profile->names, text);
		vec_push(&meta->decisions, decision);
		snprintf(key, sizeof(key), "decision.%u.weight", i);
		const char *weight = names_meta_get(features->names, key);
		if (weight != NULL && strcmp(weight, "care") == 0)
			vec_push(&meta->careful, decision);
		else if (weight != NULL)
			vec_push(&meta->bearing, decision);
	}
	uint64_t recorder_cpu_ns = number_in(features->names, "recorder.cpu_ns"), accounted_ns = number_in(features->names, "cost.target_ns");
	for (size_t i = 0; i < profile->events.count && recorder_cpu_ns > 0; i++) { // the last word, beside the readings of each second
		if (!profile->events.data[i].is_sampling)
			continue;
		profile->events.data[i].recorder_cpu_ns = recorder_cpu_ns;
		profile->events.data[i].accounted_ns = accounted_ns;
		break;
	}
	load_times(loader);
	if (meta->target_comm == 0)
		guess_target(loader);
	load_caveats(loader);
}
