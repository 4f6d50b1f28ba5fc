#!/bin/sh
# Makes a FreeBSD package without FreeBSD: package.sh VERSION ARCH BINARY FOLDER
# The format is that of pkg(8): a tar archive compressed by xz which begins with
# the manifests.
set -eu
version=$1 arch=$2 bin=$3 out=$4
abi=amd64
[ "$arch" = arm64 ] && abi=aarch64
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir -p "$dir/usr/local/bin" "$dir/usr/local/etc/rc.d" "$dir/usr/local/share/doc/shuultuur"
install -m 755 "$bin" "$dir/usr/local/bin/shuultuur"
install -m 755 dist/freebsd/shuultuur.in "$dir/usr/local/etc/rc.d/shuultuur"
install -m 644 LICENSE "$bin.spdx.json" "$dir/usr/local/share/doc/shuultuur/"
mv "$dir/usr/local/share/doc/shuultuur/$(basename "$bin").spdx.json" "$dir/usr/local/share/doc/shuultuur/shuultuur.spdx.json" 2>/dev/null || true
files=$(cd "$dir" && find usr -type f | LC_ALL=C sort)
size=0
list=
for f in $files; do
	size=$((size + $(stat -c %s "$dir/$f")))
	list="$list${list:+,}\"/$f\":\"1\$$(sha256sum "$dir/$f" | cut -d' ' -f1)\""
done
head="\"name\":\"shuultuur\",\"origin\":\"net/shuultuur\",\"version\":\"$version\",\"comment\":\"Filter between a network's people and the web\",\"maintainer\":\"shuultuur@users.noreply.example\",\"www\":\"https://shuultuur.example\",\"abi\":\"FreeBSD:*:$abi\",\"arch\":\"freebsd:*:$abi\",\"prefix\":\"/usr/local\",\"flatsize\":$size,\"desc\":\"Decides for each DNS query, connection, request and page whether it may pass, and says why.\",\"licenselogic\":\"single\",\"licenses\":[\"BSD2CLAUSE\"],\"categories\":[\"net\",\"www\",\"dns\"],\"users\":[\"shuultuur\"],\"groups\":[\"shuultuur\"]"
script='pw groupshow shuultuur >/dev/null 2>&1 || pw groupadd shuultuur\npw usershow shuultuur >/dev/null 2>&1 || pw useradd shuultuur -g shuultuur -d /var/db/shuultuur -s /usr/sbin/nologin -w no\ninstall -d -o shuultuur -g shuultuur -m 750 /usr/local/etc/shuultuur /var/db/shuultuur\n[ -e /usr/local/etc/shuultuur/shuultuur.yaml ] || /usr/local/bin/shuultuur init -data /var/db/shuultuur /usr/local/etc/shuultuur >/dev/null\nchown -R shuultuur:shuultuur /usr/local/etc/shuultuur\n'
printf '{%s}' "$head" > "$dir/+COMPACT_MANIFEST"
printf '{%s,"files":{%s},"scripts":{"post-install":"%s"}}' "$head" "$list" "$script" > "$dir/+MANIFEST"
# shellcheck disable=SC2086
tar --format=ustar --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" --absolute-names \
	--transform 's,^usr,/usr,' -C "$dir" -cf - +COMPACT_MANIFEST +MANIFEST $files | xz -9e -T1 > "$out/shuultuur-$version-freebsd-$arch.pkg"
