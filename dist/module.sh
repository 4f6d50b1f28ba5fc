#!/bin/sh
# Gives the module another path, in go.mod and in every import: dist/module.sh PATH
# Published at a path that leads to its repository, the program is installed with
#   go install PATH/cmd/shuultuur@latest
# Everything else takes the path from go.mod. The profile for builds names functions
# by their path: make it anew with "make pgo".
set -eu
cd "$(dirname "$0")/.."
new=${1:?the new path of the module, such as example.org/shuultuur}
case ${new%%/*} in
*.*) ;;
*)
	echo "module.sh: go install wants a path that begins with a host, such as example.org/shuultuur, not $new" >&2
	exit 2
	;;
esac
old=$(sed -n 's/^module //p' go.mod)
dots=$(printf %s "$old" | sed 's/[.]/[.]/g')
find . -name '*.go' -exec grep -lE "^(import )?[[:space:]]*([[:alnum:]_.]+ )?\"$dots(/[^\"]*)?\"\$" {} + |
	while read -r file; do
		sed -i -E "s,^((import )?[[:space:]]*([[:alnum:]_.]+ )?\")$dots((/[^\"]*)?\")\$,\1$new\4," "$file"
		gofmt -w "$file" # imports are sorted
	done
sed -i "s,^module .*,module $new," go.mod
sed -i -E "s,^(module|require|replace) $dots(/bench\$| ),\1 $new\2," bench/go.mod
