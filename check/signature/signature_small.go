//go:build small

package signature

import (
	"shuultuur/list/source"
	"shuultuur/release"
)

// A Check is what the small build does not have: there is never one.
type Check struct{}

// Fetch refuses.
func Fetch(map[string]source.Config) (source.Items, error) {
	return nil, release.Lacks("signature rules")
}
