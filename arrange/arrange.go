// Package arrange sorts where speed does not matter. slices.SortFunc is compiled
// separately for each type, 14 KB each time; sorting a few rows for a page or a
// report shares the code here.
package arrange

import "sort"

// By sorts s so that cmp is not positive from one to the next, and keeps the order
// of those that are equal.
func By[T any](s []T, cmp func(a, b T) int) {
	sort.SliceStable(s, func(i, j int) bool { return cmp(s[i], s[j]) < 0 })
}
