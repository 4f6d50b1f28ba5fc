//go:build !small

package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	reasons "shuultuur/admin/why"
	"shuultuur/engine"
	"shuultuur/engine/configuration"
	"shuultuur/test/peer"
	"shuultuur/test/race"
)

// squidHosts are the hosts that requests below name, and where they lead.
var squidHosts = map[string]string{
	"ads.example": "198.51.100.1", "www.ads.example": "198.51.100.7", "games.example": "203.0.113.1", "a.games.example": "203.0.113.2", "other.example": "203.0.113.9",
	"www.other.example": "198.51.100.9", "198.51.100.20": "198.51.100.20", "192.0.2.77": "192.0.2.77",
}

// squidACL returns the lines of an acl, which may name those before it.
func squidACL(r *rand.Rand, name, dir string, before []string) string {
	some := func(all ...string) (values []string) {
		for range 1 + r.IntN(2) {
			values = append(values, pick(r, all...))
		}
		return slices.Compact(values)
	}
	flag := pick(r, "", "", "-i ", "+i ")
	var kind string
	var values []string
	switch n := r.IntN(15); n {
	case 0, 1:
		kind, flag, values = "src", "", some("10.2.0.5", "192.0.2.9/32")
		if n := pick(r, "10.1.0.0/16", "10.0.0.0/255.0.0.0", "10.1.0.1-10.1.0.9", "10.1.0.5/16"); n != "10.0.0.0/255.0.0.0" || len(values) == 1 && values[0] != "10.2.0.5" {
			values = append(values, n) // Squid ignores the wider of two networks
		}
		values = slices.Compact(slices.Sorted(slices.Values(values)))
	case 2, 3:
		kind, flag, values = "dst", "", []string{pick(r, "198.51.100.0/24", "198.51.100.7", "203.0.113.0/255.255.255.0", "198.51.100.5-198.51.100.8", "all")}
	case 4, 5:
		kind, flag, values = "dstdomain", pick(r, "", "-n "), []string{pick(r, ".ads.example", "ads.example", "WWW.ADS.example")}
		if values = append(values, pick(r, ".games.example", "other.example", "198.51.100.20")); r.IntN(6) == 0 {
			values = []string{".example"} // Squid does not start with a domain and one below it
		}
	case 6:
		kind, flag, values = "dstdom_regex", "-n "+pick(r, "", "-i "), some(`^www\.`, "Ads", "games", `\.example$`, `^[0-9.]+$`, "A", "ads|games")
	case 7, 8:
		kind, values = "url_regex", some(`^http://www`, "ADS", "/play", "Play", `\.gif$`, `:8080/`, `[[:digit:]]\.gif`, `^http://[^/]*/$`, "^HTTP://")
	case 9:
		kind, values = "urlpath_regex", some("^/play", `\.GIF$`, "x=1", "^/$", "/P")
	case 10:
		kind, flag, values = "port", "", some("80", "8080", "1-1024", "443")
	case 11:
		kind, flag, values = "method", "", some("GET", "POST", "PUT", "HEAD", "PATCH")
	case 12:
		kind, values = pick(r, "browser", "referer_regex"), some("Mozilla", "CURL", "^curl", "ads")
	case 13:
		kind, flag, values = pick(r, "proto", "time"), "", nil
		if values = some("HTTP", "FTP", "HTTPS"); kind == "time" {
			values = some("SMTWHFA", "MTWHFAS 00:00-23:59", "D 00:00-24:00", "00:00-00:00")
		}
	default:
		if len(before) == 0 {
			return "acl " + name + " src all\n"
		}
		kind, flag, values = pick(r, "any-of", "all-of"), "", nil
		for range 1 + r.IntN(2) {
			values = append(values, pick(r, "", "", "!")+pick(r, before...))
		}
	}
	if strings.HasSuffix(kind, "_regex") || kind == "dstdomain" || kind == "dst" {
		if r.IntN(4) == 0 {
			file := filepath.Join(dir, name+".list")
			if err := os.WriteFile(file, []byte("# a list\n"+strings.Join(values, "\n")+"\n"), 0o644); err == nil {
				return fmt.Sprintf("acl %s %s %s\"%s\"\n", name, kind, flag, file)
			}
		}
		if r.IntN(3) == 0 && len(values) > 1 { // a flag concerns what is behind it
			return fmt.Sprintf("acl %s %s %s \\\n\t%s%s\n", name, kind, values[0], flag, strings.Join(values[1:], " "))
		}
	}
	if r.IntN(3) == 0 && len(values) > 1 && kind != "time" {
		return fmt.Sprintf("acl %s %s %s%s\nacl %s %s %s\n", name, kind, flag, values[0], strings.ToUpper(name), kind, strings.Join(values[1:], " "))
	}
	return fmt.Sprintf("acl %s %s %s%s\n", name, kind, flag, strings.Join(values, " "))
}

// squidRules returns acls, and lines of http_access that name them.
func squidRules(r *rand.Rand, prefix, dir string) (acls string, lines []string) {
	var names []string
	if r.IntN(3) == 0 {
		acls = fmt.Sprintf("acl %[1]sin proxy_auth %[2]s\n", prefix, pick(r, "REQUIRED", "REQUIRED", "anna", "-i ANNA", "ben anna"))
		names = append(names, prefix+"in", prefix+"in")
	}
	for i := range 2 + r.IntN(5) {
		name := fmt.Sprintf("%sx%d", prefix, i)
		acls += squidACL(r, name, dir, names)
		names = append(names, name)
	}
	for range 1 + r.IntN(6) {
		line := pick(r, "allow", "deny")
		for range 1 + r.IntN(3) {
			name := pick(r, names...)
			line += " " + pick(r, "", "", "!") + pick(r, name, name, strings.ToUpper(name))
		}
		lines = append(lines, line)
	}
	if r.IntN(2) == 0 {
		lines = append(lines, pick(r, "allow", "deny")+" all")
	}
	return acls, lines
}

// squidAsk is a request of a client.
type squidAsk struct{ host, port, path, method, client, user, agent, referer string }

func (a squidAsk) url() string { return "http://" + a.host + ":" + a.port + a.path }

func someSquidAsk(r *rand.Rand) squidAsk {
	return squidAsk{
		host: pick(r, "ads.example", "www.ads.example", "games.example", "a.games.example", "other.example", "www.other.example", "198.51.100.20", "192.0.2.77"), port: pick(r, "80", "80", "8080"),
		path: pick(r, "/", "/", "/play/a", "/Play", "/1.gif", "/a.GIF?x=1"), method: pick(r, "GET", "GET", "HEAD", "POST", "PATCH", "BREW"),
		client: pick(r, "10.1.0.5", "10.1.9.9", "10.2.0.5", "192.0.2.9"), user: pick(r, "", "anna", "ben"), agent: pick(r, "Mozilla/5.0", "mozilla", "curl/8"), referer: pick(r, "", "http://ads.example/"),
	}
}

// realSquid starts a Squid with the rules of several configurations, and returns its address. A request
// has the number of a configuration in its head, and the client's address in X-Forwarded-For.
func realSquid(t *testing.T, dir string, acls []string, lines [][]string) (addr string) {
	t.Helper()
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Origin-Answers", "yes") }))
	t.Cleanup(origin.Close)
	_, behind, err := net.SplitHostPort(origin.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	hosts := "127.0.0.1 localhost\n"
	for host, addr := range squidHosts {
		if host == addr {
			host = "unnamed.invalid" // nobody is asked for its name
		}
		hosts += addr + " " + host + "\n"
	}
	var b strings.Builder
	addr = "127.0.0.1:" + peer.Port(t)
	fmt.Fprintf(&b, "auth_param basic program %s\nhttp_port %s\ncache_peer 127.0.0.1 parent %s 0 no-query default\nnever_direct allow all\nhosts_file %[4]s/hosts\npid_filename none\naccess_log none\ncache_log %[4]s/cache.log\ncoredump_dir %[4]s\nnetdb_filename none\n"+
		"follow_x_forwarded_for allow all\nacl_uses_indirect_client on\ncache deny all\npinger_enable off\nshutdown_lifetime 0 seconds\ndns_timeout 1 second\n", fakeSignIn, addr, behind, dir)
	for i := range acls {
		fmt.Fprintf(&b, "acl p%d req_header Configuration ^%[1]d$\n%s", i, acls[i])
		for _, line := range lines[i] {
			action, names, _ := strings.Cut(line, " ")
			fmt.Fprintf(&b, "http_access %s p%d %s\n", action, i, names)
		}
		opposite := "allow"
		if strings.HasPrefix(lines[i][len(lines[i])-1], "allow") {
			opposite = "deny"
		}
		fmt.Fprintf(&b, "http_access %s p%d\n", opposite, i)
	}
	for name, text := range map[string]string{"passwd": "anna:$apr1$abcdefgh$0123456789012345678901\nben:$apr1$abcdefgh$0123456789012345678901\n", "hosts": hosts, "squid.conf": b.String(), "cache.log": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(dir, "cache.log"), 0o666); err != nil {
		t.Fatal(err)
	}
	openFolder(t, dir)
	peer.Start(t, "squid", "-N", "-f", filepath.Join(dir, "squid.conf"))
	if !listensWithin(addr, time.Minute) {
		log, _ := os.ReadFile(filepath.Join(dir, "cache.log"))
		t.Fatalf("Squid does not start: %s", log)
	}
	return addr
}

// askSquid reports whether Squid lets a request through.
func askSquid(t *testing.T, client *http.Client, configuration int, a squidAsk) bool {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), a.method, a.url(), nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Configuration", strconv.Itoa(configuration))
	req.Header.Set("X-Forwarded-For", a.client)
	req.Header.Set("User-Agent", a.agent)
	if a.user != "" {
		req.Header.Set("Proxy-Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(a.user+":secret")))
	}
	if a.referer != "" {
		req.Header.Set("Referer", a.referer)
	}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, res.Body)
	res.Body.Close()
	return res.Header.Get("Origin-Answers") == "yes"
}

// fakeSignIn is Squid's helper that accepts every name and password.
const fakeSignIn = "/usr/lib/squid/basic_fake_auth"

// passes reports whether an engine lets a request through, and leads to where the host leads. by names
// the rule.
func passes(ctx context.Context, e *engine.Engine, s *configuration.Settings, a squidAsk) (ok bool, by string, err error) {
	q := reasons.Question{URL: a.url(), Client: netip.MustParseAddr(a.client), Method: a.method, Agent: a.agent, Referer: a.referer}
	_, asked := e.Identify(ctx, q.Client)
	open := slices.ContainsFunc(s.Identity.Open, func(d string) bool { return d == "="+a.host || below(a.host, d) })
	if asked != nil && a.user == "" && !open {
		return false, "the sign-in", nil
	}
	if asked != nil {
		q.User = a.user
	}
	x, err := e.Why(ctx, q)
	if err != nil {
		return false, "", err
	}
	leads := slices.ContainsFunc(s.Proxy.Upstream.Private, func(p netip.Prefix) bool { return p.Contains(netip.MustParseAddr(squidHosts[a.host])) })
	return (x.Action == "pass" || x.Action == "allow") && x.Refused == "" && leads, fmt.Sprintf("rule %q of %q", x.Rule, x.Policy), nil
}

// TestImportOfSquidOpensNothingThatSquidRefuses imports generated configurations and asks a real Squid
// and the result the same. What the result allows, Squid allows; what Squid allows, the result refuses
// only if the report says that something closes.
//
// CONFIGURATIONS in the environment is their number.
func TestImportOfSquidOpensNothingThatSquidRefuses(t *testing.T) {
	race.Without(t)
	peer.Program(t, "squid")
	if _, err := os.Stat(fakeSignIn); err != nil {
		t.Skipf("this Squid has no helper that accepts everybody: %v", err)
	}
	count, seed := generated(15)
	dir := t.TempDir()
	var acls []string
	var lines [][]string
	for i := range count {
		a, l := squidRules(rand.New(rand.NewPCG(51, uint64(seed+i))), fmt.Sprintf("c%d", i), dir)
		acls, lines = append(acls, a), append(lines, l)
	}
	client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: realSquid(t, dir, acls, lines)})}, Timeout: time.Minute}
	defer client.CloseIdleConnections()
	allowed, refused, closed, named := 0, 0, 0, 0
	for i := range count {
		text := "http_port 3128\nauth_param basic program /usr/lib/squid/basic_ncsa_auth " + filepath.Join(dir, "passwd") + "\n" + acls[i]
		for _, line := range lines[i] {
			text += "http_access " + line + "\n"
		}
		conf := filepath.Join(dir, fmt.Sprintf("squid%d.conf", i))
		if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		result := importResultOf(t, "squid", conf, fmt.Sprintf("configuration %d", seed+i), text)
		if result == nil {
			continue
		}
		r := rand.New(rand.NewPCG(52, uint64(seed+i)))
		bad := false
		for range 40 {
			if bad {
				break
			}
			a := someSquidAsk(r)
			ok, by, err := passes(t.Context(), result.engine, result.settings, a)
			if err != nil {
				t.Fatal(err)
			}
			switch theirs := askSquid(t, client, i, a); {
			case ok && !theirs:
				bad = true
				t.Errorf("configuration %d: %+v passes by %s, and Squid refuses it\n%s", seed+i, a, by, text)
			case !ok && theirs && !result.closes:
				bad = true
				t.Errorf("configuration %d: %+v is refused by %s, Squid allows it, and the report does not say so\n%s", seed+i, a, by, text)
			case !ok && theirs:
				closed++
			case ok:
				allowed++
			default:
				refused++
			}
		}
		if result.closes {
			named++
		}
		result.done()
	}
	t.Logf("%d configurations: %d requests allowed, %d refused by both; the import refuses %d more, and %d reports say so", count, allowed, refused, closed, named)
	if count > 10 && (allowed == 0 || refused == 0) {
		t.Errorf("%d requests are allowed, %d refused: the configurations try nothing", allowed, refused)
	}
}
