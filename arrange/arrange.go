// Package arrange sorts where speed does not matter. The compiler makes 14 KB of
// slices.SortFunc for each type; sorting a few rows for a page or a report shares the code
// here.
package arrange

import "sort"

// By sorts s in ascending order of cmp. The sort is stable.
func By[T any](s []T, cmp func(a, b T) int) {
	sort.SliceStable(s, func(i, j int) bool { return cmp(s[i], s[j]) < 0 })
}
