package importer

import (
	"cmp"
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

	"shuultuur/identity"
	"shuultuur/policy"
	"shuultuur/resolver/forward"
	"shuultuur/setting"
)

// adGuard is what is read of AdGuardHome.yaml. Older files have some of it
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

// adGuardHome reads AdGuardHome.yaml, and the lists it has fetched from
// data/filters beside it.
func (w *work) adGuardHome(file string) error {
	if !isFile(file) {
		file = filepath.Join(file, "AdGuardHome.yaml")
	}
	data, err := readWhole(file)
	if err != nil {
		return err
	}
	var known map[string]any
	var cfg adGuard
	if err := yaml.Load(data, &known); err != nil {
		return err
	}
	if err := yaml.Load(data, &cfg); err != nil {
		return err
	}
	at := place{file: file}
	for _, key := range sortedKeys(known) {
		if !slices.Contains([]string{"filters", "whitelist_filters", "user_rules", "filtering", "dns", "clients", "schema_version"}, key) {
			w.rep.add(Note{Kind: Lost, place: at, What: key, Why: "part of a DNS server: " + whyNot(key)})
		}
	}
	filters := func(all []adGuardList, category string) (found bool, err error) {
		for _, f := range all {
			what := fmt.Sprintf("filter %q, %s", f.Name, f.URL)
			path := filepath.Join(filepath.Dir(file), "data", "filters", strconv.FormatInt(f.ID, 10)+".txt")
			switch {
			case !f.Enabled:
				w.rep.add(Note{Kind: Lost, place: at, What: what, Why: "it is switched off"})
				continue
			case !isFile(path) && isURL(f.URL):
				(&plain{work: w, at: at}).fetched(f.URL, category)
				w.rep.add(Note{Kind: Carried, place: at, What: what, Ours: "lists: url", Why: "fetched when the gateway starts"})
				found = true
				continue
			case !isFile(path):
				w.rep.add(Note{Kind: Lost, place: at, What: what, Why: fmt.Sprintf("there is no %q: name the list under lists", path)})
				continue
			}
			from := path
			if category == adGuardAllowed {
				if path, err = w.adGuardAllows(path); err != nil {
					return false, err
				}
			}
			name, err := w.addList(f.Name, list.Config{Path: setting.Source(path), Category: category, Match: list.Boundary, Format: list.Adblock, Subdomains: w.adGuardExact(path)}, place{file: from, what: what})
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
	allowed, err := filters(cfg.Allow, adGuardAllowed)
	if err != nil {
		return err
	}
	own := ""
	if len(cfg.UserRules) > 0 {
		path, err := w.own("user-rules", func(to io.Writer) error {
			for _, rule := range cfg.UserRules {
				if _, err := io.WriteString(to, adGuardUserRule(rule)+"\n"); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		if own, err = w.addList("user-rules", list.Config{Path: setting.Source(path), Category: adGuardFilters, Format: list.Adblock, Match: list.Boundary}, place{file: file, what: "user_rules"}); err != nil {
			return err
		}
	}
	blocked, err := filters(cfg.Filters, adGuardFilters)
	if err != nil {
		return err
	}
	p := policy.Policy{Name: "everyone"}
	if allowed {
		p.Rules = append(p.Rules, policy.Rule{Name: "allowed", Action: "allow", Category: []string{"category/" + adGuardAllowed}})
	}
	if blocked || own != "" {
		p.Rules = append(p.Rules, policy.Rule{Name: "filters", Action: "block", Category: []string{"category/" + adGuardFilters}})
	}
	w.adGuardNames(at, cfg)
	w.adGuardServices(at, cfg, &p)
	clients, err := adGuardClients(cfg.Clients)
	if err != nil {
		w.rep.add(Note{Kind: Lost, place: at, What: "clients", Why: "they cannot be read: " + err.Error()})
	}
	w.set.Policies = append(w.adGuardClients(file, clients, p), p)
	return nil
}

// Categories of the lists: those of one are one engine, as AdGuard Home makes of
// its filters and the user's rules, and before it of its allow lists.
const (
	adGuardFilters = "filters"
	adGuardAllowed = "allowed"
)

// adGuardAllows returns the path of an allow list in which each rule says what
// is allowed: AdGuard Home takes its exceptions for that too.
func (w *work) adGuardAllows(path string) (string, error) {
	data, err := readWhole(path)
	if err != nil || !strings.Contains("\n"+string(data), "\n@@") {
		return path, nil // what cannot be read is said when it is compiled
	}
	return w.own("allow-"+strings.TrimSuffix(filepath.Base(path), ".txt"), func(to io.Writer) error {
		_, err := io.WriteString(to, strings.ReplaceAll("\n"+string(data), "\n@@", "\n")[1:])
		return err
	})
}

// adGuardExact says whether a list has no rules, only lines of a hosts file and
// bare names, which AdGuard Home takes for the names alone.
func (w *work) adGuardExact(path string) *bool {
	data, err := readWhole(path)
	if err != nil {
		return nil // which is said when it is compiled
	}
	for _, mark := range []string{"||", "##", "@@", "$", "/", "*", "^"} {
		for line := range strings.Lines(string(data[:min(len(data), 1<<20)])) {
			if !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "!") && strings.Contains(line, mark) {
				return nil
			}
		}
	}
	return new(bool)
}

// adGuardUserRule is a rule of the user's as we write it: a bare name is for the
// name alone.
func adGuardUserRule(rule string) string {
	rule = strings.TrimSpace(strings.NewReplacer("\r", "", "\n", " ", "\x00", "").Replace(rule))
	if strings.Contains(rule, ".") && !strings.ContainsAny(rule, "|^$*/#@! \t,:;=&?%+~'\"()[]{}") {
		return "0.0.0.0 " + rule
	}
	return rule
}

// safeSearch switches SafeSearch on; YouTube's is a service of its own, which
// only older files do not name.
func safeSearch(p *policy.Policy, services map[string]any) {
	p.SafeSearch = true
	if services["youtube"] != false {
		p.YouTube = "strict"
	}
}

// adGuardOption carries over an option of the name server.
func (w *work) adGuardOption(at place, key string, v any) bool {
	d, text := w.set.dns(), fmt.Sprint(v)
	ours := ""
	switch key {
	case "bind_hosts":
		port := cmp.Or(d.port, "53")
		d.Server.Listen = nil
		for _, host := range words(v) {
			d.Server.Listen = append(d.Server.Listen, net.JoinHostPort(host, port))
		}
		ours = "dns: listen"
	case "port":
		d.port = text
		for i, a := range d.Server.Listen {
			if host, _, err := net.SplitHostPort(a); err == nil {
				d.Server.Listen[i] = net.JoinHostPort(host, text)
			}
		}
		ours = "dns: listen"
	case "ratelimit":
		if err := d.Server.Rate.UnmarshalText([]byte(text)); err != nil || text == "0" {
			return false
		}
		ours = "dns: rate"
	case "upstream_mode":
		d.Forward.Order = map[string]forward.Order{"parallel": forward.Parallel, "fastest_addr": forward.Fastest, "load_balance": forward.Fastest}[text]
		ours = "dns: forward: order"
	case "trusted_proxies", "allowed_clients", "disallowed_clients":
		for _, s := range words(v) {
			n, err := netip.ParsePrefix(s)
			if a, failed := netip.ParseAddr(s); failed == nil {
				n, err = netip.PrefixFrom(a, a.BitLen()), nil
			}
			if err != nil {
				continue
			}
			to := map[string]*setting.OneOrMore[netip.Prefix]{"trusted_proxies": &d.Server.Trusted, "allowed_clients": &d.Server.Allow, "disallowed_clients": &d.Server.Deny}[key]
			*to = append(*to, n.Masked())
		}
		ours = map[string]string{"trusted_proxies": "dns: trusted", "allowed_clients": "dns: allow", "disallowed_clients": "dns: deny"}[key]
	default:
		return false
	}
	w.rep.add(Note{Kind: Carried, place: at, What: key + ": " + text, Ours: ours})
	return true
}

func (w *work) adGuardServices(at place, cfg adGuard, p *policy.Policy) {
	settings := map[string]any{}
	for _, m := range []map[string]any{cfg.DNS, cfg.Filtering} {
		for k, v := range m {
			settings[k] = v
		}
	}
	for _, key := range sortedKeys(settings) {
		v := settings[key]
		nested, _ := v.(map[string]any)
		if adGuardCarried[key] || w.adGuardOption(at, key, v) {
			continue
		}
		switch on := v == true || nested["enabled"] == true; {
		case (key == "safe_search" || key == "safesearch_enabled") && on:
			safeSearch(p, nested)
			w.rep.add(Note{Kind: Carried, place: at, What: key, Ours: "safesearch: true, youtube: " + cmp.Or(p.YouTube, "off")})
			for _, service := range sortedKeys(nested) {
				if nested[service] == false && service != "youtube" {
					w.rep.add(Note{Kind: Changed, place: at, What: key + ": " + service + ": false", Ours: "safesearch: true", Why: "all search engines filter or none"})
				}
			}
		case key == "protection_enabled" && v == false || key == "filtering_enabled" && v == false:
			w.rep.add(Note{Kind: Changed, place: at, What: key + ": false", Ours: "nothing", Why: "AdGuard Home lets everything pass; these settings filter"})
		case v == nil || v == false || v == "" || v == 0:
			w.rep.add(Note{Kind: Default, place: at, What: key})
		default:
			if s, ok := v.([]any); ok && len(s) == 0 || nested != nil && nested["enabled"] == false {
				continue
			}
			reason := "part of a DNS server"
			switch key {
			case "blocked_services":
				reason = "services are not known by name; write a list of their hosts"
			case "parental_enabled", "safebrowsing_enabled":
				reason = "it asks AdGuard's servers; name a list of the category"
			}
			w.rep.add(Note{Kind: Lost, place: at, What: key, Why: reason})
		}
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
}

// adGuardClients are those of the settings, which older files have as a list.
func adGuardClients(n yaml.Node) (all []adGuardClient, err error) {
	switch n.Kind {
	case yaml.SequenceNode:
		err = n.Load(&all)
	case yaml.MappingNode:
		var m struct {
			Persistent []adGuardClient `yaml:"persistent"`
		}
		err = n.Load(&m)
		all = m.Persistent
	}
	return all, err
}

// adGuardClients makes a user of each client, with the addresses it has, and a
// policy for those whose settings are their own: it goes before that of
// everyone, which is given.
func (w *work) adGuardClients(file string, clients []adGuardClient, everyone policy.Policy) (policies []policy.Policy) {
	at := place{file: file}
	leases := w.adGuardLeases(filepath.Join(filepath.Dir(file), "data", "leases.json"))
	users, taken := map[string][]string{}, map[string]string{}
	for _, c := range clients {
		what := fmt.Sprintf("client %q", c.Name)
		if c.Name == "" || users[c.Name] != nil {
			w.rep.add(Note{Kind: Lost, place: at, What: what, Why: "clients need a name each"})
			continue
		}
		for _, id := range c.IDs {
			network, why := clientNetwork(id, leases)
			if network != "" && taken[network] != "" {
				network, why = "", "it is an address of client "+taken[network]+" already"
			}
			if network == "" {
				w.rep.add(Note{Kind: Lost, place: at, What: what + ", id " + id, Why: why})
				continue
			}
			if why != "" {
				w.rep.add(Note{Kind: Changed, place: at, What: what + ", id " + id, Ours: network, Why: why})
			}
			taken[network] = c.Name
			users[c.Name] = append(users[c.Name], network)
		}
		w.adGuardLost(at, what, c)
		own := policy.Policy{Name: "client " + c.Name, Users: []string{c.Name}}
		switch {
		case users[c.Name] == nil:
			w.rep.add(Note{Kind: Lost, place: at, What: what, Why: "no address of it is known; name them under identity: addresses, and write a policy with users"})
			continue
		case c.Global:
			w.rep.add(Note{Kind: Carried, place: at, What: what, Ours: "identity: addresses"})
			continue
		case c.Filtering:
			own.Rules = everyone.Rules
		}
		if c.OlderSafeSearch || c.SafeSearch["enabled"] == true {
			safeSearch(&own, c.SafeSearch)
		}
		policies = append(policies, own)
		w.rep.add(Note{Kind: Carried, place: at, What: what, Ours: fmt.Sprintf("policy %q, identity: addresses", own.Name)})
	}
	if len(users) > 0 {
		w.set.Identity = identity.Config{Addresses: users}
	}
	return policies
}

// adGuardLost reports what of a client there is nothing of ours for.
func (w *work) adGuardLost(at place, what string, c adGuardClient) {
	services, _ := c.Services.([]any)
	if m, ok := c.Services.(map[string]any); ok {
		services, _ = m["ids"].([]any)
	}
	for _, x := range []struct {
		is       bool
		key, why string
	}{
		{len(services) > 0 && !c.GlobalServices, "blocked_services", "services are not known by name; write a list of their hosts, and a rule with it in the client's policy"},
		{len(c.Upstreams) > 0, "upstreams", "upstreams are chosen by the name asked for, not by who asks"},
		{len(c.Tags) > 0, "tags", "rules with $ctag are not for anybody here"},
		{!c.Global && c.Parental, "parental_enabled", "it asks AdGuard's servers; name a list of the category"},
		{!c.Global && c.SafeBrowsing, "safebrowsing_enabled", "it asks AdGuard's servers; name a list of the category"},
		{c.IgnoreQueryLog, "ignore_querylog", "the record is of all clients"},
		{c.IgnoreStatistics, "ignore_statistics", "the statistics are of all clients"},
	} {
		if x.is {
			w.rep.add(Note{Kind: Lost, place: at, What: what + ": " + x.key, Why: x.why})
		}
	}
}

// adGuardLeases are the addresses that AdGuard Home's own DHCP server has given
// out, by MAC.
func (w *work) adGuardLeases(file string) map[string]string {
	data, err := readWhole(file)
	if err != nil {
		return nil
	}
	type lease struct {
		IP  string `yaml:"ip"`
		MAC string `yaml:"mac"`
	}
	var known struct {
		Leases []lease `yaml:"leases"`
	}
	if err := yaml.Load(data, &known); err != nil { // JSON is YAML
		w.rep.add(Note{Kind: Lost, place: place{file: file}, What: "leases", Why: "they cannot be read: " + err.Error()})
		return nil
	}
	leases := map[string]string{}
	for _, l := range known.Leases {
		leases[strings.ToLower(l.MAC)] = l.IP
	}
	return leases
}

// clientNetwork is the network by which a client of another program is told
// here, with what differs; "" where there is none, and why.
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
			return a.Unmap().String(), "clients are told by address; this is the one that its lease says, which may change: give it always the same"
		}
		return "", "clients are told by address, and no lease of this MAC is known"
	}
	return "", "clients are told by address, not by a name that they give"
}
