// What generated code is called: what was asked for and found while its processes lived, for whoever looks up names.
#include <string.h>
#include <time.h>

#include "elf/vdso.h"
#include "record/jit_files.h"
#include "record/jit_objects.h"
#include "record/session_private.h"

// What the last passes asked for, as far as the helper comes to it: a mount may hang.
void session_find_names(struct session *session)
{
	const uint64_t until_ns = session_now_ns(session) + 5000000000u;
	while ((jit_files_is_waiting(session->files) || jit_objects_is_waiting(session->objects)) && session_now_ns(session) < until_ns) {
		images_find_names(session->images, session->files, session->objects, session_now_ns(session), true);
		if (jit_files_is_waiting(session->files) || jit_objects_is_waiting(session->objects))
			nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	}
}

void session_find_last_names(struct session *session)
{
	if (jit_files_hand(session->files)) // by samples that waited; the helper has ended
		jit_files_serve(session->files);
	uint64_t left_out = jit_objects_left_out(session->objects);
	if (left_out > 0)
		decide(&session->decisions, "%llu functions of which processes told debuggers have no names: they were more than %d, or took more than %d MiB",
		       (unsigned long long)left_out, JIT_OBJECTS_FUNCTIONS_MOST, JIT_OBJECTS_BYTES_MOST >> 20);
}

const struct sampled *session_sampled(const struct session *session)
{
	return &session->drain.sampled;
}

struct image *session_image(const struct session *session, uint32_t dso)
{
	const struct dso *row = dso_get(spaces_dsos(session->spaces), dso);
	return row->kind == DSO_VDSO ? images_vdso(session->images, strcmp(row->path, VDSO32_NAME) == 0) : images_image(session->images, dso);
}

struct sampled_code session_code(const struct session *session, uint32_t dso)
{
	const struct dso *row = dso_get(spaces_dsos(session->spaces), dso);
	const struct jit_program program = { (int32_t)row->pid, row->since_ns };
	const char *path = NULL;
	size_t function_count = 0;
	const struct jit_function *functions = row->kind == DSO_ANON ? jit_objects_functions(session->objects, program, &function_count) : NULL;
	int jitdump_fd = row->kind == DSO_ANON ? jit_files_dump(session->files, program, &path) : -1;
	return (struct sampled_code){
		.jitdump_fd = jitdump_fd, .jitdump_path = path, .dso = row, .id = dso,
		.image = session_image(session, dso),
		.functions = functions, .function_count = function_count,
		.map_fd = row->kind == DSO_ANON ? jit_files_map(session->files, program) : -1,
	};
}

const char *session_map_refusal(const struct session *session)
{
	return jit_files_refusal(session->files);
}
