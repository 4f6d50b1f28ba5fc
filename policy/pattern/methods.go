package pattern

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"shuultuur/lib/message"
	"shuultuur/lib/setting"
)

// Methods are those of a request: it is one of some, if there are any, and none of the others.
type Methods struct{ some, none []string }

// CompileMethods reads methods; those that begin with "!" must not be that of a request.
func CompileMethods(all []string) (m Methods, err error) {
	for i, x := range all {
		x, not := strings.CutPrefix(x, "!")
		if x == "" || strings.ToUpper(x) != x || strings.ContainsFunc(x, unicode.IsSpace) {
			return m, setting.At(fmt.Sprintf("method[%d]", i), fmt.Errorf(`%q is not a method; they are in capitals, like "POST"`, x))
		}
		if not {
			m.none = append(m.none, x)
		} else {
			m.some = append(m.some, x)
		}
	}
	return m, nil
}

// Any reports whether there are conditions on the method.
func (m Methods) Any() bool { return len(m.some)+len(m.none) > 0 }

func (m Methods) Has(method string) bool {
	return (m.some == nil || slices.Contains(m.some, method)) && !slices.Contains(m.none, method)
}

// Only reports whether no other method is possible.
func (m Methods) Only(method string) bool { return len(m.some) == 1 && m.some[0] == method }

// Unsafe reports whether each possible method changes something.
func (m Methods) Unsafe() bool { return m.some != nil && !slices.ContainsFunc(m.some, message.Safe) }
