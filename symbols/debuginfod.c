#include "symbols/debuginfod.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/mem.h"

// The interface of elfutils' libdebuginfod.so.1 (debuginfod_find_debuginfo(3), its symbols versioned ELFUTILS_0.178 and _0.179), declared here so that
// building needs no header of what is loaded on request.
#define CLIENT_LIBRARY "libdebuginfod.so.1"
typedef struct debuginfod_client client_handle;
typedef client_handle *client_begin(void);
typedef void client_end(client_handle *handle);
typedef int client_find(client_handle *handle, const unsigned char *build_id, int build_id_bytes, char **path); // a descriptor, or -errno
typedef int client_progress(client_handle *handle, long done, long total);                                     // not 0: give up
typedef void client_set_progress(client_handle *handle, client_progress *progress);
typedef void client_set_data(client_handle *handle, void *data);
typedef void *client_data(client_handle *handle);

enum { STALLS_MOST = 2 };
#define DEFAULT_STALL_S 10
#define DEFAULT_TOTAL_S 120
#define FILE_BYTES_MOST (UINT64_C(2) << 30)

struct asking { // the file being asked for
	struct build_id id;
	enum debuginfod_kind kind;
	uint64_t calls, bytes; // of on_progress; 0 calls: the file was in the cache
	double last_s;         // when bytes came last
	const char *why;       // it was given up
	bool is_stalled;
};

struct debuginfod {
	struct debuginfod_options options;
	pthread_mutex_t lock;
	void *library;
	client_handle *handle;
	client_end *end;
	client_find *find[2]; // by kind
	struct hash_map asked; // hashes of (id, kind)
	double until_s;        // 0: nothing was asked yet
	unsigned stalls;
	struct asking now;
};

static double now_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

// ---------------------------------------------------------------- while a file comes

// Another result than 0 ends the transfer. Until a server has answered, `a` counts the calls of this, and `b` is 0.
static int watch(struct debuginfod *client, long a, long b)
{
	struct asking *now = &client->now;
	double time_s = now_s();
	uint64_t bytes = a > 0 ? (uint64_t)a : 0, total = b > 0 ? (uint64_t)b : 0;
	now->calls++;
	bool is_count = total == 0 && bytes <= now->calls; // nobody sends a file by single bytes
	if (!is_count && bytes != now->bytes) {
		now->bytes = bytes;
		now->last_s = time_s;
	}
	now->is_stalled = time_s - now->last_s > client->options.stall_s;
	if (bytes > FILE_BYTES_MOST || total > FILE_BYTES_MOST)
		now->why = "larger than 2 GiB";
	else if (time_s > client->until_s)
		now->why = "the time for all files is over";
	else if (now->is_stalled)
		now->why = "the server did not answer, or not go on, in time (DEBUGINFOD_TIMEOUT)";
	else if (client->options.progress != NULL)
		client->options.progress(client->options.context, &now->id, now->kind, now->bytes, is_count ? 0 : total);
	return now->why != NULL;
}

// Called by the library once a second or more often while it waits. What was set as its user data, only the library can tell.
static int on_progress(client_handle *handle, long a, long b)
{
	void *library = dlopen(CLIENT_LIBRARY, RTLD_LAZY | RTLD_NOLOAD);
	if (library == NULL)
		return 1;
	client_data *get = (client_data *)dlsym(library, "debuginfod_get_user_data");
	struct debuginfod *client = get != NULL ? get(handle) : NULL;
	dlclose(library);
	return client != NULL ? watch(client, a, b) : 1;
}

// ---------------------------------------------------------------- the library

static bool load(struct debuginfod *client)
{
	// Never unloaded: libcurl and the TLS library below it keep state of the process's own, which their unloading would leak.
	client->library = dlopen(CLIENT_LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	if (client->library == NULL)
		return false;
	client_begin *begin = (client_begin *)dlsym(client->library, "debuginfod_begin");
	client_set_progress *set_progress =
		(client_set_progress *)dlsym(client->library, "debuginfod_set_progressfn");
	client_set_data *set_data = (client_set_data *)dlsym(client->library, "debuginfod_set_user_data");
	client->end = (client_end *)dlsym(client->library, "debuginfod_end");
	client->find[DEBUGINFOD_DEBUG_FILE] = (client_find *)dlsym(client->library, "debuginfod_find_debuginfo");
	client->find[DEBUGINFOD_EXECUTABLE] = (client_find *)dlsym(client->library, "debuginfod_find_executable");
	if (begin == NULL || set_progress == NULL || set_data == NULL || client->end == NULL || client->find[0] == NULL || client->find[1] == NULL)
		return false;
	client->handle = begin();
	if (client->handle == NULL)
		return false;
	set_data(client->handle, client);
	set_progress(client->handle, on_progress);
	return true;
}

static double seconds_of(const char *variable, double otherwise)
{
	const char *text = getenv(variable);
	char *end;
	double value = text != NULL ? strtod(text, &end) : 0;
	return value > 0 && value < 86400 ? value : otherwise;
}

bool debuginfod_open(struct debuginfod **out, const struct debuginfod_options *options, struct err *err)
{
	const char *urls = getenv("DEBUGINFOD_URLS");
	*out = NULL;
	if (urls == NULL || urls[strspn(urls, " ")] == '\0')
		return err_set(err, STATUS_USAGE, "no debuginfod server is named: set DEBUGINFOD_URLS (https://debuginfod.debian.net, "
		               "https://debuginfod.ubuntu.com, https://debuginfod.fedoraproject.org, https://debuginfod.elfutils.org)");
	struct debuginfod *client = NEW(struct debuginfod);
	pthread_mutex_init(&client->lock, NULL);
	if (!load(client)) {
		debuginfod_close(client);
		return err_set(err, STATUS_HOST, "%s is not installed (apt-get install libdebuginfod1, dnf install elfutils-debuginfod-client)",
		               CLIENT_LIBRARY);
	}
	client->options = *options;
	if (client->options.stall_s <= 0)
		client->options.stall_s = seconds_of("DEBUGINFOD_TIMEOUT", DEFAULT_STALL_S);
	if (client->options.total_s <= 0)
		client->options.total_s = DEFAULT_TOTAL_S;
	*out = client;
	return true;
}

void debuginfod_close(struct debuginfod *client)
{
	if (client == NULL)
		return;
	if (client->handle != NULL)
		client->end(client->handle);
	if (client->library != NULL)
		dlclose(client->library);
	hash_map_release(&client->asked);
	pthread_mutex_destroy(&client->lock);
	free(client);
}

// ---------------------------------------------------------------- one file

// A server, or the connection, may have ended early without an error being seen: every section has to be there.
static bool is_whole(const struct image *image)
{
	for (size_t i = 0; i < image->section_count; i++) {
		const struct image_section *section = &image->sections[i];
		if (section->type != SHT_NOBITS && section->type != SHT_NULL &&
		    (section->offset > image->size || section->size > image->size - section->offset))
			return false;
	}
	return image->section_count > 0;
}

// What the library gave; a file that is not what was asked for is taken out of the cache.
static struct image *open_checked(struct asking *now, int fd, const char *path)
{
	struct image *image;
	if (!image_open_fd(&image, fd, path, NULL)) {
		now->why = "what came is no ELF file";
	} else if (!build_id_equal(&image->build_id, &now->id)) {
		now->why = "what came has another build ID";
	} else if (!is_whole(image)) {
		now->why = "what came is cut short";
	} else {
		return image;
	}
	image_release(image);
	(void)unlink(path);
	return NULL;
}

// The library's codes: ENOENT is also what it makes of a transfer that ended early (0.188), but then something had come.
static const char *failure_text(const struct asking *now, int code)
{
	switch (code) {
	case ENOENT: return now->bytes > 0 ? "the transfer ended early" : "no server has it";
	case ETIME: return "the server took too long (DEBUGINFOD_TIMEOUT)";
	case EFBIG: return "larger than DEBUGINFOD_MAXSIZE";
	default: return strerror(code);
	}
}

static struct image *ask(struct debuginfod *client)
{
	struct asking *now = &client->now;
	char *path = NULL;
	now->calls = now->bytes = 0;
	now->last_s = now_s();
	now->why = NULL;
	now->is_stalled = false;
	int fd = client->find[now->kind](client->handle, now->id.bytes, now->id.size, &path);
	struct image *image = NULL;
	if (fd >= 0) {
		image = open_checked(now, fd, path);
		close(fd);
	}
	free(path);
	bool is_failure = now->why != NULL || (fd < 0 && fd != -ENOENT) || (fd < 0 && now->bytes > 0);
	if (fd < 0 && now->why == NULL)
		now->why = failure_text(now, -fd);
	client->stalls += now->is_stalled || fd == -ETIME;
	bool was_asked = now->calls > 0;
	if (!was_asked && fd >= 0 && image == NULL)
		return ask(client); // a bad file in the cache, now gone from there
	if ((was_asked || is_failure) && client->options.done != NULL)
		client->options.done(client->options.context, &now->id, now->kind, image, now->why, is_failure);
	return image;
}

struct image *debuginfod_find(struct debuginfod *client, const struct build_id *id, enum debuginfod_kind kind)
{
	struct image *image = NULL;
	bool is_new;
	if (id->size < 2) // no server has what the library's cache cannot name
		return NULL;
	pthread_mutex_lock(&client->lock);
	hash_map_put(&client->asked, hash_pair(hash_bytes(id->bytes, id->size), (uint64_t)kind), 1, &is_new);
	if (client->until_s <= 0)
		client->until_s = now_s() + client->options.total_s;
	if (is_new && client->stalls < STALLS_MOST && now_s() < client->until_s) {
		client->now.id = *id;
		client->now.kind = kind;
		image = ask(client);
	}
	pthread_mutex_unlock(&client->lock);
	return image;
}
