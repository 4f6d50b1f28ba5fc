package build

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp/syntax"
	"slices"
	"strings"

	"shuultuur/lib/setting"
	"shuultuur/list"
	"shuultuur/list/collection"
	listsource "shuultuur/list/source"
	"shuultuur/tool/importer/input"
	"shuultuur/tool/importer/report"
)

// ruleLine returns a rule in the form that a file of rules needs.
func ruleLine(rule string) string {
	return strings.TrimSpace(strings.NewReplacer("\r", "", "\n", " ", "\x00", "").Replace(rule))
}

// AddList compiles a list, reports on its lines and puts it into the settings. It leaves out an
// empty list, because a rule must not name a category that no list has. It returns the name, or
// "" for an empty list. at is the option that names it.
func (w *Work) AddList(name string, cfg list.Config, at report.Place) (string, error) {
	name = w.FreeName(name)
	if cfg.Category == "" {
		cfg.Category = name
	}
	dir := filepath.Join(w.To, "data", "lists")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	dst := filepath.Join(dir, name+".list")
	r, err := list.Compile(w.Ctx, name, cfg, dst)
	if w.Ctx.Err() != nil {
		return "", w.Ctx.Err()
	}
	if err != nil {
		return "", fmt.Errorf("%s: %s: the list cannot be read: %w: mend it or take it out, and import again", at, at.Text, err)
	}
	w.Report.Lines += r.Lines
	w.Report.Entries += r.Entries + r.Exprs + r.Networks + r.Rules
	w.Report.Refused += r.Bad
	w.Report.Duplicates += r.Duplicates
	for _, p := range r.Problems {
		w.partial[name] = w.partial[name] || !p.Kept && otherSyntax(p.Reason)
		w.problem(p)
	}
	if r.Entries+r.Exprs+r.Networks+r.Rules == 0 {
		os.Remove(dst)
		w.lost = w.lost || w.partial[name]
		w.Report.Add(&report.Note{Kind: report.Empty, Place: at, What: at.Text, Why: "it is empty, so no list is written; import again when it has entries"})
		return "", nil
	}
	w.lists[name] = cfg
	out := collection.List{Config: cfg}
	if rel, err := filepath.Rel(w.To, string(cfg.Path)); err == nil && filepath.IsLocal(rel) {
		out.Path = setting.Source(rel)
	}
	if out.Match == list.Boundary {
		out.Match = ""
	}
	if w.Set.Lists == nil {
		w.Set.Lists = collection.Config{}
	}
	w.Set.Lists[name] = out
	w.Report.Add(&report.Note{Kind: report.Carried, Place: at, What: at.Text, Ours: fmt.Sprintf("lists.%s (%d entries)", name, r.Entries+r.Exprs+r.Networks+r.Rules)})
	return name, nil
}

// wrong are the faults of expressions that are wrong in every syntax, and so match nothing in the
// other program either.
var wrong = []syntax.ErrorCode{syntax.ErrMissingBracket, syntax.ErrMissingParen, syntax.ErrUnexpectedParen, syntax.ErrMissingRepeatArgument, syntax.ErrTrailingBackslash, syntax.ErrInvalidCharRange}

// OtherSyntax reports whether an expression does not compile because our engine lacks what is in it.
func OtherSyntax(err error) bool {
	var e *syntax.Error
	return err != nil && !(errors.As(err, &e) && slices.Contains(wrong, e.Code))
}

// otherSyntax reports whether a line was left out because our engines lack what is in it.
func otherSyntax(reason string) bool {
	if !strings.Contains(reason, "does not compile") {
		return strings.Contains(reason, "is an expression longer") || strings.Contains(reason, "expressions of a list")
	}
	return !slices.ContainsFunc(wrong, func(c syntax.ErrorCode) bool { return strings.Contains(reason, c.String()) })
}

// Partial reports whether the last lists were made without some of their lines, because our engines
// lack what is in them, and forgets it. A rule that refuses by such a list has to refuse more.
func (w *Work) Partial() bool {
	was := w.lost || len(w.partial) > 0 && slices.Contains(slices.Collect(maps.Values(w.partial)), true)
	w.lost = false
	clear(w.partial)
	return was
}

// KeepFetching turns the list of a local copy into a fetched one, which starts with the copy.
func (w *Work) KeepFetching(name, url string) error {
	if !input.IsURL(url) {
		return nil
	}
	l, local := w.Set.Lists[name], w.lists[name]
	l.Path, l.Fetch.URL = "", []string{url}
	src, cfg, _, err := l.Fetch.Resolve(l.Config)
	if err != nil {
		return nil // it remains a copy
	}
	store := listsource.In(filepath.Join(w.To, "data"), nil)
	if err := store.Seed(w.Ctx, name, listsource.Item{Source: src, Try: listsource.TryList(name, cfg)}, string(local.Path)); err != nil {
		return fmt.Errorf("keeping the copy of %s: %w", url, err)
	}
	w.Set.Lists[name] = l
	return nil
}

// problem converts a remark of list.Compile on a line to a note.
func (w *Work) problem(p list.Problem) {
	file := p.File
	if o, ok := w.Origin[file]; ok {
		file = o
	}
	n := &report.Note{Kind: report.Line, Place: report.Place{File: file, Line: p.Line}, What: p.Reason}
	if from := w.places[p.File]; p.Line > 0 && p.Line <= len(from) {
		n.Place = from[p.Line-1]
	}
	if strings.Contains(p.Reason, "does not compile") {
		n.Kind = report.Regexp
	}
	switch {
	case p.Kept:
		n.Why = "kept"
	default:
		n.Why = "left out"
	}
	w.Report.Add(n)
}

// FreeName makes an unused name of a list from any text.
func (w *Work) FreeName(s string) string {
	b := []byte(s)
	for i, c := range b {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			b[i] = '-'
		}
	}
	s = strings.Trim(string(b[:min(len(b), 60)]), "-")
	if s == "" {
		s = "list"
	}
	name := s
	for n := 2; ; n++ {
		if _, taken := w.lists[name]; !taken {
			return name
		}
		name = fmt.Sprintf("%s-%d", s, n)
	}
}

// OwnLines writes a list from lines of other files. The text of each place is the line.
func (w *Work) OwnLines(name string, lines []report.Place) (path string, err error) {
	path, err = w.Create(name, func(to io.Writer) error {
		b := bufio.NewWriter(to)
		for _, l := range lines {
			b.WriteString(ruleLine(l.Text))
			b.WriteByte('\n')
		}
		return b.Flush()
	})
	w.places[path] = lines
	return path, err
}

// ZoneRule is a rule for a name and the names below it.
func ZoneRule(block bool, name string) string {
	rule := "||" + domainOf(name) + "^"
	if !block {
		rule = "@@" + rule
	}
	return rule
}

// domainOf returns a domain as our settings have it: without the dot or "*." that may be before it.
func domainOf(name string) string {
	return strings.ToLower(strings.Trim(strings.TrimPrefix(name, "*"), "."))
}

// AddressName makes a name for a list from its address.
func AddressName(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Hostname() + "-" + strings.TrimSuffix(filepath.Base(u.Path), filepath.Ext(u.Path))
}

// Fetched adds a list that is fetched. None of its entries are here yet.
func (w *Work) Fetched(address, category string) {
	w.Fetch(cmp.Or(AddressName(address), category), address, list.Config{Category: category})
}

// Fetch adds a list that is fetched from an address.
func (w *Work) Fetch(name, address string, cfg list.Config) {
	l := collection.List{Config: cfg}
	l.Fetch.URL = []string{address}
	w.addFetched(w.FreeName(name), l)
}

// addFetched adds a list whose name is not taken.
func (w *Work) addFetched(name string, l collection.List) {
	w.lists[name] = l.Config
	if w.Set.Lists == nil {
		w.Set.Lists = collection.Config{}
	}
	w.Set.Lists[name] = l
}

// AddCatalogued adds a list of the catalogue, or one at an address; both are fetched.
func (w *Work) AddCatalogued(source, category string) {
	if _, exists := w.lists[category]; exists {
		return
	}
	l := collection.List{Config: list.Config{Category: category}}
	if l.Fetch.Source = source; input.IsURL(source) {
		l.Fetch.Source, l.Fetch.URL = "", []string{source}
	}
	w.addFetched(category, l)
}

// Addresses returns the category of hosts that are addresses.
func (w *Work) Addresses() []string {
	if w.hosts == nil {
		w.hosts = new(string)
		path, err := w.Create("addresses", func(to io.Writer) error {
			_, err := io.WriteString(to, "0.0.0.0/0\n::/0\n")
			return err
		})
		if err == nil {
			*w.hosts, err = w.AddList("addresses", list.Config{Format: list.Networks, Path: setting.Source(path), Match: list.Boundary}, report.Place{File: path, Text: "hosts that are addresses"})
		}
		if err = errors.Join(err, w.Ctx.Err()); err != nil {
			w.Report.Add(&report.Note{Kind: report.Lost, Place: report.Place{File: path}, What: "hosts that are addresses", Why: err.Error()})
		}
	}
	if *w.hosts == "" {
		return nil
	}
	return []string{"category/" + *w.hosts}
}

// ListOfZones makes a list in which the longest name that covers a name decides.
func ListOfZones(path, category string) list.Config {
	return list.Config{Path: setting.Source(path), Category: category, Format: list.Adblock, Match: list.Boundary, Subdomains: new(bool), Longest: true}
}
