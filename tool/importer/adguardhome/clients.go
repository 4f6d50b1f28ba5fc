package adguardhome

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"shuultuur/lib/setting"
	"shuultuur/policy"
	"shuultuur/tool/importer/build"
	"shuultuur/tool/importer/input"
	"shuultuur/tool/importer/report"
)

// client is one of the clients that AdGuard Home has settings for.
type client struct {
	Name             string         `yaml:"name"`
	IDs              []string       `yaml:"ids"`
	Tags             []string       `yaml:"tags"`
	Upstreams        []string       `yaml:"upstreams"`
	Global           bool           `yaml:"use_global_settings"`
	GlobalServices   bool           `yaml:"use_global_blocked_services"`
	Filtering        bool           `yaml:"filtering_enabled"`
	Parental         bool           `yaml:"parental_enabled"`
	SafeBrowsing     bool           `yaml:"safebrowsing_enabled"`
	SafeSearch       map[string]any `yaml:"safe_search"`
	OlderSafeSearch  bool           `yaml:"safesearch_enabled"`
	Services         any            `yaml:"blocked_services"`
	IgnoreQueryLog   bool           `yaml:"ignore_querylog"`
	IgnoreStatistics bool           `yaml:"ignore_statistics"`

	all map[string]any // every key, as leaves gives them
}

// readClients has the clients of the settings, which older files have as a list.
func readClients(n yaml.Node) (all []client, err error) {
	var keys []map[string]any
	switch n.Kind {
	case yaml.SequenceNode:
		err = errors.Join(n.Load(&all), n.Load(&keys))
	case yaml.MappingNode:
		var m struct {
			Persistent []client `yaml:"persistent"`
		}
		var k struct {
			Persistent []map[string]any `yaml:"persistent"`
		}
		err = errors.Join(n.Load(&m), n.Load(&k))
		all, keys = m.Persistent, k.Persistent
	}
	for i, k := range keys[:min(len(keys), len(all))] {
		all[i].all = map[string]any{}
		input.Leaves(k, "", all[i].all)
	}
	return all, err
}

// convertClients makes a user of each client, with its addresses. A client with settings of its
// own gets a policy, in front of the policy for everyone, which is given.
func convertClients(w *build.Work, file input.Tree, clients []client, everyone policy.Policy) (policies []policy.Policy) {
	leases := readLeases(w, filepath.Join(filepath.Dir(file.Path), "data", "leases.json"))
	users, ids, taken := map[string][]string{}, map[string][]string{}, map[string]string{}
	for i, c := range clients {
		at := file.ValueAt("clients.persistent", i)
		if at.Line == 0 { // of an older file
			at = file.ValueAt("clients", i)
		}
		what := fmt.Sprintf("client %q", c.Name)
		if c.Name == "" || users[c.Name] != nil || ids[c.Name] != nil {
			w.Report.Add(&report.Note{Kind: report.Lost, Place: at, What: what, Why: "clients need a name each"})
			continue
		}
		for _, id := range c.IDs {
			network, why := build.ClientNetwork(id, leases)
			if network == "" && input.IsLabel(id) && taken[id] == "" {
				taken[id] = c.Name
				ids[c.Name] = append(ids[c.Name], id)
				w.Report.Add(&report.Note{Kind: report.Carried, Place: at, What: what + ", id " + id, Ours: "identity: client-ids"})
				continue
			}
			if network != "" && taken[network] != "" {
				network, why = "", "it is an address of client "+taken[network]+" already"
			}
			if network == "" {
				n := &report.Note{Kind: report.Lost, Place: at, What: what + ", id " + id, Why: why}
				if !c.Global || !c.GlobalServices { // there it gets what everybody gets
					n.Effect = report.Opens
				}
				w.Report.Add(n)
				continue
			}
			if why != "" {
				w.Report.Add(&report.Note{Kind: report.Changed, Place: at, What: what + ", id " + id, Ours: network, Why: why})
			}
			taken[network] = c.Name
			users[c.Name] = append(users[c.Name], network)
		}
		clientLost(w, at, what, c)
		own := policy.Policy{Name: "client " + c.Name, Users: []string{c.Name}}
		switch {
		case users[c.Name] == nil && ids[c.Name] == nil:
			n := &report.Note{Kind: report.Lost, Place: at, What: what, Why: "no address of it is known; name them under identity: addresses, and write a policy with users"}
			if !c.Global { // it gets what everybody gets
				n.Effect = report.Opens
			}
			w.Report.Add(n)
			continue
		case c.Global:
			w.Report.Add(&report.Note{Kind: report.Carried, Place: at, What: what, Ours: "identity: addresses"})
			clientKeys(w, at, what, c, everyone)
			continue
		case c.Filtering:
			own.Rules = everyone.Rules
		}
		clientRules(w, at, what, c, &own, everyone)
		clientKeys(w, at, what, c, own)
		policies = append(policies, own)
		w.Report.Add(&report.Note{Kind: report.Carried, Place: at, What: what, Ours: fmt.Sprintf("policy %q, identity: addresses", own.Name)})
	}
	if len(users) > 0 {
		w.Set.Identity.Addresses = users
	}
	if len(ids) > 0 {
		w.Set.Identity.ClientIDs = ids
	}
	return policies
}

// clientRules makes the rules that only one client has: SafeSearch, services, and lists
// in place of AdGuard's servers.
func clientRules(w *build.Work, at report.Place, what string, c client, own *policy.Policy, everyone policy.Policy) {
	if c.OlderSafeSearch || c.SafeSearch["enabled"] == true {
		safeSearch(own, c.SafeSearch)
	}
	// The policy for everyone has rules for services and servers, too; a client has separate
	// settings for these.
	own.Rules = slices.DeleteFunc(slices.Clone(own.Rules), func(r policy.Rule) bool {
		return r.Name == "adult" && !c.Parental || r.Name == "malware" && !c.SafeBrowsing || r.Name == "services" && !c.GlobalServices
	})
	note := func(key string, n *report.Note) {
		n.Place, n.What = at, what+": "+key
		w.Report.Add(n)
	}
	for _, x := range []struct {
		on                    bool
		key, source, category string
	}{{c.Parental, "parental_enabled", "ut1-adult", "adult"}, {c.SafeBrowsing, "safebrowsing_enabled", "hagezi-tif", "malware"}} {
		if !x.on {
			continue
		}
		if !slices.ContainsFunc(own.Rules, func(r policy.Rule) bool { return r.Name == x.category }) {
			w.AddCatalogued(x.source, x.category)
			own.Rules = append(own.Rules, policy.Rule{Name: x.category, Action: "block", Category: []string{"category/" + x.category}})
		}
		note(x.key, report.Differs("lists."+x.category, "a list that is fetched ("+x.source+") instead of a question to AdGuard's servers"))
	}
	ids := input.Strings(c.Services)
	all := map[string]any{}
	if m, ok := c.Services.(map[string]any); ok {
		ids = input.Strings(m["ids"])
		input.Leaves(m["schedule"], "", all)
	}
	if c.GlobalServices {
		if i := slices.IndexFunc(everyone.Rules, func(r policy.Rule) bool { return r.Name == "services" }); i >= 0 && !c.Filtering {
			own.Rules = append(own.Rules, everyone.Rules[i])
		}
		return
	}
	if len(ids) > 0 {
		services, n := build.Services(ids)
		if len(services) > 0 {
			own.Rules = append(own.Rules, build.ServiceRule(services, build.BlockedTimes(all, "")))
		}
		note("blocked_services: "+strings.Join(ids, " "), n)
	}
}

// clientKeys reports the keys of a client that no other part of the import reports. own
// is the policy that the client gets.
func clientKeys(w *build.Work, at report.Place, what string, c client, own policy.Policy) {
	for _, key := range slices.Sorted(maps.Keys(c.all)) {
		v := c.all[key]
		n := &report.Note{Kind: report.Carried, Place: at, What: fmt.Sprintf("%s: %s: %s", what, key, input.Plain(v)), Ours: fmt.Sprintf("policy %q", own.Name)}
		service, searches := strings.CutPrefix(key, "safe_search.")
		switch {
		case slices.Contains([]string{"name", "ids", "upstreams", "tags", "ignore_querylog", "ignore_statistics"}, key) && !isEmpty(v) && v != false:
			continue // reported with their values
		case key == "use_global_settings", key == "use_global_blocked_services":
		case c.Global && (searches || slices.Contains([]string{"filtering_enabled", "parental_enabled", "safebrowsing_enabled", "safesearch_enabled"}, key)),
			c.GlobalServices && strings.HasPrefix(key, "blocked_services"):
			n.Kind, n.Ours, n.Why = report.Default, "", "the settings for everyone apply"
		case key == "parental_enabled" && c.Parental, key == "safebrowsing_enabled" && c.SafeBrowsing,
			strings.HasPrefix(key, "blocked_services") && !strings.Contains(key, ".schedule.") && !isEmpty(v):
			continue // reported with their lists
		case strings.HasPrefix(key, "blocked_services.schedule."):
			n.Ours = "schedule of the rule"
		case searches && c.SafeSearch["enabled"] != true:
			n.Kind, n.Ours = report.Default, ""
		case searches:
			n.Ours = fmt.Sprintf("safesearch: %v, youtube: %s", own.SafeSearch, cmp.Or(own.YouTube, "off"))
			if service != "enabled" && service != "youtube" && v == false && own.SafeSearch {
				n.Kind, n.Why = report.Changed, "all search engines filter or none"
			}
		case key == "filtering_enabled", key == "safesearch_enabled" && c.OlderSafeSearch:
		case isEmpty(v), v == false, key == "uid":
			n.Kind, n.Ours = report.Default, ""
		default:
			n.Kind, n.Ours, n.Why = report.Lost, "", whyNot(key)
		}
		w.Report.Add(n)
	}
}

// clientLost reports the settings of a client that have no equivalent.
func clientLost(w *build.Work, at report.Place, what string, c client) {
	for _, x := range []struct {
		is       bool
		key, why string
	}{
		{len(c.Upstreams) > 0, "upstreams", "upstreams are chosen by the name, not by the client"},
		{len(c.Tags) > 0, "tags", "no client here has tags, so rules with $ctag match nobody"},
		{c.IgnoreQueryLog, "ignore_querylog", "the record has all clients"},
		{c.IgnoreStatistics, "ignore_statistics", "the statistics cover all clients"},
	} {
		if x.is {
			w.Report.Add(&report.Note{Kind: report.Lost, Place: at, What: what + ": " + x.key, Why: x.why})
		}
	}
}

// readLeases returns the addresses that AdGuard Home's DHCP server has leased, by MAC.
func readLeases(w *build.Work, file string) map[string]string {
	data, err := input.Whole(file)
	if err != nil {
		return nil
	}
	type lease struct {
		IP   string `yaml:"ip"`
		MAC  string `yaml:"mac"`
		Name string `yaml:"hostname"`
	}
	var known struct {
		Leases []lease `yaml:"leases"`
	}
	if err := setting.LoadYAML(data, &known); err != nil { // JSON is YAML
		w.Report.Add(&report.Note{Kind: report.Lost, Place: report.Place{File: file}, What: "leases", Why: "they cannot be read: " + err.Error()})
		return nil
	}
	leases, names := map[string]string{}, map[string]string{}
	for _, l := range known.Leases {
		leases[strings.ToLower(l.MAC)] = l.IP
		if _, err := netip.ParseAddr(l.IP); err == nil && l.Name != "" && !strings.ContainsAny(l.Name, " \t\r\n#") {
			names[l.IP] = l.Name
		}
	}
	w.LeaseNames(report.Place{File: file}, names)
	return leases
}
