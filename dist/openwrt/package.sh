#!/bin/sh
# Makes OpenWrt packages, ipk for opkg and apk for releases from 25.12 on: package.sh VERSION ARCH BINARY FOLDER
# Both take only packages for the processor that their device names, although one program runs on all
# of a kind: there is a package for each name.
set -eu
version=$(sh dist/version.sh ipk "$1")
arch=$2 bin=$3 out=$4
case $arch in
amd64) cpus=x86_64 ;;
arm64) cpus="aarch64_generic aarch64_cortex-a53 aarch64_cortex-a72 aarch64_cortex-a76" ;;
*)
	echo "dist/openwrt/package.sh: no names of OpenWrt for the processor $arch" >&2
	exit 1
	;;
esac
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir -p "$dir/data/usr/bin" "$dir/data/etc/init.d" "$dir/data/etc/shuultuur" "$dir/control"
install -m 755 "$bin" "$dir/data/usr/bin/shuultuur"
install -m 755 dist/openwrt/shuultuur.init "$dir/data/etc/init.d/shuultuur"
# The settings are made at the first start, so they are no files of the package, and opkg
# leaves them alone. A new image of the system keeps what is named here.
mkdir -p "$dir/data/lib/upgrade/keep.d"
printf '/etc/shuultuur/\n/srv/shuultuur/\n' > "$dir/data/lib/upgrade/keep.d/shuultuur"
# As packages of OpenWrt do: the service is enabled and started after installation,
# started anew after an upgrade, and stopped before removal.
for script in postinst prerm; do
	cat > "$dir/control/$script" <<EOF
#!/bin/sh
[ "\${IPKG_NO_SCRIPT}" = "1" ] && exit 0
[ -s "\${IPKG_INSTROOT}/lib/functions.sh" ] || exit 0
. "\${IPKG_INSTROOT}/lib/functions.sh"
default_$script "\$0" "\$@"
EOF
	chmod 755 "$dir/control/$script"
done
printf '2.0\n' > "$dir/debian-binary"
pack() { tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -C "$1" -cf - "$2" | gzip -9n; }
pack "$dir/data" . > "$dir/data.tar.gz"
for cpu in $cpus; do
	cat > "$dir/control/control" <<EOF
Package: shuultuur
Version: $version
Architecture: $cpu
Depends: ca-bundle
Section: net
License: BSD-2-Clause
Installed-Size: $(stat -c %s "$bin")
Description: Filter between a network's people and the web
EOF
	pack "$dir/control" . > "$dir/control.tar.gz"
	(cd "$dir" && tar --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -cf - ./debian-binary ./data.tar.gz ./control.tar.gz) | gzip -9n > "$out/shuultuur_${version}_$cpu.ipk"
done

# apk has scripts and files of its own: it does not tell a script the package's name, and the service is found
# in a list of the package's files, which is one of them.
VERSION=$(sh dist/version.sh apk "$1")
export VERSION
mkdir -p "$dir/scripts" "$dir/data/lib/apk/packages"
for script in postinst prerm; do
	sed "s/^default_$script.*/pkgname=shuultuur\nexport pkgname\n&/" "$dir/control/$script" > "$dir/scripts/$script"
done
# At an upgrade apk starts nothing anew. What the new program would not serve with leaves the old one serving.
cp -p "$dir/scripts/postinst" "$dir/scripts/postupgrade"
cat >> "$dir/scripts/postupgrade" <<'EOF'
[ -n "${IPKG_INSTROOT}" ] && exit 0
/usr/bin/shuultuur check /etc/shuultuur/shuultuur.yaml >/dev/null && /etc/init.d/shuultuur restart
EOF
(cd "$dir/data" && find . -type f | sed 's/^\.//' | LC_ALL=C sort) > "$dir/list"
mv "$dir/list" "$dir/data/lib/apk/packages/shuultuur.list"
sed "s,STAGE,$dir," dist/openwrt/nfpm.yaml > "$dir/nfpm.yaml" # nfpm knows no variables in the names of scripts
find "$dir" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
for ARCH in $cpus; do
	export ARCH
	${NFPM:-go run github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.43.4} package -f "$dir/nfpm.yaml" -p apk -t "$out/shuultuur_${VERSION}_openwrt_$ARCH.apk" >&2
done
