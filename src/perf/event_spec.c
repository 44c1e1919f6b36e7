// Splits an -e argument at its commas, braces and colons; the sources say what each word is.
#include "perf/event_spec.h"

#include <stdlib.h>
#include <string.h>
#include <stdio.h>

#include "base/closest.h"

static const char modifier_letters[] = "ukhpPGHSDeWI";

struct modifiers {
	char text[32]; // as written, the group's behind the event's own
	bool user, kernel, hypervisor, guest, host, precise_max, pinned, exclusive, weak, exclude_idle;
	unsigned precise;
};

struct parser {
	struct event_specs *specs;
	const struct event_host *host;
	struct err *err;
	size_t first; // item of this argument
};

static bool is_modifiers(const char *text)
{
	return *text != '\0' && text[strspn(text, modifier_letters)] == '\0' && strlen(text) < sizeof(((struct modifiers *)0)->text);
}

static bool add_modifiers(struct modifiers *m, const char *text, const char *event, struct err *err)
{
	if (strlen(m->text) + strlen(text) >= sizeof(m->text))
		return err_set(err, STATUS_USAGE, "event '%s': too many modifiers", event);
	strcat(m->text, text);
	for (; *text != '\0'; text++)
		switch (*text) {
		case 'u': m->user = true; break;
		case 'k': m->kernel = true; break;
		case 'h': m->hypervisor = true; break;
		case 'G': m->guest = true; break;
		case 'H': m->host = true; break;
		case 'p': m->precise++; break;
		case 'P': m->precise_max = true; break;
		case 'S': break; // groups are always read in their leader's samples
		case 'D': m->pinned = true; break;
		case 'e': m->exclusive = true; break;
		case 'W': m->weak = true; break;
		case 'I': m->exclude_idle = true; break;
		default:
			return err_set(err, STATUS_USAGE, "event '%s': no modifier '%c' (there are %s)", event, *text, modifier_letters);
		}
	if (m->precise > 3)
		return err_set(err, STATUS_USAGE, "event '%s': at most ppp", event);
	return true;
}

static void apply_modifiers(struct event_spec *spec, const struct modifiers *m)
{
	struct perf_event_attr *attr = &spec->attr;

	if (m->user || m->kernel || m->hypervisor) {
		attr->exclude_user = !m->user;
		attr->exclude_kernel = !m->kernel;
		attr->exclude_hv = !m->hypervisor;
		spec->rings_given = true;
	}
	// Guests are left out unless asked for: their addresses mean nothing here.
	attr->exclude_guest = !m->guest;
	attr->exclude_host = m->guest && !m->host;
	attr->exclude_idle = m->exclude_idle;
	attr->precise_ip = (unsigned)(m->precise_max ? 3 : m->precise) & 3;
	spec->precise_max = m->precise_max;
	attr->pinned = m->pinned;
	attr->exclusive = m->exclusive;
	spec->is_weak = m->weak;
}

// The sources in the order they are asked. There are few: found anew each time.
static const struct event_source *source_after(const struct event_source *last)
{
	const struct event_source *next = NULL;
	for (const struct event_source *const *s = event_sources; *s != NULL; s++)
		if ((last == NULL || (*s)->order > last->order) && (next == NULL || (*s)->order < next->order))
			next = *s;
	return next;
}

// 1: found; 0: no source knows the word; -1: one does, and says what is wrong.
static int ask_sources(const char *word, struct event_spec *spec, struct err *err)
{
	for (const struct event_source *s = source_after(NULL); s != NULL; s = source_after(s)) {
		int found = s->parse(word, spec, err);
		if (found != 0)
			return found;
	}
	return 0;
}

static void spec_release(struct event_spec *spec)
{
	for (size_t i = 0; i < spec->pmus.count; i++)
		free(spec->pmus.data[i].cpus);
	vec_release(&spec->pmus);
	vec_release(&spec->cpus);
	free(spec->filter);
}

static void offer(const char *name, const char *description, void *context)
{
	(void)description;
	closest_offer(context, name);
}

static bool no_such_event(const struct parser *p, const char *word)
{
	struct closest closest;
	closest_init(&closest, word);
	for (const struct event_source *s = source_after(NULL); s != NULL; s = source_after(s))
		if (s->list != NULL)
			s->list(p->host, offer, &closest);
	if (closest.found[0] != '\0')
		return err_set(p->err, STATUS_USAGE, "no event '%s'; did you mean '%s'?", word, closest.found);
	return err_set(p->err, STATUS_USAGE, "no event '%s'", word);
}

// Where the modifiers of `text` would start: behind the last slash of PMU/terms/, or behind its last colon; NULL: it has none. Which colons
// belong to the word (SUBSYS:NAME, mem:ADDR:rw) is tried out by the caller.
static char *modifiers_in(char *text)
{
	char *slash = strrchr(text, '/'), *colon = strrchr(text, ':');

	if (strncmp(text, "mem:", 4) == 0) {
		// mem:ADDR:rw is an access, and so are r, w, x alone; a second colon makes what is behind it modifiers.
		char *first = strchr(text + 4, ':');
		if (first == NULL)
			return NULL;
		return first == colon && strspn(first + 1, "rwx") == strlen(first + 1) ? NULL : colon;
	}
	if (slash != NULL && slash[1] != '\0')
		return slash + 1;
	return slash != NULL ? NULL : colon;
}

// Cuts the modifiers off `text` and finds the event that the rest names.
static bool find_event(const struct parser *p, char *text, struct event_spec *spec, struct modifiers *m)
{
	char *cut = modifiers_in(text), whole[sizeof(spec->name)];
	const char *letters = cut != NULL && *cut == ':' ? cut + 1 : cut;
	struct err ignored;

	snprintf(whole, sizeof(whole), "%s", text);
	if (cut != NULL && strrchr(text, '/') == cut - 1) { // PMU/terms/u and PMU/terms/:u
		if (!add_modifiers(m, letters, whole, p->err))
			return false;
		*cut = '\0';
	} else if (cut != NULL && is_modifiers(letters)) {
		*cut = '\0';
		if (!add_modifiers(m, letters, whole, p->err))
			return false;
	} else if (cut != NULL) { // SUBSYS:NAME, or letters that are no modifiers
		*cut = '\0';
		int known = ask_sources(text, spec, &ignored);
		if (known != 0)
			return add_modifiers(m, letters, whole, p->err) && err_set(p->err, STATUS_USAGE, "event '%s': modifiers were expected behind ':'", whole);
		*cut = ':';
	}
	int found = ask_sources(text, spec, p->err);
	return found > 0 || (found == 0 && no_such_event(p, text));
}

static bool parse_event(const struct parser *p, const char *item, size_t length, const char *group_modifiers, int32_t group)
{
	struct event_spec spec = { .group = group, .host = p->host };
	struct modifiers modifiers = { 0 };
	char text[sizeof(spec.name)];

	while (length > 0 && item[0] == ' ')
		item++, length--;
	while (length > 0 && item[length - 1] == ' ')
		length--;
	if (length == 0)
		return err_set(p->err, STATUS_USAGE, "an empty event between commas");
	if (length >= sizeof(text) - sizeof(modifiers.text))
		return err_set(p->err, STATUS_USAGE, "event '%.40s…': longer than %zu bytes", item, sizeof(text) - sizeof(modifiers.text) - 1);
	memcpy(text, item, length);
	text[length] = '\0';
	spec.attr.size = sizeof(spec.attr);
	if (!find_event(p, text, &spec, &modifiers) || !add_modifiers(&modifiers, group_modifiers, text, p->err)) {
		spec_release(&spec);
		return false;
	}
	apply_modifiers(&spec, &modifiers);
	if (spec.name[0] == '\0') // unless a name= term gave one
		snprintf(spec.name, sizeof(spec.name), "%.95s%s%s", text, modifiers.text[0] != '\0' ? ":" : "", modifiers.text);
	spec.is_leader = group >= 0 && (p->specs->items.count == 0 || p->specs->items.data[p->specs->items.count - 1].group != group);
	vec_push(&p->specs->items, spec);
	return true;
}

// Up to the next ',' (or '}') that does not stand between the slashes of PMU/a=1,b=2/.
static const char *item_end(const char *s, bool in_group)
{
	bool slashes = false, is_breakpoint = strncmp(s + strspn(s, " "), "mem:", 4) == 0;
	for (; *s != '\0'; s++) {
		if (*s == '/' && !is_breakpoint)
			slashes = !slashes;
		else if (!slashes && (*s == ',' || (in_group && *s == '}')))
			break;
	}
	return s;
}

// `s` stands behind '{'. Yields where the group's text, modifiers included, ends.
static const char *parse_group(const struct parser *p, const char *s)
{
	const char *close = s, *end;
	char modifiers[32] = "";

	while (*(close = item_end(close, true)) == ',')
		close++;
	if (*close != '}') {
		err_set(p->err, STATUS_USAGE, "group '{%s': '}' was expected", s);
		return NULL;
	}
	end = close + 1;
	if (*end == ':') {
		size_t length = strcspn(end + 1, ", ");
		if (length >= sizeof(modifiers)) {
			err_set(p->err, STATUS_USAGE, "group '{%s': too many modifiers", s);
			return NULL;
		}
		memcpy(modifiers, end + 1, length);
		end += 1 + length;
	}
	int32_t group = p->specs->groups++;
	for (;;) {
		const char *stop = item_end(s, true);
		if (!parse_event(p, s, (size_t)(stop - s), modifiers, group))
			return NULL;
		if (stop == close)
			return end;
		s = stop + 1;
	}
}

static bool parse_all(const struct parser *p, const char *s)
{
	for (;;) {
		s += strspn(s, " ");
		const char *end;
		if (*s == '{') {
			end = parse_group(p, s + 1);
			if (end == NULL)
				return false;
			end += strspn(end, " ");
		} else {
			end = item_end(s, false);
			if (!parse_event(p, s, (size_t)(end - s), "", -1))
				return false;
		}
		if (*end == '\0')
			return true;
		if (*end != ',')
			return err_set(p->err, STATUS_USAGE, "'%s': a comma was expected before it", end);
		s = end + 1;
	}
}

bool event_specs_parse_at(struct event_specs *specs, const char *text, const struct event_host *host, struct err *err)
{
	struct parser parser = { .specs = specs, .host = host, .err = err, .first = specs->items.count };
	int32_t groups = specs->groups;

	if (parse_all(&parser, text))
		return true;
	while (specs->items.count > parser.first) // what came before the wrong word is taken back
		spec_release(&specs->items.data[--specs->items.count]);
	specs->groups = groups;
	return false;
}

bool event_specs_parse(struct event_specs *specs, const char *text, struct err *err)
{
	return event_specs_parse_at(specs, text, &event_host_here, err);
}

bool event_specs_default(struct event_specs *specs, struct err *err)
{
	if (!event_specs_parse(specs, "cycles", err))
		return false;
	specs->items.data[specs->items.count - 1].is_default = true;
	return true;
}

void event_specs_release(struct event_specs *specs)
{
	for (size_t i = 0; i < specs->items.count; i++)
		spec_release(&specs->items.data[i]);
	vec_release(&specs->items);
	specs->groups = 0;
}
