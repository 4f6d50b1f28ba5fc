package dns

import (
	"strings"
	"testing"

	miekg "github.com/miekg/dns"
)

func TestDataIsWrittenAsInAZoneFile(t *testing.T) {
	for _, line := range []string{
		"a. 1 IN A 192.0.2.1", "a. 1 IN AAAA 2001:db8::1", "a. 1 IN NS ns.a.", "a. 1 IN MX 10 mx.a.", "a. 1 IN SRV 1 2 443 h.a.",
		"a. 1 IN SOA ns.a. m.a. 1 2 3 4 5", `a. 1 IN TXT "one" "t\"w\\o \200" ""`, `a. 1 IN CAA 0 issue "ca.example; x=\"y\""`,
		"a. 1 IN DS 1 13 2 AB01", "a. 1 IN TLSA 3 1 1 AB01", "a. 1 IN DNSKEY 257 3 13 AQID", "a. 1 IN CNAME .", `a. 1 IN HINFO "a" "b"`,
		"a. 1 IN RRSIG A 13 1 60 20300101000000 20290101000000 7 a. AQID",
	} {
		rr, err := miekg.NewRR(line)
		if err != nil {
			t.Fatal(err)
		}
		msg := make([]byte, 512)
		n, err := miekg.PackRR(rr, msg, 0, nil, false)
		if err != nil {
			t.Fatal(err)
		}
		x, err := ReadRecord(msg[:n], 0)
		if err != nil {
			t.Fatal(err)
		}
		want := strings.TrimPrefix(rr.String(), rr.Header().String())
		if got := string(AppendData(nil, msg[:n], x)); !strings.EqualFold(got, want) {
			t.Errorf("AppendData of %s: got %s, want %s", line, got, want)
		}
		// Truncated data are written as those of an unknown type.
		if x.End--; x.Type != TypeTXT && x.Type != TypeCAA {
			if got := string(AppendData(nil, msg, x)); x.Type < TypeDS && !strings.HasPrefix(got, `\# `) && x.End > x.Data {
				t.Errorf("AppendData of a truncated %s: got %s", line, got)
			}
		}
	}
}

func FuzzData(f *testing.F) {
	f.Add([]byte("\x00\x00\x10\x00\x01\x00\x00\x00\x01\x00\x02\x01a"))
	f.Add([]byte("\x00\x00\x06\x00\x01\x00\x00\x00\x01\x00\x16\x00\x00\x00\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00\x03\x00\x00\x00\x04\x00\x00\x00\x05"))
	f.Fuzz(func(t *testing.T, msg []byte) {
		x, err := ReadRecord(msg, 0)
		if err != nil {
			return
		}
		if got := AppendData(nil, msg, x); len(got) > 20+5*len(msg)+2*maxName*4 {
			t.Errorf("AppendData made %d bytes of text from %d bytes of data", len(got), len(msg))
		}
	})
}
