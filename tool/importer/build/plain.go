package build

import (
	"net"
	"net/netip"
	"slices"
	"strings"

	"shuultuur/filter"
	"shuultuur/lib/setting"
	"shuultuur/list"
	"shuultuur/policy"
	"shuultuur/tool/importer/input"
	"shuultuur/tool/importer/report"
)

// Plain collects the settings of programs with one set of lists for all
// clients.
type Plain struct {
	Flags            bool // an option without a value is on
	Work             *Work
	At               report.Place
	Blocked, Allowed []report.Place // entries, and the places where they were written
	BlockURLs        []string
	allowURLs        []string
	longest          bool             // of the names in blocked, the longest decides
	free             []policy.Network // clients that are not filtered
	Suffix           string           // end of the names of its categories
	public           []policy.Rule    // rules for lists of the catalogue, if they are not for everybody
	lost             bool             // a list that refuses is not there
	unknown          bool             // settings that may refuse are not there
	always           []policy.Rule    // rules behind those of the lists
}

// A Reader converts one setting and returns the note on it. Its kind is Lost,
// with a reason, if there is no equivalent.
type Reader func(p *Plain, key, value string) *report.Note

// Note finishes the note on a setting. Empty and false values are defaults.
func (p *Plain) Note(at report.Place, key, value string, n *report.Note) {
	n.Place, n.What = at, strings.TrimSpace(key+" "+value)
	if strings.Contains(strings.ToLower(key), "password") {
		n.What = strings.TrimSuffix(key, ":")
	}
	if n.Kind == report.Lost && (value == "" && !p.Flags || value == "false" || value == "0" || value == "off" || value == "no" || value == "<nil>") {
		n.Kind, n.Why = report.Default, ""
	}
	if n.Kind == report.Lost && n.Why == "" {
		n.Why = report.NoneOfOurs
	}
	p.Work.Report.Add(n)
}

// AddNames adds names, one per line or separated by spaces, with their subdomains.
// If block is false, they are allowed. They become rules, so that a list can also
// have single names without subdomains.
func (p *Plain) AddNames(block bool, text string) *report.Note {
	to, ours := &p.Blocked, "lists.blocked"
	if !block {
		to, ours = &p.Allowed, "lists.allowed"
	}
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		for name := range strings.FieldsSeq(line) {
			name = strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(name, "*"), "."), ".")
			if !strings.Contains(name, "/") {
				name += "^"
			}
			*to = append(*to, p.Entry("||"+name))
		}
	}
	return report.Same(ours)
}

// Entry returns an entry for a converted list, at the place of the current
// setting.
func (p *Plain) Entry(text string) report.Place {
	return report.Place{File: p.At.File, Line: p.At.Line, Text: text}
}

// Zone adds a name; a longer name may say the opposite.
func (p *Plain) Zone(block bool, name string) *report.Note {
	p.longest = p.longest || !block
	p.Blocked = append(p.Blocked, p.Entry(ZoneRule(block, name)))
	return report.Same("lists.blocked")
}

// entries adds a list in Blocky's syntax: a name alone, "*.name" for a name
// with its subdomains, "/x/" for an expression, or a line of a hosts file.
func (p *Plain) entries(block bool, text string) *report.Note {
	to, ours := &p.Blocked, "lists.blocked"
	if !block {
		to, ours = &p.Allowed, "lists.allowed"
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
		*to = append(*to, p.Entry(entry))
	}
	return report.Same(ours)
}

// List converts a list by its address, file or text.
func (p *Plain) List(block bool, s string) *report.Note {
	to := &p.BlockURLs
	if !block {
		to = &p.allowURLs
	}
	if strings.HasPrefix(s, "http://") || strings.HasPrefix(s, "https://") {
		if !slices.Contains(*to, s) {
			*to = append(*to, s)
		}
		return report.Same("lists: url")
	}
	if file := strings.TrimPrefix(s, "file://"); !strings.Contains(s, "\n") && strings.ContainsRune(file, '/') {
		if data, err := input.Whole(file); err == nil {
			n := p.entries(block, string(data))
			n.Kind, n.Why = report.Changed, "copied: name the file with path under lists if it changes"
			return n
		}
		n := report.None("the file is not there: copy it, and name it with path under lists")
		if p.lost = p.lost || block; block {
			n.Why += "; until then everything is refused that no list allows"
		}
		return n.Closing()
	}
	return p.entries(block, s)
}

// Upstream converts a server that resolves names.
func (p *Plain) Upstream(s string) *report.Note {
	f := &p.Work.Set.UseDNS().Forward
	if s = upstream(s); s == "" {
		return report.None("not an address of a name server with a supported protocol: name one under dns: forward: upstreams")
	}
	if !slices.Contains(f.Upstreams, s) {
		f.Upstreams = append(f.Upstreams, s)
	}
	return report.Same("dns: forward: upstreams")
}

// upstream converts the address of a name server as other programs write it; "" if there is no
// equivalent.
func upstream(s string) string {
	s = strings.TrimSpace(s)
	for _, prefix := range []string{"udp://", "tcp+udp:", "udp:"} {
		s = strings.TrimPrefix(s, prefix)
	}
	s = strings.Replace(s, "tcp-tls:", "tls://", 1)
	if addr, name, ok := strings.Cut(s, "#"); ok && !strings.Contains(s, "://") && !strings.ContainsAny(name, ".") {
		s = ServerAddress(addr + "#" + name)
	} else if ok {
		s = addr
	}
	if a, port, ok := strings.Cut(s, "@"); ok {
		s = net.JoinHostPort(a, port)
		if port == "853" {
			s = "tls://" + s
		}
	}
	if strings.HasPrefix(s, "sdns://") {
		return ""
	}
	return s
}

// Bootstrap converts the address of a server that resolves the names of upstreams.
func (p *Plain) Bootstrap(s string) *report.Note {
	if _, err := netip.ParseAddr(s); err != nil {
		return report.None("only addresses look up the names of upstreams")
	}
	f := &p.Work.Set.UseDNS().Forward
	f.Bootstrap = append(f.Bootstrap, s)
	return report.Same("dns: forward: bootstrap")
}

func (p *Plain) Validate(value string) *report.Note {
	p.Work.Set.UseDNS().Forward.Validate = value == "true" || value == "yes" || value == "1"
	return report.Same("dns: forward: validate")
}

func (p *Plain) Answer(value string) *report.Note {
	a, ok := map[string]filter.Answer{"zeroip": filter.Zero, "null_ip": filter.Zero, "anyaddress": filter.Zero, "nxdomain": filter.NXDomain, "refused": filter.Refused}[strings.ToLower(value)]
	if !ok {
		return report.None("write dns: block: answer and sinkhole")
	}
	p.Work.Set.UseDNS().Names.Block.Answer = a
	return report.Same("dns: block: answer")
}

// Rules makes lists of the collected entries, and rules for them.
func (p *Plain) Rules() (rules []policy.Rule, err error) {
	for _, x := range []struct {
		category, action string
		names            []report.Place
		urls             []string
	}{{"allowed", "allow", p.Allowed, p.allowURLs}, {"blocked", "block", p.Blocked, p.BlockURLs}} {
		x.category += p.Suffix
		some := len(x.urls) > 0
		p.Work.Partial()
		if len(x.names) > 0 {
			path, err := p.Work.OwnLines(x.category, x.names)
			if err != nil {
				return nil, err
			}
			name, err := p.Work.AddList(x.category, list.Config{Path: setting.Source(path), Category: x.category, Format: list.Adblock, Match: list.Boundary, Subdomains: new(bool), Longest: p.longest && x.action == "block"}, report.Place{File: p.At.File, Text: x.category + " names"})
			if err != nil {
				return nil, err
			}
			some = some || name != ""
		}
		for _, u := range x.urls {
			p.Work.Fetched(u, x.category)
		}
		if p.Work.Partial() && x.action == "block" {
			n := report.ByHand("a rule that refuses more", "some of its expressions do not compile: until they do, everything is refused that no list allows")
			n.Place, n.What = report.Place{File: p.At.File}, x.category+" names"
			p.Work.Report.Add(n.Closing())
			p.lost = true
		}
		if p.lost && x.action == "block" {
			rules = append(rules, policy.Rule{Name: x.category, Action: x.action})
			continue
		}
		if some {
			rules = append(rules, policy.Rule{Name: x.category, Action: x.action, Category: []string{"category/" + x.category}})
		}
	}
	return append(rules, p.public...), nil
}

// AddToSettings makes lists and the policy from the collected entries.
func (p *Plain) AddToSettings() error {
	rules, err := p.Rules()
	if err != nil {
		return err
	}
	all := p.Work.MainPolicy()
	all.Rules = slices.Concat(rules, all.Rules, p.always)
	if p.unknown {
		all.Rules = []policy.Rule{{Name: "what is not known", Action: "block"}}
	}
	if len(p.free) > 0 {
		p.Work.Set.Policies = slices.Insert(p.Work.Set.Policies, 0, policy.Policy{Name: "unfiltered", Networks: p.free})
	}
	return nil
}

// ReadTree reads a file of YAML or JSON by a reader.
func ReadTree(w *Work, file, usual string, read func(all map[string]string) Reader) error {
	file = input.In(file, usual)
	data, err := input.Whole(file)
	if err != nil {
		return err
	}
	var v map[string]any
	if err := setting.LoadYAML(data, &v); err != nil { // JSON is YAML
		return err
	}
	p, f := &Plain{Work: w}, input.NewTree(file, data)
	all := map[string]string{}
	input.Flatten(v, "", "", func(k, _, s string) { all[k] = s })
	take := read(all)
	input.Flatten(v, "", "", func(k, exact, s string) {
		p.At = f.At(exact)
		p.Note(p.At, k+":", s, take(p, k, s))
	})
	p.At = report.Place{File: file}
	return p.AddToSettings()
}

func (p *Plain) Listen(value string) *report.Note {
	p.Work.Set.UseDNS().Server.Listen = ListenAddresses(value)
	return report.Same("dns: listen")
}

// ListenAddresses reads addresses and ports, separated by commas. A port alone means that port
// of all addresses.
func ListenAddresses(value string) (all setting.OneOrMore[string]) {
	for a := range strings.SplitSeq(value, ",") {
		if a = strings.TrimSpace(a); !strings.Contains(a, ":") {
			a = ":" + a
		}
		all = append(all, a)
	}
	return all
}

// Catalogued blocks the list of the catalogue that is most like one of the other program's.
func (p *Plain) Catalogued(id string, known map[string]string) *report.Note {
	source := known[id]
	if source == "" {
		return report.ByHand("lists", "this list is not public: \"shuultuur list catalogue\" names lists to write under lists with source").Opening()
	}
	name := source
	if input.IsURL(source) {
		name = id
	}
	p.Work.AddCatalogued(source, name)
	rules := &p.public
	if p.Suffix == "" {
		rules = &p.Work.MainPolicy().Rules
	}
	if !slices.ContainsFunc(*rules, func(r policy.Rule) bool { return r.Name == name }) {
		*rules = append(*rules, policy.Rule{Name: name, Action: "block", Category: []string{"category/" + name}})
	}
	if input.IsURL(source) {
		return report.Differs("lists."+name, "from where its author keeps it")
	}
	return report.Differs("lists."+name, "a public list of this kind, which is fetched")
}

// ReadOptions reads files of options with a reader.
func ReadOptions(w *Work, file string, files *input.OptionFiles, take func(p *Plain, at report.Place, key, value string) *report.Note) error {
	p := &Plain{Work: w}
	err := files.Each(file, func(at report.Place, key, value string) {
		p.At = at
		n := take(p, at, key, value)
		if n.Kind == report.Lost && !p.Flags && !strings.Contains(at.Text, files.Separator) {
			w.Report.Add(&report.Note{Kind: report.Lost, Place: at, What: at.Text, Why: report.NoneOfOurs}) // no option at all
			return
		}
		p.Note(at, key, value, n)
	})
	if err != nil {
		return err
	}
	if data, err := input.Text(file); err == nil {
		w.Report.Defaults = onlyComments(string(data))
	}
	p.At = report.Place{File: file}
	return p.AddToSettings()
}

// onlyComments reports whether a file has comments, and nothing else.
func onlyComments(text string) (some bool) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			return false
		}
		some = some || line != ""
	}
	return some
}

// Included returns the note on a line that names settings files. What a file would refuse that is not
// there is not known, so everything is refused.
func (p *Plain) Included(files *input.OptionFiles, key, value string) *report.Note {
	if found, _ := files.Included(files.Dir, key, value); len(found) > 0 {
		return report.Same("its lines")
	}
	if strings.ContainsAny(value, "*?[") || key == "conf-dir" {
		return report.Needless("no file is there")
	}
	p.unknown = true
	return report.None("no such file: copy it beside the settings and import again; until then everything is refused").Closing()
}

// RefuseBehind adds a rule behind those of the lists.
func (p *Plain) RefuseBehind(r policy.Rule) { p.always = append(p.always, r) }

// Unfiltered adds a network whose clients are not filtered.
func (p *Plain) Unfiltered(n netip.Prefix) {
	p.free = append(p.free, policy.Network{Prefix: n})
}
