// What an export must say about the samples it holds: sentences for the place its format has for comments.
#ifndef PERFSAMPLE_EXPORT_NOTES_H
#define PERFSAMPLE_EXPORT_NOTES_H

#include "export/exporter.h"

struct export_notes { VEC(char *) lines; }; // one line each, controls escaped, valid UTF-8

// Samples, loss, where stacks end and why, the window, verdict and caveats. With `rows` > 0 also that many functions with their intervals.
// Without a report: what the profile alone tells.
void export_notes_read(struct export_notes *notes, const struct export_input *input, size_t rows);
// Of the event's samples alone: how many, what was lost, where stacks end, and report_verdict_of_samples. Nothing without a report.
void export_notes_of_samples(struct export_notes *notes, const struct export_input *input);
void export_notes_release(struct export_notes *notes);
// "gcc (60,150 samples, lost 0.07%)": what was recorded, for a title. Not escaped.
void export_title(const struct export_input *input, struct buf *out);
// What is counted: "samples", or with by_period "CPU time" or the event's name. Not escaped.
void export_unit(const struct export_input *input, struct buf *out);
const struct report_event *export_report_event(const struct export_input *input); // NULL: no report

#endif
