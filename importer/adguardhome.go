package importer

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"shuultuur/list"

	"shuultuur/policy"
	"shuultuur/setting"
)

// adGuard has those parts of AdGuardHome.yaml that are read. Older files have some of them
// under dns.
type adGuard struct {
	Filters   []adGuardList  `yaml:"filters"`
	Allow     []adGuardList  `yaml:"whitelist_filters"`
	UserRules []string       `yaml:"user_rules"`
	Filtering map[string]any `yaml:"filtering"`
	DNS       map[string]any `yaml:"dns"`
	Clients   yaml.Node      `yaml:"clients"`
}

type adGuardList struct {
	Enabled bool   `yaml:"enabled"`
	URL     string `yaml:"url"`
	Name    string `yaml:"name"`
	ID      int64  `yaml:"id"`
}

// adGuardHome reads AdGuardHome.yaml, and the fetched lists in data/filters beside it.
func (w *work) adGuardHome(file string) error {
	file = fileIn(file, "AdGuardHome.yaml")
	data, err := readWhole(file)
	if err != nil {
		return err
	}
	var known map[string]any
	var cfg adGuard
	if err := loadYAML(data, &known); err != nil {
		return err
	}
	if err := loadYAML(data, &cfg); err != nil {
		return err
	}
	lines := newYAMLFile(file, data)
	allowed, err := w.adGuardFilters(lines, "whitelist_filters", cfg.Allow, adGuardAllowed)
	if err != nil {
		return err
	}
	cfg.UserRules = append(cfg.UserRules, adGuardBlockedHosts(cfg.DNS)...)
	own, err := w.adGuardUserRules(lines, cfg.UserRules)
	if err != nil {
		return err
	}
	blocked, err := w.adGuardFilters(lines, "filters", cfg.Filters, adGuardFilters)
	if err != nil {
		return err
	}
	p := policy.Policy{Name: "everyone"}
	if allowed {
		p.Rules = append(p.Rules, policy.Rule{Name: "allowed", Action: "allow", Category: []string{"category/" + adGuardAllowed}})
	}
	if blocked || own {
		p.Rules = append(p.Rules, policy.Rule{Name: "filters", Action: "block", Category: []string{"category/" + adGuardFilters}})
	}
	w.adGuardNames(lines, cfg)
	adGuardSettings(w, lines, known, &p)
	clients, err := adGuardClients(cfg.Clients)
	if err != nil {
		w.rep.add(&Note{Kind: Lost, place: lines.at("clients"), What: "clients", Why: "they cannot be read: " + err.Error()})
	}
	w.set.Policies = append(w.adGuardClients(lines, clients, p), p)
	return nil
}

// adGuardFilters makes lists of the filters under a key, and reports whether there
// are any.
func (w *work) adGuardFilters(file yamlFile, key string, all []adGuardList, category string) (found bool, err error) {
	for i, f := range all {
		at := file.placeOf(key, i)
		what := fmt.Sprintf("filter %q, %s", f.Name, f.URL)
		path := filepath.Join(filepath.Dir(file.path), "data", "filters", strconv.FormatInt(f.ID, 10)+".txt")
		switch {
		case !f.Enabled:
			w.rep.add(&Note{Kind: Default, place: at, What: what, Why: "it is switched off"})
			continue
		case !isFile(path) && isURL(f.URL):
			(&plain{work: w, at: at}).fetched(f.URL, category)
			w.rep.add(&Note{Kind: Carried, place: at, What: what, Ours: "lists: url", Why: "fetched when the gateway starts"})
			found = true
			continue
		case !isFile(path):
			w.rep.add(&Note{Kind: Lost, place: at, What: what, Why: fmt.Sprintf("there is no %q: name the list under lists", path)})
			continue
		}
		from := path
		if category == adGuardAllowed {
			if path, err = adGuardAllows(w, path); err != nil {
				return false, err
			}
		}
		name, err := w.addList(f.Name, list.Config{Path: setting.Source(path), Category: category, Match: list.Boundary, Format: list.Adblock, Subdomains: new(bool)}, place{file: at.file, line: at.line, what: what})
		if err != nil {
			return false, err
		}
		if name != "" && path == from {
			if err := w.keepFetching(name, f.URL); err != nil {
				return false, err
			}
		}
		found = found || name != ""
	}
	return found, nil
}

// adGuardUserRules makes a list from the user's rules, and reports whether
// there are any.
func (w *work) adGuardUserRules(file yamlFile, rules []string) (bool, error) {
	if len(rules) == 0 {
		return false, nil
	}
	var lines []place
	for i, rule := range rules {
		at := file.placeOf("user_rules", i)
		at.what = rule
		lines = append(lines, at)
	}
	path, err := w.ownLines("user-rules", lines)
	if err != nil {
		return false, err
	}
	at := file.at("user_rules")
	at.what = "user_rules"
	name, err := w.addList("user-rules", list.Config{Path: setting.Source(path), Category: adGuardFilters, Format: list.Adblock, Match: list.Boundary, Subdomains: new(bool)}, at)
	return name != "", err
}

// These are the categories of the lists. The lists of a category are one engine, because
// AdGuard Home combines its filters with the user's rules, and evaluates its allow lists before
// them.
const (
	adGuardFilters = "filters"
	adGuardAllowed = "allowed"
)

// adGuardAllows returns the path of an allow list in which each rule names an
// allowed host. In AdGuard Home, exceptions in it allow names, too.
func adGuardAllows(w *work, path string) (string, error) {
	data, err := readWhole(path)
	if err != nil || !strings.Contains("\n"+string(data), "\n@@") {
		return path, nil // compiling the list reports the error
	}
	return w.create("allow-"+strings.TrimSuffix(filepath.Base(path), ".txt"), func(to io.Writer) error {
		_, err := io.WriteString(to, strings.ReplaceAll("\n"+string(data), "\n@@", "\n")[1:])
		return err
	})
}

// oneLine returns a rule in the form that a file of rules needs.
func oneLine(rule string) string {
	return strings.TrimSpace(strings.NewReplacer("\r", "", "\n", " ", "\x00", "").Replace(rule))
}

// adGuardBlockedHosts returns rules for the names that AdGuard Home does not answer. It leaves
// out those that we never forward.
func adGuardBlockedHosts(dns map[string]any) (rules []string) {
	for _, s := range words(dns["blocked_hosts"]) {
		if s != "version.bind" && s != "id.server" && s != "hostname.bind" && s != "" {
			rules = append(rules, s)
		}
	}
	return rules
}

// safeSearch switches SafeSearch on if one of the search engines has it on; YouTube's is a
// separate service. Only newer files name services.
func safeSearch(p *policy.Policy, services map[string]any) {
	p.SafeSearch = true
	for name, on := range services {
		if name != "enabled" && name != "youtube" && on == false {
			p.SafeSearch = false
		}
	}
	for name, on := range services {
		if name != "enabled" && name != "youtube" && on == true {
			p.SafeSearch = true
		}
	}
	if services["youtube"] != false {
		p.YouTube = "strict"
	}
}

// adGuardClient is one of the clients that AdGuard Home has settings for.
type adGuardClient struct {
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

// adGuardClients has the clients of the settings, which older files have as a list.
func adGuardClients(n yaml.Node) (all []adGuardClient, err error) {
	var keys []map[string]any
	switch n.Kind {
	case yaml.SequenceNode:
		err = errors.Join(n.Load(&all), n.Load(&keys))
	case yaml.MappingNode:
		var m struct {
			Persistent []adGuardClient `yaml:"persistent"`
		}
		var k struct {
			Persistent []map[string]any `yaml:"persistent"`
		}
		err = errors.Join(n.Load(&m), n.Load(&k))
		all, keys = m.Persistent, k.Persistent
	}
	for i, k := range keys[:min(len(keys), len(all))] {
		all[i].all = map[string]any{}
		settingsBelow(k, "", all[i].all)
	}
	return all, err
}

// adGuardClients makes a user of each client, with its addresses. A client with settings of its
// own gets a policy, in front of the policy for everyone, which is given.
func (w *work) adGuardClients(file yamlFile, clients []adGuardClient, everyone policy.Policy) (policies []policy.Policy) {
	leases := adGuardLeases(w, filepath.Join(filepath.Dir(file.path), "data", "leases.json"))
	users, ids, taken := map[string][]string{}, map[string][]string{}, map[string]string{}
	for i, c := range clients {
		at := file.placeOf("clients.persistent", i)
		if at.line == 0 { // of an older file
			at = file.placeOf("clients", i)
		}
		what := fmt.Sprintf("client %q", c.Name)
		if c.Name == "" || users[c.Name] != nil || ids[c.Name] != nil {
			w.rep.add(&Note{Kind: Lost, place: at, What: what, Why: "clients need a name each"})
			continue
		}
		for _, id := range c.IDs {
			network, why := clientNetwork(id, leases)
			if network == "" && isClientID(id) && taken[id] == "" {
				taken[id] = c.Name
				ids[c.Name] = append(ids[c.Name], id)
				w.rep.add(&Note{Kind: Carried, place: at, What: what + ", id " + id, Ours: "identity: client-ids"})
				continue
			}
			if network != "" && taken[network] != "" {
				network, why = "", "it is an address of client "+taken[network]+" already"
			}
			if network == "" {
				w.rep.add(&Note{Kind: Lost, place: at, What: what + ", id " + id, Why: why})
				continue
			}
			if why != "" {
				w.rep.add(&Note{Kind: Changed, place: at, What: what + ", id " + id, Ours: network, Why: why})
			}
			taken[network] = c.Name
			users[c.Name] = append(users[c.Name], network)
		}
		adGuardLost(w, at, what, c)
		own := policy.Policy{Name: "client " + c.Name, Users: []string{c.Name}}
		switch {
		case users[c.Name] == nil && ids[c.Name] == nil:
			w.rep.add(&Note{Kind: Lost, place: at, What: what, Why: "no address of it is known; name them under identity: addresses, and write a policy with users"})
			continue
		case c.Global:
			w.rep.add(&Note{Kind: Carried, place: at, What: what, Ours: "identity: addresses"})
			adGuardClientKeys(w, at, what, c, everyone)
			continue
		case c.Filtering:
			own.Rules = everyone.Rules
		}
		adGuardClientRules(w, at, what, c, &own, everyone)
		adGuardClientKeys(w, at, what, c, own)
		policies = append(policies, own)
		w.rep.add(&Note{Kind: Carried, place: at, What: what, Ours: fmt.Sprintf("policy %q, identity: addresses", own.Name)})
	}
	if len(users) > 0 {
		w.set.Identity.Addresses = users
	}
	if len(ids) > 0 {
		w.set.Identity.ClientIDs = ids
	}
	return policies
}

// isClientID reports whether s is a ClientID as encrypted DNS carries it: a label.
func isClientID(s string) bool {
	if _, err := net.ParseMAC(s); err == nil {
		return false
	}
	return s != "" && len(s) <= 63 && !strings.HasPrefix(s, "-") && !strings.HasSuffix(s, "-") &&
		strings.Trim(strings.ToLower(s), "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// adGuardClientRules makes the rules that only one client has: SafeSearch, services, and lists
// in place of AdGuard's servers.
func adGuardClientRules(w *work, at place, what string, c adGuardClient, own *policy.Policy, everyone policy.Policy) {
	if c.OlderSafeSearch || c.SafeSearch["enabled"] == true {
		safeSearch(own, c.SafeSearch)
	}
	// The policy for everyone has rules for services and servers, too; a client has separate
	// settings for these.
	own.Rules = slices.DeleteFunc(slices.Clone(own.Rules), func(r policy.Rule) bool {
		return r.Name == "adult" && !c.Parental || r.Name == "malware" && !c.SafeBrowsing || r.Name == "services" && !c.GlobalServices
	})
	note := func(key string, n *Note) {
		n.place, n.What = at, what+": "+key
		w.rep.add(n)
	}
	for _, x := range []struct {
		on                    bool
		key, source, category string
	}{{c.Parental, "parental_enabled", "ut1-adult", "adult"}, {c.SafeBrowsing, "safebrowsing_enabled", "hagezi-tif", "malware"}} {
		if !x.on {
			continue
		}
		if !slices.ContainsFunc(own.Rules, func(r policy.Rule) bool { return r.Name == x.category }) {
			w.addCatalogued(x.source, x.category)
			own.Rules = append(own.Rules, policy.Rule{Name: x.category, Action: "block", Category: []string{"category/" + x.category}})
		}
		note(x.key, differs("lists."+x.category, "a list that is fetched ("+x.source+") instead of a question to AdGuard's servers"))
	}
	ids := words(c.Services)
	all := map[string]any{}
	if m, ok := c.Services.(map[string]any); ok {
		ids = words(m["ids"])
		settingsBelow(m["schedule"], "", all)
	}
	if c.GlobalServices {
		if i := slices.IndexFunc(everyone.Rules, func(r policy.Rule) bool { return r.Name == "services" }); i >= 0 && !c.Filtering {
			own.Rules = append(own.Rules, everyone.Rules[i])
		}
		return
	}
	if len(ids) > 0 {
		categories, n := w.blockServices(at, ids)
		if len(categories) > 0 {
			own.Rules = append(own.Rules, serviceRule(categories, adGuardBlockedTimes(all, "")))
		}
		note("blocked_services: "+strings.Join(ids, " "), n)
	}
}

// adGuardClientKeys reports the keys of a client that no other part of the import reports. own
// is the policy that the client gets.
func adGuardClientKeys(w *work, at place, what string, c adGuardClient, own policy.Policy) {
	for _, key := range sortedKeys(c.all) {
		v := c.all[key]
		n := &Note{Kind: Carried, place: at, What: fmt.Sprintf("%s: %s: %s", what, key, plainText(v)), Ours: fmt.Sprintf("policy %q", own.Name)}
		service, searches := strings.CutPrefix(key, "safe_search.")
		switch {
		case slices.Contains([]string{"name", "ids", "upstreams", "tags", "ignore_querylog", "ignore_statistics"}, key) && !adGuardEmpty(v) && v != false:
			continue // reported with their values
		case key == "use_global_settings", key == "use_global_blocked_services":
		case c.Global && (searches || slices.Contains([]string{"filtering_enabled", "parental_enabled", "safebrowsing_enabled", "safesearch_enabled"}, key)),
			c.GlobalServices && strings.HasPrefix(key, "blocked_services"):
			n.Kind, n.Ours, n.Why = Default, "", "the settings for everyone apply"
		case key == "parental_enabled" && c.Parental, key == "safebrowsing_enabled" && c.SafeBrowsing,
			strings.HasPrefix(key, "blocked_services") && !strings.Contains(key, ".schedule.") && !adGuardEmpty(v):
			continue // reported with their lists
		case strings.HasPrefix(key, "blocked_services.schedule."):
			n.Ours = "schedule of the rule"
		case searches && c.SafeSearch["enabled"] != true:
			n.Kind, n.Ours = Default, ""
		case searches:
			n.Ours = fmt.Sprintf("safesearch: %v, youtube: %s", own.SafeSearch, cmp.Or(own.YouTube, "off"))
			if service != "enabled" && service != "youtube" && v == false && own.SafeSearch {
				n.Kind, n.Why = Changed, "all search engines filter or none"
			}
		case key == "filtering_enabled", key == "safesearch_enabled" && c.OlderSafeSearch:
		case adGuardEmpty(v), v == false, key == "uid":
			n.Kind, n.Ours = Default, ""
		default:
			n.Kind, n.Ours, n.Why = Lost, "", adGuardWhy(key)
		}
		w.rep.add(n)
	}
}

// adGuardLost reports the settings of a client that have no equivalent.
func adGuardLost(w *work, at place, what string, c adGuardClient) {
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
			w.rep.add(&Note{Kind: Lost, place: at, What: what + ": " + x.key, Why: x.why})
		}
	}
}

// adGuardLeases returns the addresses that AdGuard Home's DHCP server has leased, by MAC.
func adGuardLeases(w *work, file string) map[string]string {
	data, err := readWhole(file)
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
	if err := loadYAML(data, &known); err != nil { // JSON is YAML
		w.rep.add(&Note{Kind: Lost, place: place{file: file}, What: "leases", Why: "they cannot be read: " + err.Error()})
		return nil
	}
	leases, names := map[string]string{}, map[string]string{}
	for _, l := range known.Leases {
		leases[strings.ToLower(l.MAC)] = l.IP
		if _, err := netip.ParseAddr(l.IP); err == nil && l.Name != "" && !strings.ContainsAny(l.Name, " \t\r\n#") {
			names[l.IP] = l.Name
		}
	}
	w.leaseNames(place{file: file}, names)
	return leases
}

// clientNetwork returns the network that identifies a client of another program here, and what
// differs. If there is none, it returns "" and the reason.
func clientNetwork(id string, leases map[string]string) (network, why string) {
	id = strings.TrimSpace(id)
	if a, err := netip.ParseAddr(id); err == nil {
		return a.Unmap().WithZone("").String(), ""
	}
	if p, err := netip.ParsePrefix(id); err == nil {
		return p.Masked().String(), ""
	}
	if mac, err := net.ParseMAC(id); err == nil {
		if a, err := netip.ParseAddr(leases[mac.String()]); err == nil {
			return a.Unmap().String(), "clients are identified by address; this is the one in its lease, which may change: reserve it"
		}
		return "", "clients are identified by address, and this MAC has no known lease"
	}
	return "", "clients are identified by address, not by a name that they send"
}
