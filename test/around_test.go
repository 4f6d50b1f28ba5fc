package test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"shuultuur/intercept"
	"shuultuur/test/cert"
	"shuultuur/test/peer"
)

// The lab of ways around: the public unblockers run here, and their protocols are spoken to them through
// the gateway. Each case is tried without the gateway, too: it must deliver the page there.

const aroundSettings = `
listen: {proxy: 127.0.0.1:0, admin: 127.0.0.1:0}
data: data
lists:
  own: {format: domains, path: own.txt, category: adult}
checks:
  category: {deep: true, lists: [own]}
intercept: {root: root.pem, trust: [origin.pem]}
policies:
  - name: readers
    decrypt: true
    rules:
      - {name: ways around, action: block, category: [around/bare, around/wisp, around/tunnel, around/doh, around/rewriter]}
      - {name: adult, action: block, category: [adult]}
proxy: {parent: "http://%s", connect-ports: [80, 443]}
`

// delivered is the number of bytes of the page from which on it counts as delivered.
const delivered = 1024

// A way is how a client reaches the internet.
type way struct {
	name    string
	gateway string // address of the proxy; "" for none
	tls, h2 bool
	trust   *x509.CertPool
	http    string // where plain requests lead without the gateway
}

// dial connects to a host: through the gateway by CONNECT, or straight.
func (w *way) dial(ctx context.Context, host string, protocols ...string) (net.Conn, error) {
	if w.gateway == "" {
		return net.Dial("tcp", w.http)
	}
	c, err := net.Dial("tcp", w.gateway)
	if err != nil {
		return nil, err
	}
	c.SetDeadline(time.Now().Add(3 * time.Second))
	port := 80
	if w.tls {
		port = 443
	}
	fmt.Fprintf(c, "CONNECT %s:%d HTTP/1.1\r\nHost: %[1]s:%[2]d\r\n\r\n", host, port)
	r := bufio.NewReader(c)
	s, err := http.ReadResponse(r, nil)
	if err != nil {
		c.Close()
		return nil, err
	}
	if s.StatusCode != 200 {
		c.Close()
		return nil, fmt.Errorf("CONNECT: %s", s.Status)
	}
	if !w.tls {
		return c, nil
	}
	tc := tls.Client(c, &tls.Config{ServerName: host, RootCAs: w.trust, NextProtos: protocols})
	if err := tc.HandshakeContext(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return tc, nil
}

// transport is that of ordinary requests.
func (w *way) transport() http.RoundTripper {
	if w.h2 {
		return w.overHTTP2()
	}
	dial := func(ctx context.Context, _, addr string) (net.Conn, error) {
		host, _, _ := net.SplitHostPort(addr)
		return w.dial(ctx, host)
	}
	return &http.Transport{DialContext: dial, DialTLSContext: dial, DisableKeepAlives: true}
}

func (w *way) overHTTP2() *http2.Transport {
	return &http2.Transport{DialTLSContext: func(ctx context.Context, _, addr string, _ *tls.Config) (net.Conn, error) {
		host, _, _ := net.SplitHostPort(addr)
		return w.dial(ctx, host, "h2")
	}}
}

func (w *way) scheme() string {
	if w.tls {
		return "https://"
	}
	return "http://"
}

// get asks for a path with fields, and returns the body of the answer.
func (w *way) get(host, path string, fields ...string) []byte {
	q, err := http.NewRequest("GET", w.scheme()+host+path, nil)
	if err != nil {
		return nil
	}
	for i := 0; i < len(fields); i += 2 {
		q.Header[fields[i]] = append(q.Header[fields[i]], fields[i+1])
	}
	return w.do(q)
}

// post sends a form, and returns the body of the answer.
func (w *way) post(host, path, typ, form string) []byte {
	q, err := http.NewRequest("POST", w.scheme()+host+path, strings.NewReader(form))
	if err != nil {
		return nil
	}
	q.Header.Set("Content-Type", typ)
	return w.do(q)
}

func (w *way) do(q *http.Request) []byte {
	t := w.transport()
	ctx, cancel := context.WithTimeout(q.Context(), 3*time.Second)
	defer cancel()
	defer t.(interface{ CloseIdleConnections() }).CloseIdleConnections()
	s, err := t.RoundTrip(q.WithContext(ctx))
	if err != nil {
		return nil
	}
	defer s.Body.Close()
	b, _ := io.ReadAll(s.Body)
	if to := s.Header.Get("Location"); to != "" && q.Method == "GET" && len(b) < delivered && q.Header.Get("X-Again") == "" {
		if u, err := q.URL.Parse(to); err == nil && u.Hostname() == q.URL.Hostname() {
			u.Scheme = q.URL.Scheme
			q = q.Clone(context.Background())
			q.URL, q.Header["X-Again"] = u, []string{"1"}
			return w.do(q)
		}
	}
	return b
}

// A socket is a WebSocket of a client.
type socket struct {
	r *bufio.Reader
	w io.Writer
	c io.Closer
}

// socket opens a WebSocket; nil if that is refused.
func (w *way) socket(host, path string, fields ...string) *socket {
	if w.h2 {
		return w.socket2(host, path, fields...)
	}
	c, err := w.dial(context.Background(), host, "http/1.1")
	if err != nil {
		return nil
	}
	c.SetDeadline(time.Now().Add(3 * time.Second))
	head := "GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\nOrigin: " + w.scheme() + host + "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
	for i := 0; i < len(fields); i += 2 {
		head += fields[i] + ": " + fields[i+1] + "\r\n"
	}
	io.WriteString(c, head+"\r\n")
	r := bufio.NewReader(c)
	if s, err := http.ReadResponse(r, nil); err != nil || s.StatusCode != 101 {
		c.Close()
		return nil
	}
	return &socket{r, c, c}
}

// socket2 opens one in a stream of HTTP/2 (RFC 8441).
func (w *way) socket2(host, path string, fields ...string) *socket {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	in, out := io.Pipe()
	q, err := http.NewRequestWithContext(ctx, http.MethodConnect, "https://"+host+path, in)
	if err != nil {
		cancel()
		return nil
	}
	q.Header[":protocol"] = []string{"websocket"}
	q.Header.Set("Sec-WebSocket-Version", "13")
	q.Header.Set("Origin", "https://"+host)
	for i := 0; i < len(fields); i += 2 {
		q.Header[fields[i]] = append(q.Header[fields[i]], fields[i+1])
	}
	t := w.overHTTP2()
	s, err := t.RoundTrip(q)
	if err != nil || s.StatusCode != 200 {
		cancel()
		return nil
	}
	return &socket{bufio.NewReader(s.Body), out, closer(func() { cancel(); t.CloseIdleConnections() })}
}

type closer func()

func (c closer) Close() error { c(); return nil }

// send sends a message, binary or of text.
func (s *socket) send(text bool, p []byte) {
	b := []byte{0x82, 0x80}
	if text {
		b[0] = 0x81
	}
	if n := len(p); n < 126 {
		b[1] |= byte(n)
	} else {
		b[1] |= 126
		b = binary.BigEndian.AppendUint16(b, uint16(n))
	}
	b = append(b, 0, 0, 0, 0)
	s.w.Write(append(b, p...))
}

// next returns the next message.
func (s *socket) next() ([]byte, error) {
	var all []byte
	for {
		var h [2]byte
		if _, err := io.ReadFull(s.r, h[:]); err != nil {
			return nil, err
		}
		n := uint64(h[1] & 0x7F)
		var size [8]byte
		switch n {
		case 126:
			io.ReadFull(s.r, size[6:])
			n = binary.BigEndian.Uint64(size[:])
		case 127:
			io.ReadFull(s.r, size[:])
			n = binary.BigEndian.Uint64(size[:])
		}
		p := make([]byte, n)
		if _, err := io.ReadFull(s.r, p); err != nil {
			return nil, err
		}
		switch h[0] & 0xF {
		case 8:
			return nil, io.EOF
		case 9, 10:
			continue
		}
		if all = append(all, p...); h[0]&0x80 != 0 {
			return all, nil
		}
	}
}

// A carrier is a connection in the messages of a socket.
type carrier struct {
	s      *socket
	before []byte                       // of each message that is sent
	opened func(p []byte) (data []byte) // what a received message carries
	rest   []byte
	text   bool
}

func (c *carrier) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		n := min(len(rest), 16<<10)
		c.s.send(c.text, append(slices.Clone(c.before), rest[:n]...))
		rest = rest[n:]
	}
	return len(p), nil
}

func (c *carrier) Read(p []byte) (int, error) {
	for len(c.rest) == 0 {
		m, err := c.s.next()
		if err != nil {
			return 0, err
		}
		c.rest = m
		if c.opened != nil {
			c.rest = c.opened(m)
		}
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

func (c *carrier) Close() error                     { return c.s.c.Close() }
func (c *carrier) LocalAddr() net.Addr              { return nil }
func (c *carrier) RemoteAddr() net.Addr             { return nil }
func (c *carrier) SetDeadline(time.Time) error      { return nil }
func (c *carrier) SetReadDeadline(time.Time) error  { return nil }
func (c *carrier) SetWriteDeadline(time.Time) error { return nil }

// read asks for the page in a connection, with or without TLS.
func (c *carrier) read(name string, secure bool) []byte {
	defer c.Close()
	var conn net.Conn = c
	if secure {
		conn = tls.Client(c, &tls.Config{ServerName: name, InsecureSkipVerify: true})
	}
	if _, err := fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", name); err != nil {
		return nil
	}
	b, _ := io.ReadAll(conn)
	return b
}

// wisp reads the page by wisp. greet is sent before anything else.
func (w *way) wisp(host, path, target string, secure bool, greet [][]byte, fields ...string) []byte {
	s := w.socket(host, path, fields...)
	if s == nil {
		return nil
	}
	port := uint16(80)
	if secure {
		port = 443
	}
	if len(greet) > 0 {
		if _, err := s.next(); err != nil { // the server introduces itself
			return nil
		}
	}
	for _, p := range greet {
		s.send(false, p)
	}
	id := []byte{7, 0, 0, 0}
	c := append(append([]byte{1}, id...), 1)
	s.send(false, append(binary.LittleEndian.AppendUint16(c, port), target...))
	conn := &carrier{s: s, before: append([]byte{2}, id...), opened: func(p []byte) []byte {
		if len(p) > 5 && p[0] == 2 {
			return p[5:]
		}
		return nil
	}}
	return conn.read(target, secure)
}

// raw reads the page in a WebSocket that carries the bytes of one connection.
func (w *way) raw(host, path string, secure bool, fields ...string) []byte {
	s := w.socket(host, path, fields...)
	if s == nil {
		return nil
	}
	return (&carrier{s: s}).read("listed.test", secure)
}

// chat reads what a WebSocket of the page says, behind a first message if there is one.
func (w *way) chat(host, path, say string, fields ...string) (all []byte) {
	s := w.socket(host, path, fields...)
	if s == nil {
		return nil
	}
	defer s.c.Close()
	if say != "" {
		s.send(true, []byte(say))
	}
	for len(all) < 2*delivered {
		p, err := s.next()
		if err != nil {
			break
		}
		all = append(all, p...)
		s.send(true, []byte("more"))
	}
	return all
}

// xorCoded codes as Ultraviolet and Corrosion do.
func xorCoded(s string) string {
	b := []byte(s)
	for i := 1; i < len(b); i += 2 {
		b[i] ^= 2
	}
	return url.QueryEscape(string(b))
}

// shuffled exchanges letters as Rammerhead does.
func shuffled(s, dictionary string) string {
	const base = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz~-"
	b := []byte(s)
	for i, c := range b {
		if at := strings.IndexByte(base, c); at >= 0 {
			b[i] = dictionary[(at+i)%len(base)]
		}
	}
	return "_rhs" + string(b)
}

// rammerhead reads the page in a new session.
func (w *way) rammerhead(shuffle bool) []byte {
	const host = "rammerhead.test"
	id := string(w.get(host, "/newsession"))
	if len(id) != 32 {
		return nil
	}
	target := "http://listed.test/"
	if shuffle {
		w.get(host, "/editsession?enableShuffling=1&id="+id)
		var dictionary string
		if json.Unmarshal(w.get(host, "/api/shuffleDict?id="+id), &dictionary) != nil || len(dictionary) != 64 {
			return nil
		}
		target = shuffled(target, dictionary)
	}
	return w.get(host, "/"+id+"/"+target)
}

// posts reads the page by wstunnel's tunnel of requests.
func (w *way) posts(target string) []byte {
	const host = "wstunnel.test"
	text := "GET / HTTP/1.1\r\nHost: listed.test\r\nConnection: close\r\n\r\n"
	t := w.transport()
	defer t.(interface{ CloseIdleConnections() }).CloseIdleConnections()
	begin, _ := http.NewRequest("GET", w.scheme()+host+"/?dst="+target, nil)
	begin.Header["x-htundir"] = []string{"conn"}
	s, err := t.RoundTrip(begin)
	if err != nil {
		return nil
	}
	s.Body.Close()
	session := s.Header.Get("X-Htunsess")
	if session == "" {
		return nil
	}
	got := make(chan []byte, 1)
	go func() { got <- w.get(host, "/?dst="+target, "x-htundir", "recv", "x-htunsess", session) }()
	q, _ := http.NewRequest("POST", w.scheme()+host+"/", strings.NewReader(text))
	q.Header["x-htundir"], q.Header["x-htunsess"] = []string{"send"}, []string{session}
	w.do(q)
	return <-got
}

// An unblocking is a case of the lab.
type unblocking struct {
	name string
	read func(w *way) []byte
}

func unblockings() (all []unblocking) {
	add := func(name string, read func(w *way) []byte) { all = append(all, unblocking{name, read}) }
	const listed, secured = "http://listed.test/", "https://listed.test/"
	fields := func(more ...string) []string {
		return append([]string{"X-Bare-Headers", `{"Host":"listed.test"}`, "X-Bare-Forward-Headers", `[]`}, more...)
	}
	parts := []string{"X-Bare-Host", "listed.test", "X-Bare-Port", "80", "X-Bare-Protocol", "http:", "X-Bare-Path", "/"}
	// Servers that fetch (TompHTTP).
	for _, at := range [][2]string{{"bare.test", "/bare/"}, {"files.test", "/"}, {"nebula.test", "/b/"}} {
		host, prefix := at[0], at[1]
		add("bare 1 "+prefix, func(w *way) []byte { return w.get(host, prefix+"v1/", fields(parts...)...) })
		add("bare 2 "+prefix, func(w *way) []byte {
			return w.get(host, prefix+"v2/?cache=1", append([]string{"X-Bare-Headers", `{"Host":"listed.test"}`}, parts...)...)
		})
		for name, target := range map[string]string{"": listed, ", TLS": secured} {
			add("bare 3"+name+" "+prefix, func(w *way) []byte {
				return w.get(host, prefix+"v3/", "X-Bare-URL", target, "X-Bare-Headers", `{"Host":"listed.test"}`)
			})
		}
		add("bare 3 in pieces "+prefix, func(w *way) []byte {
			return w.get(host, prefix+"v3/", "X-Bare-URL", listed, "X-Bare-Headers-0", `;{"Host":`, "X-Bare-Headers-1", `;"listed.test"}`)
		})
		add("bare 3, socket "+prefix, func(w *way) []byte {
			return w.chat(host, prefix+"v3/", `{"type":"connect","remote":"ws://listed.test/","protocols":[],"headers":{"Host":"listed.test"},"forwardHeaders":[]}`)
		})
	}
	// Wisp, as epoxy, libcurl.js and others speak it.
	for _, at := range [][2]string{{"wisp.test", "/wisp/"}, {"wisp.test", "/a/"}, {"wispnode.test", "/wisp/"}, {"wispnode.test", "/"}} {
		host, path := at[0], at[1]
		for _, secure := range []bool{false, true} {
			name := fmt.Sprintf("wisp %s%s", host, path)
			if secure {
				name += ", TLS"
			}
			add(name, func(w *way) []byte { return w.wisp(host, path, "listed.test", secure, nil) })
		}
		add("wisp by address, TLS "+host+path, func(w *way) []byte {
			return w.wisp(host, path, "127.0.0.1", true, nil)
		})
	}
	add("wisp 2", func(w *way) []byte {
		info := append([]byte{5, 0, 0, 0, 0, 2, 0}, 1, 0, 0, 0, 0) // UDP
		return w.wisp("wisp.test", "/x/", "listed.test", true, [][]byte{info}, "Sec-WebSocket-Protocol", "wisp-v2")
	})
	// A connection for each WebSocket.
	for _, host := range []string{"wispnode.test"} { // that of wisp.test does not work
		add("wsproxy "+host, func(w *way) []byte { return w.raw(host, "/ws/listed.test:80", false) })
		add("wsproxy, TLS "+host, func(w *way) []byte { return w.raw(host, "/ws/listed.test:443", true) })
		add("wsproxy by address "+host, func(w *way) []byte { return w.raw(host, "/127.0.0.1:80", false) })
		add("wsproxy by address, TLS "+host, func(w *way) []byte { return w.raw(host, "/127.0.0.1:443", true) })
	}
	add("wsProxy", func(w *way) []byte { return w.raw("wsproxy.test", "/listed.test:80", false) })
	add("wsProxy by address", func(w *way) []byte { return w.raw("wsproxy.test", "/127.0.0.1:80", false) })
	add("wsProxy by address, TLS", func(w *way) []byte { return w.raw("wsproxy.test", "/127.0.0.1:443", true) })
	add("wstunnel", func(w *way) []byte {
		return w.raw("wstunnel.test", "/?dst=listed.test:80", false, "Sec-WebSocket-Protocol", "tunnel-protocol")
	})
	add("wstunnel by address, TLS", func(w *way) []byte {
		return w.raw("wstunnel.test", "/?dst=127.0.0.1:443", true, "Sec-WebSocket-Protocol", "tunnel-protocol")
	})
	add("wstunnel, requests", func(w *way) []byte { return w.posts("listed.test:80") })
	add("wstunnel, requests, by address", func(w *way) []byte { return w.posts("127.0.0.1:80") })
	// Pages that are rewritten.
	codecs := map[string]func(string) string{
		"plain":  url.QueryEscape,
		"xor":    xorCoded,
		"base64": func(s string) string { return url.QueryEscape(base64.StdEncoding.EncodeToString([]byte(s))) },
	}
	for codec, code := range codecs {
		host := "corrosion-" + codec + ".test"
		add("Corrosion "+codec, func(w *way) []byte { return w.get(host, "/service/"+code(listed)) })
		add("Corrosion, TLS "+codec, func(w *way) []byte { return w.get(host, "/service/"+code(secured)) })
		add("Corrosion, gateway "+codec, func(w *way) []byte { return w.get(host, "/service/gateway?url="+url.QueryEscape(secured)) })
	}
	b64 := base64.StdEncoding.EncodeToString
	add("Alloy", func(w *way) []byte { return w.get("alloy.test", "/get/"+b64([]byte("http://listed.test"))+"/") })
	add("Alloy, TLS", func(w *way) []byte { return w.get("alloy.test", "/get/"+b64([]byte("https://listed.test"))+"/") })
	add("Unblocker", func(w *way) []byte { return w.get("unblocker.test", "/proxy/"+listed) })
	add("Unblocker, TLS", func(w *way) []byte { return w.get("unblocker.test", "/proxy/"+secured) })
	add("Unblocker, socket", func(w *way) []byte { return w.chat("unblocker.test", "/proxy/"+listed, "") })
	add("Rammerhead", func(w *way) []byte { return w.rammerhead(false) })
	add("Rammerhead, shuffled", func(w *way) []byte { return w.rammerhead(true) })
	// Services for pages that may not ask themselves.
	for _, path := range []string{"/" + listed, "/" + secured} {
		add("CORS Anywhere "+path, func(w *way) []byte { return w.get("cors.test", path) })
	}
	for _, path := range []string{"/get?url=" + listed, "/raw?url=" + url.QueryEscape(secured), "/get?callback=f&url=" + url.QueryEscape(listed)} {
		add("allOrigins "+path, func(w *way) []byte { return w.get("allorigins.test", path) })
	}
	// Proxies of CGI, with the codings that they use, in the query, in the path and in forms.
	for coding, code := range map[string]func(string) string{
		"plain":    func(s string) string { return s },
		"base64":   func(s string) string { return b64([]byte(s)) },
		"reversed": func(s string) string { b := []byte(s); slices.Reverse(b); return string(b) },
		"hex":      func(s string) string { return hex.EncodeToString([]byte(s)) },
		"rot13": func(s string) string {
			return strings.Map(func(r rune) rune {
				if r|0x20 < 'a' || r|0x20 > 'z' {
					return r
				}
				return r&^31 + (r&31+12)%26 + 1
			}, s)
		},
		"codes": func(s string) string { return strings.Trim(strings.ReplaceAll(fmt.Sprint([]byte(s)), " ", ","), "[]") },
		"xor": func(s string) string {
			b := []byte(s)
			for i := range b {
				b[i] ^= "key"[i%3]
			}
			return base64.RawURLEncoding.EncodeToString(b)
		},
	} {
		for name, target := range map[string]string{"": listed, ", TLS": secured} {
			u := code(target)
			add("CGI, "+coding+name, func(w *way) []byte { return w.get("cgi.test", "/"+coding+"/?b=4&u="+url.QueryEscape(u)) })
			add("CGI, form, "+coding+name, func(w *way) []byte {
				return w.post("cgi.test", "/"+coding+"/", "application/x-www-form-urlencoded", "b=4&u="+url.QueryEscape(u))
			})
			add("CGI, JSON, "+coding+name, func(w *way) []byte {
				object, _ := json.Marshal(map[string]any{"b": 4, "u": u})
				return w.post("cgi.test", "/"+coding+"/", "application/json", string(object))
			})
			add("CGI, parts, "+coding+name, func(w *way) []byte {
				return w.post("cgi.test", "/"+coding+"/", "multipart/form-data; boundary=x", "--x\r\nContent-Disposition: form-data; name=\"u\"\r\n\r\n"+u+"\r\n--x--\r\n")
			})
		}
	}
	add("CGI, without http", func(w *way) []byte { return w.get("cgi.test", "/base64/?u="+b64([]byte("://listed.test/"))) })
	add("CGI, in pieces", func(w *way) []byte {
		u := strings.TrimRight(b64([]byte("s://listed.test/page/1")), "=")
		return w.get("cgi.test", "/pieces/"+strings.Join([]string{u[:8], u[8:16], u[16:24], u[24:]}, "/"))
	})
	return all
}

// startUnblockers starts the packages and returns the ports of their hosts.
func startUnblockers(t *testing.T) (ports struct {
	HTTP, HTTPS int
	Failed      map[string]string
}, certificate []byte) {
	t.Helper()
	peer.NotQuick(t, "unblockers")
	cache, err := os.UserCacheDir()
	packages := filepath.Join(cache, "shuultuur-test")
	if _, missing := os.Stat(filepath.Join(packages, "node_modules", "cors-anywhere")); err != nil || missing != nil {
		t.Skip(`the npm packages of unblockers are not installed; "make test" installs them where npm is`)
	}
	dir := t.TempDir()
	file, key := cert.Files(t, dir, "*.test")
	if certificate, err = os.ReadFile(file); err != nil {
		t.Fatal(err)
	}
	cmd := peer.Command(t, "node", "testdata/around.mjs", packages, dir, file, key)
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	cmd.Stderr = t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); _ = cmd.Process.Kill(); _ = cmd.Wait() })
	if err := json.NewDecoder(out).Decode(&ports); err != nil {
		t.Fatalf("starting the unblockers: %v", err)
	}
	for host, why := range ports.Failed {
		t.Errorf("%s does not start: %s", host, why)
	}
	return ports, certificate
}

func TestPublicUnblockersDeliverNoListedPage(t *testing.T) {
	t.Parallel()
	ports, certificate := startUnblockers(t)
	at := func(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
	h := newHouse(t, nil)
	dir := filepath.Dir(h.file)
	root, err := intercept.NewRoot(intercept.RootConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if err := root.Write(filepath.Join(dir, "root.pem"), false); err != nil {
		t.Fatal(err)
	}
	export, err := root.Export("pem", "")
	if err != nil {
		t.Fatal(err)
	}
	h.write("origin.pem", string(certificate))
	h.write("own.txt", "listed.test\n")
	h.write("shuultuur.yaml", fmt.Sprintf(aroundSettings, connector(t, at(ports.HTTP), at(ports.HTTPS))))
	h.restart()
	trust := x509.NewCertPool()
	trust.AppendCertsFromPEM(export)

	straight := &way{name: "straight", http: at(ports.HTTP)}
	ways := []*way{
		{name: "plain", gateway: h.g.ProxyAddr()},
		{name: "TLS", gateway: h.g.ProxyAddr(), tls: true, trust: trust},
		{name: "HTTP/2", gateway: h.g.ProxyAddr(), tls: true, h2: true, trust: trust},
	}
	cases := unblockings()
	if n := len(cases) * len(ways); n < 100 {
		t.Errorf("%d cases, want at least 100", n)
	}
	for _, w := range ways { // otherwise nothing may be delivered at all
		if p := w.get("unblocker.test", "/proxy/http://harmless.test/"); listedBytes(p) < delivered {
			t.Errorf("%s: a page that no list refuses is not delivered, but %.200q", w.name, p)
		}
		if n := listedBytes(w.chat("unblocker.test", "/proxy/http://harmless.test/", "")); n < delivered {
			t.Errorf("%s: a WebSocket to a site that no list refuses: %d bytes are delivered", w.name, n)
		}
	}
	turns := make(chan struct{}, 8)
	var wait sync.WaitGroup
	for _, c := range cases {
		wait.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			if n := listedBytes(c.read(straight)); n < delivered {
				t.Errorf("%s delivers %d bytes of the page without the gateway: the case tries nothing", c.name, n)
			}
			for _, w := range ways {
				if n := listedBytes(c.read(w)); n >= delivered {
					t.Errorf("%s, %s: delivers %d bytes of a listed page", c.name, w.name, n)
				}
			}
		})
	}
	wait.Wait()
}

// listedBytes returns how many bytes of the listed page are in p.
func listedBytes(p []byte) int {
	const line = "LISTED: this line belongs to a page that a list refuses, and nobody may read it here."
	return bytes.Count(p, []byte(line)) * len(line)
}
