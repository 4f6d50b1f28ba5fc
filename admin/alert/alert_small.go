//go:build small

package alert

import (
	"context"

	"shuultuur/admin/mail"
	"shuultuur/event"
	"shuultuur/filter"
	"shuultuur/policy"
	"shuultuur/release"
	"shuultuur/text"
)

// A Watch is never made in the small build.
type Watch struct{}

// A Desk is never made in the small build.
type Desk struct{}

// New refuses.
func New(Config, *mail.Sender, text.Choice) (*Watch, error) { return nil, release.Lacks("alerts") }

// Start refuses.
func Start(*Watch, Parts) (*WatchSet, error) { return nil, release.Lacks("alerts") }

// The methods mirror those of the full build.

func (w *Watch) Rules() []policy.Rule { return nil }

func (a *WatchSet) Done(*filter.Transaction) {}

func (d *Desk) Erase(context.Context, event.Person, bool) (int64, error) { return 0, nil }
