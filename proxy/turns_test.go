package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/setting"
	"shuultuur/proxy/exchange"
)

func stuck(t *testing.T, cfg Config) (r *rig, url string, free func()) {
	hold, entered := make(chan struct{}), make(chan struct{}, 100)
	o := origin(t, func(w http.ResponseWriter, q *http.Request) {
		entered <- struct{}{}
		<-hold
		fmt.Fprint(w, "page")
	})
	free = sync.OnceFunc(func() { close(hold) })
	t.Cleanup(free)
	cfg.Requests = 1
	r = start(t, cfg, Engine{})
	go r.talk("GET " + o.URL + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	<-entered
	return r, o.URL, free
}

func TestWithoutATurnTheAnswerLiesReady(t *testing.T) {
	r, url, _ := stuck(t, Config{Exchange: exchange.Config{QueueTime: setting.Duration(20 * time.Millisecond)}})
	for _, tt := range []struct{ line, want, never string }{
		{"GET %s HTTP/1.1\r\nHost: x\r\n\r\n", "The proxy is busy.", "Connection: close"},
		{"GET %s HTTP/1.1\r\nHost: x\r\nAccept: application/json\r\n\r\n", `"reason":"The proxy is busy.`, "<html"},
		{"HEAD %s HTTP/1.1\r\nHost: x\r\n\r\n", "Content-Type: text/html", "busy"},
		{"GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "Connection: close", "Reference"},
		{"GET %s HTTP/1.0\r\nHost: x\r\n\r\n", "Connection: close", "Reference"},
	} {
		c, br := r.raw()
		q := fmt.Sprintf(tt.line, url)
		for again := !strings.Contains(tt.want, "close"); ; again = false {
			io.WriteString(c, q)
			res, err := http.ReadResponse(br, &http.Request{Method: strings.Fields(q)[0]})
			if err != nil {
				t.Fatalf("%q: %v", q, err)
			}
			var text strings.Builder
			res.Write(&text)
			if got := text.String(); res.StatusCode != 503 || res.Header.Get("Retry-After") != "5" || !strings.Contains(got, tt.want) || strings.Contains(got, tt.never) {
				t.Errorf("query %q: got %q, want 503 in the right form", q, got)
			}
			if !again {
				break
			}
		}
		c.Close()
	}
	if n := r.Stats().Overload; n != 8 {
		t.Errorf("%d requests counted without a turn, want 8", n)
	}
}

func TestRequestsWithoutATurnAreCountedAndOneInAWhileIsOnRecord(t *testing.T) {
	r, url, free := stuck(t, Config{Queue: 1, Exchange: exchange.Config{QueueTime: setting.Duration(time.Minute)}})
	wait, _ := r.raw()
	fmt.Fprintf(wait, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", url)
	for r.Stats().Queued == 0 {
		time.Sleep(time.Millisecond)
	}
	begun := time.Now()
	c, br := r.raw()
	for range 200 {
		fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", url)
		res, err := http.ReadResponse(br, nil)
		if err != nil || res.StatusCode != 503 {
			t.Fatalf("request without a turn: got %+v, %v, want 503", res, err)
		}
		io.Copy(io.Discard, res.Body)
	}
	took := time.Since(begun)
	free()
	r.stop()
	count := 0
	for _, x := range r.records { // complete: it has stopped
		if x.Status == 503 {
			count++
			if !strings.Contains(x.Note, "no turn") || x.Action != filter.Block {
				t.Errorf("record of a request without a turn: got %+v", x)
			}
		}
	}
	if most := 2 + int(took/(100*time.Millisecond)); count < 1 || count > most || r.Stats().Overload != 200 {
		t.Errorf("%d records in %v, want 1 to %d; %d requests counted, want 200", count, took, most, r.Stats().Overload)
	}
}

func TestARequestWhoseClientLeftTheQueueIsDropped(t *testing.T) {
	r, url, free := stuck(t, Config{Exchange: exchange.Config{QueueTime: setting.Duration(time.Minute)}})
	c, _ := r.raw()
	fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", url)
	for r.Stats().Queued == 0 {
		time.Sleep(time.Millisecond)
	}
	c.Close()
	free()
	for _, x := range r.wait(2) {
		if x.Note == "client went away before its turn" && x.Status == 0 {
			if s := r.Stats(); s.Left != 1 || s.UpstreamNew+s.UpstreamReused != 1 {
				t.Errorf("counters: got %+v, want 1 client that left and 1 upstream request", s)
			}
			return
		}
	}
	t.Error("no record of the client that left before its turn")
}

func TestAClientThatReadsSlowlyKeepsNoTurn(t *testing.T) {
	const size = 24 << 20 // more than socket buffers take
	o := rawOrigin(t, "tcp", func(c net.Conn, br *bufio.Reader) {
		for {
			head := readHead(br)
			switch {
			case strings.HasPrefix(head, "GET /large"):
				fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", size)
				io.CopyN(c, zeros{}, size)
			case head != "":
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nsmall")
			default:
				return
			}
		}
	})
	r := start(t, Config{Requests: 1, Exchange: exchange.Config{Held: size, QueueTime: setting.Duration(10 * time.Second)}}, Engine{Decider: judge{
		wants:  func(_ *filter.Transaction, s filter.Stage) bool { return s == filter.ResponseBody },
		decide: func(*filter.Transaction, filter.Stage) filter.Verdict { return filter.Verdict{} },
	}})
	slow, br := r.raw()
	fmt.Fprintf(slow, "GET http://%s/large HTTP/1.1\r\nHost: x\r\n\r\n", o)
	if head := readHead(br); !strings.HasPrefix(head, "HTTP/1.1 200") {
		t.Fatalf("slow reader: got %q, want 200", head)
	}
	if _, b := get(t, r.client(), "http://"+o+"/small"); b != "small" {
		t.Errorf("small response while another client reads slowly: got %q", b)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// TestOneAddressDoesNotHoldAllTurns: it has requests with silent origins, slow bodies and
// "Expect: 100-continue" on more connections than there are turns. Another address is answered.
func TestOneAddressDoesNotHoldAllTurns(t *testing.T) {
	hold := make(chan struct{})
	o := origin(t, func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/slow" {
			select {
			case <-hold:
			case <-q.Context().Done():
			}
		}
		fmt.Fprint(w, "page")
	})
	for name, head := range map[string]string{
		"silent origin": "GET " + o.URL + "/slow HTTP/1.1\r\nHost: x\r\n\r\n",
		"slow body":     "POST " + o.URL + "/slow HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nslow",
		"expectation":   "POST " + o.URL + "/slow HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 1000\r\n\r\n",
	} {
		r := start(t, Config{Requests: 8, Exchange: exchange.Config{QueueTime: setting.Duration(time.Minute)}}, Engine{})
		for range 30 {
			c, _ := r.raw()
			t.Cleanup(func() { c.Close() })
			io.WriteString(c, head)
		}
		for r.Stats().Queued == 0 {
			time.Sleep(time.Millisecond)
		}
		for range 3 {
			from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
			c, err := from.DialContext(t.Context(), "tcp", r.addr)
			if err != nil {
				t.Skip(err) // the system has only one loopback address
			}
			fmt.Fprintf(c, "GET %s/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", o.URL)
			_ = c.SetDeadline(time.Now().Add(10 * time.Second))
			res, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil || res.StatusCode != 200 {
				t.Errorf("%s: another address got %v, %v", name, res, err)
			}
			c.Close()
		}
	}
	close(hold)
}
