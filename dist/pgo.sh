#!/bin/sh
# Makes cmd/shuultuur/default.pgo anew: a CPU profile of the benchmarks of what every
# request passes through, with which "make" and "make dist" build (profile-guided
# optimisation). Run it on an idle machine after larger changes there.
set -eu
cd "$(dirname "$0")/.."
: "${SHUULTUUR_DATA:?names the folder with the pages and lists that the benchmarks read; without them they are skipped}"
go=${GO:-go}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
for package in proxy proxy/exchange check/phrase content policy list nameserver; do
	name=$(echo "$package" | tr / -)
	$go test -trimpath -pgo=off -run '^$' -bench . -benchtime "${BENCHTIME:-1s}" \
		-cpuprofile "$tmp/$name.pprof" -o "$tmp/$name.test" "./$package"
done
$go tool pprof -proto -output cmd/shuultuur/default.pgo "$tmp"/*.pprof
