package gateway

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

func TestAThemeIsWatchedWhateverTheRulesSay(t *testing.T) {
	messages := make(chan string, 10)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		messages <- string(b)
	}))
	defer hook.Close()
	file := folder(t, map[string]string{"own.txt": "pills.example\n", "shuultuur.yaml": `
listen: {proxy: 127.0.0.1:0, admin: 127.0.0.1:0}
lists: {own: {format: domains, path: own.txt, category: pills}}
checks: {category: {lists: [own]}}
identity: {groups: {class-7a: [127.0.0.0/8]}}
alerts:
  themes:
    self-harm: {severity: high}
    drugs: {category: [pills], after: 2}
  to: [{groups: [class-7a], webhook: {url: "` + hook.URL + `", format: ntfy}}]
policies: [{name: everyone, rules: [{name: all, action: allow, host: ["*"]}]}]
`})
	g := serving(t, file)
	proxy, _ := url.Parse("http://" + g.ProxyAddr())
	c := http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(proxy)}}
	for _, u := range []string{"http://www.google.com/search?q=I+Want+to+DIE", "http://pills.example/a", "http://pills.example/b", "http://www.google.com/search?q=the+want+to+be"} {
		res, err := c.Get(u) // no origin answers; the request is judged all the same
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
	}
	for range 2 {
		select {
		case text := <-messages:
			if !strings.Contains(text, "Who: 127.0.0.1 (class-7a)") || strings.Contains(strings.ToLower(text), "want to die") {
				t.Errorf("the alert says %q", text)
			}
		case <-time.After(time.Minute):
			res, _ := http.Get("http://" + g.AdminAddr() + "/events")
			b, _ := io.ReadAll(res.Body)
			res.Body.Close()
			res, _ = http.Get("http://" + g.AdminAddr() + "/alerts")
			b2, _ := io.ReadAll(res.Body)
			res.Body.Close()
			t.Fatalf("nobody was alerted: %s\n%s", b, b2)
		}
	}
	get := func(path string, into any) int {
		res, err := http.Get("http://" + g.AdminAddr() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if err := json.NewDecoder(res.Body).Decode(into); err != nil {
			t.Fatal(err)
		}
		return res.StatusCode
	}
	var all []struct {
		ID, Theme, Severity, State string
		Matches                    int
		Evidence                   []string
	}
	if get("/alerts", &all); len(all) != 2 || all[0].Theme != "self-harm" || all[0].Evidence[0] != "search: I Want to DIE" || all[1].Theme != "drugs" || all[1].Matches != 2 {
		t.Fatalf("the alerts are %+v", all)
	}
	var one struct{ Around []struct{ Host string } }
	for end := time.Now().Add(time.Minute); len(one.Around) < 4 && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		get("/alerts/"+all[0].ID, &one) // the record is written once a second
	}
	if len(one.Around) < 4 {
		t.Errorf("the events around the alert are %+v, want at least 4", one.Around)
	}
	post := func(form url.Values) int {
		res, err := http.PostForm("http://"+g.AdminAddr()+"/alerts/"+all[0].ID, form)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res.StatusCode
	}
	if s := post(url.Values{"does": {"closed"}}); s != http.StatusBadRequest {
		t.Errorf("closing an alert without a note: status %d, want 400", s)
	}
	if s := post(url.Values{"does": {"closed"}, "note": {"talked to Anna's parents"}}); s != http.StatusOK {
		t.Errorf("closing an alert with a note: status %d, want 200", s)
	}
	var log []struct{ Action, Details string }
	get("/audit", &log)
	found := false
	for _, e := range log {
		found = found || e.Action == "POST /alerts/{id}" && strings.Contains(e.Details, "parents")
	}
	if !found {
		t.Errorf("the audit log lacks the closing: %+v", log)
	}
}

func TestMistakesInThemesHaveTheirLine(t *testing.T) {
	file := folder(t, map[string]string{"shuultuur.yaml": "alerts:\n  themes:\n    drugs:\n      category: [nothing]\npolicies: [{name: everyone, rules: []}]\n"})
	if err := explain(t, file); err == nil || !strings.Contains(err.Error(), `:4: alerts.themes.drugs.category[0]: no check reports the category "nothing"`) {
		t.Errorf("checking settings with an unknown category: %v", err)
	}
}
