package filter

import (
	"fmt"
	"runtime/debug"
)

// A Crash is a panic as an error.
type Crash struct {
	Value any
	Stack []byte
}

func (c *Crash) Error() string { return fmt.Sprintf("panic: %v", c.Value) }

// Catch turns a panic into a [Crash]. Defer it; a check that does so in a part of its work can
// return what it has found before, together with the error.
func Catch(err *error) {
	if p := recover(); p != nil {
		*err = &Crash{p, debug.Stack()}
	}
}
