// Package check lists the checks. Each has a folder of its own and knows
// neither the servers nor another check; adding one is an import, a field in
// Config and a line in New.
package check

import (
	"time"

	"shuultuur/check/category"
	"shuultuur/check/certificate"
	"shuultuur/check/phrase"
	"shuultuur/filter"
	"shuultuur/list"
)

// Config says which checks run; one without settings does not.
type Config struct {
	Category *category.Config `yaml:"category"`
	Phrase   *phrase.Config   `yaml:"phrase"`
}

// Full makes every check say all it saw, for the explanation of one page.
func (c *Config) Full() {
	if c.Phrase != nil {
		c.Phrase.Full = true
	}
}

// Parts are what checks are made of besides their settings.
type Parts struct {
	Lists map[string]*list.File // opened lists by name
	Dir   string                // what relative paths stand on
	Now   func() time.Time
}

// A Set is the checks in the order they are asked, cheap ones first.
type Set struct {
	Checks []filter.Check
	Files  []string // every file they were read from, but for the lists
	// Remarks are lines of phrase lists that probably do not do what their
	// author meant.
	Remarks []phrase.Remark
}

// New makes the checks that c asks for.
func New(c Config, p Parts) (*Set, error) {
	s := &Set{Checks: []filter.Check{certificate.Check{}}}
	if c.Category != nil {
		cfg := *c.Category
		cfg.Now = p.Now
		k, err := category.New(cfg, p.Lists)
		if err != nil {
			return nil, filter.Setting("category", err)
		}
		s.Checks = append(s.Checks, k)
	}
	if c.Phrase != nil {
		k, err := phrase.New(*c.Phrase, p.Dir, p.Now)
		if err != nil {
			return nil, filter.Setting("phrase", err)
		}
		s.Checks = append(s.Checks, k)
		s.Files = append(s.Files, k.Files()...)
		s.Remarks = k.Remarks()
	}
	return s, nil
}
