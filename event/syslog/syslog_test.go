package syslog

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shuultuur/event"
	"shuultuur/filter"
	"shuultuur/test/peer"
)

var row = event.Row{
	Time: time.Date(2026, 3, 4, 5, 6, 7, 8000, time.UTC), ID: "abc", Client: netip.MustParseAddr("192.0.2.7"), User: "bold", Policy: "pupils",
	Rule: `a "b" ] | = \ c`, Method: "GET", URL: "http://bet.example/\nx", Host: "bet.example", Category: "gambling", Status: 403, Port: 80, Action: filter.Block,
}

func TestFormats(t *testing.T) {
	s := &Store{host: "gate"}
	for name, c := range map[string]struct {
		format func([]byte, *event.Row) []byte
		want   []string
	}{
		"rfc5424": {appendStructured, []string{"<108>1 2026-03-04T05:06:07.000008Z gate shuultuur - event [shuultuur@32473 id=\"abc\" action=\"block\"", `rule="a \"b\" \] | = \\ c"`, "] block http://bet.example/ x"}},
		"cef":     {appendCEF, []string{`- CEF:0|Shuultuur|Shuultuur|1|block|block by a "b" ] \| = \\ c|6|rt=1772600767000 externalId=abc act=block src=192.0.2.7`, `cs2=a "b" ] | \= \\ c`}},
		"ecs":     {appendECS, []string{`"event.id":"abc"`, `"http.response.status_code":403`}},
	} {
		got := string(c.format(s.header(nil, &row), &row))
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %s\nhas no %s", name, got, want)
			}
		}
		if strings.ContainsAny(got, "\n\r") {
			t.Errorf("%s: two lines: %q", name, got)
		}
	}
	var v map[string]any
	if err := json.Unmarshal(appendECS(nil, &row)[2:], &v); err != nil {
		t.Error(err)
	}
}

func TestRsyslogGetsEveryEvent(t *testing.T) {
	peer.Program(t, "rsyslogd")
	dir, port := t.TempDir(), peer.Port(t)
	conf, log := filepath.Join(dir, "rsyslog.conf"), filepath.Join(dir, "log")
	if err := os.WriteFile(conf, []byte(fmt.Sprintf(`global(workDirectory=%q)
module(load="imtcp")
module(load="imudp")
input(type="imtcp" port="%s" address="127.0.0.1")
input(type="imudp" port="%s" address="127.0.0.1")
template(name="raw" type="string" string="%%rawmsg%%\n")
action(type="omfile" file=%q template="raw")
`, dir, port, port, log)), 0o600); err != nil {
		t.Fatal(err)
	}
	server := peer.Start(t, "rsyslogd", "-n", "-f", conf, "-i", filepath.Join(dir, "pid"))
	t.Cleanup(func() { _ = server.Process.Kill() }) // an interrupt is nothing to it
	for _, network := range []string{"tcp", "udp"} {
		s, err := Open(event.Syslog{To: network + "://127.0.0.1:" + port, Format: "cef"})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		r := row
		r.ID = network + "-event"
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
			err := s.Write(context.Background(), []event.Row{r})
			text, _ := os.ReadFile(log)
			if err == nil && strings.Contains(string(text), "externalId="+r.ID) {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("%s: %v; the log has %q", network, err, text)
			}
		}
	}
}

func FuzzEscaped(f *testing.F) {
	f.Add(`a"b]\`)
	f.Fuzz(func(t *testing.T, s string) {
		got := appendStructured(nil, &event.Row{Rule: s, URL: s})
		if strings.ContainsAny(string(got), "\r\n\x00") {
			t.Errorf("%q", got)
		}
	})
}
