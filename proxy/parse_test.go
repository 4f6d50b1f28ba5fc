package proxy

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"shuultuur/message"
)

// clientHello returns the bytes of a hello as crypto/tls sends it.
func clientHello(name string, protos ...string) []byte {
	a, b := net.Pipe()
	defer a.Close()
	go func() {
		tls.Client(b, &tls.Config{ServerName: name, InsecureSkipVerify: true, NextProtos: protos}).Handshake()
		b.Close()
	}()
	a.SetDeadline(time.Now().Add(5 * time.Second))
	var hello []byte // the handshake message, out of its records
	for len(hello) < 4 || len(hello) < 4+int(hello[1])<<16+int(hello[2])<<8+int(hello[3]) {
		head := make([]byte, 5)
		io.ReadFull(a, head)
		body := make([]byte, int(head[3])<<8|int(head[4]))
		io.ReadFull(a, body)
		hello = append(hello, body...)
	}
	return append([]byte{22, 3, 1, byte(len(hello) >> 8), byte(len(hello))}, hello...)
}

func TestPROXYHeaders(t *testing.T) {
	const v2head = proxyV2
	for _, tt := range []struct {
		in   string
		from string // "" invalid
		n    int
		bad  bool
	}{
		{"PROXY TCP4 192.0.2.7 198.51.100.1 1234 80\r\nGET", "192.0.2.7:1234", 43, false},
		{"PROXY TCP6 2001:db8::1 2001:db8::2 1234 80\r\n", "[2001:db8::1]:1234", 44, false},
		{"PROXY TCP6 ::ffff:192.0.2.7 ::ffff:192.0.2.8 1 2\r\n", "192.0.2.7:1", 50, false},
		{"PROXY UNKNOWN\r\n", "", 15, false},
		{"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n", "", 35, false},
		{"PROXY TCP4 192.0.2.7", "", 0, false},
		{"P", "", 0, false},
		{"POST http://x/ HTTP/1.1", "", -1, false},
		{"", "", -1, false},
		{"PROXY TCP4 192.0.2.7 198.51.100.1 1234\r\n", "", 0, true},
		{"PROXY TCP4 ::1 ::1 1 2\r\n", "", 0, true},
		{"PROXY TCP4 192.0.2.7 198.51.100.1 01 80\r\n", "", 0, true},
		{"PROXY TCP4 192.0.2.7 198.51.100.1 65536 80\r\n", "", 0, true},
		{"PROXY TCP6 fe80::1%eth0 ::1 1 2\r\n", "", 0, true},
		{"PROXY " + strings.Repeat("x", 120), "", 0, true},
		{v2head + "\x21\x11\x00\x0c\xc0\x00\x02\x07\x7f\x00\x00\x01\x04\xd2\x1f\x90rest", "192.0.2.7:1234", 28, false},
		{v2head + "\x21\x21\x00\x24\x20\x01\x0d\xb8" + strings.Repeat("\x00", 11) + "\x01" + strings.Repeat("\x00", 16) + "\x04\xd2\x1f\x90", "[2001:db8::1]:1234", 52, false},
		{v2head + "\x20\x00\x00\x00", "", 16, false},
		{v2head + "\x21\x31\x00\x01x", "", 17, false},
		{v2head + "\x21\x11\x00\x0c\xc0", "", 0, false},
		{v2head + "\x21\x11\x00\x04\xc0\x00\x02\x07", "", 0, true},
		{v2head + "\x11\x11\x00\x00", "", 0, true},
		{v2head + "\x21\x11\xff\xff", "", 0, true},
	} {
		from, n, err := parsePROXY([]byte(tt.in))
		got := ""
		if from.IsValid() {
			got = from.String()
		}
		if got != tt.from || n != tt.n || (err != nil) != tt.bad {
			t.Errorf("%q: got %q, %d, %v, want %q, %d, error %v", tt.in, got, n, err, tt.from, tt.n, tt.bad)
		}
	}
}

func FuzzPROXY(f *testing.F) {
	f.Add([]byte("PROXY TCP4 192.0.2.7 198.51.100.1 1234 80\r\nGET"))
	f.Add([]byte("PROXY UNKNOWN\r\n"))
	f.Add([]byte(proxyV2 + "\x21\x11\x00\x0c\xc0\x00\x02\x07\x7f\x00\x00\x01\x04\xd2\x1f\x90rest"))
	f.Add([]byte(proxyV2 + "\x20\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		from, n, err := parsePROXY(b)
		switch {
		case n > len(b), n > maxProxyV2, err != nil && (n != 0 || from.IsValid()), n <= 0 && from.IsValid():
			t.Fatalf("got %v, %d, %v", from, n, err)
		case n == 0 && err == nil && len(b) >= maxProxyV2:
			t.Fatalf("more wanted than %d bytes", len(b))
		case n > 0:
			again, m, err := parsePROXY(append(bytes.Clone(b[:n]), "more"...))
			if again != from || m != n || err != nil {
				t.Fatalf("got %v, %d; with other bytes behind %v, %d, %v", from, n, again, m, err)
			}
		}
	})
}

func TestAddressesThatMayBeReached(t *testing.T) {
	cfg := Config{
		Private: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd00:1::/32")},
		Own:     []netip.AddrPort{netip.MustParseAddrPort("10.1.0.1:8080"), netip.MustParseAddrPort("[::]:8081")},
	}
	for _, tt := range []struct {
		addr string
		ok   bool
	}{
		{"192.0.2.1:80", true}, {"[2001:db8::1]:80", true}, {"8.8.8.8:443", true},
		{"10.1.2.3:80", true}, {"10.2.2.3:80", false}, {"172.16.0.1:80", false}, {"192.168.0.1:80", false},
		{"100.64.0.1:80", false}, {"127.0.0.1:80", false}, {"[::1]:80", false}, {"169.254.169.254:80", false},
		{"[fe80::1]:80", false}, {"[fe80::1%lo]:80", false}, {"[fd00:1::5]:80", true}, {"[fd00:2::5]:80", false},
		{"[fec0::1]:80", false}, {"0.0.0.0:80", false}, {"0.1.2.3:80", false}, {"[::]:80", false},
		{"224.0.0.1:80", false}, {"255.255.255.255:80", false}, {"[ff02::1]:80", false},
		{"[::ffff:127.0.0.1]:80", false}, {"[::ffff:10.1.2.3]:80", true}, {"[64:ff9b::7f00:1]:80", false},
		{"[64:ff9b::808:808]:80", true}, {"[64:ff9b::a01:203]:80", true}, {"[2002:7f00:1::]:80", false}, {"[2002:808:808::]:80", true},
		{"[::7f00:1]:80", false}, {"10.1.0.1:8080", false}, {"10.1.0.1:80", true}, {"[::ffff:10.1.0.1]:8080", false}, {"[64:ff9b::a01:1]:8080", false},
	} {
		if err := cfg.allowed(netip.MustParseAddrPort(tt.addr)); (err == nil) != tt.ok {
			t.Errorf("%s: got %v, want allowed %v", tt.addr, err, tt.ok)
		}
	}
}

func TestHeadRewriting(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"/", "/?q=1"}, {"/?", "/?q=1"}, {"/a?b", "/a?b&q=1"}, {"/a?q=0&b=%20&q", "/a?b=%20&q=1"}, {"/a?%71=0", "/a?q=1"}, {"/?qq=0", "/?qq=0&q=1"},
	} {
		if got := string(setQuery([]byte(tt.in), "q", "1")); got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.in, got, tt.want)
		}
	}
	for _, tt := range []struct{ in, want string }{
		{"gzip, deflate, br, zstd", "gzip, deflate, br, zstd"}, {"gzip;q=1.0,  dcb;q=0.9, *;q=0", "gzip;q=1.0, *;q=0"}, {"sdch", "identity"}, {"", ""},
	} {
		got := string(appendEncoding(nil, field("Accept-Encoding", tt.in)))
		if want := "Accept-Encoding: " + tt.want + "\r\n"; got != want {
			t.Errorf("%q: got %q, want %q", tt.in, got, want)
		}
	}
	for _, tt := range []struct{ in, want string }{
		{"a=b; c=d", "Cookie: a=b; c=d\r\n"}, {"shuultuur=x", ""}, {"a=b;shuultuur=x; c=d", "Cookie: a=b; c=d\r\n"},
		{"xshuultuur=1; shuultuur=x", "Cookie: xshuultuur=1\r\n"},
	} {
		if got := string(appendCookie(nil, field("Cookie", tt.in))); got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.in, got, tt.want)
		}
	}
}

func field(name, value string) message.Field {
	return message.Field{Name: []byte(name), Value: []byte(value)}
}

func TestTransactionIDsSortAndDiffer(t *testing.T) {
	var n ids
	now := time.Now()
	last := ""
	for i := range 1000 {
		if i == 500 {
			now = now.Add(-time.Second) // the clock was set back
		}
		id := n.next(now)
		if id <= last || len(id) != 11 {
			t.Fatalf("%q after %q", id, last)
		}
		last = id
	}
}
