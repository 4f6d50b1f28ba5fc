#!/bin/sh
# figures.sh VERSION, in the folder of a tree, refuses a release whose docs/benchmarks.md is older
# than 30 days, or of a commit since which a package that it measures was changed. Previews
# and what is past a tag may have old figures.
set -eu
printf '%s\n' "$1" | grep -Eqx '[0-9]+\.[0-9]+\.[0-9]+' || exit 0
line=$(grep -m 1 -E '^Commit [0-9a-f]{7,40}, [0-9]{4}-[0-9]{2}-[0-9]{2} ' docs/benchmarks.md 2>/dev/null) || {
	echo "figures.sh: docs/benchmarks.md has no commit and day; run make bench on a tree without changes" >&2
	exit 1
}
commit=$(printf '%s\n' "$line" | sed -E 's/^Commit ([0-9a-f]+), .*/\1/')
day=$(printf '%s\n' "$line" | sed -E 's/^Commit [0-9a-f]+, ([0-9-]+) .*/\1/')
if [ "$(date -u -d "$day" +%s)" -lt "$(date -u -d '-30 days' +%s)" ]; then
	echo "figures.sh: docs/benchmarks.md is of $day, older than 30 days; run make bench" >&2
	exit 1
fi
git rev-parse -q --verify "$commit^{commit}" >/dev/null || {
	echo "figures.sh: docs/benchmarks.md is of $commit, which this repository does not have; run make bench" >&2
	exit 1
}
changed=$(git diff --name-only "$commit" HEAD -- cache check content engine filter icap intercept lib list nameserver proxy resolver zone | grep '\.go$' | grep -v '_test\.go$' || :)
if [ -n "$changed" ]; then
	echo "figures.sh: docs/benchmarks.md is of $commit; since then these were changed: $(echo "$changed" | tr '\n' ' '); run make bench" >&2
	exit 1
fi
