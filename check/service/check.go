package service

import (
	"context"
	"slices"

	"shuultuur/filter"
)

// Check reports the services of a host. Its categories are the names of the catalogue.
type Check struct{}

// Name implements [filter.Check].
func (Check) Name() string { return filter.Service }

// Cost implements [filter.Check].
func (Check) Cost() filter.Cost { return filter.Cheap }

// Categories implements [filter.Check].
func (Check) Categories() (all []filter.Category) {
	for _, s := range All() {
		all = append(all, filter.Category{Name: s.ID})
	}
	return all
}

// Wants returns true for names.
func (Check) Wants(_ *filter.Transaction, s filter.Stage) bool { return s == filter.Name }

// Find implements [filter.Check].
func (Check) Find(_ context.Context, t *filter.Transaction, s filter.Stage, dst []filter.Finding) ([]filter.Finding, error) {
	if s != filter.Name {
		return dst, nil
	}
	from := len(dst)
	indexed().each(t.Host, func(s *Service, entry string) {
		if !slices.ContainsFunc(dst[from:], func(f filter.Finding) bool { return f.Category == s.ID }) {
			dst = append(dst, filter.Finding{Check: filter.Service, Category: s.ID, Evidence: s.Name + ": " + entry})
		}
	})
	return dst, nil
}
