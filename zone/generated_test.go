package zone

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	miekg "github.com/miekg/dns"

	"shuultuur/test/peer"
)

// sampleData is data of each type, whose spelling is changed.
var sampleData = []string{
	"A 192.0.2.1", "AAAA 2001:db8::1", "NS ns1", "MD d", "MF f", "CNAME t", "MB m", "MG m", "MR m", "PTR p.example.", "HINFO cpu os", "MINFO a b", "MX 10 m",
	"TXT one two", "RP mbox txt", "AFSDB 1 h", "X25 311061700956", "ISDN 150862028003217 004", "ISDN 150862028003217", "RT 10 h", "NSAP 0x47.0005.80", "NSAP-PTR h",
	"SIG A 8 2 3600 20301231000000 20201231000000 12345 x.test. AQID", "KEY 512 3 8 AQID", "PX 10 a b", "GPOS -32.6882 116.8652 10.0",
	"LOC 42 21 54 N 71 06 18 W -24m 30m 10m 2m", "NXT b A TXT", "EID 12ab", "NIMLOC 12ab", "SRV 1 2 443 h", "NAPTR 10 20 S SIP+D2U \"\" _sip", "KX 10 h",
	"CERT PKIX 12345 RSASHA256 AQID", "CERT 1 0 0 AQID", "A6 0 2001:db8::1", "DNAME t", "SINK 1 2 3 AQID", "APL 1:192.0.2.0/24 !2:2001:db8::/32", "APL",
	"DS 12345 8 2 AABBCCDDEEFF00112233445566778899AABBCCDDEEFF00112233445566778899", "SSHFP 1 1 AABBCCDDEEFF00112233445566778899AABBCCDD", "IPSECKEY 10 1 2 192.0.2.1 AQID",
	"RRSIG A 8 2 3600 20301231000000 20201231000000 12345 x.test. AQID", "NSEC b A TXT", "DNSKEY 256 3 8 AwEAAQ==", "DHCID AAIBY2/AuCccgoJbsaxcQc9TUapptP69lOjxfNuVAA2kjEA=",
	"NSEC3 1 0 1 AABB 2vptu5timamqttgl4luu9kg21e0aor3s A", "NSEC3PARAM 1 0 1 AABB", "TLSA 3 1 1 AABBCCDDEEFF00112233445566778899AABBCCDDEEFF00112233445566778899",
	"SMIMEA 3 1 1 AABBCCDDEEFF00112233445566778899AABBCCDDEEFF00112233445566778899", "HIP 2 200100107B1A74DF365639CC39F1D578 AQID rvs", "NINFO a b", "RKEY 0 3 8 AQID", "TALINK a b",
	"CDS 12345 8 2 AABBCCDDEEFF00112233445566778899AABBCCDDEEFF00112233445566778899", "CDS 0 0 0 00", "CDNSKEY 256 3 8 AwEAAQ==", "CDNSKEY 0 3 0 AA==", "OPENPGPKEY AQID", "CSYNC 66 3 A NS",
	"ZONEMD 1 1 1 AABBCCDDEEFF00112233445566778899AABBCCDDEEFF00112233445566778899AABBCCDDEEFF00112233445566778899", "SVCB 1 t port=53 alpn=h2,h3", "HTTPS 1 . ipv4hint=192.0.2.1 ech=AQID", "SVCB 0 t", "SPF one two", "NID 10 14:4fff:ff20:ee64",
	"L32 10 10.1.2.0", "L64 10 2001:db8:1140:1000", "LP 10 l", "EUI48 00-00-5e-00-53-2a", "EUI64 00-00-5e-ef-10-00-00-2a", "URI 10 1 \"ftp://ftp.example.com/\"", "CAA 0 issue \"ca.example\"",
	"AVC one two", "DOA 0 1 2 \"\" AQID", "AMTRELAY 10 0 1 192.0.2.1", "RESINFO a b=c", "WALLET a b", "CLA a b", "IPN 12345", "TA 12345 8 2 AABBCCDDEEFF00112233445566778899AABBCCDDEEFF00112233445566778899",
	"DLV 12345 8 2 AABBCCDDEEFF00112233445566778899AABBCCDDEEFF00112233445566778899", "TYPE65280 \\# 2 abcd", "UINFO x", "UID 12", "GID 12", "NULL x", "WKS 192.0.2.1 tcp 25", "DSYNC CDS NOTIFY 5300 t", "TKEY x", "OPT x", "ANY x", "AXFR x", "SOA ns h 1 2 3 4 5",
}

var digits = regexp.MustCompile(`^[0-9]+$`)

// misspellings are records of each type with one change: a field that is missing, too much, empty,
// quoted, escaped, exchanged with the one before, or of another kind; and other orders of class and
// TTL, and lines.
func misspellings() (all []string) {
	for _, r := range sampleData {
		typ, data, _ := strings.Cut(r, " ")
		f := strings.Fields(data)
		add := func(fields ...string) { all = append(all, "a "+typ+" "+strings.Join(fields, " ")) }
		with := func(i int, s string) { add(slices.Concat(f[:i], []string{s}, f[i+1:])...) }
		add(f...)
		all = append(all, "a 1M In "+strings.ToLower(typ)+" "+data, "a In 1h "+typ+"\t"+data+";c",
			"a "+typ+" ( "+strings.Join(f, " ; c (\n ")+"\n) ; )", "a "+typ+" ( "+strings.Join(f, "\n")+")")
		add(append(slices.Clone(f), "extra")...)
		add(append(slices.Clone(f), `""`)...)
		for i, w := range f {
			add(f[:i]...)
			if !strings.HasPrefix(w, `"`) {
				with(i, `"`+w+`"`)
				with(i, fmt.Sprintf(`\%03d%s`, w[0], w[1:]))
			}
			for _, s := range []string{`""`, strings.ToUpper(w), "@", ".", "a..b", "-"} {
				with(i, s)
			}
			if digits.MatchString(w) {
				for _, s := range []string{"00" + w, "+" + w, "-1", "0x1", "255", "256", "65535", "65536", "4294967295", "4294967296", "1.5", w + "x"} {
					with(i, s)
				}
			}
			if len(w) > 4 {
				with(i, w[:2]+" "+w[2:])
				with(i, w[:len(w)-1])
				with(i, w+w)
			}
			if i > 0 {
				add(slices.Concat(f[:i-1], []string{w, f[i-1]}, f[i+1:])...)
			}
		}
	}
	return all
}

// explained are misspellings that BIND and we judge differently, and why.
var explained = []struct{ like, why string }{
	{`^a (1M In |In 1h )?(?i:MD|MF|UID|GID|UINFO|CLA|RKEY)\s`, "BIND refuses what is obsolete, and does not know all"},
	{`^a (1M In |In 1h )?(?i:SOA)\s`, "Check finds an SOA record below the origin"},
	{`^a (1M In |In 1h )?(?i:DSYNC)\s`, "BIND knows it since 9.20"},
	{`^a SIG .* [0-9]{3,10} `, "times in seconds (RFC 4034 section 3.2)"},
	{`^a LOC .*[0-9](M|m")`, "metres with a capital, or in quotes"},
	{`^a LOC .* \+`, "BIND takes a sign before seconds"},
	{`^a (KEY|DNSKEY|CDNSKEY) (0x1|65535) `, "BIND takes flags in hexadecimal, and refuses keys that say they are none"},
	{`^a NAPTR 10 20 S ""|^a NAPTR 10 20 S SIP\+D2U [^" ]+ _sip`, "BIND reads the services and the expression"},
	{`^a (SSHFP|NSEC3|ZONEMD) .*([0-9A-Za-z]{20,})`, "BIND knows lengths of hashes"},
	{`^a RRSIG .* 12345 (-|x\.test|x\.test\.x\.test\.) AQID`, "BIND compares the signer with the zone"},
	{`^a NSEC b ?$`, "a bitmap without types"},
	{`^a IPSECKEY 10 1 2 192.0.2.1 ?$`, "a gateway without a key (RFC 4025 section 2.6)"},
	{`^a URI 10 1 [^"]`, "BIND wants quotes"},
	{`^a CAA 0 [^" ]*[^a-zA-Z0-9" ]`, "BIND reads tags"},
	{`^a X25 \\05`, "an escape in place of a digit"},
	{`^a (SVCB|HTTPS) `, "BIND takes targets with quotes, and keys in capitals as it would not in small letters"},
	{`^a EUI(48|64) `, "BIND reads addresses that end early or late"},
	{`^a APL .*/[23]( |$)`, "bits behind the prefix"},
}

// TestMisspellingsMeanWhatTheyMeanToBIND has BIND read misspellings, and compares the bytes.
//
// SPELLINGS=all in the environment tries all of them.
func TestMisspellingsMeanWhatTheyMeanToBIND(t *testing.T) {
	peer.Program(t, "named-checkzone")
	all := misspellings()
	if os.Getenv("SPELLINGS") != "all" {
		r := rand.New(rand.NewPCG(49, 6))
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		all = all[:120]
	}
	var group sync.WaitGroup
	next := make(chan string)
	for range 2 {
		dir := spellingFolder(t)
		group.Go(func() {
			file, out := filepath.Join(dir, "x.zone"), filepath.Join(dir, "out")
			for text := range next {
				writeSpelling(t, file, text)
				ours, bind := "refused", "refused"
				z, err := ReadFile(file, "x.test.")
				if err == nil {
					ours = bytesOf(z)
				}
				if said, failed := peer.Command(t, "named-checkzone", "-q", "-i", "none", "-k", "ignore", "-n", "ignore", "-s", "full", "-o", out, "-D", "x.test", file).CombinedOutput(); failed == nil {
					b, err := os.ReadFile(out)
					if err != nil {
						t.Errorf("%q: %v: %s", text, err, said)
						continue
					}
					if z, err := Read(bytes.NewReader(b), "x.test.", ""); err != nil {
						bind = "what we cannot read: " + err.Error()
					} else {
						bind = bytesOf(z)
					}
				}
				if ours != bind && !slices.ContainsFunc(explained, func(x struct{ like, why string }) bool { return regexp.MustCompile(x.like).MatchString(text) }) {
					t.Errorf("%q: we read %s (%v), BIND %s", text, ours, err, bind)
				}
			}
		})
	}
	for _, text := range all {
		next <- text
	}
	close(next)
	group.Wait()
}

// bytesOf returns the records of a zone that are not those of writeSpelling.
func bytesOf(z *Zone) string {
	var out []string
	for _, rr := range z.Records {
		if h := rr.Header(); h.Name != "a.x.test." {
			continue
		}
		wire := make([]byte, 2<<16)
		n, err := miekg.PackRR(rr, wire, 0, nil, false)
		out = append(out, fmt.Sprintf("%x %v", wire[:n], err))
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), "; ")
}
