// "1 sample", "2 samples".
#ifndef PERFSAMPLE_BASE_PLURAL_H
#define PERFSAMPLE_BASE_PLURAL_H

static inline const char *plural(double count)
{
	return count == 1 ? "" : "s";
}

#endif
