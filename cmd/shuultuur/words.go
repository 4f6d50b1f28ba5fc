package main

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
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"shuultuur/arrange"
	"shuultuur/check/phrase"
	"shuultuur/configuration"
	"shuultuur/content"
	"shuultuur/content/language"
	"shuultuur/content/language/uzbek"
	"shuultuur/setting"
)

const wordsHelp = `
Reads a page as the phrase check does and says what authors of lists want to
know: its language, its words by their stems, and what each phrase list makes of
it. The lists are those of the settings, or those given with -list. FILE may be
"-" for standard input; a URL is fetched from here, past the gateway.

It also names the lines that do nothing: phrases that can never match, and those
that another line overrules. With -harmless, a page or a folder of pages that
should pass, it names phrases that are on too many of them, and pages that the
lists score above the limit. The exit status is 1 if there is such a line or page.`

// A stringsFlag is a flag that may be given more than once.
type stringsFlag []string

func (s *stringsFlag) String() string     { return strings.Join(*s, ", ") }
func (s *stringsFlag) Set(v string) error { *s = append(*s, v); return nil }

// A wordsReport is the output of "words -json".
type wordsReport struct {
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

type wordsCall struct {
	config, media string
	lists         stringsFlag
	harmless      stringsFlag
	share         float64
	top           int
	disguised     bool
	asJSON        bool
}

func wordsCommand(ctx context.Context, e env, args []string) int {
	var q wordsCall
	f, parse := flags(e, "words", "[flags] FILE|URL", wordsHelp)
	f.StringVar(&q.config, "config", "", "settings `file` (default shuultuur.yaml, else data/starter/shuultuur.yaml)")
	f.Var(&q.lists, "list", "a phrase list `file` instead of those of the settings; may be repeated")
	f.StringVar(&q.media, "type", "", "media `type` of the page (default by its fields or name, then by its bytes)")
	f.Var(&q.harmless, "harmless", "a `page` that should pass, or a folder of pages; may be repeated")
	f.Float64Var(&q.share, "share", 5, "`percentage` of the harmless pages that a phrase may be on")
	f.IntVar(&q.top, "top", 25, "print so many stems, 0 for all")
	f.BoolVar(&q.disguised, "disguised", false, "look for disguised words too")
	f.BoolVar(&q.asJSON, "json", false, "print one JSON object")
	if status := parse(args, 1, 1); status >= 0 {
		return status
	}
	x, err := q.examine(ctx, e, f.Arg(0))
	if err != nil {
		return fail(e, err)
	}
	if q.asJSON {
		enc := json.NewEncoder(e.stdout)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		err = enc.Encode(x)
	} else {
		err = x.print(e.stdout)
	}
	if err != nil {
		return fail(e, err)
	}
	if len(x.Useless)+len(x.Often)+len(x.Over) > 0 {
		return 1
	}
	return 0
}

func (q *wordsCall) examine(ctx context.Context, e env, page string) (*wordsReport, error) {
	cfg, dir, err := phraseLists(q.config, q.lists)
	if err != nil {
		return nil, err
	}
	cfg.Full = true
	check, err := phrase.New(cfg, dir, time.Now)
	if err != nil {
		return nil, err
	}
	b, err := readBody(ctx, e, page, q.media)
	if err != nil {
		return nil, err
	}
	defer b.Release()
	matches, err := check.Matches(ctx, b, q.disguised)
	if err != nil {
		return nil, err
	}
	x := &wordsReport{Page: page, Limit: check.Limit(), Lists: byList(matches)}
	if err := x.read(b, q.top); err != nil {
		return nil, err
	}
	if x.Useless, err = phrase.Lint(cfg, dir); err != nil {
		return nil, err
	}
	h, err := tryHarmless(ctx, e, check, q.harmless, q.share)
	if err != nil {
		return nil, err
	}
	x.Often, x.Over, x.Harmless = h.often, h.over, h.pages
	return x, nil
}

// phraseLists returns the settings of the phrase check, and the base of their
// paths. If lists are given, it uses these, otherwise those of the settings
// file.
func phraseLists(config string, lists []string) (phrase.Config, string, error) {
	if len(lists) > 0 {
		var cfg phrase.Config
		for _, l := range lists {
			path, err := filepath.Abs(l)
			if err != nil {
				return cfg, "", err
			}
			cfg.Weighted = append(cfg.Weighted, setting.File(path))
		}
		dir, err := os.Getwd()
		return cfg, dir, err
	}
	file := usualFile(config)
	if file == "" {
		return phrase.Config{}, "", errors.New("there is no shuultuur.yaml here: give settings with -config, or phrase lists with -list")
	}
	s, err := configuration.Read(file)
	if err != nil {
		return phrase.Config{}, "", err
	}
	if s.Checks.Phrase == nil {
		return phrase.Config{}, "", errors.New("the settings have no phrase lists: give some with -list, or write checks.phrase into the settings")
	}
	return *s.Checks.Phrase, filepath.Dir(file), nil
}

// readBody reads a file, standard input or a URL.
func readBody(ctx context.Context, e env, page, media string) (*content.Body, error) {
	var h content.Head
	var data []byte
	var err error
	if strings.HasPrefix(page, "http://") || strings.HasPrefix(page, "https://") {
		data, err = fetchPage(ctx, page, &h)
	} else {
		data, err = readPage(e, page)
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
	arrange.By(all, func(a, b listScore) int { return cmp.Compare(b.Score, a.Score) })
	return all
}

// read describes the sources of the page's text.
func (x *wordsReport) read(b *content.Body, top int) error {
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
		arrange.By(c.Words, func(a, b wordCount) int {
			return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Word, b.Word))
		})
		x.Stems = append(x.Stems, *c)
	}
	arrange.By(x.Stems, func(a, b stemCount) int {
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
		joined := content.Apostrophes(page)
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

func tryHarmless(ctx context.Context, e env, check *phrase.Check, paths []string, share float64) (h harmlessPages, err error) {
	type place struct {
		file string
		line int
	}
	on := map[place]*oftenPhrase{}
	look := func(path string) error {
		b, err := readBody(ctx, e, path, "")
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
	for _, p := range paths {
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
		if o.Pages > 1 && float64(o.Pages)*100 > share*float64(h.pages) && (o.Score > 0 || o.Kind != "weighted") {
			h.often = append(h.often, *o)
		}
	}
	arrange.By(h.often, func(a, b oftenPhrase) int {
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

func (x *wordsReport) print(w io.Writer) error {
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

// lintPhraseLists prints useless entries of phrase lists: those in files, or
// those of the settings if these have some. It returns the exit status.
func lintPhraseLists(ctx context.Context, e env, config string, files, harmless []string, share float64) int {
	if len(files) == 0 {
		if s, err := configuration.Read(config); err != nil || s.Checks.Phrase == nil {
			return 0 // the mistakes in the settings were printed
		}
	}
	n, err := lintPhrases(ctx, e, config, files, harmless, share)
	if err != nil {
		return fail(e, err)
	}
	return min(n, 1)
}

// lintPhrases returns the number of printed lines and pages.
func lintPhrases(ctx context.Context, e env, config string, files, harmless []string, share float64) (n int, err error) {
	cfg, dir, err := phraseLists(config, files)
	if err != nil {
		return 0, err
	}
	remarks, err := phrase.Lint(cfg, dir)
	if err != nil {
		return 0, err
	}
	check, err := phrase.New(cfg, dir, time.Now)
	if err != nil {
		return 0, err
	}
	h, err := tryHarmless(ctx, e, check, harmless, share)
	if err != nil {
		return 0, err
	}
	for _, r := range remarks {
		fmt.Fprintln(e.stdout, r)
	}
	for i := range h.often {
		fmt.Fprintln(e.stdout, h.often[i].line(h.pages))
	}
	for i := range h.over {
		fmt.Fprintln(e.stdout, h.over[i].line(check.Limit()))
	}
	n = len(remarks) + len(h.often) + len(h.over)
	fmt.Fprintf(e.stdout, "phrase lists: %d phrases, %d lines of no use, %d on too many of %d harmless pages, %d of these above the limit\n",
		check.Len(), len(remarks), len(h.often), h.pages, len(h.over))
	return n, nil
}
