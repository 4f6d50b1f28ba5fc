#!/bin/sh
# Builds every package into out/: dist/build.sh VERSION [KEY]
# KEY is a minisign key that signs the checksums. $CERTIFICATES are the
# certificates of public authorities that images get, those of this machine when
# it is not set.
set -eu
cd "$(dirname "$0")/.."
version=$1
key=${2:-}
out=out
go=${GO:-go}
certificates=${CERTIFICATES:-/etc/ssl/certs/ca-certificates.crt}
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH CGO_ENABLED=0

sh dist/version.sh deb "$version" >/dev/null # refuses what packages cannot say
sh dist/figures.sh "$version"
umask 022
rm -rf "$out"
mkdir -p "$out/.work"
for tool in sbom image zip; do
	$go build -trimpath -o "$out/.work/$tool" ./dist/$tool
done
export ZIP="$PWD/$out/.work/zip"

flags="-s -w -X main.release=$version -X main.built=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)"
build() { # os arch name [tags]
	bin=$out/.work/$3/shuultuur
	GOOS=$1 GOARCH=$2 $go build -trimpath -tags "${4:-}" -buildvcs=false \
		-ldflags "$flags" -o "$bin" ./cmd/shuultuur
	"$out/.work/sbom" "$version" "$bin" > "$bin.spdx.json"
	cp "$bin.spdx.json" "$out/shuultuur-$version-$3.spdx.json"
}

# The same program for this machine, which documents itself.
program=$PWD/$out/.work/shuultuur
$go build -trimpath -buildvcs=false -ldflags "$flags" -o "$program" ./cmd/shuultuur
sh dist/docker/settings.sh "$program" "$out/.work/settings"

for arch in amd64 arm64; do
	build linux $arch linux-$arch
	for format in deb rpm apk; do
		sh dist/package.sh $format $arch "$version" "$bin" "$program" "$out" >&2
	done
	sh dist/tarball.sh "$version" linux $arch "$bin" "$out"
	"$out/.work/image" "$version" $arch "$bin" "$out/.work/settings" "$certificates" "$out/shuultuur-$version-image-linux-$arch.tar"
	build freebsd $arch freebsd-$arch
	sh dist/freebsd/package.sh "$version" $arch "$bin" "$program" "$out"
	build linux $arch openwrt-$arch small
	sh dist/openwrt/package.sh "$version" $arch "$bin" "$out"
	build darwin $arch macos-$arch
	sh dist/tarball.sh "$version" macos $arch "$bin" "$out" dist/macos/example.shuultuur.plist
	build windows $arch windows-$arch
	sh dist/tarball.sh "$version" windows $arch "$bin" "$out" dist/windows/install.ps1
done
"$out/.work/image" join "$out/shuultuur-$version-image-linux.tar" "$out/shuultuur-$version-image-linux-amd64.tar" "$out/shuultuur-$version-image-linux-arm64.tar"
sh dist/helm/package.sh "$version" "$out"
# What people take without unpacking anything.
for file in dist/docker/compose.*.yaml dist/monitoring/alerts.yml dist/monitoring/grafana.json; do
	install -m 644 "$file" "$out/shuultuur-$version-$(basename "$file")"
done
git archive --format=tar --prefix="shuultuur-$version/" HEAD | gzip -9n > "$out/shuultuur-$version.tar.gz"
rm -rf "$out/.work"
echo "$version" > "$out/latest" # for the setting "updates"
(cd "$out" && find . -type f ! -name ".*" -print | LC_ALL=C sort | sed 's,^\./,,' | xargs sha256sum) > "$out/.sums"
mv "$out/.sums" "$out/SHA256SUMS"
if [ -n "$key" ]; then
	minisign -S -s "$key" -m "$out/SHA256SUMS"
fi
cat "$out/SHA256SUMS"
