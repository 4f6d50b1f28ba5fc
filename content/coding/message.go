package coding

import (
	"io"
	"sync"

	"shuultuur/content/limit"
)

// deflateTail is what the sender of a message removes from its end.
const deflateTail = "\x00\x00\xff\xff"

// inflaters decode messages.
var inflaters sync.Pool

// InflateMessage decompresses a message of a WebSocket (RFC 7692 section 7.2.2), of at most most
// bytes, that refers to window. With keep, it returns the window for the next message.
func InflateMessage(p, window []byte, most int, keep bool) (out, next []byte, why limit.Reason) {
	d, _ := inflaters.Get().(*inflater)
	if d == nil {
		d = &inflater{}
	}
	defer func() {
		d.src, d.in = nil, nil
		inflaters.Put(d)
	}()
	d.reset(&memory{p, []byte(deflateTail)})
	d.w = copy(d.out[:], window)
	d.given = d.w
	for {
		block, err := d.block()
		if room := most - len(out); len(block) > room {
			return append(out, block[:room]...), nil, limit.TooLarge
		}
		out = append(out, block...)
		switch {
		case err == io.EOF: // after a last block more may follow (RFC 7692 section 7.2.3.4)
			d.take(d.n & 7)
			d.state, d.last = atHeader, false
		case err == io.ErrUnexpectedEOF: // messages do not end their stream
			if keep {
				next = append(window[:0], d.out[max(0, d.w-windowSize):d.w]...)
			}
			return out, next, limit.AllRead
		case err != nil:
			return out, nil, limit.Cut
		}
	}
}

// memory is a source of bytes in memory.
type memory [][]byte

func (p *memory) next() ([]byte, error) {
	for len(*p) > 0 {
		first := (*p)[0]
		*p = (*p)[1:]
		if len(first) > 0 {
			return first, nil
		}
	}
	return nil, io.EOF
}

// Decode decodes a complete message, of at most most bytes, with the codings of a
// Content-Encoding field.
func Decode(codings string, p []byte, most int) ([]byte, limit.Reason) {
	var l List
	if codings != "" {
		l.Add([]byte(codings))
	}
	if l.foreign {
		return nil, limit.UnknownCoding
	}
	in := Pieces{Limits: limit.Limits{}.WithDefaults()}
	in.Append(p)
	in.Finish()
	var s Stream
	s.Reset(&in, l.All())
	defer s.Close()
	var out []byte
	for {
		block, err := s.Pull()
		if room := most - len(out); len(block) > room {
			return append(out, block[:room]...), limit.TooLarge
		}
		out = append(out, block...)
		switch {
		case err == io.EOF:
			return out, in.Unread()
		case err != nil:
			return out, s.Reason()
		}
	}
}
