// Package check lists the checks. Each has a folder of its own and knows
// neither the servers nor another check; adding one is an import, a field in
// Config and a line in New.
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

// Config says which checks run; one without settings does not.
type Config struct {
	Category  *category.Config  `yaml:"category"`
	Phrase    *phrase.Config    `yaml:"phrase"`
	Signature *signature.Config `yaml:"signature"`
	Virus     *virus.Config     `yaml:"virus"`
	ICAP      *icap.Config      `yaml:"icap"`
	Picture   *picture.Config   `yaml:"picture"`
}

// Full makes every check say all it saw, for the explanation of one page.
func (c *Config) Full() {
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

// Parts are what checks are made of besides their settings.
type Parts struct {
	Lists map[string]*list.File // opened lists by name
	Dir   string                // folder of the settings; findings name files as seen from there
	Data  string                // folder of what is fetched
	Now   func() time.Time
	// Previous is the set that this one replaces, nil for the first. Checks go
	// on with what it remembers.
	Previous *Set
	Memory   virus.Memory // for verdicts of scanners and on pictures; nil remembers nothing
	Key      []byte       // of the gateway: locked lists of pictures are encrypted with it
	Trial    bool         // files are left as they are
	Gallery  *picture.Gallery
}

// A Set is the checks in the order they are asked, cheap ones first.
type Set struct {
	Checks []filter.Check
	Files  []string // every file they were read from, but for the lists
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
	Knows(sid uint32) bool
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

// New makes the checks that c asks for.
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

// Phrases is how many lines of phrase lists are looked for.
func (s *Set) Phrases() int {
	if s.phrases == nil {
		return 0
	}
	return s.phrases.Len()
}

// Explain says in lines for a person what is seen in a picture.
func (s *Set) Explain(ctx context.Context, b []byte) []string {
	if s.pictures == nil {
		return explainAlone(ctx, b) // there are neither lists nor a model
	}
	return s.pictures.Explain(ctx, b)
}

// Problems are what is worth a look, for the operator.
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

// Locked returns the SHA-256 of what locked lists of pictures hold, by their
// names. Their files are encrypted.
func (s *Set) Locked() map[string][32]byte {
	if s.pictures == nil {
		return nil
	}
	return s.pictures.Locked()
}

// Close lets go of connections to scanners, and saves what signature rules keep.
func (s *Set) Close() {
	for _, k := range s.Checks {
		if c, ok := k.(interface{ Close() }); ok {
			c.Close()
		}
	}
}

// AsksTLS says whether a check looks at the handshakes of TLS connections.
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
