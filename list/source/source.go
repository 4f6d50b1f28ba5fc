// Package source brings lists from the web and keeps them fresh.
//
// Data moves so: the [Config] of a list in the settings, or an entry of the
// [Catalogue] it names, is resolved to a [Source]; a [Store] fetches it into a
// folder of its own, compiles it for trial, holds it against the version in
// use, and only then moves the link "current" to it, which is the path that
// the list is compiled from. Older versions stay beside it, so that one can go
// back. Whatever goes wrong on the way, the version in use stays in use, and
// the [State] of the list says what it was.
package source

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"shuultuur/list"
	"shuultuur/setting"
)

// Bounds of what the settings may ask for.
const (
	soonest      = 10 * time.Minute // between two fetches: other people's servers
	defaultEvery = 24 * time.Hour
	defaultLimit = 256 << 20
	defaultLoss  = 0.2
)

// Config says where a list is fetched from. All of it stands among the other
// settings of a list.
type Config struct {
	Source string        `yaml:"source"` // a name of the catalogue; or else:
	URL    string        `yaml:"url"`    // http or https
	Every  time.Duration `yaml:"every"`  // between two looks; default 24h, 10m or more
	SHA256 string        `yaml:"sha256"` // the only content that is taken, in hex
	// Key is the public key of minisign or signify, as base64, whose signature
	// the content has to have; Signature is where that is, URL.minisig unless
	// given.
	Key       string `yaml:"key"`
	Signature string `yaml:"signature"`
	Minimum   int    `yaml:"minimum"` // fewest entries that are taken; default 1
	Shrink    string `yaml:"shrink"`  // loss of entries that is taken; default 20%
	Limit     int64  `yaml:"limit"`   // most bytes of a download; default 256 MiB
}

// A Source is a list on the web, as a Config and the catalogue say.
type Source struct {
	URL        string
	Sums       string // where its checksum is, "" for nowhere
	SHA256     string // in lower case, "" for any
	Signature  string // where its signature is
	Every      time.Duration
	Minimum    int
	Shrink     float64  // in [0, 1]
	Limit      int64    // bytes
	Categories []string // that are known before it is fetched

	key *publicKey // nil: it need not be signed
}

// Resolve says where a list comes from and how it is read: local is the rest
// of the list's settings, in which the catalogue fills in what is left out.
// ok is false for a list that is not fetched from anywhere.
func (c Config) Resolve(local list.Config) (src Source, cfg list.Config, ok bool, err error) {
	if c.Source == "" && c.URL == "" {
		return src, local, false, c.alone()
	}
	switch {
	case c.Source != "" && c.URL != "":
		return src, local, false, setting.At("url", errors.New("a list has a source or a url, not both"))
	case local.Path != "":
		return src, local, false, setting.At("path", errors.New("a list that is fetched has no path: leave out path, or source and url"))
	}
	src = Source{URL: c.URL, Every: c.Every, Minimum: max(1, c.Minimum), Limit: c.Limit}
	if c.Source != "" {
		known, err := find(c.Source)
		if err != nil {
			return src, local, false, setting.At("source", err)
		}
		src.URL, src.Sums, src.Categories = known.URL, known.Sums, known.Categories
		if local.Format == "" {
			local.Format = known.Format
		}
	}
	if local.Category != "" {
		src.Categories = nil
	}
	if err := src.complete(c); err != nil {
		return src, local, false, err
	}
	return src, local, true, nil
}

// alone looks for settings that only a list from the web has.
func (c Config) alone() error {
	var errs []error
	for _, x := range []struct {
		key   string
		given bool
	}{{"every", c.Every != 0}, {"sha256", c.SHA256 != ""}, {"key", c.Key != ""}, {"signature", c.Signature != ""}, {"minimum", c.Minimum != 0}, {"shrink", c.Shrink != ""}, {"limit", c.Limit != 0}} {
		if x.given {
			errs = append(errs, setting.At(x.key, errors.New("is for lists that are fetched, which have a source or a url")))
		}
	}
	if len(errs) > 0 {
		return errs[0]
	}
	return nil
}

// signature checks what c says about signatures.
func (s *Source) signature(c Config) (err error) {
	if c.Key == "" {
		if c.Signature != "" {
			return setting.At("signature", errors.New("means nothing without the key it is checked with"))
		}
		return nil
	}
	if s.key, err = parseKey(c.Key); err != nil {
		return setting.At("key", err)
	}
	if s.Signature = c.Signature; s.Signature == "" {
		s.Signature = s.URL + ".minisig"
	}
	if err := checkURL(s.Signature); err != nil {
		return setting.At("signature", err)
	}
	return nil
}

// complete checks what c says and fills in what it leaves out.
func (s *Source) complete(c Config) error {
	if err := checkURL(s.URL); err != nil {
		return setting.At("url", err)
	}
	switch {
	case s.Every == 0:
		s.Every = defaultEvery
	case s.Every < soonest:
		return setting.At("every", fmt.Errorf("%v asks too much of other people's servers; %v is the least", s.Every, soonest))
	}
	switch {
	case s.Limit == 0:
		s.Limit = defaultLimit
	case s.Limit < 0:
		return setting.At("limit", fmt.Errorf("%d is not a number of bytes", s.Limit))
	}
	if c.Minimum < 0 {
		return setting.At("minimum", fmt.Errorf("%d is not a number of entries", c.Minimum))
	}
	if c.SHA256 != "" {
		if sum, err := hex.DecodeString(c.SHA256); err != nil || len(sum) != 32 {
			return setting.At("sha256", fmt.Errorf("%q is not 64 hexadecimal digits", c.SHA256))
		}
		s.SHA256 = strings.ToLower(c.SHA256)
	}
	if err := s.signature(c); err != nil {
		return err
	}
	s.Shrink = defaultLoss
	if c.Shrink != "" {
		n, err := strconv.ParseFloat(strings.TrimSuffix(c.Shrink, "%"), 64)
		if err != nil || !strings.HasSuffix(c.Shrink, "%") || !(n >= 0 && n <= 100) {
			return setting.At("shrink", fmt.Errorf("%q is not a share such as 20%%", c.Shrink))
		}
		s.Shrink = n / 100
	}
	return nil
}

func checkURL(s string) error {
	u, err := url.Parse(s)
	if err != nil {
		return fmt.Errorf("%q is not a URL", s)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return fmt.Errorf("%q is not a URL that begins with http:// or https://", u.Redacted())
	}
	return nil
}

// Place is the URL without a password, for what is written down.
func (s Source) Place() string {
	u, err := url.Parse(s.URL)
	if err != nil {
		return s.URL
	}
	return u.Redacted()
}

// find returns the entry of the catalogue called name.
func find(name string) (Known, error) {
	all := Catalogue()
	i := slices.IndexFunc(all, func(k Known) bool { return k.Name == name })
	if i < 0 {
		return Known{}, fmt.Errorf("the catalogue has no %q; \"shuultuur list catalogue\" shows what it has", name)
	}
	return all[i], nil
}
