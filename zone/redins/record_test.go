package redins

import (
	"strings"
	"testing"

	miekg "github.com/miekg/dns"
)

func TestARecordIsChangedInTheTextOfAZone(t *testing.T) {
	rr := func(s string) miekg.RR {
		if s == "" {
			return nil
		}
		r, err := miekg.NewRR(s)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	const begin = `config: {"dnssec":false,"soa":{"minttl":300,"ns":"ns1.example.com.","serial":7}}` + "\n"
	for _, c := range []struct{ name, old, fresh, was, want string }{
		{"added", "", "www.example.com. 300 IN A 192.0.2.9", "", `www A {"ttl":300,"records":[{"ip":"192.0.2.9"}]}`},
		{"added to others", "", "www.example.com. 60 IN A 192.0.2.9", `www A {"ttl":300,"filter":{"count":"single"},"records":[{"ip":"192.0.2.1","weight":3}]}`,
			`www A {"filter":{"count":"single"},"records":[{"ip":"192.0.2.1","weight":3},{"ip":"192.0.2.9"}],"ttl":60}`},
		{"changed with its weight", "www.example.com. 300 IN A 192.0.2.1", "www.example.com. 300 IN A 192.0.2.9", `www A {"ttl":300,"records":[{"ip":"192.0.2.1","weight":3},{"ip":"192.0.2.2"}]}`,
			`www A {"records":[{"ip":"192.0.2.9","weight":3},{"ip":"192.0.2.2"}],"ttl":300}`},
		{"the only one changed", "www.example.com. 300 IN A 192.0.2.1", "www.example.com. 300 IN A 192.0.2.9", `www A {"ttl":300,"health_check":{"enable":false},"records":[{"ip":"192.0.2.1","country":"MN"}]}`,
			`www A {"health_check":{"enable":false},"records":[{"country":"MN","ip":"192.0.2.9"}],"ttl":300}`},
		{"deleted of others", "@ 300 IN MX 10 a.example.com.", "", `@ MX {"ttl":300,"records":[{"host":"a.example.com.","preference":10},{"host":"b.example.com.","preference":20}]}`,
			`@ MX {"records":[{"host":"b.example.com.","preference":20}],"ttl":300}`},
		{"the last deleted", "www.example.com. 300 IN CNAME a.example.org.", "", `www CNAME {"ttl":300,"host":"a.example.org."}`, ""},
		{"renamed", "www.example.com. 300 IN TXT \"x\"", "web.example.com. 300 IN TXT \"x\"", `www TXT {"ttl":300,"records":[{"text":"x"}]}`, `web TXT {"ttl":300,"records":[{"text":"x"}]}`},
		{"another type", "", "www.example.com. 300 IN SSHFP 4 2 00ff", "", `www RR ["300 SSHFP 4 2 00FF"]`},
		{"another type deleted", "www.example.com. 300 IN SSHFP 4 2 00FF", "", `www RR ["300 SSHFP 4 2 00FF","300 LOC 51 30 12.748 N 00 07 39.611 W 0m"]`, `www RR ["300 LOC 51 30 12.748 N 00 07 39.611 W 0m"]`},
	} {
		for _, schema := range []Schema{Z42, Redins} {
			t.Run(c.name+" "+string(schema), func(t *testing.T) {
				line := func(z42 string) string {
					if z42 == "" || schema == Z42 {
						return z42
					}
					label, rest, _ := strings.Cut(z42, " ")
					typ, json, _ := strings.Cut(rest, " ")
					return label + ` {"` + strings.ToLower(typ) + `":` + json + "}"
				}
				for _, s := range []*string{&c.old, &c.fresh} {
					*s = strings.Replace(*s, "@ ", "example.com. ", 1)
				}
				src := &Source{cfg: Config{Schema: schema}}
				text := begin + line(c.was) + "\n"
				out, err := Edit(src, "example.com.", []byte(text), rr(c.old), rr(c.fresh), true)
				if err != nil {
					t.Fatal(err)
				}
				want := strings.Replace(begin, `"serial":7`, `"serial":8`, 1)
				if l := line(c.want); l != "" {
					want += l + "\n"
				}
				if string(out) != want {
					t.Errorf("text after the edit: got\n%s, want\n%s", out, want)
				}
				if _, err := Parse(src, "example.com.", out); err != nil {
					t.Error(err)
				}
			})
		}
	}
	src := &Source{cfg: Config{Schema: Z42}}
	soa, err := Edit(src, "example.com.", []byte(begin), rr("example.com. 300 IN SOA ns1.example.com. a.example.com. 7 1 1 1 300"), rr("example.com. 300 IN SOA ns2.example.com. a.example.com. 9 1 1 1 300"), true)
	if err != nil || !strings.Contains(string(soa), `"ns":"ns2.example.com."`) || !strings.Contains(string(soa), `"serial":9`) || !strings.Contains(string(soa), `"dnssec":false`) {
		t.Errorf("config after a change of the SOA: %s, error %v", soa, err)
	}
	if _, err := Edit(src, "example.com.", []byte(begin), rr("www.example.com. 300 IN A 192.0.2.1"), nil, true); err == nil {
		t.Error("Edit deleted a record that does not exist")
	}
	if out := string(Raise([]byte(begin), 41)); !strings.Contains(out, `"serial":42`) {
		t.Errorf("Raise above 41: got %s", out)
	}
}
