// Package quic reads the Initial packets of QUIC, whose keys everybody on the path knows: they hold
// the TLS hellos of a connection (RFC 9000, 9001 and 9369).
package quic

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"slices"
)

// The versions of QUIC whose Initial packets can be read, besides drafts 23 to 34.
const (
	Version1 = 1
	Version2 = 0x6b3343cf
)

// Limits of a connection.
const (
	maxHello  = 64 << 10
	maxPieces = 256
)

// A Kind is the kind of a packet.
type Kind uint8

// The kinds of packets.
const (
	Initial Kind = iota
	ZeroRTT
	Handshake
	Retry
	Short
	Negotiation
)

// A Packet is a packet of a datagram.
type Packet struct {
	Version uint32
	Kind    Kind
	// Hello is the handshake message of TLS that is whole since this packet, with its head.
	Hello []byte
	// Waits says that a hello has begun and is not whole.
	Waits bool
	// Err says why the packet cannot be read.
	Err error
}

// The errors of packets.
var (
	ErrSealed = errors.New("it cannot be decrypted")
	ErrFrames = errors.New("its frames cannot be read")
	ErrLong   = errors.New("its hello is too long")
)

// A Conn is one connection.
type Conn struct {
	keys  [2]*keys // of the client and the server
	sides [2]side
}

// A side has the pieces of the hello of one side.
type side struct {
	pieces []piece
	done   bool
}

type piece struct {
	at   int
	data []byte
}

// keys protect the packets of one side.
type keys struct {
	aead cipher.AEAD
	iv   []byte
	head cipher.Block
}

// salt returns what the keys of a version are made with, nil if that is unknown.
func salt(version uint32) []byte {
	switch {
	case version == Version1, version >= 0xff000021 && version <= 0xff000022:
		return []byte("\x38\x76\x2c\xf7\xf5\x59\x34\xb3\x4d\x17\x9a\xe6\xa4\xc8\x0c\xad\xcc\xbb\x7f\x0a")
	case version == Version2:
		return []byte("\x0d\xed\xe3\xde\xf7\x00\xa6\xdb\x81\x93\x81\xbe\x6e\x26\x9d\xcb\xf9\xbd\x2e\xd9")
	case version >= 0xff00001d && version <= 0xff000020:
		return []byte("\xaf\xbf\xec\x28\x99\x93\xd2\x4c\x9e\x97\x86\xf1\x9c\x61\x11\xe0\x43\x90\xa8\x99")
	case version >= 0xff000017 && version <= 0xff00001c:
		return []byte("\xc3\xee\xf7\x12\xc7\x2e\xbb\x5a\x11\xa7\xd2\x43\x2b\xb4\x63\x65\xbe\xf9\xf5\x02")
	}
	return nil
}

// expand is HKDF-Expand-Label of TLS 1.3 with an empty context.
func expand(secret []byte, label string, n int) []byte {
	label = "tls13 " + label
	info := string(binary.BigEndian.AppendUint16(nil, uint16(n))) + string(rune(len(label))) + label + "\x00"
	out, _ := hkdf.Expand(sha256.New, secret, info, n) // fails only for lengths that do not occur
	return out
}

// derive makes the keys of both sides from the client's first identifier of the server.
func derive(version uint32, id []byte) (all [2]*keys, err error) {
	s := salt(version)
	if s == nil {
		return all, ErrSealed
	}
	initial, err := hkdf.Extract(sha256.New, id, s)
	if err != nil {
		return all, err
	}
	prefix := "quic "
	if version == Version2 {
		prefix = "quicv2 "
	}
	for i, label := range []string{"client in", "server in"} {
		secret := expand(initial, label, 32)
		block, err := aes.NewCipher(expand(secret, prefix+"key", 16))
		if err != nil {
			return all, err
		}
		k := &keys{iv: expand(secret, prefix+"iv", 12)}
		if k.aead, err = cipher.NewGCM(block); err != nil {
			return all, err
		}
		if k.head, err = aes.NewCipher(expand(secret, prefix+"hp", 16)); err != nil {
			return all, err
		}
		all[i] = k
	}
	return all, nil
}

// A reader reads fields; after an error it is empty.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.b, r.bad = nil, true
		return nil
	}
	v := r.b[:n]
	r.b = r.b[n:]
	return v
}

func (r *reader) byte() byte {
	if v := r.take(1); v != nil {
		return v[0]
	}
	return 0
}

// number reads an integer of variable length.
func (r *reader) number() (n uint64) {
	first := r.byte()
	n = uint64(first & 0x3f)
	for _, c := range r.take(1<<(first>>6) - 1) {
		n = n<<8 | uint64(c)
	}
	return n
}

// Is reports whether a datagram begins like a client's first: with a long head of a known version.
func Is(b []byte) bool {
	return len(b) >= 1200 && b[0]&0xc0 == 0xc0 && salt(binary.BigEndian.Uint32(b[1:])) != nil && b[5] >= 8 && b[5] <= 20
}

// kindOf returns the kind of a packet with a long head.
func kindOf(first byte, version uint32) Kind {
	n := Kind(first >> 4 & 3)
	if version == Version2 {
		n = (n + 3) & 3
	}
	return n
}

// Read reads the packets of a datagram of one side, 0 for the client and 1 for the server, up to
// the first whose end is unknown.
func (c *Conn) Read(datagram []byte, from int) (all []Packet) {
	for len(datagram) > 0 {
		p, rest := c.packet(datagram, from)
		all = append(all, p)
		datagram = rest
	}
	return all
}

// Done reports whether the hello of a side is whole: what follows is encrypted.
func (c *Conn) Done(from int) bool { return c.sides[from].done }

func (c *Conn) packet(b []byte, from int) (p Packet, rest []byte) {
	if b[0]&0x80 == 0 {
		return Packet{Kind: Short}, nil
	}
	r := &reader{b: b[1:]}
	if v := r.take(4); v != nil {
		p.Version = binary.BigEndian.Uint32(v)
	}
	to := r.take(uint64(r.byte()))
	r.take(uint64(r.byte()))
	switch p.Kind = kindOf(b[0], p.Version); {
	case r.bad:
		p.Err = ErrFrames
		return p, nil
	case p.Version == 0:
		p.Kind = Negotiation
		return p, nil
	case p.Kind == Retry: // the client begins again, with other keys
		c.keys = [2]*keys{}
		return p, nil
	case p.Kind == Initial:
		r.take(r.number()) // token
	}
	size := r.number()
	if r.bad || size > uint64(len(r.b)) {
		p.Err = ErrFrames
		return p, nil
	}
	head := len(b) - len(r.b)
	body, rest := r.b[:size], r.b[size:]
	if p.Kind != Initial || c.sides[from].done {
		return p, rest
	}
	if c.keys[0] == nil {
		var err error
		if c.keys, err = derive(p.Version, to); err != nil {
			p.Err = err
			return p, rest
		}
	}
	frames, err := c.keys[from].open(b[:head], body)
	if err != nil {
		p.Err = err
		return p, rest
	}
	c.frames(&p, frames, from)
	return p, rest
}

// open removes the protection of a packet.
func (k *keys) open(head, body []byte) ([]byte, error) {
	if len(body) < 4+16 {
		return nil, ErrSealed
	}
	var mask [16]byte
	k.head.Encrypt(mask[:], body[4:20])
	first := head[0] ^ mask[0]&0x0f
	n := int(first&3) + 1
	plain := append(slices.Clone(head), body[:n]...)
	plain[0] = first
	number := uint64(0)
	for i := range n {
		plain[len(head)+i] ^= mask[1+i]
		number = number<<8 | uint64(plain[len(head)+i])
	}
	nonce := slices.Clone(k.iv)
	for i := range 8 {
		nonce[len(nonce)-1-i] ^= byte(number >> (8 * i))
	}
	out, err := k.aead.Open(nil, nonce, body[n:], plain)
	if err != nil {
		return nil, ErrSealed
	}
	return out, nil
}

// frames reads the frames of an Initial packet.
func (c *Conn) frames(p *Packet, b []byte, from int) {
	s := &c.sides[from]
	r := &reader{b: b}
	for len(r.b) > 0 {
		switch kind := r.number(); kind {
		case 0, 1: // padding, ping
		case 2, 3: // acknowledgement
			r.number()
			r.number()
			ranges := r.number()
			r.number()
			for range min(ranges, uint64(len(r.b))) {
				r.number()
				r.number()
			}
			if kind == 3 {
				r.number()
				r.number()
				r.number()
			}
		case 6: // part of the hello
			at := r.number()
			data := r.take(r.number())
			if r.bad {
				break
			}
			if at+uint64(len(data)) > maxHello || len(s.pieces) >= maxPieces {
				p.Err = ErrLong
				return
			}
			s.pieces = append(s.pieces, piece{int(at), data})
		case 0x1c, 0x1d: // the connection is closed
			return
		default:
			p.Err = ErrFrames
			return
		}
	}
	if r.bad {
		p.Err = ErrFrames
		return
	}
	if len(s.pieces) == 0 {
		return
	}
	if hello := s.join(); hello != nil {
		p.Hello, s.done, s.pieces = hello, true, nil
		return
	}
	p.Waits = true
}

// join returns the first handshake message, if it is whole.
func (s *side) join() []byte {
	slices.SortStableFunc(s.pieces, func(a, b piece) int { return a.at - b.at })
	var all []byte
	for _, p := range s.pieces {
		if p.at > len(all) {
			break
		}
		if end := p.at + len(p.data); end > len(all) {
			all = append(all, p.data[len(all)-p.at:]...)
		}
	}
	if len(all) < 4 {
		return nil
	}
	n := 4 + int(all[1])<<16 + int(all[2])<<8 + int(all[3])
	if len(all) < n {
		return nil
	}
	return all[:n]
}
