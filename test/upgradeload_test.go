package test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"shuultuur/intercept"
	"shuultuur/test/cert"
)

// An upgradeOrigin answers requests, requests over TLS with HTTP/2, and WebSockets.
type upgradeOrigin struct {
	plain, secure *httptest.Server
	roots         *x509.CertPool // certificates that clients trust: those of the origin, the gateway and its name server
}

const ferry = "the ferry sails"

// newUpgradeOrigin starts the origin, and gives s the certificates that its settings name.
func newUpgradeOrigin(s *shipped) *upgradeOrigin {
	s.t.Helper()
	answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "websocket" {
			echoFrames(w)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, ferry)
	})
	o := &upgradeOrigin{plain: httptest.NewServer(answer), secure: httptest.NewUnstartedServer(answer), roots: x509.NewCertPool()}
	o.secure.EnableHTTP2 = true
	o.secure.StartTLS()
	s.t.Cleanup(o.plain.Close)
	s.t.Cleanup(o.secure.Close)
	o.roots.AddCert(o.secure.Certificate())
	s.write("origin.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: o.secure.Certificate().Raw})))
	root, err := intercept.NewRoot(intercept.RootConfig{})
	if err == nil {
		err = root.Write(filepath.Join(s.dir, "root.pem"), false)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	export, err := root.Export("pem", "")
	if err != nil {
		s.t.Fatal(err)
	}
	cert.Files(s.t, s.dir, "127.0.0.1")
	if !o.roots.AppendCertsFromPEM(export) || !o.roots.AppendCertsFromPEM([]byte(s.read("cert.pem"))) {
		s.t.Fatal("no certificates")
	}
	return o
}

// echoFrames takes over the connection and sends back every byte, masked or not: the test
// compares bytes.
func echoFrames(w http.ResponseWriter) {
	c, rw, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer c.Close()
	fmt.Fprint(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n")
	for head := make([]byte, 6); ; { // a masked frame with less than 126 bytes
		if _, err := io.ReadFull(rw, head); err != nil {
			return
		}
		text := make([]byte, head[1]&0x7f)
		if _, err := io.ReadFull(rw, text); err != nil {
			return
		}
		for i := range text {
			text[i] ^= head[2+i%4]
		}
		if _, err := c.Write(append([]byte{head[0], byte(len(text))}, text...)); err != nil {
			return
		}
	}
}

// begin starts clients of every kind, which run until ctx ends.
func (l *flood) begin(ctx context.Context, s *shipped) *sync.WaitGroup {
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() { l.browse(ctx, s.proxy, s.origin.plain.URL, true) })
	}
	all.Go(func() { l.browse(ctx, s.proxy, s.origin.plain.URL, false) })
	all.Go(func() { l.encrypted(ctx, s.proxy, s.origin, "127.0.0.1") })
	all.Go(func() { l.encrypted(ctx, s.proxy, s.origin, "127.0.0.2") })
	all.Go(func() { l.chat(ctx, s.proxy, s.origin.plain.URL) })
	for range 3 {
		all.Go(func() { l.ask(ctx, "udp", s.dns) })
	}
	all.Go(func() { l.ask(ctx, "tcp", s.dns) })
	all.Go(func() { l.askKept(ctx, func() (net.Conn, error) { return net.Dial("tcp", s.dns) }) })
	all.Go(func() {
		l.askKept(ctx, func() (net.Conn, error) { return tls.Dial("tcp", s.dot, &tls.Config{RootCAs: s.origin.roots}) })
	})
	all.Go(func() { l.askHTTPS(ctx, s.doh, s.origin) })
	all.Go(func() { l.askHTTP3(ctx, s.doh, s.origin) })
	all.Go(func() { l.askQUIC(ctx, s.doq, s.origin) })
	l.everywhere(ctx, s, &all)
	return &all
}

// vote sends votes from block pages until stop, over kept connections.
func (l *flood) vote(ctx context.Context, proxy string) {
	tr := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: proxy}), IdleConnTimeout: 5 * time.Second}
	defer tr.CloseIdleConnections()
	c := &http.Client{Transport: tr, Timeout: time.Minute}
	for ctx.Err() == nil {
		page, err := askedFor(c, "GET", "http://bet.example/", nil)
		token := regexp.MustCompile(`name="token" value="([^"]+)"`).FindStringSubmatch(page)
		if token == nil {
			l.fail("a block page without a token: %.80q, %v", page, err)
			continue
		}
		answer, err := askedFor(c, "POST", "http://bet.example/.well-known/shuultuur/votes", url.Values{"token": {token[1]}, "vote": {"wrong"}})
		if err != nil || !strings.Contains(answer, "Your request has been sent") {
			l.fail("a vote: %.80q, %v", answer, err)
			continue
		}
		l.votes.Add(1)
	}
}

// askedFor returns the page that a browser gets, whatever its status.
func askedFor(c *http.Client, method, to string, form url.Values) (string, error) {
	r, err := http.NewRequest(method, to, strings.NewReader(form.Encode()))
	if err != nil {
		return "", err
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	r.Header.Set("Accept", "text/html")
	res, err := c.Do(r)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return string(b), err
}

// counted returns how many votes are in the database.
func (s *shipped) counted() (n int64) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(s.dir, "data", "votes.db")+"?mode=ro")
	if err != nil {
		s.t.Fatal(err)
	}
	defer db.Close()
	if err := db.QueryRow("SELECT count(*) FROM vote").Scan(&n); err != nil {
		s.t.Log(err) // it may be busy
	}
	return n
}

// chat sends messages over one WebSocket until stop, and expects each back.
func (l *flood) chat(ctx context.Context, proxy, origin string) {
	c, err := net.Dial("tcp", proxy)
	if err != nil {
		l.fail("WebSocket: %v", err)
		return
	}
	defer c.Close()
	r := bufio.NewReader(c)
	fmt.Fprintf(c, "GET %s/chat HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", origin, strings.TrimPrefix(origin, "http://"))
	if res, err := http.ReadResponse(r, nil); err != nil || res.StatusCode != http.StatusSwitchingProtocols {
		l.fail("WebSocket: %+v, %v", res, err)
		return
	}
	for n := 0; ctx.Err() == nil; n++ {
		text := fmt.Sprintf("message %d", n)
		c.SetDeadline(time.Now().Add(time.Minute))
		_, err := c.Write(append([]byte{0x81, 0x80 | byte(len(text)), 0, 0, 0, 0}, text...))
		got := make([]byte, 2+len(text))
		if err == nil {
			_, err = io.ReadFull(r, got)
		}
		if err != nil || string(got[2:]) != text {
			l.fail("message %d over a WebSocket: %q, %v", n, got, err)
			return
		}
		l.messages.Add(1)
		pause(ctx)
	}
}

// pause leaves the processor to the other clients, which send again as soon as they have
// an answer.
func pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(5 * time.Millisecond):
	}
}

// encrypted sends requests with TLS through the proxy until stop: over one tunnel,
// or, from the address whose tunnels are decrypted, with HTTP/2.
func (l *flood) encrypted(ctx context.Context, proxy string, o *upgradeOrigin, from string) {
	decrypted := from != "127.0.0.1"
	dials := 0
	d := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	tr := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: proxy}), ForceAttemptHTTP2: true,
		TLSClientConfig: &tls.Config{RootCAs: o.roots},
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			dials++
			return d.DialContext(ctx, network, addr)
		}}
	defer tr.CloseIdleConnections()
	c := &http.Client{Transport: tr, Timeout: time.Minute}
	for ctx.Err() == nil {
		res, err := c.Post(o.secure.URL, "text/plain", strings.NewReader("a word"))
		if err != nil {
			l.fail("TLS from %s: %v", from, err)
			continue
		}
		b, err := io.ReadAll(res.Body)
		res.Body.Close()
		own := !res.TLS.PeerCertificates[0].Equal(o.secure.Certificate())
		if err != nil || res.StatusCode != 200 || string(b) != ferry || res.ProtoMajor != 2 || own != decrypted {
			l.fail("TLS from %s: status %d, %q, %s, decrypted %v, %v", from, res.StatusCode, b, res.Proto, own, err)
		}
		l.requests.Add(1)
		pause(ctx)
	}
	if !decrypted && dials != 1 {
		l.fail("the tunnel was opened %d times", dials)
	}
}

// askKept sends queries over one connection until stop, and over another when it ends between two.
func (l *flood) askKept(ctx context.Context, dial func() (net.Conn, error)) {
	var c net.Conn
	query := append([]byte{0, byte(len(desk))}, desk...)
	l.askOnce(ctx, "over a kept connection", func() error {
		if c == nil {
			opened, err := dial()
			if err != nil {
				return err
			}
			c = opened
		}
		c.SetDeadline(time.Now().Add(time.Minute))
		b := make([]byte, 512)
		n, err := 0, error(nil)
		if _, err = c.Write(query); err == nil {
			if _, err = io.ReadFull(c, b[:2]); err == nil {
				n, err = io.ReadFull(c, b[:int(b[0])<<8|int(b[1])])
			}
		}
		if err == nil && !bytes.Contains(b[:n], []byte{10, 0, 0, 9}) {
			err = fmt.Errorf("the answer is %q", b[:n])
		}
		if err != nil {
			c.Close()
			c = nil
		}
		return err
	})
	if c != nil {
		c.Close()
	}
}

// askOnce sends queries until stop, each once: no client of a test sends again what an upgrade has lost.
func (l *flood) askOnce(ctx context.Context, how string, ask func() error) {
	answered := new(atomic.Int64)
	l.mu.Lock()
	l.kept = append(l.kept, answered)
	l.mu.Unlock()
	for ctx.Err() == nil {
		if err := ask(); err != nil {
			l.fail("a query %s: %v", how, err)
		}
		l.queries.Add(1)
		answered.Add(1)
		pause(ctx)
	}
}

// converse sends the same request until stop, each once, over a connection that it keeps for as long as
// the server says. Each connection begins with first.
func (l *flood) converse(ctx context.Context, how, server, first, request string, good func(*http.Response, string) bool) {
	var c net.Conn
	var r *bufio.Reader
	l.askOnce(ctx, "to "+how, func() (err error) {
		if c == nil {
			if c, err = net.Dial("tcp", server); err != nil {
				return err
			}
			if _, err = io.WriteString(c, first); err != nil {
				return err
			}
			r = bufio.NewReader(c)
		}
		c.SetDeadline(time.Now().Add(time.Minute))
		var res *http.Response
		text := []byte(nil)
		if _, err = io.WriteString(c, request); err == nil {
			if first, _ := r.Peek(4); string(first) == "ICAP" {
				_, _ = r.Discard(4)
				r = bufio.NewReader(io.MultiReader(strings.NewReader("HTTP"), r))
			}
			if res, err = http.ReadResponse(r, nil); err == nil {
				text, err = io.ReadAll(res.Body)
				res.Body.Close()
			}
		}
		if err == nil && !good(res, string(text)) {
			err = fmt.Errorf("%s, %.100q", res.Status, text)
		}
		if err != nil || res.Close {
			c.Close()
			c = nil
		}
		return err
	})
	if c != nil {
		c.Close()
	}
}

// everywhere starts clients of the listeners that are not for browsing or names.
func (l *flood) everywhere(ctx context.Context, s *shipped, all *sync.WaitGroup) {
	status := func(want int) func(*http.Response, string) bool {
		return func(res *http.Response, _ string) bool { return res.StatusCode == want }
	}
	refused := "GET http://bet.example/ HTTP/1.1\r\nHost: bet.example\r\n\r\n"
	head := "GET http://open.example/ HTTP/1.1\r\nHost: open.example\r\n\r\n"
	for _, x := range []struct {
		how, server, first, request string
		want                        int
	}{
		{"the pages", s.admin, "", "POST /judge HTTP/1.1\r\nHost: " + s.admin + "\r\nContent-Length: 0\r\n\r\n", 0},
		{"the pages for clients", s.portal, "", "GET /proxy.pac HTTP/1.1\r\nHost: " + s.portal + "\r\n\r\n", 200},
		{"the proxy behind another", s.proxy, "PROXY TCP4 192.0.2.7 192.0.2.8 4000 3128\r\n", refused, 403},
		{"the votes", s.ballot, "", "GET /votes/01890a5d-ac96-774b-bcce-b302099a8057 HTTP/1.1\r\nHost: " + s.ballot + "\r\n\r\n", 0}, // a vote on its way is accepted, another unknown
		{"ICAP", s.icap, "", fmt.Sprintf("REQMOD icap://127.0.0.1/reqmod ICAP/1.0\r\nHost: x\r\nAllow: 204\r\nEncapsulated: req-hdr=0, null-body=%d\r\n\r\n%s", len(head), head), 204},
	} {
		good := status(x.want)
		if x.want == 0 {
			good = func(res *http.Response, _ string) bool { return res.StatusCode < 500 }
		}
		all.Go(func() { l.converse(ctx, x.how, x.server, x.first, x.request, good) })
	}
	all.Go(func() { l.helper(ctx, s) })
}

// helper asks what Squid asks: a helper that runs all the time.
func (l *flood) helper(ctx context.Context, s *shipped) {
	cmd := exec.Command(s.program, "squid", "acl", "-socket", filepath.Join(s.dir, "squid.sock"))
	in, err := cmd.StdinPipe()
	if err != nil {
		l.fail("the helper: %v", err)
		return
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		l.fail("the helper: %v", err)
		return
	}
	answers := bufio.NewReader(out)
	l.askOnce(ctx, "from Squid", func() error {
		if _, err := io.WriteString(in, "1 127.0.0.1 - GET http://bet.example/\n"); err != nil {
			return err
		}
		line, err := answers.ReadString('\n')
		if err == nil && !strings.HasPrefix(line, "1 OK") && !strings.HasPrefix(line, "1 ERR") {
			err = fmt.Errorf("the answer is %q", line)
		}
		return err
	})
	in.Close()
	_ = cmd.Wait() // it ends with its questions
}

// reconnected returns a function that reports whether every client that keeps a connection
// has had an answer since this call. Before that, another upgrade may close a connection
// twice during one query, which clients may not expect of one upgrade.
func (l *flood) reconnected() func() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := slices.Clone(l.kept)
	before := make([]int64, len(all))
	for i, n := range all {
		before[i] = n.Load()
	}
	return func() bool {
		for i, n := range all {
			if n.Load() < before[i]+2 { // the first may have been sent before
				return false
			}
		}
		return true
	}
}

// askQUIC sends queries over one connection until stop (RFC 9250).
func (l *flood) askQUIC(ctx context.Context, server string, o *upgradeOrigin) {
	var c *quic.Conn
	l.askOnce(ctx, "with QUIC", func() error {
		limit, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer stop()
		if c == nil {
			opened, err := quic.DialAddr(limit, server, &tls.Config{RootCAs: o.roots, NextProtos: []string{"doq"}}, nil)
			if err != nil {
				return err
			}
			c = opened
		}
		st, err := c.OpenStreamSync(limit)
		var b []byte
		if err == nil {
			st.SetDeadline(time.Now().Add(time.Minute))
			_, _ = st.Write(append([]byte{0, byte(len(desk)), 0, 0}, desk[2:]...)) // the ID is 0
			st.Close()
			b, err = io.ReadAll(st)
		}
		if err == nil && !bytes.Contains(b, []byte{10, 0, 0, 9}) {
			err = fmt.Errorf("the answer is %q", b)
		}
		if err != nil {
			_ = c.CloseWithError(0, "")
			c = nil
		}
		return err
	})
	if c != nil {
		_ = c.CloseWithError(0, "")
	}
}

// askHTTP3 sends queries with HTTP/3 until stop.
func (l *flood) askHTTP3(ctx context.Context, server string, o *upgradeOrigin) {
	tr := &http3.Transport{TLSClientConfig: &tls.Config{RootCAs: o.roots}}
	defer tr.Close()
	c := &http.Client{Transport: tr, Timeout: time.Minute}
	l.askOnce(ctx, "with HTTP/3", func() error {
		res, err := c.Post("https://"+server+"/dns-query", "application/dns-message", strings.NewReader(desk))
		if err != nil {
			return err
		}
		b, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err == nil && (res.ProtoMajor != 3 || !bytes.Contains(b, []byte{10, 0, 0, 9})) {
			err = fmt.Errorf("%s %s, %q", res.Proto, res.Status, b)
		}
		return err
	})
}

// askHTTPS sends queries with HTTPS until stop.
func (l *flood) askHTTPS(ctx context.Context, server string, o *upgradeOrigin) {
	tr := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: o.roots}}
	defer tr.CloseIdleConnections()
	c := &http.Client{Transport: tr, Timeout: time.Minute}
	for ctx.Err() == nil {
		res, err := c.Post("https://"+server+"/dns-query", "application/dns-message", strings.NewReader(desk))
		if err != nil {
			l.fail("query by HTTPS: %v", err)
			continue
		}
		b, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.ProtoMajor != 2 || !bytes.Contains(b, []byte{10, 0, 0, 9}) {
			l.fail("query by HTTPS: %s %s, %q, %v", res.Proto, res.Status, b, err)
		}
		l.queries.Add(1)
		pause(ctx)
	}
}
