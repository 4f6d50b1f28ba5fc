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
	client, server := netip.MustParseAddr("10.1.2.3"), netip.MustParseAddr("192.0.2.1")
	for name, c := range map[string]struct {
		row  event.Row
		want string
	}{
		"passed": {
			event.Row{Time: at, Duration: 180 * time.Millisecond, Client: client, User: "anna", Method: "GET",
				URL: "http://example.com/a?b=%20c", Host: "example.com", Status: 200, BytesOut: 4711, Type: "text/html", RareValues: event.RareValues{HeadOut: 289, Server: server}},
			"1767225600.007    180 10.1.2.3 TCP_MISS/200 5000 GET http://example.com/a?b=%20c anna HIER_DIRECT/192.0.2.1 text/html\n",
		},
		"by a parent": {
			event.Row{Time: at, Client: client, Method: "GET", URL: "http://example.com/", Host: "example.com", Status: 200, BytesOut: 1,
				RareValues: event.RareValues{HeadOut: 100, Server: server, Parent: true}},
			"1767225600.007      0 10.1.2.3 TCP_MISS/200 101 GET http://example.com/ - FIRSTUP_PARENT/192.0.2.1 -\n",
		},
		"from the cache": {
			event.Row{Time: at, Client: client, Method: "GET", URL: "http://a/", Host: "a", Status: 200, BytesOut: 1, RareValues: event.RareValues{HeadOut: 99, Cache: "hit"}},
			"1767225600.007      0 10.1.2.3 TCP_HIT/200 100 GET http://a/ - HIER_NONE/- -\n",
		},
		"blocked": {
			event.Row{Time: at, Client: client, Method: "GET", URL: "http://example.com/", Host: "example.com", Status: 403, Action: filter.Block},
			"1767225600.007      0 10.1.2.3 TCP_DENIED/403 0 GET http://example.com/ - HIER_NONE/- text/html\n",
		},
		"blocked by its content": {
			event.Row{Time: at, Client: client, Method: "GET", URL: "http://example.com/", Host: "example.com", Status: 403, Action: filter.Block,
				Type: "image/png", BytesOut: 1000, RareValues: event.RareValues{HeadOut: 200, Server: server}},
			"1767225600.007      0 10.1.2.3 TCP_DENIED_REPLY/403 1200 GET http://example.com/ - HIER_DIRECT/192.0.2.1 text/html\n",
		},
		"cut": {
			event.Row{Time: at, Client: client, Proto: filter.TLS, Host: "bet.example", Port: 443, Action: filter.Block},
			"1767225600.007      0 10.1.2.3 TCP_DENIED/403 0 CONNECT bet.example:443 - HIER_NONE/- text/html\n",
		},
		"unreachable": {
			event.Row{Time: at, Client: client, Method: "GET", URL: "http://a/", Host: "a", Status: 503, Note: "connection refused"},
			"1767225600.007      0 10.1.2.3 TCP_MISS/503 0 GET http://a/ - HIER_NONE/- text/html\n",
		},
		"tunnel": {
			event.Row{Time: at, Duration: 2 * time.Hour, Client: netip.MustParseAddr("2001:db8::1"), Proto: filter.TLS, Host: "2001:db8::2", Port: 443, Status: 200,
				RareValues: event.RareValues{HeadOut: 39, Server: netip.MustParseAddr("2001:db8::2")}},
			"1767225600.007 7200000 2001:db8::1 TCP_TUNNEL/200 39 CONNECT [2001:db8::2]:443 - HIER_DIRECT/2001:db8::2 -\n",
		},
		"tunnel to nowhere": {
			event.Row{Time: at, Client: client, Proto: filter.TLS, Host: "a.example", Port: 443, Status: 503},
			"1767225600.007      0 10.1.2.3 NONE_NONE/503 0 CONNECT a.example:443 - HIER_NONE/- -\n",
		},
		"redirected": {
			event.Row{Time: at, Method: "GET", URL: "http://a/", Host: "a", Status: 302, Action: filter.Redirect},
			"1767225600.007      0 - TCP_REDIRECT/302 0 GET http://a/ - HIER_NONE/- -\n",
		},
		"name": {
			event.Row{Time: at, Client: client, Proto: filter.DNS, Host: "example.com", Status: 3},
			"1767225600.007      0 10.1.2.3 NONE_NONE/000 0 DNS dns:example.com - HIER_NONE/- -\n",
		},
		"not a request": {
			event.Row{Time: at, Client: client, Status: 400},
			"1767225600.007      0 10.1.2.3 NONE_NONE/400 0 NONE error:invalid-request - HIER_NONE/- text/html\n",
		},
		"blanks and percent": {
			event.Row{Time: at, Method: "G T", URL: "http://a/b c\nd%41ä", Host: "a", User: "Anna 100%", Type: "a b"},
			"1767225600.007      0 - TCP_MISS_ABORTED/000 0 G%20T http://a/b%20c%0Ad%41%C3%A4 Anna%20100%25 HIER_NONE/- a%20b\n",
		},
	} {
		if got := string(AppendLine(nil, &c.row)); got != c.want {
			t.Errorf("line of %s:\ngot %swant %s", name, got, c.want)
		}
	}
}

// native takes a line apart as report programs do.
var native = regexp.MustCompile(`^\d+\.\d{3} +\d+ [^ ]+ [A-Z_]+/\d{3,} -?\d+ [^ ]+ [^ ]+ [^ ]+ (HIER_(NONE|DIRECT)|FIRSTUP_PARENT)/[^ ]+ [^ ]+\n$`)

func TestHostileLinesHaveTenFields(t *testing.T) {
	for _, r := range eventtest.HostileRows(time.Unix(1767225600, 0)) {
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
