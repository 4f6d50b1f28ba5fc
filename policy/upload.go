package policy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"

	"shuultuur/content"
	"shuultuur/content/prose"
	"shuultuur/filter"
	"shuultuur/lib/message"
	"shuultuur/lib/setting"
	"shuultuur/policy/leak"
	"shuultuur/policy/search"
)

// Conditions on uploads: forms, uploads, messages of conversations. The body of a request
// is read once for all rules of a policy (uploads). A rule that matches leaves a finding,
// which tells later stages.

// uploadConditions are the conditions of a rule on the body of the request.
type uploadConditions struct {
	words    []int // indexes in uploads
	patterns []int
	types    []string // in lower case; "image/" for image/*
	files    []string // in lower case, in the form of path.Match
	larger   int64    // bytes
	hashes   []string // in lower case
}

// sentCategory is the category of the finding that a rule on a request's body leaves; the
// check is "policy".
const sentCategory = "upload"

// uploads are the texts and files that the rules of a policy look for in bodies of
// requests. It is the [content.Reader] that reads them.
type uploads struct {
	words    [][]byte // normalised, with a blank at either end
	patterns *leak.Patterns
	names    []string // of patterns
	hashes   bool
	files    bool
	search   bool // look for search terms in forms
}

// Follow implements [content.Reader].
func (u *uploads) Follow(b *content.Body) content.Follower {
	s := &uploadScan{u: u, found: make([]bool, len(u.words))}
	if u.patterns != nil {
		s.patterns = u.patterns.Follow(b).(*leak.Scan)
	}
	return s
}

// An uploadScan holds the matches in one body so far.
type uploadScan struct {
	u        *uploads
	found    []bool // words
	patterns *leak.Scan
	parts    []*sentFile
	file     *sentFile // current; nil between files
	asSent   *sentFile // the current file as it came, where it has a transfer coding
	multi    bool
	form     []byte // a form sent to a search engine
}

// A sentFile is a file in a body, or the body itself.
type sentFile struct {
	typ, sniffed, name string
	head               []byte        // its first bytes
	digests            *leak.Digests // nil where no rule has hashes
	ended              bool
}

// Read implements [content.Follower].
func (s *uploadScan) Read(text []byte, fresh int) {
	for i, w := range s.u.words {
		if !s.found[i] {
			from := max(0, fresh-len(w))
			s.found[i] = bytes.Contains(text[from:], w)
		}
	}
	if s.patterns != nil {
		s.patterns.Read(text, fresh)
	}
}

// Close implements [content.Follower].
func (s *uploadScan) Close() {}

// Part implements document.PartWatcher.
func (s *uploadScan) Part(typ, file string) {
	s.multi = true
	s.endPart()
	if file != "" {
		s.file = s.begin(typ, file)
	}
}

// begin begins a file. There are no more than content reads parts.
func (s *uploadScan) begin(typ, file string) *sentFile {
	f := &sentFile{typ: typ, name: strings.ToLower(path.Base(strings.ReplaceAll(file, `\`, "/")))}
	if s.u.hashes {
		f.digests = leak.NewDigests()
	}
	s.parts = append(s.parts, f)
	return f
}

// endPart ends the current part.
func (s *uploadScan) endPart() {
	for _, f := range []*sentFile{s.file, s.asSent} {
		if f != nil {
			f.ended = true
		}
	}
	s.file, s.asSent = nil, nil
}

// Coded implements document.PartWatcher. Most servers do not undo a transfer coding
// (RFC 7578, 4.7), so a file that has one counts decoded and as it came.
func (s *uploadScan) Coded(p []byte) {
	if s.file == nil {
		return
	}
	if s.asSent == nil {
		s.asSent = s.begin(s.file.typ, s.file.name)
	}
	s.asSent.take(p)
}

// Write implements document.PartWatcher: it receives bytes of a file.
func (s *uploadScan) Write(p []byte) (int, error) {
	if s.file != nil {
		s.file.take(p)
	}
	return len(p), nil
}

// take takes the next bytes of the file.
func (f *sentFile) take(p []byte) {
	if f.digests != nil {
		_, _ = f.digests.Write(p)
	}
	if len(f.head) < 512 {
		f.head = append(f.head, p[:min(len(p), 512-len(f.head))]...)
		f.sniffed = content.Sniff(f.head)
	}
}

// scanUpload reads the received part of the request's body, for the rules that need
// it.
func scanUpload(ctx context.Context, w *walk) {
	u, b := w.p.uploads, w.t.Upload
	if u == nil || w.stage != filter.RequestBody || b == nil {
		return
	}
	s := b.Follow(u).(*uploadScan)
	w.upload = s
	if u.files || u.hashes {
		b.Watch(s)
	}
	if len(s.parts) == 0 && !s.multi && !strings.HasPrefix(b.Head().Type(), "multipart/") {
		name := ""
		if w.t.Request != nil && w.t.Request.Method == "PUT" {
			name, _, _ = strings.Cut(w.t.URL, "?")
		}
		s.file = s.begin(b.Head().Type(), name)
	}
	_ = b.Read(ctx) // the caller of unread handles a truncated body
	if s.multi && b.Complete() {
		s.endPart()
	}
	var engine *search.Engine
	if u.search {
		engine = searchForm(w)
	}
	if engine != nil {
		defer func() { takeSearch(w, engine, s.form) }()
	} else if s.patterns == nil && (s.multi || !u.files && !u.hashes) {
		return
	}
	for {
		p, err := b.Next()
		if engine != nil {
			s.form = append(s.form, p[:min(len(p), maxForm-len(s.form))]...)
		}
		if s.patterns != nil {
			_, _ = s.patterns.Write(p)
		}
		if !s.multi {
			_, _ = s.Write(p)
		}
		if p == nil || err != nil && err != io.EOF {
			return
		}
	}
}

// hold returns whether the conditions on the request's body hold.
func (c *uploadConditions) hold(w *walk, rule string) answer {
	t := w.t
	switch {
	case w.stage < filter.RequestBody:
		if t.Request != nil && t.Request.Length == message.None && t.Request.Upgrade == nil {
			return no
		}
		return w.laterThan(filter.RequestBody)
	case w.stage > filter.RequestBody:
		for i := range t.Findings {
			if f := &t.Findings[i]; f.Check == "policy" && f.Category == sentCategory && strings.HasPrefix(f.Evidence, strconv.Quote(rule)) {
				return yes
			}
		}
		return no
	case w.upload == nil:
		return no
	}
	evidence, ok := c.match(w.upload, t.Upload)
	if !ok {
		if !t.Upload.Complete() {
			return maybe
		}
		return no
	}
	f := filter.Finding{Check: "policy", Category: sentCategory, Evidence: strconv.Quote(rule) + ": " + evidence}
	for i := range t.Findings {
		if g := &t.Findings[i]; g.Check == f.Check && g.Category == f.Category && strings.HasPrefix(g.Evidence, strconv.Quote(rule)) {
			*g = f
			return yes
		}
	}
	t.Findings = append(t.Findings, f)
	return yes
}

// match reports whether every condition holds, with evidence. The evidence names the patterns
// but does not quote the words and numbers found.
func (c *uploadConditions) match(s *uploadScan, b *content.Body) (evidence string, ok bool) {
	var found []string
	if c.words != nil {
		i := slices.IndexFunc(c.words, func(i int) bool { return s.found[i] })
		if i < 0 {
			return "", false
		}
		found = append(found, "word "+strconv.Quote(string(bytes.TrimSpace(s.u.words[c.words[i]]))))
	}
	if c.patterns != nil {
		i := slices.IndexFunc(c.patterns, func(i int) bool { return s.patterns.N[i] > 0 })
		if i < 0 {
			return "", false
		}
		found = append(found, fmt.Sprintf("pattern %s, %d found", s.u.names[c.patterns[i]], s.patterns.N[c.patterns[i]]))
	}
	if c.larger > 0 {
		if b.Len() <= c.larger {
			return "", false
		}
		found = append(found, fmt.Sprintf("larger than %d bytes", c.larger))
	}
	if c.types != nil || c.files != nil || c.hashes != nil {
		what, ok := c.file(s, b)
		if !ok {
			return "", false
		}
		found = append(found, what)
	}
	return strings.Join(found, ", "), true
}

// file reports whether a file meets the conditions.
func (c *uploadConditions) file(s *uploadScan, b *content.Body) (what string, ok bool) {
	for _, f := range s.parts {
		if c.types != nil && !slices.ContainsFunc(c.types, func(t string) bool { return isType(f.typ, t) || isType(f.sniffed, t) }) {
			continue
		}
		if c.files != nil && !slices.ContainsFunc(c.files, func(pattern string) bool { ok, _ := path.Match(pattern, f.name); return ok }) {
			continue
		}
		if c.hashes != nil && !c.hashed(f, b) {
			continue
		}
		what := "file"
		if f.name != "" {
			what += " " + strconv.Quote(f.name)
		}
		if f.typ != "" {
			what += " of type " + f.typ
		}
		return what, true
	}
	return "", false
}

// hashed reports whether a file, which must be complete, has one of the hashes.
func (c *uploadConditions) hashed(f *sentFile, b *content.Body) bool {
	return f.digests != nil && (f.ended || b.Complete()) && slices.ContainsFunc(c.hashes, f.digests.Is)
}

// isType reports whether a media type equals named, or begins with it where that ends with a
// slash.
func isType(typ, named string) bool {
	return strings.HasPrefix(typ, named) && (len(typ) == len(named) || named[len(named)-1] == '/')
}

// compileSent compiles the conditions of a rule on the request's body, and adds them to those
// of the policy's other rules.
func (p *policy) compileSent(r *rule, s *Rule) error {
	if len(s.Search) > 0 {
		if p.uploads == nil {
			p.uploads = &uploads{}
		}
		p.uploads.search = true
	}
	c := uploadConditions{larger: s.Larger.Or(0)}
	if s.Larger.Off() {
		return setting.At("larger", errors.New("it cannot be off: remove it"))
	}
	if len(s.Words)+len(s.Pattern)+len(s.Upload)+len(s.File)+len(s.Hash) == 0 && c.larger == 0 {
		return nil
	}
	if p.uploads == nil {
		p.uploads = &uploads{}
	}
	u := p.uploads
	for i, word := range s.Words {
		text := bytes.TrimSpace(prose.Normalise(nil, []byte(word)))
		if len(text) == 0 {
			return setting.At(fmt.Sprintf("words[%d]", i), fmt.Errorf("%q has no letter or digit", word))
		}
		c.words = append(c.words, len(u.words))
		u.words = append(u.words, append(append([]byte{' '}, text...), ' '))
	}
	for i, name := range s.Pattern {
		if _, err := leak.NewPatterns([]string{name}); err != nil {
			return setting.At(fmt.Sprintf("pattern[%d]", i), err)
		}
		at := slices.Index(u.names, name)
		if at < 0 {
			at = len(u.names)
			u.names = append(u.names, name)
		}
		c.patterns = append(c.patterns, at)
	}
	if s.Pattern != nil {
		var err error
		if u.patterns, err = leak.NewPatterns(u.names); err != nil {
			return setting.At("pattern", err)
		}
	}
	for i, t := range s.Upload {
		t, err := filter.MediaType(t)
		if err != nil {
			return setting.At(fmt.Sprintf("upload[%d]", i), err)
		}
		c.types = append(c.types, strings.TrimSuffix(t, "*"))
	}
	for i, pattern := range s.File {
		if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
			return setting.At(fmt.Sprintf("file[%d]", i), fmt.Errorf("%q is not a pattern for names; write it like *.docx", pattern))
		}
		c.files = append(c.files, strings.ToLower(pattern))
	}
	for i, h := range s.Hash {
		h = strings.ToLower(h)
		if len(h) != 32 && len(h) != 40 && len(h) != 64 || strings.Trim(h, "0123456789abcdef") != "" {
			return setting.At(fmt.Sprintf("hash[%d]", i), fmt.Errorf("%q is not the MD5, SHA-1 or SHA-256 of a file in hexadecimal digits", h))
		}
		c.hashes = append(c.hashes, h)
	}
	u.hashes, u.files = u.hashes || c.hashes != nil, u.files || c.types != nil || c.files != nil
	r.sent = &c
	return nil
}
