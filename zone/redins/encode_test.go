package redins

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	miekg "github.com/miekg/dns"
	"pgregory.net/rapid"

	"shuultuur/zone"
)

// reread encodes a zone and builds it from the result.
func reread(t interface {
	Helper()
	Fatal(...any)
}, z *zone.Zone) (*zone.Zone, []Problem) {
	t.Helper()
	e, err := encode(z)
	if err != nil {
		t.Fatal(err)
	}
	config, err := mergeConfig(nil, e.soa)
	if err != nil {
		t.Fatal(err)
	}
	s := &Store{Schema: Redins}
	r := &raw{origin: miekg.CanonicalName(z.Origin), config: config}
	for at, text := range s.wanted(e) {
		r.values = append(r.values, value{label: at[0], typ: at[1], json: text})
	}
	b := &builder{schema: Redins, ttl: 3600}
	return b.build(r), b.problems
}

func TestAZoneComesBackAsItWas(t *testing.T) {
	z := parseZone(t, redinsText+`
zero 0 A 192.0.2.1
two 300 TXT "not cut" "at 255"
two 200 AAAA ::1
two 300 AAAA ::2
raw 300 TXT "\000\255\\ \""
odd\.dot.x 300 A 192.0.2.1
unknown 300 TYPE65400 \# 3 abcdef
x 300 NAPTR 100 10 "u" "E2U+sip" "!^.*$!sip:info@example.com!" .
svc 300 SVCB 1 . alpn="h2,h3" port="8443"
`, "example.com.")
	got, problems := reread(t, z)
	for _, p := range problems {
		t.Error(p)
	}
	sameZone(t, got.Records, z.Records)
	e, err := encode(z)
	if err != nil {
		t.Fatal(err)
	}
	for label, want := range map[string]string{
		"www":  `[A AAAA TXT]`,
		"two":  `[RR]`,
		"zero": `[RR]`,
		"ours": `[DNAME RR]`,
		"raw":  `[TXT]`,
	} {
		var types []string
		for _, name := range typeNames {
			if e.labels[label][name] != nil {
				types = append(types, name)
			}
		}
		if got := fmt.Sprint(types); got != want {
			t.Errorf("types of %s: got %s, want %s", label, got, want)
		}
	}
	if got := string(e.labels["sub"]["NS"]); got != `{"ttl":300,"records":[{"host":"ns.sub.example.com."}]}` {
		t.Errorf("NS of sub: got %s", got)
	}
}

func TestRecordsOutOfTheZoneAreLeftOut(t *testing.T) {
	z := parseZone(t, "@ 300 SOA a. b. 1 2 3 4 5\nother.example.net. 300 A 192.0.2.1", "example.com.")
	got, err := encode(z)
	if err != nil || strings.Contains(fmt.Sprint(got), "192.0.2.1") {
		t.Errorf("encode: %v, %v; want no record of another zone", got, err)
	}
}

func TestTheConfigKeepsWhatIsNotTheSOA(t *testing.T) {
	got, err := mergeConfig([]byte(`{"domain_id":"x","dnssec":true,"SOA":{"ns":"old."},"other":[1]}`), &soaJSON{NS: "new."})
	if err != nil {
		t.Fatal(err)
	}
	var v struct {
		DomainID string `json:"domain_id"`
		DNSSEC   bool
		SOA      soaJSON
		Other    []int
	}
	if err := json.Unmarshal(got, &v); err != nil || v.DomainID != "x" || !v.DNSSEC || v.SOA.NS != "new." || len(v.Other) != 1 {
		t.Errorf("mergeConfig: got %s, %v", got, err)
	}
	if _, err := mergeConfig([]byte("nonsense"), nil); err == nil {
		t.Error("mergeConfig accepted a config that it cannot read, which would be lost")
	}
}

// TestAnyZoneComesBackAsItWas writes zones of random records.
func TestAnyZoneComesBackAsItWas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		label := rapid.StringMatching(`@|[a-z_*]{1,8}(\.[a-z0-9-]{1,5}){0,2}`)
		name := rapid.StringMatching(`([a-zA-Z0-9]{1,6}\.){1,3}`)
		text := rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 300), func(b []byte) string {
			var s strings.Builder
			for i := 0; i < len(b) || i == 0; i += 200 {
				s.WriteString(` "`)
				for _, c := range b[i:min(i+200, len(b))] {
					fmt.Fprintf(&s, `\%03d`, c)
				}
				s.WriteString(`"`)
			}
			return s.String()
		})
		number := rapid.Uint16()
		hex := rapid.StringMatching(`([0-9a-f]{2}){1,20}`)
		data := rapid.OneOf(
			rapid.Map(rapid.SliceOfN(rapid.Byte(), 4, 4), func(b []byte) string { return fmt.Sprintf("A %d.%d.%d.%d", b[0], b[1], b[2], b[3]) }),
			rapid.Map(number, func(n uint16) string { return fmt.Sprintf("AAAA 2001:db8::%x", n) }),
			rapid.Map(name, func(s string) string { return "NS " + s }),
			rapid.Map(name, func(s string) string { return "PTR " + s }),
			rapid.Map(text, func(s string) string { return "TXT" + s }),
			rapid.Custom(func(t *rapid.T) string { return fmt.Sprintf("MX %d %s", number.Draw(t, "n"), name.Draw(t, "mx")) }),
			rapid.Custom(func(t *rapid.T) string {
				return fmt.Sprintf("SRV %d %d %d %s", number.Draw(t, "a"), number.Draw(t, "b"), number.Draw(t, "c"), name.Draw(t, "target"))
			}),
			rapid.Map(hex, func(s string) string { return "TLSA 3 1 1 " + s }),
			rapid.Map(hex, func(s string) string { return "DS 1 13 2 " + strings.Repeat("00", 32)[len(s):] + s }),
			rapid.Map(hex, func(s string) string { return fmt.Sprintf(`TYPE65300 \# %d %s`, len(s)/2, s) }),
			rapid.Just(`CAA 0 issue "ca.example"`), rapid.Just(`HTTPS 1 . alpn="h3"`),
		)
		ttl := rapid.OneOf(rapid.Just(uint32(300)), rapid.Uint32Range(0, 1<<31-1))
		zoneText := fmt.Sprintf("@ %d SOA %s %s %d 2 3 4 5\n", ttl.Draw(t, "soa ttl"), name.Draw(t, "ns"), name.Draw(t, "mbox"), rapid.Uint32().Draw(t, "serial"))
		seen := map[string]bool{}
		for range rapid.IntRange(0, 12).Draw(t, "records") {
			line := fmt.Sprintf("%s %d %s\n", label.Draw(t, "label"), ttl.Draw(t, "ttl"), data.Draw(t, "data"))
			if !seen[line] {
				zoneText += line
			}
			seen[line] = true
		}
		z, err := zone.Read(strings.NewReader(zoneText), "example.com.", "")
		if err != nil {
			t.Fatalf("%v\n%s", err, zoneText)
		}
		got, problems := reread(t, z)
		if len(problems) > 0 {
			t.Fatalf("%v\n%s", problems, zoneText)
		}
		want := map[string]int{}
		for _, rr := range z.Records {
			want[string(wireForm(rr))]++
		}
		for _, rr := range got.Records {
			want[string(wireForm(rr))]--
		}
		for w, n := range want {
			if n != 0 {
				t.Fatalf("record count is off by %d for %x\n%s", n, w, zoneText)
			}
		}
	})
}
