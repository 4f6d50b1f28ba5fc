package policy

import (
	"slices"

	"shuultuur/lib/setting"
)

// nearest returns the name with the smallest edit distance.
func nearest(name string, names []string) string {
	slices.Sort(names)
	best, least := "", 1<<30
	for _, n := range names {
		if d := setting.Distance(name, n); d < least {
			best, least = n, d
		}
	}
	return best
}
