package conversation

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"

	"shuultuur/content/data"
	"shuultuur/content/media"
	"shuultuur/lib/ascii"
)

// Around is the check whose findings name connections in a conversation.
const Around = "around"

// Categories of Around.
const (
	Bare   = "bare"   // a server is asked to fetch
	Wisp   = "wisp"   // many connections in one WebSocket
	Tunnel = "tunnel" // a connection: TLS, HTTP, SSH, SOCKS, OpenVPN, WireGuard, IP packets
	// Channel is the offer of a channel for data between browsers, without sound or picture.
	Channel = "channel"
)

// firstMessages are those of a direction in which a connection shows by little. A hello of TLS and
// packets of wisp show wherever they are.
const firstMessages = 16

// A Recogniser tells connections from other messages of one direction, by their first bytes. The zero
// Recogniser is ready for use.
type Recogniser struct {
	n       int
	found   bool
	desktop bool   // what was said first is a remote desktop, which may secure itself by TLS
	relayed bool   // the subprotocol is that of an editor's tunnel, in which SSH is spoken
	start   []byte // the beginning, as long as it comes in small messages
}

// relay begins the subprotocols of the relays of Visual Studio Code's tunnels. Their clients speak SSH
// with the machine on which the editor works.
const relay = "tunnel-relay-"

// Agreed tells the recogniser the subprotocols of the conversation.
func (r *Recogniser) Agreed(subprotocols []byte) {
	r.relayed = r.relayed || bytes.HasPrefix(bytes.TrimSpace(subprotocols), []byte(relay))
}

// Look looks at a message, and returns what connection it begins or carries, with the name of its other
// end if it tells, once for a direction; "" for nothing.
func (r *Recogniser) Look(m Message) (category, evidence string) {
	if r.found || m.Control || len(m.Data) == 0 {
		return "", ""
	}
	if r.n <= firstMessages {
		r.n++
	}
	early := r.n <= firstMessages
	switch {
	case m.Text && !early:
		return "", ""
	case m.Text:
		category, evidence = saidIn(m.Data, r.n == 1)
	default:
		category, evidence = r.carriedIn(m.Data, early)
	}
	if category == "" {
		return "", ""
	}
	r.found, r.start = true, nil
	return category, evidence
}

// carriedIn looks for a connection in a message of bytes. It joins a beginning that is cut into small
// messages.
func (r *Recogniser) carriedIn(p []byte, early bool) (category, evidence string) {
	first := r.n == 1
	if r.desktop = r.desktop || early && isDesktop(p); r.desktop {
		return "", ""
	}
	if r.relayed && bytes.HasPrefix(p, []byte("SSH-2.0-")) {
		r.found = true // the rest is enciphered
		return "", ""
	}
	if category, evidence = carried(p, first, early); category != "" || !early {
		return category, evidence
	}
	if len(p) <= smallPiece && (first || len(r.start) > 0) {
		if r.start = append(r.start, p...); !first {
			category, evidence = carried(r.start, true, true)
		}
		if len(r.start) < mostStart {
			return category, evidence
		}
	} else if len(r.start) > 0 {
		category, evidence = carried(append(r.start, p[:min(len(p), mostStart)]...), true, true)
	}
	r.start = nil
	return category, evidence
}

// Bytes of small messages that are put together.
const (
	smallPiece = 64
	mostStart  = 256
)

// mostBefore is the number of bytes that a wrapper may put before a connection: the number of a stream,
// a length, a kind.
const mostBefore = 40

// Opening returns what connection p begins, where p is the beginning of a series of bytes; "" for
// nothing.
func Opening(p []byte) (category, evidence string) {
	if media.JSONStart(p) >= 0 || data.IsText(p[:min(len(p), mostBefore)]) {
		return saidIn(p, true)
	}
	return carried(p, true, true)
}

// carried returns what connection p begins, "" for none. first says that nothing came before, early
// that little did: then it may also be one that shows less clearly.
func carried(p []byte, first, early bool) (category, evidence string) {
	if len(p) < 3 {
		return "", ""
	}
	if at := helloIn(p); at >= 0 {
		by := ""
		if category = Tunnel; at == 5 && p[0] == 2 {
			category, by = Wisp, ", by wisp"
		}
		return category, "TLS" + to(serverName(p[at:])) + by
	}
	if name := wispTarget(p); name != "" {
		return Wisp, fmt.Sprintf("a connection to %.253q, by wisp,", name)
	}
	if !early {
		return "", ""
	}
	head := p[:min(len(p), mostBefore+16)]
	switch c := p[0]; {
	case bytes.Contains(head, []byte("SSH-2.0-")) || bytes.Contains(head, []byte("SSH-1.99-")):
		return Tunnel, "SSH"
	case first && c == 5 && p[1] > 0 && p[1] <= 8 && len(p) == 2+int(p[1]) && methods(p[2:]):
		return Tunnel, "SOCKS"
	case first && c == 4 && (p[1] == 1 || p[1] == 2) && len(p) >= 9 && p[len(p)-1] == 0 && p[2]|p[3] != 0:
		return Tunnel, "SOCKS"
	case first && isOpenVPN(p):
		return Tunnel, "OpenVPN"
	case (c == 1 && len(p) == 148 || c == 2 && len(p) == 92) && p[1]|p[2]|p[3] == 0 && len(bytes.Trim(p[len(p)-16:], "\x00")) == 0: // without a cookie
		return Tunnel, "WireGuard"
	case isQUIC(p):
		return Tunnel, "QUIC"
	case isRecords(p):
		return Tunnel, "records of TLS"
	}
	if name, ok := requestIn(p); ok {
		return Tunnel, "HTTP" + to(name)
	}
	for _, before := range [...]int{0, 1, 2, 4, 14, 18} { // a length, the kind of a packet, a frame of Ethernet
		if len(p) > before && isPacket(p[before:]) {
			return Tunnel, "IP packets"
		}
	}
	if name := targetIn(p, first); name != "" {
		return Tunnel, "a connection to " + fmt.Sprintf("%.253q", name)
	}
	return "", ""
}

// helloIn returns where a hello of TLS begins in p, -1 for nowhere.
func helloIn(p []byte) int {
	for at := 0; at <= mostBefore; at++ {
		i := bytes.IndexByte(p[at:min(len(p), mostBefore+1)], 22)
		if i < 0 {
			return -1
		}
		if at += i; isHello(p[at:]) {
			return at
		}
	}
	return -1
}

// wispTarget returns the host that a packet of wisp asks to be connected to, "" if it is none: kind 1,
// the number of a stream, TCP or UDP, and a port, the lowest byte first.
func wispTarget(p []byte) string {
	if len(p) <= 10 || p[0] != 1 || p[5] != 1 && p[5] != 2 || p[6]|p[7] == 0 || len(p) > 8+255 {
		return ""
	}
	name := bytes.TrimRight(p[8:], ".")
	if !isDomain(name) {
		if _, err := netip.ParseAddr(string(bytes.Trim(name, "[]"))); err != nil {
			return ""
		}
	}
	return string(name)
}

// requestIn returns the host that a request of HTTP in p is for, and whether there is one.
func requestIn(p []byte) (host string, ok bool) {
	at := bytes.Index(p[:min(len(p), 2048)], []byte(" HTTP/"))
	if at < 0 || len(p) < at+10 || p[at+6] != '1' && p[at+6] != '2' || p[at+7] != '.' || p[at+9] != '\r' && p[at+9] != '\n' {
		return "", false
	}
	from := bytes.LastIndexByte(p[:at], ' ') // before the target
	if from < 3 || at-from < 2 {
		return "", false
	}
	method := from
	for method > 0 && 'A' <= p[method-1] && p[method-1] <= 'Z' {
		method--
	}
	if from-method < 3 || method > mostBefore {
		return "", false
	}
	if target := p[from+1 : at]; target[0] != '/' && target[0] != '*' { // absolute, or that of CONNECT
		return string(target[:min(len(target), 253)]), true
	}
	rest := p[at:]
	for {
		i := bytes.IndexByte(rest, '\n')
		if i < 0 {
			return "", true
		}
		rest = rest[i+1:]
		if name, value, _ := bytes.Cut(rest[:min(len(rest), 300)], []byte(":")); ascii.EqualLower(name, "host") {
			value, _, _ = bytes.Cut(value, []byte("\n"))
			return string(bytes.TrimSpace(value)), true
		}
	}
}

// isQUIC reports whether p begins with a datagram that begins a connection of QUIC (RFC 9000 sections
// 14.1 and 17.2.2).
func isQUIC(p []byte) bool {
	if len(p) < 1200 || p[0]&0xC0 != 0xC0 || p[5] > 20 {
		return false
	}
	version := binary.BigEndian.Uint32(p[1:])
	return version == 1 || version == 0x6B3343CF
}

// isRecords reports whether p is records of TLS, and nothing more.
func isRecords(p []byte) bool {
	for n := 0; ; n++ {
		switch {
		case len(p) == 0:
			return n > 0
		case len(p) < 5+1 || p[0] < 20 || p[0] > 23 || p[1] != 3 || p[2] != 1 && p[2] != 3:
			return false
		}
		length := int(binary.BigEndian.Uint16(p[3:]))
		if length == 0 || length > 1<<14+256 || 5+length > len(p) {
			return false
		}
		p = p[5+length:]
	}
}

// isDesktop reports whether a message is the first of a remote desktop: RFB's version, a request for a
// connection of RDP (X.224 section 13.3 in TPKT), or the handshake of a gateway (MS-TSGU 2.2.10.9).
func isDesktop(p []byte) bool {
	switch {
	case len(p) == 12 && bytes.HasPrefix(p, []byte("RFB 00")) && p[11] == '\n':
		return true
	case len(p) >= 11 && p[0] == 3 && p[1] == 0 && int(binary.BigEndian.Uint16(p[2:])) == len(p):
		return p[5] == 0xE0 && int(p[4]) == len(p)-5
	}
	return len(p) >= 14 && p[0] == 1 && p[1]|p[2]|p[3] == 0 && int(binary.LittleEndian.Uint32(p[4:])) == len(p) && p[8] == 1
}

// ports are those of what people browse and tunnel to.
func isPort(n uint16) bool {
	switch n {
	case 22, 53, 80, 443, 853, 8000, 8008, 8080, 8443:
		return true
	}
	return false
}

// targetIn returns the host to which a header asks for a connection, as SOCKS, Trojan, VLESS and others
// write it: behind a byte that is its length, with a port of two bytes before or behind it. "" if there
// is none. After the first message only a whole header of SOCKS counts.
func targetIn(p []byte, first bool) string {
	if !first && !(p[0] == 5 && p[1] >= 1 && p[1] <= 3 && p[2] == 0) {
		return ""
	}
	if p[0] == 0x10 && (bytes.Contains(p[:min(len(p), 12)], []byte("\x04MQTT")) || bytes.Contains(p[:min(len(p), 12)], []byte("\x06MQIsdp"))) {
		return "" // a number of seconds stands before the client's name
	}
	for at := 1; at < min(len(p), mostAhead); at++ {
		n := int(p[at-1])
		if n < 4 || at+n > len(p) || !isDomain(p[at:at+n]) {
			continue
		}
		if end := at + n; end+2 <= len(p) && (isPort(binary.BigEndian.Uint16(p[end:])) || isPort(binary.LittleEndian.Uint16(p[end:]))) {
			return string(p[at:end])
		}
		for _, before := range [...]int{1, 2} { // the length, and the kind of the address
			if from := at - before - 2; from >= 0 && isPort(binary.BigEndian.Uint16(p[from:])) {
				return string(p[at : at+n])
			}
		}
	}
	return ""
}

// mostAhead is the number of bytes in which the address of a header begins. Secrets may be before it.
const mostAhead = 128

// isDomain reports whether p is the name of a host with a top-level domain.
func isDomain(p []byte) bool {
	dot := bytes.LastIndexByte(p, '.')
	if dot <= 0 || len(p)-dot < 3 || !isHost(p) {
		return false
	}
	for _, c := range p[dot+1:] {
		if !ascii.IsAlnum(c) && c != '-' || '0' <= c && c <= '9' && !bytes.HasPrefix(p[dot+1:], []byte("xn--")) {
			return false
		}
	}
	return bytes.IndexByte(p, ':') < 0
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
// (RFC 8446 section 5.1), and perhaps further messages.
func isHello(p []byte) bool {
	if len(p) <= 10 || p[0] != 22 || p[1] != 3 || p[2] > 4 || p[5] != 1 && p[5] != 2 || p[6] != 0 || p[9] != 3 || p[10] > 3 {
		return false
	}
	record, hello := int(binary.BigEndian.Uint16(p[3:])), int(binary.BigEndian.Uint16(p[7:]))
	return record > 40 && record <= 1<<14 && hello > 36 && (hello+4 <= record || p[5] == 1)
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

// isOpenVPN reports whether p is the first packet of OpenVPN, a hard reset of either side, with its length
// before it as on TCP, or without it: then nothing was received, and it is the first that is sent.
func isOpenVPN(p []byte) bool {
	reset := func(c byte) bool { return c == 7<<3 || c == 8<<3 || c == 10<<3 }
	if len(p) == 14 && reset(p[0]) && p[9]|p[10]|p[11]|p[12]|p[13] == 0 {
		return true
	}
	return len(p) >= 16 && int(binary.BigEndian.Uint16(p)) == len(p)-2 && reset(p[2])
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
