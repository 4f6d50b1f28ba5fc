package forward

import (
	"context"
	"errors"
	"fmt"
	miekg "github.com/miekg/dns"
	"hash/fnv"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"shuultuur/lib/dns"
	"shuultuur/lib/setting"
	"shuultuur/lib/wait/waittest"
	"shuultuur/resolver/validate"
	"shuultuur/test/peer"
)

// A signedZone is a zone of the tree that is served to validators.
type signedZone struct {
	name       string
	algorithm  string                              // "" for unsigned
	nsec3      []string                            // options of dnssec-signzone; nil: NSEC
	iterations string                              // of NSEC3, more than dnssec-signzone wants to make
	start      string                              // of signatures; default an hour ago
	end        string                              // default in ten days
	ds         string                              // "", "none", "wrong", "unknown"
	split      bool                                // a key for keys and one for the rest
	spoil      func(records []miekg.RR) []miekg.RR // done after signing
	apex       bool
}

const common = `
www     A     192.0.2.1
www     AAAA  2001:db8::1
mail    MX    10 www
a.b.ent TXT   "below an empty non-terminal"
*.wild  A     192.0.2.2
*.wild  TXT   "made"
here.wild A   192.0.2.3
alias   CNAME www
far     CNAME www.p384.lab.
toplain CNAME www.plain.lab.
tobad   CNAME www.expired.lab.
*.cwild CNAME www
away    DNAME p384.lab.
loop1   CNAME loop2
loop2   CNAME loop1
plain   NS    ns.plain
ns.plain A    127.0.0.1
`

var tree = []signedZone{
	{name: ".", algorithm: "RSASHA256", apex: true},
	{name: "lab.", algorithm: "ECDSAP256SHA256", nsec3: []string{"-3", "-", "-A"}, apex: true},
	{name: "nsec.lab.", algorithm: "ED25519"},
	{name: "sub.nsec.lab.", algorithm: "ECDSAP256SHA256"},
	{name: "nsec3.lab.", algorithm: "ECDSAP256SHA256", nsec3: []string{"-3", "-"}},
	{name: "p384.lab.", algorithm: "ECDSAP384SHA384"},
	{name: "rsa.lab.", algorithm: "RSASHA512", nsec3: []string{"-3", "abcd", "-H", "5"}},
	{name: "optout.lab.", algorithm: "ECDSAP256SHA256", nsec3: []string{"-3", "-", "-A"}},
	{name: "iterations.lab.", algorithm: "ECDSAP256SHA256", iterations: "200"},
	{name: "split.lab.", algorithm: "ECDSAP256SHA256", split: true},
	{name: "rsa256.lab.", algorithm: "RSASHA256", split: true, nsec3: []string{"-3", "beef", "-H", "100"}},
	{name: "nodenial3.lab.", algorithm: "ED25519", nsec3: []string{"-3", "-"}, spoil: withoutSignatures(func(s *miekg.RRSIG) bool { return s.TypeCovered == miekg.TypeNSEC3 })},
	{name: "plain.lab."},
	{name: "island.lab.", algorithm: "ED25519", ds: "none"},
	{name: "unknown.lab.", algorithm: "ED25519", ds: "unknown"},
	{name: "wrongds.lab.", algorithm: "ED25519", ds: "wrong"},
	{name: "expired.lab.", algorithm: "ED25519", start: "now-864000", end: "now-86400"},
	{name: "future.lab.", algorithm: "ED25519", start: "now+864000", end: "now+1728000"},
	{name: "stripped.lab.", algorithm: "ED25519", spoil: withoutSignatures(func(*miekg.RRSIG) bool { return true })},
	{name: "partly.lab.", algorithm: "ED25519", spoil: withoutSignatures(func(s *miekg.RRSIG) bool { return s.TypeCovered == miekg.TypeA })},
	{name: "changed.lab.", algorithm: "ED25519", spoil: func(rrs []miekg.RR) []miekg.RR {
		for _, rr := range rrs {
			if a, ok := rr.(*miekg.A); ok {
				a.A = net.IPv4(192, 0, 2, 99)
			}
		}
		return rrs
	}},
	{name: "nodenial.lab.", algorithm: "ED25519", spoil: withoutSignatures(func(s *miekg.RRSIG) bool { return s.TypeCovered == miekg.TypeNSEC })},
	{name: "nokey.lab.", algorithm: "ED25519", spoil: func(rrs []miekg.RR) []miekg.RR {
		var kept []miekg.RR
		for _, rr := range withoutSignatures(func(s *miekg.RRSIG) bool { return s.TypeCovered == miekg.TypeDNSKEY })(rrs) {
			if rr.Header().Rrtype != miekg.TypeDNSKEY {
				kept = append(kept, rr)
			}
		}
		return kept
	}},
}

// withoutSignatures removes the signatures that which selects.
func withoutSignatures(which func(*miekg.RRSIG) bool) func([]miekg.RR) []miekg.RR {
	return func(rrs []miekg.RR) []miekg.RR {
		var kept []miekg.RR
		for _, rr := range rrs {
			if s, ok := rr.(*miekg.RRSIG); !ok || !which(s) {
				kept = append(kept, rr)
			}
		}
		return kept
	}
}

// A lab is the tree, served.
type lab struct {
	anchor    string // the root's DS
	resolver  string // Unbound, which does not validate
	validator string // Unbound, which validates the resolver's answers
	liar      string // spoils the resolver's answers
	misled    string // Unbound, which validates the liar's answers
}

func tool(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := peer.Command(t, name, args...)
	cmd.Dir = dir
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s%s", name, args, err, out, &errs)
	}
	return strings.TrimSpace(string(out))
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func newLab(t *testing.T) *lab {
	t.Helper()
	dir := t.TempDir()
	keys := make([]string, len(tree))
	var wg sync.WaitGroup
	for i, z := range tree {
		if z.algorithm != "" {
			wg.Go(func() {
				keys[i] = tool(t, dir, "dnssec-keygen", "-q", "-a", z.algorithm, "-f", "KSK", z.name)
			})
		}
	}
	wg.Wait()
	l := &lab{}
	ds := map[string]string{} // by zone
	for i, z := range tree {
		if keys[i] == "" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, keys[i]+".key"))
		if err != nil {
			t.Fatal(err)
		}
		rr, err := miekg.NewRR(string(text[strings.LastIndex(strings.TrimSpace(string(text)), "\n")+1:]))
		if err != nil {
			t.Fatal(err)
		}
		d := rr.(*miekg.DNSKEY).ToDS(miekg.SHA256)
		switch z.ds {
		case "none":
			continue
		case "wrong":
			d.Digest = strings.Repeat("ab", 32)
		case "unknown":
			d.Algorithm = 200
		}
		ds[z.name] = d.String()
	}
	l.anchor = ds["."]
	var conf strings.Builder
	for i, z := range tree {
		wg.Go(func() { z.sign(t, dir, keys[i], ds) })
		fmt.Fprintf(&conf, "zone:\n  name: %q\n  zonefile: %q\n", z.name, filepath.Join(dir, z.file()))
	}
	wg.Wait()

	nsd := peer.Port(t)
	put(t, filepath.Join(dir, "nsd.conf"), fmt.Sprintf(`server:
  ip-address: 127.0.0.1@%s
  username: ""
  zonesdir: %q
  zonelistfile: %q
  xfrdfile: %q
  pidfile: %q
  database: ""
  server-count: 1
remote-control:
  control-enable: no
`, nsd, dir, filepath.Join(dir, "zone.list"), filepath.Join(dir, "xfrd.state"), filepath.Join(dir, "nsd.pid"))+conf.String())
	daemon(t, fmt.Sprint("127.0.0.1:", nsd), "nsd", "-d", "-c", filepath.Join(dir, "nsd.conf"))

	put(t, filepath.Join(dir, "anchor"), l.anchor+"\n")
	l.resolver = unbound(t, dir, "resolver", `module-config: "iterator"`, fmt.Sprintf("forward-zone:\n  name: .\n  forward-addr: 127.0.0.1@%s\n", nsd))
	l.liar = liar(t, l.resolver)
	l.validator, l.misled = l.unboundOver(t, dir, "validator", l.resolver), l.unboundOver(t, dir, "misled", l.liar)
	return l
}

// unboundOver starts an Unbound that validates the answers of another server.
func (l *lab) unboundOver(t *testing.T, dir, name, upstream string) string {
	return unbound(t, dir, name, fmt.Sprintf("module-config: \"validator iterator\"\n  trust-anchor-file: %q\n  aggressive-nsec: no\n  harden-below-nxdomain: no\n  ede: yes\n  cache-max-ttl: 0\n  cache-max-negative-ttl: 0", filepath.Join(dir, "anchor")),
		"forward-zone:\n  name: .\n  forward-addr: "+strings.Replace(upstream, ":", "@", 1)+"\n")
}

func (z *signedZone) file() string { return strings.TrimSuffix("zone."+z.name, ".") + ".signed" }

// sign writes the file of a zone and signs it.
func (z *signedZone) sign(t *testing.T, dir, key string, ds map[string]string) {
	text := fmt.Sprintf("$TTL 300\n$ORIGIN %s\n@ SOA ns.lab. hostmaster.lab. 1 3600 900 604800 60\n@ NS ns.lab.\n", z.name)
	if z.apex {
		text += "ns.lab. A 127.0.0.1\n"
		if z.name == "." {
			text = strings.ReplaceAll(text, "ns.lab. A 127.0.0.1\n", "")
		}
	} else {
		text += common
	}
	for _, c := range tree {
		if c.name != "." && c.name != z.name && parentZone(c.name) == z.name {
			text += c.name + " NS ns.lab.\n" + ds[c.name] + "\n"
		}
	}
	in := filepath.Join(dir, "in."+z.name)
	if key == "" {
		put(t, filepath.Join(dir, z.file()), text)
		return
	}
	keyText, err := os.ReadFile(filepath.Join(dir, key+".key"))
	if err != nil {
		t.Error(err)
		return
	}
	start, end := z.start, z.end
	if start == "" {
		start, end = "now-3600", "now+864000"
	}
	args := append([]string{"-q", "-P", "-s", start, "-e", end, "-o", z.name, "-f", z.file()}, z.nsec3...)
	if z.split {
		zone := tool(t, dir, "dnssec-keygen", "-q", "-a", z.algorithm, z.name)
		text, err := os.ReadFile(filepath.Join(dir, zone+".key"))
		if err != nil {
			t.Error(err)
			return
		}
		keyText = append(keyText, text...)
		args = append(args, "-k", key, in, zone)
	} else {
		args = append(args, "-z", in, key)
	}
	put(t, in, text+string(keyText))
	if z.iterations != "" {
		tool(t, dir, "ldns-signzone", "-n", "-t", z.iterations, "-o", z.name, "-f", z.file(), in, key)
	} else {
		tool(t, dir, "dnssec-signzone", args...)
	}
	if z.spoil == nil {
		return
	}
	file, err := os.Open(filepath.Join(dir, z.file()))
	if err != nil {
		t.Error(err)
		return
	}
	defer file.Close()
	var rrs []miekg.RR
	p := miekg.NewZoneParser(file, z.name, "")
	for rr, ok := p.Next(); ok; rr, ok = p.Next() {
		rrs = append(rrs, rr)
	}
	if p.Err() != nil {
		t.Error(p.Err())
	}
	var out strings.Builder
	for _, rr := range z.spoil(rrs) {
		out.WriteString(rr.String() + "\n")
	}
	put(t, filepath.Join(dir, z.file()), out.String())
}

// parentZone returns the zone of the tree that a name is delegated by.
func parentZone(name string) string {
	best := "."
	for _, z := range tree {
		if z.name != name && miekg.IsSubDomain(z.name, name) && miekg.CountLabel(z.name) > miekg.CountLabel(best) {
			best = z.name
		}
	}
	return best
}

func unbound(t *testing.T, dir, name, server, rest string) string {
	t.Helper()
	port := peer.Port(t)
	conf := filepath.Join(dir, name+".conf")
	put(t, conf, fmt.Sprintf(`server:
  interface: 127.0.0.1@%s
  do-daemonize: no
  use-syslog: no
  username: ""
  chroot: ""
  directory: %q
  pidfile: ""
  num-threads: 1
  do-ip6: no
  do-not-query-localhost: no
  qname-minimisation: no
  edns-buffer-size: 4096
  %s
%s`, port, dir, server, rest))
	addr := fmt.Sprint("127.0.0.1:", port)
	daemon(t, addr, "unbound", "-d", "-c", conf)
	return addr
}

// daemon starts a name server and waits until it answers.
func daemon(t *testing.T, addr, name string, args ...string) {
	t.Helper()
	peer.Start(t, name, args...)
	q := new(miekg.Msg).SetQuestion(".", miekg.TypeSOA)
	waittest.Until(t, name+" answers", func() bool {
		m, _, err := (&miekg.Client{Timeout: 200 * time.Millisecond}).Exchange(q, addr)
		return err == nil && m.Rcode == miekg.RcodeSuccess
	})
}

// ours returns our answer for a name, and the Extended DNS Error.
func ours(f *Forwarder, name string, qtype uint16) (string, uint16) {
	wire, err := dns.Name(name)
	if err != nil {
		return err.Error(), 0
	}
	msg, _, err := f.Exchange(context.Background(), wire, qtype, miekg.ClassINET, Option{DO: true})
	var e *Error
	if errors.As(err, &e) {
		return "bogus (" + err.Error() + ")", e.EDE
	}
	var m miekg.Msg
	if err := m.Unpack(msg); err != nil {
		return err.Error(), 0
	}
	return status(&m), 0
}

func status(m *miekg.Msg) string {
	switch {
	case m.Rcode == miekg.RcodeServerFailure:
		return "bogus"
	case m.AuthenticatedData:
		return "secure"
	}
	return "insecure"
}

// theirs returns Unbound's answer. A failure unrelated to DNSSEC is "failed".
func theirs(t *testing.T, server, name string, qtype uint16) string {
	t.Helper()
	q := new(miekg.Msg).SetQuestion(miekg.Fqdn(name), qtype)
	q.SetEdns0(4096, true)
	m, _, err := (&miekg.Client{Net: "tcp", Timeout: time.Minute}).Exchange(q, server)
	if err != nil {
		t.Fatalf("unbound: %s %s: %v", name, miekg.Type(qtype), err)
	}
	if e := extended(m); m.Rcode == miekg.RcodeServerFailure && (e == 0 || e >= 22) {
		return "failed"
	}
	return status(m)
}

func extended(m *miekg.Msg) uint16 {
	for _, o := range m.IsEdns0().Option {
		if e, ok := o.(*miekg.EDNS0_EDE); ok {
			return e.InfoCode
		}
	}
	return 0
}

// TestValidatesAsUnboundDoes serves a tree of valid and faulty zones, and compares every answer
// with Unbound's.
func TestValidatesAsUnboundDoes(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	cfg := Config{Upstreams: []string{l.resolver}, Validate: true, Timeout: setting.Duration(5 * time.Second), Total: setting.Duration(30 * time.Second)}
	cfg.Anchors = []string{l.anchor}
	f := start(t, cfg)

	for _, x := range []struct {
		name, want string
		qtype, ede uint16
	}{
		{"www.nsec.lab", "secure", miekg.TypeA, 0},
		{"none.nsec.lab", "secure", miekg.TypeA, 0},
		{"www.nsec.lab", "secure", miekg.TypeMX, 0},
		{"x.wild.nsec3.lab", "secure", miekg.TypeA, 0},
		{"www.plain.lab", "insecure", miekg.TypeA, 0},
		{"none.plain.lab", "insecure", miekg.TypeA, 0},
		{"www.island.lab", "insecure", miekg.TypeA, 0},
		{"www.unknown.lab", "insecure", miekg.TypeA, 0},
		{"none.lab", "insecure", miekg.TypeA, 0}, // opt-out
		{"none.iterations.lab", "insecure", miekg.TypeA, 0},
		{"www.expired.lab", "bogus", miekg.TypeA, 7},
		{"www.future.lab", "bogus", miekg.TypeA, 8},
		{"www.wrongds.lab", "bogus", miekg.TypeA, 9},
		{"www.partly.lab", "bogus", miekg.TypeA, 10},
		{"www.changed.lab", "bogus", miekg.TypeA, 6},
		{"none.nodenial.lab", "bogus", miekg.TypeA, 12},
	} {
		if got, ede := ours(f, x.name, x.qtype); !strings.HasPrefix(got, x.want) || ede != x.ede {
			t.Errorf("%s %s is %s with error %d, want %s with %d", x.name, miekg.Type(x.qtype), got, ede, x.want, x.ede)
		}
	}

	secondOpinion(t, l)
	rnd := rand.New(rand.NewPCG(6, 13))
	agree(t, f, f, l.validator, questions(rnd, 400))
	cfg.Upstreams = []string{l.liar}
	agree(t, start(t, cfg), f, l.misled, slices.DeleteFunc(questions(rnd, 600), func(q question) bool {
		// Unbound asks for the target of an alias by itself.
		return strings.Contains(q.name, "away.") || strings.Contains(q.name, "far.") || strings.Contains(q.name, "toplain.") || strings.Contains(q.name, "tobad.") || strings.Contains(q.name, "alias.") || strings.Contains(q.name, ".cwild")
	}))
}

// secondOpinion lets one upstream spoil everything: the other is queried, and
// clients get the correct answer.
func secondOpinion(t *testing.T, l *lab) {
	t.Helper()
	bad := serve(t, func(q *miekg.Msg, _ bool) *miekg.Msg {
		m, _, err := (&miekg.Client{Net: "tcp"}).Exchange(q, l.resolver)
		if err == nil && q.Question[0].Qtype == miekg.TypeA {
			m.Answer, m.Ns = nil, nil
		}
		return m
	})
	f := start(t, Config{Upstreams: []string{bad.addr, l.resolver}, Order: Strict, Validate: true, Config: validate.Config{Anchors: []string{l.anchor}}})
	for _, do := range []bool{false, true} {
		msg, to, err := f.Exchange(context.Background(), []byte("\x01x\x04wild\x04nsec\x03lab\x00"), miekg.TypeA, miekg.ClassINET, Option{DO: do})
		var m miekg.Msg
		if err != nil || m.Unpack(msg) != nil || !m.AuthenticatedData || to != "udp://"+l.resolver {
			t.Errorf("DO %v: %v from %s, %v; want a secure answer of the second", do, &m, to, err)
			continue
		}
		answer, authority := 1, 0
		if do {
			answer, authority = 2, 2 // the signature, and the proof that no name is nearer
		}
		if len(m.Answer) != answer || len(m.Ns) != authority {
			t.Errorf("DO %v: wrong number of records in %v", do, &m)
		}
	}
	msg, to, err := f.Exchange(context.Background(), []byte("\x01x\x04wild\x04nsec\x03lab\x00"), miekg.TypeA, miekg.ClassINET, Option{CD: true})
	var m miekg.Msg
	if err != nil || m.Unpack(msg) != nil || m.AuthenticatedData || to != "udp://"+bad.addr {
		t.Errorf("with CD: %v from %s, %v; want what the first says", &m, to, err)
	}
}

// agree sends ours and Unbound random queries. Where the true answer is insecure, for example
// because of opt-out, Unbound may call a spoilt answer bogus that ours, which looks for the
// proof of that, calls insecure.
func agree(t *testing.T, f, honest *Forwarder, server string, all []question) {
	t.Helper()
	seen := map[string]int{}
	for _, q := range all {
		got, ede := ours(f, q.name, q.qtype)
		want := theirs(t, server, q.name, q.qtype)
		seen[want]++
		if truth, _ := ours(honest, q.name, q.qtype); truth == "insecure" && got == "insecure" {
			continue
		}
		if want != "failed" && !strings.HasPrefix(got, want) {
			t.Errorf("%s %s: got %s (error %d), Unbound returned %s", q.name, miekg.Type(q.qtype), got, ede, want)
		}
	}
	for _, s := range []string{"secure", "insecure", "bogus"} {
		if seen[s] < len(all)/10 {
			t.Errorf("only %d of %d queries are %s: the test does not cover that state", seen[s], len(all), s)
		}
	}
}

// liar relays to a resolver, and spoils answers: the answer to a question always in the same
// way.
func liar(t *testing.T, resolver string) string {
	return serve(t, func(q *miekg.Msg, _ bool) *miekg.Msg {
		m, _, err := (&miekg.Client{Net: "tcp"}).Exchange(q, resolver)
		if err != nil {
			return nil
		}
		x := q.Question[0]
		if x.Qtype != miekg.TypeDS && x.Qtype != miekg.TypeDNSKEY {
			h := fnv.New64a()
			fmt.Fprint(h, strings.ToLower(x.Name), x.Qtype)
			lie(m, rand.New(rand.NewPCG(h.Sum64(), 1)))
		}
		return m
	}).addr
}

// corrupt or not, depending on the test.
func lie(m *miekg.Msg, rnd *rand.Rand) {
	drop := func(rrs []miekg.RR, types ...uint16) []miekg.RR {
		return slices.DeleteFunc(rrs, func(rr miekg.RR) bool {
			t := rr.Header().Rrtype
			if s, ok := rr.(*miekg.RRSIG); ok && !slices.Contains(types, miekg.TypeRRSIG) {
				t = s.TypeCovered
			}
			return slices.Contains(types, t)
		})
	}
	switch rnd.IntN(16) {
	case 0:
		m.Answer = drop(m.Answer, miekg.TypeRRSIG)
	case 1:
		m.Ns = drop(m.Ns, miekg.TypeRRSIG)
	case 2:
		m.Ns = drop(m.Ns, miekg.TypeNSEC, miekg.TypeNSEC3)
	case 3:
		if len(m.Answer) > 0 {
			return // a separate fault, tested with the validator
		}
		m.Rcode = map[int]int{miekg.RcodeSuccess: miekg.RcodeNameError, miekg.RcodeNameError: miekg.RcodeSuccess}[m.Rcode]
	case 4:
		m.Answer = nil
	case 5:
		m.Answer, m.Ns = nil, nil
	case 6:
		// Without the SOA record the proof is complete; only Unbound requires it.
		if i := len(m.Ns); i > 0 {
			if i = rnd.IntN(i); m.Ns[i].Header().Rrtype != miekg.TypeSOA {
				m.Ns = slices.Delete(m.Ns, i, i+1)
			}
		}
	case 7:
		for _, rr := range append(m.Answer, m.Ns...) {
			if s, ok := rr.(*miekg.RRSIG); ok && rnd.IntN(2) == 0 {
				s.Signature = "AAAA" + s.Signature[4:]
			}
		}
	case 8:
		for _, rr := range m.Answer {
			if a, ok := rr.(*miekg.A); ok {
				a.A = net.IPv4(203, 0, 113, 1)
			}
		}
	case 9:
		for _, rr := range append(m.Answer, m.Ns...) {
			if s, ok := rr.(*miekg.RRSIG); ok {
				s.Labels--
			}
		}
	case 10:
		for _, rr := range append(m.Answer, m.Ns...) {
			if s, ok := rr.(*miekg.RRSIG); ok {
				s.SignerName = "lab."
			}
		}
	}
}

type question struct {
	name  string
	qtype uint16
}

// questions returns random queries about the tree.
func questions(rnd *rand.Rand, n int) []question {
	types := []uint16{miekg.TypeA, miekg.TypeAAAA, miekg.TypeTXT, miekg.TypeMX, miekg.TypeDS, miekg.TypeDNSKEY, miekg.TypeNS, miekg.TypeSOA, miekg.TypeCNAME, miekg.TypeA, miekg.TypeA}
	fronts := []string{"", "www.", "mail.", "b.ent.", "ent.", "a.b.ent.", "x.wild.", "x.y.wild.", "here.wild.", "x.here.wild.", "wild.", "*.wild.", "alias.", "far.", "toplain.", "tobad.",
		"z.cwild.", "www.away.", "none.away.", "away.", "plain.", "www.plain.", "none.", "zzz.none.", "a.", "0.", "~."}
	var out []question
	for range n {
		z := tree[rnd.IntN(len(tree))]
		front := fronts[rnd.IntN(len(fronts))]
		if rnd.IntN(4) == 0 {
			front = fmt.Sprintf("r%d.", rnd.IntN(1000)) + front
		}
		out = append(out, question{strings.TrimSuffix(front+strings.TrimPrefix(z.name, "."), "."), types[rnd.IntN(len(types))]})
	}
	return out
}
