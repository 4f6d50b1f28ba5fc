package test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"shuultuur/intercept"
	"shuultuur/test/cert"
	"shuultuur/test/peer"
	"shuultuur/test/race"
)

// The full size takes minutes and some gigabytes of the kernel's memory:
//
//	go test ./test -run FastSendersAndStoppedReaders -stopped-readers 8192 -stopped-calm -v
var (
	stoppedReaders = flag.Int("stopped-readers", 192, "readers that stop, for each pair of a sender and a reader")
	stoppedCalm    = flag.Bool("stopped-calm", false, "wait until the memory of stopped readers is returned, after each pair")
)

// What stopped readers may cost: a part for each, and a fixed one. Bodies and windows may fill
// proxy.held-total (64 MiB), and the collector lets the heap grow to about twice of what is in use.
const (
	eachStopped  = 150 << 20 / 8192
	firstStopped = 256 << 20
)

// A standstill is one pair of a fast sender and a reader that stops.
type standstill struct {
	name string
	to   string             // the listener that is asked: proxy, icap, portal, admin, dns or doh
	from byte               // the network of the clients, by which their policy is chosen
	say  func(i int) string // what client i says first; ORIGIN, SECURE, FLOOD and SINK are replaced by addresses
	push string             // what it goes on to say for as long as somebody takes it
	// secure is the tunnel that is opened first: none, or the ALPN protocol inside of it.
	secure string
	begun  int // of so many messages that the origin meets; 0: of none, 1: of one from each reader
	most   int // readers, because the listener takes no more
}

const (
	open      = 1 // nothing is judged
	decrypted = 2
	judged    = 3 // by the words of pages
)

var standstills = []standstill{
	{name: "response over HTTP/1", to: "proxy", from: open, say: get1("http://ORIGIN/endless"), begun: 1},
	{name: "judged page over HTTP/1", to: "proxy", from: judged, say: get1("http://ORIGIN/page"), begun: 1},
	{name: "response from the cache's writer", to: "proxy", from: open, say: get1("http://ORIGIN/kept"), begun: 1},
	{name: "decrypted response over HTTP/1", to: "proxy", from: decrypted, secure: "http/1.1", say: get1("/endless"), begun: 1},
	{name: "decrypted response over HTTP/2", to: "proxy", from: decrypted, secure: "h2", say: get1("/endless"), begun: 1},
	{name: "upload over HTTP/1", to: "proxy", from: open, say: post1("http://ORIGIN/unread"), push: block, begun: 1},
	{name: "decrypted upload over HTTP/1", to: "proxy", from: decrypted, secure: "http/1.1", say: post1("/unread"), push: block, begun: 1},
	{name: "decrypted upload over HTTP/2", to: "proxy", from: decrypted, secure: "h2", say: post1("/unread"), push: block, begun: 1},
	{name: "tunnel to the client", to: "proxy", from: open, say: connect("FLOOD"), begun: 1},
	{name: "tunnel to the origin", to: "proxy", from: open, say: connect("SINK"), push: block, begun: 1},
	{name: "WebSocket to the client", to: "proxy", from: open, say: upgrade("http://ORIGIN/talks"), begun: 1},
	{name: "WebSocket to the origin", to: "proxy", from: open, say: upgrade("http://ORIGIN/listens"), push: frame, begun: 1},
	{name: "decrypted WebSocket to the client", to: "proxy", from: decrypted, secure: "http/1.1", say: upgrade("/talks"), begun: 1},
	{name: "response over ICAP", to: "icap", from: open, say: respmod, push: chunk},
	{name: "answers over TCP", to: "dns", from: open, say: nothing, push: query},
	{name: "answers over HTTPS", to: "doh", from: open, secure: "own", say: nothing, push: queryHTTPS},
	{name: "pages for clients", to: "portal", from: open, say: nothing, push: "GET /proxy.pac HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", most: 1536},
	{name: "pages of the administration", to: "admin", from: 0, say: nothing, push: "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", most: 768},
}

var (
	block      = strings.Repeat("4000\r\n"+strings.Repeat("x", 16<<10)+"\r\n", 4)
	chunk      = block
	frame      = "\x82\xfe\x3f\xff\x00\x00\x00\x00" + strings.Repeat("x", 0x3fff) // a masked message
	query      = strings.Repeat(string(append([]byte{0, byte(len(desk))}, desk...)), 64)
	queryHTTPS = strings.Repeat(fmt.Sprintf("POST /dns-query HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/dns-message\r\nContent-Length: %d\r\n\r\n%s", len(desk), desk), 16)
)

func nothing(int) string { return "" }

func get1(url string) func(int) string {
	return func(i int) string { return fmt.Sprintf("GET %s/%d HTTP/1.1\r\nHost: ORIGIN\r\n\r\n", url, i) }
}

func post1(url string) func(int) string {
	return func(int) string {
		return "POST " + url + " HTTP/1.1\r\nHost: ORIGIN\r\nTransfer-Encoding: chunked\r\n\r\n"
	}
}

func connect(to string) func(int) string {
	return func(int) string { return "CONNECT " + to + " HTTP/1.1\r\nHost: " + to + "\r\n\r\n" }
}

func upgrade(url string) func(int) string {
	return func(int) string {
		return "GET " + url + " HTTP/1.1\r\nHost: ORIGIN\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
	}
}

func respmod(i int) string {
	q := fmt.Sprintf("GET http://news.example/%d HTTP/1.1\r\nHost: news.example\r\n\r\n", i)
	s := "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
	return fmt.Sprintf("RESPMOD icap://127.0.0.1/respmod ICAP/1.0\r\nHost: x\r\nX-Client-IP: 127.3.0.%d\r\nEncapsulated: req-hdr=0, res-hdr=%d, res-body=%d\r\n\r\n%s%s", 1+i%250, len(q), len(q)+len(s), q, s)
}

// stopped is a gateway, the origins behind it and the clients in front of it.
type stopped struct {
	t       *testing.T
	p       *process
	at      map[string]string // addresses of the listeners
	names   *strings.Replacer // addresses of the origins
	roots   *x509.CertPool
	begun   atomic.Int64  // requests and connections that an origin has met
	moved   atomic.Int64  // bytes that senders could send
	done    chan struct{} // closed at the end
	mu      sync.Mutex
	closers []io.Closer
}

// TestFastSendersAndStoppedReaders opens thousands of connections of each kind in which one side sends for
// as long as somebody takes it, and the other reads nothing. The process may grow by some KiB for each, and
// has its memory back when they have gone.
func TestFastSendersAndStoppedReaders(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc")
	}
	race.Without(t)
	peer.NotQuick(t, "thousands of connections that stop")
	for _, s := range standstills {
		t.Run(s.name, func(t *testing.T) {
			n := *stoppedReaders
			if s.most > 0 {
				n = min(n, s.most)
			}
			w := newStopped(t)
			pid := w.p.cmd.Process.Pid
			if *stoppedCalm {
				time.Sleep(11 * time.Second) // after which the memory of the start is returned
			}
			rest := anonymous(t, pid)
			peak, quit := w.watch(pid)
			w.openAll(&s, n)
			w.untilStuck(&s, n)
			most := peak()
			over := most - rest
			after := 0
			w.closeAll()
			if *stoppedCalm {
				for end := time.Now().Add(15 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
					if after = anonymous(t, pid); after < rest+8<<20 {
						break
					}
				}
				if after > rest*13/10+8<<20 {
					t.Errorf("%d MiB in use 15 s after %d readers have gone, and %d MiB before they came", after>>20, n, rest>>20)
				}
			}
			quit()
			t.Logf("| %s | %d | %d MiB sent | rest %.1f | %.1f over rest | after %.1f |", s.name, n, w.moved.Load()>>20, float64(rest)/1e6, float64(over)/1e6, float64(after)/1e6)
			if over > firstStopped+n*eachStopped {
				t.Errorf("%d readers that do not read cost %d bytes each, %d MiB together", n, over/n, over>>20)
			}
		})
	}
}

func newStopped(t *testing.T) *stopped {
	w := &stopped{t: t, at: map[string]string{}, roots: x509.NewCertPool(), done: make(chan struct{})}
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"icap", "portal", "dns", "doh"} {
		w.at[name] = "127.0.0.1:" + peer.Port(t)
	}
	certFile, keyFile := cert.Files(t, dir, "127.0.0.1")
	own, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	root, err := intercept.NewRoot(intercept.RootConfig{})
	if err == nil {
		err = root.Write(filepath.Join(dir, "root.pem"), false)
	}
	if err != nil {
		t.Fatal(err)
	}
	export, err := root.Export("pem", "")
	if err != nil {
		t.Fatal(err)
	}
	pem, err := os.ReadFile(certFile)
	if err != nil || !w.roots.AppendCertsFromPEM(export) || !w.roots.AppendCertsFromPEM(pem) {
		t.Fatalf("no certificates: %v", err)
	}
	origin, secure := w.origin(nil), w.origin(&own)
	flood, sink := w.raw(true), w.raw(false)
	w.names = strings.NewReplacer("ORIGIN", origin, "SECURE", secure, "FLOOD", flood, "SINK", sink)
	write("words", "<ferry><1>\n")
	write("shuultuur.yaml", fmt.Sprintf(`listen: {proxy: 127.0.0.1:0, admin: 127.0.0.1:0, portal: %q, icap: %q}
intercept: {root: root.pem, trust: [cert.pem]}
proxy: {private: [127.0.0.0/8], connect-ports: any, safe-ports: any, connections: 9000}
icap: {connections: 9000}
cache: {memory: 8MiB, disk: 64MiB}
policies:
  - {name: decrypted, networks: [127.2.0.0/16], decrypt: true}
  - {name: judged, networks: [127.3.0.0/16], rules: [{name: words, action: block, category: [phrase], over: 1000000}]}
  - {name: open}
checks: {phrase: {weighted: [words]}}
dns:
  listen: [%q]
  https: [%q]
  cert: cert.pem
  key: key.pem
  connections: 9000
  hosts: {desk.lan: 10.0.0.9}
  forward: {upstreams: ["127.0.0.1:9"]}
`, w.at["portal"], w.at["icap"], w.at["dns"], w.at["doh"]))
	w.p = start(t, filepath.Join(dir, "shuultuur.yaml"))
	w.at["proxy"], w.at["admin"] = w.p.proxy, w.p.admin
	t.Cleanup(w.closeAll)
	t.Cleanup(func() { _ = w.p.cmd.Process.Kill() }) // first, so that nothing waits for it
	return w
}

// likeNetwork makes the kernel keep little for a socket: over the loopback device it would keep megabytes
// for each.
func likeNetwork(_, _ string, c syscall.RawConn) (err error) {
	failed := c.Control(func(fd uintptr) {
		err = errors.Join(syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_MAXSEG, 1460),
			syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 8<<10),
			syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_SNDBUF, 16<<10))
	})
	return errors.Join(failed, err)
}

func (w *stopped) listen() net.Listener {
	l, err := (&net.ListenConfig{Control: likeNetwork}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	return l
}

// origin starts an origin and returns its address.
func (w *stopped) origin(own *tls.Certificate) string {
	s := httptest.NewUnstartedServer(http.HandlerFunc(w.answer))
	s.Listener.Close()
	s.Listener = w.listen()
	if own == nil {
		s.Start()
	} else {
		s.TLS = &tls.Config{Certificates: []tls.Certificate{*own}}
		s.EnableHTTP2 = true
		s.StartTLS()
	}
	w.t.Cleanup(func() { go s.Close() }) // its handlers end with the gateway
	return s.Listener.Addr().String()
}

func (w *stopped) answer(rw http.ResponseWriter, q *http.Request) {
	w.begun.Add(1)
	out, size := io.Writer(rw), 1<<62
	switch path := strings.Split(q.URL.Path, "/")[1]; path {
	case "unread":
		rw.WriteHeader(http.StatusOK)
		<-w.done
		return
	case "talks", "listens":
		c, b, err := rw.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		fmt.Fprint(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n")
		if path == "listens" {
			<-w.done
			return
		}
		_ = b
		w.send(c, "\x82\x7e\x3f\xff"+strings.Repeat("x", 0x3fff), 1<<62)
		return
	case "kept":
		size = 2 << 20
		rw.Header().Set("Cache-Control", "max-age=3600")
		rw.Header().Set("Content-Length", fmt.Sprint(size))
		rw.Header().Set("Content-Type", "application/octet-stream")
	case "page":
		rw.Header().Set("Content-Type", "text/html")
	default:
		rw.Header().Set("Content-Type", "application/octet-stream")
	}
	w.send(out, strings.Repeat("<p>The ferry sails at nine. ", 1<<11), size)
}

// send writes text again and again until there is an error, size bytes were sent, or the test ends.
func (w *stopped) send(to io.Writer, text string, size int) {
	for size > 0 {
		n, err := io.WriteString(to, text[:min(size, len(text))])
		w.moved.Add(int64(n))
		if size -= n; err != nil {
			return
		}
	}
	<-w.done
}

// raw starts an origin that sends, or reads nothing, and returns its address.
func (w *stopped) raw(sends bool) string {
	l := w.listen()
	w.t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			w.begun.Add(1)
			go func() {
				defer c.Close()
				if sends {
					w.send(c, block, 1<<62)
				}
				<-w.done
			}()
		}
	}()
	return l.Addr().String()
}

// watch looks at the memory of a process until quit is called. peak returns the most so far.
func (w *stopped) watch(pid int) (peak func() int, quit func()) {
	var most atomic.Int64
	end := make(chan struct{})
	go func() {
		for tick := time.Tick(20 * time.Millisecond); ; {
			select {
			case <-end:
				return
			case <-tick:
				if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)); err == nil {
					if _, text, found := strings.Cut(string(b), "RssAnon:"); found {
						kb := int64(0)
						_, _ = fmt.Sscan(text, &kb)
						most.Store(max(most.Load(), kb<<10))
					}
				}
			}
		}
	}()
	return func() int { return max(int(most.Load()), anonymous(w.t, pid)) }, sync.OnceFunc(func() { close(end) })
}

// openAll opens n connections.
func (w *stopped) openAll(s *standstill, n int) {
	next := make(chan int)
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for i := range next {
				if err := w.open(s, i); err != nil {
					w.t.Errorf("reader %d: %v", i, err)
				}
			}
		})
	}
	for i := range n {
		if w.t.Failed() {
			break
		}
		next <- i
	}
	close(next)
	all.Wait()
	if w.t.Failed() {
		w.t.FailNow()
	}
}

// open opens one connection, says what s says, and reads no answer.
func (w *stopped) open(s *standstill, i int) error {
	from := net.IPv4(127, s.from, byte(i>>6), byte(1+i&63))
	if s.from == 0 {
		from = net.IPv4(127, 0, 0, 1)
	}
	d := &net.Dialer{Control: likeNetwork, LocalAddr: &net.TCPAddr{IP: from}, Timeout: time.Minute}
	c, err := d.Dial("tcp", w.at[s.to])
	if err != nil {
		return err
	}
	w.mu.Lock()
	w.closers = append(w.closers, c)
	w.mu.Unlock()
	if s.secure != "" {
		if s.secure != "own" {
			if err := w.tunnel(c); err != nil {
				return err
			}
		}
		t := tls.Client(c, &tls.Config{RootCAs: w.roots, ServerName: "127.0.0.1", NextProtos: []string{strings.Replace(s.secure, "own", "http/1.1", 1)}})
		if err := t.Handshake(); err != nil {
			return err
		}
		if c = t; s.secure == "h2" {
			return w.stream(c, s, i)
		}
	}
	if _, err := io.WriteString(c, w.names.Replace(s.say(i))); err != nil {
		return err
	}
	if strings.HasPrefix(s.say(i), "CONNECT") || strings.Contains(s.name, "WebSocket to the origin") { // otherwise it may be too early
		if err := answered(c); err != nil {
			return err
		}
	}
	if s.push != "" {
		go w.send(c, s.push, 1<<62)
	}
	return nil
}

// tunnel opens a tunnel to the origin with TLS.
func (w *stopped) tunnel(c net.Conn) error {
	if _, err := io.WriteString(c, w.names.Replace("CONNECT SECURE HTTP/1.1\r\nHost: SECURE\r\n\r\n")); err != nil {
		return err
	}
	return answered(c)
}

// answered reads the head of an answer and nothing behind it.
func answered(c net.Conn) error {
	var head []byte
	for one := make([]byte, 1); !bytes.HasSuffix(head, []byte("\r\n\r\n")); head = append(head, one...) {
		if _, err := io.ReadFull(c, one); err != nil {
			return fmt.Errorf("after %q: %w", head, err)
		}
	}
	if !bytes.Contains(head[:bytes.IndexByte(head, '\r')], []byte(" 200 ")) && !bytes.Contains(head, []byte(" 101 ")) {
		return fmt.Errorf("the answer is %q", head)
	}
	return nil
}

// stream opens one stream of HTTP/2. An upload takes every window that it is given.
func (w *stopped) stream(c net.Conn, s *standstill, i int) error {
	q, err := http.ReadRequest(bufio.NewReader(strings.NewReader(w.names.Replace(s.say(i)))))
	if err != nil {
		return err
	}
	var fields bytes.Buffer
	e := hpack.NewEncoder(&fields)
	for _, f := range [][2]string{{":method", q.Method}, {":scheme", "https"}, {":authority", w.names.Replace("SECURE")}, {":path", q.URL.Path}} {
		_ = e.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
	}
	if _, err := io.WriteString(c, http2.ClientPreface); err != nil {
		return err
	}
	f := http2.NewFramer(c, c)
	err = errors.Join(f.WriteSettings(), f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndHeaders: true, EndStream: s.push == "", BlockFragment: fields.Bytes()}))
	if err == nil && s.push != "" {
		go w.upload(f)
	}
	return err
}

// upload fills the windows of stream 1.
func (w *stopped) upload(f *http2.Framer) {
	whole, stream, first := 65535, 65535, 65535
	data := make([]byte, 16<<10)
	for {
		for n := min(whole, stream, len(data)); n > 0; n = min(whole, stream, len(data)) {
			if f.WriteData(1, false, data[:n]) != nil {
				return
			}
			whole, stream = whole-n, stream-n
			w.moved.Add(int64(n))
		}
		read, err := f.ReadFrame()
		if err != nil {
			return
		}
		switch read := read.(type) {
		case *http2.WindowUpdateFrame:
			if read.StreamID == 0 {
				whole += int(read.Increment)
			} else {
				stream += int(read.Increment)
			}
		case *http2.SettingsFrame:
			if v, ok := read.Value(http2.SettingInitialWindowSize); ok {
				stream, first = stream+int(v)-first, int(v)
			}
		}
	}
}

// untilStuck waits until all readers have begun, and nobody can send any more.
func (w *stopped) untilStuck(s *standstill, n int) {
	last, since := int64(-1), time.Now()
	for end := time.Now().Add(3 * time.Minute); w.begun.Load() < int64(n*s.begun) || time.Since(since) < time.Second; time.Sleep(10 * time.Millisecond) {
		if now := w.moved.Load(); now != last {
			last, since = now, time.Now()
		}
		if time.Now().After(end) {
			w.t.Fatalf("%d of %d readers have begun, and %d bytes were sent", w.begun.Load(), n*s.begun, last)
		}
	}
}

func (w *stopped) closeAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.done:
	default:
		close(w.done)
	}
	for _, c := range w.closers {
		c.Close()
	}
	w.closers = nil
}
