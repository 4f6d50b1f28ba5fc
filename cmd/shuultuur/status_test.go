package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"shuultuur/cmd/shuultuur/arguments"
	"shuultuur/cmd/shuultuur/terminal"
	"shuultuur/event/eventtest"
	"shuultuur/event/sqlite"
	"shuultuur/lib/manual"
)

// standIn answers as a gateway does, and keeps what it was asked.
func standIn(t *testing.T, answers map[string]string) (at string, asked *[]string) {
	asked = &[]string{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		*asked = append(*asked, r.Method+" "+r.URL.Path+" "+r.PostForm.Encode())
		text, ok := answers[r.Method+" "+r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, text)
	}))
	t.Cleanup(s.Close)
	return s.URL, asked
}

func TestStatusSaysHowTheGatewayIs(t *testing.T) {
	for name, c := range map[string]struct {
		answers map[string]string
		status  int
		want    string
	}{
		"well":                {map[string]string{"GET /health": `{"ready":true,"state":"alone","problems":[]}`, "GET /events": `[{"value":"10.0.0.1","n":3},{"value":"10.0.0.2","n":1}]`, "GET /pause": `[]`}, 0, "Filtering for 2 devices; no problems.\n"},
		"health alone":        {map[string]string{"GET /health": `{"ready":true,"problems":["a disk is full"]}`}, 1, "Filtering; 1 problem.\n  a disk is full\n"},
		"not serving":         {map[string]string{"GET /health": `{"ready":false}`}, 1, "The gateway starts or stops"},
		"paused for somebody": {map[string]string{"GET /health": `{"ready":true}`, "GET /pause": `[{"who":"anna","until":"2126-11-26T12:00:00Z"}]`}, 0, "Filtering; no problems.\n  Paused for anna until "},
	} {
		at, _ := standIn(t, c.answers)
		status, out, errs := callAs(t, "-at", at, "status")
		if status != c.status || !strings.HasPrefix(out, c.want) || strings.Contains(out, "\x1b") {
			t.Errorf("%s: status %d, %q, %q; want %d, %q", name, status, out, errs, c.status, c.want)
		}
		var got map[string]any
		if _, out, _ = callAs(t, "-at", at, "status", "-json"); json.Unmarshal([]byte(out), &got) != nil || got["devices"] == nil {
			t.Errorf("%s: as JSON: %s", name, out)
		}
	}
	if status, _, errs := callAs(t, "-at", "http://127.0.0.1:1", "status"); status != 1 || !strings.Contains(errs, "does it run?") {
		t.Errorf("without a gateway: status %d, %q", status, errs)
	}
}

// TestEventsThatWaitAreSeen: where the record is written seldom, the gateway is asked first, which writes what
// waits; where it does not run, the record is as it is.
func TestEventsThatWaitAreSeen(t *testing.T) {
	for every, asked := range map[string]int{"1m": 1, "1s": 0} {
		dir := t.TempDir()
		store, err := sqlite.Open(filepath.Join(dir, "events.db"), time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() })
		rows := eventtest.Rows(time.Now().UTC().Truncate(time.Microsecond), 2)
		if err := store.Write(t.Context(), rows[:1]); err != nil {
			t.Fatal(err)
		}
		times := 0
		gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if times++; times == 1 {
				if err := store.Write(r.Context(), rows[1:]); err != nil {
					t.Error(err)
				}
			}
			fmt.Fprint(w, "[]")
		}))
		t.Cleanup(gateway.Close)
		file := filepath.Join(dir, "shuultuur.yaml")
		text := fmt.Sprintf("listen: {proxy: 127.0.0.1:0, admin: %q}\ndata: .\nevents: {sqlite: events.db, every: %s}\npolicies: [{name: everyone, rules: []}]\n", strings.TrimPrefix(gateway.URL, "http://"), every)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, running := range []bool{true, false} {
			if !running {
				gateway.Close()
			}
			status, out, errs := call(t, "events", "-json", "-config", file)
			if n := strings.Count(out, "\n"); status != 0 || n != 1+asked || times != asked {
				t.Errorf("every %s, gateway %v: status %d, %d rows, asked %d times: %s", every, running, status, n, times, errs)
			}
		}
	}
}

func TestASiteIsOpenedForAWhile(t *testing.T) {
	soon := time.Now().Add(time.Hour)
	in := fmt.Sprintf(`[{"Site":"other.example","Who":"anna","Until":"0001-01-01T00:00:00Z"},{"Site":"roblox.com","Who":"anna","Until":%q},{"Site":"roblox.com","Who":"","Until":"0001-01-01T00:00:00Z"}]`, soon.Format(time.RFC3339))
	for _, c := range []struct{ args, asked, want string }{
		{"open roblox.com anna", "for=1h&site=roblox.com&what=open&who=anna", "roblox.com is open for anna until " + terminal.Moment(soon, time.Now()) + ".\n"},
		{"open -for 15m https://roblox.com/games anna", "for=15m&site=https%3A%2F%2Froblox.com%2Fgames&what=open&who=anna", "roblox.com is open for anna until "},
		{"open roblox.com -for good", "site=roblox.com&what=open&who=", "roblox.com is open for everybody, for good.\n"},
		{"open -end gone.example anna", "site=gone.example&what=end&who=anna", "Lists and rules decide about gone.example for anna again.\n"},
	} {
		at, asked := standIn(t, map[string]string{"POST /rulings": in})
		status, out, errs := callAs(t, append([]string{"-at", at}, strings.Fields(c.args)...)...)
		if status != 0 || !strings.HasPrefix(out, c.want) || len(*asked) != 1 || (*asked)[0] != "POST /rulings "+c.asked {
			t.Errorf("%s: status %d, %q, %q, asked %q; want %q", c.args, status, out, errs, *asked, c.want)
		}
	}
	at, _ := standIn(t, map[string]string{"POST /rulings": `[]`})
	if status, _, errs := callAs(t, "-at", at, "open", "roblox.com"); status != 1 || !strings.Contains(errs, "roblox.com") {
		t.Errorf("a decision that is not in force: status %d, %q", status, errs)
	}
}

// TestEveryCommandHasAnExample that names the command and flags that it has.
func TestEveryCommandHasAnExample(t *testing.T) {
	all := pages(t.Context(), commands(), "")
	for _, p := range all {
		group := slices.ContainsFunc(all, func(x manual.Page) bool { return strings.HasPrefix(x.Name, p.Name+" ") })
		if group && p.Args == "COMMAND [arguments]" {
			continue
		}
		rest, ok := strings.CutPrefix(terminal.Examples[p.Name]+" ", p.Name+" ")
		if !ok || p.Example == "" {
			t.Errorf("%s has no example", p.Name)
			continue
		}
		if err := arguments.Parse(p.Flags, strings.Fields(strings.ReplaceAll(rest, "'Root of our school'", "Root"))); err != nil {
			t.Errorf("the example of %s: %v", p.Name, err)
		}
	}
	for name := range terminal.Examples {
		if !slices.ContainsFunc(all, func(p manual.Page) bool { return p.Name == name }) {
			t.Errorf("there is an example of %q, which is no command", name)
		}
	}
}

// TestHelpHasItsCommandsInParts: each command is in one part, and none is left out.
func TestHelpHasItsCommandsInParts(t *testing.T) {
	_, out, _ := callAs(t, "help")
	for _, c := range commands() {
		if !slices.Contains(parts, c.part) || strings.Count(out, "\n  "+c.name+" ") != 1 {
			t.Errorf("%s is in the part %q, and %d times in the help", c.name, c.part, strings.Count(out, "\n  "+c.name+" "))
		}
	}
	if strings.Contains(out, "\x1b") {
		t.Error("help in a pipe has colours")
	}
}

// TestCommandsAnswerPrograms: one object, without secrets, and nothing else on standard output.
func TestCommandsAnswerPrograms(t *testing.T) {
	dir := t.TempDir()
	good, bad := dir+"/good.yaml", dir+"/bad.yaml"
	for file, text := range map[string]string{good: "listen: {proxy: 127.0.0.1:0}\npolicies: [{name: everyone, rules: []}]\n", bad: "listen: {proxy: 127.0.0.1:0}\npolicys: []\n"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	at, _ := standIn(t, map[string]string{"GET /pause": `[{"who":"anna","until":"2126-11-26T12:00:00Z"}]`, "GET /accounts": `[{"name":"eva","role":"helper","groups":["pupils"],"password":"a hash","totp":"a secret","passkeys":[{}]}]`,
		"GET /lists": `[{"list":"own","category":"gambling","evidence":"own.txt:1"}]`, "GET /lists/own": `{"name":"own","web":true}`})
	for _, c := range []struct {
		args   string
		status int
		want   []string
		not    string
	}{
		{"check -json " + good, 0, []string{`"good": true`, `"mistakes": []`}, ""},
		{"check " + bad + " -json", 1, []string{`"good": false`, "bad.yaml:2"}, ""},
		{"-at " + at + " pause -json", 0, []string{`"who": "anna"`}, "filtering"},
		{"-at " + at + " account list -json", 0, []string{`"name": "eva"`, `"password": true`, `"passkeys": 1`}, "a secret"},
		{"list catalogue -json stevenblack", 0, []string{`"good": true`, "stevenblack  "}, ""},
		{"list catalogue -json nothing-like-it", 1, []string{`"good": false`, "the catalogue has nothing"}, ""},
		{"-at " + at + " list search -json bet.example", 0, []string{`"good": true`, "own: bet.example: gambling, own.txt:1"}, ""},
		{"-at " + at + " list history -json own", 0, []string{`"good": true`, "own: never asked, 0 versions"}, ""},
	} {
		status, out, errs := callAs(t, strings.Fields(c.args)...)
		if status != c.status || !json.Valid([]byte(out)) || errs != "" || c.not != "" && strings.Contains(out, c.not) {
			t.Errorf("%s: status %d, %s, errors %q", c.args, status, out, errs)
		}
		for _, want := range c.want {
			if !strings.Contains(out, want) {
				t.Errorf("%s: %s lacks %s", c.args, out, want)
			}
		}
	}
	if status, out, errs := callAs(t, "check", "-json", "a", "b"); status != 2 || out != "" || !strings.Contains(errs, "one argument too many") {
		t.Errorf("called in a wrong way: status %d, %q, %q", status, out, errs)
	}
}
