#!/bin/sh
# Makes OpenWrt packages: package.sh VERSION ARCH BINARY FOLDER
# opkg takes only packages for the processor that its device names, although one program runs on all
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
