package test

import (
	"crypto/tls"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"shuultuur/admin/account"
	"shuultuur/gateway"
	"shuultuur/lib/wait/waittest"
	"shuultuur/test/cert"
	"shuultuur/test/peer"
)

// provider starts an OpenID provider (npm oidc-provider) and returns the function
// that ends it.
func provider(t *testing.T, port, kid, callback string) (stop func()) {
	t.Helper()
	peer.NotQuick(t, "an OpenID provider")
	cache, err := os.UserCacheDir()
	library := filepath.Join(cache, "shuultuur-test", "node_modules", "oidc-provider", "lib", "index.js")
	if _, missing := os.Stat(library); err != nil || missing != nil {
		t.Skip(`the npm package oidc-provider is not installed; "make test" installs it where npm is`)
	}
	cmd := peer.Command(t, "node", "testdata/oidc.mjs", library, port, kid, callback)
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	stop = func() {
		if !ended {
			ended = true
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // it was killed
		}
	}
	t.Cleanup(stop)
	waittest.Until(t, "the provider", func() bool {
		c, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return stop
}

var (
	formText  = regexp.MustCompile(`(?s)<form[^>]*>.*?</form>`)
	action    = regexp.MustCompile(`action="([^"]*)"`)
	inputText = regexp.MustCompile(`<(?:input|button)[^>]*name="([^"]*)"[^>]*>`)
	valueText = regexp.MustCompile(`value="([^"]*)"`)
)

// A person has a browser.
type person struct {
	t *testing.T
	c *http.Client
}

func newPerson(t *testing.T) *person {
	jar, _ := cookiejar.New(nil)
	return &person{t, &http.Client{Jar: jar, Timeout: time.Minute, Transport: &http.Transport{}}}
}

func (p *person) read(res *http.Response, err error) (string, *http.Response) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(b), res
}

func (p *person) get(at string) (string, *http.Response) {
	p.t.Helper()
	return p.read(p.c.Get(at))
}

// submit fills in the form of a page whose action contains a part of an address, and sends it.
func (p *person) submit(page string, res *http.Response, part string, fields ...string) (string, *http.Response) {
	p.t.Helper()
	for _, f := range formText.FindAllString(page, -1) {
		to := ""
		if m := action.FindStringSubmatch(f); m != nil {
			to = html.UnescapeString(m[1])
		}
		if !strings.Contains(to, part) {
			continue
		}
		values := url.Values{}
		for _, in := range inputText.FindAllStringSubmatch(f, -1) {
			if v := valueText.FindStringSubmatch(in[0]); v != nil {
				values.Set(in[1], html.UnescapeString(v[1]))
			}
		}
		for i := 0; i < len(fields); i += 2 {
			values.Set(fields[i], fields[i+1])
		}
		at, err := res.Request.URL.Parse(to)
		if err != nil {
			p.t.Fatal(err)
		}
		return p.read(p.c.PostForm(at.String(), values))
	}
	p.t.Fatalf("no form with an action that contains %q on %s: %.600s", part, res.Request.URL, page)
	return "", nil
}

// throughProvider signs in on the provider's pages.
func (p *person) throughProvider(page string, res *http.Response, name string) (string, *http.Response) {
	p.t.Helper()
	if strings.Contains(page, `name="login"`) {
		page, res = p.submit(page, res, "/interaction/", "login", name, "password", "any")
	}
	for strings.Contains(page, `value="consent"`) {
		page, res = p.submit(page, res, "/interaction/")
	}
	return page, res
}

// portalGateway starts a gateway whose clients sign in, and returns the URL of
// its portal.
func portalGateway(t *testing.T, dir, port, issuer string) (*gateway.Gateway, string) {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte("the password"), bcrypt.MinCost)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "users"), []byte("local:"+string(hash)+"\n"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	g := runGateway(t, dir, fmt.Sprintf(`
listen: {proxy: 127.0.0.1:0, admin: off, portal: "127.0.0.1:%s"}
data: data
proxy: {private: [127.0.0.0/8]}
identity:
  basic: {file: users, networks: [192.0.2.1]}
  groups: {staff: [local]}
  sign-in: {oidc: {issuer: "%s", client-id: gate, secret: a secret of the test}, open: [open.example]}
policies:
  - {name: teachers, groups: [teachers], rules: []}
  - {name: staff, groups: [staff], rules: []}
  - {name: everyone, rules: [{name: nothing, action: block}]}
`, port, issuer))
	return g, "http://127.0.0.1:" + port
}

func TestPeopleSignInOnThePortal(t *testing.T) {
	t.Parallel()
	port, idp := peer.Port(t), peer.Port(t)
	stop := provider(t, idp, "one", "http://127.0.0.1:"+port+"/sign-in/callback")
	g, portal := portalGateway(t, t.TempDir(), port, "http://127.0.0.1:"+idp)
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "origin ", r.URL) }))
	defer origin.Close()
	// Every client may reach the provider's address, so the origin needs another name.
	origin.URL = strings.Replace(origin.URL, "127.0.0.1", "localhost", 1)
	client := through(g.ProxyAddr())
	ask := func() *http.Response {
		q, _ := http.NewRequest("GET", origin.URL+"/a?b=c", nil)
		q.Header.Set("Accept", "text/html")
		res, err := client.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res
	}
	signInAt := portal + "/sign-in?to=" + url.QueryEscape(origin.URL+"/a?b=c")
	if res := ask(); res.StatusCode != 302 || res.Header.Get("Location") != signInAt {
		t.Fatalf("a browser that has not signed in: status %d, Location %q, want %q", res.StatusCode, res.Header.Get("Location"), signInAt)
	}
	if res, err := client.Post(origin.URL, "text/plain", strings.NewReader("x")); err != nil || res.StatusCode != 511 {
		t.Errorf("a program that has not signed in: %v %v, want status 511", res, err)
	}
	// A local account, with a wrong password and the right one.
	p := newPerson(t)
	page, res := p.get(signInAt)
	if page, res = p.submit(page, res, "/sign-in", "name", "local", "password", "wrong"); false || res.StatusCode != 502 && res.StatusCode != 401 {
		t.Logf("%d %s", res.StatusCode, page)
	}
	p = newPerson(t)
	res, err := p.c.PostForm(portal+"/sign-in", url.Values{"name": {"local"}, "password": {"wrong"}})
	if page, _ = p.read(res, err); res.StatusCode != 401 || !strings.Contains(page, "Wrong name or password") {
		t.Errorf("signing in with a wrong password: status %d, want 401: %s", res.StatusCode, page)
	}
	res, err = p.c.PostForm(portal+"/sign-in", url.Values{"name": {"local"}, "password": {"the password"}, "to": {origin.URL + "/a?b=c"}})
	if page, _ = p.read(res, err); page != "origin /a?b=c" {
		t.Errorf("signing in with the right password: status %d, want the origin's page: %s", res.StatusCode, page)
	}
	if res := ask(); res.StatusCode != 200 {
		t.Errorf("after signing in: status %d, want 200", res.StatusCode)
	}
	if page, _ = p.get(portal + "/"); !strings.Contains(page, "local") || !strings.Contains(page, "staff") {
		t.Errorf("the page does not say who is signed in: %s", page)
	}
	// Sign out, then sign in by the provider in a browser without the cookie.
	res, err = p.c.PostForm(portal+"/sign-out", nil)
	p.read(res, err)
	if res := ask(); res.StatusCode != 302 {
		t.Errorf("after signing out: status %d, want 302", res.StatusCode)
	}
	signIn := func(kid string) {
		t.Helper()
		p := newPerson(t)
		page, res := p.get(signInAt)
		page, res = p.submit(page, res, "/provider")
		if page, res = p.throughProvider(page, res, "anna-"+kid); page != "origin /a?b=c" {
			t.Fatalf("signing in at the provider led to %s: status %d, %s", res.Request.URL, res.StatusCode, page)
		}
		if page, _ := p.get(portal + "/"); !strings.Contains(page, "anna-"+kid) || !strings.Contains(page, "oidc") || !strings.Contains(page, "teachers") {
			t.Errorf("the page does not say who is signed in: %s", page)
		}
		// A sign-out ends the sign-in everywhere: its cookie begins no session.
		keep := *p.c
		keep.Jar = nil
		res, err := keep.PostForm(portal+"/sign-out", nil)
		p.read(res, err)
		if page, _ := p.get(signInAt); strings.HasPrefix(page, "origin ") || !strings.Contains(page, "/provider") {
			t.Errorf("with the cookie of a sign-in that has ended, want the sign-in page: %s", page)
		}
		res, err = p.c.PostForm(portal+"/sign-out", nil)
		p.read(res, err)
	}
	signIn("one")
	stop()
	provider(t, idp, "two", portal+"/sign-in/callback") // with another key
	signIn("two")
	badReturns(t, portal)
	device(t, portal)
}

// badReturns sends callbacks from the provider that have something wrong.
func badReturns(t *testing.T, portal string) {
	t.Helper()
	p := newPerson(t)
	if page, res := p.get(portal + "/sign-in/callback?code=x&state=y"); res.StatusCode != 502 || !strings.Contains(page, "no cookie") {
		t.Errorf("callback without a cookie: status %d, want 502: %s", res.StatusCode, page)
	}
	start := func() {
		p.c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		res, err := p.c.PostForm(portal+"/sign-in/provider", nil)
		p.read(res, err)
		to, _ := res.Location()
		if q := to.Query(); q.Get("code_challenge_method") != "S256" || q.Get("nonce") == "" || q.Get("state") == "" {
			t.Errorf("the request to the provider lacks the challenge, nonce or state: %s", to)
		}
	}
	// Each tab has a cookie of its own, by its state: without the right one there is none.
	for query, want := range map[string]string{
		"code=x&state=y": "no cookie", "code=x": "no cookie",
	} {
		start()
		if page, res := p.get(portal + "/sign-in/callback?" + query); res.StatusCode != 502 || !strings.Contains(page, want) {
			t.Errorf("callback with %s: status %d, want 502 and %q in %s", query, res.StatusCode, want, page)
		}
	}
	p.c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	res, err := p.c.PostForm(portal+"/sign-in/provider", nil)
	p.read(res, err)
	to, _ := res.Location()
	state := to.Query().Get("state")
	if page, res := p.get(portal + "/sign-in/callback?code=wrong&state=" + state); res.StatusCode != 502 || !strings.Contains(page, "exchange the code") || !strings.Contains(page, "invalid_grant") {
		t.Errorf("callback with a wrong code: status %d, want 502: %s", res.StatusCode, page)
	}
	// The cookie is valid once.
	if page, _ := p.get(portal + "/sign-in/callback?code=wrong&state=" + state); !strings.Contains(page, "no cookie") {
		t.Errorf("the same callback again, want the error about the cookie: %s", page)
	}
}

// device signs in a television.
func device(t *testing.T, portal string) {
	t.Helper()
	tv := newPerson(t)
	page, res := tv.get(portal + "/sign-in")
	page, _ = tv.submit(page, res, "/device")
	m := regexp.MustCompile(`class="code">([^<]+)<`).FindStringSubmatch(page)
	at := regexp.MustCompile(`href="(http[^"]+)"`).FindStringSubmatch(page)
	if m == nil || at == nil {
		t.Fatalf("the page shows no device code: %s", page)
	}
	phone := newPerson(t)
	page, res = phone.get(html.UnescapeString(at[1]))
	for range 6 { // the code, a confirmation, the sign-in, the consent
		switch {
		case strings.Contains(page, `name="login"`), strings.Contains(page, `value="consent"`):
			page, res = phone.throughProvider(page, res, "anna")
		case strings.Contains(page, "<form"):
			page, res = phone.submit(page, res, "/device", "user_code", m[1])
		}
	}
	waittest.Until(t, "the television", func() bool {
		page, _ := tv.get(portal + "/sign-in/device")
		return strings.Contains(page, "anna") && strings.Contains(page, "oidc")
	})
}

func TestDevicesFindTheirSettings(t *testing.T) {
	dir := t.TempDir()
	if out, err := exec.Command(filepath.Join(bin, "shuultuur"), "ca", "init", "-file", filepath.Join(dir, "root.pem")).CombinedOutput(); err != nil {
		t.Fatalf("shuultuur ca init: %v %s", err, out)
	}
	port := peer.Port(t)
	g := runGateway(t, dir, `
listen: {proxy: "0.0.0.0:0", admin: off, portal: "127.0.0.1:`+port+`"}
data: data
intercept: {root: root.pem}
portal:
  name: gate.example
  pac:
    - {policies: [machine], proxies: ["gate.example:3128"], direct: [intranet.example]}
    - {networks: [10.0.0.0/8], proxies: ["https://gate.example:8443"]}
policies:
  - {name: machine, networks: [127.0.0.0/8], decrypt: true, rules: []}
  - {name: everyone, rules: []}
`)
	p, portal := newPerson(t), "http://"+g.PortalAddr()
	for _, path := range []string{"/proxy.pac", "/wpad.dat", "/wpad.da"} {
		page, res := p.get(portal + path)
		if res.Header.Get("Content-Type") != "application/x-ns-proxy-autoconfig" || !strings.Contains(page, `"PROXY gate.example:3128"`) || !strings.Contains(page, "intranet.example") {
			t.Errorf("%s: Content-Type %s, or not the script: %s", path, res.Header.Get("Content-Type"), page)
		}
	}
	apple, res := p.get(portal + "/profile/shuultuur.mobileconfig?ssid=A%26B&supervised=1")
	if res.Header.Get("Content-Type") != "application/x-apple-aspen-config" || !strings.Contains(apple, "A&amp;B") || strings.Count(apple, "/proxy.pac") != 2 || !strings.Contains(apple, "com.apple.security.root") {
		t.Errorf("the profile for Apple devices lacks something: %s", apple)
	}
	d := xml.NewDecoder(strings.NewReader(apple))
	for {
		if _, err := d.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("the profile is not valid XML: %v", err)
		}
	}
	android, _ := p.get(portal + "/profile/shuultuur.json?ssid=school")
	var policy struct {
		RecommendedGlobalProxy   struct{ PacUri string }
		OpenNetworkConfiguration struct{ Certificates []struct{ X509 string } }
	}
	if err := json.Unmarshal([]byte(android), &policy); err != nil || policy.RecommendedGlobalProxy.PacUri == "" || len(policy.OpenNetworkConfiguration.Certificates) != 1 {
		t.Errorf("the policy for Android: %v %s", err, android)
	}
	windows, _ := p.get(portal + "/profile/shuultuur.ps1")
	if !strings.Contains(windows, "AutoConfigURL -Value 'http://gate.example:"+port+"/proxy.pac'") || !strings.Contains(windows, "X509Store 'Root', 'LocalMachine'") ||
		!strings.Contains(windows, `HKLM:\Software\Policies\Microsoft\Windows\CurrentVersion\Internet Settings`) || !strings.Contains(windows, "ProxySettingsPerUser -Type DWord -Value 0") {
		t.Errorf("the script for Windows lacks something: %s", windows)
	}
	if page, res := p.get(portal + "/"); res.StatusCode != 200 || !strings.Contains(page, "machine") {
		t.Errorf("the first page of the portal: status %d, want 200 and the policy: %s", res.StatusCode, page)
	}
}

const providedAdmin = `
listen: {proxy: 127.0.0.1:0, admin: "127.0.0.1:%s"}
data: data
access: {sign-in: {issuer: "http://127.0.0.1:%s", client-id: gate, secret: a secret of the test, roles: {owner: [network-admins], helper: [%s]}}}
policies: [{name: everyone, rules: []}]
`

// TestAdministratorsSignInAtAProvider: groups of the provider give roles; users
// without an account are refused, and no one gets another person's account.
func TestAdministratorsSignInAtAProvider(t *testing.T) {
	port, idp := peer.Port(t), peer.Port(t)
	provider(t, idp, "one", "http://127.0.0.1:"+port+"/login/callback")
	dir := t.TempDir()
	runGateway(t, dir, fmt.Sprintf(providedAdmin, port, idp, "teachers"))
	at := "http://127.0.0.1:" + port
	sign := func(name, want string, status int) *person {
		t.Helper()
		p := newPerson(t)
		page, res := p.get(at + "/login/provider?to=/account")
		page, res = p.throughProvider(page, res, name)
		if res.StatusCode != status || !strings.Contains(page, want) {
			t.Errorf("signing in as %s: status %d, %s", name, res.StatusCode, page)
		}
		return p
	}
	sign("thea", "the first account is an owner", 503)
	root := sign("root", "/account", 200)
	if page, res := root.get(at + "/account"); res.StatusCode != 200 || !strings.Contains(page, "root") {
		t.Errorf("the account page of root: status %d, %.400s", res.StatusCode, page)
	}
	thea := sign("thea", "/account", 200)
	for path, status := range map[string]int{"/account": 200, "/accounts": 403} {
		if _, res := thea.get(at + path); res.StatusCode != status {
			t.Errorf("thea at %s: status %d, want %d", path, res.StatusCode, status)
		}
	}
	book, err := account.Open(account.Folder(filepath.Join(dir, "data")), nil)
	if err == nil {
		err = book.Add("local", account.Viewer, nil, "")
	}
	if err != nil {
		t.Fatal(err)
	}
	sign("local", "not of the provider", 403)
	stranger := newPerson(t) // an address that was made for another browser
	if page, res := stranger.get(at + "/login/callback?code=x&state=y"); res.StatusCode != 502 || !strings.Contains(page, "no cookie") {
		t.Errorf("callback without a cookie: status %d, want 502: %.300s", res.StatusCode, page)
	}
}

// TestAClientWithAProxySetByHandSignsIn: it reaches the portal by the proxy alone, with and
// without TLS, also behind a trusted proxy; the session is the client's, and hosts that need no
// sign-in are reached before.
func TestAClientWithAProxySetByHandSignsIn(t *testing.T) {
	t.Parallel()
	hash, err := bcrypt.GenerateFromPassword([]byte("the password"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "origin") }))
	defer origin.Close()
	site := strings.Replace(origin.URL, "127.0.0.1", "localhost", 1)
	for _, secure := range []bool{false, true} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "users"), []byte("local:"+string(hash)+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		certFile, keyFile := cert.Files(t, dir, "gate.example")
		port, door, portal := peer.Port(t), "portal", "http://gate.example:"
		if secure {
			door, portal = "portal-tls", "https://gate.example:"
		}
		portal += port
		g := runGateway(t, dir, fmt.Sprintf(`
listen: {proxy: 127.0.0.1:0, admin: off, %s: "127.0.0.1:%s", tls: {cert: %q, key: %q}}
data: data
proxy: {private: [127.0.0.0/8], trusted: [127.0.0.0/8]}
portal: {name: gate.example}
identity:
  basic: {file: users, networks: [192.0.2.1]}
  open: [127.0.0.1]
  sign-in: {}
policies:
  - {name: everyone, rules: []}
`, door, port, certFile, keyFile))
		ask := func(client, url string) string {
			q, _ := http.NewRequest("GET", url, nil)
			q.Header.Set("Accept", "text/html")
			q.Header.Set("X-Forwarded-For", client)
			res, err := through(g.ProxyAddr()).Do(q)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			return fmt.Sprint(res.StatusCode, " ", res.Header.Get("Location"))
		}
		signInAt := portal + "/sign-in?to=" + url.QueryEscape(site+"/")
		for _, client := range []string{"192.0.2.7", "192.0.2.8"} {
			if got, want := ask(client, site+"/"), "302 "+signInAt; got != want {
				t.Errorf("before signing in, %s gets %s, want %s", client, got, want)
			}
			if got := ask(client, origin.URL); got != "200 " {
				t.Errorf("before signing in, %s gets %s at a host that is open, want 200", client, got)
			}
		}
		p := newPerson(t)
		p.c.Transport = &http.Transport{
			Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: g.ProxyAddr()}), TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
			ProxyConnectHeader: http.Header{"X-Forwarded-For": {"192.0.2.7"}},
		}
		named := func(method string, body io.Reader) (string, *http.Response) {
			q, _ := http.NewRequest(method, signInAt, body)
			q.Header.Set("X-Forwarded-For", "192.0.2.7")
			if body != nil {
				q.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				q.Header.Set("Origin", portal)
			}
			return p.read(p.c.Do(q))
		}
		if page, res := named("GET", nil); res.StatusCode != 200 || !strings.Contains(page, `name="password"`) {
			t.Fatalf("the page of %s by the proxy: %d %.300s", portal, res.StatusCode, page)
		}
		p.c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		if page, res := named("POST", strings.NewReader("name=local&password=wrong")); res.StatusCode != 401 {
			t.Errorf("a wrong password at %s: %d %.300s", portal, res.StatusCode, page)
		}
		form := url.Values{"name": {"local"}, "password": {"the password"}, "to": {site + "/"}}
		page, res := named("POST", strings.NewReader(form.Encode()))
		if res.StatusCode != 303 || res.Header.Get("Location") != site+"/" || len(res.Cookies()) != 1 || res.Cookies()[0].Secure != secure {
			t.Fatalf("signing in at %s: %d %v %.300s", portal, res.StatusCode, res.Header, page)
		}
		for client, want := range map[string]string{"192.0.2.7": "200 ", "192.0.2.8": "302 " + signInAt} {
			if got := ask(client, site+"/"); got != want {
				t.Errorf("after 192.0.2.7 has signed in at %s, %s gets %s, want %s", portal, client, got, want)
			}
		}
	}
}
