#!/bin/sh
# Packs a binary, its list of modules and what starts it as a service:
#   tarball.sh VERSION OS ARCH BINARY FOLDER [FILE...]
# It makes a .tar.gz, and for Windows a .zip by the command in $ZIP (dist/zip).
set -eu
version=$1 os=$2 arch=$3 bin=$4 out=$5
shift 5
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
name=shuultuur-$version-$os-$arch
suffix=
[ "$os" = windows ] && suffix=.exe
mkdir "$dir/$name"
install -m 755 "$bin" "$dir/$name/shuultuur$suffix"
install -m 644 "$bin.spdx.json" "$dir/$name/shuultuur.spdx.json"
install -m 644 LICENSE README.md "$@" "$dir/$name/"
if [ "$os" = windows ]; then
	"$ZIP" "$dir/$name" "$out/$name.zip"
else
	tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" \
		-C "$dir" -cf - "$name" | gzip -9n > "$out/$name.tar.gz"
fi
