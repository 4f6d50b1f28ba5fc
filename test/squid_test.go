package test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"shuultuur/event"
	"shuultuur/gateway"
	"shuultuur/lib/wait/waittest"
	"shuultuur/test/peer"
)

const helperSettings = `
listen: {proxy: 127.0.0.1:0, admin: off, squid: squid.sock}
data: data
lists:
  own: {format: domains, path: own.txt, category: gambling}
  ads: {format: domains, path: ads.txt, category: advertising}
checks:
  category: {lists: [own, ads]}
identity:
  basic: {file: users}
  groups: {teachers: [anna]}
policies:
  - name: teachers
    groups: [teachers]
    rules: [{name: elsewhere, action: redirect, host: [old.example], to: "http://new.example/?was={url}"}]
  - name: everyone
    rules:
      - {name: careful, action: warn, host: [forum.example]}
      - {name: betting, action: block, category: [gambling]}
      - {name: ads, action: block, category: [advertising]}
    safesearch: true
events: {sqlite: events.db, every: 100ms}
`

// helperProgram returns the program, and a folder with settings that Squid's
// user may read.
func helperProgram(t *testing.T) (program, dir string) {
	t.Helper()
	dir = t.TempDir()
	for parent := dir; parent != os.TempDir() && len(parent) > len(os.TempDir()); parent = filepath.Dir(parent) {
		if err := os.Chmod(parent, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	hash, err := bcrypt.GenerateFromPassword([]byte("correct horse%"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"own.txt": "bet.example\n", "ads.txt": "ads.example\n", "users": "anna:" + string(hash) + "\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	program = filepath.Join(dir, "shuultuur")
	if err := os.Link(filepath.Join(bin, "shuultuur"), program); err != nil { // Squid runs as a user that may not read bin
		t.Fatal(err)
	}
	return program, dir
}

func helperGateway(t *testing.T, dir string) (g *gateway.Gateway, socket string) {
	t.Helper()
	g = runGateway(t, dir, helperSettings)
	socket = filepath.Join(dir, "squid.sock")
	if err := os.Chmod(socket, 0o666); err != nil { // Squid has its own user
		t.Fatal(err)
	}
	return g, socket
}

// asUser returns a client of a proxy that sends a name and password.
func asUser(addr, name, password string) *http.Client {
	c := through(addr)
	c.Transport.(*http.Transport).Proxy = http.ProxyURL(&url.URL{Scheme: "http", Host: addr, User: url.UserPassword(name, password)})
	return c
}

func TestSquidAsksWhereRequestsGo(t *testing.T) {
	peer.Program(t, "squid")
	program, dir := helperProgram(t)
	g, socket := helperGateway(t, dir)
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "origin says ", r.URL) }))
	defer origin.Close()
	squid, _ := startSquid(t, `
url_rewrite_program `+program+` squid -socket `+socket+` rewrite
url_rewrite_children 2 startup=1 idle=1 concurrency=50
http_access allow all
`)
	c := through(squid)
	look := func(u string, status int, holds string) (string, http.Header) {
		t.Helper()
		q, _ := http.NewRequest("GET", u, nil)
		q.Header.Set("Accept", "text/html")
		res, err := c.Do(q)
		if err != nil {
			t.Fatalf("%s: %v", u, err)
		}
		defer res.Body.Close()
		b, _ := io.ReadAll(res.Body)
		if res.StatusCode != status && (status < 500 || res.StatusCode < 500) || !strings.Contains(string(b), holds) {
			t.Errorf("%s: status %d, %.300q; want %d and %q", u, res.StatusCode, b, status, holds)
		}
		return string(b), res.Header
	}
	look(origin.URL+"/a%20b?q=%41", 200, "origin says /a%20b?q=%41")
	look("http://bet.example/", 403, "gambling")
	page, _ := look("http://forum.example/x?y=1", 403, "shuultuur-accept")
	_, link, _ := strings.Cut(page, `href="http`) // the first is that of the icon
	link, _, _ = strings.Cut(link, `"`)
	link = "http" + strings.ReplaceAll(link, "&amp;", "&")
	if _, h := look(link, 302, ""); h.Get("Location") != "http://forum.example/x?y=1" {
		t.Errorf("a click on the warning at %s leads to %q, want the requested page", link, h.Get("Location"))
	}
	// The host does not exist: Squid reports that, and there is no warning.
	look("http://forum.example/x?y=1", 503, "forum.example")
	if _, err := c.Get("https://bet.example/"); err == nil {
		t.Error("Squid opens a tunnel to a blocked host")
	}
	secure := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "safe") }))
	defer secure.Close()
	port := secure.Listener.Addr().String()
	c.Transport.(*http.Transport).TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
	look("https://"+port+"/", 200, "safe")
	waittest.Until(t, "events of what was refused", func() bool {
		n := 0
		for v, err := range g.Store().Query(t.Context(), event.Filter{}, event.Page{}) {
			if err != nil {
				t.Fatal(err)
			}
			if v.Category == "gambling" {
				n++
			}
		}
		return n == 2
	})
}

func TestSquidAsksForAccessPasswordsAndGroups(t *testing.T) {
	peer.Program(t, "squid")
	program, dir := helperProgram(t)
	_, socket := helperGateway(t, dir)
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "origin") }))
	defer origin.Close()
	run := program + " squid -socket " + socket + " "
	squid, _ := startSquid(t, `
auth_param basic program `+run+`auth
auth_param basic children 2 startup=1 idle=1 concurrency=20
auth_param basic key_extras "%>a"
auth_param basic realm test
external_acl_type shuultuur ttl=0 negative_ttl=0 concurrency=50 children-max=2 %>a %#un %>rm %#URI `+run+`acl
external_acl_type groups ttl=0 negative_ttl=0 concurrency=50 children-max=2 %LOGIN `+run+`group
acl known proxy_auth REQUIRED
acl passes external shuultuur
acl advertising external shuultuur advertising
acl teachers external groups teachers
acl lounge url_regex /lounge
http_access deny !known
http_access deny advertising
http_access deny lounge !teachers
http_access allow passes
http_access deny all
deny_info 302:http://why.example/?%o passes
`)
	anna := asUser(squid, "anna", "correct horse%")
	for _, ask := range []struct {
		c      *http.Client
		url    string
		status int
	}{
		{anna, origin.URL + "/", 200},
		{anna, origin.URL + "/lounge", 200},
		{anna, "http://bet.example/", 503}, // teachers may; the host does not exist
		{anna, "http://ads.example/", 403},
		{asUser(squid, "anna", "wrong"), origin.URL + "/", 407},
		{through(squid), origin.URL + "/", 407},
	} {
		status, body, err := get(ask.c, ask.url)
		if err != nil || status != ask.status && (status < 500 || ask.status < 500) {
			t.Errorf("%s: status %d, %v, %.200q; want %d", ask.url, status, err, body, ask.status)
		}
	}
}

// TestSquidSendsPeopleToSignIn: who has not signed in is sent to the page of the portal, by the rewriter
// and by an acl, and to nothing else; afterwards the request goes on.
func TestSquidSendsPeopleToSignIn(t *testing.T) {
	peer.Program(t, "squid")
	program, dir := helperProgram(t)
	portal := "127.0.0.1:" + peer.Port(t)
	runGateway(t, dir, strings.NewReplacer(
		"squid: squid.sock}", `squid: squid.sock, portal: "`+portal+`"}`,
		"basic: {file: users}", "basic: {file: users, networks: [192.0.2.0/24]}\n  sign-in: {}").Replace(helperSettings))
	socket := filepath.Join(dir, "squid.sock")
	if err := os.Chmod(socket, 0o666); err != nil {
		t.Fatal(err)
	}
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "origin") }))
	defer origin.Close()
	run := program + " squid -socket " + socket + " "
	page := "http://" + portal + "/sign-in"
	rewriting, _ := startSquid(t, "url_rewrite_program "+run+"rewrite\nurl_rewrite_children 2 startup=1 idle=1 concurrency=50\nhttp_access allow all\n")
	asking, _ := startSquid(t, "external_acl_type shuultuur ttl=0 negative_ttl=0 concurrency=50 children-max=2 %>a %#un %>rm %#URI "+run+"acl\nacl passes external shuultuur\nhttp_access deny !passes\nhttp_access allow passes\nhttp_access deny all\ndeny_info 302:"+page+"?to=%u passes\n")
	for name, squid := range map[string]string{"rewrite": rewriting, "acl": asking} {
		c := through(squid)
		c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		wanted := origin.URL + "/a?b=c&d"
		if name == "acl" {
			wanted = origin.URL + "/a?b=c" // Squid 5 writes &amp; for &
		}
		res, err := c.Get(wanted)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		to, err := url.Parse(res.Header.Get("Location"))
		if err != nil || res.StatusCode != 302 || !strings.HasPrefix(to.String(), page+"?") || to.Query().Get("to") != wanted {
			t.Errorf("%s: who has not signed in gets %d to %q, %v; want %s and the way back", name, res.StatusCode, to, err, page)
		}
		if status, text, err := get(c, page); status != 200 || err != nil || !strings.Contains(text, "password") {
			t.Errorf("%s: the page to sign in on: %d, %v, %.200q", name, status, err, text)
		}
		if _, err := c.Get("https://" + strings.TrimPrefix(origin.URL, "http://")); err == nil {
			t.Errorf("%s: a tunnel passes without a sign-in", name)
		}
	}
	if res, err := through(rewriting).PostForm(page, url.Values{"name": {"anna"}, "password": {"correct horse%"}}); err != nil || res.StatusCode >= 400 {
		t.Fatalf("signing in: %v, %v", res, err)
	}
	for name, squid := range map[string]string{"rewrite": rewriting, "acl": asking} {
		if status, text, err := get(through(squid), origin.URL+"/"); status != 200 || text != "origin" || err != nil {
			t.Errorf("%s: after the sign-in: %d, %q, %v", name, status, text, err)
		}
	}
}

// converse exchanges lines with a helper as Squid does, and returns its answers.
func converse(t *testing.T, program string, args []string, lines string) string {
	t.Helper()
	cmd := peer.Command(t, program, args...)
	cmd.Stdin = strings.NewReader(lines)
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return string(out)
}

func TestHelpersWorkFromSettingsAloneAndOutliveTheGateway(t *testing.T) {
	program, dir := helperProgram(t)
	alone := filepath.Join(dir, "alone.yaml")
	if err := os.WriteFile(alone, []byte(strings.Replace(helperSettings, ", squid: squid.sock", "", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	got := converse(t, program, []string{"squid", "-config", alone, "rewrite"}, "http://ok.example/ 10.0.0.1/- - GET\nhttp://old.example/a 10.0.0.1/- anna GET\n")
	if want := "ERR\nOK status=302 url=\"http://new.example/?was=http%3A%2F%2Fold.example%2Fa\"\n"; got != want {
		t.Errorf("the rewriter answers %q, want %q", got, want)
	}
	got = converse(t, program, []string{"squid", "-config", alone, "acl"}, "7 10.0.0.1 - GET http%3A%2F%2Fads.example%2F advertising\n")
	if !strings.HasPrefix(got, `7 OK tag="advertising"`) {
		t.Errorf("the ACL helper answers %q about a category, want OK and its tag", got)
	}

	// No gateway answers: BH after two seconds, or the URL of -down.
	socket := filepath.Join(dir, "away.sock")
	got = converse(t, program, []string{"squid", "-socket", socket, "-down", "http://down.example/", "rewrite"}, "3 http://ok.example/ 10.0.0.1/- - GET\n")
	if got != "3 OK status=302 url=\"http://down.example/\"\n" {
		t.Errorf("without a gateway: the helper answers %q, want the URL of -down", got)
	}

	// A helper gets a question before the gateway is there, and another after it was replaced.
	cmd := peer.Command(t, program, "squid", "-socket", filepath.Join(dir, "squid.sock"), "rewrite")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	answers := make(chan string)
	go func() {
		defer close(answers)
		b := make([]byte, 4096)
		for {
			n, err := out.Read(b)
			if err != nil {
				return
			}
			answers <- string(b[:n])
		}
	}()
	_, _ = io.WriteString(in, "1 http://ok.example/ 10.0.0.1/- - GET\n")
	t.Run("first", func(t *testing.T) {
		helperGateway(t, dir)
		if got := <-answers; got != "1 ERR\n" {
			t.Errorf("a question from before the gateway started: the answer is %q, want 1 ERR", got)
		}
	})
	t.Run("second", func(t *testing.T) {
		_, _ = io.WriteString(in, "2 http://ok.example/ 10.0.0.1/- - GET\n")
		helperGateway(t, dir)
		if got := <-answers; got != "2 ERR\n" {
			t.Errorf("a question while the gateway was replaced: the answer is %q, want 2 ERR", got)
		}
	})
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Errorf("the helper ended with %v, want status 0", err)
	}
}
