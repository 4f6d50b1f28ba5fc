package list

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"shuultuur/lib/dns"
	"shuultuur/list/adblock"
	"shuultuur/list/files"
)

// mostLinted bounds the remarks of a kind that Lint keeps; all are counted.
const mostLinted = 2000

// A Lint has the remarks on the lines of a list for an administrator.
type Lint struct {
	Report
	Twice    []Problem // duplicates
	Shadowed []Problem // entries that a wider one of the same category covers
	Void     []Problem // exceptions without an entry, in a list that has other entries
	// Shadows and Voids count all of them; duplicates are in Report.Duplicates.
	Shadows, Voids int
}

// All returns the problems of all kinds, sorted by file and line.
func (l *Lint) All() []Problem {
	all := slices.Concat(l.Problems, l.Twice, l.Shadowed, l.Void)
	sortProblems(all)
	return all
}

func sortProblems(all []Problem) {
	slices.SortStableFunc(all, func(a, b Problem) int {
		return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
}

// Examine reads the list of cfg and reports its invalid or useless lines. It writes only
// temporary files.
func Examine(ctx context.Context, name string, cfg Config) (*Lint, error) {
	cfg, err := cfg.normal()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "shuultuur-lint-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	l := new(Lint)
	b := newBuilder(ctx, name, cfg, randomSeed())
	b.entries.spill.dir = dir
	defer b.entries.spill.close()
	b.entries.twice = func(kept, dropped entry) {
		if len(l.Twice) < mostLinted {
			l.Twice = append(l.Twice, b.remarkOn(dropped.line, fmt.Sprintf("%s is already in line %s", files.Quote(b.entries.key(&dropped)), b.line(kept.line, dropped.line))))
		}
	}
	if err := b.read(); err != nil {
		return nil, fmt.Errorf("reading list %q: %w", name, err)
	}
	path := filepath.Join(dir, "one.list")
	if err := b.write(path, [32]byte{}, time.Now()); err != nil {
		return nil, err
	}
	l.Report = b.report
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	err = l.examine(ctx, f)
	for _, found := range [][]Problem{l.Twice, l.Shadowed, l.Void} {
		sortProblems(found)
	}
	return l, err
}

// remarkOn returns a remark on a line, given as counted through all files.
func (b *builder) remarkOn(line uint32, reason string) Problem {
	i := originOf(b.files, uint64(line))
	if i < 0 {
		return Problem{Reason: reason, Kept: true}
	}
	return Problem{File: b.files[i].path, Line: int(line - b.files[i].first + 1), Reason: reason, Kept: true}
}

// line names a line in a remark on another line.
func (b *builder) line(line, from uint32) string {
	p, q := b.remarkOn(line, ""), b.remarkOn(from, "")
	if p.File == q.File {
		return fmt.Sprint(p.Line)
	}
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}

// examine looks up each entry of the list in the list itself.
func (l *Lint) examine(ctx context.Context, f *File) error {
	var q Query
	var found []Match
	n := 0
	var failed error
	err := f.Entries(func(e Entry) bool {
		if n++; n&0xfff == 0 && ctx.Err() != nil {
			failed = ctx.Err()
			return false
		}
		host, path := e.Key, ""
		if i := strings.IndexByte(e.Key, '/'); i >= 0 {
			host, path = e.Key[:i], e.Key[i:]
		}
		q.SetURL(host, []byte(path))
		if found, failed = f.Lookup(&q, found[:0]); failed != nil {
			return false
		}
		for i, m := range found {
			// Other names of a category are adjacent.
			if i > 0 && found[i-1].record == m.record && found[i-1].nth == m.nth {
				continue
			}
			if string(f.table.key(m)) == e.Key && m.Exception == e.Exception {
				l.judge(f, e, m, found)
			}
		}
		return true
	})
	return cmp.Or(failed, err)
}

// judge compares an entry with the list's other entries.
func (l *Lint) judge(f *File, e Entry, m Match, found []Match) {
	covered := false
	for _, w := range found {
		if w.Category != m.Category || w.record == m.record || len(f.table.key(w)) >= len(e.Key) && e.Exception == w.Exception {
			continue
		}
		if !w.Exception {
			covered = true
		}
		if w.Exception == m.Exception && !m.Important {
			if l.Shadows++; l.Shadows <= mostLinted {
				l.Shadowed = append(l.Shadowed, f.remark(m, fmt.Sprintf("%s is covered by %s", files.Quote(e.Key), f.Evidence(w))))
			}
			return
		}
	}
	allows := l.Exceptions == l.Entries // it is meant for other lists
	if e.Exception && !covered && !allows && !f.rules.Requests() && !f.HasExpressions() {
		if l.Voids++; l.Voids <= mostLinted {
			l.Void = append(l.Void, f.remark(m, fmt.Sprintf("%s is an exception from the category %q, which does not contain it in this list", files.Quote(e.Key), m.Category)))
		}
	}
}

func (f *File) remark(m Match, reason string) Problem {
	_, line, _ := f.written(m)
	from, ok := f.origin(line)
	if !ok {
		return Problem{Reason: reason, Kept: true}
	}
	return Problem{File: from.path, Line: int(line - uint64(from.first) + 1), Reason: reason, Kept: true}
}

// A FoundEntry is an entry of a list that matches a host or URL.
type FoundEntry struct {
	Category  string `json:"category"`
	Exception bool   `json:"exception,omitempty"`
	Evidence  string `json:"evidence"` // the text, and where
}

// Ask returns the list's entries on a host or URL as people write them; rules of ad
// blockers see it as a page.
func (f *File) Ask(name string) ([]FoundEntry, error) {
	raw := name
	if !strings.Contains(raw, "://") {
		raw = "http://" + raw
	}
	host, target, ok := cutURL(raw)
	if !ok {
		return nil, fmt.Errorf("%s is neither a host nor a URL", files.Quote(name))
	}
	var q Query
	q.SetURL(host, target)
	found, err := f.Lookup(&q, nil)
	if err == nil && f.rules.Requests() {
		var r adblock.Request
		r.Set(raw, adblock.Document, "")
		found, err = f.rules.Judge(&r, found)
	}
	if err == nil {
		found, err = f.Search(&q, found)
	}
	if err != nil {
		return nil, err
	}
	var all []FoundEntry
	for _, m := range found {
		all = append(all, FoundEntry{m.Category, m.Exception, f.Evidence(m)})
	}
	return all, nil
}

// cutURL returns the host of a URL as for a Query, and its path and query. It refuses nothing
// that a client may request.
func cutURL(raw string) (host string, target []byte, ok bool) {
	raw, _, _ = strings.Cut(raw, "#")
	_, rest, _ := strings.Cut(raw, "://")
	authority := rest
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		authority, target = rest[:i], []byte(rest[i:])
	}
	authority = authority[strings.LastIndexByte(authority, '@')+1:]
	name, _ := cutPort([]byte(authority))
	name, reason := dns.Host(nil, name)
	if len(target) > 0 && target[0] == '?' {
		target = append([]byte("/"), target...)
	}
	return string(name), target, reason == ""
}

// Texts calls yield with everything in f except hosts and URLs, as written: networks,
// expressions, rules of ad blockers.
func (f *File) Texts(yield func(string) bool) error {
	defer runtime.KeepAlive(f)
	for i := range uint32(len(f.networks) / networkSize) {
		text, _, ok := f.networks.written(Match{record: i, kind: networkKind})
		if !ok {
			return f.damaged
		}
		if !yield(text) {
			return nil
		}
	}
	if f.HasExpressions() {
		x := &f.exprs
		x.once.Do(func() { x.read(f.bytes(secExpressions), len(f.names), f.damaged) })
		if x.err != nil {
			return x.err
		}
		for i := range x.all {
			if !yield(x.all[i].text) {
				return nil
			}
		}
	}
	f.rules.texts(yield)
	return nil
}
