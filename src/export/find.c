#include "export/exporter.h"

#include <string.h>

const struct exporter *exporter_find(const char *name)
{
	for (const struct exporter *const *e = exporters; *e != NULL; e++)
		if (strcmp((*e)->name, name) == 0)
			return *e;
	return NULL;
}
