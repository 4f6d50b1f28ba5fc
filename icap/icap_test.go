//go:build !small

package icap

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/setting"
	"shuultuur/policy"
	"shuultuur/proxy/exchange"
	"shuultuur/proxy/page"
)

// decider blocks the host bet.example, bodies with the word "bad", and responses of
// lounge.example to all but the user anna and the group teachers. It adds a parameter to the
// query of search.example.
type decider struct{}

func (decider) Wants(t *filter.Transaction, s filter.Stage) bool {
	return s != filter.ResponseBody || strings.HasPrefix(t.Content().Type(), "text/")
}

func (decider) Decide(_ context.Context, t *filter.Transaction, s filter.Stage) {
	bad := s == filter.Name && t.Host == "bet.example"
	t.Verdict.Edits = nil
	if s == filter.Request && t.Host == "search.example" {
		t.Verdict.Edits = []filter.Edit{{Kind: filter.SetQuery, Name: "safe", Value: "active"}}
	}
	if s == filter.Response && t.Host == "lounge.example" {
		bad = t.Client.User != "anna" && !slices.Contains(t.Client.Groups, "teachers")
	}
	b := t.Body
	if s == filter.RequestBody {
		b = t.Upload
	}
	if s == filter.RequestBody || s == filter.ResponseBody {
		text, _ := b.Decoded()
		bad = bytes.Contains(text, []byte("bad"))
	}
	if bad {
		t.Verdict.Action = filter.Block
		t.Verdict.Reason.Rule = "test"
	}
}

// start starts a server and returns a connection to it. done gets the transactions.
func start(t testing.TB, cfg Config, done func(*filter.Transaction)) (*Server, net.Addr) {
	t.Helper()
	i, err := exchange.NewInspector(exchange.Config{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(cfg, i, done, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	pages, err := page.New("", "")
	if err != nil {
		t.Fatal(err)
	}
	err = s.Use(&Engine{
		Decider: decider{}, Pages: pages, Tag: "tag1",
		Identify: func(_ context.Context, a netip.Addr, credentials []byte) (filter.Client, error) {
			if a == netip.MustParseAddr("192.0.2.66") {
				return filter.Client{Addr: a}, errors.New("this address is unknown")
			}
			if a == netip.MustParseAddr("192.0.2.67") {
				return filter.Client{Addr: a}, signInError{}
			}
			return filter.Client{Addr: a, User: strings.TrimPrefix(string(credentials), "Basic ")}, nil
		},
		Named: func(_ context.Context, a netip.Addr, users, groups []string, source string) filter.Client {
			return filter.Client{Addr: a, User: users[0], Groups: strings.Split(strings.Join(groups, ","), ","), Source: source}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, ln) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if n := i.Held(); n != 0 {
			t.Errorf("%d bytes of bodies are held after the end, want none", n)
		}
	})
	return s, ln.Addr()
}

// A talker is an ICAP client that sends raw bytes.
type talker struct {
	t testing.TB
	net.Conn
	r *bufio.Reader
}

func dial(t testing.TB, a net.Addr) *talker {
	c, err := net.Dial("tcp", a.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	return &talker{t, c, bufio.NewReader(c)}
}

func (c *talker) send(s string) {
	c.t.Helper()
	if _, err := io.WriteString(c, s); err != nil {
		c.t.Fatal(err)
	}
}

// head reads an ICAP head and returns its status line and fields.
func (c *talker) head() (string, map[string]string) {
	c.t.Helper()
	fields := map[string]string{}
	var first string
	for {
		line, err := c.r.ReadString('\n')
		if err != nil {
			c.t.Fatalf("reading an ICAP head: %v after %q", err, line)
		}
		line = strings.TrimSuffix(line, "\r\n")
		if line == "" {
			return first, fields
		}
		if first == "" {
			first = line
			continue
		}
		name, value, _ := strings.Cut(line, ": ")
		fields[name] = value
	}
}

// message reads a response with an HTTP head and a body.
func (c *talker) message() (status, head, body string) {
	c.t.Helper()
	status, fields := c.head()
	head, body = c.rest(status, fields)
	return status, head, body
}

// rest reads what follows an ICAP head.
func (c *talker) rest(status string, fields map[string]string) (head, body string) {
	c.t.Helper()
	e := fields["Encapsulated"]
	var n int
	if _, err := fmt.Sscanf(e[strings.LastIndexByte(e, '=')+1:], "%d", &n); err != nil {
		c.t.Fatalf("%s has the invalid Encapsulated %q", status, e)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(c.r, b); err != nil {
		c.t.Fatal(err)
	}
	if strings.Contains(e, "null-body") {
		return string(b), ""
	}
	for {
		line, err := c.r.ReadString('\n')
		if err != nil {
			c.t.Fatal(err)
		}
		var size int
		if _, err := fmt.Sscanf(line, "%x", &size); err != nil {
			c.t.Fatalf("invalid chunk line %q", line)
		}
		chunk := make([]byte, size+2)
		if _, err := io.ReadFull(c.r, chunk); err != nil {
			c.t.Fatal(err)
		}
		if size == 0 {
			return string(b), body + strings.TrimSuffix(strings.TrimPrefix(line, "0"), "\r\n")
		}
		body += string(chunk[:size])
	}
}

func reqmod(fields, head, body string) string {
	end := "null-body"
	if body != "" {
		end = "req-body"
	}
	return fmt.Sprintf("REQMOD icap://127.0.0.1/reqmod ICAP/1.0\r\nHost: x\r\n%sEncapsulated: req-hdr=0, %s=%d\r\n\r\n%s%s", fields, end, len(head), head, body)
}

func respmod(fields, req, res, body string) string {
	end := "null-body"
	if body != "" {
		end = "res-body"
	}
	at := ""
	if req != "" {
		at = "req-hdr=0, "
	}
	return fmt.Sprintf("RESPMOD icap://127.0.0.1/respmod ICAP/1.0\r\nHost: x\r\n%sEncapsulated: %sres-hdr=%d, %s=%d\r\n\r\n%s%s%s", fields, at, len(req), end, len(req)+len(res), req, res, body)
}

const (
	page1 = "GET http://news.example/a HTTP/1.1\r\nHost: news.example\r\n\r\n"
	html  = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
)

func TestOptionsSayWhatTheServiceDoes(t *testing.T) {
	s, at := start(t, Config{}, nil)
	c := dial(t, at)
	ask := func() map[string]string {
		c.send("OPTIONS icap://127.0.0.1/respmod ICAP/1.0\r\nHost: x\r\n\r\n")
		status, f := c.head()
		if status != "ICAP/1.0 200 OK" {
			t.Fatalf("OPTIONS: got %q, want 200", status)
		}
		return f
	}
	f := ask()
	for name, want := range map[string]string{"Methods": "RESPMOD", "Allow": "204, 206", "Preview": "4096", "Transfer-Preview": "*", "ISTag": `"tag1"`} {
		if f[name] != want {
			t.Errorf("%s: got %q, want %q", name, f[name], want)
		}
	}
	e := *s.engine.Load()
	e.Tag = "tag2"
	if err := s.Use(&e); err != nil {
		t.Fatal(err)
	}
	if f := ask(); f["ISTag"] != `"tag2"` {
		t.Errorf("the ISTag after new settings is %s, want \"tag2\"", f["ISTag"])
	}
}

func TestRequestsAndResponsesAreJudged(t *testing.T) {
	var mu sync.Mutex
	var record []string
	_, at := start(t, Config{}, func(x *filter.Transaction) {
		mu.Lock()
		defer mu.Unlock()
		record = append(record, fmt.Sprintf("%s %s %d %s %s %v", x.Client.Addr, x.URL, x.Status, x.Verdict.Action, x.Client.User, x.Client.Groups))
	})
	c := dial(t, at)
	who := "X-Client-IP: 192.0.2.7\r\nX-Authenticated-User: bold\r\nX-Authenticated-Groups: pupils,choir\r\n"
	big := strings.Repeat("good words. ", 10000)
	t.Run("pipelined, unmodified, and matched", func(t *testing.T) {
		c.send(reqmod(who+"Allow: 204\r\n", page1, "") + respmod(who+"Allow: 204\r\n", page1, html, "5\r\nhello\r\n0\r\n\r\n"))
		for range 2 {
			if status, _ := c.head(); status != "ICAP/1.0 204 No Modifications Needed" {
				t.Fatalf("a permitted request or response: got %q, want 204", status)
			}
		}
	})
	t.Run("a refused host", func(t *testing.T) {
		c.send(reqmod("Allow: 204\r\n", "GET http://bet.example/ HTTP/1.1\r\nHost: bet.example\r\nAccept: text/html\r\n\r\n", ""))
		if status, head, body := c.message(); status != "ICAP/1.0 200 OK" || !strings.HasPrefix(head, "HTTP/1.1 403 Forbidden\r\n") || !strings.Contains(body, "bet.example") {
			t.Fatalf("a request to a blocked host, want a 403 page:\n%s\n%s\n%s", status, head, body)
		}
	})
	t.Run("an edited request keeps its body", func(t *testing.T) {
		head := "POST http://search.example/?q=a HTTP/1.1\r\nHost: search.example\r\nContent-Length: 3\r\n\r\n"
		c.send(reqmod("", head, "3\r\na=b\r\n0\r\n\r\n"))
		if status, head, body := c.message(); status != "ICAP/1.0 200 OK" || !strings.HasPrefix(head, "POST http://search.example/?q=a&safe=active HTTP/1.1\r\nHost: search.example\r\n") || body != "a=b" {
			t.Fatalf("a search, want the edited request:\n%s\n%s\n%s", status, head, body)
		}
	})
	t.Run("a refused upload", func(t *testing.T) {
		c.send(reqmod("Preview: 4\r\n", "POST http://news.example/up HTTP/1.1\r\nHost: news.example\r\nContent-Length: 7\r\n\r\n", "4\r\na ba\r\n0\r\n\r\n"))
		if status, _ := c.head(); status != "ICAP/1.0 100 Continue" {
			t.Fatalf("an upload after its preview: got %q, want 100", status)
		}
		c.send("3\r\nd a\r\n0\r\n\r\n")
		if _, head, _ := c.message(); !strings.HasPrefix(head, "HTTP/1.1 403") {
			t.Fatalf("a refused upload: got %q, want 403", head)
		}
	})
	t.Run("an unwanted body ends with its preview", func(t *testing.T) {
		c.send(respmod("Preview: 2\r\n", page1, "HTTP/1.1 200 OK\r\nContent-Type: image/png\r\n\r\n", "2\r\nPN\r\n0\r\n\r\n"))
		if status, _ := c.head(); status != "ICAP/1.0 204 No Modifications Needed" {
			t.Fatalf("a permitted response: got %q, want 204", status)
		}
	})
	t.Run("a large body comes back as it was, with its length", func(t *testing.T) {
		c.send(respmod("Preview: 4\r\n", page1, html, "4\r\ngood\r\n0\r\n\r\n"))
		if status, _ := c.head(); status != "ICAP/1.0 100 Continue" {
			t.Fatalf("a response after its preview: got %q, want 100", status)
		}
		c.send(fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(big)-4, big[4:]))
		if status, head, body := c.message(); status != "ICAP/1.0 200 OK" || head != strings.TrimSuffix(html, "\r\n")+"Content-Length: 120000\r\n\r\n" || body != big {
			t.Fatalf("a large response, want it with its length:\n%s\n%s\n%d bytes", status, head, len(body))
		}
	})
	t.Run("a refused body", func(t *testing.T) {
		c.send(respmod("Preview: 1024\r\nAllow: 204\r\n", page1, html, "9\r\nvery bad \r\n0; ieof\r\n\r\n"))
		if _, head, _ := c.message(); !strings.HasPrefix(head, "HTTP/1.1 403") {
			t.Fatalf("a refused response: got %q, want 403", head)
		}
	})
	t.Run("a response without its request", func(t *testing.T) {
		c.send(respmod("Preview: 1024\r\n", "", html, "3\r\nbad\r\n0; ieof\r\n\r\n"))
		if _, head, _ := c.message(); !strings.HasPrefix(head, "HTTP/1.1 403") {
			t.Fatalf("a refused response without its request: got %q, want 403", head)
		}
	})
	mu.Lock()
	defer mu.Unlock()
	if want := "192.0.2.7 http://news.example/a 200 pass bold [pupils choir]"; len(record) == 0 || record[0] != want {
		t.Errorf("the transactions are %q, want first %q", record, want)
	}
}

// TestAResponseIsJudgedForItsOwnUser, whatever users behind one address ask for the same at the
// same time, and in whatever order their requests and responses come.
func TestAResponseIsJudgedForItsOwnUser(t *testing.T) {
	const (
		address = "X-Client-IP: 192.0.2.7\r\n"
		anna    = address + "X-Client-Username: anna\r\n"
		bold    = address + "X-Client-Username: bold\r\n"
		lounge  = "GET http://lounge.example/ HTTP/1.1\r\nHost: lounge.example\r\n\r\n"
		passes  = "ICAP/1.0 204 No Modifications Needed"
		refused = "ICAP/1.0 200 OK"
	)
	other := "X-Authenticated-User: anna\r\n" + address
	signed := func(user string) string { return "Proxy-Authorization: Basic " + user + "\r\n" + address }
	type pair struct {
		request, response string // fields of both
		returns           bool   // the proxy returns the ID of the request
		want              string
		matched           bool // the response is judged with the request of before
	}
	for name, pairs := range map[string][2]pair{
		"two users":                       {{anna, anna, false, passes, true}, {bold, bold, false, refused, true}},
		"one name in two fields":          {{anna, other, false, passes, true}, {bold, bold, false, refused, true}},
		"a user and nobody":               {{anna, anna, false, passes, true}, {address, address, false, refused, true}},
		"the same user in another group":  {{bold + "X-Authenticated-Groups: teachers\r\n", bold + "X-Authenticated-Groups: teachers\r\n", false, passes, true}, {bold, bold, false, refused, true}},
		"two ports of nobody":             {{signed("anna") + "X-Client-Port: 7\r\n", address + "X-Client-Port: 7\r\n", false, passes, true}, {address + "X-Client-Port: 8\r\n", address + "X-Client-Port: 8\r\n", false, refused, true}},
		"ports with the address":          {{"Proxy-Authorization: Basic anna\r\nX-Client-IP: [2001:db8::1]:7\r\n", "X-Client-IP: [2001:db8::1]:7\r\n", false, passes, true}, {"X-Client-IP: [2001:db8::1]:8\r\n", "X-Client-IP: [2001:db8::1]:8\r\n", false, refused, true}},
		"credentials with both":           {{signed("anna"), signed("anna"), false, passes, true}, {signed("bold"), signed("bold"), false, refused, true}},
		"credentials, and the ID returns": {{signed("anna"), address, true, passes, true}, {signed("bold"), address, true, refused, true}},
		"credentials with requests only":  {{signed("anna"), address, false, refused, false}, {signed("bold"), address, false, refused, false}},
		"users in requests only":          {{anna, address, false, refused, false}, {bold, address, false, refused, false}},
		"users in responses only":         {{address, anna, false, passes, false}, {address, bold, false, refused, false}},
		"another user in the response":    {{anna, bold, true, refused, false}, {bold, anna, true, passes, false}},
		"the ID returns to another user":  {{address, anna, true, passes, false}, {anna, address, true, refused, false}},
		"no request before":               {{"", anna, false, passes, false}, {"", bold, false, refused, false}},
		"the request of another waits":    {{anna, anna, false, passes, true}, {"", address, false, refused, false}},
	} {
		t.Run(name, func(t *testing.T) {
			for order := range 4 { // of the requests, and of the responses
				for _, layout := range []string{"pipelined", "one connection", "one for each method", "one for each message"} {
					pipelined := layout == "pipelined"
					if pipelined && pairs[0].returns {
						continue // the ID is not known yet
					}
					s, at := start(t, Config{}, nil)
					conns := map[string]*talker{}
					open := func(message string) *talker {
						switch layout {
						case "one for each method":
							message, _, _ = strings.Cut(message, " ")
						case "pipelined", "one connection":
							message = ""
						}
						if conns[message] == nil {
							conns[message] = dial(t, at)
						}
						return conns[message]
					}
					var found int64
					ids := [2]string{}
					var answers []func()
					exchange := func(c *talker, text string, read func()) {
						c.send(text)
						if answers = append(answers, read); !pipelined {
							read()
						}
					}
					for i := range 2 {
						n := i ^ order&1
						if pairs[n].request == "" {
							continue
						}
						c := open(fmt.Sprint("REQMOD ", n))
						exchange(c, reqmod(pairs[n].request+"Allow: 204\r\n", lounge, ""), func() {
							status, fields := c.head()
							if status != passes {
								t.Fatalf("order %d, %s: request %d: got %q, want %q", order, layout, n, status, passes)
							}
							ids[n] = fields["X-Shuultuur-ID"]
						})
					}
					for i := range 2 {
						n := i ^ order>>1
						p := pairs[n]
						fields := p.response + "Allow: 204\r\n"
						if p.returns {
							fields += "X-Shuultuur-ID: " + ids[n] + "\r\n"
						}
						if p.matched {
							found++
						}
						c := open(fmt.Sprint("RESPMOD ", n))
						exchange(c, respmod(fields, lounge, html, ""), func() {
							status, fields := c.head()
							if status != p.want {
								t.Errorf("order %d, %s: response %d: got %q, want %q", order, layout, n, status, p.want)
							}
							c.rest(status, fields)
						})
					}
					if pipelined {
						for _, read := range answers {
							read()
						}
					}
					if got := s.counters[matched].Load(); got != found {
						t.Errorf("order %d, %s: %d responses found their request, want %d", order, layout, got, found)
					}
				}
			}
		})
	}
}

// TestProxiesDoNotShareRequests: behind two proxies, two clients may have the same private address.
func TestProxiesDoNotShareRequests(t *testing.T) {
	s, at := start(t, Config{}, nil)
	from := func(addr string) *talker {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(addr)}}
		c, err := d.Dial("tcp", at.String())
		if err != nil {
			t.Skipf("no second address here: %v", err)
		}
		t.Cleanup(func() { c.Close() })
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		return &talker{t, c, bufio.NewReader(c)}
	}
	const fields = "X-Client-IP: 192.0.2.7\r\nAllow: 204\r\n"
	one := from("127.0.0.1")
	one.send(reqmod(fields, page1, ""))
	one.head()
	for i, c := range []*talker{from("127.0.0.2"), from("127.0.0.1")} {
		c.send(respmod(fields, page1, html, ""))
		c.head()
		if got := s.counters[matched].Load(); got != int64(i) {
			t.Errorf("after the response by proxy %d, %d responses found their request, want %d", i, got, i)
		}
	}
}

// TestAResponseWithoutARequestHasItsClientIdentified, as one with a request has.
func TestAResponseWithoutARequestHasItsClientIdentified(t *testing.T) {
	_, at := start(t, Config{}, nil)
	c := dial(t, at)
	c.send(respmod("X-Client-IP: 192.0.2.66\r\nAllow: 204\r\n", "", html, ""))
	if status, head, _ := c.message(); !strings.HasPrefix(head, "HTTP/1.1 403") {
		t.Errorf("a response for a client that cannot be identified: got %q %q, want 403", status, head)
	}
}

// A signInError asks a client to sign in on a page of a host that the decider blocks.
type signInError struct{}

func (signInError) Error() string          { return "nobody has signed in" }
func (signInError) SignIn() string         { return "http://bet.example:8082/sign-in" }
func (signInError) OpenHost(h string) bool { return h == "open.example" }

// TestThePageToSignInOnIsReached: a client that has not signed in reaches this page and nothing else, by
// whatever the policy says of its host.
func TestThePageToSignInOnIsReached(t *testing.T) {
	for target, want := range map[string]string{
		"GET http://bet.example:8082/sign-in?to=x": "204",
		"GET http://BET.example:8082/":             "204",
		"CONNECT bet.example:8082":                 "204",
		"GET http://open.example/":                 "204",
		"GET http://bet.example/sign-in":           "302",
		"GET http://other.example:8082/sign-in":    "302",
		"CONNECT bet.example:443":                  "511",
	} {
		_, at := start(t, Config{}, nil)
		c := dial(t, at)
		method, url, _ := strings.Cut(target, " ")
		host := strings.TrimPrefix(url, "http://")
		host, _, _ = strings.Cut(host, "/")
		head := method + " " + url + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n"
		c.send(fmt.Sprintf("REQMOD icap://x/reqmod ICAP/1.0\r\nHost: x\r\nAllow: 204\r\nX-Client-IP: 192.0.2.67\r\nEncapsulated: req-hdr=0, null-body=%d\r\n\r\n%s", len(head), head))
		status, fields := c.head()
		if strings.HasPrefix(status, "ICAP/1.0 200") {
			answer, _ := c.rest(status, fields)
			status = "ICAP/1.0 " + strings.TrimPrefix(answer, "HTTP/1.1 ")
		}
		if !strings.HasPrefix(status, "ICAP/1.0 "+want) {
			t.Errorf("%s: %.60q, want %s", target, status, want)
		}
	}
}

// TestTheFormToSignInPasses, and what answers it, by whatever the policy says of texts.
func TestTheFormToSignInPasses(t *testing.T) {
	for _, allow := range []string{"Allow: 204\r\n", ""} {
		_, at := start(t, Config{}, nil)
		c := dial(t, at)
		const form = "POST http://bet.example:8082/sign-in HTTP/1.1\r\nHost: bet.example:8082\r\nContent-Length: 11\r\n\r\n"
		for _, message := range []string{
			reqmod("X-Client-IP: 192.0.2.67\r\n"+allow, form, "b\r\nname=bad&x=\r\n0\r\n\r\n"),
			respmod("X-Client-IP: 192.0.2.67\r\n"+allow, form, html, "3\r\nbad\r\n0\r\n\r\n"),
		} {
			c.send(message)
			status, fields := c.head()
			if strings.HasPrefix(status, "ICAP/1.0 204") && allow != "" {
				continue
			}
			if head, body := c.rest(status, fields); allow != "" || !strings.Contains(body, "bad") {
				t.Errorf("%q: %q, %q, %q; want it as it was", allow, status, head, body)
			}
		}
	}
}

// TestTheFieldsThatNameUsers: only the fields of the settings name users, and what they say is passed
// on as it is.
func TestTheFieldsThatNameUsers(t *testing.T) {
	for _, tt := range []struct {
		cfg           Config
		head          string
		users, groups string
	}{
		{Config{}, "X-Client-Username: anna\r\n", "anna", ""},
		{Config{}, "X-Authenticated-User: YW1sdA==\r\nX-Authenticated-Groups: a, b\r\n", "YW1sdA==", "a, b"},
		{Config{}, "X-Client-Username: anna\r\nX-Authenticated-User: otto\r\n", "anna otto", ""},
		{Config{}, "X-Client-Username: -\r\nX-Authenticated-Groups: \r\n", "", ""},
		{Config{}, "X-Username: anna\r\n", "", ""},
		{Config{Users: setting.OneOrMore[string]{"X-Username"}}, "X-USERNAME: anna\r\nX-Client-Username: otto\r\n", "anna", ""},
		{Config{Groups: setting.OneOrMore[string]{"X-Roles"}}, "x-roles: a\r\nX-Authenticated-Groups: b\r\n", "", "a"},
	} {
		var h head
		var err error
		if h.names, err = readNameFields(&tt.cfg); err != nil {
			t.Fatal(err)
		}
		if err := h.read(bufio.NewReader(strings.NewReader("OPTIONS icap://x/reqmod ICAP/1.0\r\n" + tt.head + "\r\n"))); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(h.users, " "); got != tt.users || strings.Join(h.groups, " ") != tt.groups {
			t.Errorf("%q: users %q, groups %q; want %q and %q", tt.head, h.users, h.groups, tt.users, tt.groups)
		}
	}
	for _, wrong := range []string{"", "X Y", "X:"} {
		if _, err := New(Config{Users: setting.OneOrMore[string]{wrong}}, nil, nil, nil); err == nil {
			t.Errorf("the name %q of a field is taken", wrong)
		}
	}
}

func TestAnEditedHeadLeavesTheBodyWithTheClient(t *testing.T) {
	_, at := start(t, Config{}, nil)
	c := dial(t, at)
	head := "POST http://search.example/ HTTP/1.1\r\nHost: search.example\r\nContent-Length: 9\r\nSec-Fetch-Dest: empty\r\n\r\n"
	c.send("REQMOD icap://x/reqmod ICAP/1.0\r\nHost: x\r\nAllow: 204, 206\r\nPreview: 0\r\n" + fmt.Sprintf("Encapsulated: req-hdr=0, req-body=%d\r\n\r\n%s0\r\n\r\n", len(head), head))
	status, _ := c.head()
	if status != "ICAP/1.0 100 Continue" { // the checks want this body
		t.Fatalf("a request with an edited head, after its preview: got %q, want 100", status)
	}
	c.send("9\r\nwhat=this\r\n0\r\n\r\n")
	if status, head, body := c.message(); status != "ICAP/1.0 200 OK" || !strings.Contains(head, "safe=active") || body != "what=this" {
		t.Fatalf("a request with a body after its preview, want it edited:\n%s\n%s\n%s", status, head, body)
	}
}

// TestAddressesThatSquidTakes: what Squid asks about in its own forms is judged like any address, and
// goes back as it came.
func TestAddressesThatSquidTakes(t *testing.T) {
	var mu sync.Mutex
	var judged []string
	_, at := start(t, Config{Wait: 1}, func(x *filter.Transaction) {
		mu.Lock()
		defer mu.Unlock()
		judged = append(judged, fmt.Sprintf("%s %d", x.URL, x.Port))
	})
	var want []string
	for target, url := range map[string]string{
		"cache_object://127.0.0.1/menu":           "cache_object://127.0.0.1/menu 80",
		"cache_object://127.0.0.1:3128/info":      "cache_object://127.0.0.1:3128/info 3128",
		"http://news.example/für/Жанна?q=ü":       "http://news.example/f%C3%BCr/%D0%96%D0%B0%D0%BD%D0%BD%D0%B0?q=%C3%BC 80",
		"http://news.example/a\xff\xfe":           "http://news.example/a%FF%FE 80",
		"ftp://anna@news.example/":                "ftp://news.example/ 21",
		"ftp://anna:p%40ss@news.example/f;type=i": "ftp://news.example/f;type=i 21",
		"ftp://news.example:2121/f":               "ftp://news.example:2121/f 2121",
		"ftp://@news.example/":                    "ftp://news.example/ 21",
		"http://anna:x@news.example/a":            "http://news.example/a 80",
		"http://news.example/a#part":              "http://news.example/a 80",
	} {
		c := dial(t, at)
		head := "GET " + target + " HTTP/1.1\r\nHost: news.example\r\n\r\n"
		c.send(reqmod("Allow: 204\r\n", head, ""))
		if status, _, body := c.message(); status != "ICAP/1.0 204 No Modifications Needed" {
			t.Errorf("%q: got %q %.200q, want 204", target, status, body)
		}
		c.send(reqmod("", head, ""))
		if status, back, _ := c.message(); status != "ICAP/1.0 200 OK" || back != head {
			t.Errorf("%q: got %q %.200q, want the head as it came", target, status, back)
		}
		want = append(want, url, url)
	}
	c := dial(t, at)
	c.send(reqmod("Allow: 204\r\n", "GET ftp://anna@bet.example/ HTTP/1.1\r\nHost: bet.example\r\n\r\n", ""))
	if status, head, _ := c.message(); !strings.HasPrefix(head, "HTTP/1.1 403") {
		t.Errorf("a refused host with a user: got %q %.100q, want 403", status, head)
	}
	want = append(want, "ftp://bet.example/ 21")
	slices.Sort(want)
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		mu.Lock()
		got := slices.Sorted(slices.Values(judged))
		mu.Unlock()
		if slices.Equal(got, want) {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("judged are\n%q, want\n%q", got, want)
		}
	}
	for target, want := range map[string]string{"ftp://anna:x@h/": "anna:x@", "ftp://h/a@b": "", "ftp://h?a@b": "", "http://anna@h/": "", "/a@b": "", "ftp://@h/": "@"} {
		if got := ftpUser([]byte(target)); string(got) != want {
			t.Errorf("the user in %q is %q, want %q", target, got, want)
		}
	}
}

// TestStatus204IsSentOnlyWhereAllowed: without Allow and without a preview, the client must get the
// message back (RFC 3507, 4.6).
func TestStatus204IsSentOnlyWhereAllowed(t *testing.T) {
	_, at := start(t, Config{}, nil)
	get := fmt.Sprintf("Encapsulated: req-hdr=0, null-body=%d\r\n\r\n%s", len(page1), page1)
	for fields, want := range map[string]string{"": "ICAP/1.0 200 OK", "Allow: 204\r\n": "ICAP/1.0 204 No Modifications Needed", "Preview: 0\r\n": "ICAP/1.0 204 No Modifications Needed"} {
		c := dial(t, at)
		c.send("REQMOD icap://x/reqmod ICAP/1.0\r\nHost: x\r\n" + fields + get)
		status, head := c.head()
		if status != want {
			t.Errorf("with the fields %q: %s %s", fields, status, head)
		}
	}
}

// TestABodyOfOptionsIsPassedOver, so that the next request is found after it.
func TestABodyOfOptionsIsPassedOver(t *testing.T) {
	_, at := start(t, Config{}, nil)
	c := dial(t, at)
	c.send("OPTIONS icap://x/reqmod ICAP/1.0\r\nHost: x\r\nEncapsulated: opt-body=0\r\n\r\n3\r\nabc\r\n0\r\n\r\n" + reqmod("Allow: 204\r\n", page1, ""))
	for _, want := range []string{"ICAP/1.0 200 OK", "ICAP/1.0 204 No Modifications Needed"} {
		if status, _ := c.head(); status != want {
			t.Errorf("got %q, want %q", status, want)
		}
	}
}

// TestAddressesOfClientsAsProxiesWriteThem also covers fields over several lines.
func TestAddressesOfClientsAsProxiesWriteThem(t *testing.T) {
	for value, want := range map[string]struct{ addr, port string }{
		"10.1.1.1":                    {"10.1.1.1", ""},
		"10.1.1.1:4711":               {"10.1.1.1", "4711"},
		"10.1.1.1%10":                 {"10.1.1.1", ""},
		"10.1.1.1, 192.168.1.1":       {"10.1.1.1", ""},
		"10.1.1.1,\r\n 192.168.1.1":   {"10.1.1.1", ""},
		"\r\n\t10.1.1.1":              {"10.1.1.1", ""},
		"2001:db8::1":                 {"2001:db8::1", ""},
		"[2001:db8::1]":               {"2001:db8::1", ""},
		"[2001:db8::1]:4711":          {"2001:db8::1", "4711"},
		"[2001:db8::1]:4711, 1.2.3.4": {"2001:db8::1", ""},
		"fe80::1%eth0":                {"fe80::1", ""},
		"::ffff:10.1.1.1":             {"10.1.1.1", ""},
		"-":                           {"invalid IP", ""},
		"":                            {"invalid IP", ""},
		"anna":                        {"", ""},
		"10.1.1":                      {"", ""},
		"[10.1.1.1":                   {"10.1.1.1", ""},
	} {
		h := head{names: &nameFields{users: []string{"x-client-username"}}}
		err := h.read(bufio.NewReaderSize(strings.NewReader("REQMOD icap://x/reqmod ICAP/1.0\r\nX-Client-IP: "+value+"\r\nX-Client-Username: anna\r\n\r\n"), readSize))
		if want.addr == "" {
			if err == nil {
				t.Errorf("%q is taken for the address %v", value, h.client)
			}
			continue
		}
		if err != nil || h.client.String() != want.addr || h.port != want.port || strings.Join(h.users, "") != "anna" {
			t.Errorf("%q: %v, port %q, user %q, %v; want %s and %q", value, h.client, h.port, h.users, err, want.addr, want.port)
		}
	}
}

// TestABodyWithoutAHeadIsJudged: RFC 3507 section 4.4.1 lets a response be its body alone.
func TestABodyWithoutAHeadIsJudged(t *testing.T) {
	_, at := start(t, Config{}, nil)
	c := dial(t, at)
	for _, encapsulated := range []string{"res-body=0", fmt.Sprintf("req-hdr=0, res-body=%d", len(page1))} {
		req := ""
		if strings.HasPrefix(encapsulated, "req") {
			req = page1
		}
		c.send("RESPMOD icap://127.0.0.1/respmod ICAP/1.0\r\nHost: x\r\nAllow: 204\r\nEncapsulated: " + encapsulated + "\r\n\r\n" + req + "5\r\nhello\r\n0\r\n\r\n")
		if status, _ := c.head(); status != "ICAP/1.0 204 No Modifications Needed" {
			t.Errorf("%s: got %q, want 204", encapsulated, status)
		}
	}
}

func TestMalformedInputIsRefused(t *testing.T) {
	_, at := start(t, Config{}, nil)
	for name, what := range map[string]struct{ text, want string }{
		"no ICAP":                   {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "ICAP/1.0 505"},
		"unknown service":           {"OPTIONS icap://x/none ICAP/1.0\r\nHost: x\r\n\r\n", "ICAP/1.0 404"},
		"wrong method":              {"OPTIONX icap://x/reqmod ICAP/1.0\r\nHost: x\r\n\r\n", "ICAP/1.0 501"},
		"service for another":       {"RESPMOD icap://x/reqmod ICAP/1.0\r\nEncapsulated: null-body=0\r\n\r\n", "ICAP/1.0 405"},
		"no Encapsulated":           {"REQMOD icap://x/reqmod ICAP/1.0\r\nHost: x\r\n\r\n", "ICAP/1.0 400"},
		"offsets that descend":      {"REQMOD icap://x/reqmod ICAP/1.0\r\nEncapsulated: req-hdr=10, null-body=4\r\n\r\n", "ICAP/1.0 400"},
		"a head longer than it is":  {fmt.Sprintf("REQMOD icap://x/reqmod ICAP/1.0\r\nEncapsulated: req-hdr=0, null-body=%d\r\n\r\n%sxxxx", len(page1)+4, page1), "ICAP/1.0 400"},
		"a head shorter than it is": {fmt.Sprintf("REQMOD icap://x/reqmod ICAP/1.0\r\nEncapsulated: req-hdr=0, null-body=%d\r\n\r\n%s", len(page1)-3, page1), "ICAP/1.0 400"},
		"no head of a response":     {fmt.Sprintf("RESPMOD icap://x/respmod ICAP/1.0\r\nEncapsulated: req-hdr=0, res-hdr=%d, null-body=%d\r\n\r\n%sHTT", len(page1), len(page1)+3, page1), "ICAP/1.0 400"},
		"opt-body elsewhere":        {"REQMOD icap://x/reqmod ICAP/1.0\r\nEncapsulated: opt-body=0\r\n\r\n0\r\n\r\n", "ICAP/1.0 400"},
		"huge heads":                {"REQMOD icap://x/reqmod ICAP/1.0\r\nEncapsulated: req-hdr=0, null-body=99999999\r\n\r\n", "ICAP/1.0 413"},
		"a chunk size of letters":   {reqmod("Preview: 5\r\n", page1, "zz\r\n"), "ICAP/1.0 400"},
		"more than the preview":     {reqmod("Preview: 5\r\n", page1, "6\r\n123456\r\n0\r\n\r\n"), "ICAP/1.0 400"},
		"an address that is none":   {reqmod("X-Client-IP: here\r\n", page1, ""), "ICAP/1.0 400"},
		"two Encapsulated":          {"REQMOD icap://x/reqmod ICAP/1.0\r\nEncapsulated: null-body=0\r\nEncapsulated: null-body=0\r\n\r\n", "ICAP/1.0 400"},
		"a line without CR":         {"REQMOD icap://x/reqmod ICAP/1.0\nHost: x\n\n", "ICAP/1.0 400"},
		"a chunk longer than it is": {reqmod("Preview: 5\r\n", page1, "2\r\n1234\r\n0\r\n\r\n"), "ICAP/1.0 400"},
	} {
		t.Run(name, func(t *testing.T) {
			c := dial(t, at)
			c.send(what.text)
			if status, _ := c.head(); !strings.HasPrefix(status, what.want) {
				t.Errorf("got %q, want %q", status, what.want)
			}
		})
	}
}

// TestAnAnswerArrivesBeforeTheRestOfABodyIsRead: a client that sends all of a body before it
// reads is not reset.
func TestAnAnswerArrivesBeforeTheRestOfABodyIsRead(t *testing.T) {
	_, at := start(t, Config{}, nil)
	const size = 32 << 20
	body := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", size, strings.Repeat("x", size))
	for name, what := range map[string]struct{ text, want string }{
		"a host that is refused": {reqmod("", "POST http://bet.example/ HTTP/1.1\r\nHost: bet.example\r\nTransfer-Encoding: chunked\r\n\r\n", body), "ICAP/1.0 200"},
		"what is malformed":      {"OPTIONX icap://x/reqmod ICAP/1.0\r\nHost: x\r\n\r\n" + body, "ICAP/1.0 501"},
	} {
		t.Run(name, func(t *testing.T) {
			c := dial(t, at)
			c.send(what.text)
			status, _, page := c.message()
			if !strings.HasPrefix(status, what.want) {
				t.Errorf("got %q, want %q", status, what.want)
			}
			if what.want == "ICAP/1.0 200" && !strings.Contains(page, "bet.example") {
				t.Errorf("the page does not name bet.example: %q", page)
			}
		})
	}
}

func TestOnlyClientsOfTheSettingsMayAsk(t *testing.T) {
	cfg := Config{}
	var n policy.Network
	if err := n.UnmarshalText([]byte("192.0.2.0/24")); err != nil {
		t.Fatal(err)
	}
	cfg.Clients = append(cfg.Clients, n)
	_, at := start(t, cfg, nil)
	if status, _ := dial(t, at).head(); !strings.HasPrefix(status, "ICAP/1.0 403") {
		t.Errorf("a client that the settings do not name: got %q, want 403", status)
	}
}

// FuzzConversation sends any bytes: nothing is held at the end, and nothing panics.
func FuzzConversation(f *testing.F) {
	f.Add([]byte(reqmod("Allow: 204\r\n", page1, "")))
	f.Add([]byte(respmod("Preview: 4\r\n", page1, html, "4\r\ngood\r\n0\r\n\r\n2\r\n12\r\n0\r\n\r\n")))
	f.Add([]byte(respmod("", page1, html, "5; x=y\r\nhello\r\n0\r\nA: b\r\n\r\n") + "OPTIONS icap://x/respmod ICAP/1.0\r\n\r\n"))
	s, at := start(f, Config{}, nil)
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := net.Dial("tcp", at.String())
		if err != nil {
			t.Skip(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		go func() {
			_, _ = c.Write(b)
			_ = c.(*net.TCPConn).CloseWrite()
		}()
		_, _ = io.Copy(io.Discard, c)
		if n := s.counters[panics].Load(); n > 0 {
			t.Fatal("the server recovered from a panic")
		}
	})
}
