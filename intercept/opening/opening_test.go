package opening

import (
	"strings"
	"testing"

	"shuultuur/test/cert"
)

const v2 = proxyV2 + "\x21\x11\x00\x0c\xc0\x00\x02\x07\x7f\x00\x00\x01\x04\xd2\x1f\x90"

// TestWhatIsSaidFirstIsReadAsAServerWould: each beginning has one kind, whole and byte by byte, and no
// shorter part of it passes as something else that needs no more.
func TestWhatIsSaidFirstIsReadAsAServerWould(t *testing.T) {
	tlsHello := string(cert.Hello(t, "site.example"))
	v1 := "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n"
	for text, want := range map[string]Kind{
		"GET / HTTP/1.1\r\n": HTTP, "OPTIONS * HTTP/1.1\r\n": HTTP, "GET http://x/ HTTP/1.1\r\n": HTTP, "CONNECT x:443 HTTP/1.1\r\n": HTTP,
		"\r\nGET / HTTP/1.1\r\n": HTTP, "\r\n\r\n\r\nGET / HTTP/1.1\r\n": HTTP, "\nGET / HTTP/1.1\n": HTTP, "  GET / HTTP/1.1\r\n": HTTP, "\tGET /": HTTP, " \r\n\v\fGET /": HTTP,
		"get / HTTP/1.1\r\n": HTTP, "Get / http/1.0\r\n": HTTP, "BREW-2.x! / HTTP/1.1\r\n": HTTP, "GET\t/ HTTP/1.1\r\n": HTTP, "GET   / HTTP/1.1\r\n": HTTP, "GET\v/ HTTP/1.1\r\n": HTTP, "GET\r/ HTTP/1.1\r\n": HTTP,
		"GET HTTP://X/ HTTP/1.1\r\n": HTTP, "GET https://x/ HTTP/1.1\r\n": HTTP, "GET /\r\n": HTTP, "get index.html http/1.1\r\n": HTTP, "GET ftp://x/ HTTP/1.1\r\n": HTTP,
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n": HTTP, v1 + "GET / HTTP/1.1\r\n": HTTP, v2 + "GET / HTTP/1.1\r\n": HTTP, v1 + "\r\n get / HTTP/1.1\r\n": HTTP,
		v1 + tlsHello: TLS, v2 + tlsHello: TLS, v2 + "SSH-2.0-x\r\n": SSH, v1 + "\x01\x02\x03\x04": Unknown, v1: HTTP, v2: HTTP,
		tlsHello: TLS, "\x16\x03\x01\x02\x00\x01": TLS, "\x16\x03\x00\x00\x01\x01": TLS,
		"\x16\x03\x01\x02\x00\x02": Unknown, "\x16\x02\x01": Unknown, "\x80\x2e\x01\x03\x01\x00\x15": Unknown, "\x17\x03\x03\x00\x10": Unknown,
		"SSH-2.0-OpenSSH_9.6\r\n": SSH, "SSH-1.99-x\r\n": SSH, "SSH-2.0": SSH, "SSH 2.0\r\n": Unknown,
		"\x00\x0e\x38" + strings.Repeat("\x01", 13): VPN, "\x01\x20\x50" + strings.Repeat("\x01", 20): VPN, "\x00\x0d\x38": Unknown,
		"\x01\x00\x00\x00" + strings.Repeat("x", 144): VPN, "\x00\x94\x01\x00\x00\x00" + strings.Repeat("x", 144): VPN, "\x01\x00\x00\x00ab": Unknown,
		"\x00\x9c\x00\x01\x1a\x2b\x3c\x4d\x00\x01": VPN, "IKETCP\x00\x00": VPN,
		"\x03\x00\x00\x13\x0e\xe0\x00": Unknown, "EHLO x.example\r\n": Unknown, "USER anna\r\n": Unknown, "\x13BitTorrent protocol": Unknown,
		"*1\r\n$4\r\nPING\r\n": Unknown, "\xd3\x91\x02\x44\x90": Unknown, "\x05\x01\x00": Unknown, "some bytes some bytes": Unknown, "\x00": Unknown, "\x00\x00\x00\x00": Unknown,
		strings.Repeat("A", 100) + " / HTTP/1.1\r\n": Unknown,
	} {
		k, says, _ := Of([]byte(text))
		if k != want || says == "" {
			t.Errorf("%.60q is %s (%s), want %s", text, k, says, want)
		}
		for n := range len(text) {
			if k, says, more := Of([]byte(text[:n])); !more && k != want {
				t.Errorf("%.60q, of which %d bytes are there, is %s (%s), want %s", text, n, k, says, want)
			} else if more {
				continue
			} else {
				break // the rest is not looked at
			}
		}
	}
}

// TestABeginningIsBounded: what may still become a request is one when it is too long for anything else,
// and what nobody could read as a request needs no more.
func TestABeginningIsBounded(t *testing.T) {
	for _, text := range []string{strings.Repeat("\r\n", longest), "GET " + strings.Repeat("a", longest), "GET" + strings.Repeat(" ", longest), proxyV2 + "\x21\x11\xff\xff" + strings.Repeat("x", longest)} {
		if k, says, more := Of([]byte(text)); k != HTTP || more {
			t.Errorf("%.20q… is %s (%s), more %v; want HTTP and no more", text, k, says, more)
		}
	}
	for _, text := range []string{"EHLO x\r\n", "\x13BitTorrent", "\x16\x02", "*1\r\n", "\x00\x00\x00"} {
		if k, _, more := Of([]byte(text)); k != Unknown || more {
			t.Errorf("%q is %s, more %v; want unknown and no more", text, k, more)
		}
	}
	if _, _, more := Of(nil); !more {
		t.Error("nothing needs no more")
	}
}

func TestWhatAServerSaysFirst(t *testing.T) {
	for text, want := range map[string]Kind{
		"SSH-2.0-OpenSSH_9.6\r\n": SSH, "Welcome\r\nSSH-2.0-x\r\n": SSH, "220 mail.example ESMTP\r\n": Unknown, "+OK ready\r\n": Unknown, "\x00\x01": Unknown,
		"HTTP/1.1 408 Request Timeout\r\n": HTTP, "\x15\x03\x03\x00\x02\x02\x28": TLS, "\x16\x03\x01\x02\x00\x02": Unknown,
	} {
		if k, says := OfServer([]byte(text)); k != want || says == "" {
			t.Errorf("%q is %s (%s), want %s", text, k, says, want)
		}
	}
}

func FuzzOf(f *testing.F) {
	for _, s := range []string{"GET / HTTP/1.1\r\n", v2 + "GET / HTTP/1.1\r\n", "\x16\x03\x01\x02\x00\x01", "\x00\x0e\x38", "PROXY TCP4 1 2 3 4\r\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		k, says, _ := Of(b)
		if k == "" || says == "" {
			t.Errorf("%q has no kind", b)
		}
		if _, says := OfServer(b); says == "" {
			t.Errorf("%q of a server has no description", b)
		}
	})
}
