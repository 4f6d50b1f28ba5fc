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
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	_ "modernc.org/sqlite" // the driver for gravity.db

	"shuultuur/arrange"
	"shuultuur/identity"
	"shuultuur/list"
	"shuultuur/list/collection"
	"shuultuur/policy"
	"shuultuur/setting"
)

// These are the categories of imported entries. The lists of a category are one engine.
const (
	piholeAllowed = "allowed"
	piholeNames   = "denied-names"
	piholeListed  = "allow-lists"
	piholeDenied  = "denied"
)

// piholeOrder is the order in which Pi-hole evaluates the categories: names and expressions
// that it allows, names that it denies, allow lists, then block lists and expressions that
// deny.
var piholeOrder = []struct{ base, action string }{{piholeAllowed, "allow"}, {piholeNames, "block"}, {piholeListed, "allow"}, {piholeDenied, "block"}}

// piholeTypes has the types of Pi-hole's domainlist table, with the files in its older exports
// that have the same contents.
var piholeTypes = []struct{ name, category, file, format string }{
	{"allowed", piholeAllowed, "whitelist.exact.txt", list.Domains},
	{"denied", piholeNames, "blacklist.exact.txt", list.Domains},
	{"allowed-regexps", piholeAllowed, "whitelist.regex.txt", list.Pihole},
	{"denied-regexps", piholeDenied, "blacklist.regex.txt", list.Pihole},
}

// older names of those files
var piholeOlder = map[string]int{"whitelist.txt": 0, "blacklist.txt": 1, "regex.list": 3}

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

// A piholeCategory is the category of lists with the same groups.
type piholeCategory struct {
	groups groupSet
	base   string // one of piholeOrder
}

// pihole reads a folder with gravity.db, or with the text files of an export. Pi-hole sees only
// names: an entry is for the name itself, and an expression is searched for in the name.
func (w *work) pihole(path string) error {
	archive := place{file: path}
	path, more, err := unpackTeleporter(w.ctx, path, filepath.Join(w.to, "teleporter"))
	if err != nil {
		return err
	}
	if more > 0 {
		w.rep.add(&Note{Kind: Lost, place: archive, What: fmt.Sprintf("%d files of the archive", more), Why: fmt.Sprintf("only the first %d are unpacked: unpack it yourself and import the folder", maxFiles)})
	}
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
	} else if _, err := os.Lstat(db); err == nil {
		unread(w, db, fmt.Errorf("%s is not a file", db))
	}
	for i, t := range piholeTypes {
		piholeFile(w, filepath.Join(dir, t.file), g.lines[i])
	}
	for _, name := range sortedKeys(piholeOlder) {
		piholeFile(w, filepath.Join(dir, name), g.lines[piholeOlder[name]])
	}
	piholeSources(w, dir)
	w.set.dns()
	w.piholeNames(dir)
	keys := piholeSettings(w, dir)
	if leases := filepath.Join(dir, "dhcp.leases"); isFile(leases) {
		w.set.Identity.Names.Leases = append(w.set.Identity.Names.Leases, setting.Source(leases))
		w.rep.add(&Note{Kind: Carried, place: place{file: leases}, What: "dhcp.leases", Ours: "identity: names: leases"})
	}
	clients := w.piholeClients(place{file: db}, filepath.Join(dir, "dhcp.leases"), keys.macs, g)
	found, err := piholeLists(w, db, g, clients)
	if err != nil {
		return err
	}
	if own := (piholeCategory{everybodys, piholeDenied}); w.fetched && !slices.Contains(found, own) {
		found = append(found, own)
	}
	if len(found)+w.rep.Count[Lost]+w.rep.Count[Carried] == 0 {
		return fmt.Errorf("there is neither gravity.db nor a list of Pi-hole in %q", path)
	}
	before, err := keys.extra.rules() // dnsmasq answers for all clients alike
	if err != nil {
		return err
	}
	for _, p := range w.set.Policies { // what it refuses by type
		before = append(before, p.Rules...)
	}
	w.set.Policies = nil
	for _, c := range clients {
		w.set.Policies = append(w.set.Policies, policy.Policy{Name: c.name, Networks: policyNetworks(w, place{file: db}, c.networks), Rules: slices.Concat(before, piholeRules(found, c.groups))})
	}
	w.set.Policies = append(w.set.Policies, policy.Policy{Name: "everyone", Rules: slices.Concat(before, piholeRules(found, g.set([]int64{0})))})
	limitQueries(w, keys.limit)
	return nil
}

// piholeLists makes the lists that some client uses, and returns the non-empty
// categories.
func piholeLists(w *work, db string, g *gravity, clients []piholeClient) (found []piholeCategory, err error) {
	add := func(f gravityFile) error {
		if f.path == "" { // an export has the addresses of lists but not their contents
			category := f.groups.name(f.base)
			piholeFetched(w, f.url, category)
			w.rep.add(&Note{Kind: Carried, place: place{file: db}, What: "adlist: " + f.url, Ours: "lists: url", Why: "fetched when the gateway starts"})
			if c := (piholeCategory{f.groups, f.base}); !slices.Contains(found, c) {
				found = append(found, c)
			}
			return nil
		}
		cfg := list.Config{Format: f.format, Path: setting.Source(f.path), Category: f.groups.name(f.base), Match: list.Boundary}
		if cfg.Format != list.Pihole {
			cfg.Subdomains = new(bool)
		}
		name := f.groups.name(f.name)
		at := place{file: f.path, what: name}
		if f.from != "" {
			at = place{file: db, what: "adlist: " + f.from}
		}
		if f.url != "" {
			name = addressName(f.url)
		}
		name, err := w.addList(name, cfg, at)
		if err == nil && name != "" && f.url != "" && !f.turned {
			err = w.keepFetching(name, f.url)
		} else if name != "" && f.turned && f.url != "" {
			at.what = "adlist: " + f.url
			w.rep.add(&Note{Kind: Changed, place: at, What: at.what, Ours: "lists." + name, Why: "as Pi-hole fetched it, with its allowed names as exceptions, which no published list has; import again to renew it"})
		}
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
			path, err := w.create(groups.name(t.name), func(to io.Writer) error {
				_, err := io.WriteString(to, strings.Join(g.lines[i][groups], "\n")+"\n")
				return err
			})
			if err != nil {
				return nil, err
			}
			if err := add(gravityFile{groups: groups, name: t.name, base: t.category, format: t.format, path: path}); err != nil {
				return nil, err
			}
		}
	}
	for _, f := range g.files {
		if !w.used(g, f.groups, clients, cmp.Or(f.url, f.name)) {
			continue
		}
		if err := add(f); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// piholeRules returns the rules of clients in some groups. Adjacent block rules
// are joined.
func piholeRules(found []piholeCategory, groups groupSet) (rules []policy.Rule) {
	for _, o := range piholeOrder {
		var categories []string
		for _, c := range found {
			if c.base == o.base && c.groups.meets(groups) {
				categories = append(categories, "category/"+c.groups.name(c.base))
			}
		}
		last := len(rules) - 1
		switch {
		case len(categories) == 0:
		case last >= 0 && rules[last].Action == o.action:
			rules[last].Name, rules[last].Category = o.base, append(rules[last].Category, categories...)
		default:
			rules = append(rules, policy.Rule{Name: o.base, Action: o.action, Category: categories})
		}
	}
	return rules
}

// used reports whether a client belongs to one of the groups of a list. If none does, it adds a
// note.
func (w *work) used(g *gravity, groups groupSet, clients []piholeClient, what string) bool {
	if groups.meets(g.set([]int64{0})) || slices.ContainsFunc(clients, func(c piholeClient) bool { return groups.meets(c.groups) }) {
		return true
	}
	w.rep.add(&Note{Kind: Lost, What: what + " of " + g.words(groups), Why: "no client is in a group that uses them"})
	return false
}

// A piholeClient is a policy: clients of the same groups, whose networks have the same size.
type piholeClient struct {
	name     string
	networks []string
	groups   groupSet
	wide     int // bits of an address that the networks leave open
}

// piholeClients returns the clients for which Pi-hole has groups. Those of narrow networks come
// first, as in Pi-hole. macs has the addresses that are always leased to a MAC.
func (w *work) piholeClients(at place, leases string, macs map[string]string, g *gravity) (all []piholeClient) {
	if data, err := readWhole(leases); err == nil {
		identity.ReadNames(data, func(d identity.Device) { macs[d.MAC] = cmp.Or(macs[d.MAC], d.Addr.String()) })
	}
	taken := map[string]bool{}
	for _, c := range g.clients {
		what := fmt.Sprintf("client %q", c.ip)
		network, why := clientNetwork(c.ip, macs)
		if network != "" && taken[network] {
			network, why = "", "another client is at "+network
		}
		if network == "" {
			w.rep.add(&Note{Kind: Lost, place: at, What: what + " of " + g.words(c.groups), Why: why})
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
		n := &Note{Kind: Carried, place: at, What: what, Ours: fmt.Sprintf("policy %q", all[i].name)}
		if why != "" {
			n.Kind, n.Why = Changed, why
		}
		w.rep.add(n)
	}
	arrange.By(all, func(a, b piholeClient) int { return a.wide - b.wide })
	return all
}

func piholeFile(w *work, path string, to map[groupSet][]string) {
	data, err := readWhole(path)
	if err != nil {
		unread(w, path, err)
		return
	}
	w.rep.add(&Note{Kind: Carried, place: place{file: path}, What: filepath.Base(path), Ours: "lists"})
	seen := map[string]int{}
	unread(w, path, eachLine(path, bytes.NewReader(data), func(n int, s []byte) error {
		if s[0] == '#' {
			return nil
		}
		text := string(s)
		if before, twice := seen[text]; twice {
			w.rep.Duplicates++
			w.rep.add(&Note{Kind: Line, place: place{file: path, line: n}, What: fmt.Sprintf("%q is in line %d already", text, before)})
			return nil
		}
		seen[text] = n
		to[everybodys] = append(to[everybodys], text)
		return nil
	}))
}

func piholeSources(w *work, dir string) {
	for _, name := range []string{"adlists.list", "adlist.txt", "adlists.txt"} {
		w.lines(filepath.Join(dir, name), func(at place, s string) {
			if s[0] != '#' {
				if !isURL(s) {
					w.rep.add(&Note{Kind: Lost, place: at, What: s, Ours: "lists", Why: "a list has an address or a file: name the file with path under lists"})
					return
				}
				piholeFetched(w, s, piholeDenied)
				w.fetched = true
				w.rep.add(&Note{Kind: Carried, place: at, What: s, Ours: "lists: url", Why: "fetched when the gateway starts"})
			}
		})
	}
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
	groups                   groupSet
	name, base, format, path string

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

// gravity reads gravity.db: groups and clients, the administrator's own entries, and the names
// and rules of all lists, which it writes to files. Long because each option has a case.
func (w *work) gravity(path string, g *gravity) (err error) {
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?mode=ro&immutable=1")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	at := place{file: path}
	gravityGroups(w, db, at, g)
	entries, lists := groupsOf(w, db, g, "domainlist"), groupsOf(w, db, g, "adlist")
	err = eachRow(w.ctx, db, `SELECT id, type, domain, enabled FROM domainlist ORDER BY id`, func(rows *sql.Rows) error {
		var id int64
		var kind, enabled int
		var domain string
		if err := rows.Scan(&id, &kind, &domain, &enabled); err != nil {
			return err
		}
		switch {
		case strings.ContainsAny(domain, "\n\r\x00") || kind < 0 || kind > 3:
			w.rep.add(&Note{Kind: Line, place: at, What: fmt.Sprintf("domainlist: %q", domain), Why: "left out"})
		case enabled == 0:
			w.rep.add(&Note{Kind: Default, place: at, What: "domainlist: " + domain, Why: "it is switched off"})
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
	if err := eachRow(w.ctx, db, `SELECT id, address, enabled FROM adlist ORDER BY id`, func(rows *sql.Rows) error {
		l := gravityList{}
		var enabled int
		if err := rows.Scan(&l.id, &l.address, &enabled); err != nil {
			return err
		}
		if l.groups = lists(l.id); enabled == 0 {
			w.rep.add(&Note{Kind: Default, place: at, What: "adlist: " + l.address, Why: "it is switched off"})
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
	_ = eachRow(w.ctx, db, `SELECT id FROM adlist WHERE type = 1`, func(rows *sql.Rows) error {
		var id int64
		err := rows.Scan(&id)
		bases[id] = piholeListed
		return err
	})
	filled := map[int64]bool{}
	for _, table := range []struct{ name, base string }{{"gravity", piholeDenied}, {"antigravity", piholeListed}} {
		if err := db.QueryRowContext(w.ctx, `SELECT 1 FROM sqlite_master WHERE name = ?`, table.name).Scan(new(int)); err != nil {
			continue // there are no allow lists before version 6
		}
		for part := range slices.Chunk(all, 100) {
			files, err := w.gravityLists(db, table.name, part)
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
		case isURL(l.address):
			g.files = append(g.files, gravityFile{groups: l.groups, base: cmp.Or(bases[l.id], piholeDenied), url: l.address, from: l.address})
		default:
			w.rep.add(&Note{Kind: Lost, place: at, What: "adlist: " + l.address, Ours: "lists", Why: "there is no copy of it here and no address to fetch it from: name its file with path under lists"})
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
func (w *work) gravityLists(db *sql.DB, table string, lists []gravityList) (files []gravityFile, err error) {
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
	err = eachRow(w.ctx, db, `SELECT adlist_id, domain FROM `+table+` WHERE adlist_id IN (`+strings.Join(ids, ",")+`)`, func(rows *sql.Rows) error {
		var id int64
		var domain string
		if err := rows.Scan(&id, &domain); err != nil || strings.ContainsAny(domain, "\n\r\x00") {
			return err
		}
		o := outs[id]
		if o == nil {
			l, name := byID[id], fmt.Sprintf("%s-%d", table, id)
			path, err := w.create(name, func(io.Writer) error { return nil })
			if err != nil {
				return err
			}
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
			if err != nil {
				return err
			}
			o = &listFile{f, bufio.NewWriter(f), gravityFile{groups: l.groups, name: name, format: list.Adblock, path: path, list: id, from: l.address}}
			if isURL(l.address) {
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

// piholeFetched adds a list that is not here yet. Its names do not include subdomains.
func piholeFetched(w *work, address, category string) {
	name := w.freeName(addressName(address))
	w.lists[name] = list.Config{Category: category}
	l := collection.List{Config: list.Config{Category: category, Format: list.Adblock, Subdomains: new(bool)}}
	l.Fetch.URL = address
	if w.set.Lists == nil {
		w.set.Lists = collection.Config{}
	}
	w.set.Lists[name] = l
}

// gravityGroups reads the groups, and which clients belong to them. There are none before
// version 5.
func gravityGroups(w *work, db *sql.DB, at place, g *gravity) {
	groups := map[int64]string{}
	if err := eachRow(w.ctx, db, `SELECT id, enabled, name FROM "group"`, func(rows *sql.Rows) error {
		var id int64
		var enabled int
		var name string
		err := rows.Scan(&id, &enabled, &name)
		switch {
		case err != nil:
		case enabled != 0:
			groups[id] = name
		default:
			w.rep.add(&Note{Kind: Default, place: at, What: "group " + name, Why: "it is switched off"})
		}
		return err
	}); err != nil {
		return
	}
	g.groups = groups
	in := groupsOf(w, db, g, "client")
	if err := eachRow(w.ctx, db, `SELECT id, ip FROM client ORDER BY id`, func(rows *sql.Rows) error {
		var id int64
		var c gravityClient
		err := rows.Scan(&id, &c.ip)
		if c.groups = in(id); err == nil {
			g.clients = append(g.clients, c)
		}
		return err
	}); err != nil {
		w.rep.add(&Note{Kind: Lost, place: at, What: "clients", Why: "they cannot be read: " + err.Error()})
	}
}

// groupsOf returns a function from a row of a table to its groups.
func groupsOf(w *work, db *sql.DB, g *gravity, table string) func(id int64) groupSet {
	in := map[int64][]int64{}
	err := eachRow(w.ctx, db, `SELECT `+table+`_id, group_id FROM `+table+`_by_group`, func(rows *sql.Rows) error {
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
