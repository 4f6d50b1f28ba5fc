package exchange

import (
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shuultuur/filter"
)

// awaiting is a scanner that blocks a body with a word when it knows all of it.
func awaiting(word string, patience time.Duration) decider {
	return decider{
		wants: func(*filter.Transaction, filter.Stage) bool { return true },
		decide: func(x *filter.Transaction, s filter.Stage) filter.Verdict {
			b := x.Body
			if s == filter.RequestBody {
				b = x.Upload
			}
			v := filter.Verdict{Patience: patience}
			if b == nil {
				return v
			}
			if !b.Available() {
				b.Wait.AwaitEnd()
				return v
			}
			var text strings.Builder
			for p := range b.Blocks() {
				text.Write(p)
			}
			if strings.Contains(text.String(), word) {
				v.Action = filter.Block
			}
			return v
		},
	}
}

// TestABodyWhoseEndIsAwaitedIsHeld: in memory, then in a file, and behind a head that its source
// waits for.
func TestABodyWhoseEndIsAwaitedIsHeld(t *testing.T) {
	piece := "\x7fELF" + strings.Repeat("\x00\x01\x02\x03", 10_000)
	for name, tt := range map[string]struct {
		held      int64
		ctype     string
		headFirst bool
	}{
		"in memory":           {1 << 20, "application/octet-stream", false},
		"in a file":           {60_000, "application/octet-stream", false},
		"text in a file":      {60_000, "text/plain", false},
		"after the head":      {1 << 20, "application/octet-stream", true},
		"in a file, after it": {60_000, "application/octet-stream", true},
	} {
		for _, patience := range []time.Duration{0, 300 * time.Millisecond} {
			for _, bad := range []bool{false, true} {
				t.Run(name, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						x, i := begin(t, Config{Folder: t.TempDir()}, awaiting("bad", patience))
						i.held = tt.held
						x.HeadFirst = tt.headFirst
						pieces := []string{piece, piece, piece, piece}
						if bad {
							pieces[0] += "bad"
						}
						read(t, x, "GET http://x.test/ HTTP/1.1\r\nHost: x.test\r\n\r\n")
						s := slowResponse(tt.ctype, slowly(time.Second, pieces...))
						if pass, inspect := x.JudgeResponse(t.Context(), s); !pass || !inspect {
							t.Fatal("the body is not inspected")
						}
						_, err := x.InspectResponse(t.Context(), s)
						var got []byte
						if err == nil {
							got, err = io.ReadAll(s.Body)
						}
						whole := strings.Join(pieces, "")
						if bad && (len(got) > 0 || err == nil) || !bad && (err != nil || string(got) != whole) {
							t.Errorf("patience %v, bad %v: %d of %d bytes passed, %v", patience, bad, len(got), len(whole), err)
						}
						x.End()
						if bytes, files := kept(i); bytes != 0 || files != 0 {
							t.Errorf("%d bytes of %d files are still counted at the end", bytes, files)
						}
					})
				})
			}
		}
	}
}

// TestAnAwaitedBodyThatFindsNoRoomIsReported: it passes only as the rules decide.
func TestAnAwaitedBodyThatFindsNoRoomIsReported(t *testing.T) {
	for _, refuse := range []bool{false, true} {
		d := awaiting("bad", 0)
		decide := d.decide
		d.decide = func(x *filter.Transaction, s filter.Stage) filter.Verdict {
			v := decide(x, s)
			if refuse && x.Body != nil && x.Body.Wait.Unkept() != 0 {
				v.Action = filter.Block
			}
			return v
		}
		x, i := begin(t, Config{Held: 60_000, Downloads: 100_000, Folder: t.TempDir()}, d)
		read(t, x, "GET http://x.test/ HTTP/1.1\r\nHost: x.test\r\n\r\n")
		body := strings.Repeat("\x00\x01\x02\x03", 100_000)
		s := respond("application/octet-stream", body)
		x.JudgeResponse(t.Context(), s)
		_, err := x.InspectResponse(t.Context(), s)
		if refuse {
			if err != ErrRefused {
				t.Errorf("got %v, want the refusal of what could not be held", err)
			}
		} else if got := ""; err != nil || x.T.Unread != "no-capacity" {
			t.Errorf("got %v, unread %q", err, x.T.Unread)
		} else if got = all(t, s.Body); got != body {
			t.Errorf("%d of %d bytes passed", len(got), len(body))
		}
		x.End()
		if bytes, files := kept(i); bytes != 0 || files != 0 {
			t.Errorf("%d bytes of %d files are still counted at the end", bytes, files)
		}
	}
}

// A dated body remembers when its bytes were read.
type dated struct {
	*slow
	mu   sync.Mutex
	read []arrival
}

func (b *dated) Read(p []byte) (int, error) {
	n, err := b.slow.Read(p)
	b.mu.Lock()
	defer b.mu.Unlock()
	var end int64
	if i := len(b.read); i > 0 {
		end = b.read[i-1].end
	}
	b.read = append(b.read, arrival{end + int64(n), time.Now()})
	return n, err
}

// before returns how many bytes were read before a time.
func (b *dated) before(at time.Time) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, a := range b.read {
		if a.at.Before(at) {
			n = int(a.end)
		}
	}
	return n
}

// TestPatienceRunsFromTheOldestHeldByte: however small and frequent the pieces are, the reader gets each
// within the patience of the policy. Of a page, the last part waits for its end.
func TestPatienceRunsFromTheOldestHeldByte(t *testing.T) {
	const patience = 300 * time.Millisecond
	for _, tt := range []struct {
		ctype, piece string
		every        time.Duration
		held         int // bytes that may be held for longer
	}{
		{"text/plain", "a word ", 100 * time.Millisecond, 0},
		{"text/plain; charset=utf-8", "a word ", 10 * time.Millisecond, 0},
		{"text/plain", "a word ", time.Millisecond, 0},
		{"text/plain", "a word ", 250 * time.Millisecond, 0},
		{"text/plain", strings.Repeat("a word ", 300), 100 * time.Millisecond, 0},
		{"text/plain", strings.Repeat("a word ", 5000), 100 * time.Millisecond, 0},
		{"text/x-component", `1:["$","p",null,{}]` + "\n", 100 * time.Millisecond, 0},
		{"application/json", `{"choice": "a word"}, `, 100 * time.Millisecond, 0},
		{"multipart/mixed; boundary=b", "--b\r\nContent-Type: application/json\r\n\r\n{\"a\": 1}\r\n", 100 * time.Millisecond, 0},
		{"application/octet-stream", "a word ", 100 * time.Millisecond, 0},
		{"application/octet-stream", "\x01\x02\x03\x00", 100 * time.Millisecond, 0},
		{"", "a word ", 100 * time.Millisecond, 0},
		{"text/html", "<p>A sentence of a page.", 100 * time.Millisecond, tail},
	} {
		synctest.Test(t, func(t *testing.T) {
			x, _ := begin(t, Config{}, impatient("bad", patience))
			read(t, x, "GET http://x.test/ HTTP/1.1\r\nHost: x.test\r\n\r\n")
			pieces := make([]string, min(300, 64<<10/len(tt.piece)))
			if len(tt.piece) > 1000 {
				pieces = make([]string, 20)
			}
			for i := range pieces {
				pieces[i] = tt.piece
			}
			source := &dated{slow: slowly(tt.every, pieces...)}
			s := slowResponse(tt.ctype, source.slow)
			s.Body = source
			start := time.Now()
			if pass, inspect := x.JudgeResponse(t.Context(), s); !pass || !inspect {
				t.Fatal("the body is not inspected")
			}
			if _, err := x.InspectResponse(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			got, buf := 0, make([]byte, 64<<10)
			for !s.Body.AtEnd() {
				n, err := s.Body.Read(buf)
				if err != nil && err != io.EOF {
					t.Fatal(err)
				}
				// What had been here for longer than the patience until now was passed on before.
				if due := source.before(time.Now().Add(-patience-2*arrivalStep)) - tt.held; got < due {
					t.Errorf("%s, pieces of %d bytes every %v: after %v the reader had %d bytes, %d were due", tt.ctype, len(tt.piece), tt.every, time.Since(start), got, due)
					break
				}
				got += n
			}
			if want := len(pieces) * len(tt.piece); got != want && !t.Failed() {
				t.Errorf("%s: got %d bytes, want %d", tt.ctype, got, want)
			}
			x.End()
		})
	}
}
