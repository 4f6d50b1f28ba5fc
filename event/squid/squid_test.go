package squid

import (
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	"shuultuur/event"
	"shuultuur/event/eventtest"
	"shuultuur/filter"
)

func open(path string) (event.Store, error) { return Open(path) }

func TestStore(t *testing.T)      { eventtest.Run(t, open) }
func BenchmarkStore(b *testing.B) { eventtest.Bench(b, open) }

func TestLine(t *testing.T) {
	at := time.UnixMilli(1767225600007).UTC()
	client := netip.MustParseAddr("10.1.2.3")
	for name, c := range map[string]struct {
		row  event.Row
		want string
	}{
		"passed": {
			event.Row{Time: at, Duration: 180 * time.Millisecond, Client: client, User: "anna", Method: "GET",
				URL: "http://example.com/a?b=%20c", Host: "example.com", Status: 200, BytesOut: 4711, Type: "text/html"},
			"1767225600.007    180 10.1.2.3 TCP_MISS/200 4711 GET http://example.com/a?b=%20c anna HIER_DIRECT/example.com text/html\n",
		},
		"blocked": {
			event.Row{Time: at, Client: client, Method: "GET", URL: "http://example.com/", Host: "example.com", Status: 403, Action: filter.Block},
			"1767225600.007      0 10.1.2.3 TCP_DENIED/403 0 GET http://example.com/ - HIER_NONE/- -\n",
		},
		"tunnel": {
			event.Row{Time: at, Duration: 2 * time.Hour, Client: netip.MustParseAddr("2001:db8::1"), Proto: filter.TLS, Host: "2001:db8::2", Port: 443, Status: 200},
			"1767225600.007 7200000 2001:db8::1 TCP_TUNNEL/200 0 CONNECT [2001:db8::2]:443 - HIER_DIRECT/2001:db8::2 -\n",
		},
		"redirected": {
			event.Row{Time: at, Method: "GET", URL: "http://a/", Host: "a", Status: 302, Action: filter.Redirect},
			"1767225600.007      0 - TCP_REDIRECT/302 0 GET http://a/ - HIER_NONE/- -\n",
		},
		"name": {
			event.Row{Time: at, Client: client, Proto: filter.DNS, Host: "example.com"},
			"1767225600.007      0 10.1.2.3 NONE/000 0 DNS dns:example.com - HIER_NONE/- -\n",
		},
		"not a request": {
			event.Row{Time: at, Client: client, Status: 400},
			"1767225600.007      0 10.1.2.3 NONE/400 0 NONE error:invalid-request - HIER_NONE/- -\n",
		},
		"blanks and percent": {
			event.Row{Time: at, Method: "G T", URL: "http://a/b c\nd%41ä", Host: "a", User: "Anna 100%", Type: "a b"},
			"1767225600.007      0 - TCP_MISS/000 0 G%20T http://a/b%20c%0Ad%41%C3%A4 Anna%20100%25 HIER_DIRECT/a a%20b\n",
		},
	} {
		if got := string(AppendLine(nil, &c.row)); got != c.want {
			t.Errorf("%s:\ngot  %swant %s", name, got, c.want)
		}
	}
}

// native is how report programs take a line apart.
var native = regexp.MustCompile(`^\d+\.\d{3} +\d+ [^ ]+ [A-Z_]+/\d{3,} -?\d+ [^ ]+ [^ ]+ [^ ]+ HIER_(NONE|DIRECT)/[^ ]+ [^ ]+\n$`)

func TestHostileLinesHaveTenFields(t *testing.T) {
	for _, r := range eventtest.Hostile(time.Unix(1767225600, 0)) {
		if line := string(AppendLine(nil, &r)); !native.MatchString(line) || len(strings.Fields(line)) != 10 {
			t.Errorf("%q is not in the native format", line)
		}
	}
}

func FuzzAppendLine(f *testing.F) {
	f.Add("GET", "http://a/", "a", "anna", "text/html", uint8(0), uint8(0), int64(0))
	f.Add("G\nT", "http://a/ b\r\n", "a b", "a\x00", "\xff", uint8(1), uint8(3), int64(-5))
	f.Fuzz(func(t *testing.T, method, url, host, user, typ string, proto, action uint8, size int64) {
		r := event.Row{Time: time.Unix(1767225600, 0), Method: method, URL: url, Host: host, User: user, Type: typ,
			Proto: filter.Proto(proto % 3), Action: filter.Action(action % 5), BytesOut: size}
		if line := string(AppendLine(nil, &r)); !native.MatchString(line) {
			t.Fatalf("%q is not in the native format", line)
		}
	})
}
