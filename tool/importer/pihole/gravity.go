package pihole

import (
	"bufio"
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	_ "modernc.org/sqlite" // the driver for gravity.db

	"shuultuur/list"
	"shuultuur/tool/importer/build"
	"shuultuur/tool/importer/input"
	"shuultuur/tool/importer/report"
)

// A groupSet identifies a set of Pi-hole groups of an entry, a list or a client:
// the sorted numbers, separated by commas. It omits disabled groups.
type groupSet string

// everybodys is the group of unknown clients, and of entries in text files.
const everybodys groupSet = "0"

func (s groupSet) meets(other groupSet) bool {
	for id := range strings.SplitSeq(string(s), ",") {
		if id != "" && slices.Contains(strings.Split(string(other), ","), id) {
			return true
		}
	}
	return false
}

// name returns the name of a list or category; each set of groups has its own.
func (s groupSet) name(list string) string {
	if s == everybodys {
		return list
	}
	return list + "-" + strings.ReplaceAll(cmp.Or(string(s), "none"), ",", "-")
}

// gravity has the contents of gravity.db.
type gravity struct {
	groups  map[int64]string         // groups that are switched on; nil before version 5, which has none
	lines   [4]map[groupSet][]string // the administrator's own entries, by kind
	files   []gravityFile
	clients []gravityClient
}

// A gravityFile holds names and rules, of the administrator or of one list.
type gravityFile struct {
	groups           groupSet
	name, base, path string
	format           list.FormatName

	list   int64  // its number
	from   string // the entries of a list of Pi-hole
	url    string // the same if it can be fetched
	turned bool   // its exceptions are the allowed names, so it cannot be fetched as it is
}

type gravityClient struct {
	ip     string // an address, a network, a MAC, a name or an interface
	groups groupSet
}

// mostSets bounds the sets of groups for which lists are made.
const mostSets = 64

// set returns the set of those groups that are enabled.
func (g *gravity) set(ids []int64) groupSet {
	slices.Sort(ids)
	var on []string
	for _, id := range slices.Compact(ids) {
		if _, ok := g.groups[id]; ok || g.groups == nil && id == 0 {
			on = append(on, strconv.FormatInt(id, 10))
		}
	}
	return groupSet(strings.Join(on, ","))
}

// words describes the groups of a set.
func (g *gravity) words(s groupSet) string {
	var names []string
	for id := range strings.SplitSeq(string(s), ",") {
		if n, err := strconv.ParseInt(id, 10, 64); err == nil {
			names = append(names, cmp.Or(g.groups[n], "Default"))
		}
	}
	switch len(names) {
	case 0:
		return "no group"
	case 1:
		return "group " + names[0]
	}
	return "groups " + strings.Join(names, ", ")
}

// readGravity reads gravity.db: groups and clients, the administrator's own entries, and the names
// and rules of all lists, which it writes to files. Long because each option has a case.
func readGravity(w *build.Work, path string, g *gravity) (err error) {
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?mode=ro&immutable=1")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	at := report.Place{File: path}
	gravityGroups(w, db, at, g)
	entries, lists := groupsOf(w, db, g, "domainlist"), groupsOf(w, db, g, "adlist")
	err = eachRow(w.Ctx, db, `SELECT id, type, domain, enabled FROM domainlist ORDER BY id`, func(rows *sql.Rows) error {
		var id int64
		var kind, enabled int
		var domain string
		if err := rows.Scan(&id, &kind, &domain, &enabled); err != nil {
			return err
		}
		switch {
		case strings.ContainsAny(domain, "\n\r\x00") || kind < 0 || kind > 3:
			w.Report.Add(&report.Note{Kind: report.Line, Place: at, What: fmt.Sprintf("domainlist: %q", domain), Why: "left out"})
		case enabled == 0:
			w.Report.Add(&report.Note{Kind: report.Default, Place: at, What: "domainlist: " + domain, Why: "it is switched off"})
		default:
			s := entries(id)
			g.lines[kind][s] = append(g.lines[kind][s], domain)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("reading domainlist of %q: %w", path, err)
	}
	var all []gravityList
	sets := map[groupSet]bool{}
	if err := eachRow(w.Ctx, db, `SELECT id, address, enabled FROM adlist ORDER BY id`, func(rows *sql.Rows) error {
		l := gravityList{}
		var enabled int
		if err := rows.Scan(&l.id, &l.address, &enabled); err != nil {
			return err
		}
		if l.groups = lists(l.id); enabled == 0 {
			w.Report.Add(&report.Note{Kind: report.Default, Place: at, What: "adlist: " + l.address, Why: "it is switched off"})
			return nil
		}
		all, sets[l.groups] = append(all, l), true
		return nil
	}); err != nil {
		return fmt.Errorf("reading adlist of %q: %w", path, err)
	}
	for _, n := range []int{len(sets), len(g.lines[0]), len(g.lines[1]), len(g.lines[2]), len(g.lines[3])} {
		if n > mostSets {
			return fmt.Errorf("%q: lists and entries are in more than %d sets of groups", path, mostSets)
		}
	}
	bases := map[int64]string{} // types of lists; before version 6 there are no allow lists
	_ = eachRow(w.Ctx, db, `SELECT id FROM adlist WHERE type = 1`, func(rows *sql.Rows) error {
		var id int64
		err := rows.Scan(&id)
		bases[id] = allowLists
		return err
	})
	filled := map[int64]bool{}
	for _, table := range []struct{ name, base string }{{"gravity", denied}, {"antigravity", allowLists}} {
		if err := db.QueryRowContext(w.Ctx, `SELECT 1 FROM sqlite_master WHERE name = ?`, table.name).Scan(new(int)); err != nil {
			continue // there are no allow lists before version 6
		}
		for part := range slices.Chunk(all, 100) {
			files, err := gravityLists(w, db, table.name, part)
			if err != nil {
				return err
			}
			for _, f := range files {
				f.base, filled[f.list] = table.base, true
				g.files = append(g.files, f)
			}
		}
	}
	for _, l := range all {
		switch {
		case filled[l.id]:
		case input.IsURL(l.address):
			g.files = append(g.files, gravityFile{groups: l.groups, base: cmp.Or(bases[l.id], denied), url: l.address, from: l.address})
		default:
			n := &report.Note{Kind: report.Lost, Place: at, What: "adlist: " + l.address, Ours: "lists", Why: "there is no copy of it here and no address to fetch it from: name its file with path under lists"}
			if n.Effect = report.Opens; cmp.Or(bases[l.id], denied) != denied {
				n.Effect = report.Closes
			}
			w.Report.Add(n)
		}
	}
	return nil
}

// A gravityList is a list that Pi-hole fetches.
type gravityList struct {
	id      int64
	address string
	groups  groupSet
}

// gravityLists writes the entries of some lists in a table to a file for each list. In
// Pi-hole's allow lists, rules are exceptions; in the files, they are allowed entries.
func gravityLists(w *build.Work, db *sql.DB, table string, lists []gravityList) (files []gravityFile, err error) {
	type listFile struct {
		file *os.File
		to   *bufio.Writer
		gravityFile
	}
	outs := map[int64]*listFile{}
	defer func() {
		for _, o := range outs {
			err = errors.Join(err, o.to.Flush(), o.file.Close())
		}
	}()
	ids, byID := []string{}, map[int64]gravityList{}
	for _, l := range lists {
		ids, byID[l.id] = append(ids, strconv.FormatInt(l.id, 10)), l
	}
	err = eachRow(w.Ctx, db, `SELECT adlist_id, domain FROM `+table+` WHERE adlist_id IN (`+strings.Join(ids, ",")+`)`, func(rows *sql.Rows) error {
		var id int64
		var domain string
		if err := rows.Scan(&id, &domain); err != nil || strings.ContainsAny(domain, "\n\r\x00") {
			return err
		}
		o := outs[id]
		if o == nil {
			l, name := byID[id], fmt.Sprintf("%s-%d", table, id)
			path, err := w.Create(name, func(io.Writer) error { return nil })
			if err != nil {
				return err
			}
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
			if err != nil {
				return err
			}
			o = &listFile{f, bufio.NewWriter(f), gravityFile{groups: l.groups, name: name, format: list.Adblock, path: path, list: id, from: l.address}}
			if input.IsURL(l.address) {
				o.url = l.address
			}
			outs[id] = o
		}
		rule, turned := strings.CutPrefix(domain, "@@")
		o.turned = o.turned || turned
		_, err := fmt.Fprintln(o.to, rule)
		return err
	})
	for _, l := range lists {
		if o := outs[l.id]; o != nil {
			files = append(files, o.gravityFile)
		}
	}
	return files, err
}

// gravityGroups reads the groups, and which clients belong to them. There are none before
// version 5.
func gravityGroups(w *build.Work, db *sql.DB, at report.Place, g *gravity) {
	groups := map[int64]string{}
	if err := eachRow(w.Ctx, db, `SELECT id, enabled, name FROM "group"`, func(rows *sql.Rows) error {
		var id int64
		var enabled int
		var name string
		err := rows.Scan(&id, &enabled, &name)
		switch {
		case err != nil:
		case enabled != 0:
			groups[id] = name
		default:
			w.Report.Add(&report.Note{Kind: report.Default, Place: at, What: "group " + name, Why: "it is switched off"})
		}
		return err
	}); err != nil {
		return
	}
	g.groups = groups
	in := groupsOf(w, db, g, "client")
	if err := eachRow(w.Ctx, db, `SELECT id, ip FROM client ORDER BY id`, func(rows *sql.Rows) error {
		var id int64
		var c gravityClient
		err := rows.Scan(&id, &c.ip)
		if c.groups = in(id); err == nil {
			g.clients = append(g.clients, c)
		}
		return err
	}); err != nil {
		w.Report.Add(&report.Note{Kind: report.Lost, Place: at, What: "clients", Why: "they cannot be read: " + err.Error()})
	}
}

// groupsOf returns a function from a row of a table to its groups.
func groupsOf(w *build.Work, db *sql.DB, g *gravity, table string) func(id int64) groupSet {
	in := map[int64][]int64{}
	err := eachRow(w.Ctx, db, `SELECT `+table+`_id, group_id FROM `+table+`_by_group`, func(rows *sql.Rows) error {
		var id, group int64
		err := rows.Scan(&id, &group)
		in[id] = append(in[id], group)
		return err
	})
	return func(id int64) groupSet {
		if err != nil {
			return everybodys // before version 5, every row applies to everybody
		}
		return g.set(in[id])
	}
}

// maxRows bounds the rows read from one table.
const maxRows = 50_000_000

// eachRow calls row with every row of a query, of which there may be maxRows.
func eachRow(ctx context.Context, db *sql.DB, query string, row func(*sql.Rows) error) error {
	ctx, cancel := context.WithCancel(ctx)
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
