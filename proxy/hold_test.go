package proxy

import (
	"bufio"
	"bytes"
	"context"
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

// scanner blocks bodies that contain "bad", and counts its calls.
type scanner struct {
	mu    sync.Mutex
	asked int
}

func (j *scanner) Wants(_ *filter.Transaction, s filter.Stage) bool {
	return s == filter.ResponseBody || s == filter.RequestBody
}

func (j *scanner) Decide(_ context.Context, t *filter.Transaction, s filter.Stage) {
	t.Verdict = filter.Verdict{}
	body := t.Body
	if s == filter.RequestBody {
		body = t.Upload
	} else if s != filter.ResponseBody {
		return
	}
	j.mu.Lock()
	j.asked++
	j.mu.Unlock()
	if b, _ := body.Decoded(); bytes.Contains(b, []byte("bad")) {
		t.Verdict = block("words")
	}
}

func TestBodyThatFitsIsJudgedBeforeItLeaves(t *testing.T) {
	o := origin(t, func(w http.ResponseWriter, q *http.Request) {
		fmt.Fprint(w, strings.Repeat("x", 100_000)+q.URL.RawQuery)
	})
	j := &scanner{}
	r := start(t, Config{}, Engine{Decider: j})
	if res, b := get(t, r.client(), o.URL+"/?good"); res.StatusCode != 200 || len(b) != 100_004 {
		t.Errorf("good body: got %d, %d bytes", res.StatusCode, len(b))
	}
	if res, b := get(t, r.client(), o.URL+"/?bad"); res.StatusCode != 403 || !strings.Contains(b, "words") {
		t.Errorf("bad body: got %d %q, want the block page", res.StatusCode, b)
	}
	if j.asked != 2 {
		t.Errorf("the scanner was called %d times for 2 bodies, want 2", j.asked)
	}
}

func TestLargeBodyIsJudgedPieceByPiece(t *testing.T) {
	const size = 3_000_000
	page := bytes.Repeat([]byte("0123456789"), size/10)
	o := origin(t, func(w http.ResponseWriter, q *http.Request) {
		b := bytes.Clone(page)
		if at := q.URL.Query().Get("bad"); at == "end" {
			copy(b[size-3:], "bad")
		} else if at != "" {
			copy(b[size/2-1:], "bad")
		}
		if q.URL.Query().Has("length") {
			w.Header().Set("Content-Length", fmt.Sprint(size))
		}
		w.Write(b)
	})
	j := &scanner{}
	r := start(t, Config{Exchange: exchange.Config{Held: 100_000}}, Engine{Decider: j})
	for _, framing := range []string{"", "&length"} {
		res, b := get(t, r.client(), o.URL+"/?"+framing)
		if res.StatusCode != 200 || b != string(page) {
			t.Errorf("framing %q: got %d, %d bytes, want the page", framing, res.StatusCode, len(b))
		}
		for _, at := range []string{"end", "middle"} {
			res, err := r.client().Get(o.URL + "/?bad=" + at + framing)
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(res.Body)
			if err == nil || len(b) >= size || len(b) < 90_000 {
				t.Errorf("framing %q, bad at %s: got %d bytes, error %v; want an error after a part", framing, at, len(b), err)
			}
			if at == "end" && bytes.Contains(b, []byte("bad")) {
				t.Errorf("framing %q: the bytes that changed the verdict reached the client", framing)
			}
		}
		// In HTTP/1.0 the end of the connection ends a body, so a cut body must end with a
		// reset.
		c, br := r.raw()
		fmt.Fprintf(c, "GET %s/?bad=end%s HTTP/1.0\r\n\r\n", o.URL, framing)
		if _, err := io.ReadAll(br); err == nil {
			t.Errorf("framing %q: the HTTP/1.0 client saw a regular end of the cut body", framing)
		}
	}
	for i, x := range r.wait(8) {
		switch {
		case i%4 == 0 && (x.Looked != size || x.Out != size || x.Action != filter.Pass):
			t.Errorf("record of a good body: got %+v", x)
		case i%4 != 0 && (x.Action != filter.Block || !strings.Contains(x.Note, "cut after") || x.Out >= size):
			t.Errorf("record of a bad body: got %+v", x)
		}
	}
	if s := r.Stats(); s.Cut != 6 || s.Partial != 8 {
		t.Errorf("counters: got %+v, want 6 cut and 8 partial bodies", s)
	}
}

func TestUploadIsJudged(t *testing.T) {
	var got int
	o := origin(t, func(w http.ResponseWriter, q *http.Request) {
		b, _ := io.ReadAll(q.Body)
		got = len(b)
	})
	r := start(t, Config{Exchange: exchange.Config{Held: 100_000}}, Engine{Decider: &scanner{}})
	for _, tt := range []struct {
		body   string
		status int
	}{
		{"good", 200}, {"bad", 403}, {strings.Repeat("x", 400_000), 200}, {"bad" + strings.Repeat("x", 400_000), 403},
	} {
		for _, chunked := range []bool{false, true} {
			got = -1
			var body io.Reader = strings.NewReader(tt.body)
			if chunked {
				body = io.MultiReader(body)
			}
			res, err := r.client().Post(o.URL, "text/plain", body)
			if err != nil {
				t.Errorf("upload of %d bytes, chunked %v: %v", len(tt.body), chunked, err)
				continue
			}
			res.Body.Close()
			if res.StatusCode != tt.status || tt.status == 200 && got != len(tt.body) || tt.status != 200 && got != -1 {
				t.Errorf("upload of %d bytes, chunked %v: got status %d, and the origin got %d bytes", len(tt.body), chunked, res.StatusCode, got)
			}
		}
	}
}

// TestAClientThatFinishesItsUploadGetsTheResponse: a client that writes a whole large upload before it reads gets
// the response and no reset.
func TestAClientThatFinishesItsUploadGetsTheResponse(t *testing.T) {
	o := origin(t, func(w http.ResponseWriter, q *http.Request) {})
	r := start(t, Config{Exchange: exchange.Config{Held: 100_000}}, Engine{Decider: &scanner{}})
	c, br := r.raw()
	const size = 4 << 20
	_, err := fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\nbad%s", o.URL, size+3, strings.Repeat("x", size))
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(br); !strings.HasPrefix(string(b), "HTTP/1.1 403 ") || err != nil {
		t.Errorf("response to a refused upload: got %.40q, %v, want 403", b, err)
	}
}

func TestNoRoomToHoldIs503(t *testing.T) {
	hold := make(chan struct{})
	o := rawOrigin(t, "tcp", func(c net.Conn, br *bufio.Reader) {
		head := readHead(br)
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
		if strings.Contains(head, "/slow") {
			<-hold
		}
		c.Write(make([]byte, 100_000))
	})
	r := start(t, Config{Exchange: exchange.Config{Held: 16 << 10, HeldTotal: 16 << 10, QueueTime: setting.Duration(50 * time.Millisecond)}}, Engine{Decider: &scanner{}})
	const blocks = 4 // of 16 KiB; they take all the room
	slow := make(chan int, blocks)
	for range blocks {
		go func() {
			res, err := r.client().Get("http://" + o + "/slow")
			if err != nil {
				slow <- 0
				return
			}
			io.Copy(io.Discard, res.Body)
			slow <- res.StatusCode
		}()
	}
	for r.Stats().Held < blocks*16<<10 {
		time.Sleep(time.Millisecond)
	}
	res, _ := get(t, r.client(), "http://"+o+"/quick")
	if res.StatusCode != 503 || res.Header.Get("Retry-After") == "" {
		t.Errorf("without room for a body: got %d %v, want 503 with Retry-After", res.StatusCode, res.Header)
	}
	close(hold)
	for range blocks {
		if got := <-slow; got != 200 {
			t.Errorf("slow upload: got %d, want 200", got)
		}
	}
	if res, _ := get(t, r.client(), "http://"+o+"/quick"); res.StatusCode != 200 {
		t.Errorf("after the slow upload released its room: got %d, want 200", res.StatusCode)
	}
	r.wait(blocks + 2)
	if s := r.Stats(); s.Held != 0 || s.Overload != 1 {
		t.Errorf("counters: got %+v, want no held bytes and 1 overload", s)
	}
}

func TestWorkEndsWhenTheClientLeaves(t *testing.T) {
	o := origin(t, func(w http.ResponseWriter, q *http.Request) { fmt.Fprint(w, "page") })
	judging, hold := make(chan struct{}, 2), make(chan struct{})
	r := start(t, Config{Exchange: exchange.Config{Judges: 1}}, Engine{Decider: judge{
		wants: func(_ *filter.Transaction, s filter.Stage) bool { return s == filter.ResponseBody },
		decide: func(_ *filter.Transaction, s filter.Stage) filter.Verdict {
			if s == filter.ResponseBody {
				judging <- struct{}{}
				<-hold
			}
			return filter.Verdict{}
		},
	}})
	first := make(chan string)
	go func() { first <- r.talk("GET " + o.URL + " HTTP/1.1\r\nHost: x\r\n\r\n") }()
	<-judging
	c, _ := r.raw()
	fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", o.URL)
	for r.inspector.Held() < 2*4<<10 { // both bodies are held
		time.Sleep(time.Millisecond)
	}
	c.Close()
	close(hold)
	if got := <-first; !strings.HasSuffix(got, "\r\n\r\npage") {
		t.Errorf("first request: got %q, want the page", got)
	}
	abandoned := 0
	for _, x := range r.wait(2) {
		if x.Status == 0 && strings.Contains(x.Note, "went away") {
			abandoned++
		}
	}
	if s := r.Stats(); abandoned != 1 || s.Abandoned != 1 || s.Judged != 1 {
		t.Errorf("%d requests abandoned, want 1; counters %+v", abandoned, s)
	}
}

func TestABodyThatGetsNoTurnInTimeIsAnsweredWith503(t *testing.T) {
	o := origin(t, func(w http.ResponseWriter, q *http.Request) { fmt.Fprint(w, "page") })
	judging, hold := make(chan struct{}, 2), make(chan struct{})
	r := start(t, Config{Exchange: exchange.Config{Judges: 1, QueueTime: setting.Duration(50 * time.Millisecond)}}, Engine{Decider: judge{
		wants: func(_ *filter.Transaction, s filter.Stage) bool { return s == filter.ResponseBody },
		decide: func(_ *filter.Transaction, s filter.Stage) filter.Verdict {
			if s == filter.ResponseBody {
				judging <- struct{}{}
				<-hold
			}
			return filter.Verdict{}
		},
	}})
	first := make(chan string)
	go func() { first <- r.talk("GET " + o.URL + " HTTP/1.1\r\nHost: x\r\n\r\n") }()
	<-judging
	if got := r.talk("GET " + o.URL + " HTTP/1.1\r\nHost: x\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 503 ") || !strings.Contains(got, "Retry-After: ") {
		t.Errorf("second request: got %q, want 503 with Retry-After", got)
	}
	close(hold)
	if got := <-first; !strings.HasSuffix(got, "\r\n\r\npage") {
		t.Errorf("first request: got %q, want the page", got)
	}
	r.wait(2)
	if s := r.Stats(); s.Overload != 1 || s.Judged != 1 || s.Judging != 0 || s.JudgeWaiting != 0 {
		t.Errorf("counters: got %+v, want 1 overload and 1 judged body", s)
	}
}

func TestASlowPageThatTurnsBadEndsWithANotice(t *testing.T) {
	next := make(chan struct{})
	o := origin(t, func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		if q.URL.Query().Has("length") {
			w.Header().Set("Content-Length", "30000")
		}
		io.WriteString(w, strings.Repeat("x", 20_000))
		w.(http.Flusher).Flush()
		<-next
		io.WriteString(w, "bad"+strings.Repeat("x", 9_997))
	})
	r := start(t, Config{}, Engine{Decider: judge{
		wants: func(_ *filter.Transaction, s filter.Stage) bool { return s == filter.ResponseBody },
		decide: func(x *filter.Transaction, s filter.Stage) filter.Verdict {
			if s == filter.ResponseBody {
				if b, _ := x.Body.Decoded(); bytes.Contains(b, []byte("bad")) {
					return block("words")
				}
			}
			return filter.Verdict{Patience: time.Millisecond}
		},
	}})
	for _, query := range []string{"", "?length"} {
		res, err := r.client().Get(o.URL + query)
		if err != nil {
			t.Fatal(err)
		}
		first := make([]byte, 15_000) // while the origin waits
		if _, err := io.ReadFull(res.Body, first); err != nil {
			t.Fatal(err)
		}
		next <- struct{}{}
		rest, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err == nil || bytes.Contains(rest, []byte("bad")) || !bytes.Contains(rest, []byte("The rest of this page is blocked")) {
			t.Errorf("query %q: got end %q, error %v; want the notice", query, rest[max(0, len(rest)-100):], err)
		}
	}
	for _, x := range r.wait(2) {
		if x.Action != filter.Block || !strings.Contains(x.Note, "cut after") || x.Looked <= 20_000 {
			t.Errorf("record of the cut body: got %+v", x)
		}
	}
}

// TestABrokenResponseIsPassedOnAsCut: what came of it is judged, and the client sees that the rest is missing.
func TestABrokenResponseIsPassedOnAsCut(t *testing.T) {
	part := strings.Repeat("good ", 1000)
	o := rawOrigin(t, "tcp4", func(c net.Conn, br *bufio.Reader) {
		q, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		framing, text := "Content-Length: 100000\r\n\r\n", part
		if q.URL.Query().Has("chunked") {
			framing = "Transfer-Encoding: chunked\r\n\r\n186a0\r\n"
		}
		if q.URL.Query().Has("bad") {
			text += "bad "
		}
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: %s\r\n%s%s", q.URL.Query().Get("type"), framing, text)
		c.Close()
	})
	r := start(t, Config{}, Engine{Decider: &scanner{}})
	for _, typ := range []string{"text/html", "text/plain", "application/json", "application/octet-stream"} {
		for _, framing := range []string{"", "&chunked"} {
			url := "http://" + o + "/?type=" + typ + framing
			res, err := r.client().Get(url)
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(res.Body)
			if res.Body.Close(); res.StatusCode != 200 || string(b) != part || err == nil {
				t.Errorf("%s%s: got %d, %d bytes, %v; want the %d bytes that came, and a failure", typ, framing, res.StatusCode, len(b), err, len(part))
			}
			if res, b := get(t, r.client(), url+"&bad"); res.StatusCode != 403 {
				t.Errorf("%s%s, bad: got %d, %d bytes; want the block page", typ, framing, res.StatusCode, len(b))
			}
		}
	}
}
