#include "export/overhead.h"

#include <math.h>
#include <string.h>

#include "base/escape.h"
#include "export/json_write.h"
#include "export/text.h"

void overhead_text(const struct overhead_output *o, struct buf *out)
{
	const struct trials *t = o->trials;
	const char *unit = o->is_time ? " s" : "";
	buf_string(out, "overhead   ");
	trials_text(t, out);
	buf_string(out, "\nmetric     ");
	escape_terminal(out, o->metric, strlen(o->metric));
	buf_printf(out, ", %s is better: %.6g%s without, %.6g%s with%s\n", o->higher_is_better ? "higher" : "lower", t->off, unit, t->on, unit,
	           o->is_dummy ? " (nothing was recorded on either side)" : "");
	buf_printf(out, "trials     off, on, on, off …; %zu warm-up%s of each side dropped; a pair deviates by %.2g%%\n", o->warmups, o->warmups == 1 ? "" : "s",
	           100 * t->deviation);
	if (t->disagrees)
		buf_printf(out, "           few pairs, and ranks disagree: Hodges-Lehmann %.1f%%, Wilcoxon p = %.2g\n", 100 * t->hodges_lehmann, t->wilcoxon_p);
	if (o->is_dummy)
		return;
	buf_string(out, "accounted  the recorder used ");
	text_loss_percent(out, o->recorder_share);
	buf_string(out, " of one CPU (without what it does to caches); lost ");
	text_loss_percent(out, o->lost_share);
	buf_byte(out, '\n');
}

static void interval(struct buf *out, const char *key, struct interval i)
{
	json_open_array(out, key);
	json_put_number(out, NULL, i.lo);
	json_put_number(out, NULL, i.hi);
	json_close_array(out);
}

void overhead_json(const struct overhead_output *o, struct buf *out)
{
	const struct trials *t = o->trials;
	bool known = t->pairs >= TRIALS_MIN_PAIRS;
	json_open_object(out, NULL);
	json_put_text(out, "schema", "perfsample-overhead/1");
	json_open_array(out, "argv");
	for (size_t i = 0; o->argv[i] != NULL; i++)
		json_put_text(out, NULL, o->argv[i]);
	json_close_array(out);
	json_put_text(out, "metric", o->metric);
	json_put_bool(out, "higher_is_better", o->higher_is_better);
	json_put_bool(out, "dummy", o->is_dummy);
	json_put_u64(out, "warmups", o->warmups);
	json_put_number(out, "confidence", o->confidence);
	json_put_u64(out, "pairs", t->pairs);
	json_open_array(out, "trials");
	for (size_t i = 0; i < t->pairs; i++)
		interval(out, NULL, (struct interval){ o->off[i], o->on[i] });
	json_close_array(out);
	json_put_number(out, "off", t->off);
	json_put_number(out, "on", t->on);
	json_put_number(out, "overhead", t->change);
	interval(out, "interval", t->ci);
	json_put_number(out, "upper_one_sided", t->upper);
	json_put_number(out, "deviation", t->deviation);
	json_put_bool(out, "distinguishable", known && (t->ci.lo > 0 || t->ci.hi < 0));
	json_put_number(out, "at_most", known ? fmax(0, t->upper) : NAN);
	json_put_number(out, "hodges_lehmann", t->has_wilcoxon ? t->hodges_lehmann : NAN);
	json_put_number(out, "wilcoxon_p", t->has_wilcoxon ? t->wilcoxon_p : NAN);
	json_open_object(out, "accounted");
	json_put_number(out, "recorder_share_of_one_cpu", o->is_dummy ? NAN : o->recorder_share);
	json_put_number(out, "lost_share", o->is_dummy ? NAN : o->lost_share);
	json_close_object(out);
	json_close_object(out);
	buf_byte(out, '\n');
}
