package test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"shuultuur/gateway"
	"shuultuur/lib/wait/waittest"
)

const votesSettings = `
listen: {proxy: 127.0.0.1:0, admin: 127.0.0.1:0}
lists:
  ads: {path: ads.txt, category: ads}
  own: {path: own.txt, category: own}
checks:
  category: {lists: [ads, own]}
policies:
  - name: all
    rules:
      - {name: ads, action: block, category: [ads, own]}
proxy: {private: [127.0.0.0/8], parent: "http://%s"}
votes: {listen: 127.0.0.1:0%s}
`

// votesGateway starts a gateway that takes votes. more are settings below votes.
func votesGateway(t *testing.T, more string) *gateway.Gateway {
	t.Helper()
	g, _ := votesGatewayIn(t, more, "")
	return g
}

// votesGatewayIn also takes settings beside votes, and returns the data folder.
func votesGatewayIn(t *testing.T, more, extra string) (*gateway.Gateway, string) {
	t.Helper()
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, "<title>open</title><p>A page at %s.", r.URL)
	}))
	t.Cleanup(origin.Close)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"shuultuur.yaml": fmt.Sprintf(votesSettings, origin.Listener.Addr(), more) + extra,
		"ads.txt":        "ads.example\n",
		"own.txt":        "nothing.example\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// A token that one node signs is valid on the others.
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "data"), 0o755),
		os.WriteFile(filepath.Join(dir, "data", "secret.key"), []byte("thirty-two letters of one fleet."), 0o600)); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	g, err := gateway.New(ctx, filepath.Join(dir, "shuultuur.yaml"), slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		stop()
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the gateway ended with: %v", err)
		}
	})
	return g, dir
}

// tokenOf loads a page that is blocked, as a browser does, and returns the token on it.
func tokenOf(t *testing.T, client *http.Client, page string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", page, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/html")
	res, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	text := string(b)
	if err != nil || res.StatusCode != 403 {
		t.Fatalf("GET %s: status %d, %v, want a block page: %s", page, res.StatusCode, err, text)
	}
	token := regexp.MustCompile(`name="token" value="([^"]+)"`).FindStringSubmatch(text)
	if token == nil || !strings.Contains(text, `action="/.well-known/shuultuur/votes"`) {
		t.Fatalf("there is no form on the page: %s", text)
	}
	return token[1]
}

// adminCall calls the API of the admin address.
func adminCall(t *testing.T, g *gateway.Gateway, method, path string, form url.Values) (int, string) {
	t.Helper()
	r, err := http.NewRequest(method, "http://"+g.AdminAddr()+path, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	if method == "POST" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	r.Header.Set("Accept", "application/json")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

func TestAVoteOnABlockPageOpensTheSite(t *testing.T) {
	g := votesGateway(t, ", list: own")
	client := through(g.ProxyAddr())
	defer client.CloseIdleConnections()
	token := tokenOf(t, client, "http://ads.example/x")
	send := func(to, want string, form url.Values) string {
		t.Helper()
		res, err := client.PostForm(to, form)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, _ := io.ReadAll(res.Body)
		if !strings.HasPrefix(res.Status, want) {
			t.Errorf("POST %s: %s, %s", to, res.Status, b)
		}
		return res.Header.Get("Location")
	}
	form := url.Values{"token": {token}, "vote": {"wrong"}, "comment": {"we need it"}}
	link := send("http://ads.example/.well-known/shuultuur/votes", "202", form)
	if again := send("http://ads.example/.well-known/shuultuur/votes", "202", form); again != link || link == "" {
		t.Errorf("sending the same form twice returns the links %q and %q, want one", link, again)
	}
	send("http://ads.example/.well-known/shuultuur/votes", "403", url.Values{"token": {"x"}})
	state := func() (s struct{ State string }) {
		t.Helper()
		r, _ := http.NewRequest("GET", "http://shuultuur.internal"+link, nil)
		r.Header.Set("Accept", "application/json")
		res, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		_ = json.NewDecoder(res.Body).Decode(&s)
		return s
	}
	waittest.Until(t, "the vote is counted", func() bool { return state().State == "counted" })
	var queue []struct {
		Remedy        string
		Votes, People int
		Examples      []struct{ Comment, URL string }
	}
	status, text := adminCall(t, g, "GET", "/votes", nil)
	if err := json.Unmarshal([]byte(text), &queue); err != nil || status != 200 || len(queue) != 1 {
		t.Fatalf("the queue of votes: status %d, %v, want one vote: %s", status, err, text)
	}
	if c := queue[0]; c.Votes != 1 || c.People != 1 || c.Examples[0].Comment != "we need it" || !strings.Contains(c.Remedy, "ads.txt") {
		t.Errorf("the queue has %+v", c)
	}
	if status, text := adminCall(t, g, "POST", "/votes", url.Values{"remedy": {queue[0].Remedy}, "action": {"open"}, "for": {"1h"}, "reason": {"You are right."}}); status != 200 {
		t.Fatalf("accepting a vote: status %d: %s", status, text)
	}
	if status, page, err := get(client, "http://ads.example/x"); err != nil || status != 200 || !strings.Contains(page, "A page at") {
		t.Errorf("after the decision to open: status %d, %.80s, %v; want the page", status, page, err)
	}
	if s := state(); s.State != "decided" {
		t.Errorf("the voter sees the state %+v, want decided", s)
	}
	status, text = adminCall(t, g, "GET", "/votes/decisions", nil)
	if status != 200 || !strings.Contains(text, `"action":"open"`) {
		t.Errorf("the history of decisions: status %d, %s", status, text)
	}
	if status, text := adminCall(t, g, "POST", "/votes/withdraw", url.Values{"id": {"1"}}); status != 200 {
		t.Fatalf("withdrawing a decision about votes: status %d, want 200: %s", status, text)
	}
	if status, _, err := get(client, "http://ads.example/x"); err != nil || status != 403 {
		t.Errorf("after the decision was withdrawn: status %d, %v; want 403", status, err)
	}
}

func TestAVoteForBlockingFeedsAList(t *testing.T) {
	g := votesGateway(t, ", list: own")
	client := through(g.ProxyAddr())
	defer client.CloseIdleConnections()
	body := `[{"id":"018f0000-0000-7000-8000-000000000001","vote":"dangerous","url":"http://bad.example/x"}]`
	res, err := http.Post("http://"+g.VotesAddr()+"/votes", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != 202 {
		t.Fatalf("voting to block a site: got %s, want 202", res.Status)
	}
	waittest.Until(t, "the vote is in the queue", func() bool {
		_, text := adminCall(t, g, "GET", "/votes", nil)
		return strings.Contains(text, "block bad.example")
	})
	if status, _, err := get(client, "http://bad.example/"); err != nil || status != 200 {
		t.Fatalf("GET http://bad.example/ before the decision: status %d, %v, want 200", status, err)
	}
	if status, text := adminCall(t, g, "POST", "/votes", url.Values{"remedy": {"block bad.example"}, "action": {"block"}}); status != 200 {
		t.Fatalf("deciding to block a site: status %d, want 200: %s", status, text)
	}
	status, page, err := get(client, "http://bad.example/")
	if err != nil || status != 403 || !strings.Contains(page, "own") {
		t.Errorf("after the decision to block: status %d, %v; want 403, by the list own", status, err)
	}
	for _, format := range []string{"text", "csv", "json"} {
		if status, text := adminCall(t, g, "GET", "/votes/export?format="+format, nil); status != 200 || strings.Contains(text, "127.0.0.1") {
			t.Errorf("export as %s: status %d, or it has addresses of clients: %s", format, status, text)
		}
	}
}

// TestBrowserVotesAndThePageOpens: one person votes on a block page, another sees the vote in
// the queue and opens the site. Then the page opens.
func TestBrowserVotesAndThePageOpens(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{"with scripts": nil, "without": {"--blink-settings=scriptEnabled=false"}} {
		t.Run(name, func(t *testing.T) { browserVotes(t, args) })
	}
}

func browserVotes(t *testing.T, args []string) {
	g := votesGateway(t, "")
	pupil := newBrowser(t, g.ProxyAddr(), args...)
	pupil.open("http://ads.example/x")
	pupil.shows("ads.example is closed here")
	pupil.write("textarea", "for the lesson")
	pupil.click(`button[name="vote"]`)
	pupil.shows("Your request has been sent")
	if args == nil {
		pupil.shows("ads.example is closed here") // the answer came without leaving the page
		pupil.picture("voted")
	} else if strings.Contains(pupil.text(), "ads.example is closed here") {
		t.Error("the answer came without leaving the page: the browser runs scripts")
	}
	if args != nil {
		pupil.click("a")
		pupil.shows("Nobody has answered yet.")
	}

	teacher := newBrowser(t, g.ProxyAddr(), "--proxy-bypass-list="+g.AdminAddr())
	waittest.Until(t, "the vote is in the queue", func() bool {
		_, text := adminCall(t, g, "GET", "/votes", nil)
		return strings.Contains(text, "ads.example")
	})
	teacher.open("http://" + g.AdminAddr() + "/votes")
	teacher.shows("for the lesson")
	teacher.change(`button[value="open"]`)
	teacher.shows("No requests are waiting")

	if args != nil {
		pupil.click("a") // looks again
	}
	pupil.shows("Your request was answered")                // on the open page it arrives by itself
	pupil.shows("ads.example is open for some people here") // for who asked alone
	pupil.click("a")
	pupil.shows("A page at")
	pupil.open("http://ads.example/x")
	pupil.shows("A page at")
}
