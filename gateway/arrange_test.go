//go:build !small

package gateway

import (
	"context"
	"crypto"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	miekg "github.com/miekg/dns"

	"shuultuur/engine"
	"shuultuur/engine/configuration"
	"shuultuur/lib/dns"
	"shuultuur/nameserver"
	"shuultuur/resolver"
	"shuultuur/resolver/forward"
	"shuultuur/test/race"
)

var (
	arrangements = flag.Int("arrangements", 100, "random arrangements of zones, hosts, routes and blocks that are tried")
	arrangeFrom  = flag.Int("arrange-from", 1, "seed of the first arrangement")
)

// The domains of arrangements. Aliases lead to later ones only, so that there are no loops.
var arrangeDomains = []string{"sub.corp.example.", "corp.example.", "x.lab.example.", "lab.example.", "ads.net.", "pub.com.", "r.sec.org.", "sec.org."}

const signedDomain = "sec.org." // of the upstream; arrangements that validate have its key as an anchor

var arrangeLabels = []string{"", "a.", "b.", "c.", "d.a.", "bad."}

func arrangeNames() (all []string) {
	for _, d := range arrangeDomains {
		for _, l := range arrangeLabels {
			all = append(all, l+d)
		}
	}
	return all
}

// A node is what somebody has at a name.
type node struct {
	a     string // address
	txt   string
	cname string
	dname string
	ns    bool // delegated
}

// An arrangement is the settings, and what upstreams say. The rules of the READMEs are its model.
type arrangement struct {
	zones    map[string]map[string]*node // by origin and name, "*.…" too
	hosts    map[string]*node            // "*.…" too
	routes   map[string]int              // number of the upstream, 0: off
	blocked  map[string]bool             // domains
	validate bool
	says     [3]map[string]*node // by upstream
	full     [3]bool             // the upstream follows aliases
}

func under(name, domain string) bool { return miekg.IsSubDomain(domain, name) }

func longest[V any](m map[string]V, name string) (domain string, depth int) {
	depth = -1
	for d := range m {
		if under(name, d) && miekg.CountLabel(d) > depth {
			domain, depth = d, miekg.CountLabel(d)
		}
	}
	return domain, depth
}

func newArrangement(r *rand.Rand) *arrangement {
	x := &arrangement{zones: map[string]map[string]*node{}, hosts: map[string]*node{}, routes: map[string]int{}, blocked: map[string]bool{}, validate: r.IntN(3) == 0}
	names := arrangeNames()
	after := func(d int) string { return arrangeLabels[r.IntN(len(arrangeLabels))] + arrangeDomains[d] }
	// later returns a name that comes after name number i.
	later := func(i int) string {
		if i+1 >= len(names) {
			return ""
		}
		return names[i+1+r.IntN(len(names)-i-1)]
	}
	laterDomain := func(i int) string {
		if d := i/len(arrangeLabels) + 1; d < len(arrangeDomains) {
			return after(d + r.IntN(len(arrangeDomains)-d))
		}
		return ""
	}
	address := func(kind int) string { return fmt.Sprintf("198.51.%d.%d", 100+kind, 1+r.IntN(250)) }
	for i, d := range arrangeDomains {
		if r.IntN(3) == 0 {
			z := map[string]*node{d: {txt: "apex " + d}}
			for j, n := range names {
				if n == d || !under(n, d) || r.IntN(2) == 0 {
					continue
				}
				if slices.ContainsFunc(slices.Collect(maps.Keys(z)), func(o string) bool { return under(n, o) && (z[o].ns || z[o].dname != "") }) {
					continue
				}
				below := slices.ContainsFunc(slices.Collect(maps.Keys(z)), func(m string) bool { return m != n && under(m, n) })
				switch k := r.IntN(8); {
				case k == 0 && !below:
					z[n] = &node{ns: true}
				case k == 1 && !below && j/len(arrangeLabels)+2 < len(arrangeDomains):
					to := arrangeDomains[j/len(arrangeLabels)+1+r.IntN(len(arrangeDomains)-j/len(arrangeLabels)-1)]
					if !under(n, to) && !under(to, n) && !strings.HasSuffix(to, "corp.example.") {
						z[n] = &node{dname: to}
					}
				case k < 5 && later(j) != "":
					z[n] = &node{cname: later(j)}
				default:
					z[n] = &node{a: address(20), txt: "zone " + d}
				}
			}
			switch r.IntN(4) {
			case 0:
				z["*."+d] = &node{a: address(21)}
			case 1:
				if to := laterDomain(i * len(arrangeLabels)); to != "" && !strings.HasSuffix(to, "corp.example.") && !strings.HasSuffix(to, "lab.example.") {
					z["*."+d] = &node{cname: to}
				}
			}
			x.zones[d] = z
		}
		switch r.IntN(6) {
		case 0:
			x.routes[d] = 1
		case 1:
			x.routes[d] = 2
		case 2:
			if r.IntN(3) == 0 {
				x.routes[d] = 0
			}
		}
	}
	for range r.IntN(8) {
		i := r.IntN(len(names))
		h := &node{a: "10.7.0." + fmt.Sprint(1+r.IntN(250))}
		if to := later(i); to != "" && r.IntN(3) == 0 {
			h = &node{cname: to}
		}
		x.hosts[names[i]] = h
	}
	if d := arrangeDomains[r.IntN(len(arrangeDomains))]; r.IntN(2) == 0 {
		x.hosts["*."+d] = &node{a: "10.8.0.1"}
	}
	for range r.IntN(4) {
		x.blocked[names[r.IntN(len(names))]] = true
	}
	for up := range x.says {
		x.full[up] = r.IntN(2) == 0
		x.says[up] = map[string]*node{}
		for i, n := range names {
			route, depth := longest(x.routes, n)
			if up > 0 && (depth < 0 || x.routes[route] != up) {
				x.says[up][n] = x.says[0][n] // all agree about what is public
				continue
			}
			switch k := r.IntN(10); {
			case k < 2:
			case k < 5 && later(i) != "":
				x.says[up][n] = &node{cname: later(i)}
			case k == 5:
				x.says[up][n] = &node{a: fmt.Sprintf("10.%d.0.%d", up, 1+r.IntN(250))}
			default:
				x.says[up][n] = &node{a: address(up), txt: fmt.Sprintf("upstream %d", up)}
			}
		}
	}
	return x
}

func (x *arrangement) files(ups [3]string) map[string]string {
	files := map[string]string{}
	var s, list, zones, hosts, routes strings.Builder
	for _, b := range slices.Sorted(maps.Keys(x.blocked)) {
		fmt.Fprintln(&list, strings.TrimSuffix(b, "."))
	}
	fmt.Fprintln(&list, "never-asked.invalid")
	for _, o := range slices.Sorted(maps.Keys(x.zones)) {
		z, text := x.zones[o], "$TTL 60\n@ SOA ns.other. h.other. 1 2 3 4 60\n@ NS ns.other.\n"
		for _, n := range slices.Sorted(maps.Keys(z)) {
			text += zoneLines(n, z[n])
		}
		file := strings.TrimSuffix(o, ".") + ".zone"
		files[file] = text
		fmt.Fprintf(&zones, "      - {path: %s}\n", file)
	}
	for _, n := range slices.Sorted(maps.Keys(x.hosts)) {
		fmt.Fprintf(&hosts, "    %q: %q\n", strings.TrimSuffix(n, "."), x.hosts[n].a+strings.TrimSuffix(x.hosts[n].cname, "."))
	}
	for _, n := range slices.Sorted(maps.Keys(x.routes)) {
		to := "off"
		if u := x.routes[n]; u > 0 {
			to = `["` + ups[u] + `"]`
		}
		fmt.Fprintf(&routes, "      %s: %s\n", strings.TrimSuffix(n, "."), to)
	}
	s.WriteString("data: ./data\nlists: {own: {format: domains, path: own.txt, category: games}}\nchecks: {category: {lists: [own]}}\npolicies:\n" +
		"  - {name: pupils, networks: [10.1.0.0/16], rules: [{name: games, action: block, category: [games], answer: nxdomain}]}\n  - {name: rest}\n" +
		"dns:\n  listen: [\"127.0.0.1:0\"]\n  forward:\n    upstreams: [\"" + ups[0] + "\"]\n")
	if x.validate {
		fmt.Fprintf(&s, "    validate: true\n    trust-anchors: [%q]\n    negative-trust-anchors: [example, net, com]\n", strings.ReplaceAll(arrangeKey().key.ToDS(miekg.SHA256).String(), "\t", " "))
	}
	for _, part := range []struct{ key, text string }{{"    routes:\n", routes.String()}, {"  hosts:\n", hosts.String()}, {"  zones:\n    files:\n", zones.String()}} {
		if part.text != "" {
			s.WriteString(part.key + part.text)
		}
	}
	files["shuultuur.yaml"], files["own.txt"] = s.String(), list.String()
	return files
}

func zoneLines(n string, d *node) (s string) {
	for _, f := range []struct{ kind, data string }{{"A", d.a}, {"CNAME", d.cname}, {"DNAME", d.dname}} {
		if f.data != "" {
			s += n + " " + f.kind + " " + f.data + "\n"
		}
	}
	if d.txt != "" {
		s += n + ` TXT "` + d.txt + "\"\n"
	}
	if d.ns {
		s += n + " NS ns.other.\n"
	}
	return s
}

// A said is an answer of the model: the rcode, records in the order of aliases, and by whom.
type said struct {
	rcode   string
	records []string
	targets []string // of aliases that the policy judges
	private bool     // it has a private address of a name of others
	secure  bool     // every record is validated
}

// owner returns who knows the name, by the longest domain.
func (x *arrangement) owner(name string) (kind, at string) {
	zone, zd := longest(x.zones, name)
	_, rd := longest(x.routes, name)
	host, hd := "", -1
	for h := range x.hosts {
		d, wild := strings.CutPrefix(h, "*.")
		if n := miekg.CountLabel(d); (h == name || wild && name != d && under(name, d)) && n > hd {
			host, hd = h, n
		}
	}
	switch {
	case zd >= 0 && zd >= rd && zd >= hd:
		return "zone", zone
	case hd >= 0 && hd >= rd:
		return "host", host
	}
	return "upstream", ""
}

// local returns what a zone has for a name: records, an alias, or nothing.
func (x *arrangement) local(zone, name, kind string) (rcode string, records []string, next string, delegated bool) {
	z := x.zones[zone]
	labels := miekg.SplitDomainName(name)
	for i := miekg.CountLabel(name) - miekg.CountLabel(zone) - 1; i >= 0; i-- { // from the top
		at := miekg.Fqdn(strings.Join(labels[i:], "."))
		switch d := z[at]; {
		case d == nil:
		case d.ns:
			return "NOERROR", nil, "", true
		case d.dname != "" && i > 0:
			next = strings.TrimSuffix(name, at) + d.dname
			return "NOERROR", []string{at + " DNAME " + d.dname, name + " CNAME " + next}, next, false
		}
	}
	d := z[name]
	if d == nil {
		encloser := name
		for {
			if _, rest, _ := strings.Cut(encloser, "."); slices.ContainsFunc(slices.Collect(maps.Keys(z)), func(m string) bool { return under(m, encloser) }) {
				break
			} else {
				encloser = rest
			}
		}
		if encloser == name {
			return "NOERROR", nil, "", false
		}
		if d = z["*."+encloser]; d == nil {
			return "NXDOMAIN", nil, "", false
		}
	}
	return "NOERROR", d.records(name, kind), d.cname, false
}

func (d *node) records(name, kind string) (all []string) {
	switch {
	case d.cname != "":
		return []string{name + " CNAME " + d.cname}
	case kind == "A" && d.a != "":
		return []string{name + " A " + d.a}
	case kind == "TXT" && d.txt != "":
		return []string{name + ` TXT "` + d.txt + `"`}
	case kind == "DNAME" && d.dname != "":
		return []string{name + " DNAME " + d.dname}
	}
	return nil
}

// answer returns what a client that may recurse gets before its policy has judged it.
func (x *arrangement) answer(name, kind string) (s said) {
	s.rcode, s.secure = "NOERROR", true
	name0, from := name, "" // from: who owned the alias before
	left := false           // our zones: what follows is judged
	for range 30 {
		by, at := x.owner(name)
		left = left || by != "zone" || x.delegated(name, kind)
		if from != "" && left {
			s.targets = append(s.targets, name)
		}
		next := ""
		switch by {
		case "zone":
			rcode, records, to, delegated := x.local(at, name, kind)
			if delegated {
				by = "upstream"
				break
			}
			s.secure = false
			s.rcode, s.records, next = rcode, append(s.records, records...), to
		case "host":
			h := x.hosts[at]
			s.secure = false
			switch {
			case kind == "TXT": // hosts have addresses and aliases for these
			case h.cname != "":
				s.records, next = append(s.records, name+" CNAME "+h.cname), h.cname
			default:
				s.records = append(s.records, h.records(name, kind)...)
			}
		}
		if by == "upstream" {
			route, depth := longest(x.routes, name)
			up := 0
			if depth >= 0 {
				up = x.routes[route]
			}
			off := depth >= 0 && up == 0
			d := x.says[up][name]
			// A route is validated if it has a trust anchor of its own.
			if x.validate && under(name, signedDomain) && (depth < 0 || route == signedDomain) && !off {
				if strings.HasPrefix(name, "bad.") {
					if x.delegated(name0, kind) { // the client gets the referral
						return said{rcode: "NOERROR"}
					}
					return said{rcode: "SERVFAIL"}
				}
			} else {
				s.secure = false
			}
			switch {
			case off, d == nil && !x.between(up, name):
				s.rcode = "NXDOMAIN"
			case d == nil:
			default:
				s.records, next = append(s.records, d.records(name, kind)...), d.cname
				if strings.HasPrefix(d.a, "10.") && kind == "A" {
					zone, _ := x.owner(name)
					_, asked := longest(x.routes, name0)
					s.private = s.private || depth < 0 && zone != "zone" && asked < 0
				}
			}
		}
		if next == "" {
			break
		}
		if kind == "CNAME" { // it is not followed, but judged if it is of others
			if by == "upstream" {
				s.targets = append(s.targets, next)
			}
			break
		}
		from, name = by, next
	}
	return s
}

// delegated reports whether a zone of ours answers for a name, but has delegated it.
func (x *arrangement) delegated(name, kind string) (is bool) {
	if by, at := x.owner(name); by == "zone" {
		_, _, _, is = x.local(at, name, kind)
	}
	return is
}

// between reports whether an upstream has names below a name that has no records.
func (x *arrangement) between(up int, name string) bool {
	return slices.ContainsFunc(arrangeDomains, func(d string) bool { return under(d, name) }) ||
		slices.ContainsFunc(slices.Collect(maps.Keys(x.says[up])), func(n string) bool { return x.says[up][n] != nil && under(n, name) })
}

// want returns what a client gets that may recurse.
func (x *arrangement) want(client, name, kind string) string {
	by, _ := x.owner(name)
	s, delegated := x.answer(name, kind), x.delegated(name, kind)
	judged := s.targets
	if by == "upstream" || delegated {
		judged = append([]string{name}, judged...)
	}
	refused := func(n string) bool { _, depth := longest(x.blocked, n); return depth >= 0 }
	pupil := strings.HasPrefix(client, "10.1.")
	// The name is judged before upstreams are asked, what it leads to afterwards.
	switch {
	case pupil && (by == "upstream" || delegated) && refused(name):
		return "NXDOMAIN RA EDE 15"
	case s.rcode == "SERVFAIL":
		return "SERVFAIL RA"
	case by == "host":
	case s.private:
		return "NOERROR RA EDE 15"
	case pupil && slices.ContainsFunc(judged, refused):
		return "NXDOMAIN RA EDE 15"
	}
	ad := ""
	if x.validate && s.secure {
		ad = " AD"
	}
	return strings.Join(append([]string{s.rcode + " RA" + ad}, s.records...), "; ")
}

// outside returns what a client that may not recurse gets: what zones have.
func (x *arrangement) outside(name, kind string) string {
	rcode, records := "NOERROR", []string{}
	for i := 0; name != ""; i++ {
		zone, depth := longest(x.zones, name)
		if depth < 0 {
			if i == 0 {
				return "REFUSED"
			}
			break
		}
		var more []string
		rcode, more, name, _ = x.local(zone, name, kind)
		if kind == "CNAME" {
			name = ""
		}
		records = append(records, more...)
	}
	return strings.Join(append([]string{rcode}, records...), "; ")
}

// A signer signs what the upstream says of the signed domain.
type signer struct {
	key     *miekg.DNSKEY
	private crypto.Signer
	made    sync.Map // signatures, by the records as text
}

// arrangeKey returns the key of the signed domain.
var arrangeKey = sync.OnceValue(func() *signer {
	k := &signer{key: &miekg.DNSKEY{Hdr: miekg.RR_Header{Name: signedDomain, Rrtype: miekg.TypeDNSKEY, Class: 1, Ttl: 300}, Flags: 257, Protocol: 3, Algorithm: miekg.ECDSAP256SHA256}}
	p, err := k.key.Generate(256)
	if err != nil {
		panic(err)
	}
	k.private = p.(crypto.Signer)
	return k
})

func (k *signer) sign(rr miekg.RR) miekg.RR {
	text := rr.String()
	if s, ok := k.made.Load(text); ok {
		return s.(miekg.RR)
	}
	now := time.Now()
	s := &miekg.RRSIG{Hdr: miekg.RR_Header{Ttl: 300}, Algorithm: k.key.Algorithm, KeyTag: k.key.KeyTag(), SignerName: signedDomain,
		Inception: uint32(now.Add(-time.Hour).Unix()), Expiration: uint32(now.Add(24 * time.Hour).Unix())}
	if err := s.Sign(k.private, []miekg.RR{rr}); err != nil {
		panic(err)
	}
	if strings.HasPrefix(strings.ToLower(rr.Header().Name), "bad.") {
		s.Signature = "AAAA" + s.Signature[4:]
	}
	k.made.Store(text, s)
	return s
}

func mustRR(s string) miekg.RR {
	rr, err := miekg.NewRR(s)
	if err != nil {
		panic(err)
	}
	return rr
}

// reply is what an upstream answers.
func (x *arrangement) reply(up int, q *miekg.Msg) *miekg.Msg {
	m := new(miekg.Msg)
	m.SetReply(q)
	m.RecursionAvailable, m.Compress = true, true
	if opt := q.IsEdns0(); opt != nil {
		m.SetEdns0(1232, opt.Do())
	}
	asked, qtype := q.Question[0].Name, q.Question[0].Qtype
	name, kind := strings.ToLower(asked), miekg.TypeToString[qtype]
	k := arrangeKey()
	domain, exists, unproven := "", false, false
	answer := func(name string, rrs ...string) {
		for _, s := range rrs {
			if f := strings.SplitN(s, " ", 2); f[0] == strings.ToLower(asked) {
				f[0] = asked // in the case of the question
				s = strings.Join(f, " ")
			}
			f := strings.SplitN(s, " ", 2)
			m.Answer = append(m.Answer, mustRR(f[0]+" 300 IN "+f[1]))
		}
	}
	for found := false; !found; {
		d := x.says[up][name]
		exists = d != nil || x.between(up, name)
		if d == nil || qtype == miekg.TypeDS || qtype == miekg.TypeDNSKEY {
			break
		}
		records := d.records(name, kind)
		answer(name, records...)
		if found = len(records) > 0 && (d.cname == "" || kind == "CNAME"); found || d.cname == "" {
			if found {
				exists = true
				domain = "-"
			}
			break
		}
		// What is bogus is left to a question of its own: within an answer it makes all of it bogus.
		if name = d.cname; !x.full[up] || under(name, signedDomain) && strings.HasPrefix(name, "bad.") {
			domain = "-"
			break
		}
	}
	switch {
	case name == signedDomain && qtype == miekg.TypeDNSKEY:
		m.Answer = append(m.Answer, k.key)
	case domain == "":
		for _, d := range arrangeDomains {
			if under(name, d) && (domain == "" || len(d) > len(domain)) && d != "r.sec.org." {
				domain = d
			}
		}
		if domain == "" {
			domain = "."
		}
		if !exists {
			m.Rcode = miekg.RcodeNameError
		}
		m.Ns = append(m.Ns, mustRR(domain+" 300 IN SOA ns.other. h.other. 1 2 3 4 300"))
		if domain == signedDomain {
			nsec := name + " 300 IN NSEC \\000." + name + " RRSIG NSEC"
			if route, _ := longest(x.routes, name); up > 0 && route == "r.sec.org." {
				break // they do not prove it either
			}
			if !exists { // nothing exists below the apex, as far as this says
				nsec = signedDomain + " 300 IN NSEC " + signedDomain + " SOA RRSIG NSEC DNSKEY"
			}
			m.Ns = append(m.Ns, mustRR(nsec))
			if !exists && strings.HasPrefix(name, "bad.") {
				unproven = true
			}
		}
	}
	if opt := q.IsEdns0(); opt == nil || !opt.Do() {
		return m
	}
	for _, section := range []*[]miekg.RR{&m.Answer, &m.Ns} {
		if unproven && section == &m.Ns {
			break
		}
		for _, rr := range *section {
			owner := strings.ToLower(rr.Header().Name)
			// The servers of a local domain below the signed one do not sign it.
			if route, _ := longest(x.routes, owner); under(owner, signedDomain) && (up == 0 || route != "r.sec.org.") {
				*section = append(*section, k.sign(rr))
			}
		}
	}
	return m
}

// arrangedUpstreams are servers that answer as the arrangement in use says.
func arrangedUpstreams(t *testing.T, use *atomic.Pointer[arrangement]) (addrs [3]string) {
	t.Helper()
	for up := range addrs {
		conn, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s := &miekg.Server{PacketConn: conn, Handler: miekg.HandlerFunc(func(w miekg.ResponseWriter, q *miekg.Msg) { _ = w.WriteMsg(use.Load().reply(up, q)) })}
		var wg sync.WaitGroup
		wg.Go(func() { _ = s.ActivateAndServe() })
		t.Cleanup(func() { conn.Close(); wg.Wait() })
		addrs[up] = conn.LocalAddr().String()
	}
	return addrs
}

// TestNamesAreAnsweredByTheRulesOfTheREADME tries random arrangements of zones, hosts, routes, blocks
// and validation against a model of the rules: the longest domain decides, aliases lead to ours, and
// the policy judges what others say. More are tried with -arrangements 5000.
func TestNamesAreAnsweredByTheRulesOfTheREADME(t *testing.T) {
	race.Without(t)
	var use atomic.Pointer[arrangement]
	ups := arrangedUpstreams(t, &use)
	failed, asked := 0, 0
	for seed := *arrangeFrom; seed < *arrangeFrom+*arrangements && failed < 20; seed++ {
		r := rand.New(rand.NewPCG(uint64(seed), 49))
		x := newArrangement(r)
		use.Store(x)
		files := x.files(ups)
		before := failed
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			e, done := arrangedEngine(t, files)
			defer done()
			names := arrangeNames()
			for range 24 {
				name := names[r.IntN(len(names))]
				if r.IntN(6) == 0 {
					name = "e." + name
				}
				kind, client := []string{"A", "A", "TXT", "CNAME"}[r.IntN(4)], []string{"10.1.0.5", "192.168.1.1"}[r.IntN(2)]
				want := x.want(client, name, kind)
				for _, how := range []string{"first", "again"} {
					asked++
					if got := askArranged(t, e, client, name, kind, true); got != want {
						t.Errorf("%s asks %s for %s %s:\n got %s\nwant %s", client, how, name, kind, got, want)
						failed++
					}
				}
				if got, want := askArranged(t, e, "203.0.113.5", name, kind, false), x.outside(name, kind); got != want {
					t.Errorf("a client that may not recurse asks for %s %s:\n got %s\nwant %s", name, kind, got, want)
					failed++
				}
			}
			if failed > before {
				t.Logf("the settings:\n%s\nblocked: %v", files["shuultuur.yaml"], slices.Sorted(maps.Keys(x.blocked)))
				for _, f := range slices.Sorted(maps.Keys(files)) {
					if strings.HasSuffix(f, ".zone") {
						t.Logf("%s:\n%s", f, files[f])
					}
				}
			}
		})
	}
	t.Logf("%d questions", asked)
}

func arrangedEngine(t *testing.T, files map[string]string) (e *engine.Engine, done func()) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	s, err := configuration.Read(folder(t, files))
	if err != nil {
		t.Fatal(err)
	}
	if e, err = engine.Build(context.Background(), s, nil, nil, log); err != nil {
		t.Fatal(err)
	}
	f, err := forward.New(s.DNS.Forward)
	if err != nil {
		t.Fatal(err)
	}
	store, err := resolver.NewStore(resolver.CacheConfig{Size: 4 << 20}, "", f.Ask)
	if err != nil {
		t.Fatal(err)
	}
	if e.Resolver, err = e.ResolverFor(s.DNS, e.Policies, store); err != nil {
		t.Fatal(err)
	}
	e.Resolver = e.Resolver.With(e.Zones)
	return e, func() {
		store.Close()
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		e.Drop(nil, log)
	}
}

// askArranged asks as the name server does: the resolver, and the zones for whom it does not serve.
func askArranged(t *testing.T, e *engine.Engine, client, name, kind string, recursion bool) string {
	t.Helper()
	q := questionOf(t, client, name, miekg.StringToType[kind], time.Now())
	q.Flags |= 1 << 5 // AD
	q.Recursion = recursion
	a := &reply{}
	out := dns.Declined
	for _, r := range []nameserver.Responder{e.Resolver, e.Zones} {
		a.Start(q, nil, 1200)
		if out = r.Answer(q, &a.Reply, &a.T); out == dns.Later {
			a.Start(q, a.Buf, 1200)
			out = r.Wait(context.Background(), q, &a.Reply, &a.T)
		}
		if out != dns.Declined {
			break
		}
	}
	if out == dns.Declined {
		return "REFUSED"
	}
	var m miekg.Msg
	if err := m.Unpack(a.Finish(&dns.Options{Size: 1232, Max: 1232})); err != nil {
		t.Fatal(err)
	}
	s := miekg.RcodeToString[m.Rcode]
	if m.RecursionAvailable {
		s += " RA"
	}
	if m.AuthenticatedData {
		s += " AD"
	}
	if a.HasEDE && a.EDE == dns.EDEBlocked {
		s += " EDE 15"
	}
	for _, rr := range m.Answer {
		s += "; " + strings.ToLower(rr.Header().Name) + " " + miekg.TypeToString[rr.Header().Rrtype] + " " + strings.TrimPrefix(rr.String(), rr.Header().String())
	}
	return s
}
