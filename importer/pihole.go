package importer

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	_ "modernc.org/sqlite" // the driver for gravity.db

	"shuultuur/identity"
	"shuultuur/list"

	"shuultuur/policy"
	"shuultuur/setting"
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

// A groupSet is the groups of Pi-hole that an entry, a list or a client is in:
// their numbers, in order, with commas between. One that is switched off is none.
type groupSet string

// everybody's is the group of clients that nothing is said of, and of what comes
// from text files.
const everybodys groupSet = "0"

func (s groupSet) meets(other groupSet) bool {
	for id := range strings.SplitSeq(string(s), ",") {
		if id != "" && slices.Contains(strings.Split(string(other), ","), id) {
			return true
		}
	}
	return false
}

// name is that of a list or category, of which there is one for each set of groups.
func (s groupSet) name(list string) string {
	if s == everybodys {
		return list
	}
	return list + "-" + strings.ReplaceAll(cmp.Or(string(s), "none"), ",", "-")
}

// A piholeCategory is that of the lists that the same groups have.
type piholeCategory struct {
	groups groupSet
	base   string // piholeAllowed or piholeDenied
}

// pihole reads a folder with gravity.db, or with the text files of an export.
// Pi-hole sees names only: an entry is for the name itself, an expression is
// searched for in it.
func (w *work) pihole(path string) error {
	dir, db := path, filepath.Join(path, "gravity.db")
	if isFile(path) {
		dir, db = filepath.Dir(path), path
	}
	g := &gravity{}
	for i := range g.lines {
		g.lines[i] = map[groupSet][]string{}
	}
	if isFile(db) {
		if err := w.gravity(db, g); err != nil {
			return err
		}
	}
	for i, t := range piholeTypes {
		w.piholeFile(filepath.Join(dir, t.file), g.lines[i])
	}
	for _, name := range sortedKeys(piholeOlder) {
		w.piholeFile(filepath.Join(dir, name), g.lines[piholeOlder[name]])
	}
	w.piholeSources(dir)
	w.set.dns()
	w.piholeNames(dir)
	clients := w.piholeClients(place{file: db}, filepath.Join(dir, "dhcp.leases"), g)
	var found []piholeCategory // those with anything in them
	add := func(f gravityFile) error {
		cfg := list.Config{Format: f.format, Path: setting.Source(f.path), Category: f.groups.name(f.base), Match: list.Boundary}
		if cfg.Format == list.Domains {
			cfg.Subdomains = new(bool)
		}
		name := f.groups.name(f.name)
		name, err := w.addList(name, cfg, place{file: f.path, what: name})
		if c := (piholeCategory{f.groups, f.base}); name != "" && !slices.Contains(found, c) {
			found = append(found, c)
		}
		return err
	}
	for i, t := range piholeTypes {
		for _, groups := range sortedKeys(g.lines[i]) {
			if !w.used(g, groups, clients, t.name) {
				continue
			}
			path, err := w.own(groups.name(t.name), func(to io.Writer) error {
				_, err := io.WriteString(to, strings.Join(g.lines[i][groups], "\n")+"\n")
				return err
			})
			if err != nil {
				return err
			}
			if err := add(gravityFile{groups, t.name, t.category, t.format, path}); err != nil {
				return err
			}
		}
	}
	for _, f := range g.files {
		if !w.used(g, f.groups, clients, f.name) {
			continue
		}
		if err := add(f); err != nil {
			return err
		}
	}
	if len(found)+w.rep.Count[Lost] == 0 {
		return fmt.Errorf("there is neither gravity.db nor a list of Pi-hole in %q", path)
	}
	for _, c := range clients {
		w.set.Policies = append(w.set.Policies, policy.Policy{Name: c.name, Networks: asNetworks(c.networks), Rules: piholeRules(found, c.groups)})
	}
	w.set.Policies = append(w.set.Policies, policy.Policy{Name: "everyone", Rules: piholeRules(found, g.set([]int64{0}))})
	return nil
}

// piholeRules are what clients in some groups get.
func piholeRules(found []piholeCategory, groups groupSet) (rules []policy.Rule) {
	var allow, block []string
	for _, c := range found {
		switch {
		case !c.groups.meets(groups):
		case c.base == piholeAllowed:
			allow = append(allow, "category/"+c.groups.name(c.base))
		default:
			block = append(block, "category/"+c.groups.name(c.base))
		}
	}
	if len(allow) > 0 {
		rules = append(rules, policy.Rule{Name: "allowed", Action: "allow", Category: allow})
	}
	if len(block) > 0 {
		rules = append(rules, policy.Rule{Name: "denied", Action: "block", Category: block})
	}
	return rules
}

// used says whether anybody is in one of the groups that have a list, and else
// reports it.
func (w *work) used(g *gravity, groups groupSet, clients []piholeClient, what string) bool {
	if groups.meets(g.set([]int64{0})) || slices.ContainsFunc(clients, func(c piholeClient) bool { return groups.meets(c.groups) }) {
		return true
	}
	w.rep.add(Note{Kind: Lost, What: what + " of " + g.words(groups), Why: "no client is in a group that has them"})
	return false
}

// A piholeClient is a policy: clients of the same groups, whose networks have the
// same size.
type piholeClient struct {
	name     string
	networks []string
	groups   groupSet
	wide     int // bits of an address that the networks leave open
}

// piholeClients are the clients that Pi-hole has groups for, those of narrow
// networks first, as there.
func (w *work) piholeClients(at place, leases string, g *gravity) (all []piholeClient) {
	macs := map[string]string{}
	if data, err := readWhole(leases); err == nil {
		identity.ReadNames(data, func(d identity.Device) { macs[d.MAC] = d.Addr.String() })
	}
	taken := map[string]bool{}
	for _, c := range g.clients {
		what := fmt.Sprintf("client %q", c.ip)
		network, why := clientNetwork(c.ip, macs)
		if network != "" && taken[network] {
			network, why = "", "another client is at "+network
		}
		if network == "" {
			w.rep.add(Note{Kind: Lost, place: at, What: what + " of " + g.words(c.groups), Why: why})
			continue
		}
		taken[network] = true
		wide := 0
		if p, err := netip.ParsePrefix(network); err == nil {
			wide = p.Addr().BitLen() - p.Bits()
		}
		i := slices.IndexFunc(all, func(x piholeClient) bool { return x.groups == c.groups && x.wide == wide })
		if i < 0 {
			name := g.words(c.groups)
			if slices.ContainsFunc(all, func(x piholeClient) bool { return x.name == name }) {
				name += fmt.Sprintf(" (%d)", len(all)+1)
			}
			i, all = len(all), append(all, piholeClient{name: name, groups: c.groups, wide: wide})
		}
		all[i].networks = append(all[i].networks, network)
		n := Note{Kind: Carried, place: at, What: what, Ours: fmt.Sprintf("policy %q", all[i].name)}
		if why != "" {
			n.Kind, n.Why = Changed, why
		}
		w.rep.add(n)
	}
	slices.SortStableFunc(all, func(a, b piholeClient) int { return a.wide - b.wide })
	return all
}

func (w *work) piholeFile(path string, to map[groupSet][]string) {
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
		to[everybodys] = append(to[everybodys], text)
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

// gravity is what gravity.db says.
type gravity struct {
	groups  map[int64]string         // those that are switched on; nil: there are none, before version 5
	lines   [4]map[groupSet][]string // the administrator's own entries, by kind
	files   []gravityFile
	clients []gravityClient
}

// A gravityFile holds names or rules of the lists that the same groups have.
type gravityFile struct {
	groups                   groupSet
	name, base, format, path string
}

type gravityClient struct {
	ip     string // or a network, a MAC, a name, an interface
	groups groupSet
}

// mostSets bounds the sets of groups that lists are made for.
const mostSets = 64

// set makes a set of those of some groups that are switched on.
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

// words says to a person which groups a set has.
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

// gravity reads gravity.db: groups and clients, the administrator's own entries,
// and the names and rules of all lists, which it puts into files.
func (w *work) gravity(path string, g *gravity) (err error) {
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?mode=ro&immutable=1")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	at := place{file: path}
	w.gravityGroups(db, at, g)
	entries, lists := w.groupsOf(db, g, "domainlist"), w.groupsOf(db, g, "adlist")
	err = w.each(db, `SELECT id, type, domain, enabled FROM domainlist ORDER BY id`, func(rows *sql.Rows) error {
		var id int64
		var kind, enabled int
		var domain string
		if err := rows.Scan(&id, &kind, &domain, &enabled); err != nil {
			return err
		}
		switch {
		case strings.ContainsAny(domain, "\n\r\x00") || kind < 0 || kind > 3:
			w.rep.add(Note{Kind: Line, place: at, What: fmt.Sprintf("domainlist: %q", domain), Why: "left out"})
		case enabled == 0:
			w.rep.add(Note{Kind: Lost, place: at, What: "domainlist: " + domain, Why: "it is switched off"})
		default:
			s := entries(id)
			g.lines[kind][s] = append(g.lines[kind][s], domain)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("reading domainlist of %q: %w", path, err)
	}
	ids := map[groupSet][]string{} // of lists that are switched on
	if err := w.each(db, `SELECT id, address, enabled FROM adlist ORDER BY id`, func(rows *sql.Rows) error {
		var id int64
		var address string
		var enabled int
		if err := rows.Scan(&id, &address, &enabled); err != nil {
			return err
		}
		s := lists(id)
		n := Note{Kind: Carried, place: at, What: "adlist: " + address, Ours: "lists." + s.name("gravity"), Why: "as it was when Pi-hole fetched it"}
		if enabled == 0 {
			n.Kind, n.Ours, n.Why = Lost, "", "it is switched off"
		} else {
			ids[s] = append(ids[s], strconv.FormatInt(id, 10))
		}
		w.rep.add(n)
		return nil
	}); err != nil {
		return fmt.Errorf("reading adlist of %q: %w", path, err)
	}
	for _, n := range []int{len(ids), len(g.lines[0]), len(g.lines[1]), len(g.lines[2]), len(g.lines[3])} {
		if n > mostSets {
			return fmt.Errorf("%q: lists and entries are in more than %d sets of groups", path, mostSets)
		}
	}
	for _, table := range []struct{ name, base string }{{"gravity", piholeDenied}, {"antigravity", piholeAllowed}} {
		if err := db.QueryRowContext(w.ctx, `SELECT 1 FROM sqlite_master WHERE name = ?`, table.name).Scan(new(int)); err != nil {
			continue // there are no allow lists before version 6
		}
		// A rule of an ad blocker stands for what is below its host too, so those
		// are a list of their own.
		for _, s := range sortedKeys(ids) {
			for _, f := range []gravityFile{{s, table.name + "-rules", table.base, list.Adblock, ""}, {s, table.name, table.base, list.Domains, ""}} {
				if f.path, err = w.own(s.name(f.name), w.gravityNames(db, table.name, f.format == list.Adblock, ids[s])); err != nil {
					return err
				}
				g.files = append(g.files, f)
			}
		}
	}
	return nil
}

// gravityNames writes the names of some lists: those like a rule, or the others. In allow lists rules are exceptions; here they are what
// is allowed.
func (w *work) gravityNames(db *sql.DB, table string, rules bool, ids []string) func(io.Writer) error {
	not := "NOT "
	if rules {
		not = ""
	}
	return func(to io.Writer) error {
		b := bufio.NewWriter(to)
		err := w.each(db, `SELECT DISTINCT domain FROM `+table+` WHERE adlist_id IN (`+strings.Join(ids, ",")+`) AND `+not+`(domain LIKE '||%' OR domain LIKE '@@%')`, func(rows *sql.Rows) error {
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

// gravityGroups reads groups, and which clients are in them. There are none
// before version 5.
func (w *work) gravityGroups(db *sql.DB, at place, g *gravity) {
	groups := map[int64]string{}
	if err := w.each(db, `SELECT id, enabled, name FROM "group"`, func(rows *sql.Rows) error {
		var id int64
		var enabled int
		var name string
		err := rows.Scan(&id, &enabled, &name)
		switch {
		case err != nil:
		case enabled != 0:
			groups[id] = name
		default:
			w.rep.add(Note{Kind: Lost, place: at, What: "group " + name, Why: "it is switched off"})
		}
		return err
	}); err != nil {
		return
	}
	g.groups = groups
	in := w.groupsOf(db, g, "client")
	if err := w.each(db, `SELECT id, ip FROM client ORDER BY id`, func(rows *sql.Rows) error {
		var id int64
		var c gravityClient
		err := rows.Scan(&id, &c.ip)
		if c.groups = in(id); err == nil {
			g.clients = append(g.clients, c)
		}
		return err
	}); err != nil {
		w.rep.add(Note{Kind: Lost, place: at, What: "clients", Why: "they cannot be read: " + err.Error()})
	}
}

// groupsOf returns what says in which groups a row of a table is.
func (w *work) groupsOf(db *sql.DB, g *gravity, table string) func(id int64) groupSet {
	in := map[int64][]int64{}
	err := w.each(db, `SELECT `+table+`_id, group_id FROM `+table+`_by_group`, func(rows *sql.Rows) error {
		var id, group int64
		err := rows.Scan(&id, &group)
		in[id] = append(in[id], group)
		return err
	})
	return func(id int64) groupSet {
		if err != nil {
			return everybodys // all are, before version 5
		}
		return g.set(in[id])
	}
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
