#!/bin/sh
# Packs the chart as "helm package" does: package.sh VERSION FOLDER
# The version is that of the chart and of the image it starts.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cp -R dist/helm/shuultuur "$dir/shuultuur"
sed -i -e "s/^version: .*/version: $1/" -e "s/^appVersion: .*/appVersion: \"$1\"/" "$dir/shuultuur/Chart.yaml"
chmod -R u=rwX,go=rX "$dir/shuultuur"
# Chart.yaml comes first, as some tools read no further.
tar --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -C "$dir" -cf - \
	shuultuur/Chart.yaml shuultuur/values.yaml shuultuur/templates/all.yaml | gzip -9n > "$2/shuultuur-chart-$1.tgz"
