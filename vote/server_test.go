package vote_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"shuultuur/lib/ingest"
	"shuultuur/text"
	"shuultuur/vote"
)

// A memoryLog is a log in memory.
type memoryLog struct {
	sync.Mutex
	votes []vote.Vote
	err   error
}

func (k *memoryLog) Append(_ context.Context, records ...[]byte) error {
	k.Lock()
	defer k.Unlock()
	if k.err != nil {
		return k.err
	}
	for _, r := range records {
		v, err := vote.Parse(r)
		if err != nil {
			return err
		}
		k.votes = append(k.votes, v)
	}
	return nil
}

func sealer(t testing.TB) *vote.Sealer {
	t.Helper()
	s, err := vote.NewSealer([]byte("a secret of this node"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// serve starts a server and returns its address.
func serve(t testing.TB, p vote.Parts) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- vote.NewServer(p).Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return ln.Addr().String()
}

var blocked = vote.Event{Ref: "abc", Client: "10.1.0.5", User: "anna", Groups: []string{"pupils"}, Host: "video.example", URL: "http://video.example/x",
	Policy: "school", Rule: "video", Check: "category", Category: "video", Entry: "lists/video:7"}

func token(t testing.TB, change func(*vote.Event)) string {
	e := blocked
	e.At = time.Now()
	if change != nil {
		change(&e)
	}
	return sealer(t).Seal(&e)
}

const id1, id2 = "018f0000-0000-7000-8000-000000000001", "018f0000-0000-7000-8000-000000000002"

func TestVotesAreAnswered(t *testing.T) {
	form := "application/x-www-form-urlencoded"
	good := token(t, nil)
	for name, tt := range map[string]struct {
		ctype, body string
		head        [2]string
		login       bool
		status      int
		want        string // of the answer
		kept        int
	}{
		"one as JSON":             {"application/json", `{"id":"` + id1 + `","vote":"dangerous","url":"bad.example"}`, [2]string{}, false, 202, `{"id":"` + id1 + `","link":"/votes/` + id1 + `"}`, 1},
		"several as JSON":         {"application/json; charset=utf-8", `[{"id":"` + id1 + `","vote":"dangerous","url":"https://bad.example/x"},{"id":"` + id2 + `","token":"` + good + `"}]`, [2]string{}, false, 202, `[{"id":"` + id1, 2},
		"one as a form":           {form, url.Values{"id": {id1}, "vote": {"wrong"}, "token": {good}, "comment": {"because"}}.Encode(), [2]string{}, false, 202, id1, 1},
		"a form of a browser":     {form, url.Values{"token": {good}, "comment": {"because"}}.Encode(), [2]string{"Accept", "text/html,*/*"}, false, 202, "Your request has been sent", 1},
		"a key for an id":         {"application/json", `{"vote":"dangerous","url":"bad.example"}`, [2]string{"Idempotency-Key", "k"}, false, 202, `"id":"`, 1},
		"a login by the token":    {form, url.Values{"token": {good}}.Encode(), [2]string{}, true, 202, `"id":"`, 1},
		"no login":                {"application/json", `{"id":"` + id1 + `","vote":"dangerous","url":"bad.example"}`, [2]string{}, true, 403, "logged in", 0},
		"no token":                {"application/json", `{"id":"` + id1 + `","vote":"wrong","url":"bad.example"}`, [2]string{}, false, 403, "needs the token", 0},
		"a forged token":          {form, url.Values{"token": {good[:len(good)-4] + "AAAA"}}.Encode(), [2]string{}, false, 403, "not that of a block page", 0},
		"a token of long ago":     {form, url.Values{"token": {token(t, func(e *vote.Event) { e.At = time.Now().Add(-25 * time.Hour) })}}.Encode(), [2]string{}, false, 403, "old", 0},
		"a token of the future":   {form, url.Values{"token": {token(t, func(e *vote.Event) { e.At = time.Now().Add(2 * time.Hour) })}}.Encode(), [2]string{}, false, 403, "not that", 0},
		"a token of another page": {form, url.Values{"token": {good}, "url": {"http://other.example/"}}.Encode(), [2]string{}, false, 403, "another page", 0},
		"the page of the token":   {form, url.Values{"token": {good}, "url": {"http://video.example/y"}}.Encode(), [2]string{}, false, 202, `"id":"`, 1},
		"no id":                   {"application/json", `{"vote":"dangerous","url":"bad.example"}`, [2]string{}, false, 400, "needs an id", 0},
		"a wrong id":              {"application/json", `{"id":"1","vote":"dangerous","url":"bad.example"}`, [2]string{}, false, 400, "not a UUID", 0},
		"an id of nothing":        {"application/json", `{"id":"00000000-0000-0000-0000-000000000000","vote":"dangerous","url":"bad.example"}`, [2]string{}, false, 400, "names no vote", 0},
		"the greatest id":         {"application/json", `{"id":"FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF","vote":"dangerous","url":"bad.example"}`, [2]string{}, false, 400, "names no vote", 0},
		"an unknown vote":         {"application/json", `{"id":"` + id1 + `","vote":"nice","url":"bad.example"}`, [2]string{}, false, 400, "not a vote", 0},
		"one of two is wrong":     {"application/json", `[{"id":"` + id1 + `","vote":"dangerous","url":"a.example"},{"id":"` + id2 + `","vote":"dangerous"}]`, [2]string{}, false, 400, "vote 1: ", 0},
		"not a host":              {"application/json", `{"id":"` + id1 + `","vote":"dangerous","url":"bad example"}`, [2]string{}, false, 400, "neither", 0},
		"another scheme":          {"application/json", `{"id":"` + id1 + `","vote":"dangerous","url":"ftp://bad.example"}`, [2]string{}, false, 400, "neither", 0},
		"broken JSON":             {"application/json", `{"id":`, [2]string{}, false, 400, "cannot be read", 0},
		"an empty list":           {"application/json", `[]`, [2]string{}, false, 400, "no vote", 0},
		"a list that is long":     {"application/json", "[" + strings.TrimSuffix(strings.Repeat(`{},`, vote.MaxBatch+1), ",") + "]", [2]string{}, false, 413, "at most 1000", 0},
		"another type":            {"text/plain", "x", [2]string{}, false, 415, "application/json", 0},
		"a comment that is long":  {form, url.Values{"token": {good}, "comment": {strings.Repeat("x", 2001)}}.Encode(), [2]string{}, false, 400, "2001 bytes", 0},
		"no mail address":         {form, url.Values{"token": {good}, "mail": {"a@b\r\nBcc: c@d"}}.Encode(), [2]string{}, false, 400, "not a mail address", 0},
		"another site's page":     {"application/json", `{"id":"` + id1 + `","vote":"dangerous","url":"bad.example"}`, [2]string{"Sec-Fetch-Site", "cross-site"}, false, 403, "another site", 0},
	} {
		t.Run(name, func(t *testing.T) {
			log := &memoryLog{}
			at := serve(t, vote.Parts{Log: log, Sealer: sealer(t), Login: tt.login})
			status, body, _ := post(t, http.DefaultClient, "http://"+at+"/votes", tt.ctype, tt.body, tt.head)
			if status != tt.status || !strings.Contains(body, tt.want) || len(log.votes) != tt.kept {
				t.Errorf("got %d %q and %d kept, want %d %q and %d", status, body, len(log.votes), tt.status, tt.want, tt.kept)
			}
		})
	}
}

func post(t testing.TB, c *http.Client, to, ctype, body string, head ...[2]string) (int, string, http.Header) {
	t.Helper()
	r, err := http.NewRequest("POST", to, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", ctype)
	for _, h := range head {
		if h[0] != "" {
			r.Header.Set(h[0], h[1])
		}
	}
	res, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b), res.Header
}

func TestATokenContainsTheBlock(t *testing.T) {
	log := &memoryLog{}
	at := serve(t, vote.Parts{Log: log, Sealer: sealer(t), Node: "n1"})
	sealed := token(t, nil)
	for range 3 {
		status, body, _ := post(t, http.DefaultClient, "http://"+at+"/votes", "application/x-www-form-urlencoded", url.Values{"token": {sealed}, "comment": {" why "}, "url": {"http://video.example/"}}.Encode())
		if status != 202 {
			t.Fatalf("sending a vote with a token: status %d, want 202: %s", status, body)
		}
	}
	v := log.votes[0]
	if v.Event.Host != "video.example" || v.Event.User != "anna" || v.Event.Groups[0] != "pupils" || v.Comment != "why" || v.Node != "n1" || v.Remedy() != "category/video: lists/video:7" {
		t.Errorf("the stored vote is %+v", v)
	}
	if log.votes[1].ID != v.ID || log.votes[2].ID != v.ID {
		t.Error("a form that is sent again has another identifier")
	}
	if strings.Contains(sealed, "video") || strings.Contains(sealed, "pupils") {
		t.Error("the token contains readable values of its event")
	}
}

func TestPagesLookLikeABlockPage(t *testing.T) {
	at := serve(t, vote.Parts{Log: &memoryLog{}, Sealer: sealer(t)})
	for _, form := range []string{"token=" + url.QueryEscape(token(t, nil)), "vote=none"} {
		_, body, _ := post(t, http.DefaultClient, "http://"+at+"/votes", "application/x-www-form-urlencoded", form, [2]string{"Accept", "text/html"})
		if !strings.Contains(body, text.Style) {
			t.Errorf("%.8s: the page lacks the style: %s", form, body)
		}
	}
}

func TestKeysOfTwoClientsAreDistinct(t *testing.T) {
	log := &memoryLog{}
	who := func(_, authorization string) vote.Voter { return vote.Voter{Addr: "10.0.0.1", User: authorization} }
	at := serve(t, vote.Parts{Log: log, Sealer: sealer(t), Who: who, Login: true})
	for _, user := range []string{"a", "b", "a"} {
		post(t, http.DefaultClient, "http://"+at+"/votes", "application/json", `[{"vote":"dangerous","url":"x.example"},{"vote":"dangerous","url":"y.example"}]`, [2]string{"Idempotency-Key", "1"}, [2]string{"Authorization", user})
	}
	seen := map[vote.ID]int{}
	for _, v := range log.votes {
		seen[v.ID]++
	}
	if len(log.votes) != 6 || len(seen) != 4 {
		t.Errorf("%d votes have %d identifiers, want 6 and 4", len(log.votes), len(seen))
	}
}

func TestALimitForEachClient(t *testing.T) {
	log := &memoryLog{}
	at := serve(t, vote.Parts{Log: log, Sealer: sealer(t), Limit: vote.Rate{Most: 3, In: time.Hour}})
	for n := range 5 {
		status, _, head := post(t, http.DefaultClient, "http://"+at+"/votes", "application/json", `{"vote":"dangerous","url":"x.example"}`, [2]string{"Idempotency-Key", fmt.Sprint(n)})
		if want := map[bool]int{true: 202, false: 429}[n < 3]; status != want || status == 429 && head.Get("Retry-After") == "" {
			t.Errorf("vote %d got status %d, want %d; head %v", n, status, want, head)
		}
	}
}

func TestALimitIsForAllVotesOfARequest(t *testing.T) {
	log := &memoryLog{}
	at := serve(t, vote.Parts{Log: log, Sealer: sealer(t), Limit: vote.Rate{Most: 3, In: time.Hour}})
	many := func(key string, n int, want int) {
		t.Helper()
		body := "[" + strings.TrimSuffix(strings.Repeat(`{"vote":"dangerous","url":"x.example"},`, n), ",") + "]"
		status, text, _ := post(t, http.DefaultClient, "http://"+at+"/votes", "application/json", body, [2]string{"Idempotency-Key", key})
		if status != want {
			t.Errorf("a batch of %d votes got status %d (%s), want %d", n, status, text, want)
		}
	}
	many("a", 4, 413)
	many("b", 2, 202)
	many("c", 2, 429)
	many("d", 1, 202) // refused votes have used nothing
	// The limit of this client does not affect another one, and neither uses anything when one
	// of them has nothing left.
	other := token(t, func(e *vote.Event) { e.User = "ben" })
	body := `[{"id":"` + id1 + `","vote":"dangerous","url":"x.example"},{"id":"` + id2 + `","token":"` + other + `"}]`
	for range 5 {
		if status, _, _ := post(t, http.DefaultClient, "http://"+at+"/votes", "application/json", body); status != 429 {
			t.Errorf("votes of two clients of which one has none left got status %d, want 429", status)
		}
	}
	if status, text, _ := post(t, http.DefaultClient, "http://"+at+"/votes", "application/json", `{"token":"`+other+`"}`); status != 202 {
		t.Errorf("the vote of the other client got status %d (%s), want 202", status, text)
	}
	if len(log.votes) != 4 {
		t.Errorf("%d votes are stored, want 4", len(log.votes))
	}
}

// TestATokenIsOfOneClient: a client that is known to be another one than the
// blocked client cannot use its token.
func TestATokenIsOfOneClient(t *testing.T) {
	log := &memoryLog{}
	s := vote.NewServer(vote.Parts{Log: log, Sealer: sealer(t)})
	named, unnamed := token(t, nil), token(t, func(e *vote.Event) { e.User = "" })
	for _, tt := range []struct {
		token string
		from  vote.Voter
		want  int
	}{
		{named, vote.Voter{Addr: "10.1.0.5", User: "anna", Same: true}, 202},
		{named, vote.Voter{Addr: "10.1.0.9", User: "anna", Same: true}, 202}, // with another device
		{named, vote.Voter{Addr: "10.1.0.5", User: "ben", Same: true}, 403},
		{unnamed, vote.Voter{Addr: "10.1.0.5", Same: true}, 202},
		{unnamed, vote.Voter{Addr: "10.1.0.9", Same: true}, 403},
		{named, vote.Voter{Addr: "10.1.0.5", User: "anna", Same: true, Host: "Video.Example."}, 202},
		{named, vote.Voter{Addr: "10.1.0.5", User: "anna", Same: true, Host: "other.example"}, 403},
		{unnamed, vote.Voter{Addr: "192.0.2.1"}, 202}, // by the API, through an address translator (NAT)
	} {
		a := s.Answer(context.Background(), &vote.Request{Method: "POST", Path: "/votes", Type: "application/x-www-form-urlencoded", Body: []byte("token=" + tt.token), Voter: &tt.from, Base: "/votes"})
		if a.Status != tt.want {
			t.Errorf("a vote from %+v got status %d (%s), want %d", tt.from, a.Status, a.Body, tt.want)
		}
	}
}

func TestAVoterLearnsNoNames(t *testing.T) {
	d := &vote.Decision{Site: "x.example", Action: vote.Open, Who: "zoe", By: "mister at 10.0.0.1"}
	s := vote.NewServer(vote.Parts{Log: &memoryLog{}, Sealer: sealer(t), State: func(context.Context, vote.ID) (vote.State, error) {
		return vote.State{State: "decided", Decision: d}, nil
	}})
	for _, accept := range []string{"text/html", "application/json"} {
		a := s.Answer(context.Background(), &vote.Request{Method: "GET", Path: "/votes/" + id1, Accept: accept})
		if text := string(a.Body); a.Status != 200 || !strings.Contains(text, "x.example") || strings.Contains(text, "zoe") || strings.Contains(text, "mister") {
			t.Errorf("the state of the vote as %s: status %d, %s", accept, a.Status, text)
		}
	}
	if text := d.Answer(nil); strings.Contains(text, "zoe") || strings.Contains(text, "mister") {
		t.Errorf("the answer to a voter names others: %s", text)
	}
}

// TestThePageOfAVoteLeadsOn: to the answer while there is none, and to the site once it is open. The
// script of the block page goes by its marks.
func TestThePageOfAVoteLeadsOn(t *testing.T) {
	var state vote.State
	s := vote.NewServer(vote.Parts{Log: &memoryLog{}, Sealer: sealer(t), Contact: func() string { return "Ms <Aliya>" },
		State: func(context.Context, vote.ID) (vote.State, error) { return state, nil }})
	ask := func(r vote.Request) string {
		r.Accept, r.From, r.Base = "text/html", "10.0.0.1", "/.well-known/shuultuur/votes"
		return string(s.Answer(context.Background(), &r).Body)
	}
	here := &vote.Voter{Addr: "10.0.0.1", Same: true, Host: "x.example"}
	sent := ask(vote.Request{Method: "POST", Path: "/votes", Type: "application/x-www-form-urlencoded", Body: []byte("token=" + token(t, func(e *vote.Event) { e.User = "" }))})
	decided := func(a vote.Action, ended time.Time) *vote.Decision {
		return &vote.Decision{Site: "x.example", Action: a, Ended: ended}
	}
	for name, c := range map[string]struct {
		page      func() string
		want, not []string
	}{
		"sent": {func() string { return sent }, []string{"<h1>Your request has been sent</h1>", "It went to Ms &lt;Aliya&gt;. The answer appears here.", `href="/.well-known/shuultuur/votes/`, "data-answer"}, []string{"data-over"}},
		"nobody has answered": {func() string {
			state = vote.State{State: "counted"}
			return ask(vote.Request{Method: "GET", Path: "/votes/" + id1, Voter: here})
		}, []string{"Nobody has answered yet.", `href="/.well-known/shuultuur/votes/` + id1 + `" data-answer`}, []string{"data-over", "data-again"}},
		"open": {func() string {
			state = vote.State{State: "decided", Decision: decided(vote.Open, time.Time{})}
			return ask(vote.Request{Method: "GET", Path: "/votes/" + id1, Voter: here})
		}, []string{"<main data-over>", "x.example is open for everyone.", `href="/" data-again`}, []string{"data-answer"}},
		"open, asked elsewhere": {func() string {
			state = vote.State{State: "decided", Decision: decided(vote.Open, time.Time{})}
			return ask(vote.Request{Method: "GET", Path: "/votes/" + id1})
		}, []string{"<main data-over>", "x.example is open for everyone."}, []string{"data-again"}},
		"open no more": {func() string {
			state = vote.State{State: "decided", Decision: decided(vote.Open, time.Now())}
			return ask(vote.Request{Method: "GET", Path: "/votes/" + id1, Voter: here})
		}, []string{"<main data-over>", "This was taken back at"}, []string{"data-again"}},
		"closed": {func() string {
			state = vote.State{State: "decided", Decision: decided(vote.Keep, time.Time{})}
			return ask(vote.Request{Method: "GET", Path: "/votes/" + id1, Voter: here})
		}, []string{"<main data-over>", "Nothing changes for x.example."}, []string{"data-again", "data-answer"}},
		"refused": {func() string { return ask(vote.Request{Method: "GET", Path: "/votes/none", Voter: here}) }, []string{"Your request was not taken"}, []string{`class="sent"`, "data-answer"}},
	} {
		got := c.page()
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: the page lacks %q: %s", name, want, got[strings.Index(got, "<main"):])
			}
		}
		for _, not := range c.not {
			if strings.Contains(got, not) {
				t.Errorf("%s: the page has %q", name, not)
			}
		}
	}
}

func TestAFullLogAnswers503(t *testing.T) {
	log := &memoryLog{err: &ingest.Unavailable{Cause: errors.New("no space left on device"), Retry: 1500 * time.Millisecond}}
	at := serve(t, vote.Parts{Log: log, Sealer: sealer(t)})
	status, body, head := post(t, http.DefaultClient, "http://"+at+"/votes", "application/json", `{"id":"`+id1+`","vote":"dangerous","url":"x.example"}`)
	if status != 503 || head.Get("Retry-After") != "2" || !strings.Contains(body, "no space left") {
		t.Errorf("with a full disk a vote got status %d, %q, head %v; want 503 with Retry-After: 2 and the reason", status, body, head)
	}
}

// A vote that could not be kept and is sent again does not count twice against the
// limit.
func TestAFullLogUsesNothingOfALimit(t *testing.T) {
	log := &memoryLog{err: &ingest.Unavailable{Cause: errors.New("no space left on device"), Retry: time.Second}}
	s := vote.NewServer(vote.Parts{Log: log, Sealer: sealer(t), Limit: vote.Rate{Most: 2, In: time.Hour}})
	send := func() int {
		return s.Answer(context.Background(), &vote.Request{Method: "POST", Path: "/votes", Type: "application/json", From: "10.0.0.1", Body: []byte(`{"id":"` + id1 + `","vote":"dangerous","url":"x.example"}`)}).Status
	}
	for range 5 {
		if got := send(); got != 503 {
			t.Errorf("a vote while the disk is full got status %d, want 503", got)
		}
	}
	log.err = nil
	for n, want := range []int{202, 202, 429} {
		if got := send(); got != want {
			t.Errorf("vote %d after that got status %d, want %d", n, got, want)
		}
	}
}

// A key that is reused for another vote must not make that vote disappear.
func TestAKeyIsOfOneVote(t *testing.T) {
	log := &memoryLog{}
	at := serve(t, vote.Parts{Log: log, Sealer: sealer(t)})
	for _, body := range []string{`{"vote":"dangerous","url":"a.example"}`, `{"vote":"dangerous","url":"a.example","comment":"again"}`,
		`{"vote":"dangerous","url":"b.example"}`, `{"token":"` + token(t, nil) + `"}`, `{"token":"` + token(t, nil) + `","vote":"dangerous"}`} {
		if status, text, _ := post(t, http.DefaultClient, "http://"+at+"/votes", "application/json", body, [2]string{"Idempotency-Key", "k"}); status != 202 {
			t.Errorf("the vote %s got status %d (%s), want 202", body, status, text)
		}
	}
	seen := map[vote.ID]int{}
	for _, v := range log.votes {
		seen[v.ID]++
	}
	if len(log.votes) != 5 || len(seen) != 4 {
		t.Errorf("%d votes have %d identifiers, want 5 and 4", len(log.votes), len(seen))
	}
}

func TestPlainAndTLSOnOnePort(t *testing.T) {
	cert := httptest.NewUnstartedServer(nil)
	cert.StartTLS()
	defer cert.Close()
	log := &memoryLog{}
	at := serve(t, vote.Parts{Log: log, Sealer: sealer(t), TLS: &tls.Config{Certificates: cert.TLS.Certificates}})
	for _, scheme := range []string{"http", "https"} {
		for range 3 { // over one connection
			if status, body, _ := post(t, cert.Client(), scheme+"://"+at+"/votes", "application/json", `{"id":"`+id1+`","vote":"dangerous","url":"x.example"}`); status != 202 {
				t.Errorf("a vote over %s got status %d (%s), want 202", scheme, status, body)
			}
		}
	}
	if len(log.votes) != 6 {
		t.Errorf("%d votes are stored, want 6", len(log.votes))
	}
}

func TestInvalidVotesAreRefused(t *testing.T) {
	state := func(_ context.Context, id vote.ID) (vote.State, error) {
		if id.String() == id1 {
			return vote.State{State: "decided", Decision: &vote.Decision{Site: "x.example", Action: vote.Open}}, nil
		}
		return vote.State{}, vote.ErrUnknown
	}
	at := serve(t, vote.Parts{Log: &memoryLog{}, Sealer: sealer(t), State: state})
	for _, tt := range []struct {
		request string
		status  string
	}{
		{"GET /votes/" + id1 + " HTTP/1.1\r\nHost: x\r\n\r\n", "200"},
		{"HEAD /votes/" + id1 + " HTTP/1.1\r\nHost: x\r\n\r\n", "200"},
		{"GET /votes/" + id2 + " HTTP/1.1\r\nHost: x\r\n\r\n", "404"},
		{"GET /votes/x HTTP/1.1\r\nHost: x\r\n\r\n", "400"},
		{"GET /votes HTTP/1.1\r\nHost: x\r\n\r\n", "405"},
		{"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "404"},
		{"OPTIONS /votes HTTP/1.1\r\nHost: x\r\n\r\n", "204"},
		{"POST /votes HTTP/1.1\r\nHost: x\r\nContent-Length: 2000000\r\n\r\n", "413"},
		{"POST /votes/forward HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx", "401"},
		{"nonsense\r\n\r\n", "400"},
		{"POST /votes HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n[]", "100"},
	} {
		c, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		if _, err := io.WriteString(c, tt.request); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(c).ReadString('\n')
		if err != nil || !strings.Contains(line, " "+tt.status+" ") {
			t.Errorf("the request %.50q got %q (%v), want status %s", tt.request, line, err, tt.status)
		}
		c.Close()
	}
}

// Reviewers must not see a password in a URL.
func TestAURLLosesItsPassword(t *testing.T) {
	log := &memoryLog{}
	at := serve(t, vote.Parts{Log: log, Sealer: sealer(t)})
	status, body, _ := post(t, http.DefaultClient, "http://"+at+"/votes", "application/json", `{"id":"`+id1+`","vote":"dangerous","url":"http://anna:secret@bad.example/x?y"}`)
	if status != 202 || len(log.votes) != 1 || log.votes[0].Event.URL != "http://bad.example/x?y" || log.votes[0].Event.Host != "bad.example" {
		t.Errorf("the vote got status %d (%q); stored are %+v", status, body, log.votes)
	}
}

func FuzzBallots(f *testing.F) {
	f.Add("application/json", []byte(`[{"id":"`+id1+`","vote":"dangerous","url":"x.example"}]`))
	f.Add("application/x-www-form-urlencoded", []byte("token=abc&comment=%20"))
	log := &memoryLog{}
	s := vote.NewServer(vote.Parts{Log: log, Sealer: sealer(f)})
	f.Fuzz(func(t *testing.T, ctype string, body []byte) {
		log.votes = log.votes[:0]
		a := s.Answer(context.Background(), &vote.Request{Method: "POST", Path: "/votes", Type: ctype, Body: body, From: "10.0.0.1", Base: "/votes", Key: "k"})
		if (a.Status == 202) != (len(log.votes) > 0) || a.Status == 202 && a.Type == "application/json" && !json.Valid(a.Body) {
			t.Errorf("the request got status %d (%q), and %d votes are stored", a.Status, a.Body, len(log.votes))
		}
		for _, v := range log.votes {
			if again, err := vote.Parse(v.Append(nil)); err != nil || again.ID != v.ID || !bytes.Equal(again.Append(nil), v.Append(nil)) {
				t.Errorf("the vote %+v was decoded as %+v, %v", v, again, err)
			}
		}
	})
}

func FuzzParse(f *testing.F) {
	v := vote.Vote{Kind: vote.Wrong, Event: blocked}
	f.Add(v.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if v, err := vote.Parse(b); err == nil {
			v.Append(nil)
		}
	})
}

func FuzzOpen(f *testing.F) {
	s := sealer(f)
	e := blocked
	e.At = time.Now()
	f.Add(s.Seal(&e))
	f.Fuzz(func(t *testing.T, token string) { _, _ = s.Open(token, time.Now()) })
}

type forgetful struct{}

func (forgetful) Append(context.Context, ...[]byte) error { return nil }

// BenchmarkExchange measures one vote over a kept-alive connection, without the
// log.
func BenchmarkExchange(b *testing.B) {
	at := serve(b, vote.Parts{Log: forgetful{}, Sealer: sealer(b)})
	c, err := net.Dial("tcp", at)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	body := `{"id":"` + id1 + `","vote":"dangerous","url":"bad.example"}`
	request := fmt.Appendf(nil, "POST /votes HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	in := make([]byte, 4096)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Write(request); err != nil {
			b.Fatal(err)
		}
		if _, err := c.Read(in); err != nil {
			b.Fatal(err)
		}
	}
}
