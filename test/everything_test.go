package test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base32"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"shuultuur/admin/account"
	"shuultuur/admin/backup"
	"shuultuur/engine"
	"shuultuur/engine/configuration"
	"shuultuur/gateway"
	"shuultuur/intercept"
	"shuultuur/lib/wait/waittest"
)

// everythingSettings use all that keeps files on this machine.
const everythingSettings = `listen: {proxy: 127.0.0.1:0, admin: 127.0.0.1:0, portal: 127.0.0.1:0}
data: data
proxy: {parent: "http://ORIGIN"}
intercept: {root: root.pem}
cache: {disk: 64MiB}
state: {file: memory}
lists:
  own: {format: domains, path: own.txt, category: gambling}
  feed: {format: domains, url: "http://ORIGIN/feed", category: ads}
checks:
  category: {lists: [own, feed]}
  signature: {sources: {ids: {url: "http://ORIGIN/rules"}}}
identity: {addresses: {anna: [127.0.0.3]}}
mail: {server: "smtp://127.0.0.1:1", from: filter@school.example}
alerts: {themes: {exams: {search: [exam answers]}}, to: [{mail: head@school.example}]}
reports: [{every: day, mail: [head@school.example]}]
dns:
  listen: 127.0.0.1:0
  forward: {upstreams: [127.0.0.1:1]}
  zones: {files: [{path: zones}], reread: 50ms}
votes: {}
policies:
  - name: everyone
    quotas: [{category: [ads], bytes: 10}]
    rules:
      - {name: own, action: block, category: [gambling]}
      - {name: own signatures, action: block, category: [signature/trojan-activity]}
events: {sqlite: events.db, jsonl: events.jsonl, every: 100ms, syslog: {to: "tcp://127.0.0.1:1"}}
`

// forgotten are pages that may differ after a backup was restored on another machine.
var forgotten = map[string]string{
	"/api": "links", "/openapi.json": "the addresses of this machine", "/settings": "an address of a test", "/settings/form": "the same", "/system": "the machine", "/health": "the machine", "/ready": "the machine", "/metrics": "the machine",
	"/audit": "it goes on", "/audit/verify": "it goes on", "/inbox": "problems of the machine", "/inbox.json": "the same", "/overview": "the record of browsing", "/events": "the record", "/events/live": "the record", "/statistics": "the record", "/day": "the record",
	"/reports": "the record", "/clients": "the record", "/clients/one": "the record", "/privacy": "the record", "/privacy/export": "the record", "/pictures": "findings in memory", "/checks": "counters", "/names": "a cache", "/cache": "a cache", "/cache/look": "a cache",
	"/system/backup": "it is one", "/lists": "fetched versions are fetched again", "/accounts/tokens": "when they were used", "/accounts/sessions": "when they were used", "/account": "when it was used", "/certificate": "the machine", "/fleet": "the machine",
	"/votes/counts": "the hours", "/votes": "the record is asked", "/why": "a question", "/setup/connect": "the machine", "/setup/first": "the same", "/setup/home": "the same", "/setup/link": "the same", "/setup": "the same", "/looks": "requests in memory",
	"/login": "a form", "/login/callback": "a form", "/login/invited": "a form", "/login/provider": "a form",
}

// TestAGatewayThatHasUsedEverythingIsRestored: every file of its data folder has a row in the table of what
// is kept where. What people have made is there again after a backup, taken from the pages and encrypted, was
// restored on an empty machine: the gateway gives the same answers, and says the same of itself.
func TestAGatewayThatHasUsedEverythingIsRestored(t *testing.T) {
	t.Parallel()
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/feed":
			fmt.Fprint(w, "ads.example\nclean.example\n")
		case "/rules":
			fmt.Fprint(w, `alert http any any -> any any (msg:"seen"; http.uri; content:"/seen"; dataset:set,seen,type string,state seen.lst; classtype:trojan-activity; sid:1;)`+"\n"+
				`alert http any any -> any any (msg:"no"; http.uri; content:"/nothing-of-the-kind"; classtype:trojan-activity; sid:2;)`+"\n")
		default:
			w.Header().Set("Cache-Control", "max-age=600")
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "<p>a page of ", r.Host)
		}
	}))
	defer origin.Close()
	settings := strings.ReplaceAll(everythingSettings, "ORIGIN", origin.Listener.Addr().String())
	dir := t.TempDir()
	for name, text := range map[string]string{"own.txt": "bet.example\n", "zones/school.example.zone": "$TTL 300\n@ SOA ns hostmaster 1 3600 600 86400 300\n@ NS ns\nns A 192.0.2.1\n"} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755), os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	root, err := intercept.NewRoot(intercept.RootConfig{Name: "School"})
	if err == nil {
		err = root.Write(filepath.Join(dir, "root.pem"), false)
	}
	if err != nil {
		t.Fatal(err)
	}
	u := &used{t: t, g: runGateway(t, dir, settings), dir: dir}
	u.use()

	s, err := configuration.Read(filepath.Join(dir, "shuultuur.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	named, files := s.Paths(dir), 0
	if err := filepath.WalkDir(string(s.Data), func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		name, err := filepath.Rel(string(s.Data), file)
		if backup.Kept(filepath.ToSlash(name)) == "" && !slices.ContainsFunc(named, func(p string) bool { return file == p || strings.HasPrefix(file, p+"-") }) {
			t.Errorf("%s has no row in the table of what is kept where", name)
		}
		return err
	}); err != nil || files < 30 {
		t.Errorf("%d files are kept, %v; want those of all parts", files, err)
	}

	// The backup comes from the pages, encrypted on the way to its place.
	u.answers() // quotas are used up by it
	before, answers, key := u.pages(), u.answers(), u.certificate()
	code, plain := u.ask("GET", "/system/backup", nil)
	if code != 200 {
		t.Fatalf("taking a backup: %d %s", code, plain)
	}
	var packed bytes.Buffer
	if err := backup.Encrypted(&packed, "a long passphrase", func(w io.Writer) error { _, err := io.WriteString(w, plain); return err }); err != nil {
		t.Fatal(err)
	}
	in, err := backup.Open(&packed, "a long passphrase")
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := t.TempDir()
	if _, err := engine.Restore(t.Context(), in, filepath.Join(elsewhere, "shuultuur.yaml"), ""); err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"data/secret.key", "data/accounts/accounts.json", "data/alerts.json", "data/instructions"} {
		if info, err := os.Stat(filepath.Join(elsewhere, secret)); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s is restored as %v, %v; want it for its owner alone", secret, info, err)
		}
	}
	restored, err := os.ReadFile(filepath.Join(elsewhere, "shuultuur.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	again := &used{t: t, g: runGateway(t, elsewhere, string(restored)), dir: elsewhere, token: u.token}
	again.ready()
	after := again.pages()
	for path, was := range before {
		if is := after[path]; is != was {
			t.Errorf("%s says\n%.2000s\nand said\n%.2000s", path, is, was)
		}
	}
	now := again.answers()
	for q, was := range answers {
		if is := now[q]; is != was {
			t.Errorf("%s: the answer is %s, and was %s", q, is, was)
		}
	}
	if is := again.certificate(); is != key {
		t.Error("the root certificate is another one")
	}
	if _, err := again.book().SignIn(t.Context(), "olga", "a password of olga", u.recovery, account.Origin{}); err != nil {
		t.Errorf("the password, with a code that was kept for the loss of the authenticator: %v", err)
	}
}

// used is a gateway that has used everything, or has been restored from it.
type used struct {
	t        *testing.T
	g        *gateway.Gateway
	dir      string
	token    string // of the owner
	recovery string // a code of hers
}

func (u *used) book() *account.Book {
	u.t.Helper()
	b, err := account.Open(account.Folder(filepath.Join(u.dir, "data")), nil)
	if err != nil {
		u.t.Fatal(err)
	}
	return b
}

func (u *used) ask(method, path string, form url.Values) (int, string) {
	u.t.Helper()
	r, err := http.NewRequestWithContext(u.t.Context(), method, "http://"+u.g.AdminAddr()+path, strings.NewReader(form.Encode()))
	if err != nil {
		u.t.Fatal(err)
	}
	if method == "POST" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	r.Header.Set("Accept", "application/json")
	if u.token != "" {
		r.Header.Set("Authorization", "Bearer "+u.token)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		u.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		u.t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

// from returns a client at an address of this machine.
func (u *used) from(addr string) *http.Client {
	c := through(u.g.ProxyAddr())
	d := net.Dialer{Timeout: time.Minute, LocalAddr: &net.TCPAddr{IP: net.ParseIP(addr)}}
	c.Transport.(*http.Transport).DialContext = d.DialContext
	u.t.Cleanup(c.CloseIdleConnections)
	return c
}

// ready waits until what is fetched is there.
func (u *used) ready() {
	u.t.Helper()
	waittest.Until(u.t, "the list and the rules are there", func() bool {
		_, health := u.ask("GET", "/health", nil)
		return !strings.Contains(health, "awaited") && !strings.Contains(health, "not fetched")
	})
}

// use uses everything.
func (u *used) use() {
	t := u.t
	t.Helper()
	u.ready()
	does := func(path string, form ...string) string {
		t.Helper()
		f := url.Values{}
		for i := 0; i < len(form); i += 2 {
			f.Set(form[i], form[i+1])
		}
		code, text := u.ask("POST", path, f)
		if code >= 300 {
			t.Fatalf("POST %s %v: %d %s", path, f, code, text)
		}
		return text
	}
	anna, other := u.from("127.0.0.3"), u.from("127.0.0.4")
	fetch := func(c *http.Client, address string) int {
		t.Helper()
		code, _, err := get(c, address)
		if err != nil {
			t.Fatal(err)
		}
		return code
	}
	// Lists: allowed, blocked, and changed in one that is fetched.
	does("/lists", "what", "add", "entry", "added.example", "list", "own")
	does("/lists", "what", "remove", "entry", "bet.example", "list", "own")
	does("/lists", "what", "except", "entry", "clean.example", "list", "feed")
	does("/lists", "what", "add", "entry", "more.example", "list", "feed")
	// A zone that is made on the pages, and signed.
	does("/zones", "origin", "lab.example", "address", "192.0.2.5", "in", "file")
	waittest.Until(t, "the zone is there", func() bool { code, _ := u.ask("GET", "/zones/lab.example", nil); return code == 200 })
	does("/zones/lab.example/sign")
	// Decisions, pauses, named devices, searches that are kept.
	does("/rulings", "what", "block", "site", "tea.example")
	does("/rulings", "what", "open", "site", "added.example", "who", "anna")
	does("/pause", "who", "127.0.0.9", "for", "12h")
	does("/events/searches", "name", "refused", "filter", "action:block", "last", "7d")
	// A quota that is used up, an alert, a request to open, what signatures save.
	if fetch(anna, "http://ads.example/") != 200 {
		t.Error("the first page within a quota is refused")
	}
	waittest.Until(t, "the quota is used up", func() bool { return fetch(anna, "http://ads.example/") != 200 })
	fetch(other, "http://www.google.com/search?q=exam+answers")
	fetch(other, "http://news.example/seen")
	fetch(other, "http://news.example/cached")
	res, err := other.PostForm("http://tea.example/.well-known/shuultuur/votes", url.Values{"token": {tokenOf(t, other, "http://tea.example/")}, "vote": {"wrong"}})
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	var alerts []struct{ ID string }
	waittest.Until(t, "the alert", func() bool {
		_, text := u.ask("GET", "/alerts", nil)
		_ = json.Unmarshal([]byte(text), &alerts)
		return len(alerts) > 0
	})
	does("/alerts/"+alerts[0].ID, "does", "closed", "note", "We talked.")
	does("/system/backups")
	// People.
	b := u.book()
	if err := errors.Join(b.Add("olga", account.Owner, nil, "a password of olga"), b.Add("tess", account.Helper, []string{"class-7a"}, "a password of tess")); err != nil {
		t.Fatal(err)
	}
	secret, _, err := b.Offer("olga", "school")
	if err != nil {
		t.Fatal(err)
	}
	codes, err := b.Confirm("olga", oneTime(t, secret))
	if err != nil {
		t.Fatal(err)
	}
	u.recovery = codes[0]
	if _, err := b.Invite("ivan", account.Viewer, nil, "olga"); err != nil {
		t.Fatal(err)
	}
	if u.token, _, err = b.NewToken("olga", "test", []string{"write"}, time.Hour); err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, "the decision is kept", func() bool {
		_, decisions := u.ask("GET", "/rulings", nil)
		return strings.Contains(decisions, "tea.example")
	})
}

// oneTime returns the code of this moment, as an authenticator shows it.
func oneTime(t *testing.T, secret string) string {
	t.Helper()
	key, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(secret)
	if err != nil {
		t.Fatal(err)
	}
	mac := hmac.New(sha1.New, key)
	_ = binary.Write(mac, binary.BigEndian, uint64(time.Now().Unix()/30))
	sum := mac.Sum(nil)
	return fmt.Sprintf("%06d", binary.BigEndian.Uint32(sum[sum[19]&15:])&0x7fffffff%1_000_000)
}

// pages returns what all pages say that are not forgotten, by their paths.
func (u *used) pages() map[string]string {
	t := u.t
	t.Helper()
	_, text := u.ask("GET", "/openapi.json", nil)
	var doc struct{ Paths map[string]map[string]any }
	if err := json.Unmarshal([]byte(text), &doc); err != nil || len(doc.Paths) < 40 {
		t.Fatalf("%d paths, %v", len(doc.Paths), err)
	}
	all := []string{"/zones/lab.example", "/zones/school.example", "/lists/own", "/lists/own?entry=added.example"}
	for path, methods := range doc.Paths {
		if methods["get"] != nil && !strings.Contains(path, "{") && forgotten[path] == "" && !strings.HasPrefix(path, "/debug") {
			all = append(all, path)
		}
	}
	says := map[string]string{}
	for _, path := range all {
		code, text := u.ask("GET", path, nil)
		if code == 200 && !json.Valid([]byte(text)) {
			continue // it is a form
		}
		// What a start makes anew: signatures, the order and size of records in memory, and attempts to send.
		text = regexp.MustCompile(`"(serial|bytes|tries)":\d+|"(resign|due|error)":"[^"]*"|"lines":\[[^\]]*\]|"list":\[[^\]]*\]`).ReplaceAllString(text, "")
		text = regexp.MustCompile(`127\.0\.0\.1:\d+|`+regexp.QuoteMeta(u.dir)).ReplaceAllString(text, "HERE")
		says[path] = fmt.Sprint(code, " ", text)
	}
	return says
}

// answers returns what the gateway answers to a hundred questions.
func (u *used) answers() map[string]string {
	t := u.t
	t.Helper()
	all := map[string]string{}
	for _, from := range []string{"127.0.0.3", "127.0.0.4", "127.0.0.9"} {
		c := u.from(from)
		for _, host := range []string{"bet.example", "added.example", "clean.example", "more.example", "ads.example", "tea.example", "news.example", "www.added.example", "sub.bet.example", "x.tea.example"} {
			for _, path := range []string{"/", "/seen", "/nothing-of-the-kind"} {
				code, _, err := get(c, "http://"+host+path)
				all[from+" "+host+path] = fmt.Sprint(code, err)
			}
		}
	}
	for _, name := range []string{"ns.school.example.", "ns.lab.example.", "no.lab.example.", "tea.example.", "added.example."} {
		all[name] = resolved(t, u.g.DNSAddr(), name)
	}
	return all
}

// certificate returns the root certificate that devices get.
func (u *used) certificate() string {
	u.t.Helper()
	r, err := intercept.ReadRoot(filepath.Join(u.dir, "root.pem"))
	if err != nil {
		u.t.Fatalf("the root with its key: %v", err)
	}
	return string(r.Certificate.Raw)
}
