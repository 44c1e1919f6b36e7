// The visits to each row: a run begins in every row of the set that a thread goes to which is none of the set it comes from.
//
// Where stacks change with nearly every sample, moves between sets are hardly ever the same twice, so each has to be cheap. A row's runs are the
// moves to its sets less those that stay in the row. What two stacks have in common is mostly their root's end, and sets name their rows root
// first: the moves that stay in the first so many rows of a set are counted at the last of these, and handed on to those before it at the end.
// Only the rows behind are looked at one by one.
#include "report/tally.h"

// Rows that are in both lists, whatever their order.
static void count_common(struct tally *t, const uint32_t *from, size_t from_count, const uint32_t *to, size_t to_count)
{
	enum { FEW_PAIRS = 32 };
	if (from_count * to_count <= FEW_PAIRS) {
		for (size_t i = 0; i < to_count; i++)
			for (size_t j = 0; j < from_count; j++)
				if (to[i] == from[j])
					t->row_stays.data[to[i]]++;
		return;
	}
	tally_next_stamp(t);
	for (size_t j = 0; j < from_count; j++)
		t->stamps.data[from[j]] = t->stamp;
	for (size_t i = 0; i < to_count; i++)
		t->row_stays.data[to[i]] += t->stamps.data[to[i]] == t->stamp;
}

static inline void count_move(struct tally *t, const struct tally_move *move)
{
	const struct tally_set *before = &t->sets.data[move->from];
	struct tally_set *set = &t->sets.data[move->to];
	set->entries++;
	set->self_entries += before->self_row != set->self_row;
	if (before->context != set->context)
		return;
	const uint32_t *from = t->members.data + before->first, *to = t->members.data + set->first;
	size_t least = before->count < set->count ? before->count : set->count, same = 0;
	while (same < least && from[same] == to[same])
		same++;
	if (same > 0)
		t->stays.data[set->first + same - 1]++;
	if (same < least)
		count_common(t, from + same, before->count - same, to + same, set->count - same);
}

void tally_count_moves(struct tally *t, const struct tally_move *moves, size_t count)
{
	if (t->unsettled + count > UINT32_MAX) // what one of the counters holds
		tally_settle_moves(t);
	t->unsettled += count;
	for (size_t i = 0; i < count; i++) {
		__builtin_prefetch(&t->members.data[t->sets.data[moves[i].to].first]);
		__builtin_prefetch(&t->stays.data[t->sets.data[moves[i].to].first], 1);
	}
	for (size_t i = 0; i < count; i++)
		count_move(t, &moves[i]);
}

void tally_settle_moves(struct tally *t)
{
	for (size_t i = 0; i < t->sets.count; i++) {
		struct tally_set *set = &t->sets.data[i];
		uint64_t stays = 0;
		for (size_t m = set->first + (size_t)set->count; m-- > set->first;) {
			stays += t->stays.data[m];
			t->stays.data[m] = 0;
			t->rows.data[t->members.data[m]].total.runs += set->entries - stays;
		}
		t->rows.data[set->self_row].self.runs += set->self_entries;
		set->entries = set->self_entries = 0;
	}
	for (size_t i = 0; i < t->rows.count; i++) {
		t->rows.data[i].total.runs -= t->row_stays.data[i];
		t->row_stays.data[i] = 0;
	}
	t->unsettled = 0;
}
