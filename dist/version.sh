#!/bin/sh
# version.sh prints the version of this tree: the newest tag, with the number of
# commits and the revision behind it where the tree is past it.
#
# version.sh FORMAT VERSION prints such a version as the packages of FORMAT (deb, rpm,
# ipk, apk, pkg) have to write it, so that previews come before their release and what
# is past a tag comes after it. Each format has an order of its own, and apk and pkg
# know no words but these.
set -eu
if [ $# -eq 0 ]; then
	git describe --tags --match 'v[0-9]*' 2>/dev/null | sed 's/^v//' | grep . ||
		echo "0.0.0-$(git rev-list --count HEAD)-g$(git rev-parse --short=12 HEAD)"
	exit
fi
format=$1 version=$2
if ! printf '%s\n' "$version" | grep -Eqx '[0-9]+\.[0-9]+\.[0-9]+(-(alpha|beta|rc)\.?[0-9]+)?(-[0-9]+-g[0-9a-f]+)?'; then
	echo "version.sh: packages cannot have the version $version; tag a commit as v1.2.3, or v1.2.3-rc.1 for a preview (alpha, beta or rc)" >&2
	exit 2
fi
case $format in
deb | rpm | ipk) rules='s/-([0-9]+)-(g[0-9a-f]+)$/+\1.\2/; s/-/~/' ;;
apk) rules='s/-([0-9]+)-g[0-9a-f]+$/_git\1/; s/-([a-z]+)\.?/_\1/' ;;
pkg) rules='s/-([0-9]+)-g[0-9a-f]+$/.\1/; s/-([a-z])[a-z]*\.?/.\1/' ;;
*)
	echo "version.sh: $format is none of deb, rpm, ipk, apk and pkg" >&2
	exit 2
	;;
esac
printf '%s\n' "$version" | sed -E "$rules"
