// Package opening tells what is said first in a tunnel, as the server behind it would read it.
//
// Data flows in one direction: [Of] reads what a client says first, [OfServer] what a server says
// before its client. Both are asked again while more arrives, and return the [Kind] with a
// description for people.
package opening

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
)

// A Kind is what is spoken in a tunnel.
type Kind string

const (
	HTTP    Kind = "http" // requests without TLS
	TLS     Kind = "tls"
	SSH     Kind = "ssh"
	VPN     Kind = "vpn"
	Unknown Kind = "unknown" // whatever else, random bytes among them
)

// Kinds are all of them.
var Kinds = [...]Kind{HTTP, TLS, SSH, VPN, Unknown}

// Limits of what is read before it is known what it is.
const (
	// longest is how much may arrive while it may still become a request: more than servers take
	// for its first line.
	longest = 16 << 10
	// longestMethod exceeds the length of methods in use.
	longestMethod = 64
)

// Headers of the PROXY protocol.
const (
	proxyV1 = "PROXY "
	proxyV2 = "\r\n\r\n\x00\r\nQUIT\n"
	// longestV1 is the longest header of version 1.
	longestV1 = 107
)

// behind is added to the description of what follows a header of the PROXY protocol.
const behind = ", behind a header of the PROXY protocol"

// Proxied reports whether a client begins with a header of the PROXY protocol.
func Proxied(b []byte) bool {
	return bytes.HasPrefix(b, []byte(proxyV2)) || bytes.HasPrefix(b, []byte(proxyV1))
}

// Of returns what a client says first. more says that further bytes may change that: a beginning
// that may become a request is one until then.
func Of(b []byte) (k Kind, says string, more bool) {
	if len(b) == 0 {
		return Unknown, "nothing", true
	}
	rest, whole := afterPROXY(b)
	if !whole {
		return HTTP, "the beginning of a header of the PROXY protocol", true
	}
	if len(rest) == len(b) {
		return of(b)
	}
	if len(rest) == 0 {
		return HTTP, "a header of the PROXY protocol", len(b) < longest
	}
	k, says, more = of(rest)
	return k, says + behind, more
}

// afterPROXY returns what follows a header of the PROXY protocol, all of b if there is none. whole
// is false while the header is not complete.
func afterPROXY(b []byte) (rest []byte, whole bool) {
	switch {
	case begins(b, proxyV2):
		if len(b) < 16 {
			return nil, false
		}
		n := 16 + int(binary.BigEndian.Uint16(b[14:]))
		if len(b) < n {
			return nil, len(b) >= longest // of which nobody will read the end
		}
		return b[n:], true
	case begins(b, proxyV1):
		i := bytes.IndexByte(b[:min(len(b), longestV1)], '\n')
		if i < 0 {
			return b, len(b) >= longestV1
		}
		return b[i+1:], true
	}
	return b, true
}

// begins reports whether b begins with prefix, or is the beginning of it.
func begins(b []byte, prefix string) bool {
	n := min(len(b), len(prefix))
	return n > 0 && string(b[:n]) == prefix[:n]
}

// of is [Of] without headers of the PROXY protocol.
func of(b []byte) (k Kind, says string, more bool) {
	for _, p := range protocols {
		if k, says, more := p(b); k != "" {
			return k, says, more
		}
	}
	return Unknown, unknown(b), false
}

// protocols recognise protocols by what a client says first; "" is not theirs.
var protocols = [...]func(b []byte) (k Kind, says string, more bool){tlsHello, ssh, openVPN, wireGuard, otherVPN, request}

// tlsHello recognises records of handshakes (RFC 8446 section 5.1) whose first message is a hello.
func tlsHello(b []byte) (Kind, string, bool) {
	const head = "\x16\x03"
	switch {
	case !begins(b, head), len(b) > 2 && b[2] > 4, len(b) > 5 && b[5] != 1:
		return "", "", false
	}
	return TLS, "a TLS hello", len(b) <= 5
}

// ssh recognises the version of a client of SSH (RFC 4253 section 4.2).
func ssh(b []byte) (Kind, string, bool) {
	for _, v := range [...]string{"SSH-2.0-", "SSH-1."} {
		if begins(b, v) {
			return SSH, "SSH", len(b) < len(v)
		}
	}
	return "", "", false
}

// openVPN recognises the first packet of a client of OpenVPN over TCP: its length, and a hard reset
// with key 0.
func openVPN(b []byte) (Kind, string, bool) {
	if b[0] > 7 {
		return "", "", false
	}
	if len(b) < 3 {
		return Unknown, unknown(b), true
	}
	switch n := binary.BigEndian.Uint16(b); b[2] {
	case 1 << 3, 7 << 3, 10 << 3: // versions 1, 2, and 2 with a key of the client's own
		if n >= 14 {
			return VPN, "OpenVPN", false
		}
	}
	return "", "", false
}

// wireGuard recognises the first message of WireGuard in a stream, with or without its length
// before it.
func wireGuard(b []byte) (Kind, string, bool) {
	const initiation, size = "\x01\x00\x00\x00", 148
	for _, prefix := range [...]string{"", "\x00\x94", "\x94\x00"} {
		if begins(b, prefix+initiation) {
			if n := size + len(prefix); len(b) < n {
				return Unknown, unknown(b), true
			}
			return VPN, "WireGuard", false
		}
	}
	return "", "", false
}

// otherVPN recognises PPTP (RFC 2637) and IPsec in TCP (RFC 9329).
func otherVPN(b []byte) (Kind, string, bool) {
	for _, v := range [...]struct{ prefix, name string }{
		{"\x00\x9c\x00\x01\x1a\x2b\x3c\x4d", "PPTP"},
		{"IKETCP", "IPsec"},
	} {
		if begins(b, v.prefix) {
			if len(b) < len(v.prefix) {
				if k, says, more := request(b); k != "" {
					return k, says, more
				}
				return Unknown, unknown(b), true
			}
			return VPN, v.name, false
		}
	}
	return "", "", false
}

// request recognises what a server might read as an HTTP request. Servers read more than the
// standards allow: empty lines and blanks before the request, methods in small letters or of their
// own, several blanks, and other blanks than the space (RFC 9112 section 3).
func request(b []byte) (Kind, string, bool) {
	const is, maybe = "an HTTP request without TLS", "the beginning of an HTTP request without TLS"
	all := len(b)
	b = bytes.TrimLeft(b, blanks+"\n")
	n := 0
	for n < len(b) && n < longestMethod && isToken(b[n]) {
		n++
	}
	switch {
	case n == len(b):
		return HTTP, maybe, all < longest
	case n == 0 || strings.IndexByte(blanks, b[n]) < 0:
		return "", "", false
	}
	method := string(b[:n])
	target := bytes.TrimLeft(b[n:], blanks)
	if len(target) == 0 {
		return HTTP, maybe, all < longest
	}
	low := bytes.ToLower(target[:min(len(target), len("https://"))])
	for _, s := range [...]string{"/", "http://", "https://", "*"} {
		switch {
		case !begins(low, s):
		case len(low) < len(s):
			return HTTP, maybe, true
		case s == "*" && method == "PRI":
			return HTTP, "HTTP/2 without TLS", false
		case s != "*":
			return HTTP, is, false
		}
	}
	// Any other target is followed by the version.
	end := bytes.IndexAny(target, blanks+"\n")
	switch {
	case end < 0:
		return HTTP, maybe, all < longest
	case target[end] == '\n':
		return "", "", false
	}
	version := bytes.TrimLeft(target[end:], blanks)
	switch low := bytes.ToUpper(version[:min(len(version), len("HTTP/"))]); {
	case len(version) == 0:
		return HTTP, maybe, all < longest
	case !begins(low, "HTTP/"):
		return "", "", false
	case len(version) < len("HTTP/"):
		return HTTP, maybe, true
	}
	return HTTP, is, false
}

// blanks are the bytes between the words of a request's first line.
const blanks = " \t\v\f\r"

// isToken reports whether a method may contain c (RFC 9110 section 5.6.2).
func isToken(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}

// OfServer returns what a server says before its client has said anything. Servers of HTTP and TLS
// do so only when they end a connection on which nothing was asked.
func OfServer(b []byte) (k Kind, says string) {
	switch {
	case bytes.HasPrefix(b, []byte("SSH-")) || bytes.Contains(b, []byte("\nSSH-")):
		return SSH, "SSH; the server speaks first"
	case bytes.HasPrefix(b, []byte("HTTP/")):
		return HTTP, "an HTTP response without a request"
	case len(b) > 2 && b[0] == 21 && b[1] == 3 && b[2] <= 4:
		return TLS, "a TLS alert without a hello"
	}
	for _, p := range greetings {
		if bytes.HasPrefix(b, []byte(p.prefix)) {
			return Unknown, p.name + "; the server speaks first"
		}
	}
	return Unknown, unknown(b) + "; the server speaks first"
}

// A protocol is one that is known by name alone.
type protocol struct{ prefix, name string }

var greetings = [...]protocol{
	{"220", "SMTP or FTP"}, {"554", "SMTP"}, {"+OK", "POP3"}, {"* OK", "IMAP"}, {"RFB ", "a remote desktop (RFB)"}, {"@RSYNCD", "rsync"},
}

var sayings = [...]protocol{
	{"\x03\x00\x00", "a remote desktop (RDP)"}, {"\x13BitTorrent protocol", "BitTorrent"}, {"\x05\x01\x00", "SOCKS"}, {"\x05\x02\x00", "SOCKS"}, {"\x04\x01", "SOCKS"},
	{"EHLO ", "SMTP"}, {"HELO ", "SMTP"}, {"<?xml", "XMPP"}, {"<stream:", "XMPP"},
}

// unknown describes what begins with b.
func unknown(b []byte) string {
	for _, p := range sayings {
		if bytes.HasPrefix(b, []byte(p.prefix)) {
			return p.name
		}
	}
	return fmt.Sprintf("no known protocol: it begins with % x", b[:min(len(b), 8)])
}
