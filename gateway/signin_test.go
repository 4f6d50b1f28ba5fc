package gateway

import (
	"bufio"
	"crypto/tls"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"
)

// signInWays are the ways in to a gateway for a request with a Proxy-Authorization field, which
// is "" or a line. Each returns the status of the answer, 200 for a request that passes.
var signInWays = []struct {
	name string
	page int // status of an answer that leads to the page
	ask  func(t *testing.T, g *Gateway, plain, secure, field string) int
}{
	{"HTTP", 302, func(t *testing.T, g *Gateway, plain, _, field string) int {
		return converse(t, g.ProxyAddr(), "GET http://"+plain+"/ HTTP/1.1\r\nHost: "+plain+"\r\n"+field+"\r\n")
	}},
	{"POST", 511, func(t *testing.T, g *Gateway, plain, _, field string) int {
		return converse(t, g.ProxyAddr(), "POST http://"+plain+"/ HTTP/1.1\r\nHost: "+plain+"\r\nContent-Length: 0\r\n"+field+"\r\n")
	}},
	{"CONNECT", 511, func(t *testing.T, g *Gateway, _, secure, field string) int {
		return converse(t, g.ProxyAddr(), "CONNECT "+secure+" HTTP/1.1\r\nHost: "+secure+"\r\n"+field+"\r\n")
	}},
	{"HTTPS proxy", 302, func(t *testing.T, g *Gateway, plain, _, field string) int {
		c := tls.Client(connectTo(t, g.ProxyAddr()), &tls.Config{InsecureSkipVerify: true})
		return answerTo(t, c, "GET http://"+plain+"/ HTTP/1.1\r\nHost: "+plain+"\r\n"+field+"\r\n")
	}},
	{"decrypted", 511, func(t *testing.T, g *Gateway, _, secure, field string) int {
		c := connectTo(t, g.ProxyAddr())
		if got := answerTo(t, c, "CONNECT "+secure+" HTTP/1.1\r\nHost: "+secure+"\r\n"+field+"\r\n"); got != 200 {
			return got
		}
		inside := tls.Client(c, &tls.Config{InsecureSkipVerify: true})
		return answerTo(t, inside, "GET / HTTP/1.1\r\nHost: "+secure+"\r\n"+field+"\r\n")
	}},
	{"REQMOD", 302, func(t *testing.T, g *Gateway, _, _, field string) int {
		head := "GET http://news.example/" + pathOf(field) + " HTTP/1.1\r\nHost: news.example\r\n" + field + "\r\n"
		return converseICAP(t, g.ICAPAddr(), fmt.Sprintf("REQMOD icap://127.0.0.1/reqmod ICAP/1.0\r\nHost: x\r\nAllow: 204\r\nX-Client-IP: 127.0.0.1\r\nEncapsulated: req-hdr=0, null-body=%d\r\n\r\n%s", len(head), head))
	}},
	{"REQMOD with the field of ICAP", 302, func(t *testing.T, g *Gateway, _, _, field string) int {
		head := "GET http://news.example/" + pathOf(field) + " HTTP/1.1\r\nHost: news.example\r\n\r\n"
		return converseICAP(t, g.ICAPAddr(), fmt.Sprintf("REQMOD icap://127.0.0.1/reqmod ICAP/1.0\r\nHost: x\r\nAllow: 204\r\nX-Client-IP: 127.0.0.1\r\n%sEncapsulated: req-hdr=0, null-body=%d\r\n\r\n%s", field, len(head), head))
	}},
	{"REQMOD of CONNECT", 511, func(t *testing.T, g *Gateway, _, _, field string) int {
		head := "CONNECT news.example:443 HTTP/1.1\r\nHost: news.example:443\r\n" + field + "\r\n"
		return converseICAP(t, g.ICAPAddr(), fmt.Sprintf("REQMOD icap://127.0.0.1/reqmod ICAP/1.0\r\nHost: x\r\nAllow: 204\r\nX-Client-IP: 127.0.0.1\r\nEncapsulated: req-hdr=0, null-body=%d\r\n\r\n%s", len(head), head))
	}},
	{"RESPMOD", 302, func(t *testing.T, g *Gateway, _, _, field string) int {
		head := "GET http://news.example/" + pathOf(field) + " HTTP/1.1\r\nHost: news.example\r\n" + field + "\r\n"
		answer := "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 0\r\n\r\n"
		return converseICAP(t, g.ICAPAddr(), fmt.Sprintf("RESPMOD icap://127.0.0.1/respmod ICAP/1.0\r\nHost: x\r\nAllow: 204\r\nX-Client-IP: 127.0.0.1\r\nEncapsulated: req-hdr=0, res-hdr=%d, null-body=%d\r\n\r\n%s%s", len(head), len(head)+len(answer), head, answer))
	}},
}

// pathOf returns a path of its own for each field, so that no answer is remembered for another.
func pathOf(field string) string { return fmt.Sprintf("%x", field) }

func connectTo(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(20 * time.Second))
	return c
}

// answerTo sends a request and returns the status of the answer.
func answerTo(t *testing.T, c net.Conn, request string) int {
	t.Helper()
	if _, err := c.Write([]byte(request)); err != nil {
		t.Fatal(err)
	}
	method, _, _ := strings.Cut(request, " ")
	s, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	if err != nil {
		t.Fatalf("reading the answer to %q: %v", request, err)
	}
	return s.StatusCode
}

func converse(t *testing.T, addr, request string) int {
	t.Helper()
	return answerTo(t, connectTo(t, addr), request)
}

// converseICAP returns the status of the answer to the client: 200 for "unchanged", or the
// encapsulated one.
func converseICAP(t *testing.T, addr, request string) int {
	t.Helper()
	c := connectTo(t, addr)
	if _, err := c.Write([]byte(request)); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(c)
	for first := true; ; first = false {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatalf("reading the answer to %q: %v", request, err)
		}
		if first && strings.HasPrefix(line, "ICAP/1.0 204 ") {
			return 200
		}
		if status := 0; strings.HasPrefix(line, "HTTP/1.1 ") {
			fmt.Sscanf(line, "HTTP/1.1 %d", &status)
			return status
		}
	}
}

// Credentials that nobody verifies for a client are no credentials.
func TestUnverifiedCredentialsDoNotReplaceTheSignIn(t *testing.T) {
	hash, err := bcrypt.GenerateFromPassword([]byte("right"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	hello := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "hello") })
	plain, secure := httptest.NewServer(hello), httptest.NewTLSServer(hello)
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	root := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}))

	const signIn = `sign-in: {oidc: {issuer: "https://id.example", client-id: us}}`
	none := map[string]int{} // by kind of credentials; 0 leads to the page
	everything := map[string]int{}
	kinds := map[string]string{
		"none": "", "empty": "Proxy-Authorization:\r\n", "x": "Proxy-Authorization: x\r\n",
		"Basic right":        "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("anna:right")) + "\r\n",
		"Basic wrong":        "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("anna:wrong")) + "\r\n",
		"Basic without text": "Proxy-Authorization: Basic\r\n",
		"Bearer":             "Proxy-Authorization: Bearer eyJhbGciOiJub25lIn0.e30.\r\n",
		"Negotiate":          "Proxy-Authorization: Negotiate YIIabcdefgh=\r\n",
		"NTLM":               "Proxy-Authorization: NTLM TlRMTVNTUAABAAAAB4IIAAAAAAAAAAAAAAAAAAAAAAA=\r\n",
		"Digest":             "Proxy-Authorization: Digest username=\"anna\"\r\n",
		// What Unicode calls a blank is no blank of HTTP.
		"Basic after a no-break space":     "Proxy-Authorization: \u00a0Basic " + base64.StdEncoding.EncodeToString([]byte("anna:right")) + "\r\n",
		"Negotiate after a no-break space": "Proxy-Authorization: \u00a0Negotiate YIIabcdefgh=\r\n",
		"Basic without name":               "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(":right")) + "\r\n",
		"Basic in Latin-1":                 "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("anna:r\xefght")) + "\r\n",
		"Basic long in Latin-1":            "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("anna:"+strings.Repeat("\xff", 1000))) + "\r\n",
		"wrong, then right":                "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("anna:wrong")) + "\r\nProxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("anna:right")) + "\r\n",
	}
	asked := map[string]int{} // for a password or a ticket
	for kind := range kinds {
		everything[kind], asked[kind] = 200, 407
	}
	noVerifier := map[string]int{"Basic without text": 407, "Basic without name": 407, "Basic right": 503, "Basic wrong": 503, "Basic in Latin-1": 503, "Basic long in Latin-1": 503, "wrong, then right": 503}
	noRADIUS := maps.Clone(noVerifier)
	noRADIUS["Basic long in Latin-1"] = 407 // no password of RADIUS is so long
	for _, tt := range []struct {
		provider, identity string
		want               map[string]int
	}{
		{"none", "{}", everything},
		{"sign-in alone", "{" + signIn + "}", none},
		{"sign-in, basic elsewhere", "{basic: {file: passwords, networks: [10.0.0.0/8]}, " + signIn + "}", none},
		{"sign-in by basic, whose networks are elsewhere", "{basic: {file: passwords, networks: [10.0.0.0/8]}, sign-in: {}}", none},
		{"sign-in, basic", "{basic: {file: passwords}, " + signIn + "}", map[string]int{"Basic right": 200, "Basic wrong": 407, "Basic without text": 407,
			"Basic without name": 407, "Basic in Latin-1": 407, "Basic long in Latin-1": 407, "wrong, then right": 407}},
		{"sign-in, LDAP that is away", `{basic: {ldap: {servers: "ldap://127.0.0.1:1", base: "dc=x"}}, ` + signIn + "}", noVerifier},
		{"sign-in, RADIUS that is away", `{basic: {radius: {servers: "127.0.0.1:1", secret: "0123456789abcdef", timeout: 100ms}}, ` + signIn + "}", noRADIUS},
		{"kerberos alone", "{kerberos: {keytab: keytab}}", asked},
		{"sign-in, kerberos", "{kerberos: {keytab: keytab}, " + signIn + "}", map[string]int{"Negotiate": 407, "NTLM": 407}},
		{"sign-in, kerberos elsewhere", "{kerberos: {keytab: keytab, networks: [10.0.0.0/8]}, " + signIn + "}", none},
	} {
		t.Run(tt.provider, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, "keytab", maker(tickets), 1)
			write(t, dir, "root.pem", maker(makeRoot), 1)
			write(t, dir, "own.pem", pair("own.pem", "own.key"), 1)
			for name, text := range map[string]string{"passwords": "anna:" + string(hash) + "\n", "trust.pem": root, "shuultuur.yaml": `
listen: {proxy: "127.0.0.1:0", admin: "127.0.0.1:0", portal: "127.0.0.1:0", icap: "127.0.0.1:0", tls: {cert: own.pem, key: own.key}}
proxy: {private: [127.0.0.0/8], connect-ports: [443, 1024-65535]}
intercept: {root: root.pem, trust: [trust.pem]}
portal: {name: filter.school.example}
policies: [{name: all, decrypt: true, rules: []}]
identity: ` + tt.identity + "\n"} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			g := serving(t, filepath.Join(dir, "shuultuur.yaml"))
			for _, way := range signInWays {
				for kind, field := range kinds {
					want := tt.want[kind]
					if want == 0 {
						want = way.page
					}
					if got := way.ask(t, g, plain.Listener.Addr().String(), secure.Listener.Addr().String(), field); got != want {
						t.Errorf("%s, credentials %s: status %d, want %d", way.name, kind, got, want)
					}
				}
			}
		})
	}
}
