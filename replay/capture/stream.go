package capture

import "slices"

// Limits of the reassembly of one direction of a connection.
const (
	maxPending = 4 << 20 // bytes that wait for an acknowledgement or a gap
	maxGaps    = 4096    // segments that wait
)

// A stream is one direction of a TCP connection.
type stream struct {
	started bool
	base    uint32 // sequence number of offset 0
	next    int64  // offset up to which bytes were handed on
	acked   int64  // offset up to which the other side has everything
	segs    []segment
	pending int
	fin     int64 // offset of the end, 0 while not known
	done    bool
	gaps    int
	omitted []int64 // offsets of bytes that are no part of the data
}

type segment struct {
	off  int64
	data []byte
}

// offset returns where a sequence number is, near what was handed on.
func (s *stream) offset(seq uint32) int64 {
	delta := int64(int32(seq - (s.base + uint32(s.next))))
	return s.next + delta
}

// add keeps a segment. Bytes that are there already stay: the first copy counts,
// as most systems do; a segment that begins before what is kept and reaches
// over it replaces it, as BSD and Windows do. It keeps data itself.
func (s *stream) add(off int64, data []byte, replace bool) {
	if off < s.next {
		cut := s.next - off
		if cut >= int64(len(data)) {
			return
		}
		off, data = s.next, data[cut:]
	}
	if len(data) == 0 || s.pending > maxPending || len(s.segs) > maxGaps {
		return
	}
	i := 0
	for i < len(s.segs) && len(data) > 0 {
		old := s.segs[i]
		end, oldEnd := off+int64(len(data)), old.off+int64(len(old.data))
		switch {
		case oldEnd <= off:
			i++
		case end <= old.off:
			s.insert(i, off, data)
			return
		case off < old.off:
			if replace && end >= oldEnd { // it begins before and covers the old one
				s.pending -= len(old.data)
				s.segs = slices.Delete(s.segs, i, i+1)
				continue
			}
			head := data[:old.off-off]
			s.insert(i, off, head)
			data, off = data[old.off-off:], old.off
			i++
		default: // it begins within the old one
			if end <= oldEnd {
				return
			}
			cut := oldEnd - off
			off, data = oldEnd, data[cut:]
			i++
		}
	}
	if len(data) > 0 {
		s.insert(i, off, data)
	}
}

// omit marks a byte that is no part of the data.
func (s *stream) omit(off int64) {
	if len(s.omitted) < maxGaps {
		s.omitted = append(s.omitted, off)
	}
}

// skip passes over bytes that are no part of the data.
func (s *stream) skip() {
	for {
		i := slices.Index(s.omitted, s.next)
		if i < 0 {
			return
		}
		s.omitted = slices.Delete(s.omitted, i, i+1)
		s.next++
	}
}

func (s *stream) insert(i int, off int64, data []byte) {
	s.segs = slices.Insert(s.segs, i, segment{off, data})
	s.pending += len(data)
}

// take returns the bytes that come next, up to offset limit, or nil. gap is how
// many bytes before them are missing; only with skip are gaps passed over.
func (s *stream) take(limit int64, skip bool) (data []byte, gap int64) {
	s.skip()
	if len(s.segs) == 0 {
		return nil, 0
	}
	first := &s.segs[0]
	if first.off > s.next {
		if !skip || first.off > limit {
			return nil, 0
		}
		gap = first.off - s.next
		s.next = first.off
		s.gaps++
	}
	n := min(int64(len(first.data)), limit-first.off)
	if n <= 0 {
		return nil, gap
	}
	data = first.data[:n]
	s.next += n
	s.pending -= int(n)
	if n == int64(len(first.data)) {
		s.segs = s.segs[1:]
	} else {
		first.off, first.data = first.off+n, first.data[n:]
	}
	return data, gap
}
