#include "cmd/runtimes.h"

#include <stdbool.h>
#include <string.h>

// `file` is what a mapped file's name begins with. The first in this order counts: many programs embed a runtime, so its library says more than the program.
// `at_once`, with the pid for its %u: what names the code of a process that runs already; NULL: nothing does.
struct runtime { const char *file, *at_start, *at_once; };
static const char java[] = "run java with -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit -XX:+PreserveFramePointer";
static const char node[] = "run node with --perf-basic-prof (or --perf-prof for a jitdump)";
static const char python[] = "run python with -X perf (3.12 and later)";
static const char ruby[] = "run ruby with --yjit-perf";
static const char julia[] = "set ENABLE_JITPROFILING=1";
static const char dotnet[] = "set DOTNET_PerfMapEnabled=1";
static const char mono[] = "run mono with --jitmap";
static const char luajit[] = "LuaJIT writes no map; its interpreter alone has names (jit.off())";
static const char postgres[] = "set jit_profiling_support = on, or jit = off";
static const char php[] = "set opcache.jit_debug=0x10";
static const char erlang[] = "run erl with +JPperf true";
static const char qemu[] = "run qemu with -perfmap or -jitdump (8.0 and later)";
static const char chrome[] = "run it with --js-flags=--perf-basic-prof and --no-sandbox";
static const char firefox[] = "set IONPERF=func and PERF_SPEW_DIR";
static const char openj9[] = "run java with -Xjit:perfTool";
static const char llvm[] = "LLVM's perf listener (createPerfJITEventListener) writes a jitdump, if the program asks for it";
static const struct runtime runtimes[] = {
	{ "libjvm.so", java, "jcmd %u Compiler.perfmap (JDK 17 and later)" },
	{ "libj9vm", openj9, NULL },
	{ "libcoreclr.so", dotnet, NULL },
	{ "libclrjit.so", dotnet, NULL },
	{ "libnode.so", node, NULL },
	{ "node", node, NULL },
	{ "libxul.so", firefox, NULL },
	{ "chrome", chrome, NULL },
	{ "chromium", chrome, NULL },
	{ "llvmjit.so", postgres, NULL },
	{ "postgres", postgres, NULL },
	{ "libjulia", julia, NULL },
	{ "julia", julia, NULL },
	{ "libluajit", luajit, NULL },
	{ "luajit", luajit, NULL },
	{ "libmono", mono, NULL },
	{ "mono", mono, NULL },
	{ "libruby", ruby, NULL },
	{ "ruby", ruby, NULL },
	{ "opcache.so", php, NULL },
	{ "beam.smp", erlang, NULL },
	{ "qemu-", qemu, NULL },
	{ "libpython3.", python, NULL },
	{ "python3", python, NULL },
	{ "libLLVM", llvm, NULL },
};

static bool has_file(const char *files, const char *prefix)
{
	size_t length = strlen(prefix);
	for (const char *line = files; line[0] != '\0';) {
		size_t size = strcspn(line, "\n");
		const char *name = line + size;
		while (name > line && name[-1] != '/')
			name--;
		if ((size_t)(line + size - name) >= length && memcmp(name, prefix, length) == 0)
			return true;
		line += size + (line[size] == '\n');
	}
	return false;
}

const struct runtime *runtime_of(const char *files)
{
	for (size_t i = 0; i < sizeof(runtimes) / sizeof(runtimes[0]); i++)
		if (has_file(files, runtimes[i].file))
			return &runtimes[i];
	return NULL;
}

void runtime_help(const struct runtime *runtime, uint32_t pid, struct buf *out)
{
	if (runtime == NULL) {
		buf_string(out, "have its runtime write /tmp/perf-PID.map or a jitdump file while it runs");
		return;
	}
	buf_string(out, runtime->at_start);
	if (runtime->at_once != NULL && pid != 0) {
		buf_string(out, "; or, while it runs, ");
		buf_printf(out, runtime->at_once, pid);
	}
}
