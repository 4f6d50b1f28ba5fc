package syslog

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"shuultuur/event"
	"shuultuur/filter"
	"shuultuur/lib/setting"
	"shuultuur/test/cert"
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
		"ecs":     {appendECS, []string{`"event.id":"abc"`, `"http.response.status_code":403`, `"event.category":["network","web"]`, `"event.type":["denied"]`}},
	} {
		got := string(c.format(s.header(nil, &row), &row))
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %s\nlacks %s", name, got, want)
			}
		}
		if strings.ContainsAny(got, "\n\r") {
			t.Errorf("%s: the message has two lines: %q", name, got)
		}
	}
	if got := string(appendCEF(nil, &event.Row{Policy: "pupils"})); !strings.Contains(got, " cs1Label=policy cs1=pupils") || strings.Contains(got, "cs2Label") || strings.Contains(got, "cn1Label") {
		t.Errorf("CEF has labels without values: %s", got)
	}
	if got := string(appendECS(nil, &event.Row{Proto: filter.DNS})); !strings.Contains(got, `"event.category":["network"],"event.type":["allowed"]`) {
		t.Errorf("a name is of another category: %s", got)
	}
	var v map[string]any
	if err := json.Unmarshal(appendECS(nil, &row)[2:], &v); err != nil {
		t.Error(err)
	}
}

// TestFramingOfStreams: a message in a stream ends by its length, or by a line feed.
func TestFramingOfStreams(t *testing.T) {
	for _, format := range []string{"rfc5424", "cef", "ecs"} {
		for _, framing := range []string{"", "octets", "lines"} {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			got := make(chan string, 1)
			go func() {
				c, err := l.Accept()
				if err != nil {
					return
				}
				b, _ := io.ReadAll(c)
				got <- string(b)
			}()
			s, err := Open(Config{To: "tcp://" + l.Addr().String(), Format: format, Framing: framing})
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Write(t.Context(), []event.Row{row, row}); err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			l.Close()
			all, want := <-got, 2
			for want > 0 && all != "" {
				if framing == "lines" {
					line, rest, _ := strings.Cut(all, "\n")
					all = rest
					if !strings.HasPrefix(line, "<108>1 ") {
						t.Errorf("%s: the line %q is no message", format, line)
					}
				} else {
					digits, rest, _ := strings.Cut(all, " ")
					n, err := strconv.Atoi(digits)
					if err != nil || n > len(rest) || !strings.HasPrefix(rest, "<108>1 ") {
						t.Fatalf("%s: %q is no length before %q", format, digits, rest)
					}
					all = rest[n:]
				}
				want--
			}
			if want != 0 || all != "" {
				t.Errorf("%s, framing %q: %d messages are missing, %q is left", format, framing, want, all)
			}
		}
	}
	for _, wrong := range []Config{{To: "tcp://h", Framing: "lf"}, {To: "udp://h", Framing: "lines"}} {
		if _, err := Open(wrong); err == nil {
			t.Errorf("%+v is taken", wrong)
		}
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
	t.Cleanup(func() { _ = server.Process.Kill() }) // an interrupt does not end it
	for _, network := range []string{"tcp", "udp"} {
		s, err := Open(Config{To: network + "://127.0.0.1:" + port, Format: "cef"})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		r := row
		r.ID = network + "-event"
		for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
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
			t.Errorf("the message has control characters: %q", got)
		}
	})
}

// TestUnreadBatchesAreSentAgain: a server hangs, receives several batches that it never
// reads, and is killed.
func TestUnreadBatchesAreSentAgain(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s, err := Open(Config{To: "tcp://" + l.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	send := func(id string) {
		t.Helper()
		r := row
		r.ID = id
		if err := s.Write(t.Context(), []event.Row{r}); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 4 {
		send(fmt.Sprintf("hangs-%d", n))
	}
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	_ = c.(*net.TCPConn).SetLinger(0) // the process is killed and leaves received bytes unread
	c.Close()
	for end := time.Now().Add(time.Minute); !isClosed(s.conn); {
		if time.Now().After(end) {
			t.Fatal("the store does not notice that the connection ended")
		}
	}
	send("after")
	if c, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	var got []byte
	for !strings.Contains(string(got), `id="after"`) {
		b := make([]byte, 4096)
		n, err := c.Read(b)
		if got = append(got, b[:n]...); err != nil {
			t.Fatalf("reading from the new connection: %v after %q", err, got)
		}
	}
	for n := range 4 {
		if id := fmt.Sprintf("hangs-%d", n); strings.Count(string(got), id) != 1 {
			t.Errorf("the event %s arrived %d times, want once", id, strings.Count(string(got), id))
		}
	}
	// The server has read the events sent long ago; otherwise the connection would have ended
	// sooner.
	for i := range s.sent {
		s.sent[i].at = time.Now().Add(-time.Hour)
	}
	send("late")
	if len(s.sent) != 1 {
		t.Errorf("%d batches are kept for sending again, want 1", len(s.sent))
	}
}

func TestEventsGoOverTLS(t *testing.T) {
	certificate, key := cert.Files(t, t.TempDir(), "127.0.0.1")
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	came := make(chan string, 1)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			b := make([]byte, 4096)
			if n, _ := c.Read(b); n > 0 { // a client that does not trust the certificate sends nothing
				came <- string(b[:n])
			}
			c.Close()
		}
	}()
	stranger, err := Open(Config{To: "tls://" + l.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	if err := stranger.Write(t.Context(), []event.Row{row}); err == nil || !strings.Contains(err.Error(), "TLS: ") {
		t.Errorf("writing to a server with an unknown certificate: %v, want a TLS error", err)
	}
	s, err := Open(Config{To: "tls://" + l.Addr().String(), CA: setting.File(certificate), Format: "ecs"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Write(t.Context(), []event.Row{row}); err != nil {
		t.Fatal(err)
	}
	if got := <-came; !strings.Contains(got, `"event.id":"abc"`) {
		t.Errorf("the server got %q, want the event abc", got)
	}
}

// TestLongEventsStayWhole: log servers truncate or split messages longer than 8
// KiB.
func TestLongEventsStayWhole(t *testing.T) {
	r := row
	r.URL, r.Evidence, r.Note = "http://x/?"+strings.Repeat("=\x01é", 1024), strings.Repeat("e]", 2048), strings.Repeat(`"`, 1024)
	for _, format := range []string{"rfc5424", "cef", "ecs"} {
		s, err := Open(Config{To: "udp://127.0.0.1:9", Format: format})
		if err != nil {
			t.Fatal(err)
		}
		got := s.message(nil, &r)
		if len(got) > maxMessage || len(got) < maxMessage/4 || !utf8.Valid(got) || !strings.Contains(string(got), "…") || !strings.Contains(string(got), "http://x/?") {
			t.Errorf("%s: a long event became %d bytes: %.200q", format, len(got), got)
		}
		_, text, _ := strings.Cut(string(got), " event - ")
		if format == "ecs" && !json.Valid([]byte(text)) {
			t.Errorf("a long event in ECS is no JSON: %q", got)
		}
	}
}
