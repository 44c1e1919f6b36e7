#!/bin/bash
# shellcheck disable=SC2154 # tap.sh sets what it names
# Names, lines and inline chains of a program in C++, as an optimizing compiler leaves it, beside llvm-symbolizer's: 3,000 addresses that are the
# same each time. bench/symbolize.sh does this over large files.
. "$(dirname "$0")/tap.sh"
build=$(cd "$root" && cd "${BUILD:-build}" && pwd)
symbolize=$build/bench/symbolize
llvm=$(command -v llvm-symbolizer llvm-symbolizer-{19,18,17,16,15,14} | head -n 1)
compilers=(g++ clang++)
cat >"$work/t.cc" <<'CC'
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>
namespace shapes {
struct shape { virtual ~shape() = default; virtual double area() const = 0; };
template <int N> struct square : shape { double side; explicit square(double s) : side(s * N) {} double area() const override { return side * side; } };
namespace { double twice(const shape &s) { return 2 * s.area(); } }
}
int main(int argc, char **argv)
{
	std::map<std::string, std::vector<double>> sums;
	std::vector<std::unique_ptr<shapes::shape>> all;
	for (int i = 0; i < argc * 100; i++) {
		if (i & 1)
			all.push_back(std::make_unique<shapes::square<2>>(i));
		else
			all.push_back(std::make_unique<shapes::square<3>>(i));
		sums[std::to_string(i % 7)].push_back(shapes::twice(*all.back()));
	}
	auto larger = [&](double a, double b) { struct by { static bool less(double x, double y) { return x < y; } }; return by::less(b, a) && argv; };
	for (auto &entry : sums)
		std::sort(entry.second.begin(), entry.second.end(), larger);
	return sums["3"].size() > 3 ? 0 : 1;
}
CC
for compiler in "${compilers[@]}"; do
	name="$compiler -O2 -g: names, lines and whole chains"
	if [ -z "$llvm" ]; then
		skip "no llvm-symbolizer to compare with" "$name"
	elif [ ! -x "$symbolize" ] || ! command -v python3 readelf nm >/dev/null; then
		skip "bench/symbolize, python3, readelf or nm is not here" "$name"
	elif ! "$compiler" -O2 -g -o "$work/t" "$work/t.cc" 2>/dev/null; then
		skip "no $compiler" "$name"
	else
		row=$(EXAMPLES=3 python3 "$root/bench/symbol_agreement.py" "$symbolize" "$llvm" 3000 "$work/t" 2>&1)
		awk -F'\t' '$1 == "t" { good = $2 >= 2000 && $3 >= 99.9 && $4 >= 99.9 && $5 >= 99.9 } END { exit !good }' <<<"$row"
		ok $? "$name" || sed 's/^/# /' <<<"$row"
	fi
done
done_testing
