//go:build !small

package helper

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/metric"
)

// running returns a server that listens on a socket and runs until the test ends.
func running(t *testing.T) *Server {
	t.Helper()
	s := server(t)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s.socket = filepath.Join(t.TempDir(), "socket")
	if err := s.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return s
}

func TestARelayPassesQuestionsAndAnswers(t *testing.T) {
	t.Parallel()
	s := running(t)
	var out bytes.Buffer
	in := "1 http://ok.example/ 10.0.0.1/- - GET\n2 http://bad.example/ 10.0.0.1/- - GET\n3 " + strings.Repeat("x", maxLine) + "\n"
	if err := Relay(t.Context(), s.socket, "rewrite", "", strings.NewReader(in), &out); err != nil {
		t.Fatal(err)
	}
	answers := map[string]string{}
	for line := range strings.Lines(out.String()) {
		channel, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		answers[channel] = rest
	}
	if answers["1"] != "ERR" || !strings.HasPrefix(answers["2"], `OK rewrite-url="http://127.0.0.1:`) || !strings.HasPrefix(answers["3"], "OK status=302 url=") || len(answers) != 3 {
		t.Errorf("the answers are %q", answers)
	}
}

func TestARelayAnswersWhereThereIsNoGateway(t *testing.T) {
	t.Parallel()
	none := filepath.Join(t.TempDir(), "none")
	for _, tt := range []struct{ kind, down, want string }{
		{"rewrite", "http://down.example/", `4 OK status=302 url="http://down.example/"`},
		{"rewrite", "", "4 BH message="},
		{"acl", "http://down.example/", "4 BH message="},
	} {
		t.Run(tt.kind+tt.down, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var out bytes.Buffer
				question := "4 http://ok.example/ 10.0.0.1/- - GET\n"
				if tt.kind == "acl" {
					question = "4 10.0.0.1 - GET http://ok.example/\n"
				}
				begin := time.Now()
				if err := Relay(t.Context(), none, tt.kind, tt.down, strings.NewReader(question), &out); err != nil || !strings.HasPrefix(out.String(), tt.want) {
					t.Errorf("the answer is %q, %v, want %q", out.String(), err, tt.want)
				}
				if took := time.Since(begin); took < waitAway || took > waitAway+tick {
					t.Errorf("the question waits for %v, want %v", took, waitAway)
				}
			})
		})
	}
}

// A gateway that ends in the middle is one that is restarted.
func TestARelayAsksAgainAfterARestart(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	asked := make(chan string, 2)
	go func() {
		for i := range 2 {
			c, err := l.Accept()
			if err != nil {
				return
			}
			r := bufio.NewReader(c)
			greeting, _ := r.ReadString('\n')
			question, _ := r.ReadString('\n')
			asked <- greeting + question
			if i == 1 {
				_, _ = io.WriteString(c, "9 OK late\n5 ERR\n") // the first is for a question that nobody asked
				_, _ = r.ReadString('\n')
			}
			c.Close()
		}
	}()
	var out bytes.Buffer
	if err := Relay(t.Context(), l.Addr().String(), "acl", "", strings.NewReader("5 10.0.0.1 - GET http://ok.example/\n"), &out); err != nil || out.String() != "5 ERR\n" {
		t.Errorf("the answer is %q, %v, want that of the second gateway", out.String(), err)
	}
	if first, second := <-asked, <-asked; first != second || !strings.HasSuffix(first, "acl\n5 10.0.0.1 - GET http://ok.example/\n") {
		t.Errorf("the gateways were asked %q and %q", first, second)
	}
}

func TestARelayEndsWithItsContextAndItsInput(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	never, w := io.Pipe()
	defer w.Close()
	if err := Relay(ctx, filepath.Join(t.TempDir(), "none"), "acl", "", never, io.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
	s := running(t)
	broken, w := io.Pipe()
	w.CloseWithError(errors.New("squid is gone"))
	if err := Relay(t.Context(), s.socket, "acl", "", broken, io.Discard); err == nil || !strings.Contains(err.Error(), "squid is gone") {
		t.Errorf("an input that breaks: %v, want its error", err)
	}
	if err := Relay(t.Context(), s.socket, "acl", "", strings.NewReader(""), io.Discard); err != nil {
		t.Errorf("an input without questions: %v", err)
	}
}

func TestWhoDoesNotSayWhatItIsIsClosed(t *testing.T) {
	t.Parallel()
	s := running(t)
	for _, first := range []string{"GET / HTTP/1.1\n", greeting + "other\n"} {
		c, err := net.Dial("unix", s.socket)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, first); err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(c); len(b) > 0 || err != nil {
			t.Errorf("%q is answered with %q, %v", first, b, err)
		}
		c.Close()
	}
}

func TestTwoGatewaysDoNotShareASocket(t *testing.T) {
	t.Parallel()
	s := running(t)
	second := New(s.socket, s.inspector, nil, slog.New(slog.DiscardHandler))
	if err := second.Listen(t.Context()); err == nil || !strings.Contains(err.Error(), "another gateway") {
		t.Errorf("a second gateway listens: %v", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("keep"), 0o600); err != nil {
		t.Fatal(err)
	}
	third := New(file, s.inspector, nil, slog.New(slog.DiscardHandler))
	if err := third.Listen(t.Context()); err == nil {
		t.Error("a gateway listens where a file is")
	}
	if b, err := os.ReadFile(file); string(b) != "keep" || err != nil {
		t.Errorf("the file is %q, %v", b, err)
	}
	if info, err := os.Stat(s.socket); err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("the socket is open to %v, %v", info.Mode(), err)
	}
}

func TestSquidFetchesThePageOfARefusal(t *testing.T) {
	t.Parallel()
	s := running(t)
	fetch := func(url string) (int, string) {
		t.Helper()
		r, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return r.StatusCode, string(b)
	}
	answer := string(s.one(t.Context(), "rewrite", "http://bad.example/ 10.0.0.1/- - GET"))
	_, rest, _ := strings.Cut(answer, `rewrite-url="`)
	url, _, _ := strings.Cut(rest, `"`)
	for range 2 { // Squid may fetch it again
		if status, text := fetch(url); status != http.StatusForbidden || !strings.Contains(text, "games") {
			t.Errorf("the page is %d, %q; want 403 with the category", status, text)
		}
	}
	if status, text := fetch(s.pages.url("unknown<b>")); status != http.StatusForbidden || !strings.Contains(text, "unknownb") || strings.Contains(text, "<b>") {
		t.Errorf("a page that is over is %d, %q", status, text)
	}
	if status, _ := fetch(s.pages.url(malformed)); status != http.StatusBadRequest {
		t.Errorf("the page of a malformed address is %d, want 400", status)
	}
	if status, text := fetch(s.pages.url("")); status != 200 || text == "" {
		t.Errorf("the gateway's own page is %d", status)
	}
	// A tunnel's page is on our own name, for the same client alone.
	answer = string(s.one(t.Context(), "rewrite", "bad.example:443 10.0.0.1/- - CONNECT"))
	_, rest, _ = strings.Cut(answer, `url="`)
	own, _, _ := strings.Cut(rest, `"`)
	id := own[strings.LastIndexByte(own, '/')+1:]
	for from, want := range map[string]string{"10.0.0.1": s.pages.url(id), "10.0.0.2": s.pages.url("")} {
		if got := string(s.one(t.Context(), "rewrite", own+" "+from+"/- - GET")); got != `OK rewrite-url="`+want+`"` {
			t.Errorf("%s gets %s, want %s", from, got, want)
		}
	}
}

// TestWhoHasNotSignedInIsSentThere: a browser that shows a page is redirected to the page to sign in on,
// with the address that it wanted; anything else is told it, and each is recorded as refused.
func TestWhoHasNotSignedInIsSentThere(t *testing.T) {
	t.Parallel()
	s := running(t)
	var recorded []filter.Action
	s.done = func(t *filter.Transaction) { recorded = append(recorded, t.Verdict.Action) }
	c := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for _, tt := range []struct {
		method, dest, at string
		status           int
	}{
		{"GET", "document", "http://bad.example:8082/sign-in?to=http%3A%2F%2Fok.example%2Fa%3Fb%3Dc%26d", 302},
		{"GET", "iframe", "http://bad.example:8082/sign-in?to=http%3A%2F%2Fok.example%2Fa%3Fb%3Dc%26d", 302},
		{"GET", "image", "", 511},
		{"GET", "empty", "", 511},
		{"POST", "document", "", 511},
	} {
		answer := string(s.one(t.Context(), "rewrite", "http://ok.example/a?b=c&d 2001:db8::1/- - "+tt.method))
		_, rest, _ := strings.Cut(answer, `rewrite-url="`)
		url, _, _ := strings.Cut(rest, `"`)
		q, err := http.NewRequest(tt.method, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Sec-Fetch-Dest", tt.dest)
		r, err := c.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(r.Body)
		r.Body.Close()
		if at := r.Header.Get("Location"); r.StatusCode != tt.status || at != tt.at || tt.dest == "empty" && !strings.Contains(string(text), "bad.example:8082/sign-in") {
			t.Errorf("%s for %s: %d to %q, %q; want %d to %q", tt.method, tt.dest, r.StatusCode, at, text, tt.status, tt.at)
		}
	}
	if len(recorded) != 5 || slices.Contains(recorded, filter.Allow) {
		t.Errorf("recorded are %v, want five refusals", recorded)
	}
}

// A finder finds one category in hosts, or fails.
type finder struct{ filter.Check }

func (finder) Name() string      { return "finder" }
func (finder) Cost() filter.Cost { return filter.Cheap }
func (finder) Categories() []filter.Category {
	return []filter.Category{{Name: "games"}, {Name: "news"}}
}
func (finder) Wants(_ *filter.Transaction, s filter.Stage) bool { return s == filter.Name }
func (finder) Find(_ context.Context, t *filter.Transaction, _ filter.Stage, all []filter.Finding) ([]filter.Finding, error) {
	if t.Host == "broken.example" {
		return nil, errors.New("the list is away")
	}
	return append(all, filter.Finding{Category: "games", Evidence: t.Host}), nil
}

func TestAnACLMatchesCategories(t *testing.T) {
	t.Parallel()
	s := server(t)
	e := *s.engine.Load()
	e.Checks = []filter.Check{finder{}}
	if err := s.Use(&e); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"10.0.0.1 - GET http://chess.example/ games":      `OK tag="games" message="chess.example"`,
		"10.0.0.1 - GET http://chess.example/ news games": `OK tag="games" message="chess.example"`,
		"10.0.0.1 - GET http://chess.example/ news":       "ERR",
		"10.0.0.1 - GET http://bad.example/ news":         "ERR", // the policy is not asked
		"10.0.0.1 - CONNECT chess.example:443 games":      `OK tag="games" message="chess.example"`,
		"10.0.0.1 - GET http://broken.example/ games":     `BH message="finder: the list is away"`,
		"10.0.0.1 - GET http://chess.example/ other":      `BH message="no check of the settings reports the category \"other\""`,
	} {
		if got := string(s.one(t.Context(), "acl", line)); got != want {
			t.Errorf("%q is answered with %s, want %s", line, got, want)
		}
	}
	if got := string(s.one(t.Context(), "other", "x")); !strings.HasPrefix(got, "BH ") {
		t.Errorf("an unknown kind is answered with %s", got)
	}
	for _, bad := range []*Engine{nil, {}} {
		if s.Use(bad) == nil {
			t.Errorf("Use accepts %+v", bad)
		}
	}
	var b strings.Builder
	if err := metric.Write(&b, s); err != nil || !strings.Contains(b.String(), "shuultuur_helper") {
		t.Errorf("the metrics are %q, %v", b.String(), err)
	}
}

// TestSquidsSecondQuestionDoesNotWait: Squid asks three times what was answered with BH. While no
// gateway is there, only the first of them waits; other questions wait as ever.
func TestSquidsSecondQuestionDoesNotWait(t *testing.T) {
	t.Parallel()
	none := filepath.Join(t.TempDir(), "none")
	synctest.Test(t, func(t *testing.T) {
		questions, squid := io.Pipe()
		answers, relay := io.Pipe()
		ended := make(chan error, 1)
		go func() { ended <- Relay(t.Context(), none, "rewrite", "", questions, relay) }()
		r := bufio.NewReader(answers)
		ask := func(line string, least, most time.Duration) {
			t.Helper()
			begin := time.Now()
			_, _ = io.WriteString(squid, line+"\n")
			answer, err := r.ReadString('\n')
			channel, _, _ := strings.Cut(line, " ")
			if err != nil || !strings.HasPrefix(answer, channel+" BH ") {
				t.Errorf("%q is answered with %q, %v; want BH", line, answer, err)
			}
			if took := time.Since(begin); took < least || took > most {
				t.Errorf("%q waits for %v, want %v to %v", line, took, least, most)
			}
		}
		for n := range 3 {
			if n > 0 {
				time.Sleep(time.Minute)
			}
			ask("4 http://ok.example/ 10.0.0.1/- - GET", waitAway, waitAway+tick)
			ask("4 http://ok.example/ 10.0.0.1/- - GET", 0, 0)
			ask("7 http://ok.example/ 10.0.0.1/- - GET", 0, 0)
			ask("5 http://ok.example/b 10.0.0.1/- - GET", waitAway, waitAway+tick)
		}
		squid.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
