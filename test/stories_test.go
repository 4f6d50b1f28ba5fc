package test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"shuultuur/content"
	"shuultuur/lib/wait/waittest"
	"shuultuur/test/peer"
)

const classSettings = `
listen: {proxy: 127.0.0.1:0, admin: 127.0.0.1:0}
data: data
lists:
  own: {format: domains, path: own.txt, category: gambling}
checks:
  category: {lists: [own]}
identity:
  addresses: {anna: [127.0.0.2], ben: [127.0.0.3]}
  groups: {class-7a: [anna], class-8b: [ben]}
policies:
  - name: pupils
    groups: [class-7a, class-8b]
    rules:
      - {name: betting, action: block, category: [gambling]}
events: {sqlite: events.db, every: 100ms}
proxy: {parent: "http://%s"}
`

// classHouse returns a house with two classes: the pupil at 127.0.0.2 is in
// one, the pupil at 127.0.0.3 in the other.
func classHouse(t *testing.T) *house {
	t.Helper()
	h := newHouse(t, map[string]string{"bet.example/": "<p>Bets.</p>"})
	h.write("shuultuur.yaml", fmt.Sprintf(classSettings, h.origin.Listener.Addr()))
	h.restart()
	return h
}

// statusFor returns the status of the answer for a client at an address of this
// machine.
func (h *house) statusFor(addr, address string) int {
	h.t.Helper()
	c := through(h.g.ProxyAddr())
	d := net.Dialer{Timeout: time.Minute, LocalAddr: &net.TCPAddr{IP: net.ParseIP(addr)}}
	c.Transport.(*http.Transport).DialContext = d.DialContext
	defer c.CloseIdleConnections()
	code, _, err := get(c, address)
	if err != nil {
		h.t.Fatal(err)
	}
	return code
}

// accounts makes accounts. The first is an owner, who makes the others.
func (h *house) accounts(all ...url.Values) {
	h.t.Helper()
	at := "http://" + h.g.AdminAddr()
	for i, form := range all {
		r, err := http.NewRequestWithContext(h.t.Context(), "POST", at+"/accounts", strings.NewReader(form.Encode()))
		if err != nil {
			h.t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if i > 0 {
			r.Header.Set("Cookie", h.signIn(all[0]))
		}
		res, err := http.DefaultClient.Do(r)
		if err != nil || res.StatusCode != 200 {
			h.t.Fatalf("making the account %q: %v, %v, want status 200", form.Get("name"), res, err)
		}
		res.Body.Close()
	}
}

// signIn returns the cookie of a new session.
func (h *house) signIn(of url.Values) string {
	h.t.Helper()
	c := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := c.PostForm("http://"+h.g.AdminAddr()+"/login", url.Values{"name": of["name"], "password": of["password"]})
	if err != nil {
		h.t.Fatal(err)
	}
	defer res.Body.Close()
	for _, k := range res.Cookies() {
		return k.Name + "=" + k.Value
	}
	h.t.Fatalf("%s cannot sign in: %s", of.Get("name"), res.Status)
	return ""
}

// pages returns the address of the pages with a host name, because passkeys require one.
func (h *house) pages() string {
	h.t.Helper()
	_, port, err := net.SplitHostPort(h.g.AdminAddr())
	if err != nil {
		h.t.Fatal(err)
	}
	return "http://localhost:" + port
}

// adminBrowser connects directly to the admin address, and through the proxy to other hosts.
func (h *house) adminBrowser() *browser {
	h.t.Helper()
	return newBrowser(h.t, h.g.ProxyAddr(), "--proxy-bypass-list=<-loopback>;127.0.0.1;localhost")
}

// fill writes into a field.
func (b *browser) fill(selector, text string) {
	b.t.Helper()
	b.script(fmt.Sprintf("document.querySelector(%q).value = %q", selector, text))
}

// signIn fills in the sign-in page.
func (b *browser) signIn(at, name, password string) {
	b.t.Helper()
	b.open(at + "/login")
	b.fill("#login [name=name]", name)
	b.fill("#login [name=password]", password)
	b.click("#login > button")
}

const password = "correct horse battery"

func ownerAnd(more ...url.Values) []url.Values {
	return append([]url.Values{{"name": {"olga"}, "role": {"owner"}, "password": {password}}}, more...)
}

// TestATeacherPausesTheirOwnClass and no other, on a phone.
func TestATeacherPausesTheirOwnClass(t *testing.T) {
	t.Parallel()
	onEachScreen(t, aTeacherPausesTheirOwnClass)
}

func aTeacherPausesTheirOwnClass(t *testing.T, width int) {
	h := classHouse(t)
	h.accounts(ownerAnd(url.Values{"name": {"tess"}, "role": {"helper"}, "groups": {"class-7a"}, "password": {password}})...)
	b := h.adminBrowser()
	b.look(width, "light")
	b.signIn(h.pages(), "tess", password)
	b.shows("Needs you")
	both := func(when string, anna, ben int) {
		t.Helper()
		if a, c := h.statusFor("127.0.0.2", "http://bet.example/"), h.statusFor("127.0.0.3", "http://bet.example/"); a != anna || c != ben {
			t.Errorf("%s: anna gets status %d, ben %d; want %d and %d", when, a, c, anna, ben)
		}
	}
	both("before", 403, 403)
	b.open(h.pages() + "/pause")
	b.fill("[name=who]", "class-7a")
	b.change("button[value='5m']")
	b.shows("class-7a")
	b.shows("Resume")
	b.picture("story-teacher-pauses")
	both("in the pause of 7a", 200, 403)
	for _, who := range []string{"class-8b", ""} {
		b.open(h.pages() + "/pause")
		b.fill("[name=who]", who)
		b.change("button[value='5m']")
		b.shows("is for others to pause")
		both(fmt.Sprintf("after a pause of %q was tried", who), 200, 403)
	}
	b.open(h.pages() + "/settings")
	b.shows("has the role helper")
	b.open(h.pages() + "/pause")
	b.change("button[value='0s']")
	b.shows("Filtering is on for everybody")
	both("afterwards", 403, 403)
}

// TestSigningInWithAPasskey: one is made on the account page and opens the start
// page, without a password.
func TestSigningInWithAPasskey(t *testing.T) {
	t.Parallel()
	onEachScreen(t, signingInWithAPasskey)
}

func signingInWithAPasskey(t *testing.T, width int) {
	checker := axe(t)
	h := classHouse(t)
	h.accounts(ownerAnd()...)
	b := h.adminBrowser()
	b.look(width, "light")
	b.cdp("WebAuthn.enable", map[string]any{})
	b.cdp("WebAuthn.addVirtualAuthenticator", map[string]any{"options": map[string]any{
		"protocol": "ctap2", "transport": "internal", "hasResidentKey": true, "hasUserVerification": true,
		"isUserVerified": true, "automaticPresenceSimulation": true}})
	b.open(h.pages() + "/login")
	examine(b, checker, "/login", width, 200)
	b.picture("page-login-accounts")
	b.signIn(h.pages(), "olga", password)
	b.shows("Needs you")
	b.open(h.pages() + "/account")
	b.fill("#passkey-name", "olga's key")
	b.click("#passkey-add")
	b.shows("olga's key")
	examine(b, checker, "/account", width, 200)
	b.picture("page-account-signed-in")
	b.click("form[action='/logout'] button")
	b.shows("Sign in")
	b.open(h.pages() + "/settings")
	b.shows("Sign in with a passkey")
	b.click("#passkey")
	b.shows("Settings")
	if at := b.script("return location.pathname"); at != "/settings" {
		t.Errorf("signing in with the passkey leads to %s, want /settings", at)
	}
	if seen := b.script("return document.cookie"); seen != "" {
		t.Errorf("scripts of the page see the session: %s", seen)
	}
	b.open(h.pages() + "/account")
	b.shows("olga, owner")
	b.click("form[action='/account/passkeys/end'] button")
	b.shows("None yet")
	b.click("form[action='/logout'] button")
	b.shows("Sign in")
	b.open(h.pages() + "/login")
	b.click("#passkey")
	b.shows("passkey")
	if at := b.script("return location.pathname"); at != "/login" {
		t.Errorf("signing in with a removed passkey leads to %s, want /login", at)
	}
}

// TestAPageRedirectsWhenItsSessionEnds: an open page stops showing people's data after its
// session was ended from elsewhere.
func TestAPageRedirectsWhenItsSessionEnds(t *testing.T) {
	t.Parallel()
	h := classHouse(t)
	owner := ownerAnd()
	h.accounts(owner...)
	b := h.adminBrowser()
	admin := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: h.g.AdminAddr()})
	admin.FlushInterval = -1
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/hx-sse.min.js") { // arrives after everything else
			time.Sleep(500 * time.Millisecond)
		}
		admin.ServeHTTP(w, r)
	}))
	t.Cleanup(slow.Close)
	at := slow.URL
	for _, page := range []string{"/events", "/"} { // one page is live by server-sent events, one fetches itself again
		b.signIn(at, "olga", password)
		b.shows("Needs you")
		b.open(at + page)
		cookie := h.signIn(owner[0])
		for _, id := range h.sessionsBut(cookie) {
			r, err := http.NewRequestWithContext(t.Context(), "POST", at+"/account/sessions/end", strings.NewReader(url.Values{"id": {id}}.Encode()))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.Header.Set("Cookie", cookie)
			res, err := http.DefaultClient.Do(r)
			if err != nil || res.StatusCode != 200 {
				t.Fatalf("ending a session: %v, %v, want status 200", res, err)
			}
			res.Body.Close()
		}
		b.shows("Sign in with a passkey")
		if got := b.script("return location.pathname"); got != "/login" {
			t.Errorf("%s gives way to %s, want /login", page, got)
		}
	}
}

// sessionsBut returns the sessions of an account without the one of the cookie, which is the newest.
func (h *house) sessionsBut(cookie string) (ids []string) {
	h.t.Helper()
	r, err := http.NewRequestWithContext(h.t.Context(), "GET", "http://"+h.g.AdminAddr()+"/account", nil)
	if err != nil {
		h.t.Fatal(err)
	}
	r.Header.Set("Cookie", cookie)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		h.t.Fatal(err)
	}
	defer res.Body.Close()
	var d struct{ Sessions []struct{ ID string } }
	if err := json.NewDecoder(res.Body).Decode(&d); err != nil || len(d.Sessions) < 2 {
		h.t.Fatalf("listing sessions: got %+v, %v, want at least two", d, err)
	}
	for _, s := range d.Sessions[1:] {
		ids = append(ids, s.ID)
	}
	return ids
}

// TestARequestToOpenASiteLeadsToItsRelease: a pupil asks on the block page, the responsible
// person opens the site on the page of requests, and the pupil sees it.
func TestARequestToOpenASiteLeadsToItsRelease(t *testing.T) {
	t.Parallel()
	onEachScreen(t, aRequestToOpenASiteLeadsToItsRelease)
}

func aRequestToOpenASiteLeadsToItsRelease(t *testing.T, width int) {
	g, _ := votesGatewayIn(t, "", "events: {sqlite: events.db, every: 100ms}\n")
	pupil := newBrowser(t, g.ProxyAddr())
	pupil.look(width, "light")
	pupil.open("http://ads.example/page")
	pupil.shows("ads.example")
	pupil.picture("story-request-blocked")
	pupil.click("button[name=vote]")
	pupil.picture("story-request-asked")

	boss := newBrowser(t, g.ProxyAddr(), "--proxy-bypass-list=<-loopback>;127.0.0.1")
	boss.look(width, "dark")
	boss.openUntil("http://"+g.AdminAddr()+"/votes", "asks to open ads.example") // votes are counted a moment later
	boss.picture("story-request-waits")
	boss.change("article button[value=open]")
	boss.shows("No requests are waiting")

	pupil.open("http://ads.example/page")
	pupil.shows("A page at")
	boss.change("form[action='/votes/withdraw'] button")
	boss.shows("taken back")
	pupil.open("http://ads.example/page")
	pupil.shows("is closed")
}

// TestFromThePackageToTheFirstFilteredQuery: the settings are those that a package has. A person follows
// the link that the service prints, sets up the network and sees the first request of a device, by at most
// 15 clicks and without a terminal.
func TestFromThePackageToTheFirstFilteredQuery(t *testing.T) {
	t.Parallel()
	onEachScreen(t, fromThePackageToTheFirstFilteredQuery)
}

func fromThePackageToTheFirstFilteredQuery(t *testing.T, width int) {
	n := newNetwork(t)
	program := filepath.Join(bin, "shuultuur")
	if out, err := exec.Command(program, "init", "-data", filepath.Join(n.dir, "data"), filepath.Join(n.dir, "etc")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cmd := peer.Command(t, "ip", "netns", "exec", n.gate, program, "run", "-config", filepath.Join(n.dir, "etc", "shuultuur.yaml"))
	cmd.Dir = n.dir
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Signal(syscall.SIGTERM); _ = cmd.Wait() }()
	link, words := "", bufio.NewScanner(out)
	for link == "" && words.Scan() {
		if s, ok := strings.CutPrefix(words.Text(), "Set it up: "); ok {
			link = s
		}
	}
	if link == "" {
		t.Fatal("\"shuultuur run\" prints no link to the first steps")
	}
	go func() { _, _ = io.Copy(io.Discard, out) }() // ends with the program

	b := newBrowserBy(t, []string{"ip", "netns", "exec", n.gate}, func(ctx context.Context, network, addr string) (net.Conn, error) {
		return within(n.gate, func() (net.Conn, error) { return new(net.Dialer).DialContext(ctx, network, addr) })
	}, "--proxy-server=http://127.0.0.1:8080", "--proxy-bypass-list=10.*")
	checker := axe(t)
	clicks := 0
	click := func(selector string) { b.t.Helper(); clicks++; b.click(selector) }
	b.look(width, "light")
	b.open(link)
	b.shows("Who are you?")
	examine(b, checker, "/setup", width, 200)
	b.picture("story-first-you")
	b.fill("[name=name]", "Oyuna")
	b.fill("[name=password]", "a steppe of felt")
	click("[name=go][value=next]")
	b.shows("Who is the network for?")
	examine(b, checker, "/setup", width, 200)
	click("[name=who][value=school]")
	b.fill("[name=contact]", "the librarian, desk 3")
	click("[name=go][value=next]")
	b.shows("What is to be filtered?")
	examine(b, checker, "/setup", width, 200)
	click("[name=topic][value=words]")
	click("[name=go][value=next]")
	b.shows("Port 53")
	examine(b, checker, "/setup", width, 200)
	b.picture("story-first-network")
	click("[name=way][value=proxy]")
	click("[name=go][value=next]")
	b.shows("Connect the first device")
	b.shows("Waiting for the next device")
	examine(b, checker, "/setup/connect", width, 200)
	b.picture("story-first-waiting")
	connect := b.script(`return location.href`)
	b.open("http://www.bet365.com/")
	b.shows("the librarian, desk 3")
	b.open(connect)
	b.shows("It works:")
	b.picture("story-first-works")
	if clicks > 15 {
		t.Errorf("setting up a network took %d clicks, want at most 15", clicks)
	}
	b.open(link)
	b.shows("Connect the first device") // the link is used, and the person is signed in
}

// TestAReportIsReadOnAPhoneAndKeptAsPDF: a teacher opens today's report and saves it as a file
// that other programs can read.
func TestAReportIsReadOnAPhoneAndKeptAsPDF(t *testing.T) {
	t.Parallel()
	onEachScreen(t, aReportIsReadOnAPhoneAndKeptAsPDF)
}

func aReportIsReadOnAPhoneAndKeptAsPDF(t *testing.T, width int) {
	checker := axe(t)
	h := classHouse(t)
	h.accounts(ownerAnd(url.Values{"name": {"tess"}, "role": {"helper"}, "groups": {"class-7a"}, "password": {password}})...)
	for _, pupil := range []string{"127.0.0.2", "127.0.0.3"} {
		h.statusFor(pupil, "http://bet.example/")
	}
	h.recorded("user:ben")
	h.recorded("user:anna")
	b := h.adminBrowser()
	b.look(width, "dark")
	b.signIn(h.pages(), "tess", password)
	b.shows("Needs you")
	b.open(h.pages() + "/reports")
	b.script(`document.querySelector("[name=span]").value = "today"`)
	b.click("main form button.main")
	b.shows("anna")
	if strings.Contains(b.text(), "ben") {
		t.Error("the report shows a helper people of other groups")
	}
	examine(b, checker, "/reports", width, 200)
	b.picture("story-report")
	dir := t.TempDir()
	b.cdp("Browser.setDownloadBehavior", map[string]any{"behavior": "allow", "downloadPath": dir})
	b.click("a[href*='format=pdf']")
	var file []byte
	waittest.Until(t, "the file is there", func() bool {
		names, _ := filepath.Glob(filepath.Join(dir, "report-*.pdf"))
		if len(names) == 1 {
			file, _ = os.ReadFile(names[0])
		}
		return bytes.HasSuffix(bytes.TrimSpace(file), []byte("%%EOF"))
	})
	var doc content.Body
	doc.Reset(content.Describe("application/pdf", ""), content.Limits{})
	doc.Append(file)
	doc.Finish()
	words, err := doc.Text()
	if err != nil {
		t.Fatal(err)
	}
	for word, want := range map[string]bool{"anna": true, "bet example": true, "ben": false} {
		if regexp.MustCompile(`\b`+regexp.QuoteMeta(word)+`\b`).Match(words) != want {
			t.Errorf("%q in the PDF: want %v in\n%s", word, want, words)
		}
	}
}

// TestARecordIsAddedAndUndone: a person adds a record to a zone in the form of its type, sees a
// mistake at its field, sees the effect before saving, and undoes the change.
func TestARecordIsAddedAndUndone(t *testing.T) {
	t.Parallel()
	onEachScreen(t, aRecordIsAddedAndUndone)
}

func aRecordIsAddedAndUndone(t *testing.T, width int) {
	checker := axe(t)
	h := newHouse(t, nil)
	const zone = "$TTL 1h\n@ SOA ns hostmaster 1 1h 10m 1w 5m ; first\n@ NS ns\nns A 192.0.2.1\n"
	h.write("zones/example.com.zone", zone)
	h.write("shuultuur.yaml", `
listen: {proxy: 127.0.0.1:0, admin: 127.0.0.1:0}
data: data
dns: {listen: 127.0.0.1:0, forward: {upstreams: [192.0.2.53]}, zones: {reread: 50ms, files: [{path: zones}]}}
policies: [{name: everyone}]
events: {sqlite: events.db}
`)
	h.restart()
	file := func() string {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(filepath.Dir(h.file), "zones/example.com.zone"))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	b := h.adminBrowser()
	b.look(width, "dark")
	b.open(h.pages() + "/zones")
	b.click("td a")
	b.shows("New record")
	b.script(`document.querySelector("nav a[href*='type=MX']").click()`)
	b.shows("Preference")
	b.fill("#record [name=name]", "@")
	b.fill("#record [name=preference]", "70000")
	b.fill("#record [name=target]", "mail.example.com")
	b.click("#record button.main")
	b.shows("is not a number from 0 to 65535")
	if on := b.script("return document.activeElement.name"); on != "preference" {
		t.Errorf("the mistake is in the field preference, but the cursor is in %q", on)
	}
	examine(b, checker, "/zones/example.com./record", width, 422)
	b.picture(fmt.Sprintf("story-record-mistake-%d", width))
	b.fill("#record [name=preference]", "10")
	b.click("#record button.main")
	b.shows("Save and use")
	b.shows("points at mail.example.com., which has no address")
	if now := file(); now != zone {
		t.Errorf("the zone was saved before the effect was shown: %s", now)
	}
	examine(b, checker, "/zones/example.com./record", width, 200)
	b.picture(fmt.Sprintf("story-record-effect-%d", width))
	b.click("#effect button.main")
	b.shows("Saved and served")
	if want := strings.Replace(strings.Replace(zone, " 1 1h", " 2 1h", 1), "@ NS ns\n", "@ NS ns\n@ MX 10 mail.example.com.\n", 1); file() != want {
		t.Errorf("the zone file is\n%s, want\n%s", file(), want)
	}
	b.picture(fmt.Sprintf("story-record-saved-%d", width))
	b.change("#undo")
	waittest.Until(t, "it is undone", func() bool { return file() == strings.Replace(zone, " 1 1h", " 3 1h", 1) })
}
