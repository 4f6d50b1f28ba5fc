//go:build !small

package main

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	reasons "shuultuur/admin/why"
	"shuultuur/engine"
)

// hidden is what nobody here knows: whether a condition of the other program that cannot be read
// holds for a request. Each of some worlds has its own answers.
type hidden struct{ world uint64 }

func (h hidden) holds(condition, request string) bool {
	switch h.world {
	case 0:
		return false
	case 1:
		return true
	}
	f := fnv.New64a()
	fmt.Fprintf(f, "%d %s %s", h.world, condition, request)
	return f.Sum64()&1 == 1
}

// A sketch is a generated configuration, and what the program allows by it.
type sketch struct {
	files  map[string]string // the first one that importing names is main
	main   string
	allows func(h hidden, client, host string, port int) bool
}

// pick returns one of all.
func pick[T any](r *rand.Rand, all ...T) T { return all[r.IntN(len(all))] }

var (
	sketchHosts   = []string{"ads.example", "www.ads.example", "good.ads.example", "games.example", "a.games.example", "other.example"}
	sketchClients = []string{"10.1.0.5", "10.2.0.5", "192.0.2.9"}
)

// below reports whether a host is a domain or below it.
func below(host, domain string) bool { return host == domain || strings.HasSuffix(host, "."+domain) }

// inNet reports whether a client is in a network.
func inNet(client, network string) bool {
	return netip.MustParsePrefix(network).Contains(netip.MustParseAddr(client))
}

// TestImportsOpenNothing imports generated configurations, in which conditions, lists and files are
// missing or of a kind that is not read, and asks about hosts, by clients and ports. What the result
// allows, the program has to allow, whatever is behind the missing parts.
//
// CONFIGURATIONS in the environment is the number for each program.
func TestImportsOpenNothing(t *testing.T) {
	count, _ := generated(15)
	for _, p := range []struct {
		program string
		make    func(r *rand.Rand) sketch
		ports   []int
	}{
		{"squid", sketchOfSquid, []int{80, 8080}},
		{"squidguard", sketchOfSquidGuard, []int{80}},
		{"e2guardian", sketchOfE2guardian, []int{80}},
		{"privoxy", sketchOfPrivoxy, []int{80, 8080}},
		{"unbound", sketchOfUnbound, []int{80}},
		{"dnsmasq", sketchOfDnsmasq, []int{80}},
	} {
		t.Run(p.program, func(t *testing.T) {
			t.Parallel()
			allowed, refused := 0, 0
			for seed := range count {
				r := rand.New(rand.NewPCG(50, uint64(seed)))
				s := p.make(r)
				e, done := sketchResult(t, p.program, s)
				if e == nil {
					continue // an import that stops opens nothing
				}
				for _, client := range sketchClients {
					if _, err := e.Identify(t.Context(), netip.MustParseAddr(client)); err != nil {
						continue // 407
					}
					for _, host := range sketchHosts {
						port := pick(r, p.ports...)
						x, err := e.Why(t.Context(), reasons.Question{URL: fmt.Sprintf("http://%s:%d/", host, port), Client: netip.MustParseAddr(client), Method: "GET"})
						if err != nil {
							t.Fatal(err)
						}
						if x.Action != "pass" && x.Action != "allow" {
							refused++
							continue
						}
						allowed++
						for world := range uint64(6) {
							if !s.allows(hidden{world}, client, host, port) {
								t.Fatalf("configuration %d: %s may reach %s:%d by rule %q of %q, which %s refuses\n%s", seed, client, host, port, x.Rule, x.Policy, p.program, sketchText(s))
							}
						}
					}
				}
				done()
			}
			t.Logf("%d configurations: %d requests allowed, %d refused", count, allowed, refused)
			if count > 10 && (allowed == 0 || refused == 0) {
				t.Errorf("%d requests are allowed, %d refused: the configurations try nothing", allowed, refused)
			}
		})
	}
}

func sketchText(s sketch) string {
	var b strings.Builder
	for name, text := range s.files {
		fmt.Fprintf(&b, "-- %s --\n%s\n", name, text)
	}
	return b.String()
}

// sketchResult imports a sketch; the engine is nil if the import stops.
func sketchResult(t *testing.T, program string, s sketch) (*engine.Engine, func()) {
	t.Helper()
	dir, err := os.MkdirTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	for n, text := range s.files {
		if err := os.WriteFile(filepath.Join(dir, n), []byte(strings.ReplaceAll(text, "@D@", dir)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	to := filepath.Join(dir, "new")
	var said bytes.Buffer
	status := importCommand(t.Context(), env{stdout: &said, stderr: &said}, []string{program, filepath.Join(dir, s.main), "-to", to})
	if status == 1 {
		return nil, nil
	}
	if status != 0 {
		t.Fatalf("status %d: %s\n%s", status, &said, sketchText(s))
	}
	e, done, err := engine.Explain(t.Context(), filepath.Join(to, "shuultuur.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return e, func() { done(); os.RemoveAll(dir) }
}

func sketchOfSquid(r *rand.Rand) sketch {
	type acl struct {
		line string
		is   func(h hidden, client, host string, port int) bool
	}
	unknown := func(name, line string) acl {
		return acl{line, func(h hidden, client, host string, _ int) bool { return h.holds(name, client+host) }}
	}
	acls := map[string]acl{
		"local":  {"acl local src 10.1.0.0/16", func(_ hidden, c, _ string, _ int) bool { return inNet(c, "10.1.0.0/16") }},
		"both":   {"acl both src 10.0.0.0/8", func(_ hidden, c, _ string, _ int) bool { return inNet(c, "10.0.0.0/8") }},
		"ads":    {"acl ads dstdomain .ads.example", func(_ hidden, _, host string, _ int) bool { return below(host, "ads.example") }},
		"games":  {"acl Games dstdomain .games.example", func(_ hidden, _, host string, _ int) bool { return below(host, "games.example") }},
		"www":    {`acl www dstdom_regex -i ^www\.`, func(_ hidden, _, host string, _ int) bool { return strings.HasPrefix(host, "www.") }},
		"url":    {`acl url url_regex ^http://[^/:]*\.ads\.example`, func(_ hidden, _, host string, _ int) bool { return strings.HasSuffix(host, ".ads.example") }},
		"safe":   {"acl safe port 80 443", func(_ hidden, _, _ string, port int) bool { return port == 80 }},
		"tunnel": {"acl tunnel method CONNECT", func(hidden, string, string, int) bool { return false }},
		"post":   {"acl post method POST PUT", func(hidden, string, string, int) bool { return false }},
		"ftp":    {"acl ftp proto FTP", func(hidden, string, string, int) bool { return false }},
		"mac":    unknown("mac", "acl mac arp 00:11:22:33:44:55"),
		"gone":   unknown("gone", `acl gone dstdomain "@D@/gone"`),
		"lists":  unknown("lists", `acl lists url_regex "@D@/lists"`),
		"helper": unknown("helper", "external_acl_type h %SRC /usr/bin/h\nacl helper external h"),
		"none":   unknown("none", "# acl none is not there"),
		"named":  unknown("named", "acl named src lab.example"),
		"look":   unknown("look", `acl look url_regex (a)\1`),
		"hash":   unknown("hash", "acl hash random 0.5"),
		"any": {"acl any any-of ads games", func(_ hidden, _, host string, _ int) bool {
			return below(host, "ads.example") || below(host, "games.example")
		}},
		"mixed": {"acl mixed all-of local mac", func(h hidden, c, host string, _ int) bool { return inNet(c, "10.1.0.0/16") && h.holds("mac", c+host) }},
	}
	names := []string{"local", "both", "ads", "games", "www", "url", "safe", "tunnel", "post", "ftp", "mac", "gone", "lists", "helper", "none", "named", "look", "hash", "any", "mixed"}
	var b strings.Builder
	b.WriteString("http_port 3128\n")
	for _, n := range names {
		b.WriteString(acls[n].line + "\n")
	}
	type line struct {
		allow bool
		names []string
	}
	var lines []line
	for range 1 + r.IntN(6) {
		l := line{allow: r.IntN(2) == 0}
		for range 1 + r.IntN(3) {
			n := pick(r, names...)
			if r.IntN(4) == 0 {
				n = "!" + n
			}
			l.names = append(l.names, n)
		}
		lines = append(lines, l)
	}
	if r.IntN(4) > 0 {
		lines = append(lines, line{r.IntN(2) == 0, []string{"all"}})
	}
	for _, l := range lines {
		fmt.Fprintf(&b, "http_access %s %s\n", map[bool]string{true: "allow", false: "deny"}[l.allow], strings.Join(l.names, " "))
	}
	return sketch{map[string]string{"squid.conf": b.String()}, "squid.conf", func(h hidden, client, host string, port int) bool {
		for _, l := range lines {
			if !slices.ContainsFunc(l.names, func(n string) bool {
				n, not := strings.CutPrefix(n, "!")
				return (n == "all" || acls[n].is(h, client, host, port)) == not
			}) {
				return l.allow
			}
		}
		return !lines[len(lines)-1].allow
	}}
}

func sketchOfSquidGuard(r *rand.Rand) sketch {
	files := map[string]string{"ads": "ads.example\n", "games": "games.example\n", "none": "# nothing\n", "odd": "(?<x)y\n"}
	is := map[string]func(h hidden, host string) bool{
		"ads":   func(_ hidden, host string) bool { return below(host, "ads.example") },
		"games": func(_ hidden, host string) bool { return below(host, "games.example") },
		"gone":  func(h hidden, host string) bool { return h.holds("gone", host) },
		"half":  func(h hidden, host string) bool { return below(host, "ads.example") || h.holds("half", host) },
		"none":  func(hidden, string) bool { return false },
	}
	var b strings.Builder
	b.WriteString("dbhome @D@\n")
	type src struct {
		name, line string
		has        func(h hidden, client string) bool
	}
	sources := []src{
		{"one", "ip 10.1.0.0/16", func(_ hidden, c string) bool { return inNet(c, "10.1.0.0/16") }},
		{"people", "ldapusersearch ldap://x/?sub", func(h hidden, c string) bool { return h.holds("people", c) }},
		{"part", "ip 10.2.0.0/16\n  execuserlist /bin/x", func(h hidden, c string) bool { return inNet(c, "10.2.0.0/16") && h.holds("part", c) }},
		{"listed", "iplist @D@/missing", func(h hidden, c string) bool { return h.holds("listed", c) }},
		{"ten", "ip 10.0.0.0/8", func(_ hidden, c string) bool { return inNet(c, "10.0.0.0/8") }},
	}
	r.Shuffle(len(sources), func(i, j int) { sources[i], sources[j] = sources[j], sources[i] })
	sources = sources[:r.IntN(len(sources)+1)]
	for _, s := range sources {
		fmt.Fprintf(&b, "src %s {\n  %s\n}\n", s.name, s.line)
	}
	b.WriteString("dest ads {\n  domainlist ads\n}\ndest games {\n  domainlist games\n}\ndest gone {\n  domainlist missing\n}\ndest half {\n  domainlist ads\n  urllist missing\n}\ndest none {\n  domainlist none\n}\nacl {\n")
	pass := map[string][]string{}
	for _, s := range append(slices.Clone(sources), src{name: "default"}) {
		var words []string
		for range r.IntN(4) {
			words = append(words, pick(r, "", "!")+pick(r, "ads", "games", "gone", "half"))
		}
		words = append(words, pick(r, "all", "none"))
		pass[s.name] = words
		fmt.Fprintf(&b, "  %s {\n    pass %s\n    redirect http://blocked.example/\n  }\n", s.name, strings.Join(words, " "))
	}
	b.WriteString("}\n")
	files["squidGuard.conf"] = b.String()
	return sketch{files, "squidGuard.conf", func(h hidden, client, host string, _ int) bool {
		words := pass["default"]
		for _, s := range sources {
			if s.has(h, client) {
				words = pass[s.name]
				break
			}
		}
		for _, w := range words {
			switch name, not := strings.CutPrefix(w, "!"); {
			case w == "all":
				return true
			case w == "none":
				return false
			case is[name](h, host):
				return !not
			}
		}
		return true
	}}
}

func sketchOfE2guardian(r *rand.Rand) sketch {
	files := map[string]string{"e2guardian.conf": "filterport = 8080\nfiltergroups = 1\n"}
	is := map[string]func(h hidden, host string) bool{}
	texts := []struct {
		text string
		is   func(name string) func(h hidden, host string) bool
	}{
		{"ads.example\n", func(string) func(hidden, string) bool {
			return func(_ hidden, host string) bool { return below(host, "ads.example") }
		}},
		{"games.example\n", func(string) func(hidden, string) bool {
			return func(_ hidden, host string) bool { return below(host, "games.example") }
		}},
		{"", func(string) func(hidden, string) bool { return func(hidden, string) bool { return false } }},
		{"games.example\n.Include<@D@/missing>\n", func(name string) func(hidden, string) bool {
			return func(h hidden, host string) bool { return below(host, "games.example") || h.holds(name, host) }
		}},
		{"missing", func(name string) func(hidden, string) bool {
			return func(h hidden, host string) bool { return h.holds(name, host) }
		}},
	}
	var b strings.Builder
	b.WriteString("groupmode = 1\n")
	for _, name := range []string{"exceptionsitelist", "bannedsitelist", "bannedurllist"} {
		x := pick(r, texts...)
		is[name] = x.is(name)
		if fmt.Fprintf(&b, "%s = '@D@/%s'\n", name, name); x.text != "missing" {
			files[name] = "# a list\n" + x.text
		}
	}
	if r.IntN(8) == 0 {
		b.WriteString(".Include<@D@/missing.conf>\n")
		is["bannedurllist"] = func(h hidden, host string) bool { return h.holds("include", host) }
	}
	if files["e2guardianf1.conf"] = b.String(); r.IntN(12) == 0 { // nobody knows what the group has
		delete(files, "e2guardianf1.conf")
		is["exceptionsitelist"] = func(hidden, string) bool { return false }
		is["bannedurllist"] = func(h hidden, host string) bool { return h.holds("group", host) }
	}
	return sketch{files, ".", func(h hidden, _, host string, _ int) bool {
		return is["exceptionsitelist"](h, host) || !is["bannedsitelist"](h, host) && !is["bannedurllist"](h, host)
	}}
}

func sketchOfPrivoxy(r *rand.Rand) sketch {
	type pattern struct {
		text string
		is   func(h hidden, host string, port int) bool
	}
	patterns := []pattern{
		{".ads.example", func(_ hidden, host string, _ int) bool { return below(host, "ads.example") }},
		{"games.example", func(_ hidden, host string, _ int) bool { return host == "games.example" }},
		{"www.", func(_ hidden, host string, _ int) bool { return strings.HasPrefix(host, "www.") }},
		{".example:8080/", func(_ hidden, _ string, port int) bool { return port == 8080 }},
		{":80/", func(_ hidden, _ string, port int) bool { return port == 80 }},
		{"TAG:^odd$", func(h hidden, host string, _ int) bool { return h.holds("tag", host) }},
		{"CLIENT-TAG:^tag$", func(h hidden, host string, _ int) bool { return h.holds("client-tag", host) }},
	}
	type part struct {
		block bool
		of    []pattern
	}
	var parts []part
	var b strings.Builder
	b.WriteString("{{alias}}\nshut = +block{x}\n")
	for range 1 + r.IntN(4) {
		p := part{block: r.IntN(3) > 0}
		b.WriteString(map[bool]string{true: pick(r, "{ +block{ads} }\n", "{shut}\n"), false: "{ -block }\n"}[p.block])
		for range 1 + r.IntN(3) {
			x := pick(r, patterns...)
			p.of = append(p.of, x)
			b.WriteString(x.text + "\n")
		}
		parts = append(parts, p)
	}
	config, unknown := "confdir @D@\nactionsfile user.action\nlisten-address 127.0.0.1:8118\n", ""
	clients := ""
	switch r.IntN(8) {
	case 0:
		config, unknown = config+"actionsfile missing.action\n", "file"
	case 1:
		config, unknown = config+"trustfile missing\n", "trust"
	case 2:
		config, clients = config+"permit-access lab.example\n", "lab"
	case 3:
		config, clients = config+"deny-access lab.example\n", "deny"
	case 4:
		config, clients = config+"permit-access 10.1.0.0/16\n", "10.1"
	}
	return sketch{map[string]string{"config": config, "user.action": b.String()}, ".", func(h hidden, client, host string, port int) bool {
		switch clients {
		case "lab":
			if !h.holds("lab", client) {
				return false
			}
		case "deny":
			if h.holds("lab", client) {
				return false
			}
		case "10.1":
			if !inNet(client, "10.1.0.0/16") {
				return false
			}
		}
		if unknown != "" && h.holds(unknown, host) {
			return false
		}
		for _, p := range slices.Backward(parts) {
			if slices.ContainsFunc(p.of, func(x pattern) bool { return x.is(h, host, port) }) {
				return !p.block
			}
		}
		return true
	}}
}

func sketchOfUnbound(r *rand.Rand) sketch {
	kinds := []struct {
		name   string
		blocks bool
	}{{"always_nxdomain", true}, {"refuse", true}, {"static", true}, {"deny", true}, {"always_null", true}, {"transparent", false}, {"inform", false}}
	zones := map[string]bool{}
	var b strings.Builder
	b.WriteString("server:\n  interface: 127.0.0.1\n")
	for _, name := range []string{"ads.example", "good.ads.example", "games.example", "example"} {
		if k := pick(r, kinds...); r.IntN(3) > 0 {
			zones[name] = k.blocks
			fmt.Fprintf(&b, "  local-zone: %q %s\n", name+".", k.name)
		}
	}
	unknown := ""
	switch r.IntN(5) {
	case 0:
		unknown = "rpz"
		b.WriteString("rpz:\n  name: rpz.example\n  zonefile: \"missing.rpz\"\n")
	case 1:
		unknown = "include"
		b.WriteString("include: \"@D@/missing.conf\"\n")
	case 2:
		b.WriteString("include: \"@D@/missing*.conf\"\n  strange-option: 7\n")
	}
	return sketch{map[string]string{"unbound.conf": b.String()}, "unbound.conf", func(h hidden, _, host string, _ int) bool {
		if unknown != "" && h.holds(unknown, host) {
			return false
		}
		return !longestZone(zones, host)
	}}
}

// longestZone reports what the longest zone that covers a host says; false for none.
func longestZone(zones map[string]bool, host string) bool {
	for name := host; ; {
		if says, ok := zones[name]; ok {
			return says
		}
		_, rest, more := strings.Cut(name, ".")
		if !more {
			return zones[""]
		}
		name = rest
	}
}

func sketchOfDnsmasq(r *rand.Rand) sketch {
	zones := map[string]bool{}
	var b strings.Builder
	b.WriteString("server=9.9.9.9\n")
	for _, name := range []string{"ads.example", "good.ads.example", "games.example", "example"} {
		switch r.IntN(6) {
		case 0:
			zones[name] = true
			fmt.Fprintf(&b, "address=/%s/0.0.0.0\n", name)
		case 1:
			zones[name] = true
			fmt.Fprintf(&b, "address=/%s/\n", name)
		case 2:
			zones[name] = true
			fmt.Fprintf(&b, "local=/%s/\n", name)
		case 3:
			zones[name] = false
			fmt.Fprintf(&b, "server=/%s/1.1.1.1\n", name)
		}
	}
	unknown := false
	switch r.IntN(6) {
	case 0:
		unknown = true
		b.WriteString("conf-file=@D@/missing.conf\n")
	case 1:
		zones[""] = true
		b.WriteString("address=/#/192.0.2.1\n")
	case 2:
		b.WriteString("strange-option=7\nconf-dir=@D@/missing.d\n")
	}
	return sketch{map[string]string{"dnsmasq.conf": b.String()}, "dnsmasq.conf", func(h hidden, _, host string, _ int) bool {
		if unknown && h.holds("file", host) {
			return false
		}
		return !longestZone(zones, host)
	}}
}
