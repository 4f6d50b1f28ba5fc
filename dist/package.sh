#!/bin/sh
# Makes one package of a program that is built:
#   dist/package.sh FORMAT ARCH VERSION BINARY PROGRAM OUT
# FORMAT is deb, rpm or apk. BINARY is what is packaged; PROGRAM is the same for
# this machine, which prints the manual pages and completions. $NFPM is the
# command that packs.
set -eu
cd "$(dirname "$0")/.."
format=$1
VERSION=$(sh dist/version.sh "$1" "$3")
export ARCH="$2" VERSION BIN="$4"
program=$5
out=$6
: "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct)}"
export SOURCE_DATE_EPOCH
STAGE=$(mktemp -d)
export STAGE
trap 'rm -rf "$STAGE"' EXIT

"$program" man "$STAGE/man"
gzip -9n "$STAGE"/man/*.1
mkdir "$STAGE/completion"
for shell in bash zsh fish; do
	"$program" completion $shell > "$STAGE/completion/$shell"
done
gzip -9nc CHANGELOG.md > "$STAGE/changelog.gz"
{
	echo "shuultuur ($VERSION-1) unstable; urgency=medium"
	echo
	echo "  * The changes are in /usr/share/doc/shuultuur/changelog.gz."
	echo
	echo " -- The Shuultuur authors <shuultuur@users.noreply.example>  $(LC_ALL=C date -u -R -d "@$SOURCE_DATE_EPOCH")"
} | gzip -9n > "$STAGE/changelog.Debian.gz"
{
	echo "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/"
	echo "Upstream-Name: Shuultuur"
	echo "Source: https://shuultuur.example"
	echo
	echo "Files: *"
	sed -n 's/^Copyright (c) /Copyright: /p' LICENSE
	echo "License: BSD-2-Clause"
	sed -e '1,/^Copyright/d' -e '/./,$!d' LICENSE | sed -e 's/^$/./' -e 's/^/ /'
} > "$STAGE/copyright"
# An apk keeps the times of the scripts, too.
find "$STAGE" dist/scripts -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +

${NFPM:-go run github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.43.4} package -f dist/package/nfpm.yaml -p "$format" -t "$out/"
