#!/bin/sh
# The program builds without C for every system it is meant for, and has at most
# 64 MB: small machines have to fetch it.
set -eu
most=64000000
built=$(mktemp)
trap 'rm -f "$built"' EXIT
for os in linux freebsd; do
	for arch in amd64 arm64; do
		profile=off # of no use to a size, and compiling by it takes time
		[ "$os/$arch" = linux/amd64 ] && profile=auto # the stories use this program
		CGO_ENABLED=0 GOOS=$os GOARCH=$arch go build -pgo=$profile -trimpath -ldflags '-s -w' -o "$built" ./cmd/shuultuur
		size=$(wc -c <"$built")
		echo "builds for $os/$arch: $size bytes, stripped"
		if [ "$size" -gt "$most" ]; then
			echo "test/cross.sh: the program for $os/$arch takes $size bytes, stripped, of at most $most: find what it has grown by with go tool nm -size" >&2
			exit 1
		fi
	done
done
# Windows and macOS have no limit of size: the small machines run the others. Listing with
# export data compiles every package and links nothing; the profile would only take time.
for target in windows/amd64 darwin/arm64; do
	CGO_ENABLED=0 GOOS=${target%/*} GOARCH=${target#*/} go list -pgo=off -export -deps ./cmd/shuultuur >/dev/null
	echo "compiles for $target"
done
