package gateway

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"shuultuur/admin/account"
	"shuultuur/engine"
	"shuultuur/engine/configuration"
	"shuultuur/lib/wait/waittest"
	"shuultuur/list"
	"shuultuur/test/race"
	"shuultuur/zone/sign"
)

const rememberingSettings = `
listen: {proxy: "127.0.0.1:0", admin: "127.0.0.1:0"}
lists: {own: {format: domains, path: own.txt}}
checks: {category: {lists: [own]}, phrase: {banned: [phrases]}}
identity: {addresses: {anna: [10.0.0.1]}}
policies: [{name: all, quotas: [{bytes: 1GB}], rules: [{name: own, action: block, category: [own]}]}]
proxy: {private: [127.0.0.0/8], parent: "http://ORIGIN"}
state: {file: remembered}
cache: {disk: 100MiB, admission: always}
votes: {listen: "127.0.0.1:0", list: own}
acme: {names: [gate.own.example], directory: "https://127.0.0.1:1/dir", challenge: http-01}
alerts: {themes: {own: {severity: high, category: [own]}}}
dns: {listen: ["127.0.0.1:0"], forward: {upstreams: ["127.0.0.1:1"]}, zones: {files: [{path: own.example.zone}], sign: [{zones: [own.example], keys: [.]}]}}
`

// remembering makes a folder with settings, and with all that a gateway keeps in its data folder after
// it has served.
func remembering(t *testing.T) (dir string) {
	t.Helper()
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", "max-age=3600")
		_, _ = io.WriteString(w, "a page")
	}))
	defer origin.Close()
	file := folder(t, map[string]string{
		"shuultuur.yaml":   strings.ReplaceAll(rememberingSettings, "ORIGIN", origin.Listener.Addr().String()),
		"own.txt":          "own.example\n",
		"phrases":          "<forbidden>\n",
		"own.example.zone": strings.NewReplacer("%d", "1").Replace(zoneText),
	})
	dir = filepath.Dir(file)
	key, err := sign.Generate("own.example.", "ed25519", true)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := key.Write(dir); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	g, err := New(ctx, file, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: g.ProxyAddr()})}}
	defer client.CloseIdleConnections()
	say := func(r *http.Request) string {
		t.Helper()
		res, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode >= 500 {
			t.Fatalf("%s %s: %d, %v, %s", r.Method, r.URL, res.StatusCode, err, text)
		}
		return string(text)
	}
	request := func(method, to string, form url.Values) *http.Request {
		r, err := http.NewRequestWithContext(ctx, method, to, strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Accept", "text/html")
		return r
	}
	say(request("GET", "http://open.example/", nil))
	page := say(request("GET", "http://own.example/", nil))
	token := regexp.MustCompile(`name="token" value="([^"]+)"`).FindStringSubmatch(page)
	if token == nil {
		t.Fatalf("no token on %s", page)
	}
	say(request("POST", "http://own.example/.well-known/shuultuur/votes", url.Values{"token": {token[1]}, "vote": {"wrong"}}))
	client.Transport = nil
	for to, form := range map[string]url.Values{"/pause": {"for": {"5m"}, "who": {"anna"}}} {
		r := request("POST", "http://"+g.AdminAddr()+to, form)
		r.Header.Set("Accept", "application/json")
		say(r)
	}
	e := g.engine.Load()
	err = e.Lists.Change(ctx, map[string][]list.Change{"own": {{Entry: "tea.example"}}}, func() error { return g.Reload(ctx) })
	if err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, "an alert is kept", func() bool {
		_, err := os.Stat(filepath.Join(dir, "data", "alerts.json"))
		return err == nil
	})
	waittest.Until(t, "an account is kept", func() bool {
		_, err := os.Stat(filepath.Join(dir, "data", "certificate", "account.json"))
		return err == nil
	})
	if _, err := g.fleetParts().EraseVotes(ctx, []string{"ben"}, nil); err != nil {
		t.Fatal(err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	book, err := account.Open(account.Folder(filepath.Join(dir, "data")), nil)
	if err == nil {
		err = book.Add("anna", account.Owner, nil, "")
	}
	if err == nil {
		_, err = book.Begin("anna", "password", account.Origin{})
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// A damage is what happens to a file.
type damage func([]byte) []byte

var damages = map[string]damage{
	"halved":  func(b []byte) []byte { return b[:len(b)/2] },
	"emptied": func([]byte) []byte { return nil },
	"flipped": func(b []byte) []byte { b = bytes.Clone(b); b[len(b)/2] ^= 1; return b },
	"begins":  func(b []byte) []byte { b = bytes.Clone(b); b[0] ^= 1; return b },
}

// remembered are the files of a data folder, as patterns. named are the damages that /health shows; by
// the others nothing is lost, except that a wrong bit may be seen or not. refused are those with which
// the gateway does not start.
var remembered = []struct{ file, named, refused string }{
	{file: "accounts/accounts.json", named: "halved emptied begins"},
	{file: "accounts/accounts.json.last"},
	{file: "accounts/audit.head", named: "halved emptied begins"},
	{file: "accounts/audit.jsonl", named: "halved emptied begins"},
	{file: "accounts/local.key", named: "halved emptied"},
	{file: "accounts/sessions.json", named: "halved emptied begins"},
	{file: "alerts.json", named: "halved emptied begins"},
	{file: "cache/*"},
	{file: "certificate/account.json", named: "halved emptied begins"},
	{file: "certificate/certificate.pem", named: "halved emptied begins"},
	{file: "clock-alerts.json"}, // a damaged one is as good as none
	{file: "events.db", named: "halved emptied begins"},
	{file: "format.json", refused: "halved emptied begins"},
	{file: "instructions", named: "halved emptied"},
	{file: "last-good/*"},
	{file: "lists/own.list"}, // it is compiled again
	{file: "lists/own.list.overlay", named: "halved emptied begins"},
	{file: "lock"},
	{file: "remembered", named: "halved emptied begins"},
	{file: "secret.key", refused: "halved emptied"},
	{file: "votes.db", named: "halved emptied begins"},
	{file: "votes/*.log"}, // they are counted already
	{file: "votes/counter.position", named: "emptied"},
	{file: "quotas.json"}, // a damaged one is as good as none
	{file: "votes/erased.json", named: "halved emptied begins"},
	{file: "zones/*"}, // they are signed again
}

// TestADamagedFileOfTheDataFolderDoesNotStopTheFilter: a start with each file of the data folder halved,
// emptied, and with a wrong bit, one at a time. The filter serves, and is as closed as before; what is
// lost is named in /health; check says the same as the start.
func TestADamagedFileOfTheDataFolderDoesNotStopTheFilter(t *testing.T) {
	race.Without(t)
	dir, snapshot := remembering(t), t.TempDir()
	putBack(t, dir, snapshot)
	seen := map[string]bool{}
	err := filepath.WalkDir(filepath.Join(snapshot, "data"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name := strings.TrimPrefix(path, filepath.Join(snapshot, "data")+string(filepath.Separator))
		content, err := os.ReadFile(path)
		if err != nil || len(content) == 0 {
			return err
		}
		for _, row := range remembered {
			below, all := strings.CutSuffix(row.file, "/*")
			if match, _ := filepath.Match(row.file, name); !match && !(all && strings.HasPrefix(name, below+"/")) {
				continue
			}
			seen[row.file] = true
			for how, damage := range damages {
				t.Run(name+"/"+how, func(t *testing.T) {
					putBack(t, snapshot, dir)
					if err := os.WriteFile(filepath.Join(dir, "data", name), damage(content), 0o600); err != nil {
						t.Fatal(err)
					}
					startDamaged(t, dir, filepath.Join("data", name), how, row.named, strings.Contains(row.refused, how))
				})
			}
			return nil
		}
		t.Errorf("there is no row for %s", name)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range remembered {
		if !seen[row.file] {
			t.Errorf("there is no %s", row.file)
		}
	}
}

// startDamaged checks settings and starts a gateway with them, beside a damaged file.
func startDamaged(t *testing.T, dir, name, how, named string, refused bool) {
	file := filepath.Join(dir, "shuultuur.yaml")
	s, err := configuration.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	e, checked := engine.Build(t.Context(), s, nil, nil, slog.New(slog.DiscardHandler))
	if checked == nil {
		e.Drop(nil, slog.New(slog.DiscardHandler))
	}
	for _, when := range []string{"a start", "the next start"} {
		g, err := New(t.Context(), file, slog.New(slog.DiscardHandler))
		if (err != nil) != refused || (checked != nil) != refused {
			t.Fatalf("%s is refused: %v, and by check: %v; want that: %v", when, err, checked, refused)
		}
		if refused {
			return
		}
		problems := strings.Join(g.health().Problems, "\n")
		if err := account.NewLog(account.Folder(filepath.Join(dir, "data"))).Problem(); err != nil { // which the admin address adds
			problems += err.Error()
		}
		if got := strings.Contains(problems, filepath.Join(dir, name)); got != strings.Contains(named, how) && how != "flipped" {
			t.Errorf("after %s, /health names it: %v; want it for %s: %s", when, got, named, problems)
		}
		for _, host := range []string{"own.example", "tea.example"} {
			if hits, err := g.engine.Load().Lists.Search(host); err != nil || len(hits) == 0 {
				t.Errorf("after %s, %s is open: %v", when, host, err)
			}
		}
		if err := g.close(); err != nil {
			t.Error(err)
		}
	}
}

// putBack makes a folder what another is, with modes and times.
func putBack(t *testing.T, from, to string) {
	t.Helper()
	if err := os.RemoveAll(to); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		at := filepath.Join(to, strings.TrimPrefix(path, from))
		if d.IsDir() {
			return os.MkdirAll(at, info.Mode().Perm())
		}
		data, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(at, data, info.Mode().Perm())
		}
		if err == nil {
			err = os.Chtimes(at, info.ModTime(), info.ModTime())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
