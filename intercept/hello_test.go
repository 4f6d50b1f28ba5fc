package intercept

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"
)

// tlsHello returns the bytes of a hello as crypto/tls sends it.
func tlsHello(tb testing.TB, cfg *tls.Config) []byte {
	tb.Helper()
	a, b := net.Pipe()
	defer a.Close()
	go func() {
		_ = tls.Client(b, cfg).Handshake() // it fails; only its hello is needed
		b.Close()
	}()
	if err := a.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		tb.Fatal(err)
	}
	var message []byte // without the record headers
	for len(message) < 4 || len(message) < 4+int(message[1])<<16+int(message[2])<<8+int(message[3]) {
		head := make([]byte, 5)
		if _, err := io.ReadFull(a, head); err != nil {
			tb.Fatal(err)
		}
		body := make([]byte, int(head[3])<<8|int(head[4]))
		if _, err := io.ReadFull(a, body); err != nil {
			tb.Fatal(err)
		}
		message = append(message, body...)
	}
	return inRecords(message, 1<<14)
}

// inRecords puts a handshake message into records of n bytes at most.
func inRecords(message []byte, n int) []byte {
	var out []byte
	for len(message) > 0 {
		k := min(n, len(message))
		out = append(out, 22, 3, 1, byte(k>>8), byte(k))
		out = append(out, message[:k]...)
		message = message[k:]
	}
	return out
}

func vec(bytes int, parts ...[]byte) []byte {
	body := slices.Concat(parts...)
	var out []byte
	for i := bytes - 1; i >= 0; i-- {
		out = append(out, byte(len(body)>>(8*i)))
	}
	return append(out, body...)
}

func u16(values ...uint16) (out []byte) {
	for _, v := range values {
		out = append(out, byte(v>>8), byte(v))
	}
	return out
}

func ext(kind uint16, body []byte) []byte { return append(u16(kind), vec(2, body)...) }

func sni(name string) []byte { return ext(0, vec(2, []byte{0}, vec(2, []byte(name)))) }

// rawHello returns the handshake message of a made-up hello.
func rawHello(version uint16, ciphers []uint16, exts ...[]byte) []byte {
	body := slices.Concat(u16(version), make([]byte, 32), vec(1, make([]byte, 32)), vec(2, u16(ciphers...)), vec(1, []byte{0}))
	if len(exts) > 0 {
		body = append(body, vec(2, exts...)...)
	}
	return append([]byte{1}, vec(3, body)...)
}

func sniff(tb testing.TB, wire []byte) (*Hello, error) {
	tb.Helper()
	var s Sniffer
	done, err := s.Feed(wire)
	if err != nil {
		return nil, err
	}
	if !done {
		tb.Fatalf("Feed does not find the end of a hello of %d bytes", len(wire))
	}
	h, err := s.Hello()
	if err != nil {
		return nil, err
	}
	return h, nil
}

func TestHelloSaysWhatTheClientOffers(t *testing.T) {
	h, err := sniff(t, tlsHello(t, &tls.Config{ServerName: "WWW.Example.test", NextProtos: []string{"h2", "http/1.1"}}))
	if err != nil {
		t.Fatal(err)
	}
	if h.Host != "www.example.test" || !slices.Equal(h.Protocols, []string{"h2", "http/1.1"}) {
		t.Errorf("the hello has the host %q, protocols %q", h.Host, h.Protocols)
	}
	if h.Version() != tls.VersionTLS13 || !slices.Contains(h.Versions, tls.VersionTLS12) {
		t.Errorf("the hello has the versions %x, want TLS 1.3 and 1.2", h.Versions)
	}
	if !isPostQuantum(h) || !slices.Contains(h.Groups, uint16(tls.X25519MLKEM768)) {
		t.Errorf("the hello has the key shares %x, groups %x; want X25519MLKEM768", h.KeyShares, h.Groups)
	}
	if !slices.Contains(h.Ciphers, tls.TLS_AES_128_GCM_SHA256) || h.ECH || h.PSK || h.Ticket {
		t.Errorf("the hello of crypto/tls reads %+v", h)
	}
}

func TestHelloWithoutTheLatest(t *testing.T) {
	h, err := sniff(t, tlsHello(t, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12, CurvePreferences: []tls.CurveID{tls.CurveP256}}))
	if err != nil {
		t.Fatal(err)
	}
	if h.Host != "" || h.Version() != tls.VersionTLS12 || isPostQuantum(h) || h.Protocols != nil {
		t.Errorf("a TLS 1.2 hello without extensions reads %+v", h)
	}
	if ja4 := h.JA4(); !strings.HasPrefix(ja4, "t12i") || !strings.Contains(ja4, "00_") {
		t.Errorf("JA4 %s", ja4)
	}
	bare, err := sniff(t, inRecords(rawHello(0x0301, []uint16{0x2f}), 100))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := bare.JA4(), "t10i010000_"; !strings.HasPrefix(got, want) || !strings.HasSuffix(got, "_000000000000") {
		t.Errorf("JA4 of a hello without extensions: %s", got)
	}
}

func TestHelloIsTheSameHoweverItIsSplit(t *testing.T) {
	wire := tlsHello(t, &tls.Config{ServerName: "split.test", NextProtos: []string{"h2"}})
	if len(wire) < 1500 {
		t.Fatalf("the hello has only %d bytes, too few for this test", len(wire))
	}
	whole, err := sniff(t, wire)
	if err != nil {
		t.Fatal(err)
	}
	message := wire[5:]
	for _, records := range []int{1, 3, 100, 1000, 1 << 14} {
		wire := append(inRecords(message, records), "what follows"...)
		for _, segment := range []int{1, 2, 7, 512, 1460} {
			var s Sniffer
			buf := make([]byte, segment) // the buffer is used again, as a connection's is
			done := false
			for rest := wire; !done; {
				n := copy(buf, rest)
				rest = rest[n:]
				if done, err = s.Feed(buf[:n]); err != nil || n == 0 {
					t.Fatalf("records of %d bytes, segments of %d: Feed returned %v, %v", records, segment, done, err)
				}
			}
			h, err := s.Hello()
			if err != nil || h.JA4() != whole.JA4() || h.Host != "split.test" {
				t.Errorf("records of %d bytes, segments of %d: the hello reads %v, %v", records, segment, h, err)
			}
		}
	}
}

func TestHelloUpToTheLimit(t *testing.T) {
	padding := func(n int) []byte { return ext(21, make([]byte, n)) }
	message := rawHello(0x0303, []uint16{0x1301}, sni("big.test"), padding(1<<16-200))
	if len(message) > MaxHello {
		t.Fatalf("the hello has %d bytes, more than MaxHello", len(message))
	}
	h, err := sniff(t, inRecords(message, 1<<14))
	if err != nil || h.Host != "big.test" {
		t.Errorf("a hello of %d bytes reads %v, %v", len(message), h, err)
	}
	if _, err := sniff(t, []byte{22, 3, 1, 0, 4, 1, 1, 0, 1}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a hello that announces 65,541 bytes: %v, want ErrTooLarge", err)
	}
	var s Sniffer
	if _, err := s.Feed(inRecords(message[:1<<15], 1)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("endless tiny records: %v, want ErrTooLarge", err)
	}
	if _, again := s.Feed([]byte{1}); again == nil {
		t.Error("Feed returns no error after an earlier one")
	}
}

func TestHelloRefused(t *testing.T) {
	tls13 := []uint16{0x1301}
	for _, c := range []struct {
		name string
		wire []byte
		want error
	}{
		{"HTTP", []byte("GET / HTTP/1.1\r\n"), ErrNotHello},
		{"SSH", []byte("SSH-2.0-x\r\n"), ErrNotHello},
		{"SSL 2", []byte{0x80, 0x2e, 1, 0, 2}, ErrNotHello},
		{"record of another version", []byte{22, 2}, ErrNotHello},
		{"server hello", []byte{22, 3, 3, 0, 4, 2, 0, 0, 0}, ErrNotHello},
		{"empty record", []byte{22, 3, 1, 0, 0}, ErrMalformed},
		{"record too long", []byte{22, 3, 1, 0x40, 1}, ErrMalformed},
		{"nothing in it", inRecords([]byte{1, 0, 0, 0}, 99), ErrMalformed},
		{"odd ciphers", inRecords(append([]byte{1}, vec(3, u16(0x303), make([]byte, 32), []byte{0}, vec(2, []byte{1}), vec(1, []byte{0}))...), 999), ErrMalformed},
		{"two names", inRecords(rawHello(0x303, tls13, ext(0, vec(2, []byte{0}, vec(2, []byte("a.test")), []byte{0}, vec(2, []byte("b.test"))))), 999), ErrMalformed},
		{"two lists of names", inRecords(rawHello(0x303, tls13, sni("a.test"), sni("b.test")), 999), ErrMalformed},
		{"same extension twice", inRecords(rawHello(0x303, tls13, ext(35, nil), ext(35, nil)), 999), ErrMalformed},
		{"no name in the list", inRecords(rawHello(0x303, tls13, ext(0, vec(2))), 999), ErrMalformed},
		{"empty name", inRecords(rawHello(0x303, tls13, sni("")), 999), ErrMalformed},
		{"line break in the name", inRecords(rawHello(0x303, tls13, sni("a\nb.test")), 999), ErrMalformed},
		{"bytes behind the name", inRecords(rawHello(0x303, tls13, ext(0, append(vec(2, []byte{0}, vec(2, []byte("a.test"))), 0))), 999), ErrMalformed},
		{"cut extension", inRecords(rawHello(0x303, tls13, []byte{0, 10, 0, 9, 0}), 999), ErrMalformed},
		{"groups of half a number", inRecords(rawHello(0x303, tls13, ext(10, vec(2, []byte{1}))), 999), ErrMalformed},
		{"bytes behind the extensions", inRecords(append([]byte{1}, vec(3, rawHello(0x303, tls13, sni("a.test"))[4:], []byte{0})...), 999), ErrMalformed},
	} {
		if _, err := sniff(t, c.wire); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, err, c.want)
		}
	}
	var s Sniffer
	if _, err := s.Hello(); err == nil {
		t.Error("Hello returns no error before Feed")
	}
}

func TestHelloWithECHTicketAndPSK(t *testing.T) {
	h, err := sniff(t, inRecords(rawHello(0x0303, []uint16{0x1301, 0x0a0a},
		ext(0x1a1a, nil), sni("outer.test."),
		ext(extECH, []byte{0, 0, 1, 0, 1, 7, 0, 0, 0, 0}),
		ext(extSessionTicket, []byte("ticket")),
		ext(extKeyShare, vec(2, u16(0x2a2a), vec(2, []byte{0}), u16(0x11ec), vec(2, make([]byte, 1216)))),
		ext(extPreSharedKey, []byte{0}),
	), 1<<14))
	if err != nil {
		t.Fatal(err)
	}
	if !h.ECH || !h.Ticket || !h.PSK || !isPostQuantum(h) || h.Host != "outer.test" {
		t.Errorf("the hello reads %+v, want ECH, a ticket, a PSK and the outer host", h)
	}
	if !slices.Equal(h.Ciphers, []uint16{0x1301}) || slices.ContainsFunc(h.Extensions, grease) || len(h.KeyShares) != 1 {
		t.Errorf("the hello still has GREASE values: %+v", h)
	}
	if none, err := sniff(t, inRecords(rawHello(0x0303, nil, ext(extSessionTicket, nil)), 999)); err != nil || none.Ticket {
		t.Errorf("an empty session_ticket extension reads %+v, %v; want no ticket", none, err)
	}
}

// The example is that of the public description of JA4.
func TestJA4PublishedExample(t *testing.T) {
	ciphers := []uint16{0x2a2a, 0x1301, 0x1302, 0x1303, 0xc02b, 0xc02f, 0xc02c, 0xc030, 0xcca9, 0xcca8, 0xc013, 0xc014, 0x009c, 0x009d, 0x002f, 0x0035}
	signatures := ext(extSignatures, vec(2, u16(0x0403, 0x0804, 0x0401, 0x0503, 0x0805, 0x0501, 0x0806, 0x0601)))
	exts := [][]byte{
		ext(0x8a8a, nil), ext(0x001b, nil), sni("example.test"), ext(extKeyShare, vec(2)), ext(extProtocols, vec(2, vec(1, []byte("h2")), vec(1, []byte("http/1.1")))),
		ext(0x4469, nil), ext(0x0017, nil), ext(0x002d, nil), signatures, ext(0x0005, nil), ext(0x0023, nil), ext(0x0012, nil),
		ext(extSupportedVersions, vec(1, u16(0xfafa, 0x0304, 0x0303))), ext(0xff01, nil), ext(extSupportedGroups, vec(2, u16(0x1d))), ext(0x000b, nil), ext(0x0015, nil), ext(0xeaea, []byte{0}),
	}
	h, err := sniff(t, inRecords(rawHello(0x0303, ciphers, exts...), 1<<14))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := h.JA4(), "t13d1516h2_8daaf6152771_e5627efa2ab1"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	h.Signatures = nil
	if got, want := h.JA4(), "t13d1516h2_8daaf6152771_6d807ffa2a79"; got != want {
		t.Errorf("without signature algorithms: got %s, want %s", got, want)
	}
	h.Ciphers = make([]uint16, 200)
	if got, want := h.JA4(), "t13d9916h2"; !strings.HasPrefix(got, want) {
		t.Errorf("the JA4 of 200 ciphers is %s", got)
	}
}

func TestJA4ProtocolEnds(t *testing.T) {
	for _, c := range []struct{ protocol, want string }{
		{"h2", "h2"}, {"http/1.1", "h1"}, {"", "00"}, {"x", "xx"},
		{"\xab", "ab"}, {"\xab\xcd", "ad"}, {"0\xab", "3b"}, {"01\xab\xcd", "3d"}, {"0\xab\xcd1", "01"},
	} {
		if got := string(appendEnds(nil, []string{c.protocol})); got != c.want {
			t.Errorf("%q: got %s, want %s", c.protocol, got, c.want)
		}
	}
}

// replay is a connection that yields given bytes and ignores writes.
type replay struct {
	net.Conn
	*bytes.Reader
}

func (r replay) Read(p []byte) (int, error)       { return r.Reader.Read(p) }
func (r replay) Write(p []byte) (int, error)      { return len(p), nil }
func (r replay) Close() error                     { return nil }
func (r replay) SetDeadline(time.Time) error      { return nil }
func (r replay) SetWriteDeadline(time.Time) error { return nil }

// FuzzHello checks that the result does not depend on the segments, and that crypto/tls reads
// the same name and protocols. Otherwise a client could show us one host and the server
// another.
func FuzzHello(f *testing.F) {
	f.Add(tlsHello(f, &tls.Config{ServerName: "www.example.test", NextProtos: []string{"h2"}}), 3)
	f.Add(tlsHello(f, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12}), 1)
	f.Add(inRecords(rawHello(0x303, []uint16{0x1301}, sni("a.test"), ext(extKeyShare, vec(2, u16(0x1d), vec(2, make([]byte, 32))))), 9), 7)
	f.Add([]byte("GET / HTTP/1.1\r\n"), 2)
	f.Fuzz(func(t *testing.T, wire []byte, segment int) {
		var whole, parts Sniffer
		done, err := whole.Feed(wire)
		segment = max(1, segment%4096)
		for rest := wire; len(rest) > 0; {
			p := bytes.Clone(rest[:min(segment, len(rest))])
			rest = rest[len(p):]
			if d, _ := parts.Feed(p); d && len(rest) > 0 {
				break
			}
			if parts.err == nil && !parts.done {
				clear(p) // Feed must not need these bytes any more
			}
		}
		if parts.done != done || !errors.Is(parts.err, errors.Unwrap(err)) {
			t.Fatalf("in one piece: %v, %v; in parts: %v, %v", done, err, parts.done, parts.err)
		}
		if !done {
			return
		}
		h, err := whole.Hello()
		if err != nil {
			return
		}
		if g, err := parts.Hello(); err != nil || g.JA4() != h.JA4() || g.Host != h.Host {
			t.Fatalf("in one piece: %+v; in parts: %+v, %v", h, g, err)
		}
		if len(h.JA4()) != 36 {
			t.Fatalf("JA4 %q, want 36 characters", h.JA4())
		}
		var info *tls.ClientHelloInfo
		_ = tls.Server(replay{nil, bytes.NewReader(wire)}, &tls.Config{GetConfigForClient: func(i *tls.ClientHelloInfo) (*tls.Config, error) {
			info = i
			return nil, io.EOF
		}}).Handshake()
		if info != nil && (strings.ToLower(strings.TrimSuffix(info.ServerName, ".")) != h.Host || !slices.Equal(info.SupportedProtos, h.Protocols)) {
			t.Fatalf("crypto/tls reads %q %q, we read %q %q", info.ServerName, info.SupportedProtos, h.Host, h.Protocols)
		}
	})
}

func BenchmarkHelloJA4(b *testing.B) {
	wire := tlsHello(b, &tls.Config{ServerName: "www.example.test", NextProtos: []string{"h2", "http/1.1"}})
	b.ReportAllocs()
	for b.Loop() {
		var s Sniffer
		if done, _ := s.Feed(wire); !done {
			b.Fatal("Feed does not find the end of the hello")
		}
		h, err := s.Hello()
		if err != nil {
			b.Fatal(err)
		}
		h.JA4()
	}
}

// isPostQuantum reports whether a hello has a key share of X25519MLKEM768.
func isPostQuantum(h *Hello) bool { return slices.Contains(h.KeyShares, uint16(tls.X25519MLKEM768)) }
