//go:build !small

package virus

import (
	"bytes"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"shuultuur/content"
	"shuultuur/filter"
	"shuultuur/lib/setting"
)

// scripted is a clamd that finds marmots, or gives the answer that it has for every stream.
func scripted(t *testing.T) (at string, answer *atomic.Value, asked *atomic.Int64) {
	t.Helper()
	answer, asked = new(atomic.Value), new(atomic.Int64)
	answer.Store("")
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				answerStreams(c, func(body []byte) string {
					asked.Add(1)
					if text, _ := answer.Load().(string); text != "" {
						return text
					}
					if bytes.Contains(body, []byte("marmot")) {
						return "Own.Marmots FOUND"
					}
					return "OK"
				})
			}()
		}
	}()
	return ln.Addr().String(), answer, asked
}

// keptIn checks a download that the server keeps, and that arrives in pieces.
func keptIn(t *testing.T, c *Check, pieces int, body string) ([]filter.Finding, error) {
	t.Helper()
	var b content.Body
	b.Reset(&content.Head{}, content.Limits{})
	defer b.Release()
	rest := body
	b.Wait.Keep(func(yield func([]byte, error) bool) { yield([]byte(body[:len(body)-len(rest)]), nil) })
	for n := pieces; ; n-- {
		k := len(rest) / n
		b.Append([]byte(rest[:k]))
		if rest = rest[k:]; n == 1 {
			b.Finish()
		}
		got, err := c.Find(t.Context(), &filter.Transaction{Body: &b}, filter.ResponseBody, nil)
		if err != nil || len(got) > 0 || n == 1 {
			return got, err
		}
		b.Forget()
	}
}

func TestAScannerThatLacksSomethingIsAskedLast(t *testing.T) {
	for answer, lacks := range map[string]bool{
		"Can't allocate memory ERROR":                    true,
		"Can't create temporary directory ERROR":         true,
		"CL_ETMPFILE: Can't create temporary file ERROR": true,
		"CL_EWRITE: Can't write to file ERROR":           true,
		"Malformed database ERROR":                       true,
		"INSTREAM size limit exceeded. ERROR":            false,
		"CL_EFORMAT: Bad format or broken data ERROR":    false,
		"CL_ETIMEOUT: Time limit reached ERROR":          false,
	} {
		t.Run(answer, func(t *testing.T) {
			first, says, asked := scripted(t)
			second, _, _ := scripted(t)
			c, err := New(Config{Clamd: setting.OneOrMore[string]{first, second}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			says.Store(answer)
			for n := range 6 {
				if got, err := keptIn(t, c, 1+n%3, "there are forty marmots"); err != nil || len(got) != 1 || got[0].Category != "virus" {
					t.Errorf("body %d: %+v, %v; want the virus that the second clamd finds", n, got, err)
				}
			}
			if n := asked.Load(); lacks != (n == 1) {
				t.Errorf("the first clamd was asked about %d of 6 bodies; it lacks something: %t", n, lacks)
			}
			if p := strings.Join(c.Problems(), ";"); strings.Contains(p, "asked after the others") != lacks || lacks && !strings.Contains(p, first) {
				t.Errorf("problems are %q", p)
			}
			if !lacks {
				return
			}
			c.scanners[0].sick.Store(&outage{time.Now().Add(-sickFor), nil})
			says.Store("")
			if _, err := keptIn(t, c, 1, "some text"); err != nil || len(c.Problems()) > 0 || asked.Load() != 2 {
				t.Errorf("after a while: %v, problems %q, asked %d times; want that it is asked first again", err, c.Problems(), asked.Load())
			}
		})
	}
}

// TestTheOnlyScannerIsAskedThoughItLacksSomething: its error is that of the body.
func TestTheOnlyScannerIsAskedThoughItLacksSomething(t *testing.T) {
	at, says, asked := scripted(t)
	c, err := New(Config{Clamd: setting.OneOrMore[string]{at}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	says.Store("Can't allocate memory ERROR")
	if _, err := keptIn(t, c, 1, "some text"); err == nil || !strings.Contains(err.Error(), "allocate memory") {
		t.Errorf("the error is %v", err)
	}
	says.Store("")
	if got, err := keptIn(t, c, 1, "marmots"); err != nil || len(got) != 1 || asked.Load() != 2 {
		t.Errorf("%+v, %v after %d questions; want the virus", got, err, asked.Load())
	}
}

// TestSessionsAreKeptForAWhile: with ConcurrentDatabaseReload no, clamd waits for the end of sessions
// before it loads new signatures.
func TestSessionsAreKeptForAWhile(t *testing.T) {
	at, _, _ := scripted(t)
	c, err := New(Config{Clamd: setting.OneOrMore[string]{at}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s := c.scanners[0]
	begun := func(ago time.Duration) *session {
		l, err := s.dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		l.since = time.Now().Add(-ago)
		return l
	}
	young, old := begun(0), begun(sessionLife)
	s.keep(young)
	if s.keep(old); len(s.idle) != 1 {
		t.Fatalf("%d sessions are kept, want the young one only", len(s.idle))
	}
	if _, err := old.Write([]byte("z")); err == nil {
		t.Error("an old session is open")
	}
	if s.closeOld(); len(s.idle) != 1 {
		t.Error("a young session is closed")
	}
	s.keep(begun(sessionLife - 50*time.Millisecond))
	for end := time.Now().Add(10 * time.Second); len(s.idle) != 1; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a session that nobody uses stays open")
		}
	}
}

func TestWhatClamdCannotReadIsNoVirus(t *testing.T) {
	at, says, _ := scripted(t)
	c, err := New(Config{Clamd: setting.OneOrMore[string]{at}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for name, want := range map[string]string{
		"Heuristics.Limits.Exceeded.MaxFileSize": filter.Unread,
		"Heuristics.Limits.Exceeded":             filter.Unread,
		"Heuristics.Encrypted.Zip":               filter.Unread,
		"Heuristics.Broken.Executable":           "virus",
		"Win.Trojan.Encrypted-1":                 "virus",
	} {
		says.Store(name + " FOUND")
		for _, pieces := range []int{1, 3} {
			if got, err := keptIn(t, c, pieces, "some text"); err != nil || len(got) != 1 || got[0].Category != want || !strings.Contains(got[0].Evidence, name) {
				t.Errorf("%s in %d pieces: %+v, %v; want the category %s", name, pieces, got, err, want)
			}
		}
	}
}
