package web

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"shuultuur/admin/account"
	"shuultuur/event"
)

// Privacy has the settings for looking into a person's browsing.
type Privacy struct {
	// URLs is the least role that sees whole URLs; below it there are hosts.
	URLs account.Role
	// TwoPeople requires a second person's agreement before anyone looks at a
	// person's browsing. Until then, rows do not show whose they are.
	TwoPeople bool
}

// ErrTwoPeople reports that a look needs a second person.
var ErrTwoPeople = errors.New("two people are needed to look into one person's browsing: ask at /looks, and have somebody else agree")

// ErrTwoErase reports that erasing a person's data requires a second person.
var ErrTwoErase = errors.New("two people are needed to erase one person's data: ask for it at /looks, and have somebody else agree")

// NeedsTwo reports whether an action on one person's data needs two people.
func (s *Site) NeedsTwo() bool { return s.Privacy != nil && s.Privacy().TwoPeople }

// A reader is the record as far as the user of a request, who is in its
// context, may see it. The gateway's own queries are not limited. Every Query
// and Count goes through the reader, so no page can forget the limits:
type reader struct {
	event.Reader
	site *Site
}

// Limited returns a record as far as the user of a request may see it.
func (s *Site) Limited(r event.Reader) event.Reader { return &reader{r, s} }

// bounds are the limits of one user.
type bounds struct {
	who    *account.Who
	groups func(netip.Addr, string) []string // nil: everybody's rows are visible
	NoURLs bool
	hidden func(r *event.Row) bool // nil: nobody is hidden
}

func (b *bounds) free() bool { return b.groups == nil && !b.NoURLs && b.hidden == nil }

// CoverAll reports whether all rows are visible with their persons. Then the store's
// counts can be used.
func (b *bounds) CoverAll() bool { return b.groups == nil && b.hidden == nil }

// Bounds returns the limits of a user.
func (s *Site) Bounds(who *account.Who) *bounds {
	b := &bounds{who: who}
	var p Privacy
	if s.Privacy != nil {
		p = s.Privacy()
	}
	if who.Role == account.Helper {
		if b.groups = s.Groups; b.groups == nil {
			b.groups = func(netip.Addr, string) []string { return nil }
		}
	}
	b.NoURLs = who.Role < p.URLs
	if p.TwoPeople {
		agreed := s.agreed(who.Name)
		b.hidden = func(r *event.Row) bool {
			return !slices.ContainsFunc(agreed, func(of string) bool { return concerns(of, r) })
		}
	}
	return b
}

// concerns reports whether a row belongs to a user or an address.
func concerns(whom string, r *event.Row) bool {
	return whom != "" && (whom == r.User || r.Client.IsValid() && whom == r.Client.String())
}

// Redact reports whether a row is visible, and removes the parts that are not.
func (b *bounds) Redact(r *event.Row) bool {
	if b.groups != nil && !Shares(b.groups(r.Client, r.User), b.who.Groups) {
		return false
	}
	if b.NoURLs {
		if u, err := url.Parse(r.URL); err == nil && u.Host != "" {
			r.URL = u.Scheme + "://" + u.Host + "/"
		} else {
			r.URL = ""
		}
		r.Evidence, r.Findings = "", ""
	}
	if b.hidden != nil && b.hidden(r) {
		if r.User != "" && strings.Contains(r.Note, r.User) || r.Client.IsValid() && strings.Contains(r.Note, r.Client.String()) {
			r.Note = ""
		}
		r.Client, r.User = netip.Addr{}, ""
	}
	return true
}

// Shares reports whether two lists have a name in common.
func Shares(a, b []string) bool {
	return slices.ContainsFunc(a, func(g string) bool { return slices.Contains(b, g) })
}

// agreed returns the people whose browsing a user may look into.
func (s *Site) agreed(by string) []string {
	if s.Agreed == nil {
		return nil
	}
	return s.Agreed(by)
}

// split separates the terms of a filter that must be checked against visible
// rows.
func (b *bounds) split(f event.Filter) (store event.Filter, seen event.Filter) {
	store = event.Filter{Since: f.Since, Until: f.Until}
	for _, t := range f.Terms {
		if b.NoURLs && t.Field == event.Text || b.hidden != nil && (t.Field == event.Client || t.Field == event.User || t.Field == event.Text) {
			seen.Terms = append(seen.Terms, t)
		} else {
			store.Terms = append(store.Terms, t)
		}
	}
	return store, seen
}

// NamesIn returns the people, devices and transactions that a filter names.
func NamesIn(f *event.Filter) (all []string) {
	for _, t := range f.Terms {
		switch t.Field {
		case event.User, event.ID:
			for _, v := range t.Values {
				if v != "" {
					all = append(all, t.Field.String()+":"+v)
				}
			}
		case event.Client:
			for _, n := range t.Networks() {
				if n.IsSingleIP() {
					all = append(all, "client:"+n.Addr().String())
				} else {
					all = append(all, "client:"+n.String())
				}
			}
		}
	}
	return all
}

// MayNot returns an error if a second person has not agreed to a look.
func (s *Site) MayNot(b *bounds, names []string) error {
	if b.hidden == nil {
		return nil
	}
	agreed := s.agreed(b.who.Name)
	for _, n := range names {
		if kind, whom, _ := strings.Cut(n, ":"); kind != "id" && !slices.Contains(agreed, whom) {
			return fmt.Errorf("%s: %w", n, ErrTwoPeople)
		}
	}
	return nil
}

// RecordLook records a look, if a filter is one, and reports whether it may be.
func (s *Site) RecordLook(b *bounds, f *event.Filter) error { return s.recordNames(b, NamesIn(f)) }

func (s *Site) recordNames(b *bounds, names []string) error {
	if err := s.MayNot(b, names); err != nil || len(names) == 0 || s.Audit == nil {
		return err
	}
	err := s.Audit.Add(account.Entry{By: b.who.Name, Role: b.who.Role, Via: b.who.Via, Action: "look", Details: strings.Join(names, " ")})
	if err != nil {
		return fmt.Errorf("nobody's browsing is shown while that cannot be recorded: %w", err)
	}
	return nil
}

// Query implements [event.Reader].
func (d *reader) Query(ctx context.Context, f event.Filter, p event.Page) iter.Seq2[event.Row, error] {
	who := account.Of(ctx)
	if who == nil {
		return d.Reader.Query(ctx, f, p)
	}
	b := d.site.Bounds(who)
	if err := d.site.RecordLook(b, &f); err != nil {
		return func(yield func(event.Row, error) bool) { yield(event.Row{}, err) }
	}
	if b.free() {
		return d.Reader.Query(ctx, f, p)
	}
	return d.query(ctx, b, f, p)
}

func (d *reader) query(ctx context.Context, b *bounds, f event.Filter, p event.Page) iter.Seq2[event.Row, error] {
	store, seen := b.split(f)
	limit := p.Limit
	p.Limit = 0 // the limit counts visible rows, which the store does not know
	return func(yield func(event.Row, error) bool) {
		n := 0
		for row, err := range d.Reader.Query(ctx, store, p) {
			if err != nil {
				yield(row, err)
				return
			}
			if !b.Redact(&row) || !seen.Match(&row) {
				continue
			}
			if n++; !yield(row, nil) || n == limit {
				return
			}
		}
	}
}

// Count implements [event.Reader].
func (d *reader) Count(ctx context.Context, questions ...event.Question) ([][]event.Tally, error) {
	who := account.Of(ctx)
	if who == nil {
		return d.Reader.Count(ctx, questions...)
	}
	b := d.site.Bounds(who)
	whole := b.CoverAll() // the store's sums cover exactly the visible rows
	var names []string
	known := map[string]bool{}
	for i := range questions {
		for _, n := range NamesIn(&questions[i].Filter) {
			if !known[n] { // many questions about a person are one look
				known[n], names = true, append(names, n)
			}
		}
		if _, seen := b.split(questions[i].Filter); len(seen.Terms) > 0 {
			whole = false
		}
	}
	if err := d.site.recordNames(b, names); err != nil {
		return nil, err
	}
	if whole {
		return d.Reader.Count(ctx, questions...)
	}
	c, err := event.NewCounter(questions)
	if err != nil {
		return nil, err
	}
	span := questions[0].Filter
	for _, q := range questions {
		if q.Filter.Since.Before(span.Since) {
			span.Since = q.Filter.Since
		}
		if q.Filter.Until.IsZero() || !span.Until.IsZero() && q.Filter.Until.After(span.Until) {
			span.Until = q.Filter.Until
		}
	}
	for row, err := range d.query(ctx, b, event.Filter{Since: span.Since, Until: span.Until}, event.Page{}) {
		if err != nil {
			return nil, err
		}
		c.Add(&row)
	}
	return c.Tallies(), nil
}
