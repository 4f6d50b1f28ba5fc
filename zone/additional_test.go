package zone

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	miekg "github.com/miekg/dns"

	"shuultuur/test/peer"
)

// services is a zone whose records point to names that have addresses.
const services = `@ SOA ns admin 1 3600 600 86400 300
@ NS ns
ns A 192.0.2.53
host A 192.0.2.1
host AAAA 2001:db8::1
other A 192.0.2.2
_sip._udp SRV 1 1 5060 host
_sip._udp SRV 1 2 5061 HOST
_sip._udp SRV 2 1 5062 host
_sip._udp SRV 3 1 5063 other
mx MX 10 host
mx MX 20 host
h HTTPS 1 host alpn=h2
h HTTPS 2 other alpn=h2
self HTTPS 1 . alpn=h2
self A 192.0.2.3
*.wild HTTPS 1 . alpn=h2
*.wild A 192.0.2.4
alias HTTPS 0 host
svc SVCB 1 host port=8443
svc SVCB 2 host port=8444
nap NAPTR 1 1 "A" "SIP+D2U" "" host
nap NAPTR 2 1 "S" "SIP+D2T" "" _sip._udp
nap NAPTR 3 1 "U" "E2U+sip" "!^.*$!sip:a@b!" .
`

func TestAdditionalSectionHasEachRRsetOfATargetOnce(t *testing.T) {
	z := serve(t, parse(t, "x.test.", services))
	const host = "host A 192.0.2.1, host AAAA 2001:db8::1"
	for _, c := range []struct {
		name string
		typ  uint16
		want string
	}{
		{"_sip._udp", miekg.TypeSRV, host + ", other A 192.0.2.2"},
		{"mx", miekg.TypeMX, host},
		{"h", miekg.TypeHTTPS, host + ", other A 192.0.2.2"},
		{"self", miekg.TypeHTTPS, "self A 192.0.2.3"},
		{"a.wild", miekg.TypeHTTPS, "a.wild A 192.0.2.4"},
		{"alias", miekg.TypeHTTPS, host},
		{"svc", miekg.TypeSVCB, host},
		{"nap", miekg.TypeNAPTR, "_sip._udp SRV 1 1 5060 host.x.test., _sip._udp SRV 1 2 5061 HOST.x.test., _sip._udp SRV 2 1 5062 host.x.test., _sip._udp SRV 3 1 5063 other.x.test., " + host},
		{"host", miekg.TypeA, ""},
	} {
		r := ask(t, z, question(c.name+".x.test.", c.typ), 4096)
		if got := extras(r); got != c.want {
			t.Errorf("%s %s: additional section\ngot  %s\nwant %s", c.name, miekg.TypeToString[c.typ], got, c.want)
		}
	}
}

// extras returns the additional section without OPT, sorted; owners are
// relative to x.test and in lower case.
func extras(r *miekg.Msg) string {
	var all []string
	for _, rr := range r.Extra {
		if h := rr.Header(); h.Rrtype != miekg.TypeOPT {
			owner := strings.TrimSuffix(strings.ToLower(h.Name), ".x.test.")
			all = append(all, strings.Join([]string{owner, miekg.TypeToString[h.Rrtype], strings.TrimPrefix(rr.String(), h.String())}, " "))
		}
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// TestAdditionalSectionAgreesWithPeers compares with NSD, Knot and BIND for the same zone: for
// MX and SRV we add each record that they add, once, and no others. For HTTPS, SVCB and NAPTR
// we add at least what they add.
func TestAdditionalSectionAgreesWithPeers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.test.zone")
	write(t, file, "$TTL 300\n"+strings.TrimPrefix(services, "$TTL 300\n"))
	z := serve(t, parse(t, "x.test.", "$TTL 300\n"+services))
	for _, name := range []string{"nsd", "knotd", "named"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files, dir, port := map[string]string{"x.test.": file}, t.TempDir(), peer.Port(t)
			var conf string
			args := []string{"-c", filepath.Join(dir, "conf")}
			switch name {
			case "nsd":
				conf = fmt.Sprintf("server:\n ip-address: 127.0.0.1@%s\n username: \"\"\n chroot: \"\"\n zonesdir: %q\n database: \"\"\n pidfile: \"\"\n xfrdfile: %q\n zonelistfile: %q\n server-count: 1\nremote-control:\n control-enable: no\nzone:\n name: x.test.\n zonefile: %q\n", port, dir, filepath.Join(dir, "x"), filepath.Join(dir, "l"), file)
				args = append([]string{"-d"}, args...)
			case "knotd":
				conf = fmt.Sprintf("server:\n    rundir: %q\n    listen: 127.0.0.1@%s\ndatabase:\n    storage: %q\nzone:\n  - domain: x.test.\n    file: %q\n    zonefile-sync: -1\n", dir, port, dir, file)
			case "named":
				conf = fmt.Sprintf("options { directory %q; listen-on port %s { 127.0.0.1; }; listen-on-v6 { none; }; pid-file none; session-keyfile none; recursion no; dnssec-validation no; minimal-responses no; };\ncontrols { };\nzone \"x.test\" { type primary; file %q; };\n", dir, port, file)
				args = append([]string{"-g", "-n", "1"}, args...)
			}
			write(t, filepath.Join(dir, "conf"), conf)
			c := startPeer(t, files, port, name, args...)
			for _, q := range []struct {
				name  string
				typ   uint16
				exact bool
			}{
				{"_sip._udp", miekg.TypeSRV, true}, {"mx", miekg.TypeMX, true}, {"h", miekg.TypeHTTPS, false}, {"alias", miekg.TypeHTTPS, false},
				{"svc", miekg.TypeSVCB, false}, {"nap", miekg.TypeNAPTR, false},
			} {
				m := question(q.name+".x.test.", q.typ)
				m.SetEdns0(4096, false)
				// Knot repeats an address for each record that names it.
				theirs := strings.Join(slices.Compact(strings.Split(extras(exchange(t, c, m)), ", ")), ", ")
				ours := extras(ask(t, z, m, 4096))
				var missing []string
				for _, rr := range strings.Split(theirs, ", ") {
					// The peers may also add the addresses of the servers in the authority
					// section. BIND adds those of the targets of an SRV record that it added.
					if !strings.Contains(ours, rr) && !strings.HasPrefix(rr, "ns A ") && (q.typ != miekg.TypeNAPTR || !strings.HasPrefix(rr, "other ")) {
						missing = append(missing, rr)
					}
				}
				if len(missing) > 0 || q.exact && ours != strings.TrimSuffix(strings.ReplaceAll(theirs+", ", "ns A 192.0.2.53, ", ""), ", ") {
					t.Errorf("%s %s: additional section\ngot  %s\nwant %s", q.name, miekg.TypeToString[q.typ], ours, theirs)
				}
			}
		})
	}
}
