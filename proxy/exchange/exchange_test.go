package exchange

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/message"
	"shuultuur/proxy/page"
)

// decider is a Decider that consists of two functions; either may be nil.
type decider struct {
	wants  func(t *filter.Transaction, s filter.Stage) bool
	decide func(t *filter.Transaction, s filter.Stage) filter.Verdict
}

func (d decider) Wants(t *filter.Transaction, s filter.Stage) bool {
	return d.wants != nil && d.wants(t, s)
}

func (d decider) Decide(_ context.Context, t *filter.Transaction, s filter.Stage) {
	if d.decide != nil {
		t.Verdict = d.decide(t, s)
	}
}

func begin(t *testing.T, cfg Config, d decider) (*Exchange, *Inspector) {
	t.Helper()
	pages, err := page.New("", "")
	if err != nil {
		t.Fatal(err)
	}
	i, err := NewInspector(cfg)
	if err != nil {
		t.Fatal(err)
	}
	x := new(Exchange)
	i.Exchange(x)
	x.Begin(&Engine{Decider: d, Pages: pages}, time.Now(), "id")
	t.Cleanup(func() {
		x.End()
		if n := i.Held(); n != 0 {
			t.Errorf("the inspector still holds %d bytes after the test", n)
		}
	})
	return x, i
}

// read reads the head of a request and its body from memory.
func read(t *testing.T, x *Exchange, s string) {
	t.Helper()
	if err := message.NewReader(strings.NewReader(s), 0, 8<<10).ReadRequest(&x.Q); err != nil {
		t.Fatal(err)
	}
}

func respond(ctype, body string) *message.Response {
	m := new(message.MemoryBody)
	m.Set([]byte(body))
	s := &message.Response{Status: 200, Length: int64(len(body)), Body: m}
	s.Add("Content-Type", ctype)
	return s
}

func all(t *testing.T, b io.Reader) string {
	t.Helper()
	text, err := io.ReadAll(b)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// bad blocks a body once its inspected part contains a word.
func bad(word string) decider {
	return decider{
		wants: func(*filter.Transaction, filter.Stage) bool { return true },
		decide: func(x *filter.Transaction, s filter.Stage) filter.Verdict {
			b := x.Body
			if s == filter.RequestBody {
				b = x.Upload
			}
			if b == nil {
				return filter.Verdict{}
			}
			if text, _ := b.Decoded(); strings.Contains(string(text), word) {
				return filter.Verdict{Action: filter.Block, Reason: filter.Reason{Policy: "pupils"}}
			}
			return filter.Verdict{}
		},
	}
}

func TestARequestIsJudgedWithoutAConnection(t *testing.T) {
	ctx := t.Context()
	for _, tt := range []struct {
		body   string
		status int
	}{{"good", 0}, {"bad word", 403}} {
		x, _ := begin(t, Config{}, bad("bad"))
		read(t, x, "POST http://x.test/ HTTP/1.1\r\nHost: x.test\r\nContent-Length: 8\r\n\r\n"+(tt.body + "        ")[:8])
		if !x.JudgeHead(ctx) {
			t.Fatal("JudgeHead refused the request, want it to pass")
		}
		err := x.InspectRequest(ctx)
		if tt.status == 0 {
			if err != nil || all(t, x.Q.Body) != "good    " {
				t.Errorf("InspectRequest of body %q: got error %v, want the body to pass", tt.body, err)
			}
			continue
		}
		s := x.Answer(ctx, err)
		if s == nil || s.Status != tt.status || !strings.Contains(all(t, s.Body), "is closed") {
			t.Errorf("body %q: got error %v, answer %+v", tt.body, err, s)
		}
	}
}

func TestAResponseIsJudgedWithoutAConnection(t *testing.T) {
	ctx := t.Context()
	large := strings.Repeat("good ", 40_000)
	for name, tt := range map[string]struct {
		body    string
		refused error
		cut     bool
	}{
		"small and good": {body: "good"},
		"small and bad":  {body: "a bad one", refused: ErrRefused},
		"large and good": {body: large},
		"bad at the end": {body: large + "bad", cut: true},
		"bad inside":     {body: large + "bad" + large, cut: true},
		"bad at once":    {body: "bad" + large, refused: ErrRefused},
	} {
		x, _ := begin(t, Config{Held: 20_000, HeldTotal: 1 << 20}, bad("bad"))
		read(t, x, "GET http://x.test/ HTTP/1.1\r\nHost: x.test\r\n\r\n")
		s := respond("text/plain", tt.body)
		pass, inspect := x.JudgeResponse(ctx, s)
		if !pass || !inspect {
			t.Fatalf("%s: JudgeResponse returned pass %v, inspect %v; want true for both", name, pass, inspect)
		}
		if _, err := x.InspectResponse(ctx, s); err != tt.refused {
			t.Errorf("%s: InspectResponse returned %v, want %v", name, err, tt.refused)
		}
		if tt.refused != nil {
			if a := x.Answer(ctx, ErrRefused); a.Status != 403 {
				t.Errorf("%s: Answer has status %d, want 403", name, a.Status)
			}
			continue
		}
		var out strings.Builder
		n, err := s.Body.Copy(&out, 1<<40)
		switch {
		case tt.cut && (err != ErrCut || n >= int64(len(tt.body))):
			t.Errorf("%s: read %d of %d bytes, error %v; want ErrCut before the end", name, n, len(tt.body), err)
		case !tt.cut && (err != nil || out.String() != tt.body || !s.Body.AtEnd()):
			t.Errorf("%s: read %d of %d bytes, error %v, at the end %v; want all", name, n, len(tt.body), err, s.Body.AtEnd())
		}
	}
}

// TestInspectedBodiesKeepTheContract reads an inspected body through each of its methods: all
// return the same bytes.
func TestInspectedBodiesKeepTheContract(t *testing.T) {
	ctx := t.Context()
	text := strings.Repeat("0123456789", 20_000)
	for name, take := range map[string]func(b message.Body, w io.Writer) error{
		"read": func(b message.Body, w io.Writer) error {
			_, err := io.CopyBuffer(w, onlyReader{b}, make([]byte, 777))
			return err
		},
		"copy in steps": func(b message.Body, w io.Writer) error {
			for !b.AtEnd() {
				if _, err := b.Copy(w, 10_001); err != nil {
					return err
				}
			}
			return nil
		},
		"what is at hand": func(b message.Body, w io.Writer) error {
			var one [1]byte
			for !b.AtEnd() {
				n := 0
				for _, p := range b.Ready(nil) {
					w.Write(p)
					n += len(p)
				}
				b.Skip(n)
				if n > 0 {
					continue
				}
				if n, err := b.Read(one[:]); err == nil {
					w.Write(one[:n])
				} else if !errors.Is(err, io.EOF) {
					return err
				}
			}
			return nil
		},
	} {
		for _, action := range []filter.Action{filter.Pass, filter.Allow} {
			for _, held := range []int{5000, 1 << 20} {
				x, _ := begin(t, Config{Held: 5000, HeldTotal: 4 << 20}, decider{
					wants:  func(*filter.Transaction, filter.Stage) bool { return true },
					decide: func(x *filter.Transaction, s filter.Stage) filter.Verdict { return filter.Verdict{Action: filter.Pass} },
				})
				x.in.held = int64(held)
				s := respond("text/plain", text)
				x.JudgeResponse(ctx, s)
				x.Engine.Decider = decider{decide: func(*filter.Transaction, filter.Stage) filter.Verdict { return filter.Verdict{Action: action} }}
				if _, err := x.InspectResponse(ctx, s); err != nil {
					t.Fatal(err)
				}
				if left := s.Body.Remaining(); left != int64(len(text)) {
					t.Errorf("%s: Remaining before reading = %d, want %d", name, left, len(text))
				}
				var out strings.Builder
				if err := take(s.Body, &out); err != nil || out.String() != text || s.Body.Remaining() != 0 {
					t.Errorf("%s, action %v, room for %d bytes: read %d bytes, error %v, %d remaining", name, action, held, out.Len(), err, s.Body.Remaining())
				}
			}
		}
	}
}

type onlyReader struct{ io.Reader }

func TestAnExchangeIsResetByBegin(t *testing.T) {
	x, _ := begin(t, Config{}, decider{})
	read(t, x, "GET http://x.test/ HTTP/1.1\r\nHost: x.test\r\nCookie: shuultuur=a; b=c\r\n\r\n")
	x.T.Findings = append(x.T.Findings, filter.Finding{Check: "a"})
	x.Edits = []filter.Edit{{}}
	x.Note("note")
	x.Refuse("refused")
	x.End()
	x.Begin(x.Engine, time.Now(), "second")
	if x.T.Note != "" || len(x.T.Findings) != 0 || x.T.Verdict.Action != filter.Pass || x.Edits != nil || x.T.ID != "second" || x.T.Last != filter.ResponseBody {
		t.Errorf("Begin left parts of the previous transaction: %+v", x.T)
	}
}

// A slow body comes in pieces, each after a pause.
type slow struct {
	message.Body
	pieces [][]byte
	pause  time.Duration
	left   int64
	closed chan struct{}
}

func slowly(pause time.Duration, pieces ...string) *slow {
	b := &slow{pause: pause, closed: make(chan struct{}), left: message.Chunked}
	for _, p := range pieces {
		b.pieces = append(b.pieces, []byte(p))
	}
	return b
}

func (b *slow) Ready(dst [][]byte) [][]byte { return dst }
func (b *slow) AtEnd() bool                 { return len(b.pieces) == 0 }
func (b *slow) Remaining() int64 {
	if b.AtEnd() {
		return 0
	}
	return b.left
}
func (b *slow) Trailer() message.Fields { return nil }
func (b *slow) Close() error {
	select {
	case <-b.closed:
	default:
		close(b.closed)
	}
	return nil
}

func (b *slow) Read(p []byte) (int, error) {
	if b.AtEnd() {
		return 0, io.EOF
	}
	select {
	case <-time.After(b.pause):
	case <-b.closed:
		return 0, errors.New("closed")
	}
	n := copy(p, b.pieces[0])
	if b.pieces[0] = b.pieces[0][n:]; len(b.pieces[0]) == 0 {
		b.pieces = b.pieces[1:]
	}
	return n, nil
}

func slowResponse(ctype string, b *slow) *message.Response {
	s := &message.Response{Status: 200, Length: message.Chunked, Body: b}
	s.Add("Content-Type", ctype)
	return s
}

// impatient is bad with patience.
func impatient(word string, patience time.Duration) decider {
	d := bad(word)
	judge := d.decide
	d.decide = func(t *filter.Transaction, s filter.Stage) filter.Verdict {
		v := judge(t, s)
		v.Patience = patience
		return v
	}
	return d
}

// inspect has s judged. It returns the text and the time until the client could read its first
// bytes.
func inspect(t *testing.T, x *Exchange, s *message.Response) (first time.Duration, text string, err error) {
	t.Helper()
	start := time.Now()
	if pass, inspect := x.JudgeResponse(t.Context(), s); !pass || !inspect {
		t.Fatal("JudgeResponse does not want to inspect the body")
	}
	if _, err := x.InspectResponse(t.Context(), s); err != nil {
		return 0, "", err
	}
	first = time.Since(start)
	var b strings.Builder
	_, err = s.Body.Copy(&b, 1<<40)
	return first, b.String(), err
}

func TestASlowPageBeginsBeforeItEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pieces []string
		for range 100 {
			pieces = append(pieces, strings.Repeat("good page ", 200))
		}
		page := strings.Join(pieces, "")
		for patience, want := range map[time.Duration]time.Duration{300 * time.Millisecond: 480 * time.Millisecond, 0: 9 * time.Second} {
			x, _ := begin(t, Config{}, impatient("bad", patience))
			read(t, x, "GET http://x.test/ HTTP/1.1\r\nHost: x.test\r\n\r\n")
			first, text, err := inspect(t, x, slowResponse("text/html", slowly(80*time.Millisecond, pieces...)))
			if first > want || err != nil || text != page {
				t.Errorf("patience %v: the first bytes came after %v, %d of %d bytes in all, error %v", patience, first, len(text), len(page), err)
			}
			if x.T.Looked != int64(len(page)) {
				t.Errorf("%d of %d bytes inspected, want all", x.T.Looked, len(page))
			}
			x.End()
		}
	})
}

func TestAVerdictThatChangesCutsAPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		good := strings.Repeat("good page ", 1000)
		for _, tt := range []struct {
			ctype  string
			notice bool
		}{{"text/html", true}, {"text/plain", false}} {
			x, i := begin(t, Config{}, impatient("bad", 300*time.Millisecond))
			read(t, x, "GET http://x.test/ HTTP/1.1\r\nHost: x.test\r\n\r\n")
			_, text, err := inspect(t, x, slowResponse(tt.ctype, slowly(time.Second, good, good, "a bad one", good)))
			if err != ErrCut || strings.Contains(text, "bad") || len(text) < len(good) {
				t.Errorf("%s: got %d bytes, error %v; want ErrCut before the bad word", tt.ctype, len(text), err)
			}
			if got := strings.Contains(text, "The rest of this page is blocked"); got != tt.notice || strings.Contains(text, "<script") {
				t.Errorf("%s: notice present: %v, in %q", tt.ctype, got, text[len(text)-100:])
			}
			if x.T.Verdict.Action != filter.Block || !strings.Contains(x.T.Note, "cut after") || x.T.Looked == 0 || i.counters[cut].Load() != 1 {
				t.Errorf("%s: the record does not show the cut: %+v", tt.ctype, x.T.Record)
			}
			x.End()
		}
	})
}

func TestAPauseReleasesTheTailOfWhatIsNoPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, _ := begin(t, Config{}, impatient("bad", 300*time.Millisecond))
		read(t, x, "GET http://x.test/ HTTP/1.1\r\nHost: x.test\r\n\r\n")
		s := slowResponse("application/x-ndjson", slowly(10*time.Second, `{"a":1}`+"\n", `{"a":2}`+"\n"))
		x.JudgeResponse(t.Context(), s)
		start := time.Now()
		if _, err := x.InspectResponse(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(start); d > 11*time.Second || all(t, &io.LimitedReader{R: s.Body, N: 8}) != `{"a":1}`+"\n" {
			t.Errorf("the first line of an endless body came after %v, or is wrong", d)
		}
	})
}

func TestADocumentIsHeldUntilItIsWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, _ := begin(t, Config{}, impatient("bad", 300*time.Millisecond))
		read(t, x, "GET http://x.test/ HTTP/1.1\r\nHost: x.test\r\n\r\n")
		filler := strings.Repeat("%", 10_000)
		_, _, err := inspect(t, x, slowResponse("application/pdf", slowly(time.Second, "%PDF-1.4\n", filler, filler, "bad")))
		if err != ErrRefused {
			t.Errorf("InspectResponse: got %v, want ErrRefused", err)
		}
	})
}

func TestALargeUploadIsJudgedToItsEnd(t *testing.T) {
	for body, want := range map[string]error{
		strings.Repeat("good ", 20_000):         nil,
		strings.Repeat("good ", 20_000) + "bad": ErrCut,
	} {
		x, _ := begin(t, Config{Held: 20_000}, bad("bad"))
		read(t, x, fmt.Sprintf("POST http://x.test/ HTTP/1.1\r\nHost: x.test\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
		if !x.JudgeHead(t.Context()) {
			t.Fatal("JudgeHead refused the request, want it to pass")
		}
		if err := x.InspectRequest(t.Context()); err != nil {
			t.Fatal(err)
		}
		n, err := x.Q.Body.Copy(io.Discard, 1<<40)
		if err != want || want == nil && n != int64(len(body)) || want != nil && n > int64(len(body)-3) {
			t.Errorf("upstream got %d of %d bytes, error %v", n, len(body), err)
		}
		x.End()
		if refused := x.T.Verdict.Action == filter.Block; refused != (want != nil) {
			t.Errorf("verdict on the upload: got %+v", x.T.Verdict)
		}
	}
}

func TestSlowResponsesOfOneClientDoNotDelayAnother(t *testing.T) {
	for _, patience := range []time.Duration{0, 300 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			d := decider{wants: func(*filter.Transaction, filter.Stage) bool { return true }}
			d.decide = func(*filter.Transaction, filter.Stage) filter.Verdict { return filter.Verdict{Patience: patience} }
			first, i := begin(t, Config{HeldTotal: 6 << 20, Judges: 2}, d)
			exchange := func(addr string) *Exchange {
				x := new(Exchange)
				i.Exchange(x)
				x.Begin(first.Engine, time.Now(), "id")
				x.T.Client.Addr = netip.MustParseAddr(addr)
				read(t, x, "GET http://x.test/ HTTP/1.1\r\nHost: x.test\r\n\r\n")
				return x
			}
			piece := strings.Repeat("good page ", 3200)
			var slow sync.WaitGroup
			for range 60 {
				slow.Go(func() {
					x := exchange("192.0.2.1")
					defer x.End()
					b := slowly(100*time.Millisecond, slices.Repeat([]string{piece}, 6)...)
					b.left = int64(6 * len(piece))
					if _, text, err := inspect(t, x, slowResponse("text/html", b)); err != nil || len(text) != 6*len(piece) {
						t.Errorf("slow page: got %d bytes, error %v", len(text), err)
					}
				})
			}
			for range 5 {
				time.Sleep(111 * time.Millisecond)
				x := exchange("192.0.2.2")
				start := time.Now()
				if _, _, err := inspect(t, x, respond("text/html", strings.Repeat("good page ", 20_000))); err != nil {
					t.Error(err)
				}
				if took := time.Since(start); took > 50*time.Millisecond {
					t.Errorf("patience %v: a short page took %v, want at most 50 ms", patience, took)
				}
				x.End()
			}
			slow.Wait()
		})
	}
}
