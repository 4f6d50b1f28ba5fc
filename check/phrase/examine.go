package phrase

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"shuultuur/content"
	"shuultuur/lib/language"
)

// This file helps authors of lists: it reports the findings of each list in a text, and
// which phrases have no effect.

// A Match is a line of a list that matches a text.
type Match struct {
	File     string `json:"file"`
	Line     int    `json:"line"`
	Kind     string `json:"kind"`   // weighted, banned or exception
	Text     string `json:"phrase"` // as in the list, with the word of the text if it differs
	Category string `json:"category,omitempty"`
	Count    int    `json:"count"` // number of occurrences
	Score    int    `json:"score"` // contribution to the score
}

// Matches returns every line that matches the text of a complete body at this time, by file
// and line. Exceptions do not lift other lines. disguised also finds disguised words. Of equal
// phrases it returns the one that counts.
func (c *Check) Matches(ctx context.Context, b *content.Body, disguised bool) ([]Match, error) {
	var sc *scan
	if c.dialect == nil {
		sc = b.Follow(c).(*scan)
		var u *unmasker
		if disguised {
			u = b.Follow(c.disguise).(*unmasker)
		}
		_ = b.Read(ctx) // a body that breaks off is judged by the part before
		sc.endStems()
		if u != nil {
			u.take(true, sc.foundDisguised)
		}
	} else {
		sc = b.Follow(c).(*scan)
		page, _ := b.Decoded()
		if err := sc.page(ctx, page, true); err != nil {
			return nil, err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var all []Match
	for i := range c.lines {
		l := &c.lines[i]
		n := sc.hits.N[l.parts[0]]
		for _, p := range l.parts {
			n = min(n, sc.hits.N[p])
		}
		if n == 0 || !c.holds(l, c.now(), sc.languages()) {
			continue
		}
		m := Match{File: c.files[l.file], Line: int(l.number), Kind: l.kind.String(), Text: string(sc.text(nil, l)), Category: c.categories[l.category], Count: int(n)}
		if l.kind == weighted {
			m.Score = int(l.weight)
			if !c.once {
				m.Score *= min(m.Count, maxCount)
			}
		}
		all = append(all, m)
	}
	slices.SortStableFunc(all, func(a, b Match) int { return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line)) })
	return all, nil
}

// Len returns the number of lines to search for.
func (c *Check) Len() int { return len(c.lines) }

// Limit returns the score that acceptable pages do not exceed.
func (c *Check) Limit() int { return c.limit }

// Lint reads the lists of cfg and returns every line that does not do what its author meant:
// the remarks of [Check.Remarks], phrases that can never match, and phrases that have no
// effect because of another line.
func Lint(cfg Config, dir string) ([]Remark, error) {
	c, err := New(cfg, dir, time.Now)
	if err != nil {
		return nil, err
	}
	r := c.reader(dir)
	r.raw = true
	if err := r.readAll(cfg); err != nil {
		return nil, err
	}
	r.remarkUseless()
	if c.dialect == nil {
		c.dead(r)
	}
	slices.SortStableFunc(r.remarks, func(a, b Remark) int { return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line)) })
	return r.remarks, nil
}

// remarkUseless remarks on phrases that another line for the same times overrides.
func (r *reader) remarkUseless() {
	type key struct {
		phrase    string
		window    int
		languages language.Set
	}
	best := map[key]*rule{}
	for i := range r.rules {
		u := &r.rules[i]
		if len(u.parts) > 1 {
			continue
		}
		k := key{u.key(0), u.window, u.languages}
		was := best[k]
		if was == nil {
			best[k] = u
			continue
		}
		winner, loser := was, u
		if u.kind > was.kind || u.kind == weighted && was.kind == weighted && u.weight > was.weight {
			winner, loser = u, was
		}
		best[k] = winner
		what := winner.kind.String()
		if winner.kind == weighted {
			what = fmt.Sprintf("weighted with %d", winner.weight)
		}
		r.remark(loser.file, loser.line, fmt.Sprintf("the same phrase is %s in %s:%d, so the line has no effect", what, r.files[winner.file], winner.line), "")
	}
}

// dead remarks on phrases that do not match a page containing them as the list writes them,
// such as those with character references or escapes.
func (c *Check) dead(r *reader) {
	sc := c.newScan()
	found := map[int]bool{}
	_, _, _, patterns := r.patterns()
	stems := map[string]int{}
	for i, text := range c.stemTexts {
		stems[text] = i
	}
	for i := range r.rules {
		u := &r.rules[i]
		for j, part := range u.parts {
			raw := bytes.Map(func(r rune) rune {
				if r == '{' || r == '}' {
					return -1
				}
				return r
			}, u.raw[j])
			text := pageText(raw)
			there := false
			if part[0] == stemMark {
				clear(found)
				sc.stem.Break()
				sc.stem.Ask(nil)
				sc.stem.Read(text, func(phrase int, _ []byte) { found[phrase] = true })
				s := r.stemmed[string(part)]
				there = found[stems[s.text()]]
			} else {
				sc.hits.Reset()
				c.set.Scan(sc.hits, text, 0)
				there = sc.hits.N[patterns[u.key(j)]] > 0
			}
			if !there {
				r.remark(u.file, u.line, fmt.Sprintf("phrase %.80q never matches: on a page its text is %.80q", raw, bytes.TrimSpace(text)), asMatched(text))
				break
			}
		}
	}
}

// asMatched returns a phrase in the form that matches the text of pages.
func asMatched(text []byte) string {
	if text = bytes.TrimSpace(text); len(text) == 0 {
		return ""
	}
	return "<" + string(text) + ">"
}

// pageText returns the text of a page that contains a phrase.
func pageText(raw []byte) []byte {
	var b content.Body
	b.Reset(content.Describe("text/html; charset=utf-8", ""), content.Limits{})
	defer b.Release()
	b.Append(slices.Concat([]byte("<!doctype html><p> "), raw, []byte(" </p>")))
	b.Finish()
	text, _ := b.Text()
	return bytes.Clone(text)
}
