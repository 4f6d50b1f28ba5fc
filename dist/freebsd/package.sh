#!/bin/sh
# Makes a FreeBSD package without FreeBSD: package.sh VERSION ARCH BINARY PROGRAM FOLDER
# PROGRAM is the same for this machine, which prints manual pages and completions.
# The format is that of pkg(8): a tar archive compressed by xz which begins with
# the manifests.
set -eu
version=$(sh dist/version.sh pkg "$1")
arch=$2 bin=$3 program=$4 out=$5
abi=amd64
[ "$arch" = arm64 ] && abi=aarch64
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
share=$dir/usr/local/share
mkdir -p "$dir/usr/local/bin" "$dir/usr/local/etc/rc.d" "$share/doc/shuultuur" "$share/man/man1" \
	"$share/bash-completion/completions" "$share/zsh/site-functions" "$share/fish/vendor_completions.d"
install -m 755 "$bin" "$dir/usr/local/bin/shuultuur"
install -m 755 dist/freebsd/port/files/shuultuur.in "$dir/usr/local/etc/rc.d/shuultuur"
install -m 644 LICENSE CHANGELOG.md "$share/doc/shuultuur/"
install -m 644 "$bin.spdx.json" "$share/doc/shuultuur/shuultuur.spdx.json"
"$program" man "$share/man/man1"
gzip -9n "$share"/man/man1/*.1
"$program" completion bash > "$share/bash-completion/completions/shuultuur"
"$program" completion zsh > "$share/zsh/site-functions/_shuultuur"
"$program" completion fish > "$share/fish/vendor_completions.d/shuultuur.fish"
files=$(cd "$dir" && find usr -type f | LC_ALL=C sort)
size=0
list=
for f in $files; do
	size=$((size + $(stat -c %s "$dir/$f")))
	list="$list${list:+,}\"/$f\":\"1\$$(sha256sum "$dir/$f" | cut -d' ' -f1)\""
done

# After installation: the user, first settings. A gateway that runs is replaced
# without dropping anything; the service is started by whoever enables it.
after='pw groupshow shuultuur >/dev/null 2>&1 || pw groupadd shuultuur
pw usershow shuultuur >/dev/null 2>&1 || pw useradd shuultuur -g shuultuur -d /var/db/shuultuur -s /usr/sbin/nologin -w no
install -d -o shuultuur -g shuultuur -m 750 /usr/local/etc/shuultuur /var/db/shuultuur
if [ ! -e /usr/local/etc/shuultuur/shuultuur.yaml ]; then
	/usr/local/bin/shuultuur init -data /var/db/shuultuur /usr/local/etc/shuultuur >/dev/null
	chown -R shuultuur:shuultuur /usr/local/etc/shuultuur
fi
/usr/local/bin/shuultuur upgrade -config /usr/local/etc/shuultuur/shuultuur.yaml >/dev/null 2>&1 || true'
# Before removal, not before an upgrade. Settings and data stay.
# shellcheck disable=SC2016 # it is for the other machine
before='[ -n "${PKG_UPGRADE:-}" ] || service shuultuur onestop >/dev/null 2>&1 || true'

quoted() { # as a string of JSON
	printf '"%s"' "$(printf %s "$1" | sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/	/\\t/g' -e 's/$/\\n/' | tr -d '\n')"
}
head="\"name\":\"shuultuur\",\"origin\":\"net/shuultuur\",\"version\":\"$version\",\"comment\":\"Filter between a network's people and the web\",\"maintainer\":\"shuultuur@users.noreply.example\",\"www\":\"https://shuultuur.example\",\"abi\":\"FreeBSD:*:$abi\",\"arch\":\"freebsd:*:$abi\",\"prefix\":\"/usr/local\",\"flatsize\":$size,\"desc\":\"Decides for each DNS query, connection, request and page whether it may pass, and says why.\",\"licenselogic\":\"single\",\"licenses\":[\"BSD2CLAUSE\"],\"categories\":[\"net\",\"www\",\"dns\"],\"users\":[\"shuultuur\"],\"groups\":[\"shuultuur\"]"
printf '{%s}' "$head" > "$dir/+COMPACT_MANIFEST"
printf '{%s,"files":{%s},"scripts":{"post-install":%s,"pre-deinstall":%s}}' "$head" "$list" "$(quoted "$after")" "$(quoted "$before")" > "$dir/+MANIFEST"
# shellcheck disable=SC2086
tar --format=ustar --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" --absolute-names \
	--transform 's,^usr,/usr,' -C "$dir" -cf - +COMPACT_MANIFEST +MANIFEST $files | xz -9e -T1 > "$out/shuultuur-$1-freebsd-$arch.pkg"
