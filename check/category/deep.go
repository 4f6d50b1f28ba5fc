package category

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"shuultuur/check/category/wrapped"
	"shuultuur/filter"
	"shuultuur/lib/message"
	"shuultuur/list"
	"shuultuur/list/adblock"
)

// redirects reports whether a response sends the client to another address.
func redirects(s *message.Response) bool {
	return s != nil && s.Status >= 300 && s.Status < 400 && s.Status != 304 && len(s.Get("Location")) > 0
}

// namesAddress reports whether a field names the address that a proxy is to fetch: those of bare servers
// do, and all others whose value is an absolute address, but for those that say where a request is from.
func namesAddress(f *message.Field) bool {
	switch len(f.Name) {
	case len("X-Bare-URL"), len("X-Bare-Host"):
		if message.EqualName(f.Name, "x-bare-url") || message.EqualName(f.Name, "x-bare-host") {
			return true
		}
	}
	if len(f.Value) < len("ws://a.b") || f.Value[0] != 'h' && f.Value[0] != 'w' {
		return false
	}
	for _, scheme := range [...]string{"https://", "http://", "wss://", "ws://"} {
		if bytes.HasPrefix(f.Value, []byte(scheme)) {
			return !message.EqualName(f.Name, "referer") && !message.EqualName(f.Name, "origin") && !message.EqualName(f.Name, "x-forwarded-host")
		}
	}
	return false
}

// searchRequest searches the addresses inside that of a request, and in those of its fields that
// name one to a service.
func (w *scratch) searchRequest(t *filter.Transaction) {
	w.wrapped.Target(t.Host, target(t))
	if t.Request == nil {
		return
	}
	for i := range t.Request.Fields {
		if f := &t.Request.Fields[i]; namesAddress(f) {
			w.wrapped.Also(f.Value)
		}
	}
	if v := t.Request.Get("Referer"); len(v) > 0 && wrapped.IsTranslator(string(page(t.Request))) {
		w.wrapped.Also(v)
	}
}

// lookUpWrapped looks up the addresses that w has found inside another.
func (c *Check) lookUpWrapped(w *scratch, t *filter.Transaction, dst []filter.Finding) (_ []filter.Finding, failed error) {
	defer w.wrapped.Forget()
	for i := range w.wrapped.Found {
		a := &w.wrapped.Found[i]
		w.query.SetURL(a.Host, a.Path)
		if c.rules || c.hosts {
			w.request.Set("https://"+a.Host+string(a.Path), typeInside(t, a.Path), "")
		}
		err := c.matchesOf(w)
		for j := range w.found {
			m := &w.found[j]
			if !m.Exception && !known(t.Findings, m.Category) && !known(dst, m.Category) && m.List.Applies(*m, c.now()) && list.ExceptionFor(w.found, m) == nil {
				dst = append(dst, found(m, a, t.Terse))
			}
		}
		if err != nil {
			failed = cmp.Or(failed, fmt.Errorf("looking up %q, which is inside %q: %w", a.Host, t.Host, err))
		}
		clear(w.found)
		w.query.Forget()
	}
	return dst, failed
}

// typeInside returns the type of an address inside another: the client uses both alike.
func typeInside(t *filter.Transaction, path []byte) adblock.Type {
	if t.Request != nil {
		if typ := typeOf(t); typ != adblock.Other {
			return typ
		}
	}
	return extension(path)
}

// matchesOf looks up the query in all lists.
func (c *Check) matchesOf(w *scratch) (failed error) {
	w.found = w.found[:0]
	for i := range c.lists {
		failed = cmp.Or(w.ask(c.lists[i].File, c.rules, true), failed)
	}
	if len(w.found) > 0 && c.rules {
		failed = cmp.Or(c.except(w), failed)
	}
	if c.bad != nil {
		w.found = slices.DeleteFunc(w.found, c.bad.Has)
	}
	return failed
}

// known reports whether a category is among the findings already, of the address that is asked or
// of one inside.
func known(findings []filter.Finding, category string) bool {
	return slices.ContainsFunc(findings, func(f filter.Finding) bool { return f.Check == "category" && f.Category == category })
}

// found returns the finding of a match of an address inside another. It has no modifier: what an
// address contains may be refused, and has no other effect.
func found(m *list.Match, a *wrapped.Address, terse bool) filter.Finding {
	f := filter.Finding{Check: "category", Category: m.Category, Wrapped: true}
	if terse {
		return f
	}
	var b strings.Builder
	b.WriteString(m.List.Evidence(*m))
	fmt.Fprintf(&b, ", for %.200q inside the address", a.Host+string(a.Path))
	if a.Way != "" {
		b.WriteString(", " + a.Way)
	}
	f.Evidence = b.String()
	return f
}
