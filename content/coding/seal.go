package coding

import (
	"encoding/binary"
	"hash/crc32"
)

// This file ends a truncated page within its content coding, so that a browser can show our
// message after it.

const (
	sealAhead = 4 << 10 // limit of a block's header, in bytes
	longest   = 15      // bits of a code
)

// Seal returns bytes to send after the pieces, all of which went through pull, so that the coding
// ends with text; nil if that is impossible. rest is the original continuation: seal includes
// bytes of it only to complete the header of a block. Nothing more can be read.
func (s *Stream) Seal(rest [][]byte, text []byte) []byte {
	if s.err != nil || s.n != 1 || !s.codings[0].deflated() {
		return nil
	}
	var out []byte
	for _, p := range rest {
		for i := range p {
			if s.stages[0].inBlock() {
				break
			}
			if len(out) == sealAhead {
				return nil
			}
			out = append(out, p[i])
			s.in.Append(p[i : i+1])
			for q, err := s.Pull(); q != nil || err != nil; q, err = s.Pull() {
				if err != nil {
					return nil
				}
			}
		}
	}
	if !s.stages[0].inBlock() {
		return nil
	}
	switch d := s.stages[0].decoder.(type) {
	case *gzipDecoder:
		out, more := d.seal(out, text)
		if out == nil {
			return nil
		}
		out = binary.LittleEndian.AppendUint32(out, crc32.Update(d.crc, crc32.IEEETable, more))
		return binary.LittleEndian.AppendUint32(out, d.size+uint32(len(more)))
	case *deflateDecoder:
		out, more := d.seal(out, text)
		if out == nil || d.bare {
			return out
		}
		d.sum.Write(more)
		return d.sum.Sum(out)
	}
	return nil
}

// inBlock reports whether the decoder is waiting for bytes within a block.
func (g *stage) inBlock() bool {
	switch d := g.decoder.(type) {
	case *gzipDecoder:
		return d.state == inCodes || d.state == inStored
	case *deflateDecoder:
		return d.state == inCodes || d.state == inStored
	}
	return false
}

// seal ends the deflate stream, whose input was used up within a block, with text. It also
// returns the bytes that this decodes to.
func (d *inflater) seal(out, text []byte) (sealed, more []byte) {
	w := bitWriter{out: out}
	if d.state == inStored {
		fill := make([]byte, d.stored)
		n := 0
		if d.last && len(text) <= len(fill) {
			n = copy(fill, text)
		}
		for i := n; i < len(fill); i++ {
			fill[i] = ' '
		}
		w.out, more = append(w.out, fill...), fill
	} else {
		codes := d.literals()
		if !d.complete(&w) || codes[256].n == 0 {
			return nil, nil
		}
		more = append(more, d.give()...)
		if d.state == inCodes {
			if d.last && has(codes, text) {
				for _, c := range text {
					w.put(codes[c].bits, codes[c].n)
				}
				more = append(more, text...)
			}
			w.put(codes[256].bits, codes[256].n)
		}
	}
	if !d.last {
		w.put(1, 3) // last block, stored
		w.align()
		w.out = binary.LittleEndian.AppendUint16(w.out, uint16(len(text)))
		w.out = binary.LittleEndian.AppendUint16(w.out, ^uint16(len(text)))
		w.out, more = append(w.out, text...), append(more, text...)
	}
	w.align()
	return w.out, more
}

// complete adds bits to the available ones until they form a symbol.
func (d *inflater) complete(w *bitWriter) bool {
	bits, n := d.bits, d.n
	if n == 0 {
		return true
	}
	for v := range uint64(1 << longest) {
		d.bits, d.n = bits|v<<n, 63
		if ok, err := d.symbol(); ok && err == nil && 63-d.n >= n {
			w.put(v, 63-d.n-n)
			return true
		}
	}
	return false
}

// A bitCode is the code of a symbol, n bits from the lowest; n is 0 for none.
type bitCode struct {
	bits uint64
	n    uint
}

// literals returns the codes of literals, and that of the end of the block.
func (d *inflater) literals() *[257]bitCode {
	var codes [257]bitCode
	for v := range uint64(1 << longest) {
		e, n := d.lit[v&d.litMask&4095], uint(0)
		if e&isLink != 0 {
			n = uint(e & 0xFF)
			e = d.lit[(uint64(e>>16)+v>>n&(1<<(e>>8&15)-1))&4095]
		}
		n += uint(e & 0xFF)
		switch {
		case n > longest || v>>n != 0:
		case e&isLiteral != 0:
			codes[byte(e>>16)] = bitCode{v, n}
		case e&isEnd != 0:
			codes[256] = bitCode{v, n}
		}
	}
	return &codes
}

func has(codes *[257]bitCode, text []byte) bool {
	for _, c := range text {
		if codes[c].n == 0 {
			return false
		}
	}
	return true
}

// A bitWriter appends bits in the order of deflate, from the lowest of each byte.
type bitWriter struct {
	out  []byte
	bits uint64
	n    uint
}

func (w *bitWriter) put(bits uint64, n uint) {
	w.bits |= bits & (1<<n - 1) << w.n
	for w.n += n; w.n >= 8; w.n -= 8 {
		w.out = append(w.out, byte(w.bits))
		w.bits >>= 8
	}
}

func (w *bitWriter) align() { w.put(0, -w.n&7) }
