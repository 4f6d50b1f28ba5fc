// Package words says what authors of phrase lists want to know. [Examine] reads one page as the
// phrase check does: its language, its words by their stems, what each list makes of it, and
// which lines of the lists do nothing. [Lists.Lint] looks at the lists alone. Both try the lists on
// harmless pages, which should pass.
package words

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"shuultuur/check/phrase"
	"shuultuur/content"
	"shuultuur/content/prose"
	"shuultuur/lib/language"
	"shuultuur/lib/language/uzbek"
)

// A Report is what is said of a page.
type Report struct {
	Page      string          `json:"page"`
	Type      string          `json:"type"`
	Language  string          `json:"language"` // "" if it is uncertain
	Declared  string          `json:"declared,omitempty"`
	Total     int             `json:"words"`
	Different int             `json:"different"`
	Unread    string          `json:"unread,omitempty"`
	Stems     []stemCount     `json:"stems"`
	Limit     int             `json:"limit"`
	Lists     []listScore     `json:"lists"`
	Useless   []phrase.Remark `json:"useless"`
	Often     []oftenPhrase   `json:"often"`
	Over      []overPage      `json:"over"` // harmless pages above the limit
	Harmless  int             `json:"harmless,omitempty"`
}

type stemCount struct {
	Stem  string      `json:"stem"`
	Count int         `json:"count"`
	Words []wordCount `json:"words"`
}

type wordCount struct {
	Word  string `json:"word"`
	Count int    `json:"count"`
}

type listScore struct {
	File    string         `json:"file"`
	Score   int            `json:"score"`
	Matches []phrase.Match `json:"matches"`
}

type oftenPhrase struct {
	phrase.Match
	Pages int `json:"pages"`
}

type overPage struct {
	Page  string `json:"page"`
	Score int    `json:"score"`
}

// maxPage is the largest page, in bytes.
const maxPage = 64 << 20

// Lists are the phrase lists, and the pages on which they are tried.
type Lists struct {
	Config   phrase.Config
	Dir      string                            // base of the paths in Config
	Harmless []string                          // pages that should pass, or folders of pages
	Share    float64                           // percentage of the harmless pages that a phrase may be on
	Read     func(file string) ([]byte, error) // reads a page that is no URL
}

// A Question asks about a page.
type Question struct {
	Lists
	Page, Media string // a URL or file, and its media type if it is known
	Top         int    // most stems, 0 for all
	Disguised   bool   // look for disguised words too
}

// Examine reads the page and tries the lists on it.
func Examine(ctx context.Context, q Question) (*Report, error) {
	cfg := q.Config
	cfg.Full = true
	check, err := phrase.New(cfg, q.Dir, time.Now)
	if err != nil {
		return nil, err
	}
	b, err := q.body(ctx, q.Page, q.Media)
	if err != nil {
		return nil, err
	}
	defer b.Release()
	matches, err := check.Matches(ctx, b, q.Disguised)
	if err != nil {
		return nil, err
	}
	x := &Report{Page: q.Page, Limit: check.Limit(), Lists: byList(matches)}
	if err := x.read(b, q.Top); err != nil {
		return nil, err
	}
	if x.Useless, err = phrase.Lint(cfg, q.Dir); err != nil {
		return nil, err
	}
	h, err := q.tryHarmless(ctx, check)
	if err != nil {
		return nil, err
	}
	x.Often, x.Over, x.Harmless = h.often, h.over, h.pages
	return x, nil
}

// Faulty reports whether a line of the lists does not do what it should.
func (x *Report) Faulty() bool { return len(x.Useless)+len(x.Often)+len(x.Over) > 0 }

// JSON writes the report as one object.
func (x *Report) JSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(x)
}

// body reads a URL, or a file.
func (l *Lists) body(ctx context.Context, page, media string) (*content.Body, error) {
	var h content.Head
	var data []byte
	var err error
	if strings.HasPrefix(page, "http://") || strings.HasPrefix(page, "https://") {
		data, err = fetchPage(ctx, page, &h)
	} else {
		data, err = l.Read(page)
		if media == "" {
			media = mime.TypeByExtension(filepath.Ext(page))
		}
	}
	if err != nil {
		return nil, err
	}
	if media != "" {
		h = *content.Describe(media, "")
	}
	h.SetUse(content.Document)
	b := new(content.Body)
	b.Reset(&h, content.Limits{})
	b.Append(data)
	b.Finish()
	return b, nil
}

func fetchPage(ctx context.Context, url string, h *content.Head) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
	client := http.Client{Transport: &http.Transport{DisableCompression: true, Proxy: http.ProxyFromEnvironment}}
	defer client.CloseIdleConnections()
	res, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode >= 300 {
		return nil, fmt.Errorf("fetching %s: the server answered %s", url, res.Status)
	}
	for name, values := range res.Header {
		for _, v := range values {
			h.Add([]byte(name), []byte(v))
		}
	}
	page, err := io.ReadAll(io.LimitReader(res.Body, maxPage+1))
	if err == nil && len(page) > maxPage {
		err = errors.New("the page is larger than 64 MiB")
	}
	if err != nil {
		return nil, fmt.Errorf("fetching %s: %w", url, err)
	}
	return page, nil
}

// byList divides matches by the file that has their phrase.
func byList(matches []phrase.Match) []listScore {
	all := []listScore{}
	for _, m := range matches {
		i := slices.IndexFunc(all, func(l listScore) bool { return l.File == m.File })
		if i < 0 {
			i = len(all)
			all = append(all, listScore{File: m.File})
		}
		all[i].Score += m.Score
		all[i].Matches = append(all[i].Matches, m)
	}
	slices.SortStableFunc(all, func(a, b listScore) int { return cmp.Compare(b.Score, a.Score) })
	return all
}

// read describes the sources of the page's text.
func (x *Report) read(b *content.Body, top int) error {
	text, err := b.Text()
	if err != nil {
		x.Unread = err.Error()
	}
	if n, of, why := b.Inspected(); why != content.AllRead {
		x.Unread = fmt.Sprintf("%s: read %d of %d bytes", why, n, of)
	}
	x.Type = b.Type()
	d, err := language.NewDetector()
	if err != nil {
		return err
	}
	page, head := b.Languages()
	x.Declared = string(cmp.Or(page, head))
	tag := d.Detect(text, string(page), string(head))
	x.Language = string(tag)
	var stem language.Stemmer
	if language.HasStemmer(tag) {
		if stem, err = language.NewStemmer(tag); err != nil {
			return err
		}
	}
	next := func(words []string) (string, int) { return words[0], 1 }
	if tag == "uz-Latn" {
		if next, err = apostrophes(b); err != nil {
			return err
		}
	}
	counts := map[string]int{}
	for words := strings.Fields(string(text)); len(words) > 0; {
		w, n := next(words)
		words = words[n:]
		counts[w]++
		x.Total++
	}
	x.Different = len(counts)
	stems := map[string]*stemCount{}
	for w, n := range counts {
		s := w
		if stem != nil {
			s = string(stem.Stem(nil, []byte(w)))
		}
		c := stems[s]
		if c == nil {
			c = &stemCount{Stem: s}
			stems[s] = c
		}
		c.Count += n
		c.Words = append(c.Words, wordCount{w, n})
	}
	x.Stems = []stemCount{}
	for _, c := range stems {
		slices.SortStableFunc(c.Words, func(a, b wordCount) int {
			return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Word, b.Word))
		})
		x.Stems = append(x.Stems, *c)
	}
	slices.SortStableFunc(x.Stems, func(a, b stemCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Stem, b.Stem))
	})
	if top > 0 && len(x.Stems) > top {
		x.Stems = x.Stems[:top]
	}
	return nil
}

// apostrophes returns a function that joins the first words of an Uzbek text if an
// apostrophe, which is blank in the text, separated them. It decides by the page,
// or by the stemmer's words if the document is not itself text.
func apostrophes(b *content.Body) (next func(words []string) (word string, n int), err error) {
	page, err := b.Decoded()
	if media := b.Type(); err == nil && (strings.HasPrefix(media, "text/") || media == "application/xhtml+xml") {
		joined := prose.Apostrophes(page)
		return func(words []string) (string, int) {
			w, n := words[0], 1
			for n < len(words) && joined[w+"'"+words[n]] {
				w += "'" + words[n]
				n++
			}
			return w, n
		}, nil
	}
	s, err := uzbek.New()
	if err != nil {
		return nil, err
	}
	return s.JoinParts, nil
}

// harmlessPages are the results of lists for pages that should pass.
type harmlessPages struct {
	pages int
	often []oftenPhrase
	over  []overPage
}

func (l *Lists) tryHarmless(ctx context.Context, check *phrase.Check) (h harmlessPages, err error) {
	type place struct {
		file string
		line int
	}
	on := map[place]*oftenPhrase{}
	look := func(path string) error {
		b, err := l.body(ctx, path, "")
		if err != nil {
			return err
		}
		defer b.Release()
		matches, err := check.Matches(ctx, b, false)
		if err != nil {
			return err
		}
		h.pages++
		score := 0
		for _, m := range matches {
			score += m.Score
			k := place{m.File, m.Line}
			if on[k] == nil {
				on[k] = &oftenPhrase{Match: m}
			}
			on[k].Pages++
		}
		if score > check.Limit() {
			h.over = append(h.over, overPage{path, score})
		}
		return nil
	}
	for _, p := range l.Harmless {
		err := filepath.WalkDir(p, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			return look(path)
		})
		if err != nil {
			return h, fmt.Errorf("harmless pages: %w", err)
		}
	}
	for _, o := range on {
		if o.Pages > 1 && float64(o.Pages)*100 > l.Share*float64(h.pages) && (o.Score > 0 || o.Kind != "weighted") {
			h.often = append(h.often, *o)
		}
	}
	slices.SortStableFunc(h.often, func(a, b oftenPhrase) int {
		return cmp.Or(cmp.Compare(b.Pages, a.Pages), cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	return h, nil
}

func (o *oftenPhrase) line(of int) string {
	return fmt.Sprintf("%s:%d: %s is on %d of %d harmless pages", o.File, o.Line, o.Text, o.Pages, of)
}

func (p *overPage) line(limit int) string {
	return fmt.Sprintf("%s: a harmless page with the score %d, above the limit %d", p.Page, p.Score, limit)
}

// Text writes the report for people.
func (x *Report) Text(w io.Writer) error {
	var b strings.Builder
	lang := cmp.Or(x.Language, "not certain")
	if x.Declared != "" {
		lang += " (the page says " + x.Declared + ")"
	}
	fmt.Fprintf(&b, "page      %s, %s\nlanguage  %s\nwords     %d, %d different\n", x.Page, x.Type, lang, x.Total, x.Different)
	if x.Unread != "" {
		fmt.Fprintf(&b, "unread    %s\n", x.Unread)
	}
	for _, s := range x.Stems {
		fmt.Fprintf(&b, "  %5d  %s", s.Count, s.Stem)
		if len(s.Words) > 1 || s.Words[0].Word != s.Stem {
			b.WriteString(" ")
			for i, v := range s.Words {
				if i == 8 {
					fmt.Fprintf(&b, " and %d more", len(s.Words)-i)
					break
				}
				fmt.Fprintf(&b, " %s", v.Word)
			}
		}
		b.WriteByte('\n')
	}
	for _, l := range x.Lists {
		fmt.Fprintf(&b, "score     %d by %s, limit %d\n", l.Score, l.File, x.Limit)
		for _, m := range l.Matches {
			what := m.Kind
			if what == "weighted" {
				what = fmt.Sprint(m.Score)
			}
			fmt.Fprintf(&b, "            %s %s, line %d\n", m.Text, what, m.Line)
		}
	}
	if len(x.Lists) == 0 {
		fmt.Fprintf(&b, "score     0: no list has a phrase of it\n")
	}
	for _, r := range x.Useless {
		fmt.Fprintf(&b, "useless   %s\n", r)
	}
	for i := range x.Often {
		fmt.Fprintf(&b, "often     %s\n", x.Often[i].line(x.Harmless))
	}
	for i := range x.Over {
		fmt.Fprintf(&b, "over      %s\n", x.Over[i].line(x.Limit))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Lint writes useless lines of the lists, and those that are on too many harmless pages, to w. It
// returns the number of written lines and pages.
func (l *Lists) Lint(ctx context.Context, w io.Writer) (n int, err error) {
	remarks, err := phrase.Lint(l.Config, l.Dir)
	if err != nil {
		return 0, err
	}
	check, err := phrase.New(l.Config, l.Dir, time.Now)
	if err != nil {
		return 0, err
	}
	h, err := l.tryHarmless(ctx, check)
	if err != nil {
		return 0, err
	}
	for _, r := range remarks {
		fmt.Fprintln(w, r)
	}
	for i := range h.often {
		fmt.Fprintln(w, h.often[i].line(h.pages))
	}
	for i := range h.over {
		fmt.Fprintln(w, h.over[i].line(check.Limit()))
	}
	n = len(remarks) + len(h.often) + len(h.over)
	_, err = fmt.Fprintf(w, "phrase lists: %d phrases, %d lines of no use, %d on too many of %d harmless pages, %d of these above the limit\n",
		check.Len(), len(remarks), len(h.often), h.pages, len(h.over))
	return n, err
}
