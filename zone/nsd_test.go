package zone

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	miekg "github.com/miekg/dns"

	"shuultuur/lib/dns"
	"shuultuur/test/peer"
	"shuultuur/test/race"
)

// startNSD starts NSD with zone files and returns a connection to it.
func startNSD(t testing.TB, files map[string]string) *miekg.Conn {
	t.Helper()
	dir, port := t.TempDir(), peer.Port(t)
	var conf strings.Builder
	fmt.Fprintf(&conf, "server:\n ip-address: 127.0.0.1@%s\n username: \"\"\n chroot: \"\"\n zonesdir: %q\n database: \"\"\n pidfile: %q\n xfrdfile: %q\n zonelistfile: %q\n server-count: 1\n minimal-responses: yes\n tcp-query-count: 0\n verbosity: 1\nremote-control:\n control-enable: no\n",
		port, dir, filepath.Join(dir, "pid"), filepath.Join(dir, "xfrd"), filepath.Join(dir, "zonelist"))
	for origin, file := range files {
		fmt.Fprintf(&conf, "zone:\n name: %s\n zonefile: %q\n", origin, file)
	}
	file := filepath.Join(dir, "nsd.conf")
	if err := os.WriteFile(file, []byte(conf.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	return startPeer(t, files, port, "nsd", "-d", "-c", file)
}

// startPeer runs another server and waits until it serves its zones.
func startPeer(t testing.TB, files map[string]string, port, name string, args ...string) *miekg.Conn {
	t.Helper()
	peer.Start(t, name, args...)
	addr := "127.0.0.1:" + port
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		c, err := miekg.DialTimeout("tcp", addr, time.Second)
		if err != nil {
			continue
		}
		t.Cleanup(func() { c.Close() })
		ready := true
		for origin := range files {
			ready = ready && exchange(t, c, question(origin, miekg.TypeSOA)).Rcode == miekg.RcodeSuccess
		}
		if ready {
			return c
		}
		c.Close()
	}
	t.Fatalf("%s does not serve its zones within the time limit", name)
	return nil
}

// exchange sends a query to the other server.
func exchange(t testing.TB, c *miekg.Conn, m *miekg.Msg) *miekg.Msg {
	t.Helper()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	if err := c.WriteMsg(m); err != nil {
		t.Fatalf("%v: %v", m.Question[0], err)
	}
	r, err := c.ReadMsg()
	if err != nil {
		t.Fatalf("%v: %v", m.Question[0], err)
	}
	return r
}

// wild writes a zone of strange shapes: nested names, wildcards at all depths,
// cuts, DNAMEs, chains and loops of CNAMEs, targets in and out of the zone and in
// the other zones.
func wildZone(rnd *rand.Rand, origin string, others []string, names int) string {
	labels := []string{"a", "b", "c", "d", "*", "e", "f", "longer-label", "x\\046y"}
	name := func() string {
		n := labels[rnd.IntN(len(labels))]
		for range rnd.IntN(4) {
			n += "." + labels[rnd.IntN(len(labels))]
		}
		return n
	}
	target := func() string {
		switch rnd.IntN(8) {
		case 0:
			return "out.side.test."
		case 1:
			return name() + "." + others[rnd.IntN(len(others))]
		case 2:
			return origin
		}
		return name() + "." + origin
	}
	var b strings.Builder
	fmt.Fprintf(&b, "$ORIGIN %s\n$TTL 300\n@ 3600 SOA ns hostmaster %d 3600 600 86400 900\n@ NS ns\n@ NS ns.elsewhere.test.\nns A 192.0.2.1\nns AAAA 2001:db8::1\n@ MX 10 a\n", origin, rnd.IntN(1e6)+1)
	have := map[string]string{"ns": "data"}
	for _, other := range others {
		if n, below := strings.CutSuffix(other, "."+origin); below {
			fmt.Fprintf(&b, "%s NS ns.%s\n", n, other)
			have[n] = "ns"
		}
	}
	for range names {
		n := name()
		kind := []string{"data", "data", "data", "data", "cname", "cname", "ns", "dname"}[rnd.IntN(8)]
		// Under a wildcard, cuts and DNAMEs are undefined (RFC 4592 4.2, 4.4).
		if have[n] != "" || strings.HasPrefix(n, "*") && (kind == "ns" || kind == "dname") || crosses(have, n, kind) {
			continue
		}
		have[n] = kind
		switch kind {
		case "cname":
			fmt.Fprintf(&b, "%s CNAME %s\n", n, target())
		case "dname":
			fmt.Fprintf(&b, "%s DNAME %s\n", n, target())
			if rnd.IntN(2) == 0 {
				fmt.Fprintf(&b, "%s TXT beside\n", n)
			}
		case "ns":
			for range 1 + rnd.IntN(2) {
				fmt.Fprintf(&b, "%s NS %s\n", n, target())
			}
			if rnd.IntN(2) == 0 {
				fmt.Fprintf(&b, "%s NS ns.%s\nns.%s A 192.0.2.9\n", n, n, n)
				have["ns."+n] = "data"
			}
			if rnd.IntN(2) == 0 {
				fmt.Fprintf(&b, "%s DS %d 13 2 %064x\n", n, rnd.IntN(65536), rnd.Uint64())
			}
		default:
			for _, rr := range []string{"A 192.0.2.7", "A 192.0.2.8", "AAAA 2001:db8::7", "TXT \"some text\" more", "TYPE65400 \\# 3 010203"} {
				if rnd.IntN(2) == 0 {
					fmt.Fprintf(&b, "%s %s\n", n, rr)
				}
			}
			if rnd.IntN(3) == 0 {
				fmt.Fprintf(&b, "%s MX 10 %s\n%s SRV 1 2 3 %s\n", n, target(), n, target())
			}
		}
	}
	return b.String()
}

// crosses reports whether there would be data below a DNAME, which NSD refuses.
func crosses(have map[string]string, n, kind string) bool {
	for other, k := range have {
		if k == "dname" && strings.HasSuffix(n, "."+other) || kind == "dname" && strings.HasSuffix(other, "."+n) {
			return true
		}
	}
	return false
}

// differential sends NSD and us the same queries about the same zones.
func differential(t *testing.T, rnd *rand.Rand, texts map[string]string, do bool, n int) {
	if race.On { // the race detector is slow, and finds races with fewer
		n /= 4
	}
	dir := t.TempDir()
	files := map[string]string{}
	z := NewResponder()
	var names, origins []string
	for origin, text := range texts {
		file := filepath.Join(dir, origin+"zone")
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		files[origin] = file
		one, err := ReadFile(file, origin)
		if err != nil {
			t.Fatal(err)
		}
		if err := z.Replace(one); err != nil {
			t.Fatal(err)
		}
		origins = append(origins, origin)
		for _, rr := range one.Records {
			if rr.Header().Rrtype != miekg.TypeRRSIG && rr.Header().Rrtype != miekg.TypeNSEC3 {
				wire, err := dns.Name(rr.Header().Name)
				if err != nil {
					t.Fatal(err)
				}
				names = append(names, dns.Text(wire))
			}
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	slices.Sort(origins)
	c := startNSD(t, files)
	types := []uint16{miekg.TypeA, miekg.TypeA, miekg.TypeAAAA, miekg.TypeTXT, miekg.TypeMX, miekg.TypeNS, miekg.TypeSOA, miekg.TypeCNAME, miekg.TypeDNAME, miekg.TypeDS, miekg.TypeSRV, 65400, miekg.TypeNSEC, miekg.TypeDNSKEY, miekg.TypeNSEC3PARAM, miekg.TypePTR}
	rcodes := map[string]int{}
	wrong, wound, deniable := 0, 0, 0
	for range n {
		name := names[rnd.IntN(len(names))]
		switch rnd.IntN(6) {
		case 0:
			name = []string{"a.", "b.", "*.", "zz.", "ns.", "0."}[rnd.IntN(6)] + name
		case 1:
			name = []string{"a.b.", "zz.a.", "q.*.", "e.e.e."}[rnd.IntN(4)] + name
		case 2: // an ancestor: often an empty non-terminal
			if i := strings.IndexByte(name, '.'); len(name) > i+1 && miekg.CountLabel(name) > 2 {
				name = name[i+1:]
			}
		}
		if _, ok := miekg.IsDomainName(name); !ok {
			continue
		}
		m := question(name, types[rnd.IntN(len(types))])
		if do {
			m.SetEdns0(4096, true)
		}
		theirs := exchange(t, c, m)
		ours := ask(t, z, m, 65535)
		if ours == nil {
			ours = new(miekg.Msg)
			ours.Rcode = miekg.RcodeRefused
		}
		// NSD expands wildcards to addresses for names in referrals; we do not.
		theirs.Extra = slices.DeleteFunc(theirs.Extra, func(rr miekg.RR) bool {
			_, found := slices.BinarySearch(names, strings.ToLower(rr.Header().Name))
			return !found
		})
		if do {
			if err := proven(m, ours); err != nil {
				t.Fatalf("%v: %v\n%v", m.Question[0], err, ours)
			}
		}
		want, got := portrait(theirs), portrait(ours)
		if want != got && peculiar(m, ours) {
			deniable++
			theirs.Ns, ours.Ns = withoutProofs(theirs.Ns), withoutProofs(ours.Ns)
			want, got = portrait(theirs), portrait(ours)
		}
		rcodes[fmt.Sprintf("%s/%d/%d", miekg.RcodeToString[theirs.Rcode], min(len(theirs.Answer), 1), min(len(theirs.Ns), 1))]++
		if want == got {
			continue
		}
		if winding(ours, theirs) || winding(theirs, ours) {
			wound++
			continue
		}
		if wrong++; wrong <= 5 {
			t.Errorf("%s %s\n--- nsd\n%s\n--- ours\n%s", name, miekg.TypeToString[m.Question[0].Qtype], want, got)
		}
	}
	t.Logf("%d names in %d zones, %d questions, %d with proofs of their own: %v", len(names), len(origins), n, deniable, rcodes)
	if deniable > n/15 {
		t.Errorf("the proofs of NSD and ours differ for %d of %d queries, want at most a fifteenth", deniable, n)
	}
	if wound > n/100 {
		t.Errorf("NSD and we end %d of %d chains at different names, want at most one in a hundred", wound, n)
	}
	if wrong > 0 {
		t.Errorf("%d of %d answers differ", wrong, n)
	}
}

// winding reports whether a is the beginning of b, which uses a DNAME more than once. Chains of
// this kind seldom end, and each server decides how far it follows one: the resolver queries
// for the rest.
func winding(a, b *miekg.Msg) bool {
	texts := func(m *miekg.Msg) (all []string) {
		for _, rr := range m.Answer {
			all = append(all, strings.ToLower(rr.String()))
		}
		return all
	}
	if a.Rcode != miekg.RcodeSuccess && a.Rcode != b.Rcode {
		return false
	}
	rest := texts(b)
	for _, rr := range texts(a) {
		if !slices.Contains(rest, rr) {
			return false
		}
	}
	for _, rr := range b.Answer {
		if rr.Header().Rrtype != miekg.TypeDNAME {
			continue
		}
		created := map[string]bool{}
		for _, c := range b.Answer {
			if c.Header().Rrtype == miekg.TypeCNAME && miekg.IsSubDomain(rr.Header().Name, c.Header().Name) {
				created[strings.ToLower(c.Header().Name)] = true
			}
		}
		if len(created) > 1 {
			return true
		}
	}
	return false
}

// peculiar reports whether NSD's proof of denial differs from RFC 4035 section 3.1.3 or RFC
// 5155 section 7.2. After a DNAME, NSD proves less than is needed, as for DS below a wildcard
// and, with NSEC3, for any type that a wildcard lacks. For the wildcard's own name it proves
// more. Where all names below opted out, it takes an empty non-terminal without an NSEC3 for
// the closest provable encloser.
func peculiar(m, ours *miekg.Msg) bool {
	name, dname := last(m, ours)
	hashed := slices.ContainsFunc(ours.Ns, func(rr miekg.RR) bool { return rr.Header().Rrtype == miekg.TypeNSEC3 })
	if hashed && ours.Rcode == miekg.RcodeSuccess && !slices.ContainsFunc(ours.Ns, func(rr miekg.RR) bool { return stands(rr, name) }) {
		return true
	}
	opted := slices.ContainsFunc(ours.Ns, func(rr miekg.RR) bool { n, ok := rr.(*miekg.NSEC3); return ok && n.Flags == 1 })
	return opted || dname || m.Question[0].Qtype == miekg.TypeDS || strings.HasPrefix(name, "*.")
}

// last returns the name at which an answer ends, and whether it used a DNAME.
func last(m, r *miekg.Msg) (name string, dname bool) {
	name = strings.ToLower(m.Question[0].Name)
	for _, rr := range r.Answer {
		switch rr := rr.(type) {
		case *miekg.CNAME:
			if m.Question[0].Qtype != miekg.TypeCNAME {
				name = strings.ToLower(rr.Target)
			}
		case *miekg.DNAME:
			dname = true
		}
	}
	return name, dname
}

func withoutProofs(all []miekg.RR) []miekg.RR {
	return slices.DeleteFunc(slices.Clone(all), func(rr miekg.RR) bool {
		typ := rr.Header().Rrtype
		if sig, ok := rr.(*miekg.RRSIG); ok {
			typ = sig.TypeCovered
		}
		return typ == miekg.TypeNSEC || typ == miekg.TypeNSEC3
	})
}

// proven checks that a negative answer proves its claim for the name at which it ends: with a
// record of the name itself, or with one for an existing ancestor and one that covers the next
// name below it. NXDOMAIN must also prove that there is no wildcard.
func proven(m, r *miekg.Msg) error {
	if len(r.Ns) == 0 || !slices.ContainsFunc(r.Ns, func(rr miekg.RR) bool { return rr.Header().Rrtype == miekg.TypeSOA }) {
		return nil
	}
	name, _ := last(m, r)
	matched := func(n string) bool { return slices.ContainsFunc(r.Ns, func(rr miekg.RR) bool { return stands(rr, n) }) }
	covered := func(n string) bool { return slices.ContainsFunc(r.Ns, func(rr miekg.RR) bool { return covers(rr, n) }) }
	if r.Rcode == miekg.RcodeSuccess && matched(name) {
		return nil
	}
	for at, end := 0, false; ; {
		below := name[at:]
		if at, end = miekg.NextLabel(name, at); end {
			return fmt.Errorf("nothing proves that %s does not exist", name)
		}
		hashed := slices.ContainsFunc(r.Ns, func(rr miekg.RR) bool { return rr.Header().Rrtype == miekg.TypeNSEC3 })
		if !covered(below) || hashed && !matched(name[at:]) {
			continue
		}
		wild := "*." + name[at:]
		switch {
		case !hashed && r.Rcode == miekg.RcodeSuccess:
			return nil // an empty non-terminal, or a wildcard's
		case covered(wild), r.Rcode == miekg.RcodeSuccess && matched(wild):
			return nil
		case r.Rcode == miekg.RcodeSuccess && slices.ContainsFunc(r.Ns, func(rr miekg.RR) bool { n, ok := rr.(*miekg.NSEC3); return ok && n.Flags == 1 && n.Cover(below) }):
			return nil // opted out
		}
	}
}

func stands(rr miekg.RR, name string) bool {
	switch rr := rr.(type) {
	case *miekg.NSEC:
		return strings.EqualFold(rr.Hdr.Name, name)
	case *miekg.NSEC3:
		return rr.Match(name)
	}
	return false
}

func covers(rr miekg.RR, name string) bool {
	switch rr := rr.(type) {
	case *miekg.NSEC:
		key := func(s string) string {
			w, _ := dns.Name(s)
			return dns.SortKey(w)
		}
		from, to, at := key(rr.Hdr.Name), key(rr.NextDomain), key(name)
		return from < at && (at < to || to <= from)
	case *miekg.NSEC3:
		return rr.Cover(name)
	}
	return false
}

// portrait returns the compared parts of a message.
func portrait(m *miekg.Msg) string {
	set := func(all []miekg.RR) string {
		var s []string
		for _, rr := range all {
			if rr.Header().Rrtype != miekg.TypeOPT {
				s = append(s, "  "+strings.ToLower(rr.String()))
			}
		}
		slices.Sort(s)
		return strings.Join(slices.Compact(s), "\n")
	}
	s := fmt.Sprintf("%s aa=%v tc=%v\nanswer\n%s\nauthority\n%s", miekg.RcodeToString[m.Rcode], m.Authoritative, m.Truncated, set(m.Answer), set(m.Ns))
	if len(m.Answer) == 0 && len(m.Ns) > 0 && !m.Authoritative { // a referral's glue
		s += "\nadditional\n" + set(m.Extra)
	}
	return s
}

func TestStrangeZonesAreAnsweredAsByNSD(t *testing.T) {
	rnd, texts := strangeZones(t, 800)
	differential(t, rnd, texts, false, 5000)
}

func strangeZones(t *testing.T, names int) (*rand.Rand, map[string]string) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	origins := []string{"one.test.", "two.test.", "sub.one.test.", "deep.er.two.test."}
	texts := map[string]string{}
	for _, o := range origins {
		texts[o] = wildZone(rnd, o, origins, names)
	}
	return rnd, texts
}

func TestSignedZonesAreAnsweredAsByNSD(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
	}{
		{"NSEC", nil},
		{"NSEC3", []string{"-3", "aabbccdd", "-H", "3"}},
		{"NSEC3 opt-out", []string{"-3", "-", "-H", "0", "-A"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			rnd, texts := strangeZones(t, 250)
			for origin, text := range texts {
				texts[origin] = signed(t, origin, text, c.args)
			}
			differential(t, rnd, texts, true, 3000)
		})
	}
}

// signed signs a zone with BIND's tools.
func signed(t testing.TB, origin, text string, args []string) string {
	t.Helper()
	dir := t.TempDir()
	run := func(name string, args ...string) string {
		cmd := peer.Command(t, name, args...)
		cmd.Dir = dir
		var errs bytes.Buffer
		cmd.Stderr = &errs
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, errs.String())
		}
		return strings.TrimSpace(string(out))
	}
	key := run("dnssec-keygen", "-q", "-a", "ECDSAP256SHA256", origin)
	pub, err := os.ReadFile(filepath.Join(dir, key+".key"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "zone"), append([]byte(text), pub...), 0o644); err != nil {
		t.Fatal(err)
	}
	run("dnssec-signzone", append(append([]string{"-q", "-P", "-z", "-O", "full", "-o", origin, "-f", "signed"}, args...), "zone", key)...)
	out, err := os.ReadFile(filepath.Join(dir, "signed"))
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
