package alert

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shuultuur/lib/setting"
	"shuultuur/text"
)

// A post is a message that a service of messages took.
type post struct {
	path, body string
	header     http.Header
}

// newService starts a server that speaks like ntfy and Telegram: ntfy takes a text and says which
// message it made of it, Telegram takes JSON and has a chat 42 alone.
func newService(t *testing.T) (address string, took func() []post) {
	t.Helper()
	var mu sync.Mutex
	var all []post
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.HasPrefix(r.URL.Path, "/bot") {
			var m struct {
				Chat string `json:"chat_id"`
				Text string `json:"text"`
			}
			switch err := json.Unmarshal(body, &m); {
			case err != nil || m.Text == "" || r.Header.Get("Content-Type") != "application/json":
				w.WriteHeader(http.StatusBadRequest)
				_, _ = io.WriteString(w, `{"ok":false,"error_code":400,"description":"Bad Request: message text is empty"}`)
				return
			case m.Chat != "42":
				w.WriteHeader(http.StatusBadRequest)
				_, _ = io.WriteString(w, `{"ok":false,"error_code":400,"description":"Bad Request: chat not found"}`)
				return
			}
		}
		mu.Lock()
		all = append(all, post{r.URL.Path, string(body), r.Header.Clone()})
		mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"ok":true,"id":"x","event":"message"}`)
	}))
	t.Cleanup(s.Close)
	return s.URL, func() []post { mu.Lock(); defer mu.Unlock(); return append([]post(nil), all...) }
}

func webhooks(all ...Webhook) setting.OneOrMore[Webhook] { return all }

func TestRequestsGoToThoseWhoseThemesNameThem(t *testing.T) {
	w, err := New(Config{Link: "https://filter.example:8081", Themes: map[string]*Theme{"self-harm": nil}, To: []Route{
		{Webhook: webhooks(Webhook{URL: "https://all.example/"})},
		{Themes: []string{Requests}, Webhook: webhooks(Webhook{URL: "https://asked.example/"})},
		{Themes: []string{"self-harm", Requests}, Groups: []string{"class-7a"}, Webhook: webhooks(Webhook{URL: "https://both.example/"})},
	}}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	to := func(a *Alert) string {
		var all []string
		for _, s := range w.sendings(a, time.Now()) {
			all = append(all, s.To)
		}
		return strings.Join(all, ", ")
	}
	for _, c := range []struct {
		alert Alert
		want  string
	}{
		{Alert{Theme: "self-harm", Groups: []string{"class-7b"}}, "json at all.example"},
		{Alert{Theme: "self-harm", Groups: []string{"class-7a"}}, "json at all.example, json at both.example"},
		{Alert{Theme: Requests, Groups: []string{"class-7b"}}, "json at asked.example"},
		{Alert{Theme: Requests, Groups: []string{"class-7a"}}, "json at asked.example, json at both.example"},
	} {
		if got := to(&c.alert); got != c.want {
			t.Errorf("%s of %v goes to %q, want %q", c.alert.Theme, c.alert.Groups, got, c.want)
		}
	}
	if _, err := New(Config{To: []Route{{Themes: []string{Requests}, Webhook: webhooks(Webhook{URL: "https://asked.example/"})}}}, nil, nil); err != nil {
		t.Errorf("without watched themes, requests cannot be told: %v", err)
	}
	if _, err := New(Config{Themes: map[string]*Theme{Requests: {Host: []string{"a.example"}}}}, nil, nil); err == nil {
		t.Error("a theme may have the name of requests")
	}
}

func TestARequestIsToldOnceWithWhoAsksForWhat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := &taker{took: map[string][]string{}, answer: func(int, []string) *http.Response { return status(200) }}
		d, stop := desk(t, filepath.Join(t.TempDir(), "alerts.json"), x, Route{Themes: []string{Requests, "drugs"}})
		ask := func(remedy, user string) {
			d.Ask(Request{Remedy: remedy, User: user, Client: netip.MustParseAddr("10.1.2.3"), Host: "games.example", Words: "for a presentation", At: time.Now().Add(ahead)})
		}
		ask("open games.example", "anna")
		ask("open games.example", "ben") // the same remedy answers both
		ask("open chat.example", "carla")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		x.mu.Lock()
		got := strings.Join(x.order, " ")
		x.mu.Unlock()
		if got != "anna carla" {
			t.Errorf("told of the requests of %q, want anna and carla", got)
		}
		if all := d.All(); len(all) > 0 {
			t.Errorf("requests are among the alerts: %+v", all)
		}
		time.Sleep(25 * time.Hour)
		ask("open games.example", "ben") // on another day it is told again
		time.Sleep(10 * time.Second)
		synctest.Wait()
		x.mu.Lock()
		got = strings.Join(x.order, " ")
		x.mu.Unlock()
		if got != "anna carla ben" {
			t.Errorf("on the next day told of %q", got)
		}
		d.mu.Lock()
		n := len(d.alerts)
		d.mu.Unlock()
		if n != 1 {
			t.Errorf("%d requests are kept, want that of today alone", n)
		}
		stop()
	})
}

func TestATestReachesNtfyAndTelegram(t *testing.T) {
	texts, err := text.New("")
	if err != nil {
		t.Fatal(err)
	}
	at, took := newService(t)
	host := strings.TrimPrefix(at, "http://")
	c := Config{Link: "https://filter.example:8081", To: []Route{{Themes: []string{Requests}, Language: "de", Webhook: webhooks(
		Webhook{URL: at + "/family", Format: "ntfy", Token: "tk_secret"}, Webhook{URL: at + "/bot1:key/sendMessage", Format: "telegram", Chat: "42"}, Webhook{URL: at + "/bot1:key/sendMessage", Format: "telegram", Chat: "43"})},
		{Themes: []string{Requests}, Webhook: webhooks(Webhook{URL: at + "/family", Format: "ntfy"})}}}
	answers, err := Try(t.Context(), c, nil, texts.For)
	if len(answers) != 2 || !strings.HasPrefix(answers[0], "ntfy at "+host+" took the test") || !strings.HasPrefix(answers[1], "telegram at "+host+" took the test") {
		t.Errorf("the answers are %q", answers)
	}
	if err == nil || !strings.Contains(err.Error(), "chat not found") || strings.Contains(err.Error(), "bot1:key") {
		t.Errorf("of a chat that is not there it says %v", err)
	}
	all := took()
	if len(all) != 2 || all[0].header.Get("Authorization") != "Bearer tk_secret" || all[0].header.Get("Click") != "https://filter.example:8081/inbox" || !strings.Contains(all[0].body, "Einstellungen") {
		t.Fatalf("ntfy got %+v, want one message in German with a link and the token", all)
	}
	if _, err := Try(t.Context(), Config{Themes: map[string]*Theme{"drugs": nil}}, nil, nil); err == nil {
		t.Error("a test that reaches nobody is good")
	}
}

func TestTelegramSaysInItsAnswerHowLongToWait(t *testing.T) {
	for body, want := range map[string]time.Duration{
		`{"ok":false,"error_code":429,"description":"Too Many Requests: retry after 35","parameters":{"retry_after":35}}`: 35 * time.Second,
		`{"ok":false,"error_code":500}`: 0,
		`no JSON`:                       0,
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = io.WriteString(w, body)
		}))
		u, _ := url.Parse(s.URL)
		w := &Watch{web: http.DefaultTransport}
		err := w.post(t.Context(), &Webhook{URL: s.URL, Format: "telegram", Chat: "42"}, &message{id: "x", title: "a", text: "b"})
		no, ok := err.(*refusal)
		if !ok || no.after != want || no.ofItself || !strings.Contains(no.Error(), u.Host) {
			t.Errorf("%s: %v, to wait %v, want %v", body, err, no, want)
		}
		s.Close()
	}
}
