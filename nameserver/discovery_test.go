//go:build !small

package nameserver

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	miekg "github.com/miekg/dns"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"shuultuur/filter"
	"shuultuur/lib/dns"
	"shuultuur/lib/setting"
)

func TestVersionAndNameAreAnsweredAsTheSettingsSay(t *testing.T) {
	silent := start(t, Config{}, nil)
	s := start(t, Config{Version: "ours 1", NSID: "node-a"}, nil)
	for name, want := range map[string]string{
		"version.bind.": "ours 1", "VERSION.server.": "ours 1", "hostname.bind.": "node-a", "id.server.": "node-a", "authors.bind.": "",
	} {
		m := query(name, miekg.TypeTXT)
		m.Question[0].Qclass = miekg.ClassCHAOS
		if r := exchange(t, silent, "udp", m); r.Rcode != miekg.RcodeRefused {
			t.Errorf("%s without settings: got %s, want REFUSED", name, miekg.RcodeToString[r.Rcode])
		}
		r := exchange(t, s, "udp", m)
		got := ""
		if len(r.Answer) == 1 {
			got = strings.Join(r.Answer[0].(*miekg.TXT).Txt, "")
		}
		if got != want || (want == "") != (r.Rcode == miekg.RcodeRefused) {
			t.Errorf("%s: got %q and %s, want %q", name, got, miekg.RcodeToString[r.Rcode], want)
		}
	}
}

func TestEncryptedTransportsAreAnnounced(t *testing.T) {
	cert, key, _ := certificate(t)
	ours := []string{"127.0.0.1:0"}
	s := start(t, Config{Listen: ours, TLS: ours, HTTPS: ours, QUIC: ours, Cert: setting.File(cert), Key: setting.File(key), Path: "/q"}, nil)
	r := exchange(t, s, "udp", query("_dns.resolver.arpa.", miekg.TypeSVCB))
	var got []string
	for _, rr := range r.Answer {
		got = append(got, rr.String())
	}
	head := func(priority int) string {
		return fmt.Sprintf("_dns.resolver.arpa.\t300\tIN\tSVCB\t%d dns.test. ", priority)
	}
	port := func(t dns.Transport) uint16 { return s.Addrs(t)[0].Port() }
	want := []string{
		head(1) + fmt.Sprintf(`alpn="h2,h3" port="%d" ipv4hint="127.0.0.1" dohpath="/q{?dns}"`, port(dns.HTTPS)),
		head(2) + fmt.Sprintf(`alpn="dot" port="%d" ipv4hint="127.0.0.1"`, port(dns.TLS)),
		head(3) + fmt.Sprintf(`alpn="doq" port="%d" ipv4hint="127.0.0.1"`, port(dns.QUIC)),
	}
	if !slices.Equal(got, want) {
		t.Errorf("announced\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if len(r.Extra) != 1 || r.Extra[0].String() != "dns.test.\t300\tIN\tA\t127.0.0.1" {
		t.Errorf("additional section %v, want the address of dns.test.", r.Extra)
	}
	if r := exchange(t, s, "udp", query("_dns.resolver.arpa.", miekg.TypeA)); r.Rcode != 0 || len(r.Answer) != 0 {
		t.Errorf("another type: %v, want no data", r)
	}
	// Names that do not concern us, and a server with nothing to announce.
	far := start(t, Config{TLS: ours, Listen: ours, Cert: setting.File(cert), Key: setting.File(key), Recursion: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}, nil)
	plain := start(t, Config{Name: "dns.test"}, nil)
	for _, s := range []*Server{far, plain} {
		if r := exchange(t, s, "udp", query("_dns.resolver.arpa.", miekg.TypeSVCB)); len(r.Answer) != 0 {
			t.Errorf("announced %v, want nothing", r.Answer)
		}
	}
}

// client answers each query with its ClientID.
type client struct{ wait bool }

func (c client) Answer(q *dns.Query, r *dns.Reply, t *filter.Transaction) dns.Outcome {
	if c.wait {
		return dns.Later
	}
	return c.Wait(context.Background(), q, r, t)
}

func (client) Wait(_ context.Context, q *dns.Query, r *dns.Reply, _ *filter.Transaction) dns.Outcome {
	r.Record(nil, miekg.TypeTXT, 1, 60, append([]byte{byte(len(q.ClientID))}, q.ClientID...))
	r.Answers++
	return dns.Answered
}

func TestClientsAreKnownByPathAndServerName(t *testing.T) {
	cert, key, pool := certificate(t)
	ours := []string{"127.0.0.1:0"}
	for _, wait := range []bool{false, true} {
		s := start(t, Config{Listen: ours, TLS: ours, HTTPS: ours, QUIC: ours, Cert: setting.File(cert), Key: setting.File(key)}, nil, client{wait})
		config := func(server string, protocols ...string) *tls.Config {
			cfg := &tls.Config{RootCAs: pool, ServerName: server, NextProtos: protocols}
			if server != "dns.test" { // the certificate has no wildcard
				cfg.InsecureSkipVerify = true
			}
			return cfg
		}
		m := query("a.test.", miekg.TypeTXT)
		m.Id = 0
		packed, err := m.Pack()
		if err != nil {
			t.Fatal(err)
		}
		check := func(how string, r *miekg.Msg, want string) {
			t.Helper()
			if len(r.Answer) != 1 || r.Answer[0].(*miekg.TXT).Txt[0] != want {
				t.Errorf("%s (wait %v): got %v, want %q", how, wait, r.Answer, want)
			}
		}
		for server, want := range map[string]string{"dns.test": "", "Phone-1.dns.test": "phone-1", "a.b.dns.test": "", "a_b.dns.test": "", "xdns.test": ""} {
			c := &miekg.Client{Net: "tcp-tls", TLSConfig: config(server, "dot"), Timeout: time.Minute}
			r, _, err := c.Exchange(m, s.at(dns.TLS))
			if err != nil {
				t.Fatal(err)
			}
			check("DoT to "+server, r, want)
			check("DoQ to "+server, overQUIC(t, s.at(dns.QUIC), config(server, "doq"), packed), want)
		}
		for name, rt := range map[string]http.RoundTripper{
			"HTTP/1.1": &http.Transport{TLSClientConfig: config("tablet.dns.test", "http/1.1"), TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{}},
			"HTTP/2":   &http.Transport{TLSClientConfig: config("tablet.dns.test"), ForceAttemptHTTP2: true},
			"HTTP/3":   &http3.Transport{TLSClientConfig: config("tablet.dns.test")},
		} {
			for path, want := range map[string]string{"": "tablet", "/": "tablet", "/Phone-2": "phone-2", "/a/b": "404", "/a_b": "404", "x": "404"} {
				res, err := (&http.Client{Transport: rt, Timeout: time.Minute}).Get("https://" + s.at(dns.HTTPS) + "/dns-query" + path + "?dns=" + base64.RawURLEncoding.EncodeToString(packed))
				if err != nil {
					t.Fatal(err)
				}
				body, _ := io.ReadAll(res.Body)
				res.Body.Close()
				if want == "404" || res.StatusCode != 200 {
					if fmt.Sprint(res.StatusCode) != want {
						t.Errorf("%s %s: status %d, want %s", name, path, res.StatusCode, want)
					}
					continue
				}
				r := new(miekg.Msg)
				if err := r.Unpack(body); err != nil {
					t.Fatal(err)
				}
				check(name+" "+path, r, want)
			}
			rt.(interface{ CloseIdleConnections() }).CloseIdleConnections()
		}
	}
}

// overQUIC sends a query on a new connection.
func overQUIC(t *testing.T, addr string, cfg *tls.Config, msg []byte) *miekg.Msg {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := quic.DialAddr(ctx, addr, cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseWithError(doqNoError, "")
	st, err := c.OpenStreamSync(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.Write(append([]byte{byte(len(msg) >> 8), byte(len(msg))}, msg...)); err != nil {
		t.Fatal(err)
	}
	st.Close()
	b, err := io.ReadAll(st)
	r := new(miekg.Msg)
	if err != nil || len(b) < 2 || r.Unpack(b[2:]) != nil {
		t.Fatalf("reading the reply %x: %v", b, err)
	}
	return r
}

func TestAnswersInJSON(t *testing.T) {
	cert, key, pool := certificate(t)
	cfg := Config{HTTPS: []string{"127.0.0.1:0"}, Cert: setting.File(cert), Key: setting.File(key)}
	without := start(t, cfg, nil)
	cfg.JSON = true
	z := &zone{gate: make(chan struct{})}
	close(z.gate)
	s := start(t, cfg, nil, z)
	for _, h2 := range []bool{false, true} {
		tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "dns.test"}, ForceAttemptHTTP2: h2}
		c := &http.Client{Transport: tr, Timeout: time.Minute}
		get := func(s *Server, query string) (int, string, string) {
			t.Helper()
			res, err := c.Get("https://" + s.at(dns.HTTPS) + "/dns-query?" + query)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			b, err := io.ReadAll(res.Body)
			if err != nil {
				t.Fatal(err)
			}
			return res.StatusCode, res.Header.Get("Content-Type"), string(b)
		}
		if status, _, _ := get(without, "name=blocked.test"); status != 400 {
			t.Errorf("without the setting: status %d, want 400", status)
		}
		status, kind, body := get(s, "name=Blocked.test.&type=a&do=1&cd=true")
		var got map[string]any
		if err := json.Unmarshal([]byte(body), &got); err != nil || status != 200 || kind != "application/dns-json" {
			t.Fatalf("JSON answer: got %d %s %s: %v", status, kind, body, err)
		}
		want := map[string]any{"Status": 3.0, "RD": true, "CD": true, "TC": false}
		for k, v := range want {
			if got[k] != v {
				t.Errorf("%s is %v, want %v in %s", k, got[k], v, body)
			}
		}
		for _, part := range []string{`"Question":[{"name":"blocked.test.","type":1}]`, `"Authority":[{"name":`, `"Comment":"EDE 15 (Blocked): `} {
			if !strings.Contains(body, part) {
				t.Errorf("%s is missing in %s", part, body)
			}
		}
		for query, want := range map[string]int{"name=later.test&type=1": 200, "name=a..b": 400, "name=x.test&type=nonsense": 400, "name=": 400} {
			if status, _, body := get(s, query); status != want {
				t.Errorf("%s: status %d, want %d: %s", query, status, want, body)
			}
		}
		tr.CloseIdleConnections()
	}
}

func FuzzWebRequest(f *testing.F) {
	f.Add("/dns-query?name=example.com&type=AAAA&do=1&cd=1")
	f.Add("/dns-query/phone?name=%2e&type=65535")
	f.Add("/dns-query/a-b?dns=AAABAAABAAAAAAAAA3d3dwdleGFtcGxlA2NvbQAAAQAB")
	l := handlerAt(f, Config{})
	f.Fuzz(func(t *testing.T, target string) {
		x := webRequest{method: "GET", target: target}
		msg, status := x.read(nil, "/dns-query", true)
		if status != http.StatusOK {
			return
		}
		if id := x.clientID; id != "" && !isClientID(id) {
			t.Errorf("the invalid ClientID %q was accepted", id)
		}
		l.q.Transport, l.q.At = dns.HTTPS, time.Now()
		reply, o := l.answer(msg, nil)
		if o != dns.Answered {
			return
		}
		if x.json = true; !json.Valid(x.answered(reply).body) {
			t.Errorf("target %q: the answer is not JSON: %s", target, x.answered(reply).body)
		}
	})
}
