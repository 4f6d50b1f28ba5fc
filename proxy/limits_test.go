package proxy

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/setting"
	"shuultuur/proxy/exchange"
	"shuultuur/proxy/upstream"
)

func TestConnectionsAreLimited(t *testing.T) {
	o := origin(t, func(w http.ResponseWriter, q *http.Request) { fmt.Fprint(w, "ok") })
	for name, cfg := range map[string]Config{"listener": {Connections: 2}, "client": {PerClient: 2}} {
		r := start(t, cfg, Engine{})
		var open []net.Conn
		for range 2 {
			c, br := r.raw()
			fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", o.URL)
			if head := readHead(br); !strings.HasPrefix(head, "HTTP/1.1 200") {
				t.Fatalf("%s: open connection: got %q, want 200", name, head)
			}
			open = append(open, c)
		}
		got := r.talk("GET " + o.URL + " HTTP/1.1\r\nHost: x\r\n\r\n")
		if !strings.HasPrefix(got, "HTTP/1.1 503 ") || !strings.Contains(got, "\r\nRetry-After: ") {
			t.Errorf("%s: third connection: got %q, want 503 with Retry-After", name, got)
		}
		for _, c := range open {
			c.Close()
		}
		for r.Stats().ConnectionsOpen > 0 {
			time.Sleep(time.Millisecond)
		}
		if got := r.talk("GET " + o.URL + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 200 ") {
			t.Errorf("%s: connection after the others closed: got %q, want 200", name, got)
		}
		r.wait(3)
		if s := r.Stats(); s.ConnectionsFull+s.ConnectionsClient != 1 || s.Overload != 1 {
			t.Errorf("%s: counters of refused connections: %+v", name, s)
		}
	}
}

func TestRequestsQueueAndTheQueueHasALength(t *testing.T) {
	hold := make(chan struct{})
	entered := make(chan struct{}, 10)
	o := origin(t, func(w http.ResponseWriter, q *http.Request) {
		entered <- struct{}{}
		<-hold
	})
	r := start(t, Config{Requests: 1, Queue: 1, Exchange: exchange.Config{QueueTime: setting.Duration(10 * time.Second)}}, Engine{})
	status := make(chan int, 2)
	ask := func() {
		res, err := r.client().Get(o.URL)
		if err != nil {
			t.Error(err)
			status <- 0
			return
		}
		status <- res.StatusCode
	}
	go ask()
	<-entered
	go ask()
	for r.Stats().Queued == 0 {
		time.Sleep(time.Millisecond)
	}
	if res, _ := get(t, r.client(), o.URL); res.StatusCode != 503 || res.Header.Get("Retry-After") == "" {
		t.Errorf("third request: got %d, want 503 with Retry-After", res.StatusCode)
	}
	close(hold)
	for range 2 {
		if s := <-status; s != 200 {
			t.Errorf("request with a turn: got %d, want 200", s)
		}
	}
	if s := r.Stats(); s.Queued != 0 || s.Overload != 1 {
		t.Errorf("counters: got %+v, want none queued and 1 overload", s)
	}
}

func TestTimesAreLimited(t *testing.T) {
	slow := rawOrigin(t, "tcp", func(c net.Conn, br *bufio.Reader) {
		readHead(br)
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc")
		br.ReadByte()
	})
	const short = 500 * time.Millisecond
	for _, tt := range []struct {
		name, send, want string
		cfg              Config
	}{
		{"nothing", "", "", Config{HeadTime: setting.Duration(short)}},
		{"half a head", "GET http://x/ HTTP/1.1\r\nHo", "HTTP/1.1 408 ", Config{HeadTime: setting.Duration(short)}},
		{"idle", "GET /\r\n HTTP/1.1\r\n\r\n", "HTTP/1.1 400 ", Config{Idle: setting.Duration(short)}},
		{"half a response", "GET http://" + slow + "/ HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 ", Config{Upstream: upstream.Config{Answer: setting.Duration(short)}}},
		{"total", "GET http://" + slow + "/ HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 ", Config{Total: setting.Duration(short)}},
		{"half an upload", "POST http://" + slow + "/ HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc", "HTTP/1.1 200 ", Config{Upstream: upstream.Config{Answer: setting.Duration(short)}}},
	} {
		r := start(t, tt.cfg, Engine{})
		for tries := 1; ; tries++ { // on a busy machine the origin may be too late, too
			c, br := r.raw()
			io.WriteString(c, tt.send)
			b, err := io.ReadAll(br)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%s: the proxy does not end the connection", tt.name)
			} else if !strings.HasPrefix(string(b), tt.want) && tries < 5 {
				continue
			} else if !strings.HasPrefix(string(b), tt.want) {
				t.Errorf("%s: got %q", tt.name, b)
			}
			break
		}
	}
}

func TestDrainFinishesWhatIsInFlight(t *testing.T) {
	hold := make(chan struct{})
	entered := make(chan struct{})
	o := origin(t, func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/slow" {
			close(entered)
			<-hold
		}
		fmt.Fprint(w, "done")
	})
	echoes := rawOrigin(t, "tcp", echo)
	r := start(t, Config{Drain: setting.Duration(3 * time.Second)}, Engine{})
	idle, idleReader := r.raw()
	fmt.Fprintf(idle, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", o.URL)
	res, err := http.ReadResponse(idleReader, nil)
	if err != nil {
		t.Fatal(err)
	}
	io.ReadAll(res.Body)
	_, tunnel := r.tunnelTo(echoes)
	busy, busyReader := r.raw()
	fmt.Fprintf(busy, "GET %s/slow HTTP/1.1\r\nHost: x\r\n\r\n", o.URL)
	<-entered

	stopped := make(chan struct{})
	go func() {
		r.stop()
		close(stopped)
	}()
	if b, err := io.ReadAll(idleReader); len(b) != 0 || err != nil {
		t.Errorf("idle connection on stop: got %q, %v, want a regular end", b, err)
	}
	if c, err := net.Dial("tcp", r.addr); err == nil {
		c.Close()
		t.Error("the proxy still accepts connections during the drain")
	}
	close(hold)
	if res, err = http.ReadResponse(busyReader, nil); err != nil || res.StatusCode != 200 || !res.Close {
		t.Fatalf("request in flight on stop: got %+v, %v, want 200 and the end of the connection", res, err)
	}
	if b, err := io.ReadAll(res.Body); string(b) != "done" {
		t.Errorf("body of the request in flight: got %q, %v, want done", b, err)
	}
	io.ReadAll(tunnel) // ends with the drain
	<-stopped
	r.wait(3)
}

func TestPanicEndsOneConnectionOnly(t *testing.T) {
	o := origin(t, func(w http.ResponseWriter, q *http.Request) { fmt.Fprint(w, "ok") })
	r := start(t, Config{}, Engine{Decider: judge{decide: func(x *filter.Transaction, s filter.Stage) filter.Verdict {
		if strings.HasSuffix(x.URL, "/panic") {
			panic("as asked")
		}
		return filter.Verdict{}
	}}})
	if got := r.talk("GET " + o.URL + "/panic HTTP/1.1\r\nHost: x\r\n\r\n"); strings.Contains(got, "200") {
		t.Errorf("request that panics: got %q, want no 200", got)
	}
	if _, b := get(t, r.client(), o.URL); b != "ok" {
		t.Errorf("request after the panic: got %q, want ok", b)
	}
	if s := r.Stats(); s.Panics != 1 || r.wait(1)[0].Note != "internal error" {
		t.Errorf("after a panic: counters %+v, record %+v", s, r.wait(1)[0])
	}
}

func TestEngineIsSwappedBetweenRequests(t *testing.T) {
	o := origin(t, func(w http.ResponseWriter, q *http.Request) { fmt.Fprint(w, "ok") })
	r := start(t, Config{}, Engine{})
	c := r.client()
	if res, _ := get(t, c, o.URL); res.StatusCode != 200 {
		t.Errorf("before the new engine: got %d, want 200", res.StatusCode)
	}
	if err := r.Use(&Engine{Identify: anybody, Decider: judge{decide: func(*filter.Transaction, filter.Stage) filter.Verdict { return block("new") }}}); err != nil {
		t.Fatal(err)
	}
	if res, _ := get(t, c, o.URL); res.StatusCode != 403 || r.Stats().Connections != 1 {
		t.Errorf("after the new engine: got %d on %d connections, want 403 on 1", res.StatusCode, r.Stats().Connections)
	}
	if err := r.Use(&Engine{}); err == nil {
		t.Error("Use accepted an engine without a decider")
	}
}

func TestSettingsAreChecked(t *testing.T) {
	for _, tt := range []struct {
		cfg  Config
		want string
	}{
		{Config{Upstream: upstream.Config{Head: 100}}, "head: 100: must be between"},
		{Config{Exchange: exchange.Config{Held: 100, HeldTotal: 10}}, "held: 100 bytes"},
		{Config{Via: "a b"}, `via: "a b"`},
		{Config{ViaResponses: "a\r\nb"}, `via-responses: "a\r\nb"`},
		{Config{Upstream: upstream.Config{Parent: "socks5://x"}}, "parent: must look like"},
		{Config{ConnectPorts: []string{"443", "https"}}, `connect-ports[1]: "https" is neither`},
	} {
		_, err := New(tt.cfg, &Engine{Decider: judge{}, Identify: anybody}, nil, nil)
		if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("got %v, want %s…", err, tt.want)
		}
	}
}

// descriptors returns how many files this process has open, -1 if unknown.
func descriptors() int {
	d, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return -1
	}
	return len(d)
}

func TestAbortedConnectionsLeaveNothing(t *testing.T) {
	total := 10_000
	if testing.Short() {
		total = 1000
	}
	page := "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 200000\r\n\r\n" + strings.Repeat("x", 200_000)
	chunks := "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat("400\r\n"+strings.Repeat("y", 1024)+"\r\n", 100)
	o := rawOrigin(t, "tcp", func(c net.Conn, br *bufio.Reader) {
		for {
			head := readHead(br)
			switch {
			case head == "":
				return
			case strings.Contains(head, "/half"):
				io.WriteString(c, page[:len(page)/2])
				return
			case strings.Contains(head, "/chunks"):
				io.WriteString(c, chunks) // and no end
			case strings.HasPrefix(head, "POST"):
				io.Copy(io.Discard, br)
				return
			case strings.Contains(head, "\x16"), !strings.Contains(head, "HTTP"):
				return
			default:
				io.WriteString(c, page)
			}
		}
	})
	hello := clientHello("x.test")
	cert, err := tls.X509KeyPair([]byte(testCert), []byte(testKey))
	if err != nil {
		t.Fatal(err)
	}
	stages := []string{
		"", "G", "GET http://" + o + "/ HTTP/1.1\r\nHost", "PROXY TCP4", "\x16\x03\x01", string(hello), "junk\r\n\r\n",
		"GET http://" + o + "/ HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET http://" + o + "/ HTTP/1.1\r\nHost: x\r\n\r\nGET http://" + o + "/half HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET http://" + o + "/half HTTP/1.1\r\nHost: x\r\n\r\n", "GET http://" + o + "/chunks HTTP/1.1\r\nHost: x\r\n\r\n",
		"POST http://" + o + "/ HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\nabc",
		"POST http://" + o + "/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc",
		"POST http://" + o + "/ HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n",
		"CONNECT " + o + " HTTP/1.1\r\nHost: x\r\n\r\n", "CONNECT " + o + " HTTP/1.1\r\nHost: x\r\n\r\n" + string(hello[:100]),
		"CONNECT " + o + " HTTP/1.1\r\nHost: x\r\n\r\n" + string(hello), "CONNECT 10.0.0.1:443 HTTP/1.1\r\nHost: x\r\n\r\n",
	}
	beforeG, beforeFD := runtime.NumGoroutine(), descriptors()
	r := start(t, Config{PerClient: 1000, HeadTime: setting.Duration(2 * time.Second), Drain: setting.Duration(5 * time.Second), Tunnel: setting.Duration(time.Second), Upstream: upstream.Config{Answer: setting.Duration(2 * time.Second)}, Exchange: exchange.Config{Held: 100_000, HeldTotal: 4 << 20}},
		Engine{Decider: &scanner{}, TLS: &tls.Config{Certificates: []tls.Certificate{cert}}})
	var wg sync.WaitGroup
	for worker := range 50 {
		wg.Go(func() {
			buf := make([]byte, 300_000)
			for i := worker; i < total; i += 50 {
				c, err := net.Dial("tcp", r.addr)
				if err != nil {
					t.Error(err)
					return
				}
				c.SetDeadline(time.Now().Add(time.Minute))
				io.WriteString(c, stages[i%len(stages)])
				switch how := i / len(stages); {
				case how%3 == 1: // a part of the response
					c.SetReadDeadline(time.Now().Add(5 * time.Millisecond))
					c.Read(buf[:1+i%4096])
				case how%3 == 2:
					c.SetReadDeadline(time.Now().Add(5 * time.Millisecond))
					io.ReadFull(c, buf[:250_000])
				}
				if i%2 == 0 {
					c.(*net.TCPConn).SetLinger(0)
				}
				c.Close()
			}
		})
	}
	wg.Wait()
	r.stop()
	s := r.Stats()
	if s.Held != 0 || s.ConnectionsOpen != 0 || s.TunnelsOpen != 0 || s.Queued != 0 || s.UpstreamIdle != 0 || s.Panics != 0 {
		t.Errorf("counters after the load: %+v; want nothing in use", s)
	}
	if r.turns.Used() != 0 || r.Stats().Judging != 0 || len(r.clients.n) != 0 {
		t.Errorf("%d requests, %d judgements and %d clients are still counted at the end", r.turns.Used(), r.Stats().Judging, len(r.clients.n))
	}
	// On a slow machine, some wait too long for their turn, and only a few of those are
	// recorded.
	if n := len(r.records); n > int(s.Requests) || n < int(s.Requests-s.Overload) {
		t.Errorf("%d requests, %d of them without a turn, but %d records", s.Requests, s.Overload, n)
	}
	// The origin's own goroutines need a moment to notice the end of our connections.
	deadline := time.Now().Add(time.Minute)
	for (runtime.NumGoroutine() > beforeG+2 || descriptors() > beforeFD+2) && time.Now().Before(deadline) {
		runtime.GC() // closes the pipes that splicing keeps
		time.Sleep(10 * time.Millisecond)
	}
	if n := runtime.NumGoroutine(); n > beforeG+2 {
		var b bytes.Buffer
		buf := make([]byte, 1<<20)
		b.Write(buf[:runtime.Stack(buf, true)])
		t.Errorf("%d goroutines before the load, %d after it\n%.5000s", beforeG, n, b.String())
	}
	if n := descriptors(); n > beforeFD+2 {
		t.Errorf("%d open descriptors before the load, %d after it", beforeFD, n)
	}
}

func TestRequestsOnAKeptAliveConnectionAllocateLittle(t *testing.T) {
	o := rawOrigin(t, "tcp", func(c net.Conn, br *bufio.Reader) {
		answer := []byte("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello")
		for {
			for {
				line, err := br.ReadSlice('\n')
				if err != nil {
					return
				}
				if len(line) == 2 {
					break
				}
			}
			c.Write(answer)
		}
	})
	r := start(t, Config{}, Engine{})
	r.records = make([]record, 0, 5000)
	c, _ := r.raw()
	request := []byte("GET http://" + o + "/ HTTP/1.1\r\nHost: x\r\nUser-Agent: y\r\nAccept: */*\r\n\r\n")
	buf := make([]byte, 4096)
	ask := func() {
		c.Write(request)
		if _, err := c.Read(buf); err != nil {
			t.Fatal(err)
		}
	}
	for range 10 {
		ask()
	}
	if n := testing.AllocsPerRun(1000, ask); n > 2 {
		t.Errorf("%v allocations per request, want at most 2 (one is the ID)", n)
	}
}
