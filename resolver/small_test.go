package resolver

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	miekg "github.com/miekg/dns"

	"shuultuur/filter"
	"shuultuur/lib/dns"
	"shuultuur/lib/setting"
)

func TestDamagedLinesOfAHostsFileAreSkipped(t *testing.T) {
	file := filepath.Join(t.TempDir(), "hosts")
	long := "10.0.0.9 " + strings.Repeat("x", maxHostsLine)
	text := "10.0.0.1 good.lan # comment\n\nnonsense bad.lan\n10.0.0.2 a..b other.lan\n10.0.0.300 x.lan\n" + long + "\n10.0.0.3 .\n10.0.0.4\n10.0.0.5 last.lan"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	x := newRig(t, Config{HostsFiles: setting.OneOrMore[setting.File]{setting.File(file)}}, Parts{}, &judge{}, nil)
	for name, want := range map[string]string{"good.lan": "NOERROR, A 10.0.0.1", "other.lan": "NOERROR, A 10.0.0.2", "last.lan": "NOERROR, A 10.0.0.5", "bad.lan": "NOERROR, +SOA"} {
		if m, _, _ := x.ask(name, miekg.TypeA); summary(m) != want {
			t.Errorf("%s: got %s, want %s", name, summary(m), want)
		}
	}
	got := strings.Join(x.r.Problems(), "\n")
	for _, want := range []string{":3: \"nonsense\" is not an address", ":4: ", ":5: ", ":6: it has more than", ":7: "} {
		if !strings.Contains(got, file+want) {
			t.Errorf("got problems\n%s\nwant one with %q", got, want)
		}
	}
	if n := len(x.r.Problems()); n != 5 {
		t.Errorf("%d problems, want 5", n)
	}
}

// TestOthersAreNotAskedForAClientThatDoesNotWantIt asks without RD.
func TestOthersAreNotAskedForAClientThatDoesNotWantIt(t *testing.T) {
	x := newRig(t, Config{Hosts: map[string]setting.OneOrMore[string]{"nas.lan": {"10.0.0.2"}}}, Parts{}, &judge{}, map[string][]string{"good.com. A": {"good.com. 300 IN A 198.51.100.1"}})
	without := func(name string) string {
		q := query(t, name, miekg.TypeA, x.now)
		q.Flags &^= 1 << 8
		a := &reply{}
		a.Start(q, make([]byte, 0, 1232), 1200)
		if out := x.r.Answer(q, &a.Reply, &a.T); out != dns.Answered {
			t.Fatalf("%s: outcome %d, want it answered at once", name, out)
		}
		m := new(miekg.Msg)
		if err := m.Unpack(a.Finish(&dns.Options{Size: 1232, Max: 1232})); err != nil {
			t.Fatal(err)
		}
		return summary(m)
	}
	if got := without("good.com"); got != "REFUSED, EDE 20" {
		t.Errorf("a name that is not in memory: got %s", got)
	}
	if n := x.net.count("good.com. A"); n != 0 {
		t.Errorf("upstreams were asked %d times", n)
	}
	x.ask("good.com", miekg.TypeA)
	if got := without("good.com"); got != "NOERROR, A 198.51.100.1" {
		t.Errorf("a name in memory: got %s", got)
	}
	if got := without("nas.lan"); got != "NOERROR, A 10.0.0.2" {
		t.Errorf("a host: got %s", got)
	}
}

func TestTargetsOfServicesAreJudged(t *testing.T) {
	j := &judge{verdicts: map[string]filter.Verdict{"tracker.net": block(filter.NXDomain)}}
	x := newRig(t, Config{}, Parts{}, j, map[string][]string{
		"good.com. HTTPS":  {"good.com. 300 IN HTTPS 1 . alpn=h2"},
		"other.com. HTTPS": {"other.com. 300 IN HTTPS 1 cdn.example. alpn=h2 ipv4hint=198.51.100.1"},
		"bad.com. HTTPS":   {"bad.com. 300 IN HTTPS 1 x.tracker.net. alpn=h2 ipv4hint=198.51.100.1"},
		"alias.com. HTTPS": {"alias.com. 300 IN HTTPS 0 x.tracker.net."},
		"svc.com. SVCB":    {"svc.com. 300 IN SVCB 1 x.tracker.net. port=853"},
	})
	for _, c := range []struct {
		name    string
		typ     uint16
		refused bool
	}{{"good.com", miekg.TypeHTTPS, false}, {"other.com", miekg.TypeHTTPS, false}, {"bad.com", miekg.TypeHTTPS, true}, {"alias.com", miekg.TypeHTTPS, true}, {"svc.com", miekg.TypeSVCB, true}} {
		for range 2 {
			if m, _, _ := x.ask(c.name, c.typ); (len(m.Answer) == 0) != c.refused {
				t.Errorf("%s: got %s, want it refused: %v", c.name, summary(m), c.refused)
			}
		}
	}
}

func TestAnAliasToAHostWithoutTheTypeSaysSo(t *testing.T) {
	x := newRig(t, Config{Hosts: map[string]setting.OneOrMore[string]{"nas.lan": {"10.0.0.2"}, "www.lan": {"nas.lan"}}}, Parts{}, &judge{}, nil)
	m, _, _ := x.ask("www.lan", miekg.TypeAAAA)
	if got := summary(m); got != "NOERROR, CNAME nas.lan., +SOA" || m.Answer[0].Header().Ttl == 0 {
		t.Errorf("got %s with a TTL of %d, want the alias, an SOA record and a TTL", got, m.Answer[0].Header().Ttl)
	}
}

// TestAHostsFileWithoutAGoodLine is refused, so that the names from before stay; one with a good line
// has that.
func TestAHostsFileWithoutAGoodLine(t *testing.T) {
	for _, c := range []struct {
		name, text string
		bad        bool
	}{
		{"empty", "", false},
		{"comments", "# nothing yet\n\n", false},
		{"rubbish", "<html>\nnot an address\n", true},
		{"one long line", strings.Repeat("x", 1<<20), true},
		{"one long line, and its end", strings.Repeat("x", 1<<20) + "x\n", true},
		{"a good line among others", "rubbish\n192.0.2.1 a.example\n", false},
		{"a bad name alone", "192.0.2.1 a..example\n", false},
	} {
		file := filepath.Join(t.TempDir(), "hosts")
		if err := os.WriteFile(file, []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		l := &local{exact: map[string]*host{}}
		if err := l.file(file); (err != nil) != c.bad {
			t.Errorf("%s: got %v, want an error: %v", c.name, err, c.bad)
		}
	}
}
