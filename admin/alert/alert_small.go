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

// A Watch is what the small build does not have: there is never one.
type Watch struct{}

// A Desk is what the small build does not have: there is never one.
type Desk struct{}

// New refuses.
func New(Config, *mail.Sender, text.Choice) (*Watch, error) { return nil, release.Lacks("alerts") }

// Start refuses.
func Start(*Watch, Parts) (*Watching, error) { return nil, release.Lacks("alerts") }

// The methods are those of the full build.

func (w *Watch) Rules() []policy.Rule { return nil }

func (a *Watching) Done(*filter.Transaction) {}

func (d *Desk) Erase(context.Context, event.Person) (int64, error) { return 0, nil }
