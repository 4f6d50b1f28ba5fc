#!/bin/sh
# The program builds without C for every system it is meant for, and has at most
# 64 MiB: small machines have to fetch it.
set -eu
most=67108864
built=$(mktemp)
trap 'rm -f "$built"' EXIT
# The stories use the first of these builds.
for target in linux/amd64 linux/arm64 freebsd/amd64; do
	CGO_ENABLED=0 GOOS=${target%/*} GOARCH=${target#*/} go build -trimpath -ldflags '-s -w' -o "$built" ./cmd/shuultuur
	size=$(wc -c <"$built")
	echo "builds for $target: $size bytes, stripped"
	if [ "$size" -gt "$most" ]; then
		echo "test/cross.sh: the program for $target takes $size bytes, stripped, of at most $most: find what it has grown by with go tool nm -size" >&2
		exit 1
	fi
done
CGO_ENABLED=0 go run -trimpath ./test/compiles freebsd/arm64 windows/amd64 darwin/arm64 linux/386 linux/arm
