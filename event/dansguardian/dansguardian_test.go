package dansguardian

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
	at := time.Date(2026, 1, 2, 10, 20, 30, 0, time.Local)
	client := netip.MustParseAddr("10.1.2.3")
	for name, c := range map[string]struct {
		row  event.Row
		want string
	}{
		"passed": {
			event.Row{Time: at, Client: client, User: "anna", Method: "GET", URL: "http://example.com/", Status: 200, BytesOut: 4711, Type: "text/html", Policy: "pupils", Score: 12},
			"2026.01.02 10:20:30 anna 10.1.2.3 http://example.com/ - GET 4711 12 - 1 200 text/html 10.1.2.3 pupils - - - - -\n",
		},
		"blocked": {
			event.Row{Time: at, Client: client, Method: "GET", URL: "http://example.com/", Status: 403, Type: "text/html", Policy: "pupils", BytesOut: 900, RareValues: event.RareValues{Length: 2310},
				Action: filter.Block, Rule: "words", Score: 120, Category: "phrase", Evidence: "казино (w.list:12) 80"},
			"2026.01.02 10:20:30 - 10.1.2.3 http://example.com/ *DENIED* words: казино (w.list:12) 80 GET 2310 120 phrase 1 403 text/html 10.1.2.3 pupils - - - - -\n",
		},
		"warned": {
			event.Row{Time: at, Method: "GET", URL: "http://example.com/", Status: 403, Action: filter.Warn, Rule: "games"},
			"2026.01.02 10:20:30 - - http://example.com/ *WARNING* games GET 0 0 - 1 403 - - - - - - - -\n",
		},
		"allowed tunnel": {
			event.Row{Time: at, Proto: filter.TLS, Host: "bank.example", Port: 443, Method: "CONNECT", Status: 200, Action: filter.Allow, Rule: "banks", Category: "bank"},
			"2026.01.02 10:20:30 - - https://bank.example *EXCEPTION* banks CONNECT 0 0 bank 1 200 - - - - - - - -\n",
		},
		"redirected": {
			event.Row{Time: at, Proto: filter.TLS, Host: "::1", Port: 8443, Action: filter.Redirect},
			"2026.01.02 10:20:30 - - https://[::1]:8443 *URLMOD* - - 0 0 - 1 0 - - - - - - - -\n",
		},
		"a page that names the marker": {
			event.Row{Time: at, Method: "GET", URL: "http://a/ *DENIED* ", Action: filter.Allow, Rule: "r", Evidence: "x *DENIED* y\nz"},
			"2026.01.02 10:20:30 - - http://a/%20%2ADENIED%2A%20 *EXCEPTION* r: x %2ADENIED%2A y%0Az GET 0 0 - 1 0 - - - - - - - -\n",
		},
	} {
		if got := string(AppendLine(nil, &c.row)); got != c.want {
			t.Errorf("line of %s:\ngot %swant %s", name, got, c.want)
		}
	}
}

// format1 takes a line apart as log readers do.
var format1 = regexp.MustCompile(`^\d+\.\d\d\.\d\d \d\d:\d\d:\d\d [^ ]+ [^ ]+ [^ ]*//[^ ]* (?:-|\*(DENIED|WARNING|EXCEPTION|URLMOD)\* .*) [^ ]+ -?\d+ -?\d+ [^ ]+ 1 \d+ [^ ]+ [^ ]+ [^ ]+ - - - - -\n$`)

func TestHostileLinesHaveTheirFields(t *testing.T) {
	for _, r := range eventtest.HostileRows(time.Unix(1767225600, 0)) {
		line := string(AppendLine(nil, &r))
		if !format1.MatchString(line) || strings.Count(line, "*DENIED*") > 1 {
			t.Errorf("%q is not in format 1", line)
		}
	}
}

func FuzzAppendLine(f *testing.F) {
	f.Add("GET", "http://a/", "a", "anna", "rule", "evidence", "adult", uint8(0), uint8(3), int64(0))
	f.Add("G\nT", "//a/ b\r\n", "a b", "a\x00", "\u2028", "\xff * \x85", " ", uint8(1), uint8(2), int64(-5))
	f.Fuzz(func(t *testing.T, method, url, host, user, rule, evidence, category string, proto, action uint8, size int64) {
		if url != "" && !strings.Contains(url, "//") {
			url = "http://" + url
		}
		r := event.Row{Time: time.Unix(1767225600, 0), Method: method, URL: url, Host: host, User: user, Rule: rule, Policy: rule,
			Evidence: evidence, Category: category, Proto: filter.Proto(proto % 3), Action: filter.Action(action % 5), BytesOut: size}
		line := string(AppendLine(nil, &r))
		if !format1.MatchString(line) {
			t.Fatalf("%q is not in format 1", line)
		}
		if n := strings.Count(line, " *DENIED* "); n > 1 || n == 1 && r.Action != filter.Block {
			t.Fatalf("the line %q has a forged marker", line)
		}
	})
}
