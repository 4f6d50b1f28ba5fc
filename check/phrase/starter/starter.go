// Package starter has the phrase lists that a new user begins with: themes in ten languages and more,
// each phrase with the reason for its weight.
package starter

import "embed"

// Files has the lists, NAME.list.
//
//go:embed *.list
var Files embed.FS
