#!/bin/bash
# make demo: a compiler at work, recorded, reported and drawn. Everything lands in $BUILD/demo.
set -eu
cd "$(dirname "$0")/.."
BUILD=${BUILD:-build}
perfsample=$PWD/$BUILD/perfsample
demo=$BUILD/demo
mkdir -p "$demo"

# Some hundred functions of loops, switches and calls: a few seconds of work for gcc -O2.
awk 'BEGIN {
	print "#include <math.h>\n#include <stdio.h>"
	for (i = 0; i < 700; i++) {
		printf "struct s%d { int a[%d]; double d; struct s%d *next; };\n", i, i % 7 + 3, (i > 0 ? i - 1 : 0)
		printf "int fn%d(int *p, int n, struct s%d *q)\n{\n\tint t = 0;\n", i, i
		printf "\tfor (int k = 0; k < n; k++) {\n\t\tt += p[k] * %d + (p[k] >> %d);\n", i + 3, i % 5 + 1
		printf "\t\tif (t %% %d == 0) q->d += sqrt(t) * %d.5; else q->a[(unsigned)t %% %d] += k;\n\t}\n", i + 7, i, i % 7 + 3
		printf "\tswitch (t %% %d) {\n\tcase 0: return t + %d;\n\tcase 1: return printf(\"%%d\", t);\n", i % 11 + 4, i
		printf "\tcase 2: q->d = sin(q->d) + %d; break;\n\tdefault: t ^= %d;\n\t}\n\treturn t + (int)q->d;\n}\n", i, i * 37
	}
}' >"$demo/big.c"

echo "== perfsample record -o $demo/perf.data -- gcc -O2 -c $demo/big.c"
"$perfsample" record -o "$demo/perf.data" -- gcc -O2 -c "$demo/big.c" -o "$demo/big.o"
echo
echo "== perfsample report -i $demo/perf.data"
PERFSAMPLE_PAGER='' "$perfsample" report -i "$demo/perf.data"
echo
echo "== perfsample flame -i $demo/perf.data -o $demo/flame.svg"
"$perfsample" flame -i "$demo/perf.data" -o "$demo/flame.svg"
"$perfsample" fold -i "$demo/perf.data" -o "$demo/stacks.folded"
echo "open $demo/flame.svg in a browser; $demo/stacks.folded has the stacks as text"
