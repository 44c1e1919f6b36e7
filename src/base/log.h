// What the program says about itself, on standard error, one "perfsample: " line each.
//
// Results never pass through here. -q leaves errors only. The levels are the one piece of mutable global state
// beside the signal flag: set once at start by the command, read everywhere.
#ifndef PERFSAMPLE_BASE_LOG_H
#define PERFSAMPLE_BASE_LOG_H

#include <stdbool.h>

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

void log_set_level(enum log_level highest);
enum log_level log_level(void);
// Control characters and broken UTF-8 in the finished line are escaped (base/escape.h): names in it are another's data.
void log_line(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...) log_line(LOG_ERROR, __VA_ARGS__)
#define log_warn(...) log_line(LOG_WARN, __VA_ARGS__)
#define log_info(...) log_line(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_line(LOG_DEBUG, __VA_ARGS__)

#endif
