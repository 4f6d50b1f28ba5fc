// Package pihole imports Pi-hole: a folder with gravity.db, or an export of Teleporter. Groups of
// clients become policies, lists and entries become lists for each set of groups, and settings of
// all versions are converted by one table.
package pihole

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"shuultuur/identity"
	"shuultuur/lib/setting"
	"shuultuur/list"
	"shuultuur/policy"
	"shuultuur/tool/importer/build"
	"shuultuur/tool/importer/input"
	"shuultuur/tool/importer/report"
)

// These are the categories of imported entries. The lists of a category are one engine.
const (
	allowed     = "allowed"
	deniedNames = "denied-names"
	allowLists  = "allow-lists"
	denied      = "denied"
)

// order is the order in which Pi-hole evaluates the categories: names and expressions
// that it allows, names that it denies, allow lists, then block lists and expressions that
// deny.
var order = []struct{ base, action string }{{allowed, "allow"}, {deniedNames, "block"}, {allowLists, "allow"}, {denied, "block"}}

// kinds has the types of Pi-hole's domainlist table, with the files in its older exports
// that have the same contents.
var kinds = []struct {
	name, category, file string
	format               list.FormatName
}{
	{"allowed", allowed, "whitelist.exact.txt", list.Domains},
	{"denied", deniedNames, "blacklist.exact.txt", list.Domains},
	{"allowed-regexps", allowed, "whitelist.regex.txt", list.Pihole},
	{"denied-regexps", denied, "blacklist.regex.txt", list.Pihole},
}

// older names of those files
var olderFiles = map[string]int{"whitelist.txt": 0, "blacklist.txt": 1, "regex.list": 3}

// A grouped is the category of lists with the same groups.
type grouped struct {
	groups groupSet
	base   string // one of order
}

// Import reads a folder with gravity.db, or with the text files of an export. Pi-hole sees only
// names: an entry is for the name itself, and an expression is searched for in the name.
func Import(w *build.Work, path string) error {
	archive := report.Place{File: path}
	path, more, err := unpackTeleporter(w.Ctx, path, filepath.Join(w.To, "teleporter"))
	if err != nil {
		return err
	}
	if more > 0 {
		w.Report.Add(&report.Note{Kind: report.Lost, Place: archive, What: fmt.Sprintf("%d files of the archive", more), Why: fmt.Sprintf("only the first %d are unpacked: unpack it yourself and import the folder", input.MaxFiles)})
	}
	dir, db := path, filepath.Join(path, "gravity.db")
	if input.IsFile(path) {
		dir, db = filepath.Dir(path), path
	}
	g := &gravity{}
	for i := range g.lines {
		g.lines[i] = map[groupSet][]string{}
	}
	if input.IsFile(db) {
		if err := readGravity(w, db, g); err != nil {
			return err
		}
	} else if _, err := os.Lstat(db); err == nil {
		build.Unread(w, db, fmt.Errorf("%s is not a file", db))
	}
	for i, t := range kinds {
		readFile(w, filepath.Join(dir, t.file), g.lines[i])
	}
	for _, name := range slices.Sorted(maps.Keys(olderFiles)) {
		readFile(w, filepath.Join(dir, name), g.lines[olderFiles[name]])
	}
	fetched := addSources(w, dir)
	w.Set.UseDNS()
	convertNames(w, dir)
	keys := convertSettings(w, dir)
	if leases := filepath.Join(dir, "dhcp.leases"); input.IsFile(leases) {
		w.Set.Identity.Names.Leases = append(w.Set.Identity.Names.Leases, setting.Source(leases))
		w.Report.Add(&report.Note{Kind: report.Carried, Place: report.Place{File: leases}, What: "dhcp.leases", Ours: "identity: names: leases"})
	}
	clients := convertClients(w, report.Place{File: db}, filepath.Join(dir, "dhcp.leases"), keys.macs, g)
	found, err := makeLists(w, db, g, clients)
	if err != nil {
		return err
	}
	if own := (grouped{everybodys, denied}); fetched && !slices.Contains(found, own) {
		found = append(found, own)
	}
	if len(found)+w.Report.Count[report.Lost]+w.Report.Count[report.Carried] == 0 {
		return fmt.Errorf("there is neither gravity.db nor a list of Pi-hole in %q", path)
	}
	before, err := keys.extra.Rules() // dnsmasq answers for all clients alike
	if err != nil {
		return err
	}
	if err := keys.dnsmasq.Rest(w); err != nil {
		return err
	}
	for _, p := range w.Set.Policies { // what it refuses by type, and by the options that are no lists
		before = append(before, p.Rules...)
	}
	w.Set.Policies = nil
	for _, c := range clients {
		w.Set.Policies = append(w.Set.Policies, policy.Policy{Name: c.name, Networks: build.PolicyNetworks(w, report.Place{File: db}, c.networks), Rules: slices.Concat(before, rulesFor(found, c.groups))})
	}
	w.Set.Policies = append(w.Set.Policies, policy.Policy{Name: "everyone", Rules: slices.Concat(before, rulesFor(found, g.set([]int64{0})))})
	limitQueries(w, keys.limit)
	return nil
}

// makeLists makes the lists that some client uses, and returns the non-empty
// categories.
func makeLists(w *build.Work, db string, g *gravity, clients []client) (found []grouped, err error) {
	add := func(f gravityFile) error {
		if f.path == "" { // an export has the addresses of lists but not their contents
			category := f.groups.name(f.base)
			fetch(w, f.url, category)
			w.Report.Add(&report.Note{Kind: report.Carried, Place: report.Place{File: db}, What: "adlist: " + f.url, Ours: "lists: url", Why: "fetched when the gateway starts"})
			if c := (grouped{f.groups, f.base}); !slices.Contains(found, c) {
				found = append(found, c)
			}
			return nil
		}
		cfg := list.Config{Format: f.format, Path: setting.Source(f.path), Category: f.groups.name(f.base), Match: list.Boundary}
		if cfg.Format != list.Pihole {
			cfg.Subdomains = new(bool)
		}
		name := f.groups.name(f.name)
		at := report.Place{File: f.path, Text: name}
		if f.from != "" {
			at = report.Place{File: db, Text: "adlist: " + f.from}
		}
		if f.url != "" {
			name = build.AddressName(f.url)
		}
		name, err := w.AddList(name, cfg, at)
		if err == nil && name != "" && f.url != "" && !f.turned {
			err = w.KeepFetching(name, f.url)
		} else if name != "" && f.turned && f.url != "" {
			at.Text = "adlist: " + f.url
			w.Report.Add(&report.Note{Kind: report.Changed, Place: at, What: at.Text, Ours: "lists." + name, Why: "as Pi-hole fetched it, with its allowed names as exceptions, which no published list has; import again to renew it"})
		}
		if c := (grouped{f.groups, f.base}); name != "" && !slices.Contains(found, c) {
			found = append(found, c)
		}
		return err
	}
	for i, t := range kinds {
		for _, groups := range slices.Sorted(maps.Keys(g.lines[i])) {
			if !isUsed(w, g, groups, clients, t.name) {
				continue
			}
			path, err := w.Create(groups.name(t.name), func(to io.Writer) error {
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
		if !isUsed(w, g, f.groups, clients, cmp.Or(f.url, f.name)) {
			continue
		}
		if err := add(f); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// rulesFor returns the rules of clients in some groups. Adjacent block rules
// are joined.
func rulesFor(found []grouped, groups groupSet) (rules []policy.Rule) {
	for _, o := range order {
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

// isUsed reports whether a client belongs to one of the groups of a list. If none does, it adds a
// note.
func isUsed(w *build.Work, g *gravity, groups groupSet, clients []client, what string) bool {
	if groups.meets(g.set([]int64{0})) || slices.ContainsFunc(clients, func(c client) bool { return groups.meets(c.groups) }) {
		return true
	}
	w.Report.Add(&report.Note{Kind: report.Lost, What: what + " of " + g.words(groups), Why: "no client is in a group that uses them"})
	return false
}

// A client is a policy: clients of the same groups, whose networks have the same size.
type client struct {
	name     string
	networks []string
	groups   groupSet
	wide     int // bits of an address that the networks leave open
}

// convertClients returns the clients for which Pi-hole has groups. Those of narrow networks come
// first, as in Pi-hole. macs has the addresses that are always leased to a MAC.
func convertClients(w *build.Work, at report.Place, leases string, macs map[string]string, g *gravity) (all []client) {
	if data, err := input.Whole(leases); err == nil {
		identity.ReadNames(data, func(d identity.Device) { macs[d.MAC] = cmp.Or(macs[d.MAC], d.Addr.String()) })
	}
	taken := map[string]bool{}
	for _, c := range g.clients {
		what := fmt.Sprintf("client %q", c.ip)
		network, why := build.ClientNetwork(c.ip, macs)
		if network != "" && taken[network] {
			network, why = "", "another client is at "+network
		}
		if network == "" {
			n := &report.Note{Kind: report.Lost, Place: at, What: what + " of " + g.words(c.groups), Why: why}
			if c.groups != g.set([]int64{0}) { // it gets what everybody gets
				n.Effect = report.Opens
			}
			w.Report.Add(n)
			continue
		}
		taken[network] = true
		wide := 0
		if p, err := netip.ParsePrefix(network); err == nil {
			wide = p.Addr().BitLen() - p.Bits()
		}
		i := slices.IndexFunc(all, func(x client) bool { return x.groups == c.groups && x.wide == wide })
		if i < 0 {
			name := g.words(c.groups)
			if slices.ContainsFunc(all, func(x client) bool { return x.name == name }) {
				name += fmt.Sprintf(" (%d)", len(all)+1)
			}
			i, all = len(all), append(all, client{name: name, groups: c.groups, wide: wide})
		}
		all[i].networks = append(all[i].networks, network)
		n := &report.Note{Kind: report.Carried, Place: at, What: what, Ours: fmt.Sprintf("policy %q", all[i].name)}
		if why != "" {
			n.Kind, n.Why = report.Changed, why
		}
		w.Report.Add(n)
	}
	slices.SortStableFunc(all, func(a, b client) int { return a.wide - b.wide })
	return all
}

func readFile(w *build.Work, path string, to map[groupSet][]string) {
	data, err := input.Whole(path)
	if err != nil {
		build.Unread(w, path, err)
		return
	}
	w.Report.Add(&report.Note{Kind: report.Carried, Place: report.Place{File: path}, What: filepath.Base(path), Ours: "lists"})
	seen := map[string]int{}
	build.Unread(w, path, input.EachLine(path, bytes.NewReader(data), func(n int, s []byte) error {
		if s[0] == '#' {
			return nil
		}
		text := string(s)
		if before, twice := seen[text]; twice {
			w.Report.Duplicates++
			w.Report.Add(&report.Note{Kind: report.Line, Place: report.Place{File: path, Line: n}, What: fmt.Sprintf("%q is in line %d already", text, before)})
			return nil
		}
		seen[text] = n
		to[everybodys] = append(to[everybodys], text)
		return nil
	}))
}

// addSources adds the lists that an old export names, and reports whether there are any.
func addSources(w *build.Work, dir string) (some bool) {
	for _, name := range []string{"adlists.list", "adlist.txt", "adlists.txt"} {
		w.Lines(filepath.Join(dir, name), func(at report.Place, s string) {
			if s[0] != '#' {
				if !input.IsURL(s) {
					w.Report.Add(&report.Note{Kind: report.Lost, Place: at, What: s, Ours: "lists", Why: "a list has an address or a file: name the file with path under lists"})
					return
				}
				fetch(w, s, denied)
				some = true
				w.Report.Add(&report.Note{Kind: report.Carried, Place: at, What: s, Ours: "lists: url", Why: "fetched when the gateway starts"})
			}
		})
	}
	return some
}

// fetch adds a list that is not here yet. Its names do not include subdomains.
func fetch(w *build.Work, address, category string) {
	w.Fetch(build.AddressName(address), address, list.Config{Category: category, Format: list.Adblock, Subdomains: new(bool)})
}
