package test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"shuultuur/admin/account"
	"shuultuur/event"
	"shuultuur/gateway"
)

// termSeed makes the term the same each time.
const termSeed = 45

const (
	termClients  = 200
	termRequests = 5 // of each
)

const termSettings = `listen: {proxy: 127.0.0.1:0, admin: 127.0.0.1:0}
proxy: {parent: "http://%s"}
lists: {own: {format: domains, path: own.txt}}
checks: {category: {lists: [own]}}
policies:
  - name: everyone
    rules:
      - {name: other protocols, action: block, category: [tunnel/ssh, tunnel/vpn, tunnel/unknown]}
      - {name: own, action: block, category: [own]}
`

// A term is a gateway with its people, clients and attackers.
type term struct {
	t      *testing.T
	g      *gateway.Gateway
	file   string
	tokens map[string]string // by account, and "reader" of the owner for reading alone
}

// clientOf returns the address of a client.
func clientOf(i int) string { return fmt.Sprintf("127.1.%d.%d", i/100, 1+i%100) }

// say says something to an address as a client, and returns what is answered until the end.
func (m *term) say(from, to, text string) string {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: time.Minute}
	c, err := d.DialContext(m.t.Context(), "tcp", to)
	if err != nil {
		return ""
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	_, _ = io.WriteString(c, text)
	b, _ := io.ReadAll(c)
	return string(b)
}

// inTunnel opens a tunnel as a client, says something in it, and returns what comes back.
func (m *term) inTunnel(from, text string) string {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: time.Minute}
	c, err := d.DialContext(m.t.Context(), "tcp", m.g.ProxyAddr())
	if err != nil {
		return ""
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	_, _ = io.WriteString(c, "CONNECT news.example:443 HTTP/1.1\r\nHost: news.example\r\n\r\n")
	r := bufio.NewReader(c)
	res, err := http.ReadResponse(r, &http.Request{Method: http.MethodConnect})
	if err != nil || res.StatusCode != http.StatusOK {
		return ""
	}
	_, _ = io.WriteString(c, text)
	_ = c.(*net.TCPConn).CloseWrite()
	b, _ := io.ReadAll(r)
	return string(b)
}

// from stands for the address that a request comes from, if that is not the usual one: who guesses is
// barred for a while.
const from = "from"

// ask sends a request to the admin address.
func (m *term) ask(who, method, path, body string, fields ...string) (status int, said string) {
	q, err := http.NewRequestWithContext(m.t.Context(), method, "http://"+m.g.AdminAddr()+path, strings.NewReader(body))
	if err != nil {
		m.t.Error(err)
		return 0, ""
	}
	if token := m.tokens[who]; token != "" {
		q.Header.Set("Authorization", "Bearer "+token)
	}
	client := http.DefaultClient
	for i := 0; i < len(fields); i += 2 {
		switch fields[i] {
		case "Host":
			q.Host = fields[i+1]
		case from:
			d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(fields[i+1])}}
			tr := &http.Transport{DialContext: d.DialContext}
			defer tr.CloseIdleConnections()
			client = &http.Client{Transport: tr}
		default:
			q.Header.Set(fields[i], fields[i+1])
		}
	}
	res, err := client.Do(q)
	if err != nil {
		m.t.Error(err)
		return 0, ""
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(b)
}

// counted returns the sum of a metric whose line matches an expression.
func (m *term) counted(line string) (sum float64) {
	_, all := m.ask("olga", "GET", "/metrics", "")
	for _, f := range regexp.MustCompile(`(?m)^`+line+` (\S+)$`).FindAllStringSubmatch(all, -1) {
		n, err := strconv.ParseFloat(f[len(f)-1], 64)
		if err != nil {
			m.t.Error(err)
		}
		sum += n
	}
	return sum
}

// audited returns how many lines of the audit log have a text.
func (m *term) audited(text string) (n float64) {
	_, all := m.ask("olga", "GET", "/audit", "", "Accept", "application/json")
	return float64(strings.Count(all, text))
}

// An attack reports whether it has gained something. Somebody who looks afterwards finds it in a
// metric, or in the audit log.
type attack struct {
	name    string
	try     func(m *term, from string) (gained bool)
	counted string // a metric
	audited string // a text of the audit log
}

// spoken is an attack that says something to the proxy and hopes for an answer of the origin.
func spoken(name, text, metric string) attack {
	return attack{name: name, counted: metric, try: func(m *term, from string) bool {
		return strings.Contains(m.say(from, m.g.ProxyAddr(), strings.ReplaceAll(text, "PROXY-ADDR", m.g.ProxyAddr())), "secret")
	}}
}

// tunnelled is one that says something in a tunnel.
func tunnelled(name, text string) attack {
	return attack{name: name, counted: blockedMetric, try: func(m *term, from string) bool { return m.inTunnel(from, text) != "" }}
}

// atAdmin is one at the admin address, which has to refuse it with a status.
func atAdmin(name, who, method, path, body string, status int, metric, audit string, fields ...string) attack {
	return attack{name: name, counted: metric, audited: audit, try: func(m *term, _ string) bool {
		got, _ := m.ask(who, method, path, body, fields...)
		return got != status
	}}
}

const (
	malformedMetric = `shuultuur_malformed_total`
	blockedMetric   = `shuultuur_transactions_total\{[^}]*action="block"[^}]*\}`
	get200          = "GET http://news.example/ HTTP/1.1\r\nHost: news.example\r\n"
)

func refusedMetric(reason string) string {
	return `shuultuur_admin_refused_total\{reason="` + reason + `"\}`
}

var formField = []string{"Content-Type", "application/x-www-form-urlencoded"}

var attacks = []attack{
	spoken("two lengths", get200+"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", malformedMetric),
	spoken("length and chunks", get200+"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", malformedMetric),
	spoken("lines without CR", "GET http://news.example/ HTTP/1.1\nHost: news.example\n\n", malformedMetric),
	spoken("a blank before the colon", get200+"A : b\r\n\r\n", malformedMetric),
	spoken("a folded field", get200+"A: b\r\n c\r\n\r\n", malformedMetric),
	spoken("a zero byte", get200+"A: b\x00c\r\n\r\n", malformedMetric),
	spoken("a head of 100 KiB", get200+"A: "+strings.Repeat("b", 100<<10)+"\r\n\r\n", malformedMetric),
	spoken("a forged address", "PROXY TCP4 10.0.0.1 127.0.0.1 1 2\r\n"+get200+"\r\n", `shuultuur_(malformed|proxy_protocol_refused)_total`),
	spoken("TLS where there is none", "\x16\x03\x01\x00\x05\x01\x00\x00\x01\x03", `shuultuur_tls_refused_total`),
	spoken("a private address", "GET http://10.0.0.1/ HTTP/1.1\r\nHost: 10.0.0.1\r\nConnection: close\r\n\r\n", blockedMetric),
	spoken("the gateway itself", "GET http://PROXY-ADDR/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", blockedMetric),
	spoken("a port of mail", "CONNECT news.example:25 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", blockedMetric),
	spoken("a listed site", "GET http://bet.example/ HTTP/1.1\r\nHost: bet.example\r\nConnection: close\r\n\r\n", blockedMetric),
	spoken("a listed site in other letters", "GET http://BET.example./ HTTP/1.1\r\nHost: news.example\r\nConnection: close\r\n\r\n", blockedMetric),
	spoken("a tunnel to a listed site", "CONNECT bet.example:443 HTTP/1.1\r\nHost: news.example\r\nConnection: close\r\n\r\n", blockedMetric),
	tunnelled("SSH in a tunnel", "SSH-2.0-OpenSSH_9.6\r\n"),
	tunnelled("OpenVPN in a tunnel", "\x00\x0e\x38"+strings.Repeat("\x01", 13)),
	tunnelled("random bytes in a tunnel", "\xd3\x91\x02\x44\x90\x12\x33"),
	atAdmin("a viewer reads settings", "vera", "GET", "/settings", "", 403, refusedMetric("role"), ""),
	atAdmin("a guessed token", "guess", "GET", "/settings", "", 401, refusedMetric("token"), "", from, "127.9.0.1"),
	atAdmin("a rebound name", "olga", "GET", "/settings", "", 403, refusedMetric("host"), "", "Host", "rebound.example"),
	atAdmin("a page of another site", "olga", "POST", "/lists/own", "add=x.example", 403, refusedMetric("origin"), "", append([]string{"Origin", "https://evil.example"}, formField...)...),
	atAdmin("a viewer changes settings", "vera", "PUT", "/settings", "policies: []\n", 403, refusedMetric("role"), ""),
	atAdmin("a viewer takes a backup", "vera", "GET", "/system/backup", "", 403, refusedMetric("role"), ""),
	atAdmin("an operator takes a backup", "oliver", "GET", "/system/backup", "", 403, refusedMetric("role"), ""),
	atAdmin("an operator restores one", "oliver", "POST", "/system/restore", "x", 403, refusedMetric("role"), "", "Content-Type", "application/gzip"),
	atAdmin("an operator makes an owner", "oliver", "POST", "/accounts", "name=mallory&role=owner&password=long+enough+really", 403, refusedMetric("role"), "", formField...),
	atAdmin("a token for reading writes", "reader", "POST", "/lists/own", "add=x.example", 403, refusedMetric("scope"), "", formField...),
	{name: "an operator makes a provider of owners", audited: "PUT /settings", try: func(m *term, _ string) bool {
		text, err := os.ReadFile(m.file)
		if err != nil {
			m.t.Error(err)
		}
		status, _ := m.ask("oliver", "PUT", "/settings?reason=x", string(text)+"access: {sign-in: {issuer: 'https://evil.example', client-id: x, roles: {owner: [x]}}}\n", "If-Match", `"x"`)
		return status < 400
	}},
	{name: "guessed passwords", counted: refusedMetric("(token|rate)"), try: func(m *term, _ string) (gained bool) {
		var wg sync.WaitGroup
		for i := range 30 {
			wg.Go(func() {
				status, _ := m.ask("", "POST", "/login", fmt.Sprintf("name=olga&password=guess-number-%d", i), append([]string{from, "127.9.0.2"}, formField...)...)
				if status < 400 {
					m.t.Errorf("guess %d: status %d", i, status)
				}
			})
		}
		wg.Wait()
		return false
	}},
}

// TestATermOfClientsAndAttacks: 200 clients fetch pages, people of three roles look after the gateway, and
// 30 attacks come at random moments. No attack gains anything, no client loses anything, and each attack
// is seen afterwards in the metrics or in the audit log.
func TestATermOfClientsAndAttacks(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("other systems have one loopback address")
	}
	t.Parallel()
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, "<p>secret of ", r.URL)
	}))
	defer origin.Close()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "own.txt"), []byte("bet.example\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	settings := fmt.Sprintf(termSettings, origin.Listener.Addr())
	m := &term{t: t, g: runGateway(t, dir, settings), file: filepath.Join(dir, "shuultuur.yaml"), tokens: map[string]string{"guess": "shuultuur-guess-0123456789abcdef"}}
	book, err := account.Open(account.Folder(filepath.Join(dir, "data")), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range []struct {
		name string
		role account.Role
	}{{"olga", account.Owner}, {"oliver", account.Operator}, {"vera", account.Viewer}} {
		if err := book.Add(a.name, a.role, nil, "a password of "+a.name); err != nil {
			t.Fatal(err)
		}
		if m.tokens[a.name], _, err = book.NewToken(a.name, "term", []string{"write"}, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	if m.tokens["reader"], _, err = book.NewToken("olga", "reading", []string{"read"}, time.Hour); err != nil {
		t.Fatal(err)
	}

	// What happens, in a random order: requests by all clients, and the attacks between them.
	random := rand.New(rand.NewPCG(termSeed, termSeed))
	order := make([]int, 0, termClients*termRequests)
	for i := range termClients * termRequests {
		order = append(order, i%termClients)
	}
	random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	at := random.Perm(len(order))[:len(attacks)]
	var wg sync.WaitGroup
	places := make(chan struct{}, 8)
	attacking := make(chan attackAt, len(attacks))
	wg.Go(func() { // one after the other, so that each is told from the others
		for a := range attacking {
			m.endure(a)
		}
	})
	for i, client := range order {
		if n := slices.Index(at, i); n >= 0 {
			attacking <- attackAt{attacks[n], clientOf(random.IntN(termClients))}
		}
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			if err := m.fetch(clientOf(client), fmt.Sprintf("http://news.example/%d", i)); err != nil {
				t.Errorf("request %d of %s: %v", i, clientOf(client), err)
			}
		})
	}
	close(attacking)
	wg.Wait()

	if now, err := os.ReadFile(m.file); err != nil || string(now) != settings {
		t.Errorf("afterwards the settings are\n%s%v", now, err)
	}
	if list, err := os.ReadFile(filepath.Join(dir, "own.txt")); err != nil || string(list) != "bet.example\n" {
		t.Errorf("afterwards the list is %q, %v", list, err)
	}
	people, err := book.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range people {
		if want := map[string]account.Role{"olga": account.Owner, "oliver": account.Operator, "vera": account.Viewer}[a.Name]; a.Role != want {
			t.Errorf("afterwards %s is %v", a.Name, a.Role)
		}
	}
	m.allRecorded()
}

// An attackAt is an attack by a client.
type attackAt struct {
	attack
	from string
}

// endure tries an attack, and looks for it afterwards.
func (m *term) endure(a attackAt) {
	look := func() float64 {
		if a.audited != "" {
			return m.audited(a.audited)
		}
		return m.counted(a.counted)
	}
	before := look()
	if a.try(m, a.from) {
		m.t.Errorf("%s by %s has gained something", a.name, a.from)
	}
	for end := time.Now().Add(time.Minute); look() <= before; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			m.t.Errorf("%s by %s is seen nowhere: %s%s stays %v", a.name, a.from, a.counted, a.audited, before)
			return
		}
	}
}

// fetch fetches a page as a client.
func (m *term) fetch(from, page string) error {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	tr := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: m.g.ProxyAddr()}), DialContext: d.DialContext}
	defer tr.CloseIdleConnections()
	status, body, err := get(&http.Client{Transport: tr, Timeout: time.Minute}, page)
	if err == nil && (status != http.StatusOK || !strings.Contains(body, "secret of "+page)) {
		err = errors.New("status " + strconv.Itoa(status) + ": " + body)
	}
	return err
}

// allRecorded waits until each page is in the record once.
func (m *term) allRecorded() {
	f, err := event.ParseFilter("host:news.example status:200", time.Now())
	if err != nil {
		m.t.Fatal(err)
	}
	const want = termClients * termRequests
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		seen := map[string]bool{}
		for row, err := range m.g.Store().Query(context.Background(), f, event.Page{}) {
			if err != nil {
				m.t.Fatal(err)
			}
			if strings.HasPrefix(row.URL, "http://news.example/") {
				seen[row.URL] = true
			}
		}
		if len(seen) == want {
			return
		}
		if time.Now().After(end) {
			m.t.Errorf("%d of %d pages are in the record", len(seen), want)
			return
		}
	}
}
