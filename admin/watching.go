package admin

import (
	"shuultuur/admin/alert"
	"shuultuur/check/picture"
)

// Watching are the parts by which people are told what happens.
type Watching struct {
	// Alerts returns the desk, nil while nothing is watched.
	Alerts func() *alert.Desk
	// Pictures is what was found in pictures; nil: there is no page of it.
	Pictures *picture.Gallery
}
