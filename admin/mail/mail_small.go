//go:build small

package mail

import "shuultuur/release"

// A Sender is never made in the small build.
type Sender struct{}

// New refuses.
func New(Config) (*Sender, error) { return nil, release.Lacks("mail") }
