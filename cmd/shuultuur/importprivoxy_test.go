//go:build !small

package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shuultuur/test/peer"
	"shuultuur/test/race"
)

// privoxyRules returns a file of actions.
func privoxyRules(r *rand.Rand) string {
	var b strings.Builder
	b.WriteString("{{alias}}\n+shut = +block{by alias}\nopen = -block\nwith-image = +block{x} +handle-as-image\n+turned = +redirect{http://127.0.0.1/turned}\n")
	for range 1 + r.IntN(6) {
		switch n := r.IntN(8); n {
		case 0:
			b.WriteString("{ +block{two lines} \\\n  +handle-as-image }\n")
		case 1:
			b.WriteString("{-block}\n")
		default:
			b.WriteString(pick(r, "{ +block{ads} }", "{+block}", "{ -block }", "{ open }", "{+shut}", "{ with-image }", "{ +turned }", "{ -redirect }", "{ +handle-as-image }", "{+redirect{http://127.0.0.1/x}}") + "\n")
		}
		for range 1 + r.IntN(3) {
			b.WriteString(pick(r, ".ads.example", "ads.example", "www.", ".games.", "games.example/", "/", "/play", "/.*\\.gif$", ".example/(.*/)?play", ":8080/", ".games.example:80/", "ad[a-z]*.", "*.games.example", "a?s.example",
				"*ames.example", "other.example/Play", "other.example./1", "192.0.2.77", "www.*.example", ".other.example/(?-i:Play)", "ads.", ".ads.example:8080/play", "PCRE-HOST-PATTERN:^ads|games\\.example$", "TAG:^nothing$", "192.0.2.0/24", "ADS.example", "/1\\.gif # not a comment") + "\n")
		}
	}
	return b.String()
}

// TestImportOfPrivoxyOpensNothingThatPrivoxyRefuses imports generated files of actions and asks a real
// Privoxy and the result the same.
//
// CONFIGURATIONS in the environment is their number.
func TestImportOfPrivoxyOpensNothingThatPrivoxyRefuses(t *testing.T) {
	race.Without(t)
	peer.Program(t, "privoxy")
	count, seed := generated(6)
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Origin-Answers", "yes") }))
	defer origin.Close()
	allowed, refused := 0, 0
	for i := range count {
		text := privoxyRules(rand.New(rand.NewPCG(53, uint64(seed+i))))
		dir, addr := t.TempDir(), "127.0.0.1:"+peer.Port(t)
		openFolder(t, dir)
		config := "confdir " + dir + "\nlogdir " + dir + "\ntempldir /etc/privoxy/templates\nactionsfile user.action\nlisten-address " + addr + "\ntoggle 1\nforward / " + origin.Listener.Addr().String() + "\n"
		for name, text := range map[string]string{"config": config, "user.action": text} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		program := peer.Start(t, "privoxy", "--no-daemon", filepath.Join(dir, "config"))
		if !listensWithin(addr, 20*time.Second) {
			t.Fatalf("Privoxy does not start with\n%s", text)
		}
		x := importResultOf(t, "privoxy", filepath.Join(dir, "config"), fmt.Sprintf("configuration %d", seed+i), text)
		if x == nil {
			continue
		}
		client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: addr})}, Timeout: time.Minute,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		x.settings.Proxy.Upstream.Private = append(x.settings.Proxy.Upstream.Private, netip.MustParsePrefix("0.0.0.0/0"))
		r := rand.New(rand.NewPCG(54, uint64(seed+i)))
		for range 60 {
			a := someSquidAsk(r)
			a.client, a.user, a.method = "127.0.0.1", "", "GET"
			ok, by, err := passes(t.Context(), x.engine, x.settings, a)
			if err != nil {
				t.Fatal(err)
			}
			theirs := askSquid(t, client, 0, a)
			if ok {
				allowed++
			} else {
				refused++
			}
			if ok && !theirs || !ok && theirs && !x.closes {
				t.Errorf("configuration %d: %s passes by %s: %v; by Privoxy: %v\n%s\n%s", seed+i, a.url(), by, ok, theirs, text, x.report)
				break
			}
		}
		client.CloseIdleConnections()
		x.done()
		_ = program.Process.Kill()
	}
	t.Logf("%d configurations: %d requests allowed, %d refused", count, allowed, refused)
	if count > 5 && (allowed == 0 || refused == 0) {
		t.Errorf("%d requests are allowed, %d refused: the configurations try nothing", allowed, refused)
	}
}
