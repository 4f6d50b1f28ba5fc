#!/bin/sh
# Makes cmd/shuultuur/default.pgo anew: CPU profiles with which "make" and "make dist" build
# (profile-guided optimisation). They come from the program itself while the benchmarks send
# it pages and requests, and from the benchmarks of packages that these hardly reach: lists,
# policies, names. Functions are known by their names: make it anew after moving what every
# request passes through. Run it on an idle machine; it needs nginx and e2guardian's lists.
set -eu
cd "$(dirname "$0")/.."
: "${SHUULTUUR_DATA:?names the folder with the pages and lists that the benchmarks read; without them they are skipped}"
go=${GO:-go}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
for name in pages gzip small tls-new tls-small tls-pages icap; do
	$go run -C bench . "$name" -peers shuultuur -rounds 1 -seconds "${SECONDS_EACH:-20}" -profile "$tmp"
done
for package in check/phrase list list/adblock policy nameserver; do
	name=$(echo "$package" | tr / -)
	$go test -trimpath -pgo=off -run '^$' -bench . -benchtime "${BENCHTIME:-1s}" \
		-cpuprofile "$tmp/$name.pprof" -o "$tmp/$name.test" "./$package"
done
$go tool pprof -proto -output cmd/shuultuur/default.pgo "$tmp"/*.pprof
