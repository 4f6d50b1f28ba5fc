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

// piholeTypes are those of Pi-hole's domainlist table, and the files of its
// older exports that hold the same.
var piholeTypes = []struct {
	name, file string
	regexp     bool
}{
	{"allowed", "whitelist.exact.txt", false},
	{"denied", "blacklist.exact.txt", false},
	{"allowed-regexps", "whitelist.regex.txt", true},
	{"denied-regexps", "blacklist.regex.txt", true},
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
	var gravity, rules string
	var err error
	if isFile(db) {
		if gravity, rules, err = w.gravity(db, &lines); err != nil {
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
	categories := [4][]string{}
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
		cfg := list.Config{Format: list.Domains, Path: path, Match: list.Boundary, Subdomains: new(bool)}
		if t.regexp {
			cfg.Format, cfg.Subdomains = list.E2guardianRegexp, nil
		}
		name, err := w.addList(t.name, cfg, place{file: path, what: t.name})
		if err != nil {
			return err
		}
		if name != "" {
			categories[i] = []string{"category/" + name}
		}
	}
	allow := append(categories[0], categories[2]...)
	block := append(categories[1], categories[3]...)
	for _, l := range []struct{ name, format, path string }{{"gravity", list.Domains, gravity}, {"gravity-rules", list.Adblock, rules}} {
		if l.path == "" {
			continue
		}
		cfg := list.Config{Format: l.format, Path: l.path, Match: list.Boundary}
		if l.format == list.Domains {
			cfg.Subdomains = new(bool)
		}
		name, err := w.addList(l.name, cfg, place{file: l.path, what: l.name})
		if err != nil {
			return err
		}
		if name != "" {
			block = append(block, "category/"+name)
		}
	}
	p := policyOut{Name: "everyone"}
	if len(allow) > 0 {
		p.Rules = append(p.Rules, ruleOut{Name: "allowed", Action: "allow", Category: allow})
	}
	if len(block) > 0 {
		p.Rules = append(p.Rules, ruleOut{Name: "denied", Action: "block", Category: block})
	}
	if len(allow)+len(block)+w.rep.Count[Lost] == 0 {
		return fmt.Errorf("there is neither gravity.db nor a list of Pi-hole in %q", path)
	}
	w.set.Policies = []policyOut{p}
	return nil
}

// domainRegexp puts an expression for names into the form for host and path.
func domainRegexp(s string) string {
	s, _, _ = strings.Cut(s, ";") // Pi-hole's own conditions
	if !strings.HasPrefix(s, "^") && !strings.HasPrefix(s, "(^") {
		s = "^[^/]*" + "(?:" + s + ")"
	}
	return strings.ReplaceAll(strings.ReplaceAll(s, "$", "(?:/|$)"), `\(?:/|$)`, `\$`)
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
		if seen[text] = n; strings.Contains(path, "regex") {
			w.regexpOf(place{file: path, line: n}, text)
			text = domainRegexp(text)
		}
		*to = append(*to, text)
		return nil
	})
}

// regexpOf reports what is special about an expression of Pi-hole.
func (w *work) regexpOf(at place, s string) {
	if strings.Contains(s, ";") {
		w.rep.add(Note{Kind: Changed, place: at, What: s, Ours: domainRegexp(s), Why: "conditions on the kind of a DNS question mean nothing here"})
	}
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
// names and rules of all lists into files, which it returns.
func (w *work) gravity(path string, lines *[4][]string) (names, rules string, err error) {
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?mode=ro&immutable=1")
	if err != nil {
		return "", "", err
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
			if piholeTypes[kind].regexp {
				w.regexpOf(at, domain)
				domain = domainRegexp(domain)
			}
			lines[kind] = append(lines[kind], domain)
		}
		return nil
	})
	if err != nil {
		return "", "", fmt.Errorf("reading domainlist of %q: %w", path, err)
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
		return "", "", fmt.Errorf("reading adlist of %q: %w", path, err)
	}
	// A rule of an ad blocker stands for what is below its host too, so those
	// are a list of their own.
	if rules, err = w.own("gravity-rules", w.gravityNames(db, true)); err != nil {
		return "", "", err
	}
	names, err = w.own("gravity", w.gravityNames(db, false))
	return names, rules, err
}

// gravityNames writes the names of the lists that are switched on: those like a
// rule, or the others.
func (w *work) gravityNames(db *sql.DB, rules bool) func(io.Writer) error {
	where := "g.domain NOT LIKE '||%'"
	if rules {
		where = "g.domain LIKE '||%'"
	}
	return func(to io.Writer) error {
		b := bufio.NewWriter(to)
		err := w.each(db, `SELECT DISTINCT g.domain FROM gravity g JOIN adlist a ON a.id = g.adlist_id WHERE a.enabled AND `+where, func(rows *sql.Rows) error {
			var domain string
			if err := rows.Scan(&domain); err != nil {
				return err
			}
			if !strings.ContainsAny(domain, "\n\r\x00") {
				fmt.Fprintln(b, domain)
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
