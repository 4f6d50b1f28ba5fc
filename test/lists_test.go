package test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestEntriesAreChangedAtOnce: an entry added or removed at the admin address
// affects the next request.
func TestEntriesAreChangedAtOnce(t *testing.T) {
	h := newHouse(t, map[string]string{"tea.example/": "tea", "bet.example/": "bets", "www.bet.example/help": "help"})
	admin := "http://" + h.g.AdminAddr()
	post := func(path, ctype, origin, body string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), "POST", admin+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", ctype)
		if origin != "" {
			r.Header.Set("Origin", origin)
		}
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
	for _, step := range []struct {
		path, ctype, origin, body string
		status                    int
		says                      string
		tea, bet, help            int // statuses afterwards
	}{
		{"/lists/own", "application/json", "", `[{"entry":"tea.example"},{"entry":"bet.example","remove":true}]`, 200, `{"changed":2}`, 403, 200, 200},
		{"/lists/own", "text/csv", "", "entry,remove\ntea.example,true\nbet.example,false\n", 200, `{"changed":2}`, 200, 403, 403},
		{"/lists/own", "application/json", "", `[{"entry":"www.bet.example","exception":true}]`, 200, `{"changed":1}`, 200, 403, 200},
		{"/lists/own", "application/json", "", `["tea.example","no name"]`, 400, `line 1: "no name"`, 200, 403, 200},
		{"/lists/other", "application/json", "", `["tea.example"]`, 404, "no list with this name", 200, 403, 200},
		{"/lists/own", "text/plain", "", "tea.example", 415, "send application/json or text/csv", 200, 403, 200},
		{"/lists", "application/x-www-form-urlencoded", "http://evil.example", "what=add&list=own&entry=tea.example", 403, "", 200, 403, 200},
		{"/lists", "application/x-www-form-urlencoded", "", "what=add&list=own&entry=tea.example", 200, "", 403, 403, 200},
	} {
		code, text := post(step.path, step.ctype, step.origin, step.body)
		if code != step.status || !strings.Contains(text, step.says) {
			t.Errorf("POST %s %s: status %d, %q; want %d with %q", step.path, step.body, code, text, step.status, step.says)
		}
		got := fmt.Sprint(h.status("http://tea.example/"), h.status("http://bet.example/"), h.status("http://www.bet.example/help"))
		if want := fmt.Sprint(step.tea, step.bet, step.help); got != want {
			t.Errorf("after POST %s %s: tea, bet and help get %s, want %s", step.path, step.body, got, want)
		}
	}
	if _, text, err := get(http.DefaultClient, admin+"/lists?q=www.bet.example"); err != nil || !strings.Contains(text, `"list":"own"`) || !strings.Contains(text, `"exception":true`) {
		t.Errorf("searching www.bet.example: %q, %v; want the exception in own", text, err)
	}
	if _, text, err := get(http.DefaultClient, admin+"/lists"); err != nil || !strings.Contains(text, `"name":"own"`) {
		t.Errorf("GET /lists: %q, %v; want the list own", text, err)
	}

	b := newBrowser(t, h.g.ProxyAddr(), "--proxy-bypass-list=<-loopback>;127.0.0.1")
	b.open(admin + "/lists?q=bet.example")
	b.shows("gambling")
	b.picture("lists")
	b.script(`document.querySelector('select[name=what]').value = 'remove'`)
	b.change("form:has(select[name=what]) button:not([disabled])")
	b.shows("bet.example is not in any list")
	b.shows("own: removed bet.example")
	b.picture("lists-removed")
	if code := h.status("http://bet.example/"); code != 200 {
		t.Errorf("bet.example after the page removed its entry: status %d, want 200", code)
	}
}
