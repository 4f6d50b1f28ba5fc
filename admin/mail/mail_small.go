//go:build small

package mail

import "shuultuur/release"

// A Sender is what the small build does not have: there is never one.
type Sender struct{}

// New refuses.
func New(Config) (*Sender, error) { return nil, release.Lacks("mail") }
