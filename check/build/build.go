// Package build says what a check is built from. The settings of each check are a [Setting];
// package check gives it the [Parts] and runs what it returns.
package build

import (
	"context"
	"time"

	"shuultuur/filter"
	"shuultuur/list"
)

// A Setting is the settings of a check. Those of a check that this build lacks have no Build.
type Setting interface {
	Build(Parts) (filter.Check, error)
}

// Parts are the parts that checks are built from, besides their settings.
type Parts struct {
	Lists   map[string]*list.File  // opened lists by name
	Missing func(list string) bool // reports whether a list has not been fetched yet; nil for none
	Dir     string                 // folder of the settings file; findings name files relative to it
	Data    string                 // folder of fetched files
	Now     func() time.Time
	// Previous is the check that this one replaces, nil for none. Its state is taken over.
	Previous filter.Check
	Memory   Memory // for verdicts of scanners and on pictures; nil: nothing is remembered
	Key      []byte // the gateway's key, which encrypts locked lists of pictures
	Trial    bool   // leave files unchanged
	Gallery  any    // shows what was found in pictures: a gallery of that check, or nil
}

// A Memory remembers verdicts by hash, for one node or a fleet.
type Memory interface {
	Get(ctx context.Context, key [16]byte) (value []byte, ok bool)
	Put(ctx context.Context, key [16]byte, value []byte, ttl time.Duration)
}
