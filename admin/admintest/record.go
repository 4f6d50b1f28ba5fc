package admintest

import (
	"context"
	"iter"
	"slices"
	"sync"

	"shuultuur/event"
)

// A Fake record has the same rows for every question, and one name in every
// count.
type Fake struct {
	Rows   []event.Row
	Name   string
	Filter event.Filter // of the last query
	Page   event.Page
}

func (r *Fake) Query(_ context.Context, f event.Filter, p event.Page) iter.Seq2[event.Row, error] {
	r.Filter, r.Page = f, p
	return func(yield func(event.Row, error) bool) {
		for _, row := range r.Rows {
			if !yield(row, nil) {
				return
			}
		}
	}
}

func (r *Fake) Count(_ context.Context, questions ...event.Question) ([][]event.Tally, error) {
	return slices.Repeat([][]event.Tally{{{Name: r.Name, Events: 5, Blocked: 3}}}, len(questions)), nil
}

// A Growing record is one to which rows are added.
type Growing struct {
	Fake
	mu   sync.Mutex
	rows []event.Row
}

func (g *Growing) Add(r event.Row) {
	g.mu.Lock()
	defer g.mu.Unlock()
	r.Seq = int64(len(g.rows) + 1)
	g.rows = append(g.rows, r)
}

func (g *Growing) Query(_ context.Context, f event.Filter, p event.Page) iter.Seq2[event.Row, error] {
	g.mu.Lock()
	rows := slices.Clone(g.rows)
	g.mu.Unlock()
	if p.Newest {
		slices.Reverse(rows)
	}
	return func(yield func(event.Row, error) bool) {
		n := 0
		for _, row := range rows {
			if !p.Newest && row.Seq <= p.After || p.Newest && p.After > 0 && row.Seq >= p.After || !f.Match(&row) {
				continue
			}
			if n++; p.Limit > 0 && n > p.Limit || !yield(row, nil) {
				return
			}
		}
	}
}
