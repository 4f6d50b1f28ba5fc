package intercept

import (
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Limits of a hello. Post-quantum key shares make it larger than a TCP segment; crypto/tls
// accepts at most 64 KiB, too.
const (
	MaxHello = 64 << 10 // bytes of the handshake message
	maxWire  = 96 << 10 // bytes with the record headers, which tiny records multiply
)

// Errors of Feed. The error wraps one of them and adds details.
var (
	ErrNotHello  = errors.New("not a TLS client hello")        // another protocol
	ErrMalformed = errors.New("malformed TLS client hello")    // begins as a hello, but is malformed
	ErrTooLarge  = errors.New("TLS client hello is too large") // above MaxHello
)

// A Sniffer assembles a client hello from a connection's first bytes, however they are split
// over TCP segments and TLS records (RFC 8446 section 5.1). It examines each byte once. The
// zero value is ready for use.
type Sniffer struct {
	message []byte // handshake message so far; part of the caller's bytes if it came whole
	head    [5]byte
	have    int // bytes of head
	left    int // bytes of the record still to come
	wire    int
	done    bool
	err     error
}

// Feed processes the next bytes of the connection. done says that the hello is complete; later
// bytes are ignored. Feed does not need p again, but a hello that is completely in one p is
// read from there: p must not change before Hello. After an error the Sniffer repeats it.
func (s *Sniffer) Feed(p []byte) (done bool, err error) {
	if !s.done && s.err == nil {
		s.done, s.err = s.feed(p)
	}
	return s.done, s.err
}

func (s *Sniffer) feed(p []byte) (bool, error) {
	for len(p) > 0 {
		if s.left == 0 {
			n := copy(s.head[s.have:], p)
			p = p[n:]
			s.have += n
			if err := s.record(); err != nil {
				return false, err
			}
			continue
		}
		part := p[:min(len(p), s.left)]
		p = p[len(part):]
		s.left -= len(part)
		if done, err := s.gather(part); done || err != nil {
			return done, err
		}
	}
	return false, nil
}

// record parses as much of a record's header as there is.
func (s *Sniffer) record() error {
	if s.head[0] != 22 {
		return fmt.Errorf("%w: it begins with byte %#x", ErrNotHello, s.head[0])
	}
	if s.have > 1 && s.head[1] != 3 {
		return fmt.Errorf("%w: record of version %d", ErrNotHello, s.head[1])
	}
	if s.have < len(s.head) {
		return nil
	}
	s.left = int(s.head[3])<<8 | int(s.head[4])
	s.have = 0
	if s.left == 0 || s.left > 1<<14 {
		return fmt.Errorf("%w: record of %d bytes", ErrMalformed, s.left)
	}
	if s.wire += len(s.head) + s.left; s.wire > maxWire {
		return fmt.Errorf("%w: more than %d bytes in its records", ErrTooLarge, maxWire)
	}
	return nil
}

func (s *Sniffer) gather(part []byte) (bool, error) {
	if len(s.message) == 0 {
		s.message = part[:len(part):len(part)] // no copy for a hello that came whole
	} else {
		s.message = append(s.message, part...)
	}
	if s.message[0] != 1 {
		return false, fmt.Errorf("%w: handshake message of type %d", ErrNotHello, s.message[0])
	}
	if len(s.message) >= 4 {
		size := 4 + int(s.message[1])<<16 + int(s.message[2])<<8 + int(s.message[3])
		if size > MaxHello {
			return false, fmt.Errorf("%w: %d bytes", ErrTooLarge, size)
		}
		if len(s.message) >= size {
			s.message = s.message[:size]
			return true, nil
		}
	}
	if &s.message[0] == &part[0] {
		s.message = slices.Clone(part) // the caller's bytes may change now
	}
	return false, nil
}

var errIncomplete = errors.New("the TLS client hello is not complete")

// A Hello is the message that a client sends before encryption begins. All lists omit GREASE
// values (RFC 8701).
type Hello struct {
	// Host is the server name: lower case, no final dot, "" if there is none. With ECH it is the
	// outer name, which need not be the real one.
	Host       string
	Protocols  []string // ALPN (RFC 7301), in the client's order
	Legacy     uint16   // the version field that TLS 1.3 no longer uses (RFC 8446 section 4.1.2)
	Points     []byte   // formats of points (RFC 8422, 5.1.2)
	Versions   []uint16 // of TLS, as tls.VersionTLS13, in the client's order
	Ciphers    []uint16
	Extensions []uint16 // types, in the order sent
	Groups     []uint16 // as tls.X25519MLKEM768, in the client's order
	KeyShares  []uint16 // groups with a key share
	Signatures []uint16 // signature algorithms
	// ECH says that the encrypted_client_hello extension is present (RFC 9849). Browsers also
	// send it with random content, which is indistinguishable.
	ECH    bool
	Ticket bool // whether a TLS 1.2 session is offered for resumption (RFC 5077)
	PSK    bool // whether a pre-shared key is offered, for resumption in TLS 1.3

	named bool // whether there is a server_name extension
}

// Version returns the highest version of TLS offered, as tls.VersionTLS13.
func (h *Hello) Version() uint16 {
	if len(h.Versions) == 0 {
		return 0
	}
	return slices.Max(h.Versions)
}

// Unreadable returns why a connection that begins with h cannot be decrypted by us, "" if it can: the
// client wants to speak another protocol than HTTP (ALPN, RFC 7301), its versions of TLS are too old, or
// it offers no cipher suite that crypto/tls has.
func (h *Hello) Unreadable() string {
	switch {
	case h.Version() < tls.VersionTLS12:
		return "the client speaks no TLS newer than 1.1"
	case h.Version() == tls.VersionTLS12 && !slices.ContainsFunc(h.Ciphers, served):
		return "the client offers no cipher suite that we have"
	case len(h.Protocols) == 0 || slices.ContainsFunc(h.Protocols, isHTTP):
		return ""
	}
	return fmt.Sprintf("the client speaks %q, not HTTP", h.Protocols[0])
}

// isHTTP reports whether an ALPN protocol is HTTP over TCP.
func isHTTP(protocol string) bool { return protocol == "h2" || strings.HasPrefix(protocol, "http/") }

// served reports whether crypto/tls can serve a cipher suite with one of our certificates.
func served(id uint16) bool {
	return slices.ContainsFunc(tls.CipherSuites(), func(s *tls.CipherSuite) bool { return s.ID == id }) || slices.Contains(oldSuites, id)
}

// oldSuites are cipher suites whose keys are exchanged with RSA: they have no forward secrecy, and serve
// only clients that have nothing else, on their own network.
var oldSuites = []uint16{
	tls.TLS_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_RSA_WITH_AES_256_GCM_SHA384,
	tls.TLS_RSA_WITH_AES_128_CBC_SHA, tls.TLS_RSA_WITH_AES_256_CBC_SHA,
}

// NeedsRSA reports whether the client cannot verify a signature by ECDSA, so that it needs a certificate
// with an RSA key.
func (h *Hello) NeedsRSA() bool {
	if h.Version() == tls.VersionTLS12 && !slices.ContainsFunc(h.Ciphers, signedByECDSA) {
		return true
	}
	// Without the extension, a client takes what its cipher suites say (RFC 5246 section 7.4.1.4.1).
	return len(h.Signatures) > 0 && !slices.Contains(h.Signatures, uint16(tls.ECDSAWithP256AndSHA256))
}

// signedByECDSA reports whether a cipher suite of TLS 1.2 takes a key for ECDSA.
func signedByECDSA(id uint16) bool {
	return slices.ContainsFunc(tls.CipherSuites(), func(s *tls.CipherSuite) bool {
		return s.ID == id && strings.Contains(s.Name, "ECDHE_ECDSA")
	})
}

// Types of extensions that are parsed.
const (
	extServerName        = 0
	extSupportedGroups   = 10
	extPointFormats      = 11
	extSignatures        = 13
	extProtocols         = 16
	extSessionTicket     = 35
	extPreSharedKey      = 41
	extSupportedVersions = 43
	extKeyShare          = 51
	extECH               = 0xfe0d
)

// Hello parses a complete hello. The result shares no memory with the input.
func (s *Sniffer) Hello() (*Hello, error) {
	if !s.done {
		return nil, errIncomplete
	}
	c := cursor{s.message[4:], true}
	legacy := uint16(c.number(2))
	c.take(32) // random
	c.vector(1)
	ciphers := c.vector(2)
	c.vector(1) // compression
	h := &Hello{Legacy: legacy, Versions: []uint16{legacy}}
	h.Ciphers = ciphers.list()
	if !c.ok || !ciphers.ok {
		return nil, fmt.Errorf("%w: it ends before its extensions", ErrMalformed)
	}
	if len(c.b) == 0 {
		return h, nil
	}
	exts := c.vector(2)
	if !c.ok || len(c.b) > 0 {
		return nil, fmt.Errorf("%w: %d bytes after its extensions", ErrMalformed, len(c.b))
	}
	var seen [1 << 16 / 64]uint64 // of two equal extensions, two endpoints might read different ones
	for len(exts.b) > 0 {
		kind, body := uint16(exts.number(2)), exts.vector(2)
		if !exts.ok {
			return nil, fmt.Errorf("%w: cut extension", ErrMalformed)
		}
		if seen[kind/64]&(1<<(kind%64)) != 0 {
			return nil, fmt.Errorf("%w: extension %d appears twice", ErrMalformed, kind)
		}
		seen[kind/64] |= 1 << (kind % 64)
		if !grease(kind) {
			h.Extensions = append(h.Extensions, kind)
		}
		if !h.extension(kind, body) {
			return nil, fmt.Errorf("%w: in extension %d", ErrMalformed, kind)
		}
	}
	return h, nil
}

func (h *Hello) extension(kind uint16, body cursor) bool {
	switch kind {
	case extServerName:
		h.named = true
		var room [256]byte
		host, ok := body.appendHost(room[:0])
		h.Host = string(host)
		return ok
	case extSupportedGroups:
		return body.listIn(2, &h.Groups)
	case extPointFormats: // malformed content is accepted, because JA3 uses what can be read
		v := body.vector(1)
		h.Points = append([]byte(nil), v.b...)
	case extSignatures:
		return body.listIn(2, &h.Signatures)
	case extSupportedVersions:
		return body.listIn(1, &h.Versions)
	case extProtocols:
		names := body.vector(2)
		for names.ok && len(names.b) > 0 {
			name := names.vector(1)
			h.Protocols = append(h.Protocols, string(name.b))
		}
		return names.ok && len(body.b) == 0
	case extKeyShare:
		shares := body.vector(2)
		for shares.ok && len(shares.b) > 0 {
			group := uint16(shares.number(2))
			if shares.vector(2); !grease(group) {
				h.KeyShares = append(h.KeyShares, group)
			}
		}
		return shares.ok && len(body.b) == 0
	case extSessionTicket:
		h.Ticket = len(body.b) > 0
	case extPreSharedKey:
		h.PSK = true
	case extECH:
		h.ECH = true
	}
	return true
}

// grease reports whether v is one of the values 0x0a0a, 0x1a1a, … 0xfafa. RFC 8701 reserves
// them, so that servers learn to ignore unknown values.
func grease(v uint16) bool { return v&0x0f0f == 0x0a0a && v>>8 == v&0xff }

// A cursor parses a structure of length-prefixed vectors (RFC 8446 section 3.4).
type cursor struct {
	b  []byte
	ok bool
}

func (c *cursor) take(n int) []byte {
	if !c.ok || n > len(c.b) {
		c.b, c.ok = nil, false
		return nil
	}
	p := c.b[:n]
	c.b = c.b[n:]
	return p
}

func (c *cursor) number(bytes int) int {
	n := 0
	for _, x := range c.take(bytes) {
		n = n<<8 | int(x)
	}
	return n
}

// vector returns the vector whose length has that many bytes.
func (c *cursor) vector(bytes int) cursor {
	p := c.take(c.number(bytes))
	return cursor{p, c.ok}
}

// list returns the numbers of two bytes up to the end, without GREASE.
func (c *cursor) list() []uint16 {
	if len(c.b)%2 != 0 {
		c.ok = false
	}
	if !c.ok || len(c.b) == 0 {
		return nil
	}
	l := make([]uint16, 0, len(c.b)/2)
	for len(c.b) > 0 {
		if v := uint16(c.number(2)); !grease(v) {
			l = append(l, v)
		}
	}
	return l
}

// listIn reads an extension that consists of one list.
func (c *cursor) listIn(bytes int, l *[]uint16) bool {
	v := c.vector(bytes)
	*l = v.list()
	return v.ok && len(c.b) == 0
}

// appendHost reads a server_name extension. Two names of one type are forbidden (RFC 6066
// section 3), because the other side might read the other one.
func (c *cursor) appendHost(dst []byte) ([]byte, bool) {
	names := c.vector(2)
	found := false
	for names.ok && len(names.b) > 0 {
		kind, name := names.number(1), names.vector(2)
		if kind != 0 || !names.ok {
			continue
		}
		if found {
			return dst, false
		}
		found = true
		var ok bool
		if dst, ok = appendName(dst, name.b); !ok {
			return dst, false
		}
	}
	return dst, names.ok && found && len(c.b) == 0
}

// appendName appends a host name in lower case, without its final dot, and reports whether it
// is valid.
func appendName(dst, name []byte) ([]byte, bool) {
	if n := len(name); n > 0 && name[n-1] == '.' {
		name = name[:n-1]
	}
	if len(name) == 0 || len(name) > 253 {
		return dst, false
	}
	for _, c := range name {
		switch {
		case c >= 'A' && c <= 'Z':
			c |= 0x20
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-', c == '.', c == '_':
		default:
			return dst, false
		}
		dst = append(dst, c)
	}
	return dst, true
}
