#!/bin/bash
# --debuginfod, against a server of our own on the loopback interface: found, not found, slow, silent, another file, a file cut short, no ELF file,
# too large; the cache; and that without the option nothing is asked. No other network.
# shellcheck disable=SC2154 # tap.sh sets what it names
. "$(dirname "$0")/tap.sh"
. "$(dirname "$0")/waits.sh"
CC=${CC:-gcc}
cd "$work" || exit 1
export XDG_CACHE_HOME=$work/cache HOME=$work/home
mkdir home
unset DEBUGINFOD_URLS DEBUGINFOD_TIMEOUT DEBUGINFOD_MAXSIZE DEBUGINFOD_MAXTIME DEBUGINFOD_CACHE_PATH
# Proxies of the environment are not for this host.
unset http_proxy HTTP_PROXY all_proxy ALL_PROXY
ps report --debuginfod -i "$fixtures/small.data"
is "$status" 2 "no server is named: status 2"
like "$err" '--debuginfod: no debuginfod server is named: set DEBUGINFOD_URLS' "and what to set is said"
if ! "$perfsample" check >/dev/null 2>&1 || ! command -v "$CC" >/dev/null; then
	skip "this host cannot record, or has no compiler" "files from a server"
	done_testing
fi
if ! ldconfig -p | grep -q 'libdebuginfod\.so\.1'; then
	DEBUGINFOD_URLS=http://127.0.0.1:1 ps report --debuginfod -i "$fixtures/small.data"
	is "$status" 3 "without the library: status 3"
	skip "no libdebuginfod" "files from a server"
	done_testing
fi
# The server: what it does is the word in the file `mode`; each request is a line in `asked`.
cat >server.py <<'PYTHON'
import http.server, sys, time
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.0"
    def log_message(self, *a): pass
    def do_HEAD(self): self.do_GET()
    def do_GET(self):
        mode = open("mode").read().strip()
        with open("asked", "a") as f: f.write(self.path + "\n")
        kind = self.path.rsplit("/", 1)[1]
        try:
            body = open("served" + self.path.replace("/", "_"), "rb").read()
        except OSError:
            body = None
        if mode == "absent" or (body is None and mode != "silent"):
            return self.send_error(404)
        if mode == "silent":
            return time.sleep(600)
        if mode == "other":
            body = open("other.file", "rb").read()
        if mode == "junk":
            body = b"<html>a captive portal</html>"
        self.send_response(200)
        if mode != "cut-unseen":
            self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Type", "application/octet-stream")
        self.end_headers()
        if mode in ("cut", "cut-unseen"):
            body = body[:len(body) * 2 // 3]
        if mode == "slow":
            self.wfile.write(body[:1000]); self.wfile.flush()
            time.sleep(600)
        self.wfile.write(body)
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
open("port.new", "w").write(str(server.server_port))
__import__("os").rename("port.new", "port")
server.serve_forever()
PYTHON
echo normal >mode
python3 server.py 2>server.err &
server=$!
# Seconds as processes here see them: where they are held up, so is this clock.
(while sleep 0.1; do echo; done) >ticks 2>/dev/null &
clock=$!
trap 'kill $server $clock 2>/dev/null; rm -rf "$work"' EXIT
tenths() { wc -l <ticks; }
soon test -e port
url=http://127.0.0.1:$(cat port)

program() { # NAME FUNCTION: stripped; its debug file is NAME.debug
	cat >"$1.c" <<C
static volatile unsigned long sink;
static inline __attribute__((always_inline)) unsigned long inlined_there(unsigned long i) { return i * i + 1; }
__attribute__((noinline)) void $2(unsigned long n) { for (unsigned long i = 0; i < n; i++) sink += inlined_there(i); }
int main(void) { $2(150000000); return 0; }
C
	"$CC" -O1 -g -Wl,--build-id -o "$1" "$work/$1.c"
	objcopy --only-keep-debug "$1" "$1.debug"
	cp "$1" "$1.whole"
	strip "$1"
}
id_of() { readelf -n "$1" | sed -n 's/.*Build ID: //p'; }
program hot work_known_to_the_server
program other work_of_another
id=$(id_of hot)
cp other.debug other.file
cp hot.debug "served_buildid_${id}_debuginfo"
cp hot "served_buildid_${id}_executable"
"$perfsample" record -q --no-symbols -o hot.data -- ./hot 2>record.err
"$perfsample" record -q -o named.data -- ./hot 2>record.err
report() { "$perfsample" report -i "${data:-hot.data}" --format tsv -s symbol "$@" 2>report.err; }
fresh() { echo "$1" >mode; rm -rf cache home/.cache asked; }

fresh normal
unlike "$(DEBUGINFOD_URLS=$url report)" work_known "without the option there is no name"
ok "$([ ! -e asked ]; echo $?)" "and nothing is asked, whatever DEBUGINFOD_URLS says"
export DEBUGINFOD_URLS=$url
like "$(report --debuginfod)" work_known_to_the_server "a debug file from a server"
like "$(cat report.err)" "debuginfod: the debug file of build ID $id, [0-9.]+ kB" "is said"
ok "$([ -s "cache/debuginfod_client/$id/debuginfo" ]; echo $?)" "it is in the cache of all debuginfod clients"
ok "$(cmp -s "cache/debuginfod_client/$id/debuginfo" hot.debug; echo $?)" "byte by byte"
rm -f asked
like "$(report --debuginfod)" work_known_to_the_server "the second time from there"
ok "$(! grep -q "$id" asked 2>/dev/null; echo $?)" "without asking"
like "$("$perfsample" report -i hot.data --debuginfod --format tsv -s srcline 2>/dev/null)" 'hot.c:3|hot.c:2' "lines"
like "$("$perfsample" fold -i hot.data --debuginfod 2>/dev/null)" 'work_known_to_the_server;inlined_there' "fold: inlined functions"
like "$("$perfsample" script -i hot.data --debuginfod 2>/dev/null)" 'work_known_to_the_server' "script"
like "$("$perfsample" annotate -i hot.data --debuginfod work_known_to_the_server 2>/dev/null)" 'hot.c:2 \(inlined inlined_there\)|hot.c$' "annotate"
"$perfsample" record -q --debuginfod -o told.data -- ./hot 2>record.err
like "$(data=told.data report)" work_known_to_the_server "record --debuginfod: the names are inside"
rm -rf cache
like "$(data=named.data report --debuginfod)" work_known_to_the_server "a recording with names inside, but not these"
# The binary itself is gone from here.
mv hot elsewhere
fresh normal
like "$(report --debuginfod)" work_known_to_the_server "a binary and its debug file, both from a server"
ok "$([ -s "cache/debuginfod_client/$id/executable" ]; echo $?)" "the binary is in the cache"
mv elsewhere hot

# What servers do. Each within seconds, with one line of warning at most a file, and a report.
within() { # MODE SECONDS PATTERN NAME
	local begin got
	begin=$(tenths)
	fresh "$1"
	got=$(timeout 200 "$perfsample" report -i hot.data --debuginfod --format tsv -s symbol 2>report.err)
	is $? 0 "$4: a report"
	ok "$([ $(($(tenths) - begin)) -le $((10 * $2)) ]; echo $?)" "$4: within $2 s"
	unlike "$got" 'work_(known|of_another)' "$4: no name from it"
	like "$(cat report.err)" "$3" "$4: said"
	ok "$([ "$(grep -c "build ID $id" report.err)" -le 1 ]; echo $?)" "$4: once"
	ok "$([ ! -s "cache/debuginfod_client/$id/debuginfo" ]; echo $?)" "$4: nothing of it in the cache"
}
within absent 10 '^perfsample|^$' "a server that has it not"
unlike "$(cat report.err)" "did not come" "that is no failure"
export DEBUGINFOD_TIMEOUT=1 # those that answer have the 90 seconds of the library: a busy machine is no silent server
within silent 15 "build ID $id did not come: the server (did not answer|took too long)" "a server that accepts and never answers"
within slow 15 "build ID $id did not come: the (server (did not answer, or not go on|took too long)|transfer ended early)" "a server that stops in the middle"
unset DEBUGINFOD_TIMEOUT
within other 10 "build ID $id did not come: what came has another build ID" "another file than asked for"
within junk 10 "build ID $id did not come: what came is no ELF file" "a captive portal"
within cut 10 "build ID $id did not come: the transfer ended early" "a body that ends early"
within cut-unseen 10 "build ID $id did not come: what came is" "a body that ends early, its length unknown"
DEBUGINFOD_URLS=http://127.0.0.1:1 within absent 10 "did not come|^$" "nobody listens"
fresh normal
like "$(DEBUGINFOD_MAXSIZE=100 report --debuginfod; cat report.err)" 'did not come: larger than DEBUGINFOD_MAXSIZE' "DEBUGINFOD_MAXSIZE"
fresh normal
mkdir -p "cache/debuginfod_client/$id"
head -c 3000 hot.debug >"cache/debuginfod_client/$id/debuginfo"
like "$(report --debuginfod)" work_known_to_the_server "a damaged file in the cache is fetched again"
done_testing
