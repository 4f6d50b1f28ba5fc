#!/bin/sh
# Runs every fuzz target of the project for the time given, one after another.
# Inputs are made smaller in at most 20 steps: the default, a minute for each,
# takes the whole time of targets whose coverage differs from run to run.
set -eu
time=${1:-20s}
grep -rlE '^func Fuzz' --include='*_test.go' . | while read -r file; do
	dir=$(dirname "$file")
	grep -oE '^func Fuzz[A-Za-z0-9_]*' "$file" | sed 's/^func //' | while read -r target; do
		echo "$dir $target"
		go test "$dir" -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 20x
	done
done
