package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"shuultuur/event/eventtest"
	"shuultuur/event/jsonl"
)

func TestAGatewayElsewhereIsAsked(t *testing.T) {
	var asked []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		asked = append(asked, fmt.Sprintf("%s %s %s %s", r.Method, r.URL.Path, r.PostForm.Encode(), r.Header.Get("Authorization")))
		if r.URL.Path == "/pause" || r.URL.Query().Get("by") == "host" && r.URL.Query().Get("top") == "10" || r.URL.Query().Get("by") == "user" && r.URL.Query().Get("top") == "3" {
			fmt.Fprint(w, "[]")
		} else {
			fmt.Fprint(w, "{}")
		}
	}))
	defer s.Close()
	t.Setenv(tokenVariable, "the token")
	for line, want := range map[string]string{
		"-at URL pause 5m class-7a":             "POST /pause for=5m&who=class-7a Bearer the token",
		"-at=URL pause":                         "GET /pause  Bearer the token",
		"-at URL resume":                        "POST /pause for=0s&who= Bearer the token",
		"-at URL cache purge host a.example":    "POST /cache/purge kind=host&value=a.example Bearer the token",
		"-at URL check nowhere.yaml":            "",
		"-at URL events copy a b":               "",
		"-at URL events -top host x":            "GET /events  Bearer the token",
		"-at URL events -top user -n 3":         "GET /events  Bearer the token",
		"-at URL events -config x":              "",
		"-at URL why -dns a.example":            "",
		"-at URL":                               "",
		"-at":                                   "",
		"-at http://filter.example:8081 resume": "",
		"-at https://a:b@filter.example resume": "",
		"-at nonsense resume":                   "",
	} {
		asked = nil
		var out, failed strings.Builder
		status := dispatch(t.Context(), env{stdin: strings.NewReader(""), stdout: &out, stderr: &failed}, strings.Fields(strings.ReplaceAll(line, "URL", s.URL)))
		if got := strings.Join(asked, "; "); got != want || (status == 0) != (want != "") || (failed.Len() == 0) != (want != "") {
			t.Errorf("%s: the gateway was asked %q, want %q; status %d, %s", line, got, want, status, failed.String())
		}
	}
}

// asksThere has command lines that ask another gateway, and their requests. A new command needs
// a row here, or a reason in its row of the table of commands.
var asksThere = map[string]struct{ line, asks string }{
	"check":            {"check FILE", "PUT /settings"},
	"why":              {"why http://a.example/", "GET /why"},
	"events":           {"events host:a.example", "GET /events"},
	"status":           {"status", "GET /health"},
	"open":             {"open a.example", "POST /rulings"},
	"setup":            {"setup", "GET /setup/link"},
	"pause":            {"pause 5m class-7a", "POST /pause"},
	"resume":           {"resume", "POST /pause"},
	"cache look":       {"cache look http://a.example/", "GET /cache/look"},
	"cache purge":      {"cache purge host a.example", "POST /cache/purge"},
	"backup":           {"backup OUT", "GET /system/backup"},
	"profile":          {"profile -seconds 1 -o OUT", "GET /debug/pprof/"},
	"rules profile":    {"rules profile", "GET /checks"},
	"settings show":    {"settings show", "GET /settings"},
	"settings save":    {"settings save -reason test FILE", "PUT /settings"},
	"list add":         {"list add own a.example b.example", "POST /lists/own"},
	"list remove":      {"list remove own a.example", "POST /lists/own"},
	"list update":      {"list update own", "POST /lists/own/source"},
	"list history":     {"list history own", "GET /lists/own"},
	"list rollback":    {"list rollback own", "POST /lists/own/source"},
	"list stats":       {"list stats", "GET /lists"},
	"list search":      {"list search a.example", "GET /lists"},
	"list lint":        {"list lint own", "GET /lists/own"},
	"account add":      {"account add -role viewer -no-password eva", "POST /accounts"},
	"fleet":            {"fleet offer monday", "POST /fleet/offer"},
	"account edit":     {"account edit -role viewer eva", "POST /accounts/edit"},
	"account list":     {"account list", "GET /accounts"},
	"account password": {"account password -reset eva", "POST /accounts/totp/end"},
	"account remove":   {"account remove eva", "POST /accounts/remove"},
	"account token":    {"account token -list eva", "GET /accounts/tokens"},
	"account audit":    {"account audit -n 3", "GET /audit/verify"},
}

// answers are a gateway's answers to these requests.
var answers = map[string]string{
	"/cache/look": `{"stored": true}`, "/checks": `{"signatures": true, "rules": [], "buffers": []}`, "/lists": `[{"name": "own", "entries": 3, "list": "own", "category": "x"}]`,
	"/lists/own": `{"name": "own", "entries": 3, "web": true, "fetched": "2026-01-02T03:04:05Z", "odd": {}}`, "/events": "", "/accounts": `[{"name": "eva", "role": "viewer"}]`,
	"/accounts/tokens": "[]", "/audit": "[]", "/pause": "[]", "/health": `{"ready": true}`, "/rulings": `[{"Site": "a.example", "Who": ""}]`, "/why": `{"action": "pass"}`, "/settings": `{"effect": {"judged": 7, "changed": 2, "changes": []}, "saved": true}`,
}

func TestEveryCommandAsksAnotherGatewayOrSaysWhyNot(t *testing.T) {
	var mu sync.Mutex
	var requests []string // "profile" may end before the gateway has received its last request
	asked := func() string {
		mu.Lock()
		defer mu.Unlock()
		return strings.Join(requests, "; ")
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		requests = append(requests, r.Method+" "+r.URL.Path+" "+r.Header.Get("Authorization"))
		mu.Unlock()
		w.Header().Set("ETag", `"tag"`)
		text, ok := answers[strings.TrimSuffix(r.URL.Path, "/source")]
		if !ok {
			text = "{}"
		}
		fmt.Fprint(w, text)
	}))
	defer s.Close()
	t.Setenv(tokenVariable, "the token")
	file := filepath.Join(t.TempDir(), "shuultuur.yaml")
	if err := os.WriteFile(file, []byte("policies: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	call := func(line string) (int, string, string) {
		mu.Lock()
		requests = nil
		mu.Unlock()
		var out, failed strings.Builder
		line = strings.NewReplacer("FILE", file, "OUT", filepath.Join(t.TempDir(), "out")).Replace(line)
		status := dispatch(t.Context(), env{stdin: strings.NewReader("correct horse battery\n"), stdout: &out, stderr: &failed}, append([]string{"-at", s.URL}, strings.Fields(line)...))
		return status, out.String(), failed.String()
	}
	there := map[string]bool{}
	for _, name := range remoteCommands(commands(), "") {
		there[name] = true
		c, ok := asksThere[name]
		if !ok {
			t.Errorf("%q can ask another gateway, and asksThere has no row for it", name)
			continue
		}
		status, out, failed := call(c.line)
		if got := asked(); !strings.Contains(got, c.asks) || !strings.Contains(got, "Bearer the token") || name != "profile" && (status != 0 || failed != "") {
			t.Errorf("%s: the gateway was asked %q, want %q; status %d, %s%s", c.line, got, c.asks, status, out, failed)
		}
	}
	for name := range asksThere {
		if !there[name] && len(fullCommands()) > 0 {
			t.Errorf("asksThere has %q, which cannot ask another gateway", name)
		}
	}
	for line, want := range map[string]string{
		"doctor": "check -running", "run": "works on this machine alone", "list compile a b": "works on this machine alone", "list look own a.example": "list add NAME ENTRY",
		"zone check a": "works on this machine alone", "rules update": "fetches them by itself", "ca show": "keys", "account token -scope read eva": "/account",
		"pause -config FILE 5m": "leave one out", "rules profile -rules FILE x.pcap": "-rules", "list lint -format hosts FILE": "-format", "nonsense": "no command",
	} {
		status, _, failed := call(line)
		if status == 0 || !strings.Contains(failed, want) || asked() != "" {
			t.Errorf("%s: status %d, error %q, want %q; the gateway was asked %q", line, status, failed, want, asked())
		}
	}
	if status, out, failed := call("help"); status != 0 || !strings.Contains(out, "list search") || strings.Contains(out, "doctor") || failed != "" {
		t.Errorf("help with -at: status %d, %s%s", status, out, failed)
	}
}

func TestTheRecordElsewhereIsAskedPageByPage(t *testing.T) {
	rows := eventtest.Rows(time.Now().UTC().Truncate(time.Microsecond), 5)
	var asked []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.String()+" "+r.Header.Get("Authorization"))
		page := rows[2:]
		if r.URL.Query().Has("before") {
			page = rows[:2]
		} else {
			w.Header().Set("Link", `</events?before=7&filter=action%3Ablock&last=>; rel="next"`)
		}
		for i := range page {
			_, _ = w.Write(jsonl.AppendLine(nil, &page[len(page)-1-i]))
		}
	}))
	defer s.Close()
	t.Setenv(tokenVariable, "the token")
	first := "/events?filter=action%3Ablock Bearer the token"
	for flags, want := range map[string]struct {
		rows  int
		asked []string
	}{
		"-n 3": {3, []string{first}},
		"-n 0": {5, []string{first, "/events?before=7&filter=action%3Ablock&last= Bearer the token"}},
	} {
		asked = nil
		var out, failed strings.Builder
		line := append(strings.Fields("-at "+s.URL+" events -json "+flags), "action:block")
		if status := dispatch(t.Context(), env{stdin: strings.NewReader(""), stdout: &out, stderr: &failed}, line); status != 0 {
			t.Errorf("list with %s: status %d, %s", flags, status, failed.String())
		}
		lines := ""
		for i := range want.rows {
			lines += string(jsonl.AppendLine(nil, &rows[4-i]))
		}
		if out.String() != lines || !slices.Equal(asked, want.asked) {
			t.Errorf("%s: the gateway was asked %q, want %q; the output is %s", flags, asked, want.asked, out.String())
		}
	}
}

func TestWhyElsewhereSaysWhatTheGatewaySays(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got := r.URL.Path + " " + r.URL.Query().Get("url") + " " + r.URL.Query().Get("client") + " " + r.URL.Query().Get("groups"); got != "/why https://a.example/?x=1 10.1.2.3 class-7a" {
			http.Error(w, "asked "+got, http.StatusBadRequest)
			return
		}
		fmt.Fprint(w, `{"url":"https://a.example/?x=1","action":"block","policy":"pupils","rule":"games","findings":[]}`)
	}))
	defer s.Close()
	var out, failed strings.Builder
	status := dispatch(t.Context(), env{stdin: strings.NewReader(""), stdout: &out, stderr: &failed}, strings.Fields("-at "+s.URL+" why -client 10.1.2.3 -groups class-7a https://a.example/?x=1"))
	if status != 1 || !strings.Contains(out.String(), "BLOCK  https://a.example/?x=1") || !strings.Contains(out.String(), "games") {
		t.Errorf("why with -at: status %d, %s%s", status, out.String(), failed.String())
	}
}

func TestAGatewayElsewhereThatLacksAPartIsNamed(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	var out, failed strings.Builder
	dispatch(t.Context(), env{stdin: strings.NewReader(""), stdout: &out, stderr: &failed}, []string{"-at", s.URL, "cache", "purge", "host", "a.example"})
	if want := "the gateway at " + s.URL + " has no cache"; !strings.Contains(failed.String(), want) {
		t.Errorf("the error is %q, want %q in it", failed.String(), want)
	}
}
