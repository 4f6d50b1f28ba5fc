package proxy

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"shuultuur/proxy/upstream"
)

// A door is the state of a connection to an origin that signs in connections.
type door struct {
	mu              sync.Mutex
	challenge, user string
}

// A signInOrigin signs in connections in the three steps of NTLM, and greets who has signed in.
type signInOrigin struct {
	t      *testing.T
	scheme string
	opaque bool // tokens are not those of NTLM
	last   atomic.Int64
	open   atomic.Int64 // connections
}

type doorKey struct{}

// serve starts it, with TLS if c is not nil.
func (o *signInOrigin) serve(c *tls.Config, http2 bool) (host string) {
	s := httptest.NewUnstartedServer(o)
	s.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
		return context.WithValue(ctx, doorKey{}, &door{})
	}
	s.Config.ConnState = func(_ net.Conn, st http.ConnState) {
		switch st {
		case http.StateNew:
			o.open.Add(1)
		case http.StateClosed, http.StateHijacked:
			o.open.Add(-1)
		}
	}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.TLS, s.EnableHTTP2 = c, http2
	if c != nil {
		s.StartTLS()
	} else {
		s.Start()
	}
	o.t.Cleanup(s.Close)
	return strings.Replace(s.Listener.Addr().String(), "127.0.0.1", "localhost", 1)
}

// token returns the token of a step.
func (o *signInOrigin) token(step byte, text string) string {
	if o.opaque {
		return base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "step %d %s", step, text))
	}
	return base64.StdEncoding.EncodeToString(append([]byte("NTLMSSP\x00"+string(rune(step))+"\x00\x00\x00"), text...))
}

// text returns the step and the text of a token.
func (o *signInOrigin) text(token string) (step byte, text string) {
	b, _ := base64.StdEncoding.DecodeString(token)
	if o.opaque {
		fmt.Sscanf(string(b), "step %d ", &step)
		return step, string(b[min(len(b), 7):])
	}
	if len(b) < 12 {
		return 0, ""
	}
	return b[8], string(b[12:])
}

func (o *signInOrigin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	d := r.Context().Value(doorKey{}).(*door)
	d.mu.Lock()
	defer d.mu.Unlock()
	if token, sent := strings.CutPrefix(r.Header.Get("Authorization"), o.scheme+" "); sent {
		if r.ProtoMajor != 1 {
			o.t.Errorf("credentials for the connection came over %s", r.Proto)
		}
		d.user = ""
		switch step, text := o.text(token); step {
		case 1:
			d.challenge = fmt.Sprint("challenge", o.last.Add(1))
			w.Header().Set("WWW-Authenticate", o.scheme+" "+o.token(2, d.challenge))
			http.Error(w, "go on", 401)
			return
		case 3:
			user, answer, _ := strings.Cut(text, " ")
			if answer == d.challenge && answer != "" {
				d.user = user
			}
			d.challenge = ""
		}
	}
	if d.user == "" {
		w.Header().Add("WWW-Authenticate", `Basic realm="a, NTLM b"`)
		w.Header().Add("WWW-Authenticate", o.scheme)
		http.Error(w, "who are you?", 401)
		return
	}
	w.Header().Set("Cache-Control", "max-age=60")
	fmt.Fprintf(w, "hello %s", d.user)
}

// send sends a request with credentials, "" for none.
func (o *signInOrigin) send(c *http.Client, method, url, credentials string) (status int, text, token string) {
	q, _ := http.NewRequest(method, url, nil)
	if method == "POST" {
		q, _ = http.NewRequest(method, url, strings.NewReader(strings.Repeat("body ", 100)))
	}
	if credentials != "" {
		q.Header.Set("Authorization", o.scheme+" "+credentials)
	}
	s, err := c.Do(q)
	if err != nil {
		return 0, err.Error(), ""
	}
	defer s.Body.Close()
	b, err := io.ReadAll(s.Body)
	if err != nil {
		return 0, err.Error(), ""
	}
	_, token, _ = strings.Cut(s.Header.Get("WWW-Authenticate"), o.scheme+" ")
	return s.StatusCode, string(b), token
}

// signIn goes through the steps and reports how it ended.
func (o *signInOrigin) signIn(c *http.Client, method, url, user string) error {
	if status, text, _ := o.send(c, method, url, ""); status != 401 {
		return fmt.Errorf("before signing in %s gets status %d, %q", user, status, text)
	}
	status, text, token := o.send(c, method, url, o.token(1, ""))
	_, challenge := o.text(token)
	if status != 401 || challenge == "" {
		return fmt.Errorf("the first step of %s: status %d, %q, token %q", user, status, text, token)
	}
	if status, text, _ = o.send(c, method, url, o.token(3, user+" "+challenge)); status != 200 || text != "hello "+user {
		return fmt.Errorf("the last step of %s: status %d, %q", user, status, text)
	}
	return nil
}

// visit signs in, and looks who is greeted then. gaveUp says that c gave its connection up, as
// net/http does where a machine is busy, and the sign-in with it.
func (o *signInOrigin) visit(c, stranger *http.Client, method, url, user string) (err error, gaveUp bool) {
	defer c.CloseIdleConnections()
	var dialed atomic.Int64
	tr := c.Transport.(*http.Transport)
	tr.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		dialed.Add(1)
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
	err = o.signIn(c, method, url, user)
	for range 2 {
		if err != nil {
			break
		}
		if status, text, _ := o.send(c, method, url, ""); status != 200 || text != "hello "+user {
			err = fmt.Errorf("%s after signing in: status %d, %q", user, status, text)
		}
		if status, text, _ := o.send(stranger, method, url, ""); status != 401 {
			return fmt.Errorf("a stranger after %s: status %d, %q", user, status, text), false
		}
	}
	return err, dialed.Load() > 1
}

// NTLM and Negotiate sign in a connection: it must not serve anybody else.
func TestAConnectionOnWhichAClientSignsInServesNobodyElse(t *testing.T) {
	type house struct {
		r       *rig
		browser func() *http.Client // one with a connection of its own
		url     string
	}
	w := newWorld(t)
	secure := func(r *rig, http2 bool) func() *http.Client {
		return func() *http.Client {
			c := r.browser(w)
			tr := c.Transport.(*http.Transport)
			if tr.ForceAttemptHTTP2 = http2; !http2 {
				tr.TLSClientConfig.NextProtos = []string{"http/1.1"}
			}
			return c
		}
	}
	plain := func(r *rig) func() *http.Client {
		return func() *http.Client {
			return r.client()
		}
	}
	for _, tt := range []struct {
		name string
		open func(t *testing.T, o *signInOrigin) house
	}{
		{"plain", func(t *testing.T, o *signInOrigin) house {
			r := start(t, Config{}, Engine{})
			return house{r, plain(r), "http://" + o.serve(nil, false) + "/"}
		}},
		{"behind a parent", func(t *testing.T, o *signInOrigin) house {
			up := start(t, Config{}, Engine{})
			r := start(t, Config{Upstream: upstream.Config{Parent: "http://" + up.addr}}, Engine{})
			return house{r, plain(r), "http://" + strings.Replace(o.serve(nil, false), "localhost", "127.0.0.1", 1) + "/"}
		}},
		{"decrypted, HTTP/1.1", func(t *testing.T, o *signInOrigin) house {
			r := start(t, Config{}, Engine{Intercept: w.in})
			return house{r, secure(r, false), "https://" + o.serve(&tls.Config{Certificates: []tls.Certificate{w.leaf(t, nil)}}, false) + "/"}
		}},
		{"HTTP/2 client, HTTP/1.1 origin", func(t *testing.T, o *signInOrigin) house {
			r := start(t, Config{}, Engine{Intercept: w.in})
			return house{r, secure(r, true), "https://" + o.serve(&tls.Config{Certificates: []tls.Certificate{w.leaf(t, nil)}}, false) + "/"}
		}},
		{"HTTP/2 client, HTTP/2 origin", func(t *testing.T, o *signInOrigin) house {
			r := start(t, Config{}, Engine{Intercept: w.in})
			return house{r, secure(r, true), "https://" + o.serve(&tls.Config{Certificates: []tls.Certificate{w.leaf(t, nil)}}, true) + "/"}
		}},
		{"HTTP/2 client, origin that asks for a certificate", func(t *testing.T, o *signInOrigin) house {
			r := start(t, Config{}, Engine{Intercept: w.in})
			return house{r, secure(r, true), "https://" + o.serve(&tls.Config{Certificates: []tls.Certificate{w.leaf(t, nil)}, ClientAuth: tls.RequestClientCert}, true) + "/"}
		}},
	} {
		for scheme, method := range map[string]string{"NTLM": "GET", "Negotiate": "POST"} {
			t.Run(tt.name+", "+scheme+", "+method, func(t *testing.T) {
				t.Parallel()
				o := &signInOrigin{t: t, scheme: scheme}
				h := tt.open(t, o)
				stranger := h.browser()
				var wg sync.WaitGroup
				for i := range 12 {
					wg.Go(func() {
						for k := range 5 {
							user := fmt.Sprintf("user%d-%d", i, k)
							var err error
							for try, gaveUp := 0, true; gaveUp && try < 5; try++ {
								if err, gaveUp = o.visit(h.browser(), stranger, method, h.url, user); err == nil {
									break
								}
							}
							if err != nil {
								t.Error(err)
							}
						}
					})
				}
				wg.Wait()
			})
		}
	}
}

// The connections end with that of the client.
func TestASignedInConnectionEndsWithTheClient(t *testing.T) {
	o := &signInOrigin{t: t, scheme: "NTLM"}
	url := "http://" + o.serve(nil, false) + "/"
	r := start(t, Config{}, Engine{})
	c := r.client()
	if err := o.signIn(c, "GET", url, "anna"); err != nil {
		t.Fatal(err)
	}
	if n := o.open.Load(); n != 1 {
		t.Errorf("%d connections to the origin while the client is there, want 1", n)
	}
	if n := r.Stats().UpstreamIdle; n != 0 {
		t.Errorf("%d connections in the pool, want none", n)
	}
	c.CloseIdleConnections()
	for end := time.Now().Add(10 * time.Second); o.open.Load() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d connections to the origin after the client has gone", o.open.Load())
		}
	}
}

// Streams of one client sign in at once. None of them takes the step of another, whether the
// tokens are those of NTLM or unknown.
func TestStreamsSignInBesideEachOther(t *testing.T) {
	w := newWorld(t)
	for _, opaque := range []bool{false, true} {
		for _, onePath := range []bool{false, true} {
			t.Run(fmt.Sprintf("opaque %v, one path %v", opaque, onePath), func(t *testing.T) {
				o := &signInOrigin{t: t, scheme: "NTLM", opaque: opaque}
				at := "https://" + o.serve(&tls.Config{Certificates: []tls.Certificate{w.leaf(t, nil)}}, false) + "/"
				r := start(t, Config{}, Engine{Intercept: w.in})
				c := r.browser(w)
				c.Transport.(*http.Transport).ForceAttemptHTTP2 = true
				o.send(c, "GET", at, "") // the connection
				var wg sync.WaitGroup
				for i := range 20 {
					wg.Go(func() {
						for k := range 3 {
							path := fmt.Sprintf("%d-%d", i, k)
							if onePath {
								path = ""
							}
							_, _, token := o.send(c, "GET", at+path, o.token(1, ""))
							_, challenge := o.text(token)
							if status, text, _ := o.send(c, "GET", at+path, o.token(3, "anna "+challenge)); status != 200 || text != "hello anna" {
								t.Errorf("sign-in %d-%d: status %d, %q after challenge %q", i, k, status, text, challenge)
							}
						}
					})
				}
				wg.Wait()
			})
		}
	}
}

// A proxy in front of us sends the requests of many people on one connection.
func TestAConnectionOfManyPeopleKeepsTheirSignInsApart(t *testing.T) {
	o := &signInOrigin{t: t, scheme: "Negotiate"}
	at := "http://" + o.serve(nil, false) + "/"
	r := start(t, Config{Trusted: loopback}, Engine{})
	person := func(addr string) *http.Client {
		return &http.Client{Transport: from{addr, &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: r.addr}), MaxConnsPerHost: 1}}}
	}
	anna := person("192.0.2.1")
	if err := o.signIn(anna, "GET", at, "anna"); err != nil {
		t.Fatal(err)
	}
	ben := &http.Client{Transport: from{"192.0.2.2", anna.Transport.(from).RoundTripper}}
	if status, text, _ := o.send(ben, "GET", at, ""); status != 401 {
		t.Errorf("another person on the same connection: status %d, %q", status, text)
	}
	if status, text, _ := o.send(anna, "GET", at, ""); status != 200 || text != "hello anna" {
		t.Errorf("the one who has signed in: status %d, %q", status, text)
	}
}

// from adds the address of a client to its requests.
type from struct {
	addr string
	http.RoundTripper
}

func (f from) RoundTrip(q *http.Request) (*http.Response, error) {
	q.Header.Set("X-Forwarded-For", f.addr)
	return f.RoundTripper.RoundTrip(q)
}

// An origin that speaks HTTP/2 only gets credentials for the connection over one that no other
// client uses.
func TestCredentialsForAnOriginOfHTTP2AloneHaveTheirOwnConnection(t *testing.T) {
	w := newWorld(t)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, q *http.Request) { io.WriteString(rw, q.RemoteAddr) }))
	s.EnableHTTP2 = true
	s.TLS = &tls.Config{Certificates: []tls.Certificate{w.leaf(t, nil)}}
	s.TLS.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return &tls.Config{Certificates: s.TLS.Certificates, NextProtos: []string{"h2"}}, nil
	}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	at := strings.Replace(s.URL, "127.0.0.1", "localhost", 1)
	r := start(t, Config{}, Engine{Intercept: w.in})
	ask := func(c *http.Client, credentials string) string {
		t.Helper()
		q, _ := http.NewRequest("GET", at, nil)
		if credentials != "" {
			q.Header.Set("Authorization", credentials)
		}
		res, err := c.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, _ := io.ReadAll(res.Body)
		if res.StatusCode != 200 {
			t.Fatalf("status %d: %s", res.StatusCode, b)
		}
		return string(b)
	}
	anna, ben, carl := r.browser2(w), r.browser2(w), r.browser2(w)
	of := map[string]string{}
	for _, x := range []struct {
		who         string
		c           *http.Client
		credentials string
	}{{"anna", anna, "Negotiate YII="}, {"ben", ben, "Negotiate YIJ="}, {"carl", carl, ""}} {
		for range 2 {
			at := ask(x.c, x.credentials)
			if who := of[at]; who != "" && who != x.who {
				t.Errorf("%s's request came over the connection of %s", x.who, who)
			}
			of[at] = x.who
		}
	}
	if len(of) != 3 {
		t.Errorf("three clients used the connections %v, want one each", of)
	}
}
