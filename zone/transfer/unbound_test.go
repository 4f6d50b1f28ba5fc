package transfer_test

import (
	"fmt"
	"strings"
	"testing"

	miekg "github.com/miekg/dns"

	"shuultuur/lib/dns"
	"shuultuur/lib/wait/waittest"
	"shuultuur/test/peer"
	"shuultuur/zone"
	"shuultuur/zone/sign"
	"shuultuur/zone/transfer"
)

const signedZone = `
$TTL 300
@	SOA ns1 hostmaster 1 7200 3600 1209600 60
	NS ns1
	MX 10 mail
ns1	A 127.0.0.1
mail	A 192.0.2.2
mail	A 192.0.2.3
www	CNAME mail
txt	TXT "one" "two"
*.wild	A 192.0.2.4
a.b.empty	A 192.0.2.5
moved	DNAME empty
chosen	A 192.0.2.10
chosen	A 192.0.2.11
*.choice	A 192.0.2.12
*.choice	A 192.0.2.13
insecure	NS ns.insecure
ns.insecure	A 127.0.0.1
`

type first struct{}

func (first) Pick(dst []uint16, _ *dns.Query, _ int) ([]uint16, uint8, bool) {
	return append(dst, 0), 0, false
}

// TestValidatorsAcceptEveryAnswer lets an Unbound and a delv with our key as
// trust anchor ask our server for all kinds of answers.
func TestValidatorsAcceptEveryAnswer(t *testing.T) {
	for _, algorithm := range sign.Algorithms() {
		for _, denial := range []string{sign.NSEC, sign.NSEC3, sign.Compact} {
			t.Run(algorithm+" "+denial, func(t *testing.T) {
				t.Parallel()
				validate(t, algorithm, denial)
			})
		}
	}
}

func validate(t *testing.T, algorithm, denial string) {
	s := start(t, transfer.Config{})
	var keys []*sign.Key
	for _, ksk := range []bool{true, false} {
		k, err := sign.Generate("example.com.", algorithm, ksk)
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, k)
	}
	signer, err := sign.NewWithKeys("example.com.", sign.Config{Denial: denial}, keys)
	if err != nil {
		t.Fatal(err)
	}
	below, err := sign.Generate("secure.example.com.", algorithm, true)
	if err != nil {
		t.Fatal(err)
	}
	child, err := sign.NewWithKeys("secure.example.com.", sign.Config{Denial: denial}, []*sign.Key{below})
	if err != nil {
		t.Fatal(err)
	}
	publish(t, s, read(t, "secure.example.com.", "$TTL 300\n@ SOA ns hostmaster 1 2 3 4 5\n@ NS ns\nns A 127.0.0.1\nhost A 192.0.2.78\n"), child)
	z := read(t, "example.com.", signedZone+"secure NS ns.secure\nns.secure A 127.0.0.1\n"+below.DS().String()+"\n")
	z.Choices = []zone.Choice{{Name: "chosen.example.com.", Type: miekg.TypeA, Pick: first{}}, {Name: "*.choice.example.com.", Type: miekg.TypeA, Pick: first{}}}
	z.Aliases = []zone.Alias{{Name: "alias.example.com.", Target: "mail.example.com."}, {Name: "*.aliases.example.com.", Target: "mail.example.com."}}
	publish(t, s, z, signer)
	// Names delegated without DS are answered by us too, unsigned.
	publish(t, s, read(t, "insecure.example.com.", "$TTL 300\n@ SOA ns hostmaster 1 2 3 4 5\n@ NS ns\nns A 127.0.0.1\nhost A 192.0.2.77\n"), nil)

	v := newValidator(t, s, keys[0].DS(), "insecure.example.com.")
	nx := miekg.RcodeNameError
	if denial == sign.Compact {
		nx = miekg.RcodeSuccess
	}
	// The order matters: a denied name must not make the validator deny existing
	// names by itself (RFC 8198).
	for _, tt := range []struct {
		name   string
		typ    uint16
		rcode  int
		count  int
		secure bool
	}{
		{"alias.example.com.", miekg.TypeAAAA, 0, 0, true},
		{"alias.example.com.", miekg.TypeA, 0, 2, true},
		{"x.aliases.example.com.", miekg.TypeAAAA, 0, 0, true},
		{"x.aliases.example.com.", miekg.TypeA, 0, 2, true},
		{"example.com.", miekg.TypeSOA, 0, 1, true},
		{"example.com.", miekg.TypeDNSKEY, 0, 2, true},
		{"example.com.", miekg.TypeCDS, 0, 1, true},
		{"example.com.", miekg.TypeCDNSKEY, 0, 1, true},
		{"example.com.", miekg.TypeTXT, 0, 0, true},
		{"mail.example.com.", miekg.TypeA, 0, 2, true},
		{"mail.example.com.", miekg.TypeAAAA, 0, 0, true},
		{"www.example.com.", miekg.TypeA, 0, 3, true},
		{"txt.example.com.", miekg.TypeTXT, 0, 1, true},
		{"one.wild.example.com.", miekg.TypeA, 0, 1, true},
		{"two.three.wild.example.com.", miekg.TypeA, 0, 1, true},
		{"four.wild.example.com.", miekg.TypeMX, 0, 0, true},
		{"empty.example.com.", miekg.TypeA, 0, 0, true},
		{"b.empty.example.com.", miekg.TypeA, 0, 0, true},
		{"a.b.moved.example.com.", miekg.TypeA, 0, 3, true},
		{"chosen.example.com.", miekg.TypeA, 0, 1, true},
		{"chosen.example.com.", miekg.TypeAAAA, 0, 0, true},
		{"x.choice.example.com.", miekg.TypeA, 0, 1, true},
		{"nothing.example.com.", miekg.TypeA, nx, 0, true},
		{"a.nothing.example.com.", miekg.TypeA, nx, 0, true},
		{"z.b.empty.example.com.", miekg.TypeA, nx, 0, true},
		{"insecure.example.com.", miekg.TypeDS, 0, 0, true},
		{"host.insecure.example.com.", miekg.TypeA, 0, 1, false},
		{"secure.example.com.", miekg.TypeDS, 0, 1, true},
		{"host.secure.example.com.", miekg.TypeA, 0, 1, true},
		{"nothing.secure.example.com.", miekg.TypeA, nx, 0, true},
	} {
		v.ask(t, tt.name, tt.typ, tt.rcode, tt.count, tt.secure)
	}
}

// A validator is an Unbound and a delv that trust a DS record for example.com.
type validator struct{ server, addr, trust string }

// newValidator starts a validator that asks s, also for unsigned zones below.
func newValidator(t *testing.T, s *server, ds *miekg.DS, below ...string) *validator {
	t.Helper()
	dir := t.TempDir()
	port := peer.Port(t)
	v := &validator{server: s.port(), addr: "127.0.0.1:" + port}
	conf := fmt.Sprintf(`
server:
	interface: 127.0.0.1@%s
	port: %s
	do-daemonize: no
	use-syslog: no
	log-servfail: yes
	val-log-level: 2
	chroot: ""
	username: ""
	directory: %q
	pidfile: ""
	trust-anchor: %q
	do-not-query-localhost: no
	qname-minimisation: no
	num-threads: 1
remote-control:
	control-enable: no
`, port, port, dir, strings.ReplaceAll(ds.String(), "\t", " "))
	for _, origin := range append(below, "example.com.") {
		conf += fmt.Sprintf("stub-zone:\n\tname: %s\n\tstub-addr: 127.0.0.1@%s\n", origin, s.port())
	}
	peer.Start(t, "unbound", "-d", "-c", write(t, dir, "unbound.conf", conf))
	waittest.Until(t, "unbound answers", func() bool { return query(v.addr, "example.com.", miekg.TypeSOA) != nil })
	v.trust = write(t, dir, "delv.keys", fmt.Sprintf("trust-anchors { example.com. static-ds %d %d %d %q; };\n", ds.KeyTag, ds.Algorithm, ds.DigestType, ds.Digest))
	return v
}

// ask queries a name with both, and reports answers that differ from the
// expected one.
func (v *validator) ask(t *testing.T, name string, typ uint16, rcode, count int, secure bool) {
	t.Helper()
	what := name + " " + miekg.TypeToString[typ]
	m := query(v.addr, name, typ)
	switch {
	case m == nil:
		t.Errorf("unbound: %s: no answer", what)
		return
	case m.Rcode != rcode || len(m.Answer) != count || m.AuthenticatedData != secure:
		t.Errorf("unbound: %s: %s, %d records, secure %v; want %s, %d, %v", what,
			miekg.RcodeToString[m.Rcode], len(m.Answer), m.AuthenticatedData, miekg.RcodeToString[rcode], count, secure)
	}
	if !secure {
		return
	}
	out, err := peer.Command(t, "delv", "@127.0.0.1", "-p", v.server, "-a", v.trust, "+root=example.com.", name, miekg.TypeToString[typ]).CombinedOutput()
	if text := string(out); err != nil || !strings.Contains(text, "; fully validated") && !strings.Contains(text, "; negative response, fully validated") {
		t.Errorf("delv: %s: %v\n%s", what, err, out)
	}
}
