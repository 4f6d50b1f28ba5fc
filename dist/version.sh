#!/bin/sh
# Prints the version of this tree: the newest tag, with the number of commits
# and the revision behind it where the tree is past it.
set -eu
git describe --tags --match 'v[0-9]*' 2>/dev/null | sed 's/^v//' | grep . ||
	echo "0.0.0-$(git rev-list --count HEAD).g$(git rev-parse --short=12 HEAD)"
