package conversation

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"shuultuur/lib/ascii"
)

// Around is the check whose findings name connections in a conversation.
const Around = "around"

// Categories of Around.
const (
	Wisp   = "wisp"   // many connections in one WebSocket
	Tunnel = "tunnel" // one connection: TLS, SSH, SOCKS, OpenVPN, WireGuard, IP packets
)

// firstMessages are those of a direction in which a connection shows. What begins later is data of
// something else.
const firstMessages = 16

// A Recogniser tells connections from other messages of one direction, by their first bytes. The zero
// Recogniser is ready for use.
type Recogniser struct {
	n     int
	found bool
}

// Look looks at a message, and returns what connection it begins or carries, with the name of its other
// end if it tells, once for a direction; "" for nothing.
func (r *Recogniser) Look(m Message) (category, evidence string) {
	if r.found || m.Control || m.Text || len(m.Data) < 3 {
		return "", ""
	}
	if r.n++; r.n > firstMessages {
		return "", ""
	}
	if category, evidence = tunnelIn(m.Data, r.n == 1); category != "" {
		r.found = true
	}
	return category, evidence
}

// tunnelIn returns what connection begins with p. first says that nothing came before.
func tunnelIn(p []byte, first bool) (category, evidence string) {
	switch c := p[0]; {
	case c == 1 && len(p) > 9 && (p[5] == 1 || p[5] == 2) && isHost(p[8:]):
		return Wisp, fmt.Sprintf("a connection to %.253q in a WebSocket, by wisp", p[8:])
	case c == 2 && len(p) > 10 && isHello(p[5:]):
		return Wisp, "TLS" + to(serverName(p[5:])) + " in a WebSocket, by wisp"
	case isHello(p):
		return Tunnel, "TLS" + to(serverName(p)) + " in a WebSocket"
	case bytes.HasPrefix(p, []byte("SSH-2.0-")) || bytes.HasPrefix(p, []byte("SSH-1.99-")):
		return Tunnel, "SSH in a WebSocket"
	case first && c == 5 && p[1] > 0 && p[1] <= 8 && len(p) == 2+int(p[1]) && methods(p[2:]):
		return Tunnel, "SOCKS in a WebSocket"
	case first && c == 4 && (p[1] == 1 || p[1] == 2) && len(p) >= 9 && p[len(p)-1] == 0 && p[2]|p[3] != 0:
		return Tunnel, "SOCKS in a WebSocket"
	case first && isOpenVPN(p):
		return Tunnel, "OpenVPN in a WebSocket"
	case (c == 1 && len(p) == 148 || c == 2 && len(p) == 92) && p[1]|p[2]|p[3] == 0:
		return Tunnel, "WireGuard in a WebSocket"
	case isPacket(p):
		return Tunnel, "IP packets in a WebSocket"
	}
	return "", ""
}

func to(name string) string {
	if name == "" {
		return ""
	}
	return fmt.Sprintf(" to %.253q", name)
}

// isHost reports whether p is the name or address of a host.
func isHost(p []byte) bool {
	if len(p) < 3 || len(p) > 255 {
		return false
	}
	parts := false
	for _, c := range p {
		switch {
		case c == '.' || c == ':':
			parts = true
		case !ascii.IsAlnum(c) && c != '-' && c != '_':
			return false
		}
	}
	return parts
}

// isHello reports whether p begins with a record of a TLS handshake that has a hello of either side
// (RFC 8446 section 5.1).
func isHello(p []byte) bool {
	return len(p) > 10 && p[0] == 22 && p[1] == 3 && p[2] <= 4 && (p[5] == 1 || p[5] == 2) && p[6] == 0 && p[9] == 3 &&
		int(binary.BigEndian.Uint16(p[3:])) > 40
}

// serverName returns the name that a client's hello asks for (RFC 6066 section 3), "" if it has none.
func serverName(p []byte) string {
	skip := func(n int) bool {
		if n > len(p) {
			return false
		}
		p = p[n:]
		return true
	}
	number := func(size int) (n int, ok bool) {
		if size > len(p) {
			return 0, false
		}
		for _, c := range p[:size] {
			n = n<<8 | int(c)
		}
		p = p[size:]
		return n, true
	}
	if p[5] != 1 || !skip(5+4+2+32) {
		return ""
	}
	for _, size := range [...]int{1, 2, 1} { // session, cipher suites, compression
		if n, ok := number(size); !ok || !skip(n) {
			return ""
		}
	}
	if !skip(2) {
		return ""
	}
	for {
		typ, _ := number(2)
		n, ok := number(2)
		switch {
		case !ok || n > len(p):
			return ""
		case typ == 0 && n > 5 && isHost(p[5:n]):
			return string(p[5:n])
		}
		p = p[n:]
	}
}

// methods reports whether all are methods of SOCKS 5 (RFC 1928 section 3).
func methods(p []byte) bool {
	for _, c := range p {
		if c > 9 {
			return false
		}
	}
	return true
}

// isOpenVPN reports whether p is the first packet of OpenVPN on TCP: its length, and a hard reset of
// either side.
func isOpenVPN(p []byte) bool {
	if len(p) < 16 || int(binary.BigEndian.Uint16(p)) != len(p)-2 {
		return false
	}
	switch p[2] >> 3 {
	case 7, 8, 10:
		return p[2]&7 == 0
	}
	return false
}

// isPacket reports whether p is a packet of IPv4 with a right checksum, or of IPv6 with a right length.
func isPacket(p []byte) bool {
	switch {
	case len(p) >= 28 && p[0] == 0x45 && int(binary.BigEndian.Uint16(p[2:])) == len(p):
		sum := uint32(0)
		for i := 0; i < 20; i += 2 {
			sum += uint32(binary.BigEndian.Uint16(p[i:]))
		}
		return sum>>16+sum&0xFFFF == 0xFFFF
	case len(p) >= 48 && p[0] == 0x60 && int(binary.BigEndian.Uint16(p[4:])) == len(p)-40:
		return p[6] == 6 || p[6] == 17 || p[6] == 58
	}
	return false
}
