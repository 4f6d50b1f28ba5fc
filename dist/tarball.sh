#!/bin/sh
# Packs a binary and its list of modules: tarball.sh VERSION OS ARCH BINARY FOLDER
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
name=shuultuur-$1-$2-$3
mkdir "$dir/$name"
install -m 755 "$4" "$dir/$name/shuultuur"
install -m 644 "$4.spdx.json" "$dir/$name/shuultuur.spdx.json"
install -m 644 LICENSE README.md "$dir/$name/"
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" \
	-C "$dir" -cf - "$name" | gzip -9n > "$5/$name.tar.gz"
