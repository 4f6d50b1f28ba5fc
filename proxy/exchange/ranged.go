package exchange

import (
	"errors"
	"strconv"
	"strings"

	"shuultuur/lib/message"
)

// This file gives a client the range that it asked for, of a body that was requested whole because
// checks read all of it.

// A part is a range of a body.
type part struct {
	from, end, total int64 // positions; total is -1 if the origin does not tell
	text             string
	combined         bool // the client gets it, and not all of the body
}

// partOf returns the range in s, and whether it is one that can be cut out: a single one of bytes.
func partOf(s *message.Response) (p part, ok bool) {
	p.text = string(s.Get("Content-Range"))
	bytes, ok := strings.CutPrefix(p.text, "bytes ")
	first, rest, ok1 := strings.Cut(bytes, "-")
	last, total, ok2 := strings.Cut(rest, "/")
	from, err1 := strconv.ParseInt(first, 10, 62)
	to, err2 := strconv.ParseInt(last, 10, 62)
	if !ok || !ok1 || !ok2 || err1 != nil || err2 != nil || to < from {
		return part{}, false
	}
	p.from, p.end, p.total = from, to+1, -1
	if total != "*" {
		if n, err := strconv.ParseInt(total, 10, 62); err != nil || n < p.end {
			return part{}, false
		} else {
			p.total = n
		}
	}
	return p, true
}

// errPart reports that a body has become another one between two requests.
var errPart = errors.New("the body is shorter than when the client's range of it was requested")

// A rangedBody is a range of an inspected body. Its last bytes wait until all of the body was judged.
type rangedBody struct {
	derivedBody
	in    *inspection
	part  part
	at    int64 // position in the whole body
	given int64
	block []byte
}

// cutOut makes s the part that the client asked for, unless it is not of the same body.
func (b *inspection) cutOut(s *message.Response) {
	p := &b.x.part
	if all := b.Remaining(); s.Status != 200 || all >= 0 && (all < p.end || p.total >= 0 && all != p.total) {
		return
	}
	r := &rangedBody{in: b, part: *p}
	r.src, r.fill = b, r.next
	s.Status, s.Reason, s.Length, s.Body = 206, []byte("Partial Content"), p.end-p.from, r
	s.Del("Content-Range")
	s.Add("Content-Range", p.text)
}

// next reads until there are bytes of the range. It reads the whole body before it gives the last ones.
func (r *rangedBody) next() error {
	if r.block == nil {
		r.block = make([]byte, 32<<10)
	}
	for r.ready.Remaining() == 0 && !r.over {
		p, err := r.read()
		if err != nil {
			return err
		}
		first, end := max(r.part.from-r.at, 0), min(r.part.end-r.at, int64(len(p)))
		r.at += int64(len(p))
		if first >= end {
			continue
		}
		if r.at >= r.part.end {
			last := append([]byte(nil), p[first:end]...)
			for !r.src.AtEnd() {
				if p, err = r.read(); err != nil {
					return err
				}
				r.at += int64(len(p))
			}
			if r.part.total >= 0 && r.at != r.part.total {
				return errPart
			}
			r.over = true
			r.give(last)
			return nil
		}
		r.give(p[first:end])
	}
	return nil
}

func (r *rangedBody) give(p []byte) {
	r.given += int64(len(p))
	r.ready.Set(p)
}

// read reads some bytes of the whole body.
func (r *rangedBody) read() ([]byte, error) {
	if r.src.AtEnd() {
		return nil, errPart
	}
	n, err := r.src.Read(r.block)
	if r.in.noticed { // a notice is not of the range
		return nil, ErrCut
	}
	if n > 0 {
		err = nil
	}
	return r.block[:n], err
}

// Remaining implements [message.Body].
func (r *rangedBody) Remaining() int64 {
	return r.part.end - r.part.from - r.given + r.ready.Remaining()
}
