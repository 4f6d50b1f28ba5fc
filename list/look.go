package list

import (
	"errors"
	"time"

	"shuultuur/lib/release"

	"github.com/dlclark/regexp2/v2"
)

// Limits of a look-around expression, per URL.
const (
	lookTime  = 50 * time.Millisecond
	lookStack = 1 << 20 // of its backtracking, in steps
)

// compileLook compiles an expression with look-around or backreferences.
func compileLook(pattern string) (matcher, error) {
	if release.Small {
		return nil, errors.New("it has look-around or back-references, which the small build does not support")
	}
	re, err := regexp2.Compile(pattern, regexp2.OptionMaxBacktrackingStackSize(lookStack))
	if err != nil {
		return nil, err
	}
	re.MatchTimeout = lookTime
	return re, nil
}

// A matcher is a compiled expression of either engine.
type matcher interface {
	MatchString(s string) (bool, error)
}
