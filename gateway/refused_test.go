package gateway

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/textproto"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"shuultuur/intercept"
	"shuultuur/test/cert"
	"shuultuur/test/reading"
)

// For 10,000 requests: -refusal-policies 100.
var (
	refusalPolicies = flag.Int("refusal-policies", 3, "random policies under which requests are sent that some of their rules refuse")
	refusalsFrom    = flag.Uint64("refusals-from", 1, "seed of the policies")
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
		{"PATCH", "/a", "application/merge-patch+json", "", []byte(`{"a": {"b": ["secret plan"]}}`)},
		{"DELETE", "/a", "application/json", "", []byte(`{"ids": ["4111 1111 1111 1111"]}`)},
		{"OPTIONS", "/a", "text/plain", "", []byte("secret plan")},
		{"PROPFIND", "/a", "application/xml", "", []byte("<a><b>secret</b> <b>plan</b></a>")},
		{"QUERY", "/a.cgi", "text/plain", "", []byte("select the secret plan")},
		{"MKCOL", "/closed/a", "", "", nil},
		{"HEAD", "/a", "text/plain", "", []byte("a HEAD with the secret plan")},
		{"REPORT", "/a", "text/plain", "deflate", []byte("secret plan, and no deflate")},
		{"POST", "/a", "multipart/form-data; boundary=b", "", form("plan.html", "<p>secret</p><p>plan</p>")[:90]},
		{"POST", "/a", "text/plain", "", []byte{}},
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

// A way is how a client sends its requests.
type way struct {
	name    string
	secure  bool // decrypted, by HTTP/2
	chunked bool
	slow    bool // in pieces, with pauses that are longer than the patience of some policies
	expect  bool // the body waits for 100 Continue
}

var ways = []way{
	{name: "with a length"},
	{name: "chunked", chunked: true},
	{name: "in pieces", chunked: true, slow: true},
	{name: "in pieces, with a length", slow: true},
	{name: "after 100 Continue", expect: true},
	{name: "by HTTP/2", secure: true},
	{name: "in pieces by HTTP/2", secure: true, chunked: true, slow: true},
}

// A paced body gives its bytes in a few pieces.
type paced struct {
	body  []byte
	piece int
}

func (p *paced) Read(b []byte) (int, error) {
	if len(p.body) == 0 {
		return 0, io.EOF
	}
	time.Sleep(2 * time.Millisecond) // so that it does not arrive at once
	n := copy(b[:min(len(b), p.piece)], p.body)
	p.body = p.body[n:]
	return n, nil
}

// request makes what is sent to an origin, and names it.
func (s sending) request(w way, origin, id string) *http.Request {
	if strings.HasPrefix(s.path, "/closed/") {
		origin = strings.Replace(origin, "127.0.0.1", "localhost", 1)
	}
	q, _ := http.NewRequest(s.method, origin+s.path, bytes.NewReader(s.body))
	switch {
	case s.body == nil:
	case w.slow:
		q.Body = io.NopCloser(&paced{s.body, len(s.body)/4 + 1})
	case w.chunked:
		q.Body = io.NopCloser(bytes.NewReader(s.body))
	}
	if w.chunked && s.body != nil {
		q.ContentLength = -1
	}
	fields := map[string]string{"X-Id": id, "Content-Type": s.ctype, "Content-Encoding": s.coding}
	if w.expect {
		fields["Expect"] = "100-continue"
	}
	for name, value := range fields {
		if value != "" {
			q.Header.Set(name, value)
		}
	}
	return q
}

// randomPolicies returns policies for the clients 127.1.0.1, 127.1.0.2 and so on.
func randomPolicies(random *rand.Rand, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "  - name: p%d\n    networks: [127.1.%d.%d]\n    decrypt: true\n    patience: %s\n    on-error: %s\n    rules:\n", i, i/200, i%200+1,
			pick(random, []string{"1ms", "5ms", "300ms", "hold"}, 1)[0], pick(random, []string{"pass", "refuse"}, 1)[0])
		rules := append(pick(random, requestRules, 1+random.IntN(5)), pick(random, responseRules, random.IntN(4))...)
		random.Shuffle(len(rules), func(a, b int) { rules[a], rules[b] = rules[b], rules[a] })
		for n, r := range rules {
			fmt.Fprintf(&b, "      - {name: r%d, %s}\n", n, r)
		}
	}
	return b.String()
}

// secureOrigin returns an origin that speaks HTTP/2, and its certificate as PEM.
func secureOrigin(t *testing.T, h http.Handler) (*httptest.Server, string) {
	t.Helper()
	crt, key := cert.Files(t, t.TempDir(), "127.0.0.1", "localhost")
	pair, err := tls.LoadX509KeyPair(crt, key)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = true
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}))
}

// Whatever the rules and their order, an origin does not get the whole of a request that its client
// is told was refused, and none twice.
func TestNothingRefusedReachesTheOriginWhole(t *testing.T) {
	policies := *refusalPolicies
	if testing.Short() {
		policies = min(policies, 3)
	}
	settings := "listen: {proxy: 127.0.0.1:0, admin: 127.0.0.1:0, icap: 127.0.0.1:0}\nproxy: {private: [127.0.0.0/8], connect-ports: [443, 1024-65535], held: 1MiB}\nlists: {own: {format: domains, path: own, category: shut}}\n" +
		"intercept: {root: root.pem, trust: [trust.pem]}\n" +
		"checks: {category: {lists: [own]}, phrase: {weighted: [words], banned: [banned], exception: [good]}}\npolicies:\n" +
		randomPolicies(rand.New(rand.NewPCG(*refusalsFrom, 2)), policies)
	y := &tally{times: map[string]int{}, whole: map[string]bool{}}
	origin := httptest.NewServer(y)
	defer origin.Close()
	secret, trust := secureOrigin(t, y)
	root, err := intercept.NewRoot(intercept.RootConfig{})
	if err != nil {
		t.Fatal(err)
	}
	file := folder(t, map[string]string{"shuultuur.yaml": settings, "words": "<gross><40>\n", "banned": "<verboten>\n", "good": "<paradise>\n", "own": ".localhost\n",
		"trust.pem": trust})
	if err := root.Write(filepath.Join(filepath.Dir(file), "root.pem"), false); err != nil {
		t.Fatal(err)
	}
	g := serving(t, file)
	proxy := &url.URL{Scheme: "http", Host: g.ProxyAddr()}
	all := sendings(t)
	refused, passed := 0, 0
	for i := range policies {
		dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 1, byte(i/200), byte(i%200+1))}}
		transport := &http.Transport{Proxy: http.ProxyURL(proxy), DialContext: dialer.DialContext, ForceAttemptHTTP2: true, ExpectContinueTimeout: time.Minute,
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
		client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		for n, s := range all {
			for _, w := range ways {
				if s.body == nil && w.slow || w.slow && n%4 != i%4 {
					continue
				}
				id, at := fmt.Sprint(i, ".", n, ".", w.name), origin.URL
				if w.secure {
					at = secret.URL
				}
				res, err := client.Do(s.request(w, at, id))
				ours := err == nil && res.Header.Get("X-Origin") == ""
				if err == nil {
					_, _ = io.Copy(io.Discard, res.Body)
					res.Body.Close()
					if w.secure && res.ProtoMajor != 2 {
						t.Errorf("%s %s: the answer came by %s", s.method, s.path, res.Proto)
					}
				}
				y.mu.Lock()
				times, whole := y.times[id], y.whole[id]
				y.mu.Unlock()
				what := fmt.Sprintf("%s %s, %.30q, policy p%d, %s", s.method, s.path, s.body, i, w.name)
				if !w.secure && !w.slow && !w.expect {
					if byICAP := refusedByICAP(t, g.ICAPAddr(), fmt.Sprintf("127.1.%d.%d", i/200, i%200+1), s.request(w, at, id)); byICAP != (ours || err != nil) {
						t.Errorf("%s: refused by ICAP: %v, by the proxy: %v", what, byICAP, !byICAP)
					}
				}
				switch {
				case times > 1:
					t.Errorf("%s: reached the origin %d times", what, times)
				case whole && (ours || err != nil):
					t.Errorf("%s: answer %v, error %v, and the origin has it whole", what, res, err)
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

// refusedByICAP reports whether a request, asked about as Squid does, is answered in place of its origin,
// or broken off on its way there.
func refusedByICAP(t *testing.T, icap, client string, q *http.Request) bool {
	t.Helper()
	c, err := net.Dial("tcp", icap)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	var head, body bytes.Buffer
	fmt.Fprintf(&head, "%s %s HTTP/1.1\r\nHost: %s\r\n", q.Method, q.URL, q.URL.Host)
	if q.ContentLength > 0 {
		fmt.Fprintf(&head, "Content-Length: %d\r\n", q.ContentLength)
	}
	_ = q.Header.Write(&head)
	head.WriteString("\r\n")
	end := "null-body"
	if q.Body != nil && q.Body != http.NoBody {
		end = "req-body"
		w := httputil.NewChunkedWriter(&body)
		_, _ = io.Copy(w, q.Body)
		w.Close()
		body.WriteString("\r\n")
	}
	go func() {
		_, _ = fmt.Fprintf(c, "REQMOD icap://%s/reqmod ICAP/1.0\r\nHost: %s\r\nAllow: 204\r\nX-Client-IP: %s\r\nEncapsulated: req-hdr=0, %s=%d\r\n\r\n%s%s", icap, icap, client, end, head.Len(), &head, &body)
	}()
	answer := textproto.NewReader(bufio.NewReader(c))
	status, err := answer.ReadLine()
	if err != nil {
		t.Fatal(err)
	}
	fields, err := answer.ReadMIMEHeader()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(status, "ICAP/1.0 20") {
		t.Errorf("ICAP answers %s", status)
	}
	parts := fields.Get("Encapsulated")
	if strings.Contains(parts, "res-hdr") {
		return true
	}
	_, at, goesOn := strings.Cut(parts, "req-body=")
	if !goesOn {
		return false
	}
	n, _ := strconv.Atoi(at)
	if _, err = io.CopyN(io.Discard, answer.R, int64(n)); err == nil {
		_, err = io.Copy(io.Discard, httputil.NewChunkedReader(answer.R)) // a body that breaks off reaches no origin whole
	}
	return err != nil
}

// pick returns n of rules.
func pick(random *rand.Rand, rules []string, n int) []string {
	rules = slices.Clone(rules)
	random.Shuffle(len(rules), func(a, b int) { rules[a], rules[b] = rules[b], rules[a] })
	return rules[:n]
}
