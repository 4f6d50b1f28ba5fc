// Package proxyprotocol parses the header in which a load balancer names the client of a
// connection: the PROXY protocol, versions 1 and 2, by HAProxy (proxy-protocol.txt,
// 2020-03-05). The caller reads the first bytes of a connection from a trusted network and
// continues after the header.
package proxyprotocol

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"strings"
)

const (
	V1 = "PROXY "                 // beginning of a header of version 1
	V2 = "\r\n\r\n\x00\r\nQUIT\n" // beginning of a header of version 2

	// Max is the longest header in bytes: addresses of any family, and room for TLVs, which may
	// have a whole certificate.
	Max   = 16 + 216 + 4096
	maxV1 = 107 // with CRLF
)

var errMalformed = errors.New("malformed PROXY protocol header")

// Parse parses a PROXY protocol header at the start of b. n is its length; n = 0 without an
// error means that more bytes are needed, n < 0 that b begins with something else. from is
// invalid if the header names no client (UNKNOWN, LOCAL, other address families): then use the
// connection's own address.
func Parse(b []byte) (from netip.AddrPort, n int, err error) {
	switch {
	case hasPrefix(b, V1):
		return parseV1(b)
	case hasPrefix(b, V2):
		return parseV2(b)
	}
	return netip.AddrPort{}, -1, nil
}

// hasPrefix reports whether b and s are equal up to the shorter length.
func hasPrefix(b []byte, s string) bool {
	n := min(len(b), len(s))
	return n > 0 && string(b[:n]) == s[:n]
}

func parseV1(b []byte) (from netip.AddrPort, n int, err error) {
	end := bytes.Index(b[:min(len(b), maxV1)], []byte("\r\n"))
	if end < 0 {
		if len(b) >= maxV1 {
			return from, 0, errMalformed
		}
		return from, 0, nil
	}
	n = end + 2
	part := strings.Split(string(b[:end]), " ")
	if len(part) >= 2 && part[1] == "UNKNOWN" {
		return from, n, nil
	}
	if len(part) != 6 || part[1] != "TCP4" && part[1] != "TCP6" {
		return from, 0, errMalformed
	}
	src, err1 := netip.ParseAddr(part[2])
	dst, err2 := netip.ParseAddr(part[3])
	sp, ok1 := parsePort(part[4])
	_, ok2 := parsePort(part[5])
	four := part[1] == "TCP4"
	if err1 != nil || err2 != nil || !ok1 || !ok2 || src.Is4() != four || dst.Is4() != four || src.Zone() != "" {
		return from, 0, errMalformed
	}
	return netip.AddrPortFrom(src.Unmap(), sp), n, nil
}

func parsePort(s string) (uint16, bool) {
	if s == "" || len(s) > 5 || s[0] == '0' && len(s) > 1 {
		return 0, false
	}
	n := 0
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return uint16(n), n <= 65535
}

func parseV2(b []byte) (from netip.AddrPort, n int, err error) {
	if len(b) < 16 {
		return from, 0, nil
	}
	version, command, family := b[12]>>4, b[12]&15, b[13]
	n = 16 + int(binary.BigEndian.Uint16(b[14:16]))
	if version != 2 || command > 1 || n > Max {
		return from, 0, errMalformed
	}
	if len(b) < n {
		return from, 0, nil
	}
	if command == 0 { // LOCAL: a health check of the sender itself
		return from, n, nil
	}
	switch a := b[16:n]; family {
	case 0x11: // TCP over IPv4
		if len(a) < 12 {
			return from, 0, errMalformed
		}
		from = netip.AddrPortFrom(netip.AddrFrom4([4]byte(a)), binary.BigEndian.Uint16(a[8:]))
	case 0x21: // TCP over IPv6
		if len(a) < 36 {
			return from, 0, errMalformed
		}
		from = netip.AddrPortFrom(netip.AddrFrom16([16]byte(a)).Unmap(), binary.BigEndian.Uint16(a[32:]))
	}
	return from, n, nil
}
