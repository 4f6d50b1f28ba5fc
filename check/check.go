// Package check lists the checks. Each has its own folder and depends neither on the servers
// nor on other checks. To add one, add an import, a field in Config and a line in New.
package check

import (
	"context"
	"fmt"
	"time"

	"shuultuur/check/category"
	"shuultuur/check/certificate"
	"shuultuur/check/icap"
	"shuultuur/check/phrase"
	"shuultuur/check/picture"
	"shuultuur/check/signature"
	"shuultuur/check/virus"
	"shuultuur/filter"
	"shuultuur/list"
	"shuultuur/list/source"
	"shuultuur/metric"
	"shuultuur/setting"
)

// Config has the settings of every check; one without settings does not run.
type Config struct {
	Category  *category.Config  `yaml:"category"`
	Phrase    *phrase.Config    `yaml:"phrase"`
	Signature *signature.Config `yaml:"signature"`
	Virus     *virus.Config     `yaml:"virus"`
	ICAP      *icap.Config      `yaml:"icap"`
	Picture   *picture.Config   `yaml:"picture"`
}

// ReportAll makes every check report everything it found, to explain one page.
func (c *Config) ReportAll() {
	if c.Phrase != nil {
		c.Phrase.Full = true
	}
	if c.Signature != nil {
		c.Signature.Full = true
	}
	if c.Picture != nil {
		c.Picture.Full = true
	}
}

// Parts are the parts that checks are built from, besides their settings.
type Parts struct {
	Lists map[string]*list.File // opened lists by name
	Dir   string                // folder of the settings file; findings name files relative to it
	Data  string                // folder of fetched files
	Now   func() time.Time
	// Previous is the set that this one replaces, nil for the first. Checks take over its
	// state.
	Previous *Set
	Memory   virus.Memory // for verdicts of scanners and on pictures; nil: nothing is remembered
	Key      []byte       // the gateway's key, which encrypts locked lists of pictures
	Trial    bool         // leave files unchanged
	Gallery  *picture.Gallery
}

// A Set is all checks in the order in which they run, cheap ones first.
type Set struct {
	Checks []filter.Check
	Files  []string // all files they were read from, except lists
	// Remarks are lines of phrase lists that probably do not do what their
	// author meant.
	Remarks []phrase.Remark
	// Signature is the check of signature rules, nil without them.
	Signature Signatures
	phrases   *phrase.Check
	pictures  pictures
}

// Signatures is the check of signature rules, which the small build lacks.
type Signatures interface {
	filter.Check
	metric.Collector
	Files() []string
	Fetched() source.Items
	Mistakes() []*Mistake
	Problems() []string
	Profiles() ([]Profile, []BufferProfile)
	HasRule(sid uint32) bool
	AsksTLS() bool
	Close()
}

// pictures is the check of pictures, which the small build lacks.
type pictures interface {
	filter.Check
	metric.Collector
	Files() []string
	Explain(ctx context.Context, b []byte) []string
	Problems() []string
	Locked() map[string][32]byte
}

// New makes the checks for the settings c.
func New(c Config, p Parts) (*Set, error) {
	s := &Set{Checks: []filter.Check{certificate.Check{}}}
	if c.Category != nil {
		cfg := *c.Category
		cfg.Now = p.Now
		k, err := category.New(cfg, p.Lists)
		if err != nil {
			return nil, setting.At("category", err)
		}
		s.Checks = append(s.Checks, k)
	}
	if c.Phrase != nil {
		k, err := phrase.New(*c.Phrase, p.Dir, p.Now)
		if err != nil {
			return nil, setting.At("phrase", err)
		}
		s.Checks = append(s.Checks, k)
		s.Files = append(s.Files, k.Files()...)
		s.Remarks = k.Remarks()
		s.phrases = k
	}
	if c.Signature != nil {
		k, err := newSignature(*c.Signature, p)
		if err != nil {
			return nil, setting.At("signature", err)
		}
		s.Signature = k
		s.Checks = append(s.Checks, k)
		s.Files = append(s.Files, k.Files()...)
	}
	if c.Virus != nil {
		k, err := newVirus(*c.Virus, p)
		if err != nil {
			return nil, setting.At("virus", err)
		}
		s.Checks = append(s.Checks, k)
	}
	if c.ICAP != nil {
		k, err := newICAP(*c.ICAP)
		if err != nil {
			return nil, setting.At("icap", err)
		}
		s.Checks = append(s.Checks, k)
	}
	if c.Picture != nil {
		k, err := newPicture(*c.Picture, p)
		if err != nil {
			return nil, setting.At("picture", err)
		}
		s.pictures = k
		s.Checks = append(s.Checks, k)
		s.Files = append(s.Files, k.Files()...)
	}
	return s, nil
}

// Phrases returns the number of lines in phrase lists.
func (s *Set) Phrases() int {
	if s.phrases == nil {
		return 0
	}
	return s.phrases.Len()
}

// Explain describes the findings in a picture, in lines for people.
func (s *Set) Explain(ctx context.Context, b []byte) []string {
	if s.pictures == nil {
		return explainAlone(ctx, b) // without lists and model
	}
	return s.pictures.Explain(ctx, b)
}

// Problems returns the problems that the operator should look at.
func (s *Set) Problems() (all []string) {
	if n := len(s.Remarks); n > 0 {
		all = append(all, fmt.Sprintf("phrase lists: %d odd lines; \"shuultuur check\" names them", n))
	}
	if s.Signature != nil {
		all = append(all, s.Signature.Problems()...)
	}
	if s.pictures != nil {
		all = append(all, s.pictures.Problems()...)
	}
	return all
}

// Locked returns the SHA-256 of the content of locked picture lists, by list name. Their files
// are encrypted.
func (s *Set) Locked() map[string][32]byte {
	if s.pictures == nil {
		return nil
	}
	return s.pictures.Locked()
}

// Close closes connections to scanners, and saves the state of signature rules.
func (s *Set) Close() {
	for _, k := range s.Checks {
		if c, ok := k.(interface{ Close() }); ok {
			c.Close()
		}
	}
}

// AsksTLS reports whether a check examines TLS handshakes.
func (s *Set) AsksTLS() bool { return s != nil && s.Signature != nil && s.Signature.AsksTLS() }

// Collect implements [metric.Collector].
func (s *Set) Collect(ch chan<- metric.Metric) {
	if s == nil {
		return
	}
	for _, k := range s.Checks {
		if c, ok := k.(metric.Collector); ok {
			c.Collect(ch)
		}
	}
}
