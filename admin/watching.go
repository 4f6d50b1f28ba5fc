package admin

import (
	"shuultuur/admin/alert"
	"shuultuur/check/picture"
)

// Watching has the parts that notify people.
type Watching struct {
	// Alerts returns the desk; nil while no theme is watched.
	Alerts func() *alert.Desk
	// Pictures are the findings in pictures; nil: there is no page about them.
	Pictures *picture.Gallery
}
