#!/bin/sh
# Builds every package into out/: dist/build.sh VERSION [KEY]
# KEY is a minisign key that signs the checksums.
set -eu
cd "$(dirname "$0")/.."
version=$1
key=${2:-}
out=out
go=${GO:-go}
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH CGO_ENABLED=0

rm -rf "$out"
mkdir -p "$out"
$go build -trimpath -o "$out/.sbom" ./dist/sbom

flags="-s -w -X main.release=$version"
build() { # os arch file
	# shellcheck disable=SC2046 # the flags are words
	GOOS=$1 GOARCH=$2 $go build $(sh dist/flags.sh) -buildvcs=false \
		-ldflags "$flags" -o "$3" ./cmd/shuultuur
	"$out/.sbom" "$version" "$3" > "$3.spdx.json"
}

# The same program for this machine, which documents itself.
# shellcheck disable=SC2046
$go build $(sh dist/flags.sh) -buildvcs=false -ldflags "$flags" -o "$out/.shuultuur" ./cmd/shuultuur

for arch in amd64 arm64; do
	bin=$out/linux-$arch/shuultuur
	mkdir -p "$out/linux-$arch"
	build linux $arch "$bin"
	for format in deb rpm apk; do
		sh dist/package.sh $format $arch "$version" "$bin" "$PWD/$out/.shuultuur" "$out" >&2
	done
	sh dist/tarball.sh "$version" linux $arch "$bin" "$out"
	mkdir -p "$out/freebsd-$arch"
	build freebsd $arch "$out/freebsd-$arch/shuultuur"
	sh dist/freebsd/package.sh "$version" $arch "$out/freebsd-$arch/shuultuur" "$out"
	mkdir -p "$out/small-$arch"
	# shellcheck disable=SC2046
	GOOS=linux GOARCH=$arch $go build $(sh dist/flags.sh small) -buildvcs=false \
		-ldflags "$flags" -o "$out/small-$arch/shuultuur" ./cmd/shuultuur
	sh dist/openwrt/package.sh "$version" $arch "$out/small-$arch/shuultuur" "$out"
done
rm -rf "$out/.sbom" "$out/.shuultuur" "$out"/linux-*/ "$out"/small-*/ "$out"/freebsd-*/
(cd "$out" && find . -type f ! -name ".*" -print | LC_ALL=C sort | sed 's,^\./,,' | xargs sha256sum) > "$out/.sums"
mv "$out/.sums" "$out/SHA256SUMS"
if [ -n "$key" ]; then
	minisign -S -s "$key" -m "$out/SHA256SUMS"
fi
cat "$out/SHA256SUMS"
