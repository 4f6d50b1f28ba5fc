#!/bin/sh
# The program builds without C for every system it is meant for, with the flags
# of a release, and has at most 40 MB: small machines have to fetch it.
set -eu
most=40000000
built=$(mktemp)
trap 'rm -f "$built"' EXIT
for os in linux freebsd; do
	for arch in amd64 arm64; do
		# shellcheck disable=SC2046 # the flags are words
		CGO_ENABLED=0 GOOS=$os GOARCH=$arch go build $(sh dist/flags.sh) -ldflags '-s -w' -o "$built" ./cmd/shuultuur
		size=$(wc -c <"$built")
		echo "builds for $os/$arch: $size bytes, stripped"
		if [ "$size" -gt "$most" ]; then
			echo "test/cross.sh: the program for $os/$arch takes $size bytes, stripped, of at most $most: find what it has grown by with go tool nm -size" >&2
			exit 1
		fi
	done
done
# Windows and macOS have no limit of size: the small machines run the others. Listing with
# export data compiles every package and links nothing.
for target in windows/amd64 darwin/arm64; do
	CGO_ENABLED=0 GOOS=${target%/*} GOARCH=${target#*/} go list -export -deps ./cmd/shuultuur >/dev/null
	echo "compiles for $target"
done
