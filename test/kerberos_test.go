package test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"shuultuur/engine"
	"shuultuur/event"
	"shuultuur/gateway"
	"shuultuur/lib/wait/waittest"
	"shuultuur/test/cert"
	"shuultuur/test/peer"
)

// A kdc is a realm with users and the service HTTP/localhost.
type kdc struct {
	dir, port string
	env       []string
	server    *exec.Cmd
	path      string // the program of the server
}

func newKDC(t *testing.T) *kdc {
	t.Helper()
	server := peer.Program(t, "krb5kdc")
	util, admin := peer.Program(t, "kdb5_util"), peer.Program(t, "kadmin.local")
	peer.Program(t, "kinit")
	if out, err := exec.Command(peer.Program(t, "curl"), "--version").Output(); err != nil || !bytes.Contains(out, []byte("GSS-API")) {
		t.Skip("this curl is built without Kerberos")
	}
	port := peer.Port(t)
	k := &kdc{dir: t.TempDir(), port: port, path: server}
	for name, text := range map[string]string{
		"krb5.conf": fmt.Sprintf("[libdefaults]\ndefault_realm = SCHOOL.EXAMPLE\ndns_lookup_kdc = false\nrdns = false\ndns_canonicalize_hostname = false\nudp_preference_limit = 1\n[realms]\nSCHOOL.EXAMPLE = {\n kdc = 127.0.0.1:%s\n}\n", port),
		"kdc.conf":  fmt.Sprintf("[kdcdefaults]\nkdc_listen = 127.0.0.1:%s\nkdc_tcp_listen = 127.0.0.1:%[1]s\n[realms]\nSCHOOL.EXAMPLE = {\n database_name = %s/principal\n key_stash_file = %[2]s/stash\n acl_file = %[2]s/acl\n}\n", port, k.dir),
	} {
		if err := os.WriteFile(filepath.Join(k.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	k.env = append(os.Environ(), "KRB5_CONFIG="+k.dir+"/krb5.conf", "KRB5_KDC_PROFILE="+k.dir+"/kdc.conf", "KRB5CCNAME=FILE:"+k.dir+"/ccache", "KRB5RCACHENAME=none:")
	k.run(t, "", util, "create", "-s", "-P", "master")
	k.run(t, "", admin, "-q", "addprinc -pw secret anna")
	k.run(t, "", admin, "-q", "addprinc -randkey HTTP/localhost")
	k.run(t, "", admin, "-q", "ktadd -k "+k.dir+"/keytab HTTP/localhost")
	k.start(t)
	k.run(t, "secret\n", "kinit", "anna")
	return k
}

// start starts the server.
func (k *kdc) start(t *testing.T) {
	t.Helper()
	cmd := peer.Command(t, k.path, "-n")
	cmd.Env = k.env
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	k.server = cmd
	waittest.Until(t, "the KDC", func() bool {
		c, err := net.Dial("tcp", "127.0.0.1:"+k.port)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
}

func (k *kdc) run(t *testing.T, in, name string, args ...string) string {
	t.Helper()
	cmd := peer.Command(t, name, args...)
	cmd.Env, cmd.Stdin = k.env, strings.NewReader(in)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v: %s", name, args, err, out)
	}
	return string(out)
}

const kerberosSettings = `
listen: {proxy: 127.0.0.1:0, admin: off}
data: data
proxy: {private: [127.0.0.0/8], connect-ports: [any]}
identity:
  kerberos: {keytab: KEYTAB}
  groups: {teachers: [anna]}
policies:
  - {name: teachers, groups: [teachers], rules: [{name: play, action: block, url: ["/play$"]}]}
  - {name: everyone, rules: [{name: all, action: block}]}
events: {sqlite: events.db, every: 50ms}
`

func TestCurlSignsInWithATicketOfMIT(t *testing.T) {
	k := newKDC(t)
	o := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "page "+r.URL.Path+" "+r.Header.Get("Proxy-Authorization"))
	}))
	defer o.Close()
	g := runGateway(t, t.TempDir(), strings.ReplaceAll(kerberosSettings, "KEYTAB", k.dir+"/keytab"))
	_, port, _ := net.SplitHostPort(g.ProxyAddr())
	curl := func(args ...string) string {
		t.Helper()
		all := append([]string{"-s", "--noproxy", "", "-x", "http://localhost:" + port, "--proxy-negotiate", "-U", ":", "-w", " %{http_code}"}, args...)
		cmd := peer.Command(t, "curl", all...)
		cmd.Env = k.env
		out, _ := cmd.CombinedOutput()
		return string(out)
	}
	if got := curl(o.URL + "/one"); got != "page /one  200" {
		t.Fatalf("with a ticket: curl got %q, want the page and 200", got)
	}
	// The second request of the connection sends no ticket.
	if got := curl(o.URL+"/one", o.URL+"/two"); !strings.Contains(got, "page /one  200") || !strings.Contains(got, "page /two  200") {
		t.Errorf("two requests on one connection: curl got %q, want both pages and 200", got)
	}
	if got := curl("-p", o.URL+"/tunnel"); got != "page /tunnel  200" {
		t.Errorf("through a tunnel: curl got %q, want the page and 200", got)
	}
	k.proves(t, port, o.URL+"/one")
	if got := curl(o.URL + "/play"); !strings.HasSuffix(got, " 403") {
		t.Errorf("a page that teachers may not see: curl got %q, want 403", got)
	}
	res, err := through(g.ProxyAddr()).Get(o.URL)
	if err != nil || res.StatusCode != 407 || res.Header.Get("Proxy-Authenticate") != "Negotiate" {
		t.Fatalf("without a ticket: %v, %v; want 407 and Negotiate", res, err)
	}
	res.Body.Close()
	waittest.Until(t, "the record", func() bool {
		for _, e := range events(t, g) {
			if e.User == "anna" && e.Source == "kerberos" {
				return true
			}
		}
		return false
	})
	// The password of the service changes, the keytab does not.
	k.run(t, "", "kadmin.local", "-q", "cpw -randkey HTTP/localhost")
	k.run(t, "secret\n", "kinit", "anna")
	if got := curl(o.URL + "/three"); !strings.HasSuffix(got, " 407") {
		t.Errorf("a ticket for a key that the keytab lacks: curl got %q, want 407", got)
	}
	waittest.Until(t, "the reason in the record", func() bool {
		for _, e := range events(t, g) {
			if strings.Contains(e.Note, "kvno 3 of HTTP/localhost is not in the keytab, which has kvno 2") {
				return true
			}
		}
		return false
	})
}

// proves lets MIT's library demand that the proxy proves its identity (mutual authentication),
// with and without SPNEGO. curl does not support it.
func (k *kdc) proves(t *testing.T, port, url string) {
	t.Helper()
	for _, how := range [][]string{nil, {"kerberos"}} {
		cmd := peer.Command(t, "python3", append([]string{"testdata/mutual.py", port, url}, how...)...)
		cmd.Env = k.env
		if out, err := cmd.CombinedOutput(); err != nil || string(out) != "HTTP/1.1 200 OK complete\n" {
			t.Errorf("mutual authentication, arguments %v: %v, %s", how, err, out)
		}
	}
}

// events returns the recorded events.
func events(t *testing.T, g *gateway.Gateway) (all []event.Row) {
	t.Helper()
	for r, err := range g.Store().Query(t.Context(), event.Filter{}, event.Page{Limit: 100}) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

const sessionSettings = `
listen: {proxy: 127.0.0.1:0, admin: 127.0.0.1:0}
data: data
proxy: {private: [127.0.0.0/8], trusted: [127.0.0.0/8]}
identity:
  groups: {pupils: []}
  headers: {user: [X-Forwarded-User, X-Authenticated-User], groups: X-Authenticated-Groups}
policies:
  - {name: pupils, groups: [pupils], rules: [{name: play, action: block, url: ["/play$"]}]}
  - {name: everyone}
events: {sqlite: events.db, every: 50ms}
`

// TestReportsNameTheUserOfAnAddress: a network controller reports users through the API, and a proxy
// in front through fields.
func TestReportsNameTheUserOfAnAddress(t *testing.T) {
	var seen http.Header
	o := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen = r.Header.Clone() }))
	defer o.Close()
	dir := t.TempDir()
	g := runGateway(t, dir, sessionSettings)
	c := through(g.ProxyAddr())
	ask := func(fields ...string) int {
		t.Helper()
		q, _ := http.NewRequest("GET", o.URL+"/play", nil)
		for i := 0; i < len(fields); i += 2 {
			q.Header.Set(fields[i], fields[i+1])
		}
		res, err := c.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res.StatusCode
	}
	session := func(body string) (int, string) {
		t.Helper()
		res, err := http.Post("http://"+g.AdminAddr()+"/api/sessions", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, _ := io.ReadAll(res.Body)
		return res.StatusCode, string(b)
	}
	if got := ask(); got != 200 {
		t.Fatalf("without a user: status %d, want 200", got)
	}
	if status, body := session(`{"address": "127.0.0.1", "user": "anna", "groups": ["pupils"], "seconds": 3600}`); status != 200 {
		t.Fatalf("beginning a session for anna: status %d, %s", status, body)
	}
	if got := ask(); got != 403 {
		t.Errorf("as anna, in a session: status %d, want 403", got)
	}
	here := netip.MustParseAddr("127.0.0.1")
	why := filepath.Join(dir, "why.yaml")
	if err := os.WriteFile(why, []byte(strings.Replace(sessionSettings, "admin: 127.0.0.1:0", "admin: "+g.AdminAddr(), 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	e, done, err := engine.Explain(t.Context(), why)
	if err != nil {
		t.Fatal(err)
	}
	e.AskSession(t.Context(), here)
	if c, err := e.Identify(t.Context(), here); err != nil || c.User != "anna" || c.Source != "session" || !slices.Contains(c.Groups, "pupils") {
		t.Errorf("why identifies the client as %+v, %v; want anna, by session", c, err)
	}
	done()
	res, err := http.Get("http://" + g.AdminAddr() + "/api/sessions")
	if err != nil {
		t.Fatal(err)
	}
	var all []struct{ Address, User, Source string }
	if err := json.NewDecoder(res.Body).Decode(&all); err != nil || len(all) != 1 || all[0].User != "anna" || all[0].Source != "session" {
		t.Errorf("GET /api/sessions: %+v, %v; want one of anna", all, err)
	}
	res.Body.Close()
	if status, _ := session(`{"address": "127.0.0.1", "action": "stop"}`); status != 200 || ask() != 200 {
		t.Error("the session goes on after it was stopped")
	}
	for _, bad := range []string{`{`, `{"address": "x", "user": "anna"}`, `{"address": "10.0.0.1"}`, `{"address": "10.0.0.1", "user": "a", "seconds": -1}`, `{"address": "10.0.0.1", "user": "a", "action": "begin"}`, `{"address": "10.0.0.1", "user": "a", "second": 9}`} {
		if status, body := session(bad); status != 400 || body == "" {
			t.Errorf("faulty session %s: status %d, want 400: %s", bad, status, body)
		}
	}
	if got := ask("X-Forwarded-For", "192.0.2.7", "X-Authenticated-User", "bold", "X-Authenticated-Groups", "choir, pupils"); got != 403 {
		t.Errorf("as bold of pupils, by fields: status %d, want 403", got)
	}
	if got := ask("X-Forwarded-For", "192.0.2.7", "X-Authenticated-User", "carl", "X-Authenticated-Groups", "choir"); got != 200 {
		t.Errorf("as carl of no pupils, by fields: status %d, want 200", got)
	}
	if seen.Get("X-Authenticated-User")+seen.Get("X-Authenticated-Groups") != "" {
		t.Errorf("the origin received fields that name the user: %v", seen)
	}
	waittest.Until(t, "the record", func() bool {
		found := map[string]bool{}
		for _, e := range events(t, g) {
			found[e.User+" "+e.Source] = true
		}
		return found["anna session"] && found["bold header"] && found["carl header"]
	})
}

const certificateSettings = `
listen: {proxy: 127.0.0.1:0, admin: off, tls: {cert: cert.pem, key: key.pem}}
data: data
proxy: {private: [127.0.0.0/8]}
identity:
  certificates: {ca: clients.pem, groups: ou}
policies:
  - {name: pupils, groups: [pupils], rules: [{name: play, action: block, url: ["/play$"]}]}
  - {name: everyone}
events: {sqlite: events.db, every: 50ms}
`

func TestACertificateSaysWhoAsks(t *testing.T) {
	o := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer o.Close()
	dir := t.TempDir()
	own, key := cert.Files(t, dir, "localhost", "127.0.0.1")
	_ = os.Rename(own, filepath.Join(dir, "cert.pem"))
	_ = os.Rename(key, filepath.Join(dir, "key.pem"))
	issue := func(file string) tls.Certificate {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		c := &x509.Certificate{
			SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Anna A.", OrganizationalUnit: []string{"pupils"}}, EmailAddresses: []string{"anna@school.example"},
			NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
			KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		}
		der, err := x509.CreateCertificate(rand.Reader, c, c, &k.PublicKey, k)
		if err != nil {
			t.Fatal(err)
		}
		if file != "" {
			if err := os.WriteFile(filepath.Join(dir, file), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: k}
	}
	good, strange := issue("clients.pem"), issue("")
	g := runGateway(t, dir, certificateSettings)
	ask := func(certs ...tls.Certificate) (int, error) {
		to := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "https", Host: g.ProxyAddr()}), DisableKeepAlives: true,
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: certs}}
		res, err := (&http.Client{Transport: to, Timeout: time.Minute}).Get(o.URL + "/play")
		if err != nil {
			return 0, err
		}
		res.Body.Close()
		return res.StatusCode, nil
	}
	if got, err := ask(); got != 200 {
		t.Errorf("without a client certificate: status %d, %v; want 200", got, err)
	}
	if got, err := ask(good); got != 403 {
		t.Errorf("with a client certificate: status %d, %v; want 403", got, err)
	}
	if got, err := ask(strange); err == nil && got == 403 {
		t.Errorf("the proxy accepts a certificate of an unknown authority: status %d", got)
	}
	waittest.Until(t, "the record", func() bool {
		for _, e := range events(t, g) {
			if e.User == "anna@school.example" && e.Source == "certificate" {
				return true
			}
		}
		return false
	})
}
