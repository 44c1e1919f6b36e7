// Whose a record is, where another process may write to it meanwhile: a mapped file.
#include "perfdata/event_table.h"

#include <sys/mman.h>
#include <unistd.h>

#include "tests/tap.h"

static void add(struct event_table *table, uint64_t id)
{
	struct perf_event_attr attr = { .size = sizeof(attr), .sample_id_all = 1, .sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TID | PERF_SAMPLE_STACK_USER,
	                                .sample_stack_user = 65000 };
	event_table_add(table, bytes_of(&attr, sizeof(attr)));
	event_table_add_id(table, table->events.count - 1, id);
}

int main(void)
{
	struct arena arena = { 0 };
	struct event_table table = { .arena = &arena };
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	add(&table, 11);
	add(&table, 12);
	if (!ok(pages != MAP_FAILED && mprotect(pages + page, page, PROT_NONE) == 0, "a page with nothing behind it"))
		return tap_done();
	struct perf_event_header checked = { .type = PERF_RECORD_SAMPLE, .size = 32 };
	uint8_t *record = pages + page - checked.size;
	memcpy(record, &checked, sizeof(checked));
	memcpy(record + sizeof(checked), &(uint64_t){ 12 }, sizeof(uint64_t));
	is_u64(event_table_find(&table, &checked, record), 1, "a sample of the second event");
	struct perf_event_header now = { .type = PERF_RECORD_COMM, .size = 65528 };
	memcpy(record, &now, sizeof(now));
	is_u64(event_table_find(&table, &checked, record), 1, "whatever its header has become, as it was checked before");
	struct perf_event_header comm = { .type = PERF_RECORD_COMM, .size = 32 };
	memcpy(record + comm.size - sizeof(uint64_t), &(uint64_t){ 11 }, sizeof(uint64_t));
	is_u64(event_table_find(&table, &comm, record), 0, "its trailer stands where the size that was checked says");
	event_table_release(&table);
	arena_release(&arena);
	munmap(pages, 2 * page);
	return tap_done();
}
