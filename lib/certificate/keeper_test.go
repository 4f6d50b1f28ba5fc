package certificate

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	miekg "github.com/miekg/dns"

	"shuultuur/lib/atomicfile"
	"shuultuur/lib/setting"
	"shuultuur/lib/wait/waittest"
	"shuultuur/test/peer"
)

// A world has what an authority meets: names that lead here, and listeners of ours.
type world struct {
	peer.Pebble
	keeper sync.Map // the one whose answers count
	texts  sync.Map // text records, as name and text
}

func newWorld(t *testing.T, change func(*peer.Pebble)) *world {
	w := &world{}
	w.DNS = "127.0.0.1:" + peer.Port(t)
	p, err := net.Listen("tcp", w.DNS) // as Pebble asks
	if err != nil {
		t.Fatal(err)
	}
	s := &miekg.Server{Listener: p, Handler: miekg.HandlerFunc(w.resolve)}
	go func() { _ = s.ActivateAndServe() }()
	t.Cleanup(func() { _ = s.Shutdown() })
	web := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(rw, w.current().Answer(r.URL.Path))
	}))
	t.Cleanup(web.Close)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{NextProtos: []string{"http/1.1", Protocol}, GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) { return w.current().Certificate(h) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() { _ = http.Serve(l, http.NotFoundHandler()) }()
	_, w.HTTP, _ = net.SplitHostPort(web.Listener.Addr().String())
	_, w.TLS, _ = net.SplitHostPort(l.Addr().String())
	if change != nil {
		change(&w.Pebble)
	}
	w.Start(t)
	return w
}

func (w *world) current() *Keeper {
	k, _ := w.keeper.Load("")
	c, _ := k.(*Keeper)
	return c
}

func (w *world) resolve(rw miekg.ResponseWriter, q *miekg.Msg) {
	m := new(miekg.Msg).SetReply(q)
	name := q.Question[0].Name
	hdr := miekg.RR_Header{Name: name, Rrtype: q.Question[0].Qtype, Class: miekg.ClassINET}
	w.texts.Range(func(r, _ any) bool {
		if r := r.([2]string); r[0] == name && hdr.Rrtype == miekg.TypeTXT {
			m.Answer = append(m.Answer, &miekg.TXT{Hdr: hdr, Txt: []string{r[1]}})
		}
		return true
	})
	if hdr.Rrtype == miekg.TypeA && !strings.HasPrefix(name, "nowhere.") {
		m.Answer = append(m.Answer, &miekg.A{Hdr: hdr, A: net.IPv4(127, 0, 0, 1)})
	}
	_ = rw.WriteMsg(m)
}

// Publishes and Publish implement Zones.
func (w *world) Publishes(name string) bool { return strings.HasSuffix(name, ".example") }

func (w *world) Publish(_ context.Context, name, text string) (func(context.Context) error, error) {
	r := [2]string{name + ".", text}
	w.texts.Store(r, true)
	return func(context.Context) error { w.texts.Delete(r); return nil }, nil
}

// keep makes a keeper in a data folder.
func (w *world) keep(t *testing.T, folder string, cfg Config, change func(*Parts)) *Keeper {
	t.Helper()
	cfg.Directory, cfg.AcceptTerms = w.Directory, true
	cfg.Root = setting.File(w.Root)
	return keepIn(t, w, folder, cfg, change)
}

func keepIn(t *testing.T, w *world, folder string, cfg Config, change func(*Parts)) *Keeper {
	t.Helper()
	parts := Parts{Folder: folder, Client: &http.Client{Transport: &http.Transport{}}, Zones: func() Zones { return w }, Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	if change != nil {
		change(&parts)
	}
	k, err := New(cfg, parts)
	if err != nil {
		t.Fatal(err)
	}
	w.keeper.Store("", k)
	return k
}

// shown returns the certificate that a client is shown.
func (w *world) shown(t *testing.T, name string) *x509.Certificate {
	t.Helper()
	c, err := tls.Dial("tcp", "127.0.0.1:"+w.TLS, &tls.Config{ServerName: name, InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.ConnectionState().PeerCertificates[0]
}

// trusted reports whether browsers would trust what a client is shown.
func (w *world) trusted(t *testing.T, name string) error {
	t.Helper()
	c, err := tls.Dial("tcp", "127.0.0.1:"+w.TLS, &tls.Config{ServerName: name, RootCAs: w.Roots(t)})
	if err != nil {
		return err
	}
	return c.Close()
}

// run runs a keeper until the returned function is called.
func run(t *testing.T, k *Keeper) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- k.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func TestEachChallengeBringsACertificate(t *testing.T) {
	w := newWorld(t, nil)
	for _, c := range []struct {
		name   string
		cfg    Config
		change func(*Parts)
	}{
		{"http-01", Config{Names: []string{"a.example", "b.example"}, Challenge: byHTTP}, nil},
		{"tls-alpn-01", Config{Names: []string{"c.example"}, Challenge: byTLS, Key: "rsa"}, nil},
		{"dns-01, with all names below", Config{Names: []string{"d.example", "*.d.example"}, Challenge: byDNS}, nil},
		{"an address", Config{Names: []string{"127.0.0.1"}, Challenge: byHTTP}, nil},
		{"what the listeners can", Config{Names: []string{"e.example"}, Contact: []string{"olga@e.example"}}, func(p *Parts) { p.TLS = true }},
		{"what the zones can", Config{Names: []string{"f.example"}}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := w.keep(t, t.TempDir(), c.cfg, c.change)
			name := c.cfg.Names[0]
			before := w.shown(t, name)
			if !provisional(before) || before.VerifyHostname(name) != nil {
				t.Errorf("before the first one arrives, a client sees one of %s; want one of our own for %s", before.Issuer, name)
			}
			defer run(t, k)()
			waittest.Until(t, "a certificate arrives", func() bool { return !k.Status().Until.IsZero() || k.Status().Failed > 0 })
			s := k.Status()
			if s.Failed > 0 {
				t.Fatalf("the order failed: %s", s.Error)
			}
			if err := w.trusted(t, name); err != nil && !strings.Contains(name, "127") {
				t.Errorf("a browser: %v", err)
			}
			if s.Renewal.Before(time.Now().Add(59*24*time.Hour)) || s.Renewal.After(s.Until) || len(k.Problems()) > 0 {
				t.Errorf("it is renewed at %s of %s, problems %q", s.Renewal, s.Until, k.Problems())
			}
			if len(k.inFlight)+len(k.inHello) > 0 {
				t.Error("answers to challenges are left behind")
			}
			w.texts.Range(func(name, _ any) bool { t.Errorf("%s is left behind", name); return true })
		})
	}
}

// TestARestartKeepsAccountAndCertificate: no order at each start, files that only we read, and a damaged
// one is asked for again.
func TestARestartKeepsAccountAndCertificate(t *testing.T) {
	w := newWorld(t, nil)
	folder, cfg := t.TempDir(), Config{Names: []string{"a.example"}, Challenge: byHTTP}
	first := w.keep(t, folder, cfg, nil)
	stop := run(t, first)
	waittest.Until(t, "a certificate arrives", func() bool { return !first.Status().Until.IsZero() })
	stop()
	serial, key := w.shown(t, "a.example").SerialNumber, first.account.Key
	next := w.keep(t, folder, cfg, nil)
	if got := w.shown(t, "a.example").SerialNumber; got.Cmp(serial) != 0 || string(next.account.Key) != string(key) {
		t.Errorf("after a restart, certificate %x and an account that is the same: %v; want %x and true", got, string(next.account.Key) == string(key), serial)
	}
	if wait := next.wait(time.Now()); wait < 24*time.Hour {
		t.Errorf("the next order after a restart is in %s", wait)
	}
	for _, file := range []string{next.files.accountFile(), next.files.pairFile()} {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", file, info.Mode(), err)
		}
	}
	for _, damage := range []func([]byte) []byte{
		func(b []byte) []byte { return nil },
		func(b []byte) []byte { return b[:len(b)/2] },
		func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
	} {
		data, err := os.ReadFile(next.files.pairFile())
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(next.files.pairFile(), damage(data), 0o600); err != nil {
			t.Fatal(err)
		}
		k := w.keep(t, folder, cfg, nil)
		if got := w.shown(t, "a.example"); !provisional(got) || k.wait(time.Now()) > 0 {
			t.Errorf("with a damaged file, %s is shown and the next order is in %s", got.Issuer, k.wait(time.Now()))
		}
		stop := run(t, k)
		waittest.Until(t, "a certificate arrives", func() bool { return !k.Status().Until.IsZero() })
		stop()
	}
	aside, _ := filepath.Glob(next.files.pairFile() + "*")
	n := 0
	for _, file := range aside {
		if atomicfile.AsideOf(file) != "" {
			n++
		}
	}
	if n != 3 {
		t.Errorf("files beside the certificate: %q; want 3 that were set aside", aside)
	}
}

// TestAShortCertificateIsRenewedInTime: one of few seconds is renewed while it is good, by one order at a
// time, over a change of the settings, too.
func TestAShortCertificateIsRenewedInTime(t *testing.T) {
	w := newWorld(t, func(p *peer.Pebble) { p.Life = 20 * time.Second })
	folder := t.TempDir()
	k := w.keep(t, folder, Config{Names: []string{"a.example"}, Challenge: byHTTP}, nil)
	stop := run(t, k)
	waittest.Until(t, "a certificate arrives", func() bool { return !k.Status().Until.IsZero() })
	first := k.Status().Until
	waittest.Until(t, "it is renewed", func() bool { return k.Status().Until.After(first) })
	if time.Now().After(first) {
		t.Errorf("it was renewed at %s and had ended at %s", time.Now(), first)
	}
	next := w.keep(t, folder, Config{Names: []string{"a.example", "b.example"}, Challenge: byHTTP}, func(p *Parts) { p.Previous = k })
	stopNext := run(t, next)
	if got := w.shown(t, "a.example"); provisional(got) {
		t.Error("with another name, what is in use is given up before the next one arrives")
	}
	stop()
	waittest.Until(t, "the other name is in it", func() bool { return w.shown(t, "b.example").VerifyHostname("b.example") == nil })
	stopNext()
}

// TestAFailedOrderKeepsTheCertificate: the authority's words are a problem, orders wait longer each time,
// over a restart, too, and other settings are tried at once.
func TestAFailedOrderKeepsTheCertificate(t *testing.T) {
	w := newWorld(t, nil)
	folder := t.TempDir()
	k := w.keep(t, folder, Config{Names: []string{"a.example"}, Challenge: byHTTP}, nil)
	k.try(t.Context())
	serial := w.shown(t, "a.example").SerialNumber
	bad := Config{Names: []string{"a.example", "nowhere.example"}, Challenge: byHTTP}
	k = w.keep(t, folder, bad, nil)
	k.try(t.Context())
	if got := w.shown(t, "a.example").SerialNumber; got.Cmp(serial) != 0 {
		t.Error("a failed order takes the certificate away")
	}
	first := k.wait(time.Now())
	if all := strings.Join(k.Problems(), "\n"); !strings.Contains(all, "nowhere.example") || !strings.Contains(all, "asked again") || first <= 0 || first > 15*time.Minute {
		t.Errorf("the problem is %q, and the next order in %s", all, first)
	}
	k.try(t.Context())
	if second := k.wait(time.Now()); second <= first {
		t.Errorf("the third order is in %s, the second was in %s", second, first)
	}
	if k = w.keep(t, folder, bad, nil); k.wait(time.Now()) <= first || len(k.Problems()) == 0 {
		t.Errorf("after a restart, the next order is in %s and the problems are %q", k.wait(time.Now()), k.Problems())
	}
	if k = w.keep(t, folder, Config{Names: []string{"b.example"}, Challenge: byHTTP}, nil); k.wait(time.Now()) > 0 {
		t.Errorf("other settings wait for %s", k.wait(time.Now()))
	}
}

// TestAnAccountThatExistsIsBound: authorities with customers give certificates to those who have the key.
func TestAnAccountThatExistsIsBound(t *testing.T) {
	secret := base64.RawURLEncoding.EncodeToString([]byte("0123456789abcdef0123456789abcdef"))
	w := newWorld(t, func(p *peer.Pebble) { p.Customers = map[string]string{"customer": secret} })
	for _, c := range []struct {
		name string
		of   *Binding
		want bool
	}{{"none", nil, false}, {"another", &Binding{"other", secret}, false}, {"ours", &Binding{"customer", secret}, true}} {
		k := w.keep(t, t.TempDir(), Config{Names: []string{"a.example"}, Challenge: byHTTP, Binding: c.of}, nil)
		k.try(t.Context())
		if s := k.Status(); s.Until.IsZero() == c.want {
			t.Errorf("%s: until %s, %s", c.name, s.Until, s.Error)
		}
	}
}

// TestAWrongClockOrdersNothing: by a clock that is years ahead each certificate has ended.
func TestAWrongClockOrdersNothing(t *testing.T) {
	w := newWorld(t, nil)
	folder, cfg := t.TempDir(), Config{Names: []string{"a.example"}, Challenge: byHTTP}
	k := w.keep(t, folder, cfg, nil)
	k.try(t.Context())
	serial := w.shown(t, "a.example").SerialNumber
	wrong := func(p *Parts) { p.Now = func() time.Time { return time.Now().Add(3 * 365 * 24 * time.Hour) } }
	k = w.keep(t, folder, cfg, wrong)
	if k.wait(k.parts.Now()) > 0 {
		t.Fatal("the certificate has not ended by the wrong clock")
	}
	k.try(t.Context())
	if s := k.Status(); !strings.Contains(s.Error, "clock") || w.shown(t, "a.example").SerialNumber.Cmp(serial) != 0 {
		t.Errorf("with a wrong clock: %+v", s)
	}
	if k = w.keep(t, folder, cfg, nil); k.wait(time.Now()) < 24*time.Hour {
		t.Errorf("when the clock is right, the next order is in %s, since a moment of the wrong clock counts", k.wait(time.Now()))
	}
}

// TestAnAuthorityThatMisbehaves: one that hangs, limits, and answers nonsense or without end.
func TestAnAuthorityThatMisbehaves(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer http.HandlerFunc
		want   string
		least  time.Duration
	}{
		{"nonsense", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>hello") }, "asking", 0},
		{"empty", func(http.ResponseWriter, *http.Request) {}, "asking", 0},
		{"without end", func(w http.ResponseWriter, _ *http.Request) {
			for _, err := w.Write([]byte(`{"newNonce":"`)); err == nil; {
				_, err = w.Write(make([]byte, 1<<16))
			}
		}, "asking", 0},
		{"an error without end", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			for _, err := w.Write([]byte("\x1b[31m")); err == nil; {
				_, err = w.Write([]byte(strings.Repeat("no ", 1<<14)))
			}
		}, "no no", 0},
		{"limited", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7200")
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = io.WriteString(w, `{"type":"urn:ietf:params:acme:error:rateLimited","detail":"too many certificates"}`)
		}, "too many certificates", 119 * time.Minute},
		{"busy", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "99999999")
			w.WriteHeader(http.StatusServiceUnavailable)
		}, "503", 24 * time.Hour},
		{"hanging", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "deadline", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := httptest.NewTLSServer(c.answer)
			defer s.Close()
			w := &world{}
			k := keepIn(t, w, t.TempDir(), Config{Names: []string{"a.example"}, Directory: s.URL, Challenge: byHTTP}, func(p *Parts) { p.Client = s.Client() })
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			_, _, err := k.order(ctx)
			if err == nil {
				t.Fatal("there is a certificate")
			}
			k.fail(err)
			st := k.Status()
			if !strings.Contains(st.Error, c.want) || len(st.Error) > 700 || strings.ContainsRune(st.Error, 0x1b) {
				t.Errorf("the reason is %q, want %q in it", st.Error, c.want)
			}
			if wait := k.wait(time.Now()); wait < c.least || wait > longestWait {
				t.Errorf("the next order is in %s, want at least %s", wait, c.least)
			}
			if k.pair == nil {
				t.Error("nothing is served")
			}
		})
	}
}

func TestMistakesInTheSettings(t *testing.T) {
	for _, c := range []struct {
		name string
		cfg  Config
		want string
	}{
		{"no names", Config{AcceptTerms: true}, "names"},
		{"no name", Config{AcceptTerms: true, Names: []string{"a b"}}, "names[0]"},
		{"the same twice", Config{AcceptTerms: true, Names: []string{"a.example", "A.example."}}, "twice"},
		{"terms", Config{Names: []string{"a.example"}}, "accept-terms"},
		{"no TLS", Config{Names: []string{"a.example"}, Directory: "http://ca.example/"}, "https"},
		{"all names by a listener", Config{AcceptTerms: true, Names: []string{"*.a.example"}, Challenge: byHTTP}, "dns-01"},
		{"an address by a zone", Config{AcceptTerms: true, Names: []string{"192.0.2.1"}, Challenge: byDNS}, "http-01"},
		{"an unknown challenge", Config{AcceptTerms: true, Names: []string{"a.example"}, Challenge: "mail"}, "tls-alpn-01"},
		{"an unknown key", Config{AcceptTerms: true, Names: []string{"a.example"}, Key: "dsa"}, "ecdsa"},
		{"a contact", Config{AcceptTerms: true, Names: []string{"a.example"}, Contact: []string{"olga"}}, "mail address"},
		{"a key of no form", Config{AcceptTerms: true, Names: []string{"a.example"}, Binding: &Binding{"x", "!"}}, "base64url"},
		{"a root that is not there", Config{Names: []string{"a.example"}, Directory: "https://ca.example/", Root: "none.pem"}, "none.pem"},
	} {
		if _, err := New(c.cfg, Parts{Client: &http.Client{Transport: &http.Transport{}}}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q in it", c.name, err, c.want)
		}
	}
}

// TestACertificateOfOurRootIsShownFirst: people whose devices trust it see no warning meanwhile.
func TestACertificateOfOurRootIsShownFirst(t *testing.T) {
	ours := &tls.Certificate{}
	k, err := New(Config{Names: []string{"a.example"}, AcceptTerms: true}, Parts{Folder: t.TempDir(), Client: &http.Client{Transport: &http.Transport{}}, Log: slog.New(slog.DiscardHandler),
		Root: func(name string) (*tls.Certificate, error) {
			if name == "a.example" {
				return ours, nil
			}
			return nil, errors.New("not permitted")
		}})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"a.example": true, "A.Example.": true, "other.example": false, "": false} {
		if c, err := k.Certificate(&tls.ClientHelloInfo{ServerName: name}); err != nil || (c == ours) != want {
			t.Errorf("for %q: by the root %v, %v; want %v", name, c == ours, err, want)
		}
	}
	if c, err := k.Certificate(&tls.ClientHelloInfo{ServerName: "a.example", SupportedProtos: []string{Protocol}}); err == nil {
		t.Errorf("without a challenge, its handshake gets %v", c)
	}
}

// TestAnAuthorityIsKilledAndReturns: what is in use stays meanwhile, and the one that returns knows nobody.
func TestAnAuthorityIsKilledAndReturns(t *testing.T) {
	w := newWorld(t, nil)
	folder := t.TempDir()
	k := w.keep(t, folder, Config{Names: []string{"a.example"}, Challenge: byHTTP}, nil)
	k.try(t.Context())
	serial := w.shown(t, "a.example").SerialNumber
	w.Kill()
	k.try(t.Context())
	if s := k.Status(); s.Failed != 1 || w.shown(t, "a.example").SerialNumber.Cmp(serial) != 0 {
		t.Errorf("while it is away: %+v", s)
	}
	w.Start(t)
	k.try(t.Context())
	if s := k.Status(); s.Failed > 0 || w.shown(t, "a.example").SerialNumber.Cmp(serial) == 0 || w.trusted(t, "a.example") != nil || len(k.Problems()) > 0 {
		t.Errorf("when it is back: %+v", s)
	}
}

// TestRemarksSayWhatAnAuthorityWillStumbleOver: names that lead nowhere or elsewhere, and challenges that
// nothing answers.
func TestRemarksSayWhatAnAuthorityWillStumbleOver(t *testing.T) {
	look := func(_ context.Context, name string) ([]netip.Addr, error) {
		switch name {
		case "here.example":
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
		case "away.example":
			return []netip.Addr{netip.MustParseAddr("192.0.2.9")}, nil
		}
		return nil, errors.New("no such host")
	}
	for _, c := range []struct {
		name      string
		challenge string
		http      bool
		want      string
	}{
		{"here.example", "", true, ""},
		{"here.example", "", false, "nothing here can prove"},
		{"away.example", "", true, "192.0.2.9"},
		{"away.example", byTLS, false, "port 443"},
		{"away.example", byDNS, false, ""},
		{"nowhere.example", "", true, "has no address"},
		{"192.0.2.1", "", true, ""},
		{"*.here.example", "", true, "dns-01"},
	} {
		k, err := New(Config{Names: []string{c.name}, AcceptTerms: true, Challenge: c.challenge}, Parts{Client: &http.Client{Transport: &http.Transport{}}, HTTP: c.http})
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(k.Remarks(t.Context(), look), "\n")
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s by %q: %q, want %q in it", c.name, c.challenge, got, c.want)
		}
	}
}
