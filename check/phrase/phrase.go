// Package phrase is the check that searches pages for the words and phrases of DansGuardian
// and e2guardian lists, and adds up their weights.
//
// [New] reads the list files (list.go), converts each phrase to the form in which pages are
// searched, and compiles them to a book (score.go), which never changes; a reload makes a new
// [Check]. [Check.Find] takes the visible text of a page from the body. In a compatibility
// mode it instead makes the views of the raw page that the older programs search (compat.go).
// The matcher (lib/multimatch) counts the phrases in the text. The book judges the counts:
// exceptions before banned phrases before weights. The result is findings, with the matching
// lines of the lists as evidence.
package phrase

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"shuultuur/check/build"
	"shuultuur/content"
	"shuultuur/content/prose"
	"shuultuur/filter"
	"shuultuur/lib/language"
	"shuultuur/lib/message"
	"shuultuur/lib/multimatch"
	"shuultuur/lib/setting"
)

// ownCategories are the categories that every phrase check reports.
var ownCategories = [...]string{"phrase", "bannedphrase", "exceptionphrase"}

// Defaults of the settings. They are those of the programs that the modes are named after;
// modern uses those of e2guardian 5.3.
const (
	defaultWeightedPhraseMode = 2
	defaultPhraseFilterMode   = 2
	defaultLimit              = 50
	defaultLimit55            = 60
)

// Config are the settings of the check.
type Config struct {
	// Weighted, Banned and Exception are phrase list files. They differ only in the kind of a
	// phrase without a weight: banned, banned and exception.
	Weighted  []setting.File `yaml:"weighted"`
	Banned    []setting.File `yaml:"banned"`
	Exception []setting.File `yaml:"exception"`

	// Compat is "modern" (or ""), "dansguardian", "e2guardian-5.3" or "e2guardian-5.5". modern
	// searches the visible text, decoded and folded; the others search bytes as those programs
	// do.
	Compat string `yaml:"compat"`

	// WeightedPhraseMode is 0 to search for nothing, 1 to count every occurrence of a phrase,
	// 2 (default) to count a phrase once per page.
	WeightedPhraseMode *int `yaml:"weightedphrasemode"`

	// NaughtynessLimit is the number that a weight such as <10%> refers to, and the score
	// above which a compatibility mode omits its second pass. Rules decide on pages above
	// it. 0 means 50, or 60 for e2guardian-5.5.
	NaughtynessLimit int `yaml:"naughtynesslimit"`

	// PhraseFilterMode, for compatibility modes only, is 0 for the page with its markup, 1 for
	// the text between tags, 2 (default) for both in turn, 3 for titles and meta elements.
	// PreserveCase is 0 (default) for lower case, 1 for the original case, 2 for both in turn.
	// HexDecodeContent first decodes %XX.
	PhraseFilterMode *int  `yaml:"phrasefiltermode"`
	PreserveCase     *int  `yaml:"preservecase"`
	HexDecodeContent *bool `yaml:"hexdecodecontent"`

	// Full makes the evidence name every phrase found, instead of only those with the greatest
	// weights. It is for explaining one page, not for serving.
	Full bool `yaml:"-"`
}

// A Check searches for phrases. It is safe for concurrent use.
type Check struct {
	*book
	remarks []Remark
	now     func() time.Time

	off     bool // weightedphrasemode 0
	once    bool // weightedphrasemode 2
	full    bool
	limit   int
	dialect *dialect // nil for modern
	passes  []pass
	unhex   bool

	detector *language.Detector // nil without phrases by stem or by language

	scans    sync.Pool // of *scan
	disguise *disguise
}

// Build implements [build.Setting].
func (c *Config) Build(p build.Parts) (filter.Check, error) { return New(*c, p.Dir, p.Now) }

// ReportAll makes the check report everything it found, to explain one page.
func (c *Config) ReportAll() { c.Full = true }

// New reads the lists of cfg and returns the check. Findings name files relative to dir, the
// folder of the settings. now returns the time, in the zone of the lists, for lines that apply
// only at certain times.
func New(cfg Config, dir string, now func() time.Time) (*Check, error) {
	c := &Check{now: now, full: cfg.Full}
	if err := c.configure(cfg); err != nil {
		return nil, err
	}
	ls, err := c.read(cfg, dir)
	if err != nil {
		return nil, err
	}
	c.remarks = ls.remarks
	if c.book, err = compile(ls); err != nil {
		return nil, err
	}
	if c.stems != nil || c.inSome != nil {
		if c.detector, err = language.NewDetector(); err != nil {
			return nil, err
		}
	}
	c.scans.New = func() any { return c.newScan() }
	c.disguise = newDisguise(c)
	return c, nil
}

// choice returns the value of a setting that is a number from 0 to most, or otherwise if it is
// omitted.
func choice(key string, v *int, most, otherwise int) (int, error) {
	if v == nil {
		return otherwise, nil
	}
	if *v < 0 || *v > most {
		return 0, setting.At(key, fmt.Errorf("%d is not from 0 to %d", *v, most))
	}
	return *v, nil
}

func (c *Check) configure(cfg Config) error {
	mode, err := choice("weightedphrasemode", cfg.WeightedPhraseMode, 2, defaultWeightedPhraseMode)
	if err != nil {
		return err
	}
	c.off, c.once = mode == 0, mode == 2
	if cfg.NaughtynessLimit < 0 || cfg.NaughtynessLimit > maxWeight {
		return setting.At("naughtynesslimit", fmt.Errorf("%d is not from 1 to %d", cfg.NaughtynessLimit, maxWeight))
	}
	c.limit = cfg.NaughtynessLimit
	if c.limit == 0 {
		c.limit = defaultLimit
		if cfg.Compat == "e2guardian-5.5" {
			c.limit = defaultLimit55
		}
	}
	switch cfg.Compat {
	case "", "modern":
		set := map[string]bool{
			"phrasefiltermode": cfg.PhraseFilterMode != nil,
			"preservecase":     cfg.PreserveCase != nil,
			"hexdecodecontent": cfg.HexDecodeContent != nil,
		}
		for _, key := range []string{"phrasefiltermode", "preservecase", "hexdecodecontent"} {
			if set[key] {
				return setting.At(key, errors.New("has no meaning in compat: modern; omit it, or set compat to the program it comes from"))
			}
		}
		return nil
	case "dansguardian", "e2guardian-5.3", "e2guardian-5.5":
		c.dialect = newDialect(cfg.Compat)
	default:
		return setting.At("compat", fmt.Errorf("%q is not one of modern, dansguardian, e2guardian-5.3, e2guardian-5.5", cfg.Compat))
	}
	filterMode, err := choice("phrasefiltermode", cfg.PhraseFilterMode, 3, defaultPhraseFilterMode)
	if err != nil {
		return err
	}
	preserveCase, err := choice("preservecase", cfg.PreserveCase, 2, 0)
	if err != nil {
		return err
	}
	c.passes = passes(filterMode, preserveCase)
	c.unhex = cfg.HexDecodeContent != nil && *cfg.HexDecodeContent
	return nil
}

// reader returns a reader for lists that normalises phrases for this check.
func (c *Check) reader(dir string) *reader {
	r := &reader{
		lists: lists{categories: []string{""}, windows: []window{{}}},
		open:  readFile, inside: inside,
		shown: func(path string) string {
			if rel, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(rel) {
				return rel
			}
			return path
		},
		limit: c.limit,
	}
	if c.dialect == nil {
		r.transcode, r.words, r.stems = true, true, true
		r.normalise = func(p []byte) []byte { return prose.Normalise(nil, p) }
		r.fold = func(line []byte) []byte { return line } // Normalise folds
		r.maxPhrase = multimatch.MaxLen / 2
		return r
	}
	r.normalise, r.fold = c.dialect.phrase, foldBytes
	if !slices.ContainsFunc(c.passes, func(p pass) bool { return p.fold }) {
		r.fold = foldASCII // e2guardian always folds this much of lists
	}
	r.maxPhrase = 126 // longer ones never match in e2guardian
	r.alive, r.markup = c.dialect.alive, true
	return r
}

// read reads the lists of cfg.
func (c *Check) read(cfg Config, dir string) (*lists, error) {
	r := c.reader(dir)
	if err := r.readAll(cfg); err != nil {
		return nil, err
	}
	return &r.lists, nil
}

// readAll reads the lists of cfg.
func (r *reader) readAll(cfg Config) error {
	for _, from := range []struct {
		key   string
		paths []setting.File
		kind  kind
	}{
		{"weighted", cfg.Weighted, weighted},
		{"banned", cfg.Banned, banned},
		{"exception", cfg.Exception, exception},
	} {
		for i, path := range from.paths {
			if err := r.read(string(path), section{kind: from.kind}, nil); err != nil {
				return setting.At(fmt.Sprintf("%s[%d]", from.key, i), err)
			}
		}
	}
	return nil
}

// Name returns "phrase".
func (c *Check) Name() string { return "phrase" }

// Cost implements [filter.Check].
func (*Check) Cost() filter.Cost { return filter.Heavy }

// Categories returns the check's own categories and those of the lists.
func (c *Check) Categories() []filter.Category {
	cats := []filter.Category{
		{Name: "phrase", Scored: true},
		{Name: "bannedphrase"},
		{Name: "exceptionphrase"},
	}
	for _, name := range c.categories[1:] {
		cats = append(cats, filter.Category{Name: name, Scored: true})
	}
	return cats
}

// Remarks returns the lines of the lists that probably do not do what their author meant, in
// the order they were read.
func (c *Check) Remarks() []Remark { return slices.Clone(c.remarks) }

// Wants reports whether the response, or with compat: modern the request, has a body that
// contains text, or is a conversation.
func (c *Check) Wants(t *filter.Transaction, s filter.Stage) bool {
	if c.off || c.empty() {
		return false
	}
	switch s {
	case filter.RequestBody:
		return c.dialect == nil && (t.Request == nil || t.Request.Upgrade != nil || t.Request.Length != message.None && t.Sent().Readable())
	case filter.ResponseBody:
	default:
		return false
	}
	if t.Request != nil && t.Request.Method == "HEAD" {
		return false
	}
	if t.Response == nil {
		return true
	}
	switch st := t.Response.Status; {
	case st == 101:
		return c.dialect == nil
	case st < 200, st == 204, st == 205, st == 304:
		return false
	}
	if c.dialect == nil {
		return t.Content().Readable() || t.Content().IsStream()
	}
	return c.readable(t.Content().Type())
}

// empty reports whether there is nothing to look for.
func (c *Check) empty() bool { return c.set.Len() == 0 && c.stems == nil }

// readable reports whether a compatibility mode searches bodies of a media type: all text, as
// those programs do. An event stream never ends, so it cannot be held.
func (c *Check) readable(media string) bool {
	return media == "" || strings.HasPrefix(media, "text/") && media != "text/event-stream"
}

// Find scores the body of a request or response. It reports "phrase" with the total, each
// phrase category with its own score, "bannedphrase", and "exceptionphrase". A page with an
// exception phrase has no score, so that this finding stands alone. A part that it could not
// inspect is reported ([filter.UnreadBecause]).
func (c *Check) Find(ctx context.Context, t *filter.Transaction, s filter.Stage, dst []filter.Finding) ([]filter.Finding, error) {
	body := t.Body
	if s == filter.RequestBody {
		body = t.Upload
	}
	if s != filter.RequestBody && s != filter.ResponseBody || c.off || c.empty() || body == nil {
		return dst, nil
	}
	if c.dialect == nil {
		sc := body.Follow(c).(*scan)
		failed := c.follow(ctx, body, sc, t.Verdict.Disguised)
		if c.passesOver(t, body) {
			return unread(body, dst), failed
		}
		sc.judge(sc.hits, sc.now(), sc.languages(), &sc.best)
		return unread(body, sc.report(dst)), failed
	}
	if t.Body.Head().Type() == "" && !c.readable(t.Body.Type()) {
		return dst, nil
	}
	sc := body.Follow(c).(*scan)
	page, _ := t.Body.Decoded()
	err := sc.page(ctx, page, body.Complete())
	return unread(t.Body, sc.report(dst)), err
}

// follow reads the body so far. After an error, what was found before counts.
func (c *Check) follow(ctx context.Context, body *content.Body, sc *scan, disguised bool) (err error) {
	defer filter.Catch(&err)
	var u *unmasker
	if disguised {
		u = body.Follow(c.disguise).(*unmasker)
	}
	_ = body.Read(ctx) // a body that breaks off is reported as unread
	sc.endStems()
	if u != nil {
		u.take(body.Complete(), sc.foundDisguised)
	}
	return ctx.Err()
}

// unread appends a finding if a part of the body was not inspected.
func unread(b *content.Body, dst []filter.Finding) []filter.Finding {
	n, of, why := b.Inspected()
	if why == content.AllRead {
		return dst
	}
	return append(dst, filter.Finding{Check: "phrase", Category: filter.UnreadBecause(why, b.Archive()), Evidence: fmt.Sprintf("%s: inspected %d of %d bytes", why, n, of)})
}
