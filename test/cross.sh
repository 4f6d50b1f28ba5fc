#!/bin/sh
# The program builds without C for every system it is meant for.
set -eu
for os in linux freebsd; do
	for arch in amd64 arm64; do
		CGO_ENABLED=0 GOOS=$os GOARCH=$arch go build -o /dev/null ./cmd/shuultuur
		echo "builds for $os/$arch"
	done
done
