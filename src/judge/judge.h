// How far the samples of a recording can be trusted: judged here alone, in the same words, for the recorder's summary, for reports, for what exports say of
// themselves and for --strict. (What rows and names are worth is for a report to judge.)
//
//   missing   lost (the ring was full), silent (due by the event's own time and never taken; what the recorder dropped is part of it where it is measured),
//             dropped, and the ticks of a stretch that the kernel throttled
//   CARE      missing >= --max-loss (1%), stacks cut or failed >= 5%, a shared counter that ran for less than 90% of the time, a target whose events the kernel ended
//   NO RANKING  lost and dropped > 10%, fewer than 100 samples, a counter that ran for less than 25% of the time
#ifndef PERFSAMPLE_JUDGE_JUDGE_H
#define PERFSAMPLE_JUDGE_JUDGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/plural.h"
#include "unwind/unwind.h"

enum verdict { VERDICT_SOUND, VERDICT_CARE, VERDICT_NO_RANKING };
const char *verdict_name(enum verdict verdict); // "sound", "care", "no_ranking"
const char *verdict_word(enum verdict verdict); // for people: "sound", "CARE", "NO RANKING"

enum caveat_code {
	CAVEAT_LOST, CAVEAT_SILENT, CAVEAT_TRUNCATED, CAVEAT_UNRESOLVED, CAVEAT_MULTIPLEXED, CAVEAT_FEW_SAMPLES, CAVEAT_THROTTLED, CAVEAT_CUT_OFF,
	CAVEAT_RESONANCE, CAVEAT_DROPPED, CAVEAT_SIDEBAND_LOST, CAVEAT_SALVAGED, CAVEAT_FEW_VISITS, CAVEAT_TREND, CAVEAT_SHORT_TASKS, CAVEAT_OTHER,
	CAVEAT_TIED_LOSS, CAVEAT_UNKNOWN_LOSS, CAVEAT_MASKED, CAVEAT_ALIASING, CAVEAT_FAILED, CAVEAT_SHORTENED, CAVEAT_RECORDED,
};
const char *caveat_name(enum caveat_code code); // "lost", "cut_off", …

enum stack_class { STACK_COMPLETE, STACK_JOINED, STACK_TRUNCATED, STACK_FAILED };
enum stack_class stack_class_of(uint8_t end, uint8_t splice);

enum { JUDGE_SAMPLES_LEAST = 100 }; // to rank anything
enum { JUDGE_SHARE_LEAST_S = 1 };   // a share of a CPU over less time is no figure: opening and closing are most of it

struct evidence { // of one event
	double taken, lost, dropped; // samples; idle ones apart
	bool is_loss_known;
	bool can_expect;             // the next three are known
	double expected, silent;     // taken + idle + others + lost + silent = expected
	double begun;                // of expected, periods that were not over at the end: no timer could fire for them
	double whole_expected, whole_silent; // of the whole recording, where these are of a part of which they are not known; else 0
	double throttled_s, throttled; // seconds, and the samples due in them
	double n;                    // how many samples of equal weight they are worth
	bool is_below_period;        // the target ran for less than one period: it has no sample, and lacks none
	double ran_ns, period_ns;    // period_ns 0: no clock's
	bool is_by_task;             // events of single tasks: the kernel's timer starts with a whole period in each, and each switch to one costs some of it
	const char *silent_reason;   // what accounts for the silence, as the recorder found; "": nothing that it saw does; NULL: not told
	double multiplexed;          // running / enabled of an event that needs a counter of the hardware; else 1
	uint64_t complete, joined, truncated, failed; // stacks of taken; all 0: none were unwound
	const uint64_t *ends;        // by enum unwind_end; NULL: not known
	uint32_t stack_bytes;        // copied of each stack; 0: other people's call chains
	double shortened, sideband_lost;
	double max_loss;             // --max-loss
};

double judge_missing(const struct evidence *evidence);       // samples that the worst case adds to `taken`
double judge_missing_share(const struct evidence *evidence); // what --max-loss is held against: periods that were not over at the end are not missing

// Each of the findings, and the verdict that they come to. `text` is valid during the call.
typedef void judge_found_fn(void *context, enum caveat_code code, double value, enum verdict verdict, const char *text);
enum verdict judge_samples(const struct evidence *evidence, judge_found_fn *found, void *context);
// --strict; `event` is named. STATUS_STRICT: why not.
bool judge_is_honest(const struct evidence *evidence, const char *event, struct err *err);

// Text for people. "0.11%", "3.0%"; a share of what is whole is rounded down, so that 100.0% is all.
enum { JUDGE_TEXT_BYTES = 32 };
const char *judge_percent(double share, char text[JUDGE_TEXT_BYTES]);
const char *judge_whole_percent(double share, char text[JUDGE_TEXT_BYTES]);
const char *judge_count(double count, char text[JUDGE_TEXT_BYTES]); // 60,150

#endif
