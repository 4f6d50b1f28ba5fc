package importer

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"shuultuur/filter"
	"shuultuur/list"
	"shuultuur/list/collection"
	"shuultuur/policy"
	"shuultuur/setting"
)

// plain collects the settings of programs with one set of lists for all
// clients.
type plain struct {
	flags bool // an option without a value is on
	*work
	at               place
	blocked, allowed []place // entries, and the places where they were written
	blockURLs        []string
	allowURLs        []string
	longest          bool             // of the names in blocked, the longest decides
	free             []policy.Network // clients that are not filtered
	suffix           string           // end of the names of its categories
	public           []policy.Rule    // rules for lists of the catalogue, if they are not for everybody
}

// A reader converts one setting and returns the note on it. Its kind is Lost,
// with a reason, if there is no equivalent.
type reader func(p *plain, key, value string) *Note

// addNote finishes the note on a setting. Empty and false values are defaults.
func (p *plain) addNote(at place, key, value string, n *Note) {
	n.place, n.What = at, strings.TrimSpace(key+" "+value)
	if strings.Contains(strings.ToLower(key), "password") {
		n.What = strings.TrimSuffix(key, ":")
	}
	if n.Kind == Lost && (value == "" && !p.flags || value == "false" || value == "0" || value == "off" || value == "no" || value == "<nil>") {
		n.Kind, n.Why = Default, ""
	}
	if n.Kind == Lost && n.Why == "" {
		n.Why = noneOfOurs
	}
	p.rep.add(n)
}

// noneOfOurs is the reason for an option about which nothing is known.
const noneOfOurs = "there is no counterpart, and nothing has to be done"

// reasons say why options with these beginnings are lost.
type reasons []struct{ prefix, why string }

// of returns the first reason for an option, or "".
func (all reasons) of(option string) string {
	for _, x := range all {
		if strings.HasPrefix(option, x.prefix) {
			return x.why
		}
	}
	return ""
}

func carried(ours string) *Note      { return &Note{Kind: Carried, Ours: ours} }
func differs(ours, why string) *Note { return &Note{Kind: Changed, Ours: ours, Why: why} }
func lost(why string) *Note          { return &Note{Kind: Lost, Why: why} }

// addNames adds names, one per line or separated by spaces, with their subdomains.
// If block is false, they are allowed. They become rules, so that a list can also
// have single names without subdomains.
func (p *plain) addNames(block bool, text string) *Note {
	to, ours := &p.blocked, "lists.blocked"
	if !block {
		to, ours = &p.allowed, "lists.allowed"
	}
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		for name := range strings.FieldsSeq(line) {
			name = strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(name, "*"), "."), ".")
			if !strings.Contains(name, "/") {
				name += "^"
			}
			*to = append(*to, p.entry("||"+name))
		}
	}
	return carried(ours)
}

// entry returns an entry for a converted list, at the place of the current
// setting.
func (p *plain) entry(text string) place { return place{file: p.at.file, line: p.at.line, what: text} }

// zone adds a name; a longer name may say the opposite.
func (p *plain) zone(block bool, name string) *Note {
	p.longest = p.longest || !block
	p.blocked = append(p.blocked, p.entry(zoneRule(block, name)))
	return carried("lists.blocked")
}

// zoneRule is a rule for a name and the names below it.
func zoneRule(block bool, name string) string {
	rule := "||" + strings.ToLower(strings.Trim(strings.TrimPrefix(name, "*"), ".")) + "^"
	if !block {
		rule = "@@" + rule
	}
	return rule
}

// entries adds a list in Blocky's syntax: a name alone, "*.name" for a name
// with its subdomains, "/x/" for an expression, or a line of a hosts file.
func (p *plain) entries(block bool, text string) *Note {
	to, ours := &p.blocked, "lists.blocked"
	if !block {
		to, ours = &p.allowed, "lists.allowed"
	}
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		entry := f[len(f)-1]
		if name, below := strings.CutPrefix(entry, "*."); below {
			entry = "||" + name + "^"
		}
		*to = append(*to, p.entry(entry))
	}
	return carried(ours)
}

// list converts a list by its address, file or text.
func (p *plain) list(block bool, s string) *Note {
	to := &p.blockURLs
	if !block {
		to = &p.allowURLs
	}
	if strings.HasPrefix(s, "http://") || strings.HasPrefix(s, "https://") {
		if !slices.Contains(*to, s) {
			*to = append(*to, s)
		}
		return carried("lists: url")
	}
	if file := strings.TrimPrefix(s, "file://"); !strings.Contains(s, "\n") && strings.ContainsRune(file, '/') {
		if data, err := readWhole(file); err == nil {
			n := p.entries(block, string(data))
			n.Kind, n.Why = Changed, "copied: name the file with path under lists if it changes"
			return n
		}
		return lost("the file is not there: copy it, and name it with path under lists")
	}
	return p.entries(block, s)
}

// upstream converts a server that resolves names.
func (p *plain) upstream(s string) *Note {
	f := &p.set.dns().Forward
	s = strings.Replace(strings.TrimPrefix(s, "udp://"), "tcp-tls:", "tls://", 1)
	if addr, name, ok := strings.Cut(s, "#"); ok && !strings.Contains(s, "://") && !strings.ContainsAny(name, ".") {
		s = dnsmasqServer(addr + "#" + name)
	} else if ok {
		s = addr
	}
	if a, port, ok := strings.Cut(s, "@"); ok {
		s = net.JoinHostPort(a, port)
		if port == "853" {
			s = "tls://" + s
		}
	}
	if s == "" || strings.HasPrefix(s, "sdns://") {
		return lost("not an address of a name server with a supported protocol: name one under dns: forward: upstreams")
	}
	if !slices.Contains(f.Upstreams, s) {
		f.Upstreams = append(f.Upstreams, s)
	}
	return carried("dns: forward: upstreams")
}

// bootstrap converts the address of a server that resolves the names of upstreams.
func (p *plain) bootstrap(s string) *Note {
	if _, err := netip.ParseAddr(s); err != nil {
		return lost("only addresses look up the names of upstreams")
	}
	f := &p.set.dns().Forward
	f.Bootstrap = append(f.Bootstrap, s)
	return carried("dns: forward: bootstrap")
}

func (p *plain) validate(value string) *Note {
	p.set.dns().Forward.Validate = value == "true" || value == "yes" || value == "1"
	return carried("dns: forward: validate")
}

func (p *plain) answer(value string) *Note {
	a, ok := map[string]filter.Answer{"zeroip": filter.Zero, "null_ip": filter.Zero, "anyaddress": filter.Zero, "nxdomain": filter.NXDomain, "refused": filter.Refused}[strings.ToLower(value)]
	if !ok {
		return lost("write dns: block: answer and sinkhole")
	}
	p.set.dns().Names.Block.Answer = a
	return carried("dns: block: answer")
}

// addressName makes a name for a list from its address.
func addressName(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Hostname() + "-" + strings.TrimSuffix(filepath.Base(u.Path), filepath.Ext(u.Path))
}

// fetched adds a list that is fetched. None of its entries are here yet.
func (p *plain) fetched(address, category string) {
	name := p.freeName(cmp.Or(addressName(address), category))
	p.lists[name] = list.Config{Category: category}
	l := collection.List{Config: list.Config{Category: category}}
	l.Fetch.URL = address
	if p.set.Lists == nil {
		p.set.Lists = collection.Config{}
	}
	p.set.Lists[name] = l
}

// addCatalogued adds a list of the catalogue, or one at an address; both are fetched.
func (w *work) addCatalogued(source, category string) {
	if _, exists := w.lists[category]; exists {
		return
	}
	w.lists[category] = list.Config{Category: category}
	l := collection.List{Config: list.Config{Category: category}}
	if l.Fetch.Source = source; isURL(source) {
		l.Fetch.Source, l.Fetch.URL = "", source
	}
	if w.set.Lists == nil {
		w.set.Lists = collection.Config{}
	}
	w.set.Lists[category] = l
}

// rules makes lists of the collected entries, and rules for them.
func (p *plain) rules() (rules []policy.Rule, err error) {
	for _, x := range []struct {
		category, action string
		names            []place
		urls             []string
	}{{"allowed", "allow", p.allowed, p.allowURLs}, {"blocked", "block", p.blocked, p.blockURLs}} {
		x.category += p.suffix
		some := len(x.urls) > 0
		if len(x.names) > 0 {
			path, err := p.ownLines(x.category, x.names)
			if err != nil {
				return nil, err
			}
			name, err := p.addList(x.category, list.Config{Path: setting.Source(path), Category: x.category, Format: list.Adblock, Match: list.Boundary, Subdomains: new(bool), Longest: p.longest && x.action == "block"}, place{file: p.at.file, what: x.category + " names"})
			if err != nil {
				return nil, err
			}
			some = some || name != ""
		}
		for _, u := range x.urls {
			p.fetched(u, x.category)
		}
		if some {
			rules = append(rules, policy.Rule{Name: x.category, Action: x.action, Category: []string{"category/" + x.category}})
		}
	}
	return append(rules, p.public...), nil
}

// addToSettings makes lists and the policy from the collected entries.
func (p *plain) addToSettings() error {
	rules, err := p.rules()
	if err != nil {
		return err
	}
	all := p.mainPolicy()
	all.Rules = append(rules, all.Rules...)
	if len(p.free) > 0 {
		p.set.Policies = slices.Insert(p.set.Policies, 0, policy.Policy{Name: "unfiltered", Networks: p.free})
	}
	return nil
}

// flatten calls take with every value below v, its path and its exact path. In paths, keys and
// the values of a list read a.b, and groups in a list a.0.b. In exact paths, values of a list
// read a.0.
func flatten(v any, path, exact string, take func(path, exact, value string)) {
	switch v := v.(type) {
	case map[string]any:
		for _, k := range sortedKeys(v) {
			flatten(v[k], strings.TrimPrefix(path+"."+k, "."), strings.TrimPrefix(exact+"."+k, "."), take)
		}
	case []any:
		for i, x := range v {
			at := fmt.Sprintf("%s.%d", exact, i)
			if _, group := x.(map[string]any); group {
				flatten(x, fmt.Sprintf("%s.%d", path, i), at, take)
			} else {
				flatten(x, path, at, take)
			}
		}
	default:
		take(path, exact, fmt.Sprint(v))
	}
}

// readTree reads a file of YAML or JSON by a reader.
func readTree(w *work, file, usual string, read func(all map[string]string) reader) error {
	file = fileIn(file, usual)
	data, err := readWhole(file)
	if err != nil {
		return err
	}
	var v map[string]any
	if err := loadYAML(data, &v); err != nil { // JSON is YAML
		return err
	}
	p, f := &plain{work: w}, newYAMLFile(file, data)
	all := map[string]string{}
	flatten(v, "", "", func(k, _, s string) { all[k] = s })
	take := read(all)
	flatten(v, "", "", func(k, exact, s string) {
		p.at = f.at(exact)
		p.addNote(p.at, k+":", s, take(p, k, s))
	})
	p.at = place{file: file}
	return p.addToSettings()
}

func (p *plain) listen(value string) *Note {
	p.set.dns().Server.Listen = listenAddresses(value)
	return carried("dns: listen")
}

// listenAddresses reads addresses and ports, separated by commas. A port alone means that port
// of all addresses.
func listenAddresses(value string) (all setting.OneOrMore[string]) {
	for a := range strings.SplitSeq(value, ",") {
		if a = strings.TrimSpace(a); !strings.Contains(a, ":") {
			a = ":" + a
		}
		all = append(all, a)
	}
	return all
}

// catalogued blocks the list of the catalogue that is most like one of the other program's.
func (p *plain) catalogued(id string, known map[string]string) *Note {
	source := known[id]
	if source == "" {
		return lostOurs("lists", "this list is not public: \"shuultuur list catalogue\" names lists to write under lists with source")
	}
	name := source
	if isURL(source) {
		name = id
	}
	p.addCatalogued(source, name)
	rules := &p.public
	if p.suffix == "" {
		rules = &p.mainPolicy().Rules
	}
	if !slices.ContainsFunc(*rules, func(r policy.Rule) bool { return r.Name == name }) {
		*rules = append(*rules, policy.Rule{Name: name, Action: "block", Category: []string{"category/" + name}})
	}
	if isURL(source) {
		return differs("lists."+name, "from where its author keeps it")
	}
	return differs("lists."+name, "a public list of this kind, which is fetched")
}

// mainPolicy returns the policy for all clients, which is made on first use.
func (w *work) mainPolicy() *policy.Policy {
	if len(w.set.Policies) == 0 {
		w.set.Policies = policy.Config{{Name: "everyone"}}
	}
	return &w.set.Policies[len(w.set.Policies)-1]
}

// readOptions reads files of options with a reader.
func readOptions(w *work, file string, files *optionFiles, take func(p *plain, at place, key, value string) *Note) error {
	p := &plain{work: w}
	err := files.eachOption(file, func(at place, key, value string) {
		p.at = at
		n := take(p, at, key, value)
		if n.Kind == Lost && !p.flags && !strings.Contains(at.what, files.separator) {
			w.rep.add(&Note{Kind: Lost, place: at, What: at.what, Why: noneOfOurs}) // no option at all
			return
		}
		p.addNote(at, key, value, n)
	})
	if err != nil {
		return err
	}
	p.at = place{file: file}
	return p.addToSettings()
}

// included returns the note on a line that names settings files.
func included(files *optionFiles, key, value string) *Note {
	if found, _ := files.included(files.dir, key, value); len(found) == 0 {
		return &Note{Kind: Lost, Why: "no such file: copy it beside the settings and import again"}
	}
	return carried("its lines")
}

func readDnsmasq(w *work, file string) error {
	file = fileIn(file, "dnsmasq.conf")
	w.set.dns()
	o := &dnsmasqOptions{port: "53", files: dnsmasqFiles()}
	err := readOptions(w, file, o.files, func(p *plain, _ place, key, value string) *Note {
		p.flags = true
		return o.option(p, key, value)
	})
	o.listeners(w)
	return err
}

// unboundData converts a local record, in a zone of some kind.
func (p *plain) unboundData(at place, f []string, kinds map[string]string) *Note {
	name := strings.ToLower(strings.TrimSuffix(cmp.Or(append(f, "")...), "."))
	zone := firstParent(name, func(n string) bool { return kinds[n] != "" })
	if kind := kinds[zone]; strings.HasPrefix(kind, "always_") && kind != "always_transparent" {
		return &Note{Kind: Default, Why: "its zone refuses it anyway"}
	}
	for i, x := range f {
		if (x == "A" || x == "AAAA" || x == "CNAME") && i+1 < len(f) && i > 0 {
			p.host(at, name, f[i+1])
			if strings.HasSuffix(kinds[zone], "redirect") && zone == name {
				p.host(at, "*."+name, f[i+1])
			}
			return carried("dns: hosts")
		}
	}
	return lost("other records are kept in a zone file: dns: zones")
}

// unboundAsks is the remark for settings that name no server for all names.
func unboundAsks(file string) *Note {
	return &Note{Kind: Changed, place: place{file: file}, What: "no forward-zone for \".\"", Ours: "dns: forward: upstreams",
		Why: "Unbound asks the servers of each zone itself; here those of /etc/resolv.conf are asked: name upstreams if they are not what you want"}
}

// unboundOther returns the note on an option that is not about names.
func unboundOther(section, key string) *Note {
	switch key {
	case "verbosity", "use-syslog", "logfile", "log-queries", "statistics-interval", "extended-statistics":
		return differs("events", "all queries are in the record, counters at /metrics")
	case "forward-tls-upstream", "forward-ssl-upstream":
		return differs("dns: forward: upstreams", "servers with port 853 are asked over TLS")
	case "username", "directory", "chroot", "pidfile", "num-threads", "so-reuseport":
		return &Note{Kind: Default, Why: "the service manager and the program do that"}
	}
	if section == "remote-control" {
		return differs("listen.admin", "the gateway is controlled at its admin address")
	}
	return lost(unboundWhy(key))
}
