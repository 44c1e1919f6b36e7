#include "cmd/lacks.h"

#include "base/log.h"

bool lacks_find(struct report *report, const struct profile *profile, const struct report_filter *filter, bool idle, struct err *err)
{
	uint8_t by_event[] = { KEY_EVENT };
	struct report_options options = report_defaults();
	options.filter = *filter; // borrowed
	options.idle = idle;
	options.ranges = 0;
	options.keys.data = by_event;
	options.keys.count = options.keys.capacity = 1;
	return report_build(report, profile, &options, err);
}

static void say(const struct report_event *event, bool by_name)
{
	struct buf line = { 0 };
	report_verdict_of_samples(event, &line);
	if (line.size > 0 && by_name)
		log_warn("%s: %s", event->name, buf_text(&line));
	else if (line.size > 0)
		log_warn("%s", buf_text(&line));
	buf_release(&line);
}

void lacks_say(const struct report *report, uint32_t event)
{
	size_t sampling = 0;
	for (size_t i = 0; i < report->events.count; i++)
		sampling += report->events.data[i].source->is_sampling;
	for (size_t i = 0; i < report->events.count; i++) {
		const struct report_event *e = &report->events.data[i];
		if (e->source->is_sampling && (event == PROFILE_NONE || e->source == &report->profile->events.data[event]))
			say(e, event == PROFILE_NONE && sampling > 1);
	}
}
