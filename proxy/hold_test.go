package proxy

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shuultuur/filter"
)

// scanner blocks bodies that contain "bad", and counts how often it was asked.
type scanner struct {
	mu    sync.Mutex
	asked int
}

func (j *scanner) Wants(_ *filter.Transaction, s filter.Stage) bool {
	return s == filter.ResponseBody || s == filter.RequestBody
}

func (j *scanner) Decide(_ context.Context, t *filter.Transaction, s filter.Stage) filter.Verdict {
	t.Verdict = filter.Verdict{}
	body := t.Body
	if s == filter.RequestBody {
		body = t.Upload
	} else if s != filter.ResponseBody {
		return t.Verdict
	}
	j.mu.Lock()
	j.asked++
	j.mu.Unlock()
	if b, _ := body.Decoded(); bytes.Contains(b, []byte("bad")) {
		t.Verdict = block("words")
	}
	return t.Verdict
}

func TestBodyThatFitsIsJudgedBeforeItLeaves(t *testing.T) {
	o := origin(t, func(w http.ResponseWriter, q *http.Request) {
		fmt.Fprint(w, strings.Repeat("x", 100_000)+q.URL.RawQuery)
	})
	j := &scanner{}
	r := start(t, Config{}, Engine{Decider: j})
	if res, b := get(t, r.client(), o.URL+"/?good"); res.StatusCode != 200 || len(b) != 100_004 {
		t.Errorf("good: %d, %d bytes", res.StatusCode, len(b))
	}
	if res, b := get(t, r.client(), o.URL+"/?bad"); res.StatusCode != 403 || !strings.Contains(b, "words") {
		t.Errorf("bad: %d %q", res.StatusCode, b)
	}
	if j.asked != 2 {
		t.Errorf("asked %d times for 2 bodies", j.asked)
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
	r := start(t, Config{Held: 100_000}, Engine{Decider: j})
	for _, framing := range []string{"", "&length"} {
		res, b := get(t, r.client(), o.URL+"/?"+framing)
		if res.StatusCode != 200 || b != string(page) {
			t.Errorf("%q: %d, %d bytes", framing, res.StatusCode, len(b))
		}
		for _, at := range []string{"end", "middle"} {
			res, err := r.client().Get(o.URL + "/?bad=" + at + framing)
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(res.Body)
			if err == nil || len(b) >= size || len(b) < 100_000 {
				t.Errorf("%q, bad at %s: %d bytes, %v", framing, at, len(b), err)
			}
			if at == "end" && bytes.Contains(b, []byte("bad")) {
				t.Errorf("%q: what tipped it got through", framing)
			}
		}
		// HTTP/1.0 tells the end of a body by the end of the connection: it
		// has to be a reset.
		c, br := r.raw()
		fmt.Fprintf(c, "GET %s/?bad=end%s HTTP/1.0\r\n\r\n", o.URL, framing)
		if _, err := io.ReadAll(br); err == nil {
			t.Errorf("%q: HTTP/1.0 client saw a proper end", framing)
		}
	}
	for i, x := range r.wait(8) {
		switch {
		case i%4 == 0 && (x.Looked != size || x.Out != size || x.Action != filter.Pass):
			t.Errorf("good: record %+v", x)
		case i%4 != 0 && (x.Action != filter.Block || !strings.Contains(x.Note, "cut after") || x.Out >= size):
			t.Errorf("bad: record %+v", x)
		}
	}
	if s := r.Stats(); s.Cut != 6 || s.Partial != 8 || s.Blocked != 6 {
		t.Errorf("stats %+v", s)
	}
	if j.asked > 8*8 {
		t.Errorf("asked %d times for 8 bodies", j.asked)
	}
}

func TestUploadIsJudged(t *testing.T) {
	var got int
	o := origin(t, func(w http.ResponseWriter, q *http.Request) {
		b, _ := io.ReadAll(q.Body)
		got = len(b)
	})
	r := start(t, Config{Held: 100_000}, Engine{Decider: &scanner{}})
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
				t.Errorf("%d bytes, chunked %v: %v", len(tt.body), chunked, err)
				continue
			}
			res.Body.Close()
			if res.StatusCode != tt.status || tt.status == 200 && got != len(tt.body) || tt.status != 200 && got != -1 {
				t.Errorf("%d bytes, chunked %v: got %d, origin got %d bytes", len(tt.body), chunked, res.StatusCode, got)
			}
		}
	}
}

// TestWhoSendsOnGetsTheAnswer: a client that writes all of a large upload before
// it reads is not reset on the way.
func TestWhoSendsOnGetsTheAnswer(t *testing.T) {
	o := origin(t, func(w http.ResponseWriter, q *http.Request) {})
	r := start(t, Config{Held: 100_000}, Engine{Decider: &scanner{}})
	c, br := r.raw()
	const size = 4 << 20
	_, err := fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\nbad%s", o.URL, size+3, strings.Repeat("x", size))
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(br); !strings.HasPrefix(string(b), "HTTP/1.1 403 ") || err != nil {
		t.Errorf("got %.40q, %v", b, err)
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
	r := start(t, Config{Held: 128 << 10, HeldTotal: 128 << 10, QueueTime: 50 * time.Millisecond}, Engine{Decider: &scanner{}})
	slow := make(chan int, 1)
	go func() {
		res, err := r.client().Get("http://" + o + "/slow")
		if err != nil {
			slow <- 0
			return
		}
		io.Copy(io.Discard, res.Body)
		slow <- res.StatusCode
	}()
	for r.Stats().Held == 0 {
		time.Sleep(time.Millisecond)
	}
	res, _ := get(t, r.client(), "http://"+o+"/quick")
	if res.StatusCode != 503 || res.Header.Get("Retry-After") == "" {
		t.Errorf("got %d %v", res.StatusCode, res.Header)
	}
	close(hold)
	if got := <-slow; got != 200 {
		t.Errorf("slow: got %d", got)
	}
	if res, _ := get(t, r.client(), "http://"+o+"/quick"); res.StatusCode != 200 {
		t.Errorf("with room again: got %d", res.StatusCode)
	}
	r.wait(3)
	if s := r.Stats(); s.Held != 0 || s.Overload != 1 {
		t.Errorf("stats %+v", s)
	}
}

func TestBudgetServesInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(100)
		ctx := context.Background()
		take := func(n int64, wait time.Duration) bool { ok, _ := b.take(ctx, netip.Addr{}, n, wait); return ok }
		if !take(60, 0) || take(60, 0) || take(60, time.Second) {
			t.Fatal("60 of 100, then 60 more")
		}
		got := make(chan string, 2)
		go func() {
			if take(80, time.Minute) {
				got <- "large"
			}
		}()
		synctest.Wait()
		go func() {
			if take(30, time.Minute) {
				got <- "small"
			}
		}()
		synctest.Wait()
		if len(got) != 0 {
			t.Fatal("the small one passed the large one")
		}
		b.give(60)
		if s := <-got; s != "large" {
			t.Errorf("first %s", s)
		}
		b.give(80)
		if s := <-got; s != "small" {
			t.Errorf("then %s", s)
		}
		b.give(30)
		if b.used() != 0 {
			t.Errorf("%d used at the end", b.used())
		}
	})
}

func TestHoldGivesBackWhatItTook(t *testing.T) {
	b := newBudget(1 << 20)
	h := hold{b: b}
	ctx := context.Background()
	if ok, _ := h.claim(ctx, 300_000, 0); !ok {
		t.Fatal("no room for 300,000 of 1 MiB")
	}
	for left := int64(300_000); left > 0; {
		p := h.grow(ctx, left, 0)
		n := min(int64(len(p)), left, 1000)
		h.wrote(int(n))
		left -= n
	}
	if h.n != 300_000 || h.claimed != 5*large {
		t.Errorf("%d bytes, %d claimed", h.n, h.claimed)
	}
	h.shrink()
	if want := int64(4*large + large); b.used() != want {
		t.Errorf("%d used, want %d", b.used(), want)
	}
	a, c := h.pair()
	if b.used() != 2*large || cap(a) != large || cap(c) != large {
		t.Errorf("%d used by a pair of %d and %d", b.used(), cap(a), cap(c))
	}
	h.free()
	if b.used() != 0 {
		t.Errorf("%d used at the end", b.used())
	}
}

func TestNobodyWorksForAClientThatLeft(t *testing.T) {
	o := origin(t, func(w http.ResponseWriter, q *http.Request) { fmt.Fprint(w, "page") })
	judging, hold := make(chan struct{}, 2), make(chan struct{})
	r := start(t, Config{Judges: 1}, Engine{Decider: judge{
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
	for r.held.used() < 2*small { // both bodies are held
		time.Sleep(time.Millisecond)
	}
	c.Close()
	close(hold)
	if got := <-first; !strings.HasSuffix(got, "\r\n\r\npage") {
		t.Errorf("first: %q", got)
	}
	abandoned := 0
	for _, x := range r.wait(2) {
		if x.Status == 0 && strings.Contains(x.Note, "went away") {
			abandoned++
		}
	}
	if s := r.Stats(); abandoned != 1 || s.Abandoned != 1 || s.Judged != 1 {
		t.Errorf("%d abandoned, stats %+v", abandoned, s)
	}
}

func TestClientsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShare(1, 0)
		greedy, modest := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
		if ok, waited := s.take(t.Context(), greedy, 1, 0); !ok || waited {
			t.Fatal("the first has to wait")
		}
		served := make(chan string, 20)
		var all sync.WaitGroup
		ask := func(who netip.Addr, name string, wait time.Duration) {
			all.Go(func() {
				ok, _ := s.take(t.Context(), who, 1, wait)
				if !ok {
					name += " in vain"
				}
				served <- name
				if ok {
					time.Sleep(time.Second)
					s.give(1)
				}
			})
			synctest.Wait()
		}
		for i := range 5 {
			ask(greedy, fmt.Sprint("greedy ", i), time.Minute)
		}
		ask(greedy, "greedy, soon", 1500*time.Millisecond)
		ask(modest, "modest 0", time.Minute)
		ask(modest, "modest 1", time.Minute)
		if n := s.inLine(); n != 8 {
			t.Errorf("%d in line, want 8", n)
		}
		s.give(1)
		all.Wait()
		close(served)
		var got []string
		for name := range served {
			got = append(got, name)
		}
		want := "greedy 0, modest 0, greedy, soon in vain, greedy 1, modest 1, greedy 2, greedy 3, greedy 4"
		if got := strings.Join(got, ", "); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		if s.used() != 0 || s.inLine() != 0 || len(s.lines) != 0 || len(s.ring) != 0 {
			t.Errorf("left: %d used, %d in line, %d lines, %d in the ring", s.used(), s.inLine(), len(s.lines), len(s.ring))
		}
	})
}

func TestALineHasALength(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShare(1, 2)
		ctx, stop := context.WithCancel(t.Context())
		s.take(ctx, netip.Addr{}, 1, 0)
		for range 2 {
			go s.take(ctx, netip.Addr{}, 1, time.Hour)
		}
		synctest.Wait()
		if ok, waited := s.take(ctx, netip.Addr{}, 1, time.Hour); ok || waited {
			t.Error("a third one got in line")
		}
		stop()
		synctest.Wait()
		if s.inLine() != 0 {
			t.Errorf("%d in line when all have gone", s.inLine())
		}
	})
}

func TestABodyThatGetsNoTurnInTimeIsAnsweredWith503(t *testing.T) {
	o := origin(t, func(w http.ResponseWriter, q *http.Request) { fmt.Fprint(w, "page") })
	judging, hold := make(chan struct{}, 2), make(chan struct{})
	r := start(t, Config{Judges: 1, QueueTime: 50 * time.Millisecond}, Engine{Decider: judge{
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
		t.Errorf("second: %q", got)
	}
	close(hold)
	if got := <-first; !strings.HasSuffix(got, "\r\n\r\npage") {
		t.Errorf("first: %q", got)
	}
	r.wait(2)
	if s := r.Stats(); s.Overload != 1 || s.Judged != 1 || s.Judging != 0 || s.JudgeWaiting != 0 {
		t.Errorf("stats %+v", s)
	}
}
