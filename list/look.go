//go:build !small

package list

import (
	"time"

	"github.com/dlclark/regexp2/v2"
)

// Limits of a look-around expression, per URL.
const (
	lookTime  = 50 * time.Millisecond
	lookStack = 1 << 20 // of its backtracking, in steps
)

// compileLook compiles an expression with look-around or backreferences.
func compileLook(pattern string) (matcher, error) {
	re, err := regexp2.Compile(pattern, regexp2.OptionMaxBacktrackingStackSize(lookStack))
	if err != nil {
		return nil, err
	}
	re.MatchTimeout = lookTime
	return re, nil
}
