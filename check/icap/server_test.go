//go:build !small

package icap

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"shuultuur/content"
	"shuultuur/filter"
	wire "shuultuur/lib/message/icap"
	"shuultuur/lib/setting"
)

// A scanner is a scripted ICAP server.
type scanner struct {
	net.Listener
	options string // fields of OPTIONS
	answer  func(method, head, body string) string
	mu      sync.Mutex
	heads   []string // of messages
	bodies  []string
	open    map[net.Conn]bool
	silent  atomic.Bool // answers nothing
	asked   atomic.Int64
}

// scan starts a scanner at an address, "" for any.
func scan(t testing.TB, at, options string, answer func(method, head, body string) string) *scanner {
	t.Helper()
	if at == "" {
		at = "127.0.0.1:0"
	}
	ln, err := net.Listen("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	s := &scanner{Listener: ln, options: options, answer: answer, open: map[net.Conn]bool{}}
	var work sync.WaitGroup
	work.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.open[c] = true
			s.mu.Unlock()
			work.Go(func() {
				s.serve(c)
				c.Close()
			})
		}
	})
	t.Cleanup(func() { s.kill(); work.Wait() })
	return s
}

func (s *scanner) url() string { return "icap://" + s.Addr().String() + "/scan" }

// kill ends the scanner and its connections.
func (s *scanner) kill() {
	s.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		c.Close()
	}
}

// got returns what the scanner received with the nth message.
func (s *scanner) got(n int) (head, body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n >= len(s.heads) {
		return "", ""
	}
	return s.heads[n], s.bodies[n]
}

func (s *scanner) serve(c net.Conn) {
	r := bufio.NewReaderSize(c, wire.MaxLine)
	for {
		head, n, preview := "", 0, false
		var parts wire.Encapsulated
		for {
			line, err := wire.ReadLine(r)
			if err != nil {
				return
			}
			if len(line) == 0 {
				break
			}
			head += string(line) + "\n"
			if v, ok := strings.CutPrefix(string(line), "Encapsulated: "); ok {
				if parts.Parse(v) != nil {
					return
				}
				n = max(parts.Req, 0) + max(parts.Res, 0)
			}
			preview = preview || strings.HasPrefix(string(line), "Preview: ")
		}
		if s.silent.Load() {
			_, _ = io.Copy(io.Discard, r)
			return
		}
		method, _, _ := strings.Cut(head, " ")
		if method == "OPTIONS" {
			fmt.Fprintf(c, "ICAP/1.0 200 OK\r\nEncapsulated: null-body=0\r\nISTag: \"one\"\r\n%s\r\n", s.options)
			continue
		}
		s.asked.Add(1)
		heads := make([]byte, n)
		if _, err := io.ReadFull(r, heads); err != nil {
			return
		}
		body := ""
		for parts.Body {
			k, ext, err := wire.ReadChunk(r)
			if err != nil {
				return
			}
			if k == 0 {
				if wire.SkipTrailer(r) != nil {
					return
				}
				if preview && string(ext) != "ieof" {
					preview = false
					fmt.Fprint(c, "ICAP/1.0 100 Continue\r\n\r\n")
					continue
				}
				break
			}
			p := make([]byte, k)
			if _, err := io.ReadFull(r, p); err != nil || wire.EndChunk(r) != nil {
				return
			}
			body += string(p)
		}
		s.mu.Lock()
		s.heads, s.bodies = append(s.heads, head+string(heads)), append(s.bodies, body)
		s.mu.Unlock()
		a := s.answer(method, head+string(heads), body)
		if _, err := io.WriteString(c, a); err != nil || a == "" || strings.Contains(a, "Connection: close") {
			return
		}
	}
}

const nothing = "ICAP/1.0 204 No Modifications Needed\r\nISTag: \"one\"\r\nEncapsulated: null-body=0\r\n\r\n"

func clean204(string, string, string) string { return nothing }

// page returns a reply with the scanner's own response.
func page(status int, fields, body string) string {
	head := fmt.Sprintf("HTTP/1.1 %d Text\r\nContent-Type: text/html\r\n\r\n", status)
	return fmt.Sprintf("ICAP/1.0 200 OK\r\n%sEncapsulated: res-hdr=0, res-body=%d\r\n\r\n%s%x\r\n%s\r\n0\r\n\r\n", fields, len(head), head, len(body), body)
}

func TestAnswersBecomeFindings(t *testing.T) {
	req := "POST http://elsewhere.example/ HTTP/1.1\r\n\r\n"
	for name, tt := range map[string]struct {
		stage  filter.Stage
		answer string
		want   []string // category and a part of the evidence
		page   int
	}{
		"clean":             {filter.ResponseBody, nothing, nil, 0},
		"the same back":     {filter.ResponseBody, page(200, "", "a body"), nil, 0},
		"infection":         {filter.ResponseBody, page(403, "X-Infection-Found: Type=0; Resolution=2; Threat=Worm.A;\r\n", "no"), []string{"virus Worm.A, says"}, 403},
		"infection and 204": {filter.ResponseBody, "ICAP/1.0 204 OK\r\nX-Virus-ID: Worm.B\r\nEncapsulated: null-body=0\r\n\r\n", []string{"virus Worm.B, says"}, 0},
		"no virus":          {filter.ResponseBody, "ICAP/1.0 204 OK\r\nX-Virus-ID: no\r\nX-Violations-Found: 0\r\n\r\n", nil, 0},
		"violations": {filter.ResponseBody, page(403, "X-Violations-Found: 2\r\n\tdoc.pdf\r\n\tCard number\r\n\t1\r\n\t0\r\n\t-\r\n\tPassport\r\n\t2\r\n\t0\r\n", "no"),
			[]string{"violation Card number in doc.pdf, says", "violation Passport, says"}, 403},
		"a page":      {filter.ResponseBody, page(302, "", "go"), []string{"blocked its own answer, status 302 instead of 200"}, 302},
		"a change":    {filter.ResponseBody, strings.ReplaceAll(page(200, "", "A body"), " text/html", "text/plain"), []string{"modified a body of 6 bytes would become another of 6"}, 200},
		"a file":      {filter.ResponseBody, page(200, "", "A page"), []string{`blocked its own answer, of type "text/html"`}, 200},
		"an answer":   {filter.RequestBody, page(200, "", "no"), []string{"blocked its own answer, status 200"}, 200},
		"another URL": {filter.RequestBody, fmt.Sprintf("ICAP/1.0 200 OK\r\nEncapsulated: req-hdr=0, req-body=%d\r\n\r\n%s6\r\na body\r\n0\r\n\r\n", len(req), req), []string{"modified the request would go to http://elsewhere.example/"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := scan(t, "", "Methods: REQMOD, RESPMOD\r\n", func(string, string, string) string { return tt.answer })
			for _, own := range []string{"own", "scanner"} {
				c := check(t, Config{Servers: setting.OneOrMore[string]{s.url()}, Page: own})
				got, err := find(t.Context(), c, tt.stage, 1, "a body")
				if err != nil || len(got) != len(tt.want) {
					t.Fatalf("Find returned %+v, %v; want %d findings", got, err, len(tt.want))
				}
				for i, f := range got {
					if !strings.HasPrefix(f.Category+" "+f.Evidence, tt.want[i]) {
						t.Errorf("got the finding %q, want %q", f.Category+" "+f.Evidence, tt.want[i])
					}
					if has := f.Page != nil; has != (own == "scanner" && tt.page > 0) || has && f.Page.Status != tt.page {
						t.Errorf("with page %s, the finding has the page %+v", own, f.Page)
					}
				}
			}
		})
	}
}

func TestRequestsToAScanner(t *testing.T) {
	s := scan(t, "", "Methods: RESPMOD\r\nPreview: 4\r\nX-Include: X-Client-IP, X-Authenticated-User\r\nTransfer-Ignore: png\r\nTransfer-Complete: exe\r\nTransfer-Preview: *\r\n", clean204)
	c := check(t, Config{Servers: setting.OneOrMore[string]{s.url()}, Largest: 1000, Skip: setting.OneOrMore[string]{"image/*"}})
	x := transaction()
	if _, err := findIn(t.Context(), c, x, filter.ResponseBody, 1, "hello world", &content.Head{}); err != nil {
		t.Fatal(err)
	}
	head, _ := s.got(0)
	for _, want := range []string{"RESPMOD icap://", "\nPreview: 4\n", "\nAllow: 204\n", "X-Authenticated-User: TG9jYWw6Ly9hbm5h\n", "GET http://origin.example/file.bin?a=b HTTP/1.1\r\n", "HTTP/1.1 200 OK\r\n"} {
		if !contains(head, want) {
			t.Errorf("the request lacks %q: %q", want, head)
		}
	}
	for _, no := range []string{"c2VjcmV0", "Groups"} {
		if contains(head, no) {
			t.Errorf("the request contains %q: %q", no, head)
		}
	}
	if c.Wants(x, filter.RequestBody) || c.Wants(x, filter.Request) || !c.Wants(x, filter.ResponseBody) {
		t.Error("it wants what no server does")
	}
	for _, typ := range []string{"image/png", "image/webp"} {
		y := transaction()
		y.Response.Set("Content-Type", typ)
		h := y.Content()
		if got, err := findIn(t.Context(), c, y, filter.ResponseBody, 1, "\x89PNG\r\n\x1a\n", h); err != nil || len(got) > 0 || s.asked.Load() != 1 {
			t.Errorf("a picture of the skipped type %s gave %+v, %v, and %d queries", typ, got, err, s.asked.Load())
		}
	}
	x.URL = "http://origin.example/a.png"
	if got, err := findIn(t.Context(), c, x, filter.ResponseBody, 1, "hello world", &content.Head{}); err != nil || len(got) > 0 || s.asked.Load() != 1 {
		t.Errorf("a message that the scanner ignores gave %+v, %v, and %d queries", got, err, s.asked.Load())
	}
	x.URL = "http://origin.example/a.exe"
	_, _ = findIn(t.Context(), c, x, filter.ResponseBody, 1, "hello world", &content.Head{})
	if head, _ := s.got(1); head == "" || contains(head, "Preview:") {
		t.Errorf("a file to be sent whole was sent with a preview: %q", head)
	}
	var h content.Head
	h.Add([]byte("Content-Encoding"), []byte("gzip"))
	x.Response.Add("Content-Encoding", "gzip")
	x.Response.Add("Content-Length", "99")
	_, _ = findIn(t.Context(), c, x, filter.ResponseBody, 3, zipped("hello"+filler(900)), &h)
	if head, body := s.got(2); body != "hello"+filler(900) || contains(head, "gzip") || contains(head, "Content-Length") {
		t.Errorf("a body with a content coding was sent as %.20q with the head %q", body, head)
	}
	for _, pieces := range []int{1, 4} {
		got, err := find(t.Context(), c, filter.ResponseBody, pieces, filler(2000))
		if err != nil || len(got) != 1 || got[0].Category != filter.Unread || !contains(got[0].Evidence, "checks.icap.largest") {
			t.Errorf("a body above the limit in %d pieces gave %+v, %v; want unread", pieces, got, err)
		}
	}
}

func TestAnotherServerTakesOver(t *testing.T) {
	first, second := scan(t, "", "Methods: RESPMOD\r\n", clean204), scan(t, "", "Methods: RESPMOD\r\n", clean204)
	c := check(t, Config{Servers: setting.OneOrMore[string]{first.url(), second.url()}})
	ask := func(what string, a, b int64) {
		t.Helper()
		for _, pieces := range []int{1, 3} {
			if got, err := find(t.Context(), c, filter.ResponseBody, pieces, "some text"); err != nil || len(got) > 0 {
				t.Fatalf("%s: the message gave %+v, %v", what, got, err)
			}
		}
		if first.asked.Load() != a || second.asked.Load() != b {
			t.Fatalf("%s: asked %d and %d times, want %d and %d", what, first.asked.Load(), second.asked.Load(), a, b)
		}
	}
	ask("both there", 2, 0)
	first.kill()
	ask("the first killed", 2, 2)
	again := scan(t, first.Addr().String(), "Methods: RESPMOD\r\n", clean204)
	for end := time.Now().Add(2 * time.Second); c.servers[0].down.Load() != nil; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a server that is back is still left out after 2 s")
		}
	}
	ask("the first back", 2, 2)
	if again.asked.Load() != 2 {
		t.Errorf("the one that is back was asked %d times", again.asked.Load())
	}
	again.kill()
	second.kill()
	start := time.Now()
	for range 20 {
		got, err := find(t.Context(), c, filter.ResponseBody, 1, "some text")
		if err == nil || !contains(err.Error(), "ask icap://") {
			t.Fatalf("with no server the message gave %+v, %v", got, err)
		}
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("20 messages waited %v for servers that are not there", took)
	}
}

// TestAHungServerCostsItsLimit: no message waits longer than the limit, and later ones do not
// wait at all.
func TestAHungServerCostsItsLimit(t *testing.T) {
	s := scan(t, "", "Methods: RESPMOD\r\n", clean204)
	c := check(t, Config{Servers: setting.OneOrMore[string]{s.url()}, Timeout: setting.Duration(200 * time.Millisecond), Connect: setting.Duration(100 * time.Millisecond)})
	if _, err := find(t.Context(), c, filter.ResponseBody, 1, "some text"); err != nil {
		t.Fatal(err)
	}
	s.silent.Store(true)
	for _, pieces := range []int{1, 3} {
		start := time.Now()
		if _, err := find(t.Context(), c, filter.ResponseBody, pieces, "some text"); err == nil {
			t.Fatal("a server that hangs gave no error")
		}
		if took := time.Since(start); took > 3*time.Second {
			t.Errorf("the error of a server that hangs took %v, want at most 3 s", took)
		}
	}
	for end := time.Now().Add(time.Minute); c.servers[0].down.Load() == nil; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a server that hangs is still used after 10 s")
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := find(ctx, c, filter.ResponseBody, 1, "some text"); err == nil {
		t.Error("a client that has gone gave no error")
	}
	s.silent.Store(false)
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if _, err := find(t.Context(), c, filter.ResponseBody, 1, "some text"); err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatal("a server that answers again is still left out")
		}
	}
}

func TestAnErrorStatusIsAnError(t *testing.T) {
	for answer, want := range map[string]string{
		"ICAP/1.0 500 Server Error\r\n\r\n": `the server answers "ICAP/1.0 500 Server Error"`,
		"ICAP/1.0 404 No Service\r\n\r\n":   "404 No Service",
		"ICAP/1.0 503 Overloaded\r\n\r\n":   "503 Overloaded",
		"ICAP/1.0 200 OK\r\n\r\n":           "an answer without a message",
		"HTTP/1.1 200 OK\r\n\r\n":           "no ICAP status line",
		"":                                  "EOF",
		"ICAP/1.0 200 OK\r\nEncapsulated: res-hdr=0, res-body=9\r\n\r\nGET / HTT": "the server's HTTP head",
	} {
		s := scan(t, "", "Methods: RESPMOD\r\n", func(string, string, string) string { return answer })
		c := check(t, Config{Servers: setting.OneOrMore[string]{s.url()}, Timeout: setting.Duration(500 * time.Millisecond)})
		for _, pieces := range []int{1, 3} {
			if got, err := find(t.Context(), c, filter.ResponseBody, pieces, "some text"); err == nil || !contains(err.Error(), want) && !contains(err.Error(), "503") && !contains(err.Error(), "reset") {
				t.Errorf("the answer %q gave %+v, %v", answer, got, err)
			}
			for end := time.Now().Add(time.Minute); c.servers[0].down.Load() != nil && time.Now().Before(end); {
				time.Sleep(5 * time.Millisecond)
			}
		}
	}
}

// TestConnectionsAreBoundedAndKept also covers limits that the server sets.
func TestConnectionsAreBoundedAndKept(t *testing.T) {
	var now, most, all atomic.Int64
	s := scan(t, "", "Methods: RESPMOD\r\nMax-Connections: 3\r\n", func(string, string, string) string {
		most.Store(max(most.Load(), now.Add(1)))
		time.Sleep(2 * time.Millisecond)
		now.Add(-1)
		all.Add(1)
		return nothing
	})
	c := check(t, Config{Servers: setting.OneOrMore[string]{s.url()}})
	var work sync.WaitGroup
	for range 20 {
		work.Go(func() {
			for range 5 {
				if _, err := find(t.Context(), c, filter.ResponseBody, 1, "some text"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	work.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if most.Load() > 3 || all.Load() != 100 || len(s.open) > 4+3 {
		t.Errorf("%d connections at once, %d messages answered, %d connections open", most.Load(), all.Load(), len(s.open))
	}
}

// TestSlowBodiesLeaveConnectionsToOthers: slow bodies take at most half of the connections.
func TestSlowBodiesLeaveConnectionsToOthers(t *testing.T) {
	s := scan(t, "", "Methods: RESPMOD\r\n", clean204)
	c := check(t, Config{Servers: setting.OneOrMore[string]{s.url()}, Connections: 4})
	for n := range 3 {
		var b content.Body
		b.Reset(&content.Head{}, content.Limits{})
		defer b.Release()
		b.Append([]byte("the beginning"))
		x := transaction()
		x.Body = &b
		if _, err := c.Find(t.Context(), x, filter.ResponseBody, nil); (err == nil) != (n < 2) {
			t.Errorf("slow body %d gave %v", n, err)
		}
	}
	if _, err := find(t.Context(), c, filter.ResponseBody, 1, "some text"); err != nil {
		t.Error(err)
	}
}

// FuzzReply reads arbitrary replies, because any server may be configured.
func FuzzReply(f *testing.F) {
	f.Add(nothing)
	f.Add(page(403, "X-Infection-Found: Type=0; Threat=x;\r\nX-Violations-Found: 3\r\n\ta\r\n\tb\r\n\tc\r\n", "no"))
	f.Add("ICAP/1.0 100 Continue\r\n\r\n" + nothing)
	f.Add("ICAP/1.0 200 OK\r\nEncapsulated: req-hdr=0, null-body=1\r\n\r\nx")
	f.Add("ICAP/1.0 206 P\r\nEncapsulated: res-hdr=0, res-body=19\r\n\r\nHTTP/1.1 200 OK\r\n\r\n0; use-original-body=5\r\n\r\n")
	f.Add("ICAP/1.0 200 OK\r\nOptions-TTL: 99999999999\r\nPreview: -1\r\nMax-Connections: 0\r\nTransfer-Ignore: *, ., a\r\n\r\n")
	c := check(f, Config{Servers: setting.OneOrMore[string]{"icap://127.0.0.1:1/x"}, Page: "scanner"})
	f.Fuzz(func(t *testing.T, text string) {
		r, err := readReply(bufio.NewReaderSize(strings.NewReader(text), wire.MaxLine), c, func() {})
		if err != nil {
			return
		}
		if r.fault() == nil {
			for _, f := range c.report(&message{t: transaction(), method: respmod, body: &content.Body{}}, r, nil) {
				if len(f.Evidence) > 1000 || strings.ContainsAny(f.Evidence, "\r\n") {
					t.Errorf("the evidence is long or has several lines: %q", f.Evidence)
				}
			}
		}
		o := readOptions(r, time.Now())
		if o.preview > mostPreview || o.most < 1 || time.Until(o.expires) > longestTTL+time.Minute {
			t.Errorf("the OPTIONS exceed the limits: %+v", o)
		}
		o.ignores("http://h/a.png")
	})
}

// FuzzHostileServer: whatever the server sends, and whenever it ends, a message gets a verdict
// or an error, and the connection is not reused in the middle of a reply.
func FuzzHostileServer(f *testing.F) {
	f.Add([]byte(nothing), true)
	f.Add([]byte("ICAP/1.0 100 Continue\r\n\r\nICAP/1.0 100 Continue\r\n\r\n"), false)
	f.Add([]byte(page(200, "", "x")+"garbage"), true)
	f.Fuzz(func(t *testing.T, text []byte, preview bool) {
		ours, theirs := net.Pipe()
		defer theirs.Close()
		go func() {
			go func() { _, _ = io.Copy(io.Discard, theirs) }()
			_, _ = theirs.Write(text)
			theirs.Close()
		}()
		s, err := newServer("icap://127.0.0.1:1/x", 2, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		s.keeper = newKeeper()
		defer s.keeper.end()
		c := &Check{largest: 1 << 20, timeout: time.Second, seed: maphash.MakeSeed()}
		o := &options{preview: -1, respmod: true}
		if preview {
			o.preview = 10
		}
		var b content.Body
		b.Reset(&content.Head{}, content.Limits{})
		defer b.Release()
		b.Append([]byte("more than ten bytes of text"))
		b.Finish()
		l := &link{Conn: ours, r: bufio.NewReaderSize(ours, wire.MaxLine)}
		r, err := c.try(t.Context(), s, l, o, &message{t: transaction(), method: respmod, body: &b})
		var fail *failure
		if err == nil && r == nil || err != nil && !errors.As(err, &fail) {
			t.Errorf("the answer %q gave %+v, %v", text, r, err)
		}
		s.close()
	})
}
