// Many hosts as one: the published vectors' formula on effective counts, heterogeneity, the tail, what cannot be merged, coverage.
#include "tests/tap.h"

#include "export/merge.h"
#include "report/estimate_more.h"
#include "report/hosts.h"
#include "tests/json_schema.h"

static uint64_t random_state = 5;
static double uniform(void)
{
	random_state = random_state * 6364136223846793005u + 1442695040888963407u;
	return ((double)(random_state >> 11) + 0.5) / 9007199254740992.0;
}

static struct digest made(const char *host, double n, double cpu, const double *k, double deff)
{
	static const char *const names[] = { "a", "b", "tail" };
	struct digest d = { .path = host, .event = "cpu-clock", .arch = "x86_64", .kernel = "", .cpu = "", .host = host, .is_clock = true, .period = 1295295,
		.n = n, .amount = cpu, .seconds = 10 };
	for (size_t i = 0; i < 3; i++)
		if (k[i] > 0)
			vec_push(&d.rows, (struct digest_row){ .name = names[i], .dso = "app", .k = k[i], .deff = deff, .blocks = 20, .visits = 100, .visits_outside = 100 });
	return d;
}

static const struct hosts_row *find(const struct hosts *m, const char *name)
{
	for (size_t i = 0; i < m->rows.count; i++)
		if (strcmp(m->rows.data[i].name, name) == 0)
			return &m->rows.data[i];
	return NULL;
}

static void add(struct hosts *m, const char *host, double n, double cpu, double a, double b, double tail, double deff)
{
	struct err err = { 0 };
	double k[3] = { a, b, tail };
	struct digest d = made(host, n, cpu, k, deff);
	ok(hosts_add(m, &d, 1, &err), "%s is added", host);
	vec_release(&d.rows);
}

static void test_estimates(void)
{
	static const struct hosts_options options = { .confidence = 0.95 };
	struct hosts m;
	hosts_init(&m, &options);
	add(&m, "host-1", 1000, 10, 400, 600, 0, 2);
	add(&m, "host-2", 2000, 30, 900, 1100, 0, 2);
	add(&m, "host-3", 1000, 20, 380, 420, 200, 2);
	hosts_finish(&m);
	static const double n[] = { 500, 1000, 500 }, k[] = { 200, 450, 190 }, weight[] = { 10, 30, 20 };
	struct hosts_estimate wanted = merge_hosts(n, k, weight, 3, 0.95);
	const struct hosts_row *a = find(&m, "a"), *tail = find(&m, "tail");
	is_close(a->share, (10 * 0.4 + 30 * 0.45 + 20 * 0.38) / 60, 1e-12, "share, weighted by CPU time");
	ok(a->ci.lo == wanted.ci.lo && a->ci.hi == wanted.ci.hi, "cluster interval on effective counts");
	ok(a->within.hi - a->within.lo < a->ci.hi - a->ci.lo, "sampling alone is narrower");
	is_close(a->median, 0.4, 1e-12, "the hosts' median");
	ok(fabs(a->largest - 0.45) < 1e-12 && strcmp(a->largest_host, "host-2") == 0, "and the largest");
	ok(tail->is_heterogeneous && tail->hosts == 1 && tail->i2 > 0.9, "one host has a function of its own: q = %.2g", tail->q);
	ok(m.differing.count == 1 && strcmp(m.differing.data[0].host, "host-3") == 0 && m.differing.data[0].lo > 2 * tail->share, "and is listed");
	is_str(m.rows.data[m.differing.data[0].row].name, "tail", "with the function's name");
	ok(m.caveats.count == 1 && strncmp(m.caveats.data[0], "few hosts", 9) == 0, "few hosts");
	struct buf out = { 0 };
	struct schema_check check = { 0 };
	merge_json(&m, 0, &out);
	is_str(schema_validate("schema/perfsample-merge-1.json", buf_text(&out), &check), "", "JSON as its schema says");
	buf_clear(&out);
	merge_text(&m, 2, 80, &out);
	ok(strstr(buf_text(&out), "merge  3 hosts, cpu-clock, 4,000 samples, weights = CPU-s, cluster interval t(2)\n") != NULL, "the first line");
	ok(strstr(buf_text(&out), "hosts that differ") != NULL && strstr(buf_text(&out), "host-3  tail") != NULL, "hosts that differ, outside the top N too");
	buf_release(&out);
	struct err err = { 0 };
	static const double counts[] = { 1, 1, 1 };
	struct digest other = made("other", 1000, 10, counts, 1);
	other.period = 1000000;
	ok(!hosts_add(&m, &other, 1, &err) && err.status == STATUS_INPUT, "unlike periods are not merged: %s", err.text);
	other.period = 1295295;
	other.amount = 0;
	ok(!hosts_add(&m, &other, 1, &err) && err.status == STATUS_INPUT, "nor without weight: %s", err.text);
	vec_release(&other.rows);
	hosts_release(&m);
}

// Hosts with shares of their own: the cluster interval holds the fleet's, pooled samples as one binomial do not.
static void test_coverage(void)
{
	enum { ROUNDS = 300, HOSTS = 8, SAMPLES = 1000 };
	static const struct hosts_options options = { .confidence = 0.95 };
	int cluster = 0, within = 0;
	for (int round = 0; round < ROUNDS; round++) {
		struct hosts m;
		struct err err = { 0 };
		hosts_init(&m, &options);
		for (int h = 0; h < HOSTS; h++) {
			double p = fmin(0.9, fmax(0.01, 0.3 + 0.08 * normal_quantile(uniform()))), k[3] = { 0, 0, 0 };
			for (int i = 0; i < SAMPLES; i++)
				k[uniform() < p ? 0 : 1]++;
			char name[20];
			snprintf(name, sizeof(name), "h%d", h);
			struct digest d = made(name, SAMPLES, 10, k, 1);
			hosts_add(&m, &d, 1, &err);
			vec_release(&d.rows);
		}
		hosts_finish(&m);
		const struct hosts_row *a = find(&m, "a");
		cluster += a->ci.lo <= 0.3 && a->ci.hi >= 0.3;
		within += a->within.lo <= 0.3 && a->within.hi >= 0.3;
		hosts_release(&m);
	}
	ok(cluster >= 0.92 * ROUNDS && cluster <= 0.985 * ROUNDS, "the cluster interval holds the fleet's share in %d of %d", cluster, ROUNDS);
	ok(within < 0.6 * ROUNDS, "that of sampling alone in %d only", within);
}

// A thousand hosts of two thousand functions: a few bytes a function and host.
static void test_thousand(void)
{
	enum { HOSTS = 1000, FUNCTIONS = 500 };
	static const struct hosts_options options = { .confidence = 0.95 };
	static char names[FUNCTIONS][16];
	struct hosts m;
	struct err err = { 0 };
	bool good = true;
	hosts_init(&m, &options);
	for (int h = 0; h < HOSTS && good; h++) {
		static const double none[3] = { 0, 0, 0 };
		char host[20];
		snprintf(host, sizeof(host), "h%d", h);
		struct digest d = made(host, 10 * FUNCTIONS, 10, none, 1);
		for (int f = 0; f < FUNCTIONS; f++) {
			snprintf(names[f], sizeof(names[f]), "f%d", f);
			vec_push(&d.rows, (struct digest_row){ .name = names[f], .dso = "app", .k = 10, .deff = 1 });
		}
		good = hosts_add(&m, &d, 1, &err);
		vec_release(&d.rows);
	}
	ok(good && m.functions.count == FUNCTIONS, "a thousand hosts");
	ok(m.arena.bytes < 200000, "names are kept once: %zu bytes", m.arena.bytes);
	hosts_finish(&m);
	ok(m.differing.count == 0 && fabs(m.rows.data[0].share - 0.002) < 1e-12, "all alike");
	hosts_release(&m);
}

int main(void)
{
	test_estimates();
	test_coverage();
	test_thousand();
	return tap_done();
}
