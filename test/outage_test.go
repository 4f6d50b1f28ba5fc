package test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"shuultuur/lib/wait/waittest"
	"shuultuur/test/peer"
)

// repeat has some people do the same again and again until end is called. Then end returns the
// number of failures.
func repeat(t *testing.T, people int, do func() error) (done *atomic.Int64, end func() (wrong int64)) {
	var mu sync.Mutex
	var wrong int64
	var stop atomic.Bool
	var work sync.WaitGroup
	done = new(atomic.Int64)
	for range people {
		work.Go(func() {
			for !stop.Load() {
				err := do()
				mu.Lock()
				if err != nil {
					if wrong++; wrong == 1 {
						t.Logf("the first failure: %v", err)
					}
				}
				mu.Unlock()
				done.Add(1)
			}
		})
	}
	end = sync.OnceValue(func() int64 {
		stop.Store(true)
		work.Wait()
		return wrong
	})
	t.Cleanup(func() { end() })
	return done, end
}

// more waits until n has grown by ten.
func more(t *testing.T, what string, n *atomic.Int64) {
	t.Helper()
	was := n.Load()
	waittest.Until(t, what, func() bool { return n.Load() >= was+10 })
}

// TestTheKDCIsKilledUnderLoad: clients with tickets do not notice. Others get an error,
// and are admitted as soon as the KDC issues tickets again.
func TestTheKDCIsKilledUnderLoad(t *testing.T) {
	k := newKDC(t)
	o := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "page") }))
	defer o.Close()
	g := runGateway(t, t.TempDir(), strings.ReplaceAll(kerberosSettings, "KEYTAB", k.dir+"/keytab"))
	_, port, _ := strings.Cut(g.ProxyAddr(), ":")
	env := slices.Clone(k.env)
	curl := func(tickets string) string {
		cmd := peer.Command(t, "curl", "-s", "-m", "60", "--noproxy", "", "-x", "http://localhost:"+port, "--proxy-negotiate", "-U", ":", "-w", " %{http_code}", o.URL)
		cmd.Env = append(slices.Clone(env), "KRB5CCNAME=FILE:"+k.dir+"/"+tickets)
		out, _ := cmd.CombinedOutput()
		return string(out)
	}
	if got := curl("ccache"); got != "page 200" {
		t.Fatalf("with a ticket: curl got %q, want the page and 200", got)
	}
	done, end := repeat(t, 2, func() error {
		if got := curl("ccache"); got != "page 200" {
			return fmt.Errorf("with a ticket: %q", got)
		}
		return nil
	})
	more(t, "requests before the KDC is killed", done)
	_ = k.server.Process.Kill()
	_ = k.server.Wait()
	more(t, "requests while the KDC is away", done)
	if got := curl("none"); !strings.HasSuffix(got, " 407") {
		t.Errorf("without a ticket, while the KDC is away: curl got %q, want 407", got)
	}
	k.start(t)
	back := time.Now()
	k.env = append(k.env, "KRB5CCNAME=FILE:"+k.dir+"/fresh")
	k.run(t, "secret\n", "kinit", "anna")
	if got := curl("fresh"); got != "page 200" {
		t.Errorf("with a new ticket: curl got %q", got)
	}
	t.Logf("the proxy accepted a new ticket %v after the KDC returned", time.Since(back))
	more(t, "requests after the return", done)
	if wrong := end(); wrong > 0 {
		t.Errorf("%d requests with a ticket failed", wrong)
	}
}

// TestTheOpenIDProviderIsKilledUnderLoad: people who have signed in do not notice. Others are
// told what is unavailable, and can sign in as soon as it is back.
func TestTheOpenIDProviderIsKilledUnderLoad(t *testing.T) {
	port, idp := peer.Port(t), peer.Port(t)
	callback := "http://127.0.0.1:" + port + "/sign-in/callback"
	stop := provider(t, idp, "one", callback)
	g, portal := portalGateway(t, t.TempDir(), port, "http://127.0.0.1:"+idp)
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "page") }))
	defer origin.Close()
	at := strings.Replace(origin.URL, "127.0.0.1", "localhost", 1)
	signIn := func(name string) {
		t.Helper()
		p := newPerson(t)
		page, res := p.get(portal + "/sign-in?to=" + url.QueryEscape(at))
		page, res = p.submit(page, res, "/provider")
		if page, res = p.throughProvider(page, res, name); page != "page" {
			t.Fatalf("signing in at the provider led to %s: status %d, %s", res.Request.URL, res.StatusCode, page)
		}
	}
	signIn("anna")
	c := through(g.ProxyAddr())
	done, end := repeat(t, 4, func() error {
		if status, page, err := get(c, at); status != 200 || page != "page" {
			return fmt.Errorf("%d %q %v", status, page, err)
		}
		return nil
	})
	more(t, "requests before the provider is killed", done)
	stop()
	tried, endTries := repeat(t, 2, func() error { // sign-ins that had begun
		jar, _ := cookiejar.New(nil)
		browser := &http.Client{Jar: jar, Timeout: time.Minute, CheckRedirect: c.CheckRedirect}
		res, err := browser.PostForm(portal+"/sign-in/provider", nil)
		if err != nil {
			return err
		}
		res.Body.Close()
		to, err := res.Location()
		if err != nil {
			return err
		}
		status, page, err := get(browser, callback+"?code=x&state="+to.Query().Get("state"))
		if err != nil || status != 502 || !strings.Contains(page, "exchange the code") || !strings.Contains(page, "127.0.0.1:"+idp) {
			return fmt.Errorf("a sign-in while the provider is away: %d %.2000s, %v", status, page, err)
		}
		return nil
	})
	more(t, "requests while the provider is away", done)
	more(t, "sign-ins while the provider is away", tried)
	if wrong := endTries(); wrong > 0 {
		t.Errorf("%d pages about failed sign-ins did not name the provider", wrong)
	}
	provider(t, idp, "two", callback) // with another key
	back := time.Now()
	signIn("bold")
	t.Logf("a sign-in succeeded %v after the provider returned", time.Since(back))
	more(t, "requests after the return", done)
	if wrong := end(); wrong > 0 {
		t.Errorf("%d requests of people who had signed in failed", wrong)
	}
}
