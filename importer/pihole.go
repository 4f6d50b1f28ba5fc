package importer

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"strings"

	_ "modernc.org/sqlite" // the driver for gravity.db

	"shuultuur/list"
)

// Categories of what is imported: lists of one are one engine.
const (
	piholeAllowed = "allowed"
	piholeDenied  = "denied"
)

// piholeTypes are those of Pi-hole's domainlist table, and the files of its
// older exports that hold the same.
var piholeTypes = []struct{ name, category, file, format string }{
	{"allowed", piholeAllowed, "whitelist.exact.txt", list.Domains},
	{"denied", piholeDenied, "blacklist.exact.txt", list.Domains},
	{"allowed-regexps", piholeAllowed, "whitelist.regex.txt", list.Pihole},
	{"denied-regexps", piholeDenied, "blacklist.regex.txt", list.Pihole},
}

// older names of those files
var piholeOlder = map[string]int{"whitelist.txt": 0, "blacklist.txt": 1, "regex.list": 3}

// pihole reads a folder with gravity.db, or with the text files of an export.
// Pi-hole sees names only: an entry is for the name itself, an expression is
// searched for in it.
func (w *work) pihole(path string) error {
	dir, db := path, filepath.Join(path, "gravity.db")
	if isFile(path) {
		dir, db = filepath.Dir(path), path
	}
	lines := [4][]string{}
	var subscribed []list.Config
	if isFile(db) {
		var err error
		if subscribed, err = w.gravity(db, &lines); err != nil {
			return err
		}
	}
	for i, t := range piholeTypes {
		w.piholeFile(filepath.Join(dir, t.file), &lines[i])
	}
	for _, name := range sortedKeys(piholeOlder) {
		w.piholeFile(filepath.Join(dir, name), &lines[piholeOlder[name]])
	}
	w.piholeSources(dir)
	w.set.dns()
	w.piholeNames(dir)
	found := map[string]bool{} // categories with anything in them
	add := func(name, category string, cfg list.Config) error {
		cfg.Category, cfg.Match = category, list.Boundary
		if cfg.Format == list.Domains {
			cfg.Subdomains = new(bool)
		}
		name, err := w.addList(name, cfg, place{file: cfg.Path, what: name})
		found[category] = found[category] || name != ""
		return err
	}
	for i, t := range piholeTypes {
		if len(lines[i]) == 0 {
			continue
		}
		path, err := w.own(t.name, func(to io.Writer) error {
			_, err := io.WriteString(to, strings.Join(lines[i], "\n")+"\n")
			return err
		})
		if err != nil {
			return err
		}
		if err := add(t.name, t.category, list.Config{Format: t.format, Path: path}); err != nil {
			return err
		}
	}
	for _, l := range subscribed {
		if err := add(filepath.Base(l.Path), l.Category, l); err != nil {
			return err
		}
	}
	p := policyOut{Name: "everyone"}
	if found[piholeAllowed] {
		p.Rules = append(p.Rules, ruleOut{Name: "allowed", Action: "allow", Category: []string{"category/" + piholeAllowed}})
	}
	if found[piholeDenied] {
		p.Rules = append(p.Rules, ruleOut{Name: "denied", Action: "block", Category: []string{"category/" + piholeDenied}})
	}
	if len(p.Rules)+w.rep.Count[Lost] == 0 {
		return fmt.Errorf("there is neither gravity.db nor a list of Pi-hole in %q", path)
	}
	w.set.Policies = []policyOut{p}
	return nil
}

func (w *work) piholeFile(path string, to *[]string) {
	data, err := readWhole(path)
	if err != nil {
		return
	}
	w.rep.add(Note{Kind: Carried, place: place{file: path}, What: filepath.Base(path), Ours: "lists"})
	seen := map[string]int{}
	_ = eachLine(bytes.NewReader(data), func(n int, s []byte) error {
		if s[0] == '#' {
			return nil
		}
		text := string(s)
		if before, twice := seen[text]; twice {
			w.rep.Duplicates++
			w.rep.add(Note{Kind: Line, place: place{file: path, line: n}, What: fmt.Sprintf("%q is in line %d already", text, before)})
			return nil
		}
		seen[text] = n
		*to = append(*to, text)
		return nil
	})
}

func (w *work) piholeSources(dir string) {
	for _, name := range []string{"adlists.list", "adlist.txt", "adlists.txt"} {
		w.lines(filepath.Join(dir, name), func(at place, s string) {
			if s[0] != '#' {
				w.rep.add(Note{Kind: Lost, place: at, What: s,
					Why: "a list is a file: fetch it, and name it under lists with format: hosts or domains, subdomains: false, for the same answers"})
			}
		})
	}
}

// gravity reads gravity.db: the administrator's own entries into lines, and the
// names and rules of all lists into files, which it returns as lists.
func (w *work) gravity(path string, lines *[4][]string) (subscribed []list.Config, err error) {
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?mode=ro&immutable=1")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	at := place{file: path}
	groups := w.piholeGroups(db, at)
	err = w.each(db, `SELECT type, domain, enabled FROM domainlist ORDER BY id`, func(rows *sql.Rows) error {
		var kind, enabled int
		var domain string
		if err := rows.Scan(&kind, &domain, &enabled); err != nil {
			return err
		}
		switch {
		case strings.ContainsAny(domain, "\n\r\x00") || kind < 0 || kind > 3:
			w.rep.add(Note{Kind: Line, place: at, What: fmt.Sprintf("domainlist: %q", domain), Why: "left out"})
		case enabled == 0:
			w.rep.add(Note{Kind: Lost, place: at, What: "domainlist: " + domain, Why: "it is switched off"})
		default:
			lines[kind] = append(lines[kind], domain)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading domainlist of %q: %w", path, err)
	}
	if groups > 0 {
		w.rep.add(Note{Kind: Changed, place: at, What: "entries and lists by group", Ours: "policy \"everyone\"", Why: "what is switched on for any group is so for everybody; write a policy with networks for the others"})
	}
	if err := w.each(db, `SELECT address, enabled FROM adlist ORDER BY id`, func(rows *sql.Rows) error {
		var address string
		var enabled int
		if err := rows.Scan(&address, &enabled); err != nil {
			return err
		}
		n := Note{Kind: Carried, place: at, What: "adlist: " + address, Ours: "lists.gravity", Why: "as it was when Pi-hole fetched it"}
		if enabled == 0 {
			n.Kind, n.Ours, n.Why = Lost, "", "it is switched off"
		}
		w.rep.add(n)
		return nil
	}); err != nil {
		return nil, fmt.Errorf("reading adlist of %q: %w", path, err)
	}
	for _, table := range []struct{ name, category string }{{"gravity", piholeDenied}, {"antigravity", piholeAllowed}} {
		if err := db.QueryRowContext(w.ctx, `SELECT 1 FROM sqlite_master WHERE name = ?`, table.name).Scan(new(int)); err != nil {
			continue // there are no allow lists before version 6
		}
		// A rule of an ad blocker stands for what is below its host too, so those
		// are a list of their own.
		for _, l := range []list.Config{{Format: list.Adblock, Path: table.name + "-rules"}, {Format: list.Domains, Path: table.name}} {
			if l.Path, err = w.own(l.Path, w.gravityNames(db, table.name, l.Format == list.Adblock)); err != nil {
				return nil, err
			}
			l.Category = table.category
			subscribed = append(subscribed, l)
		}
	}
	return subscribed, nil
}

// gravityNames writes the names of the lists that are switched on: those like a
// rule, or the others. In allow lists rules are exceptions; here they are what
// is allowed.
func (w *work) gravityNames(db *sql.DB, table string, rules bool) func(io.Writer) error {
	not := "NOT "
	if rules {
		not = ""
	}
	return func(to io.Writer) error {
		b := bufio.NewWriter(to)
		err := w.each(db, `SELECT DISTINCT g.domain FROM `+table+` g JOIN adlist a ON a.id = g.adlist_id WHERE a.enabled AND `+not+`(g.domain LIKE '||%' OR g.domain LIKE '@@%')`, func(rows *sql.Rows) error {
			var domain string
			if err := rows.Scan(&domain); err != nil {
				return err
			}
			if !strings.ContainsAny(domain, "\n\r\x00") {
				fmt.Fprintln(b, strings.TrimPrefix(domain, "@@"))
			}
			return nil
		})
		return errors.Join(err, b.Flush())
	}
}

func (w *work) piholeGroups(db *sql.DB, at place) (n int) {
	_ = w.each(db, `SELECT name FROM "group" WHERE id > 0`, func(rows *sql.Rows) error { // there are no groups before version 5
		var name string
		if err := rows.Scan(&name); err != nil {
			return err
		}
		n++
		w.rep.add(Note{Kind: Lost, place: at, What: "group " + name, Why: "clients of it are told by networks: write a policy for them"})
		return nil
	})
	return n
}

// maxRows bounds what is read of one table.
const maxRows = 50_000_000

func (w *work) each(db *sql.DB, query string, row func(*sql.Rows) error) error {
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer rows.Close()
	for n := 0; rows.Next(); n++ {
		if n == maxRows {
			return fmt.Errorf("more than %d rows", maxRows)
		}
		if err := row(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
