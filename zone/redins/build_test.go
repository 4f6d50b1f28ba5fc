package redins

import (
	"slices"
	"strings"
	"testing"
	"time"

	miekg "github.com/miekg/dns"

	"shuultuur/test/zonetest"
	"shuultuur/zone"
)

// redinsZone is a data set in redins' layout, with all its features.
var redinsZone = map[string]string{
	"@": `{"a":{"ttl":300,"records":[{"ip":"192.0.2.1","country":"ZZ","weight":1}]},
	       "ns":{"ttl":300,"records":[{"host":"ns1.example.com."},{"host":"ns2.example.com"}]},
	       "mx":{"ttl":300,"records":[{"host":"mx1.example.com.","preference":10},{"host":"mx2.example.com.","preference":20}]},
	       "caa":{"ttl":300,"records":[{"tag":"issue","value":"ca.example","flag":0}]}}`,
	"www": `{"a":{"ttl":300,"records":[{"ip":"1.2.3.4","country":"US","asn":444,"weight":10},{"ip":"2.2.3.4","country":["GB",""],"asn":[444,555]}],
	         "filter":{"count":"single","order":"weighted","geo_filter":"none"}},
	        "aaaa":{"ttl":300,"records":[{"ip":"2001:db8::1"}],"filter":{"count":"multi","order":"rr"}},
	        "txt":{"ttl":300,"records":[{"text":"foo"},{"text":"a \"quoted\" \\097"}]}}`,
	"alias":         `{"cname":{"ttl":300,"host":"www.example.com."}}`,
	"elsewhere":     `{"aname":{"location":"cdn.example.net."}}`,
	"*.wild":        `{"a":{"ttl":60,"records":[{"ip":"192.0.2.7"}]},"txt":{"records":[{"text":"any"}]}}`,
	"_sip._tcp":     `{"srv":{"ttl":300,"records":[{"target":"sip.example.com.","priority":10,"weight":100,"port":555}]}}`,
	"_443._tcp.www": `{"tlsa":{"ttl":300,"records":[{"usage":1,"selector":1,"matching_type":1,"certificate":"1CFC98A706BCF3683015"}]}}`,
	"7":             `{"ptr":{"ttl":300,"domain":"mail.example.com"}}`,
	"sub":           `{"ns":{"ttl":300,"records":[{"host":"ns.sub.example.com."}]},"ds":{"ttl":300,"records":[{"key_tag":57855,"algorithm":5,"digest_type":1,"digest":"B6DCD485719ADCA18E5F3D48A2331627FDD3636B"}]}}`,
	"ns.sub":        `{"a":{"ttl":300,"records":[{"ip":"192.0.2.53"}]}}`,
	"web":           `{"a":{"ttl":300,"records":[{"ip":"192.0.2.8"},{"ip":"192.0.2.9"}],"health_check":{"enable":true,"protocol":"http","uri":"/hc","port":8080,"timeout":1000,"up_count":3,"down_count":-3}}}`,
	"ours":          `{"dname":{"ttl":300,"host":"example.net."},"rr":["300 SSHFP 1 1 A0B1C2","300 HTTPS 1 . alpn=h2"]}`,
}

const redinsConfig = `{"domain_id":"0b9f","dnssec":false,"cname_flattening":false,"soa":{"ns":"ns1.example.com.","mbox":"hostmaster.example.com.","ttl":300,"refresh":86400,"retry":7200,"expire":3600,"minttl":300,"serial":1460498836}}`

const redinsText = `
@ 300 SOA ns1.example.com. hostmaster.example.com. 1460498836 86400 7200 3600 300
@ 300 A 192.0.2.1
@ 300 NS ns1.example.com.
@ 300 NS ns2.example.com.
@ 300 MX 10 mx1.example.com.
@ 300 MX 20 mx2.example.com.
@ 300 CAA 0 issue "ca.example"
www 300 A 1.2.3.4
www 300 A 2.2.3.4
www 300 AAAA 2001:db8::1
www 300 TXT "foo"
www 300 TXT "a \"quoted\" a"
alias 300 CNAME www.example.com.
*.wild 60 A 192.0.2.7
*.wild 3600 TXT "any"
_sip._tcp 300 SRV 10 100 555 sip.example.com.
_443._tcp.www 300 TLSA 1 1 1 1CFC98A706BCF3683015
7 300 PTR mail.example.com.
sub 300 NS ns.sub.example.com.
sub 300 DS 57855 5 1 B6DCD485719ADCA18E5F3D48A2331627FDD3636B
ns.sub 300 A 192.0.2.53
web 300 A 192.0.2.8
web 300 A 192.0.2.9
ours 300 DNAME example.net.
ours 300 SSHFP 1 1 A0B1C2
ours 300 HTTPS 1 . alpn="h2"
`

func rawOf(origin string, config string, labels map[string]string) *raw {
	r := &raw{origin: origin, key: "redins:zones:" + origin + ":config"}
	if config != "" {
		r.config = []byte(config)
	}
	for label, text := range labels {
		r.values = append(r.values, value{key: "redins:zones:" + origin, label: label, json: []byte(text)})
	}
	return r
}

func plainBuilder(schema Schema) *builder {
	return &builder{schema: schema, ttl: 3600, maxTTL: 3600, now: func() time.Time { return time.Unix(1700000000, 0) }}
}

// packed compares records in wire form, because the text of a TXT record can be
// written in several ways.
func packed(t *testing.T, rrs []miekg.RR) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, rr := range rrs {
		all[string(wireForm(rr))] = rr.String()
	}
	if len(all) != len(rrs) {
		t.Errorf("%d records, of which %d differ; want no duplicates", len(rrs), len(all))
	}
	return all
}

func sameZone(t *testing.T, got, want []miekg.RR) {
	t.Helper()
	g, w := packed(t, got), packed(t, want)
	for k, text := range w {
		if g[k] == "" {
			t.Errorf("missing record: %s", text)
		}
	}
	for k, text := range g {
		if w[k] == "" {
			t.Errorf("unwanted record: %s", text)
		}
	}
}

func parseZone(t testing.TB, text, origin string) *zone.Zone {
	t.Helper()
	z, err := zone.Read(strings.NewReader(text), origin, "")
	if err != nil {
		t.Fatal(err)
	}
	return z
}

func TestEveryTypeOfRedinsIsRead(t *testing.T) {
	b := plainBuilder(Redins)
	z := b.build(rawOf("example.com.", redinsConfig, redinsZone))
	for _, p := range b.problems {
		t.Error(p)
	}
	sameZone(t, z.Records, parseZone(t, redinsText, "example.com.").Records)
	var choices []string
	for _, c := range z.Choices {
		choices = append(choices, c.Name+" "+miekg.TypeToString[c.Type])
	}
	if want := []string{"web.example.com. A", "www.example.com. A", "www.example.com. AAAA"}; !slices.Equal(choices, want) {
		t.Errorf("choices %q, want %q", choices, want)
	}
	if want := []zone.Alias{{Name: "elsewhere.example.com.", Target: "cdn.example.net."}}; !slices.Equal(z.Aliases, want) {
		t.Errorf("aliases %v, want %v", z.Aliases, want)
	}
	if err := zone.NewResponder().Replace(z); err != nil {
		t.Error(err)
	}
}

func TestMissingMembersHaveDefaults(t *testing.T) {
	b := plainBuilder(Redins)
	b.maxTTL = 1000
	z := b.build(rawOf("example.com.", "", map[string]string{
		"a": `{"a":{"records":[{"ip":"192.0.2.1"}]}}`,
		"b": `{"a":{"ttl":100000,"records":[{"ip":"192.0.2.1"}]}}`,
		"c": `{"a":{"records":[]},"cname":null,"aname":{}}`,
	}))
	sameZone(t, z.Records, parseZone(t, `
@ 300 SOA ns1.example.com. hostmaster.example.com. 1700000000 86400 7200 3600 300
a 1000 A 192.0.2.1
b 1000 A 192.0.2.1`, "example.com.").Records)
	if len(b.problems) > 0 || len(z.Choices)+len(z.Aliases) > 0 {
		t.Errorf("reading a zone without optional members: got problems %v, choices %v, aliases %v, want none", b.problems, z.Choices, z.Aliases)
	}
}

func TestNonsenseIsNamedAndTheRestIsServed(t *testing.T) {
	for _, c := range []struct {
		label, json string
		records     int    // records besides the SOA
		problem     string // "" for none
	}{
		{"www", `{"a":{"records":[{"ip":"192.0.2.1"},{"ip":"192.0.2.256"},{"ip":"::1"}]}}`, 1, `www a records[1]: ip "192.0.2.256": not an address`},
		{"www", `{"aaaa":{"records":[{"ip":"192.0.2.1"}]}}`, 0, `www aaaa records[0]: ip "192.0.2.1": an AAAA record has an IPv6 address`},
		{"www", `{"a":{"records":[{"ip":"192.0.2.1","country":"Germany"}]}}`, 0, `www a records[0]: country "Germany": must be two letters, such as "DE"`},
		{"www", `{"a":{"records":[{"ip":"192.0.2.1","weight":-1}]}}`, 0, `www a records[0]: weight -1 is not between`},
		{"www", `{"a":{"records":[{"ip":"192.0.2.1","asn":"x"}]}}`, 0, `www a records[0]: "asn" cannot be a JSON string`},
		{"www", `{"a":{"records":[{"ip":"192.0.2.1","wieght":1}]}}`, 1, `www a records[0]: field "wieght" is not known and ignored`},
		{"www", `{"a":{"records":[{"ip":"192.0.2.1"}],"filter":{"order":"random"}}}`, 1, `www a filter: order "random" is not weighted, rr or none`},
		{"www", `{"a":{"records":[{"ip":"192.0.2.1"}],"filter":{"count":"two"}}}`, 1, `count "two" is not single or multi`},
		{"www", `{"a":{"records":[{"ip":"192.0.2.1"}],"filter":{"geo_filter":"planet"}}}`, 1, `geo_filter "planet" is not`},
		{"www", `{"a":{"records":[{"ip":"192.0.2.1"}],"filter":{"geo_filter":"asn+country"}}}`, 1, `geo_filter "asn+country" has no effect`},
		{"www", `{"a":7,"txt":{"records":[{"text":"x"}]}}`, 1, `www a: this cannot be a JSON number`},
		{"www", `{"a":{"records":[7]},"txt":{"records":[{"text":"x"}]}}`, 1, `www a records[0]: this cannot be a JSON number`},
		{"www", `not JSON`, 0, `www: not JSON`},
		{"www", `[]`, 0, `www: this cannot be a JSON array`},
		{"www", `{"hinfo":{}}`, 0, `www hinfo: type "HINFO" is not known`},
		{"www", `{"mx":{"records":[{"host":"mx.","preference":70000},{"host":"a..b"},{"preference":1}]}}`, 0, `www mx records[0]: "preference" cannot be a JSON number`},
		{"www", `{"ns":{"records":[{"host":""}]}}`, 0, `www ns records[0]: the host is empty`},
		{"www", `{"caa":{"records":[{"value":"x"}]}}`, 0, `www caa records[0]: the tag is empty`},
		{"www", `{"tlsa":{"records":[{"usage":1,"certificate":"XYZ"}]}}`, 0, `www tlsa records[0]:`},
		{"www", `{"srv":{"records":[{"target":"` + strings.Repeat("a", 64) + `."}]}}`, 0, `www srv records[0]:`},
		{"www", `{"rr":["300 SSHFP 1 1 A0B1","nonsense","300 CH A 192.0.2.1","$INCLUDE /etc/passwd","300 SOA a. b. 1 2 3 4 5","300 OPT","300 A 192.0.2.1\n300 A 192.0.2.2"]}`, 1, `www rr[1]: "nonsense" is not a record`},
		{"www", `{"rr":"300 A 192.0.2.1"}`, 0, `www rr: this cannot be a JSON string; want a list`},
		{"www", `{"cname":{"host":"a."},"a":{"records":[{"ip":"192.0.2.1"}]}}`, 1, `www cname: a name with a CNAME has no other records`},
		{"www", `{"rr":["300 CNAME a.","300 CNAME b."]}`, 1, `www cname: there is more than one`},
		{"@", `{"cname":{"host":"a."},"ns":{"records":[{"host":"b."}]}}`, 1, `@ cname: the zone's own name cannot have a CNAME`},
		{"www.", `{"a":{"records":[{"ip":"192.0.2.1"}]}}`, 0, `www.: "www." is not a name relative to the zone`},
		{`www\`, `{"a":{"records":[{"ip":"192.0.2.1"}]}}`, 0, `is not a name relative to the zone`},
		{"", `{"a":{"records":[{"ip":"192.0.2.1"}]}}`, 0, `is not a name relative to the zone`},
		{strings.Repeat("a.", 130) + "a", `{"a":{"records":[{"ip":"192.0.2.1"}]}}`, 0, `is not a name relative to the zone`},
		{"www", `{"a":{"records":[{"ip":"192.0.2.1"}],"health_check":{"enable":false,"protocol":"gopher"}}}`, 1, ""},
		{"WWW", `{"A":{"Records":[{"IP":"192.0.2.1"}]}}`, 1, ""},
		{"www", `{"txt":{"records":[{"text":"` + strings.Repeat("a", 70000) + `"}]},"a":{"records":[{"ip":"192.0.2.1"}]}}`, 1, `www txt records[0]:`},
		{"www", `{"txt":{"records":[{"text":"` + strings.Repeat("a", 1<<20) + `"}]}}`, 0, `www: 1048`},
	} {
		b := plainBuilder(Redins)
		z := b.build(rawOf("example.com.", redinsConfig, map[string]string{c.label: c.json}))
		short := c.json[:min(len(c.json), 100)]
		if got := len(z.Records) - 1; got != c.records {
			t.Errorf("%s %s: got %d records, want %d", c.label, short, got, c.records)
		}
		all := ""
		for _, p := range b.problems {
			all += p.Error() + "\n"
		}
		if c.problem == "" && all != "" || !strings.Contains(all, c.problem) {
			t.Errorf("%s %s: got problems\n%swant %q", c.label, short, all, c.problem)
		}
		for _, p := range b.problems {
			if p.Key != "redins:zones:example.com." || strings.Contains(p.Error(), "json:") {
				t.Errorf("%s %s: problem %q with key %q", c.label, short, p, p.Key)
			}
		}
		if err := zone.NewResponder().Replace(z); err != nil {
			t.Errorf("%s %s: the rest of the zone cannot be served: %v", c.label, short, err)
		}
	}
	for _, config := range []string{"nonsense", `{"soa":7}`, `{"soa":{"ns":"a..b"}}`, `{"soa":{"ns":"","mbox":""}}`} {
		b := plainBuilder(Redins)
		z := b.build(rawOf("example.com.", config, nil))
		if len(b.problems) == 0 || len(z.Records) != 1 || b.problems[0].Key != "redins:zones:example.com.:config" {
			t.Errorf("config %s: got problems %v, records %v", config, b.problems, z.Records)
		}
	}
	b := plainBuilder(Redins)
	if b.build(rawOf("example.com.", `{"soa":null}`, nil)); len(b.problems) > 0 {
		t.Errorf("reading a zone without SOA: got problems %v, want none", b.problems)
	}
}

func TestTextsAreCutAt255Bytes(t *testing.T) {
	long := strings.Repeat("x", 254)
	for _, c := range []struct {
		in   string
		want []string
	}{
		{"", []string{""}},
		{"short", []string{"short"}},
		{long + "yz", []string{long + "y", "z"}},
		{long + `\"z`, []string{long + `\"`, "z"}},
		{long + `\098z`, []string{long + `\098`, "z"}},
	} {
		if got := split255(c.in); !slices.Equal(got, c.want) {
			t.Errorf("split255(%q) = %q, want %q", c.in, got, c.want)
		}
	}
}

func FuzzZoneJSON(f *testing.F) {
	for _, text := range redinsZone {
		f.Add("www", text, "A")
	}
	f.Add("@", `["300 SOA a. b. 1 2 3 4 5","0 TXT x"]`, "RR")
	f.Add("*", `{"records":[{"ip":"1.2.3.4","country":null,"asn":[1,2]}],"filter":{"geo_filter":"location","order":"rr"},"health_check":{"enable":true}}`, "A")
	f.Add("x", `{"ttl":4294967295,"host":"x"}`, "CNAME")
	f.Add(`a\.b`, `{"cname":{"host":"\\000."},"dname":{"host":"."}}`, "")
	f.Fuzz(func(t *testing.T, label, text, typ string) {
		for _, schema := range []Schema{Redins, Z42} {
			r := rawOf("example.com.", redinsConfig, map[string]string{label: text})
			if schema == Z42 {
				r.values[0].typ = typ
			}
			b := plainBuilder(schema)
			z := b.build(r)
			if err := zone.NewResponder().Replace(z); err != nil {
				t.Fatalf("the rest of zone %q %q cannot be served: %v", label, text, err)
			}
		}
	})
}

func TestLabelsInUnicodeAreNamesInPunycode(t *testing.T) {
	for label, want := range map[string]string{
		"www": "www.example.com.", "@": "example.com.", "*.a": "*.a.example.com.", "Bücher": "xn--bcher-kva.example.com.", `a\.b`: `a\.b.example.com.`,
		"": "", "a..b": "", ".": "", strings.Repeat("a", 64): "",
	} {
		if got, err := ownerName(label, "example.com."); got != want || err == nil != (want != "") {
			t.Errorf("ownerName(%q) = %q, %v, want %q", label, got, err, want)
		}
	}
}

func TestInternationalNamesAreServedInPunycode(t *testing.T) {
	b := &builder{schema: Redins, ttl: 300}
	z := b.build(&raw{origin: zone.Canonical("Bücher.example."), values: []value{
		{label: "größe", json: []byte(`{"cname":{"host":"öl.bücher.example."}}`)},
		{label: "xn--l-0ga", json: []byte(`{"a":{"records":[{"ip":"192.0.2.1"}]}}`)},
	}})
	if len(b.problems) > 0 || z.Origin != "xn--bcher-kva.example." {
		t.Fatalf("zone with a Unicode name: got origin %s, problems %v", z.Origin, b.problems)
	}
	r := zone.NewResponder()
	if err := r.Replace(z); err != nil {
		t.Fatal(err)
	}
	m := zonetest.Ask(t, r, zonetest.Question("xn--gre-6ka8i.xn--bcher-kva.example.", miekg.TypeA), 4096)
	if len(m.Answer) != 2 || m.Answer[1].Header().Name != "xn--l-0ga.xn--bcher-kva.example." {
		t.Errorf("query for a Unicode label: got %v", m)
	}
}
