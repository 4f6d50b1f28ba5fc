package load

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/binary"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"crypto/tls"
)

// nameServer answers by the first label of a name: nx, fail, cut (TC), mute
// (no answer), twice, other (to another question), bare (no question), and
// anything else with no error and no records.
func nameServer(q []byte) [][]byte {
	a, ok := readAnswer(append([]byte{q[0], q[1], q[2] | 0x80}, q[3:]...))
	if !ok || a.question == nil {
		return nil
	}
	r := bytes.Clone(q)
	r[2] |= 0x80
	switch label := string(a.question[1 : 1+a.question[0]]); label {
	case "nx":
		r[3] = 3
	case "fail":
		r[3] = 2
	case "cut":
		r[2] |= 2
	case "mute":
		return nil
	case "twice":
		return [][]byte{r, r}
	case "other":
		r[dnsHeader+1] = 'x'
	case "bare":
		r[3], r[5] = 1, 0
		return [][]byte{r[:dnsHeader]}
	}
	return [][]byte{r}
}

func udpServer(t *testing.T) string {
	t.Helper()
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 512)
		for {
			n, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			for _, r := range nameServer(buf[:n]) {
				_, _ = c.WriteTo(r, from)
			}
		}
	}()
	t.Cleanup(func() { c.Close(); <-done })
	return c.LocalAddr().String()
}

// serveStream answers on l; each connection is closed after so many queries,
// 0 means never. conns counts connections.
func serveStream(t *testing.T, l net.Listener, after int, conns *atomic.Int64) string {
	t.Helper()
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns.Add(1)
			all.Go(func() {
				defer c.Close()
				for n := 0; after == 0 || n < after; n++ {
					var size [2]byte
					if _, err := io.ReadFull(c, size[:]); err != nil {
						return
					}
					q := make([]byte, binary.BigEndian.Uint16(size[:]))
					if _, err := io.ReadFull(c, q); err != nil {
						return
					}
					for _, r := range nameServer(q) {
						_, _ = c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(r))), r...))
					}
				}
			})
		}
	})
	t.Cleanup(func() { l.Close(); all.Wait() })
	return l.Addr().String()
}

// secure starts a DNS over HTTPS server on 127.0.0.1 and returns it with the authority of its
// certificate.
func secure(t *testing.T) (*httptest.Server, *x509.CertPool) {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q, err := io.ReadAll(io.LimitReader(r.Body, 512))
		if err != nil || r.Method != "POST" || r.Header.Get("Content-Type") != "application/dns-message" || r.ProtoMajor != 2 || len(q) < dnsHeader || q[0] != 0 || q[1] != 0 {
			http.Error(w, "not a query", http.StatusBadRequest)
			return
		}
		all := nameServer(q)
		if len(all) == 0 {
			http.Error(w, "no answer", http.StatusBadGateway)
			return
		}
		w.Header().Set("Content-Type", "application/dns-message")
		_, _ = w.Write(all[0])
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return s, roots
}

func queries(t *testing.T, labels ...string) *Queries {
	t.Helper()
	q := &Queries{}
	for _, l := range labels {
		if err := q.Add(l+".example.com", "A"); err != nil {
			t.Fatal(err)
		}
	}
	return q
}

func runDNS(t *testing.T, ctx context.Context, cfg DNSConfig) *DNSReport {
	t.Helper()
	g, err := NewDNS(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r, err := g.Run(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if r.Sent != r.Completed+r.Lost+r.Unfinished {
		t.Errorf("%d queries were sent, but %d completed, %d lost and %d unfinished", r.Sent, r.Completed, r.Lost, r.Unfinished)
	}
	return r
}

func TestEveryTransportCountsTheSame(t *testing.T) {
	https, roots := secure(t)
	var conns atomic.Int64
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	udp := udpServer(t)
	servers := []string{
		udp, "udp://" + udp,
		"tcp://" + serveStream(t, listen(), 0, &conns),
		"tls://" + serveStream(t, tls.NewListener(listen(), &tls.Config{Certificates: https.TLS.Certificates, NextProtos: []string{"dot"}}), 0, &conns),
		https.URL + "/dns-query",
	}
	for _, server := range servers {
		for _, load := range []DNSConfig{{Window: 10}, {Window: 3, Sockets: 1}, {Rate: 5000}} {
			// At a rate all queries may be in flight at once: they fit into the receive buffer
			// of a socket, and the timeout leaves time to answer them.
			load.Server, load.Roots, load.Count, load.Sockets = server, roots, 240, max(load.Sockets, 2)
			load.Timeout = time.Minute
			load.Queries = queries(t, "a", "nx", "b", "fail", "cut", "bare")
			r := runDNS(t, t.Context(), load)
			want := map[string]int64{"NOERROR": 120, "NXDOMAIN": 40, "SERVFAIL": 40, "FORMERR": 40}
			if r.Completed != 240 || fmt.Sprint(r.Rcodes) != fmt.Sprint(want) || r.Truncated != 40 || len(r.Errors) > 0 || r.Unsent != 0 {
				t.Errorf("%s, window %d, rate %g: the report is %+v", server, load.Window, load.Rate, r)
			}
			if r.Total.Count != 240 || load.Rate > 0 && r.Intended.Count != 240 {
				t.Errorf("%s: %d latencies from sending and %d from the intended time, want 240", server, r.Total.Count, r.Intended.Count)
			}
		}
	}
}

func TestAnswersThatAreNotOursAreNotCompleted(t *testing.T) {
	t.Parallel() // it waits for the time-out, once: a window is lost
	r := runDNS(t, t.Context(), DNSConfig{Server: udpServer(t), Window: 200, Count: 400, Timeout: 2 * time.Second,
		Queries: queries(t, "a", "mute", "twice", "other")})
	if r.Completed != 200 || r.Lost != 200 || r.Unexpected != 200 {
		t.Errorf("got %d completed, %d lost, %d unexpected; want 200 of each", r.Completed, r.Lost, r.Unexpected)
	}
}

func TestRandomNamesAreAllDifferentAndRepeatable(t *testing.T) {
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 512)
		for {
			n, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			seen[string(buf[dnsHeader:n])]++
			buf[2] |= 0x80
			_, _ = c.WriteTo(buf[:n], from)
		}
	}()
	for range 2 {
		q, err := RandomQueries("example.com.", "AAAA")
		if err != nil {
			t.Fatal(err)
		}
		r := runDNS(t, t.Context(), DNSConfig{Server: c.LocalAddr().String(), Window: 8, Count: 300, Seed: 7, Queries: q, Random: true})
		if r.Completed != 300 {
			t.Errorf("%d queries completed, want 300", r.Completed)
		}
	}
	c.Close()
	<-done
	if len(seen) != 300 {
		t.Errorf("the server saw %d different names, want 300", len(seen))
	}
	for name, n := range seen {
		if n != 2 || !strings.HasSuffix(name, "\x07example\x03com\x00\x00\x1c\x00\x01") {
			t.Errorf("the server saw %q %d times, want names under example.com twice", name, n)
		}
	}
}

func TestARateIsKept(t *testing.T) {
	r := runDNS(t, t.Context(), DNSConfig{Server: udpServer(t), Rate: 500, Duration: time.Second, Queries: queries(t, "a")})
	if r.Sent+r.Unsent != 500 || r.Sent < 100 {
		t.Errorf("got %d sent, %d due and unsent; want 500 in all", r.Sent, r.Unsent)
	}
	if len(r.Series) == 0 {
		t.Error("the report has no series")
	}
}

func TestAConnectionThatClosesIsOpenedAnew(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var conns atomic.Int64
	server := "tcp://" + serveStream(t, l, 50, &conns)
	r := runDNS(t, t.Context(), DNSConfig{Server: server, Window: 4, Sockets: 1, Count: 120, Queries: queries(t, "a")})
	if r.Reconnects < 2 || r.Reconnects != conns.Load()-1 && r.Reconnects != conns.Load() {
		t.Errorf("the report has %d reconnects, the server saw %d connections", r.Reconnects, conns.Load())
	}
	if r.Completed < 100 || len(r.Errors) == 0 {
		t.Errorf("got %d completed of 120, errors %v; want most of them and the reason", r.Completed, r.Errors)
	}
}

func TestAnInterruptedRunIsReported(t *testing.T) {
	mute, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for range 5 {
			if _, _, err := mute.ReadFrom(make([]byte, 512)); err != nil {
				return
			}
		}
		cancel()
	}()
	r := runDNS(t, ctx, DNSConfig{Server: mute.LocalAddr().String(), Window: 5, Duration: time.Hour, Queries: queries(t, "mute")})
	if r.Unfinished != 5 || r.Sent != 5 {
		t.Errorf("got %d sent, %d unfinished; want 5 of both", r.Sent, r.Unfinished)
	}
}

func TestANameServerThatIsAwayIsAnError(t *testing.T) {
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := c.LocalAddr().String()
	c.Close()
	for _, cfg := range []DNSConfig{{Window: 5}, {Rate: 500}} {
		cfg.Server, cfg.Queries, cfg.Duration, cfg.Timeout = server, queries(t, "a"), 100*time.Millisecond, 50*time.Millisecond
		r := runDNS(t, t.Context(), cfg)
		if r.Completed != 0 || r.Errors["refused"] == 0 {
			t.Errorf("with nothing at the address the report is %+v, want refused queries", r)
		}
	}
}

func TestDNSConfigIsChecked(t *testing.T) {
	good := func() DNSConfig {
		return DNSConfig{Server: "127.0.0.1", Queries: queries(t, "a"), Window: 10, Duration: time.Second}
	}
	for _, c := range []struct {
		change func(*DNSConfig)
		want   string
	}{
		{func(c *DNSConfig) { c.Server = "192.0.2.1" }, "-allow 192.0.2.1"},
		{func(c *DNSConfig) { c.Server = "https://192.0.2.1/dns-query" }, "-allow 192.0.2.1"},
		{func(c *DNSConfig) { c.Server = "quic://127.0.0.1" }, "not one of udp, tcp, tls, https"},
		{func(c *DNSConfig) { c.Server = "https://127.0.0.1:x y/" }, "is not a URL"},
		{func(c *DNSConfig) { c.Queries = nil }, "no queries"},
		{func(c *DNSConfig) { c.Window = 0 }, "window and rate"},
		{func(c *DNSConfig) { c.Rate = 5 }, "window and rate"},
		{func(c *DNSConfig) { c.Window, c.Rate = 0, 1e9 }, "rate between"},
		{func(c *DNSConfig) { c.Duration = 0 }, "a run must end"},
		{func(c *DNSConfig) { c.Count = -1 }, "count must"},
		{func(c *DNSConfig) { c.Sockets = 1000 }, "sockets must"},
		{func(c *DNSConfig) { c.Sockets = 11 }, "not enough for 11"},
		{func(c *DNSConfig) { c.Window, c.Sockets = 1<<17, 1 }, "more than 1 sockets"},
		{func(c *DNSConfig) { c.Timeout = -1 }, "seconds must"},
	} {
		cfg := good()
		c.change(&cfg)
		if _, err := NewDNS(cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("NewDNS returned %v, want an error with %q", err, c.want)
		}
	}
	allowed := good()
	allowed.Server, allowed.Allow = "tls://192.0.2.1", []string{"192.0.2.1"}
	if g, err := NewDNS(allowed); err != nil || g.addr != "192.0.2.1:853" {
		t.Errorf("NewDNS for an allowed host returned %+v, %v", g, err)
	}
}

// An echoLink is a link on which every query has its answer at once.
type echoLink struct {
	answers [][]byte
	most    int // most answers that were unread when a query was sent
}

func (e *echoLink) send(queries [][]byte) (int, error) {
	e.most = max(e.most, len(e.answers))
	for _, q := range queries {
		a := bytes.Clone(q)
		a[2] |= 0x80
		e.answers = append(e.answers, a)
	}
	return len(queries), nil
}

func (e *echoLink) receive(wait bool) ([][]byte, error) {
	if wait && len(e.answers) == 0 {
		return nil, os.ErrDeadlineExceeded
	}
	n := min(burst, len(e.answers))
	got := e.answers[:n]
	e.answers = e.answers[n:]
	return got, nil
}

func (*echoLink) deadline(time.Time) error { return nil }
func (*echoLink) close()                   {}

func TestAnswersAreReadBeforeMoreIsSent(t *testing.T) {
	g, err := NewDNS(DNSConfig{Server: "127.0.0.1", Queries: queries(t, "a", "b"), Window: 5000, Sockets: 1, Count: 20_000})
	if err != nil {
		t.Fatal(err)
	}
	g.start = time.Now()
	f, l := newFlow(g, 0), &echoLink{}
	f.link = l
	f.run(t.Context(), t.Context())
	if f.counts.completed != 20_000 || f.counts.sent != 20_000 {
		t.Errorf("%d queries were sent and %d answered, want 20000", f.counts.sent, f.counts.completed)
	}
	if l.most > 0 {
		t.Errorf("%d answers were unread when more queries were sent", l.most)
	}
}

func TestPortableDatagrams(t *testing.T) {
	c, err := net.Dial("udp", udpServer(t))
	if err != nil {
		t.Fatal(err)
	}
	d := newDatagrams(c)
	defer d.close()
	q := queries(t, "a", "nx")
	if n, err := d.send([][]byte{q.at(0), q.at(1)}); n != 2 || err != nil {
		t.Fatalf("sending two queries returned %d, %v", n, err)
	}
	if err := d.deadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []byte{0, 3} {
		got, err := d.receive(true)
		if err != nil || len(got) != 1 || got[0][3] != want {
			t.Errorf("receive returned %q, %v; want an answer with code %d", got, err, want)
		}
	}
}

func TestReadQueries(t *testing.T) {
	q, err := ReadQueries(strings.NewReader("; comment\nexample.com A\n\n# more\nwww.example.com type65\n"), "q.txt")
	if err != nil || q.Len() != 2 {
		t.Fatalf("ReadQueries returned %v, %v; want two queries", q, err)
	}
	if want := "\x00\x00\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x03www\x07example\x03com\x00\x00\x41\x00\x01"; string(q.at(1)) != want {
		t.Errorf("the second query is %q, want %q", q.at(1), want)
	}
	for in, want := range map[string]string{
		"a A\nexample.com": `q.txt:2: "example.com" must be a name and a type`,
		"a..b A":           `q.txt:1: "a..b" is not a domain name`,
		"a NONE":           `q.txt:1: "NONE" is not a type`,
		"a TYPE70000":      `q.txt:1: "TYPE70000" is not a type`,
		"\n;\n":            "q.txt: no queries",
	} {
		if _, err := ReadQueries(strings.NewReader(in), "q.txt"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ReadQueries(%q) returned %v, want an error with %q", in, err, want)
		}
	}
}

func FuzzReadQueries(f *testing.F) {
	f.Add("example.com A\n")
	f.Add(`a\.b\001. TYPE65` + "\n; x\n")
	f.Add(". NS")
	f.Fuzz(func(t *testing.T, in string) {
		q, err := ReadQueries(strings.NewReader(in), "q")
		if err != nil {
			return
		}
		for i := range q.Len() {
			b := bytes.Clone(q.at(i))
			b[2] |= 0x80
			if a, ok := readAnswer(b); !ok || !bytes.Equal(a.question, b[dnsHeader:]) {
				t.Errorf("%q: query %d is %q, and readAnswer returned %+v, %v", in, i, b, a, ok)
			}
		}
	})
}

func FuzzReadAnswer(f *testing.F) {
	f.Add([]byte("\x12\x34\x81\x83\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x00\x00\x01\x00\x01"))
	f.Add([]byte("\x12\x34\x81\x81\x00\x00\x00\x00\x00\x00\x00\x00"))
	f.Add([]byte("\x12\x34\x81\x83\x00\x01\x00\x00\x00\x00\x00\x00\xc0\x0c\x00\x01\x00\x01"))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, ok := readAnswer(b)
		if ok && (int(a.id) != int(b[0])<<8|int(b[1]) || a.rcode > 15 || len(a.question) > maxQuestion) {
			t.Errorf("readAnswer(%q) returned impossible values: %+v", b, a)
		}
	})
}

func fixedDNS() *DNSReport {
	h := fixed()
	return &DNSReport{
		Started: h.Started, Server: "tls://127.0.0.1:853", Mode: "rate", Load: 500, Sockets: 4, Seconds: 3.00013, CPUSeconds: 0.25,
		Sent: 1500, Completed: 1485, Lost: 12, Unfinished: 3, Unsent: 4, Unexpected: 2, Truncated: 1, Reconnects: 1,
		BytesSent: 49500, BytesReceived: 121770, Rcodes: map[string]int64{"NOERROR": 1400, "SERVFAIL": 80, "NXDOMAIN": 5},
		Errors: map[string]int64{"reset": 1}, Examples: map[string]string{"reset": "read tcp: connection reset by peer"},
		Total: h.Total, Intended: h.Intended, Series: h.Series,
	}
}

func TestDNSReportFormats(t *testing.T) {
	r := fixedDNS()
	golden(t, "dns.txt", r.Text)
	golden(t, "dns.json", r.JSON)
	golden(t, "dns.html", r.HTML)
	if err := (&DNSReport{}).HTML(io.Discard); err != nil {
		t.Errorf("writing an empty report as HTML: %v", err)
	}
}

func TestMainDNS(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "q.txt")
	if err := os.WriteFile(file, []byte("a.example.com A\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	https, _ := secure(t)
	ca := filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: https.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	udp := udpServer(t)
	for _, c := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"-count", "20", udp, file}, 0, "completed              20  100.00 %"},
		{[]string{"-count", "20", "-random", "example.com", "-json", "-", udp}, 0, `"completed": 20`},
		{[]string{"-count", "20", "-ca", ca, "-html", filepath.Join(dir, "r.html"), https.URL, file}, 0, "NOERROR"},
		{[]string{udp}, 1, "no queries"},
		{[]string{"-random", "example.com", udp, file}, 1, "either"},
		{[]string{"-random", ".", udp}, 1, "zone"},
		{[]string{"-seconds", "-1", udp, file}, 1, "seconds"},
		{[]string{"-window", "9", "-rate", "9", udp, file}, 1, "one of window and rate"},
		{[]string{udp, filepath.Join(dir, "no.txt")}, 1, "no.txt"},
		{[]string{"-ca", file, udp, file}, 1, "no PEM certificate"},
		{[]string{"198.51.100.7", file}, 1, "-allow 198.51.100.7"},
	} {
		var out bytes.Buffer
		if got := Main(append([]string{"dns"}, c.args...), &out, &out); got != c.status || !strings.Contains(out.String(), c.want) {
			t.Errorf("load dns %q exited with %d and printed %s; want %d and %q", c.args, got, out.String(), c.status, c.want)
		}
	}
	if page, err := os.ReadFile(filepath.Join(dir, "r.html")); err != nil || !bytes.Contains(page, []byte("<polyline")) {
		t.Errorf("the HTML report has no plots (%v)", err)
	}
}

// TestAServerThatFallsSilent: the rate is that over the run, not over the moment
// until the server fell silent, and the report gives the reason for a full
// window.
func TestAServerThatFallsSilent(t *testing.T) {
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var server sync.WaitGroup
	server.Go(func() {
		buf := make([]byte, 512)
		for n := 0; ; n++ {
			size, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			if n >= 200 {
				continue
			}
			for _, r := range nameServer(buf[:size]) {
				_, _ = c.WriteTo(r, from)
			}
		}
	})
	defer server.Wait()
	defer c.Close()
	r := runDNS(t, t.Context(), DNSConfig{Server: c.LocalAddr().String(), Queries: queries(t, "www"), Window: 10, Duration: time.Second, Timeout: 400 * time.Millisecond})
	if r.Completed != 200 || r.Lost == 0 || r.Seconds < 1 || r.Seconds > 1.4 {
		t.Errorf("%d queries completed and %d were lost in %v seconds; want 200, some, and 1 to 1.4", r.Completed, r.Lost, r.Seconds)
	}
	if r.WindowLost < 0.5 || r.WindowLost > 1 {
		t.Errorf("lost queries occupied %v of the window, want 0.5 to 1", r.WindowLost)
	}
	var text strings.Builder
	if err := r.Text(&text); err != nil || !strings.Contains(text.String(), "full of lost queries") {
		t.Errorf("the report does not give the reason for a full window: %s", text.String())
	}
	r = runDNS(t, t.Context(), DNSConfig{Server: udpServer(t), Queries: queries(t, "www"), Window: 10, Count: 500})
	if r.WindowLost != 0 {
		t.Errorf("lost queries occupied %v of the window, want none", r.WindowLost)
	}
}
