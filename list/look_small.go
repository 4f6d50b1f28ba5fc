//go:build small

package list

import "errors"

// compileLook refuses an expression with look-around or backreferences.
func compileLook(string) (matcher, error) {
	return nil, errors.New("it has look-around or back-references, which the small build does not support")
}
