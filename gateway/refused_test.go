package gateway

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"shuultuur/test/reading"
)

// requestRules are rules that may refuse a request by what is sent, and responseRules those that
// only a response could decide, or that let requests through. No response matches one of these.
var (
	requestRules = []string{
		"action: block, pattern: [card]",
		"action: warn, words: [secret plan]",
		"action: block, larger: 2MiB",
		`action: redirect, to: "http://intra.example/", file: ["*.exe"]`,
		"action: block, upload: [application/zip]",
		"action: block, category: [phrase/bannedphrase]",
		"action: warn, category: [phrase], over: 50",
		"action: block, category: [unread]",
		"action: block, category: [phrase-error]",
		"action: block, category: [shut]",
		"action: block, method: [DELETE]",
		`action: block, url: ['/closed/']`,
		"action: block, hash: [5ebe2294ecd0e0f08eab7690d2a6ee69]",
		"action: block, extension: [cgi]",
	}
	responseRules = []string{
		`action: allow, type: ["image/*"]`,
		"action: warn, type: [text/csv]",
		`action: redirect, to: "http://intra.example/", type: [text/x-log]`,
		"action: allow, category: [phrase/exceptionphrase]",
		"action: warn, category: [phrase], over: 500",
		"action: allow, extension: [png]",
		"action: placeholder, category: [shut]",
		"action: allow, host: [127.0.0.1], unless: [phrase/bannedphrase]",
		"action: monitor, category: [phrase], over: 10",
		"action: block, type: [video/mp4]",
	}
)

// A sending is a request that a client sends.
type sending struct {
	method, path, ctype, coding string
	body                        []byte
}

func sendings(t *testing.T) []sending {
	t.Helper()
	zip := func(s string) []byte {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = io.WriteString(w, s)
		w.Close()
		return b.Bytes()
	}
	form := func(name, text string) []byte {
		return []byte("--b\r\nContent-Disposition: form-data; name=f; filename=\"" + name + "\"\r\nContent-Type: application/octet-stream\r\n\r\n" + text + "\r\n--b--\r\n")
	}
	long := strings.Repeat("All is well on the farm, and the cows are in. ", 80_000) // 3.6 MB
	pdf := reading.PDF("plain words")
	return []sending{
		{"POST", "/a", "application/x-www-form-urlencoded", "", []byte("number=4111+1111+1111+1111&name=x")},
		{"POST", "/a", "text/plain", "", []byte("This is the secret plan, so keep it.")},
		{"PUT", "/a", "text/plain", "", []byte("verboten")},
		{"POST", "/a", "application/json", "", []byte(`{"text": "gross and gross", "card": "4111111111111111"}`)},
		{"POST", "/a", "multipart/form-data; boundary=b", "", form("setup.exe", "MZ and more")},
		{"POST", "/a", "multipart/form-data; boundary=b", "", form("list.txt", "secret plan")},
		{"POST", "/closed/a", "multipart/form-data; boundary=b", "", form("b.zip", reading.Archive(t, "a.txt", "hello"))},
		{"POST", "/a", "application/pdf", "", []byte(strings.Replace(pdf, "/Root", "/Encrypt 7 0 R/Root", 1))},
		{"POST", "/a", "application/pdf", "", []byte(pdf)},
		{"POST", "/a", "application/pdf", "", []byte("%PDF-1.4\n%" + long + "\n" + strings.Replace(pdf, "/Root", "/Encrypt 7 0 R/Root", 1))},
		{"POST", "/a", "application/json", "zstd", []byte(`{"text": "this is no zstd"}`)},
		{"POST", "/a", "application/json", "gzip", zip(`{"text": "` + long + `"}`)},
		{"POST", "/a", "application/json", "gzip, gzip", zip(string(zip(`{"text": "secret plan"}`)))},
		{"POST", "/a", "text/plain", "", []byte(long + "secret plan")},
		{"POST", "/a", "text/plain", "", []byte("4111 1111 1111 1111 " + long)},
		{"PUT", "/a.cgi", "application/octet-stream", "", []byte(long[:1<<20] + "verboten" + long)},
		{"PUT", "/a", "application/octet-stream", "", []byte("secret")},
		{"PUT", "/a.png", "application/zip", "", []byte(reading.Archive(t, "a.txt", "secret plan"))},
		{"DELETE", "/closed/a", "", "", nil},
		{"DELETE", "/a", "", "", nil},
		{"POST", "/a.cgi", "", "", nil},
		{"GET", "/a", "text/plain", "", []byte("a GET with the secret plan")},
		{"PATCH", "/a", "text/plain", "", []byte("nothing to see")},
	}
}

// A tally is what reached the origin: for each request how often, and whether to its end.
type tally struct {
	mu    sync.Mutex
	times map[string]int
	whole map[string]bool
}

func (y *tally) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	_, err := io.Copy(io.Discard, q.Body)
	id := q.Header.Get("X-Id")
	y.mu.Lock()
	y.times[id]++
	y.whole[id] = y.whole[id] || err == nil
	y.mu.Unlock()
	w.Header().Set("X-Origin", "yes")
	w.Header().Set("Content-Type", "text/html")
	_, _ = io.WriteString(w, "<p>It is done.</p>")
}

// Whatever the rules and their order, an origin does not get the whole of a request that its client
// is told was refused, and none twice.
func TestNothingRefusedReachesTheOriginWhole(t *testing.T) {
	policies := 20
	if testing.Short() {
		policies = 5
	}
	random := rand.New(rand.NewPCG(1, 2))
	settings := "listen: {proxy: 127.0.0.1:0}\nproxy: {private: [127.0.0.0/8], held: 1MiB}\nlists: {own: {format: domains, path: own, category: shut}}\n" +
		"checks: {category: {lists: [own]}, phrase: {weighted: [words], banned: [banned], exception: [good]}}\npolicies:\n"
	for i := range policies {
		settings += fmt.Sprintf("  - name: p%d\n    networks: [127.1.0.%d]\n    rules:\n", i, i+1)
		rules := append(pick(random, requestRules, 5), pick(random, responseRules, 3)...)
		random.Shuffle(len(rules), func(a, b int) { rules[a], rules[b] = rules[b], rules[a] })
		for n, r := range rules {
			settings += fmt.Sprintf("      - {name: r%d, %s}\n", n, r)
		}
	}
	y := &tally{times: map[string]int{}, whole: map[string]bool{}}
	origin := httptest.NewServer(y)
	defer origin.Close()
	g := serving(t, folder(t, map[string]string{"shuultuur.yaml": settings, "words": "<gross><40>\n", "banned": "<verboten>\n", "good": "<paradise>\n", "own": ".localhost\n"}))
	proxy := &url.URL{Scheme: "http", Host: g.ProxyAddr()}
	all := sendings(t)
	refused, passed := 0, 0
	for i := range policies {
		dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 1, 0, byte(i+1))}}
		transport := &http.Transport{Proxy: http.ProxyURL(proxy), DialContext: dialer.DialContext}
		client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		for n, s := range all {
			for _, chunked := range []bool{false, true} {
				id := fmt.Sprint(i, ".", n, ".", chunked)
				at := origin.URL
				if strings.HasPrefix(s.path, "/closed/") {
					at = strings.Replace(at, "127.0.0.1", "localhost", 1)
				}
				q, _ := http.NewRequest(s.method, at+s.path, bytes.NewReader(s.body))
				if chunked && s.body != nil {
					q.Body, q.ContentLength = io.NopCloser(bytes.NewReader(s.body)), -1
				}
				for name, value := range map[string]string{"X-Id": id, "Content-Type": s.ctype, "Content-Encoding": s.coding} {
					if value != "" {
						q.Header.Set(name, value)
					}
				}
				res, err := client.Do(q)
				ours := err == nil && res.Header.Get("X-Origin") == ""
				if err == nil {
					_, _ = io.Copy(io.Discard, res.Body)
					res.Body.Close()
				}
				y.mu.Lock()
				times, whole := y.times[id], y.whole[id]
				y.mu.Unlock()
				switch {
				case times > 1:
					t.Errorf("%s %s, %.30q, policy p%d, chunked %v: reached the origin %d times", s.method, s.path, s.body, i, chunked, times)
				case whole && (ours || err != nil):
					t.Errorf("%s %s, %.30q, policy p%d, chunked %v: answer %v, error %v, and the origin has it whole", s.method, s.path, s.body, i, chunked, res, err)
				case ours || err != nil:
					refused++
				default:
					passed++
				}
			}
		}
		transport.CloseIdleConnections()
	}
	if refused < policies || passed < policies {
		t.Errorf("%d requests were refused and %d passed: this shows too little", refused, passed)
	}
	t.Logf("%d refused, %d passed", refused, passed)
	if t.Failed() {
		t.Log(settings)
	}
}

// pick returns n of rules.
func pick(random *rand.Rand, rules []string, n int) []string {
	rules = slices.Clone(rules)
	random.Shuffle(len(rules), func(a, b int) { rules[a], rules[b] = rules[b], rules[a] })
	return rules[:n]
}
