//go:build small

package signature

import (
	"shuultuur/list/source"
	"shuultuur/release"
)

// A Check is missing in the small build: there is never one.
type Check struct{}

// Fetch returns an error.
func Fetch(map[string]source.Config) (source.Items, error) {
	return nil, release.Lacks("signature rules")
}
