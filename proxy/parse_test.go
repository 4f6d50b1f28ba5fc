package proxy

import (
	"crypto/tls"
	"io"
	"net"
	"net/netip"
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
