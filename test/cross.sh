#!/bin/sh
# The program builds without C for every system it is meant for, and stays as
# small as it has become: what is downloaded to a small machine is this.
set -eu
most=$((40 * 1024 * 1024))
built=$(mktemp)
trap 'rm -f "$built"' EXIT
for os in linux freebsd; do
	for arch in amd64 arm64; do
		CGO_ENABLED=0 GOOS=$os GOARCH=$arch go build -trimpath -ldflags '-s -w' -o "$built" ./cmd/shuultuur
		size=$(wc -c <"$built")
		echo "builds for $os/$arch: $size bytes, stripped"
		if [ "$size" -gt "$most" ]; then
			echo "test/cross.sh: the program for $os/$arch takes $size bytes, stripped, of at most $most: find what it has grown by with go tool nm -size" >&2
			exit 1
		fi
	done
done
