#!/bin/sh
# Writes the settings of the image into a folder: settings.sh PROGRAM FOLDER
# They are the starter settings, but the proxy and the name server listen on
# every address of the container, which its ports lead to.
set -eu
"$1" init -data /var/lib/shuultuur "$2" >/dev/null
sed -i -e 's/^listen: {proxy: 127\.0\.0\.1:/listen: {proxy: ":/' -e 's/^\(listen: {proxy: ":[0-9]*\),/\1",/' \
	-e 's/^  listen: \["127\.0\.0\.1:/  listen: [":/' "$2/shuultuur.yaml"
grep -q '^listen: {proxy: ":8080", admin: 127.0.0.1:8081}' "$2/shuultuur.yaml"
grep -q '^  listen: \[":8053"\]' "$2/shuultuur.yaml"
