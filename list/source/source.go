// Package source fetches lists from the web and refreshes them.
//
// The [Config] of a list in the settings, or the entry of the [Catalogue] that it names,
// resolves to a [Source]. A [Store] fetches it into a folder, compiles it for trial and
// compares it with the version in use. Only then does it change the link "current", which is
// the path that the list is compiled from. Older versions are kept for rollback. If anything
// fails, the version in use stays, and the [State] of the list has the reason.
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

	"shuultuur/lib/setting"
	"shuultuur/list"
)

// Limits of the settings.
const (
	soonest      = 10 * time.Minute // between two fetches, to spare other people's servers
	defaultEvery = 24 * time.Hour
	defaultLimit = 256 << 20
	defaultLoss  = 0.2
	mostMirrors  = 10
)

// Config sets where to fetch a list. Its keys are among the other settings of a list.
type Config struct {
	Source string `yaml:"source"` // a name in the catalogue; or else:
	// URL is where the list is, http or https. Further addresses are mirrors: they are asked in turn
	// while those before them do not have what can be used.
	URL setting.OneOrMore[string] `yaml:"url" secret:"url"`
	// Headers are header fields of each request, such as Authorization. A redirect to another server
	// does not get them.
	Headers map[string]string `yaml:"headers" secret:"yes" role:"owner"`
	Every   time.Duration     `yaml:"every"`  // between two fetches; default 24h, at least 10m
	SHA256  string            `yaml:"sha256"` // the only accepted content, in hex
	// Key is the base64 public key of minisign or signify that must have signed the content.
	// Signature is the URL of the signature; default that of the list with .minisig.
	Key       string `yaml:"key"`
	Signature string `yaml:"signature" secret:"url"`
	Minimum   int    `yaml:"minimum"` // fewest entries to accept; default 1
	Shrink    string `yaml:"shrink"`  // largest accepted loss of entries; default 20%
	Limit     int64  `yaml:"limit"`   // largest download in bytes; default 256 MiB
}

// A Source is a list on the web, after Config and catalogue are combined.
type Source struct {
	URL        string
	Mirrors    []string          // further addresses of the same list
	Headers    map[string]string // fields of each request
	Sums       string            // URL of its checksum, "" for none
	SHA256     string            // in lower case, "" for any
	Signature  string            // URL of its signature
	Every      time.Duration
	Minimum    int
	Shrink     float64  // in [0, 1]
	Limit      int64    // bytes
	Categories []string // those known before it is fetched

	stays   bool       // a redirect must not lead to another server
	besides bool       // the signature is beside the list
	mirror  string     // the one of Mirrors that is asked, "" for URL
	key     *publicKey // nil: no signature needed
}

// Resolve returns where a list comes from and how to read it. local is the rest of the list's
// settings; the catalogue supplies defaults. ok is false for a list that is not fetched.
func (c Config) Resolve(local list.Config) (src Source, cfg list.Config, ok bool, err error) {
	if c.Source == "" && len(c.URL) == 0 {
		return src, local, false, c.refuseFetchedOnly(local)
	}
	switch {
	case c.Source != "" && len(c.URL) > 0:
		return src, local, false, setting.At("url", errors.New("a list has only one of source and url"))
	case local.Path != "":
		return src, local, false, setting.At("path", errors.New("a list that is fetched has no path: leave out path, or source and url"))
	}
	src = Source{Headers: c.Headers, Every: c.Every, Minimum: max(1, c.Minimum), Limit: c.Limit}
	if len(c.URL) > 0 {
		src.URL, src.Mirrors = c.URL[0], c.URL[1:]
	}
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
	local.Fetched = true
	switch {
	case local.Category != "":
		src.Categories = nil
	case len(local.Categories) > 0:
		src.Categories = local.Categories
	}
	if err := src.complete(c); err != nil {
		return src, local, false, err
	}
	return src, local, true, nil
}

// refuseFetchedOnly refuses settings that only fetched lists have.
func (c Config) refuseFetchedOnly(local list.Config) error {
	var errs []error
	for _, x := range []struct {
		key   string
		given bool
	}{{"every", c.Every != 0}, {"sha256", c.SHA256 != ""}, {"key", c.Key != ""}, {"signature", c.Signature != ""}, {"minimum", c.Minimum != 0}, {"shrink", c.Shrink != ""}, {"limit", c.Limit != 0}, {"headers", len(c.Headers) > 0}, {"trusted", local.Trusted}} {
		if x.given {
			errs = append(errs, setting.At(x.key, errors.New("is for lists that are fetched, which have a source or a url")))
		}
	}
	if len(errs) > 0 {
		return errs[0]
	}
	return nil
}

// signature checks the settings of signatures.
func (s *Source) signature(c Config) (err error) {
	if c.Key == "" {
		if c.Signature != "" {
			return setting.At("signature", errors.New("needs the key to check it with"))
		}
		return nil
	}
	if s.key, err = parseKey(c.Key); err != nil {
		return setting.At("key", err)
	}
	if s.Signature = c.Signature; s.Signature == "" {
		s.Signature, s.besides = besides(s.URL, ".minisig"), true
	}
	if err := checkURL(s.Signature); err != nil {
		return setting.At("signature", err)
	}
	return nil
}

// complete checks c and fills in defaults.
func (s *Source) complete(c Config) error {
	for i, at := range append([]string{s.URL}, s.Mirrors...) {
		if err := checkURL(at); err != nil {
			return setting.At("url", err)
		}
		if i > mostMirrors || i > 0 && (at == s.URL || slices.Contains(s.Mirrors[:i-1], at)) {
			return setting.At("url", fmt.Errorf("%q is there twice, or there are more than %d mirrors; remove it", setting.WithoutCredentials(at), mostMirrors))
		}
	}
	if err := checkHeaders(s.Headers); err != nil {
		return setting.At("headers", err)
	}
	switch {
	case s.Every == 0:
		s.Every = defaultEvery
	case s.Every < soonest:
		return setting.At("every", fmt.Errorf("%v is too often for other people's servers; write %v or more", s.Every, soonest))
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

// besides returns the URL of a file that is called like that of u with an ending.
func besides(u, ending string) string {
	path, query, found := strings.Cut(u, "?")
	if found {
		query = "?" + query
	}
	return path + ending + query
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

// Place returns the URL without what may be a secret, for logs and pages.
func (s Source) Place() string { return setting.WithoutCredentials(s.URL) }

// find returns the entry of the catalogue called name.
func find(name string) (CatalogueEntry, error) {
	all := Catalogue()
	i := slices.IndexFunc(all, func(k CatalogueEntry) bool { return k.Name == name })
	if i < 0 {
		return CatalogueEntry{}, fmt.Errorf("the catalogue has no %q; \"shuultuur list catalogue\" shows what it has", name)
	}
	return all[i], nil
}
