package conversation

import (
	"bytes"
	"encoding/binary"

	"shuultuur/content/coding"
	"shuultuur/content/data"
	"shuultuur/content/limit"
	"shuultuur/lib/ascii"
)

// A GRPC frames one direction of a gRPC or gRPC-web call, in which the length precedes each
// message.
type GRPC struct {
	Coding string // of messages, from grpc-encoding
	Base64 bool   // application/grpc-web-text

	head  [5]byte
	nHead uint8
	left  uint32
	over  bool
	data  []byte
	carry [4]byte // of base64
	nCar  uint8
	ready []byte // decoded but not used
}

// Next implements [Framer].
func (g *GRPC) Next(p []byte) (n int, m Message, whole bool, err error) {
	if !g.Base64 {
		return g.next(p)
	}
	for {
		if len(g.ready) > 0 {
			k, m, whole, err := g.next(g.ready)
			if g.ready = g.ready[k:]; whole || err != nil {
				return n, m, whole, err
			}
			g.ready = nil
		}
		for n < len(p) && g.nCar < 4 {
			if c := p[n]; ascii.IsAlnum(c) || c == '+' || c == '/' || c == '=' {
				g.carry[g.nCar] = c
				g.nCar++
			}
			n++
		}
		if g.nCar < 4 {
			return n, m, false, nil
		}
		g.nCar = 0
		group := g.carry
		g.ready = coding.Unbase64(bytes.TrimRight(group[:], "="))
	}
}

func (g *GRPC) next(p []byte) (n int, m Message, whole bool, err error) {
	for n < len(p) || g.nHead == 5 && g.left == 0 {
		if g.nHead < 5 {
			g.head[g.nHead] = p[n]
			g.nHead++
			n++
			if g.nHead < 5 {
				continue
			}
			if g.head[0]&^0x83 != 0 { // 2 marks the end of a stream in Connect
				return n, m, false, errGRPC
			}
			g.left = binary.BigEndian.Uint32(g.head[1:])
		}
		k := int(min(uint32(min(len(p)-n, 1<<30)), g.left))
		keep := min(k, data.MostUnpacked-len(g.data))
		g.over = g.over || keep < k
		g.data = append(g.data, p[n:n+keep]...)
		g.left -= uint32(k)
		n += k
		if g.left == 0 {
			return n, g.end(), true, nil
		}
	}
	return n, m, false, nil
}

// Finish implements [Framer].
func (g *GRPC) Finish() Message {
	if g.nHead < 5 {
		g.head = [5]byte{}
	}
	return g.end()
}

// Part implements [Framer].
func (g *GRPC) Part() (Message, bool) {
	if g.over || g.nHead < 5 || g.head[0] != 0 {
		return Message{}, false
	}
	m := Message{Data: g.data}
	g.data = nil
	return m, true
}

func (g *GRPC) end() Message {
	m := Message{Text: g.head[0]&0x82 != 0, Data: g.data} // trailers are text
	switch {
	case g.over:
		m.Unread = limit.TooLarge
	case g.head[0]&1 != 0 && len(g.data) > 0:
		m.Data, m.Unread = coding.Decode(g.Coding, g.data, data.MostUnpacked)
	}
	g.nHead, g.over, g.data = 0, false, nil
	return m
}
