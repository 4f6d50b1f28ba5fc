package proxy

import "encoding/binary"

// maxHello is the most bytes of a TLS hello that are looked at. Post-quantum
// key shares make them larger than a segment; nothing sane is this large.
const maxHello = 64 << 10

// maxHelloRecords bounds what a hello in tiny records costs.
const maxHelloRecords = 64

// helloState says how far sniHost came.
type helloState uint8

const (
	helloMore helloState = iota // a hello, not complete yet
	helloDone                   // a complete hello
	helloNot                    // something else
	helloOdd                    // a hello cut up or blown up as no honest client does
)

// sniHost finds the server name (RFC 6066) in a TLS client hello at the start
// of b, which may span several records (RFC 8446, 5.1). name is "" when the
// hello has none. Memory is only used for a hello in more than one record.
func sniHost(b []byte) (name string, state helloState) {
	var joined []byte // handshake bytes of the records so far
	for pos, records := 0, 0; ; records++ {
		if records == maxHelloRecords {
			return "", helloOdd
		}
		rest := b[pos:]
		if len(rest) > 0 && rest[0] != 22 || len(rest) > 1 && rest[1] != 3 {
			return "", helloNot
		}
		if len(rest) < 5 {
			return "", helloMore
		}
		n := int(binary.BigEndian.Uint16(rest[3:5]))
		if n == 0 || n > 1<<14 {
			return "", helloNot
		}
		part := rest[5:min(len(rest), 5+n)]
		switch records {
		case 0:
			joined = part
		case 1:
			joined = append(joined[:len(joined):len(joined)], part...)
		default:
			joined = append(joined, part...)
		}
		if len(joined) > 0 && joined[0] != 1 {
			return "", helloNot
		}
		if len(joined) >= 4 {
			size := int(joined[1])<<16 | int(joined[2])<<8 | int(joined[3])
			if size > maxHello-1024 {
				return "", helloOdd
			}
			if len(joined) >= 4+size {
				name, ok := helloName(joined[4 : 4+size])
				if !ok {
					return "", helloNot
				}
				return name, helloDone
			}
		}
		if len(rest) < 5+n {
			return "", helloMore
		}
		pos += 5 + n
	}
}

// A cursor takes a structure of length-prefixed vectors apart (RFC 8446, 3.4).
type cursor struct {
	b  []byte
	ok bool
}

func (c *cursor) take(n int) []byte {
	if !c.ok || n > len(c.b) {
		c.ok = false
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

func (c *cursor) vector(bytes int) cursor {
	p := c.take(c.number(bytes))
	return cursor{p, c.ok}
}

func helloName(b []byte) (string, bool) {
	c := cursor{b, true}
	c.take(2 + 32) // version, random
	c.vector(1)    // session
	c.vector(2)    // cipher suites
	c.vector(1)    // compression
	if !c.ok {
		return "", false
	}
	if len(c.b) == 0 {
		return "", true // no extensions
	}
	ext := c.vector(2)
	for ext.ok && len(ext.b) > 0 {
		kind := ext.number(2)
		body := ext.vector(2)
		if kind != 0 || !ext.ok {
			continue
		}
		names := body.vector(2)
		for names.ok && len(names.b) > 0 {
			kind := names.number(1)
			if host := names.vector(2); kind == 0 && names.ok {
				return cleanHost(host.b)
			}
		}
		return "", names.ok
	}
	return "", ext.ok
}

// cleanHost returns a host name as a Transaction wants it: lower case, no
// final dot. It says whether it can be one at all.
func cleanHost(b []byte) (string, bool) {
	if n := len(b); n > 0 && b[n-1] == '.' {
		b = b[:n-1]
	}
	if len(b) == 0 || len(b) > 253 {
		return "", false
	}
	low := make([]byte, len(b))
	for i, c := range b {
		switch {
		case c >= 'A' && c <= 'Z':
			c |= 0x20
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-', c == '.', c == '_':
		default:
			return "", false
		}
		low[i] = c
	}
	return string(low), true
}
