#include "report/time_range.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct span { uint64_t from, to; }; // of the recording

static struct span recording(const struct profile *p)
{
	struct span s = { p->meta.start_ns, p->meta.end_ns };
	if (p->samples.count > 0) {
		uint64_t first = p->samples.data[0].time_ns, last = p->samples.data[p->samples.count - 1].time_ns;
		s.from = s.from == 0 || first < s.from ? first : s.from;
		s.to = last >= s.to ? last + 1 : s.to;
	}
	return s;
}

static bool number(const char *text, double *value, char **end)
{
	if ((*text < '0' || *text > '9') && *text != '.')
		return false; // strtod would take signs, blanks, "inf" and hex
	*value = strtod(text, end);
	return *value >= 0 && *value < 1e10;
}

static bool seconds_to_ns(double seconds, uint64_t base, uint64_t *out)
{
	*out = base + (uint64_t)(seconds * 1e9 + 0.5);
	return true;
}

// HH:MM, HH:MM:SS or HH:MM:SS.frac, in seconds of the day.
static bool clock_time(const char *text, double *seconds)
{
	unsigned hours, minutes;
	int used = 0;
	double part = 0;
	if (sscanf(text, "%2u:%2u%n", &hours, &minutes, &used) != 2 || hours > 23 || minutes > 59)
		return false;
	char *end = (char *)text + used;
	if (*end == ':' && (!number(end + 1, &part, &end) || part >= 61))
		return false;
	*seconds = hours * 3600 + minutes * 60 + part;
	return *end == '\0' || strcmp(end, "Z") == 0;
}

static bool wall_time(const char *text, const struct profile *p, struct span span, uint64_t *out)
{
	struct tm tm = { 0 };
	unsigned year, month, day;
	int used = 0;
	double seconds;
	bool dated = sscanf(text, "%4u-%2u-%2u%n", &year, &month, &day, &used) == 3 && (text[used] == 'T' || text[used] == ' ');
	if (!clock_time(dated ? text + used + 1 : text, &seconds) || p->meta.start_wall_ns == 0)
		return false;
	time_t start = (time_t)(p->meta.start_wall_ns / 1000000000u);
	if (dated) {
		tm = (struct tm){ .tm_year = (int)year - 1900, .tm_mon = (int)month - 1, .tm_mday = (int)day };
	} else {
		gmtime_r(&start, &tm);
		tm.tm_hour = tm.tm_min = tm.tm_sec = 0;
	}
	double wall = (double)timegm(&tm) + seconds, offset = wall - (double)p->meta.start_wall_ns / 1e9;
	if (!dated && offset < -43200) // past midnight
		offset += 86400;
	uint64_t base = p->meta.start_ns != 0 ? p->meta.start_ns : span.from;
	*out = offset <= 0 ? 1 : base + (uint64_t)(offset * 1e9 + 0.5);
	return true;
}

static bool moment(const char *text, const struct profile *p, struct span span, uint64_t *out)
{
	double value;
	char *end;
	if (text[0] == '+')
		return number(text + 1, &value, &end) && (*end == '\0' || strcmp(end, "s") == 0) && seconds_to_ns(value, span.from, out);
	if (strchr(text, ':') != NULL)
		return wall_time(text, p, span, out);
	if (!number(text, &value, &end))
		return false;
	if (strcmp(end, "%") == 0 && value <= 100) {
		*out = span.from + (uint64_t)((double)(span.to - span.from) * value / 100);
		return true;
	}
	return *end == '\0' && seconds_to_ns(value, 0, out);
}

// "10%/2": the second of the stretches of a tenth.
static bool slice(const char *text, struct span span, uint64_t *from, uint64_t *to)
{
	double percent, index;
	char *end;
	if (!number(text, &percent, &end) || strncmp(end, "%/", 2) != 0 || !(percent > 0) || !number(end + 2, &index, &end) || *end != '\0')
		return false;
	if (index < 1 || index != floor(index) || (index - 1) * percent >= 100)
		return false;
	double length = (double)(span.to - span.from) / 100;
	*from = span.from + (uint64_t)(length * percent * (index - 1));
	*to = span.from + (uint64_t)(length * fmin(100, percent * index));
	return true;
}

bool time_range_parse(const char *text, const struct profile *profile, uint64_t *from_ns, uint64_t *to_ns, struct err *err)
{
	char ends[2][64] = { "", "" };
	struct span span = recording(profile);
	*from_ns = *to_ns = 0;
	if (slice(text, span, from_ns, to_ns))
		return true;
	const char *comma = strchr(text, ','), *dash = strstr(text, "%-");
	const char *cut = comma != NULL ? comma : dash != NULL ? dash + 1 : NULL;
	bool good = cut != NULL && (size_t)(cut - text) < sizeof(ends[0]) && strlen(cut + 1) < sizeof(ends[1]);
	if (good) {
		memcpy(ends[0], text, (size_t)(cut - text));
		memcpy(ends[1], cut + 1, strlen(cut + 1));
		good = (ends[0][0] != '\0' || ends[1][0] != '\0') && (ends[0][0] == '\0' || moment(ends[0], profile, span, from_ns))
			&& (ends[1][0] == '\0' || moment(ends[1], profile, span, to_ns));
	}
	if (!good)
		return err_set(err, STATUS_USAGE, "--time %s: expected A,B as +14,+16 or 14:02:25,14:02:30 or 1234.5,1240 or 10%%,20%%", text);
	if (*to_ns != 0 && *to_ns <= *from_ns)
		return err_set(err, STATUS_USAGE, "--time %s: ends before it begins", text);
	return true;
}
