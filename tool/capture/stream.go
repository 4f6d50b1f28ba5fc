package capture

import (
	"bytes"
	"slices"
)

// Limits of the reassembly of one direction of a connection.
const (
	maxPending = 4 << 20 // bytes that wait for an acknowledgement or for a gap to be filled
	maxGaps    = 4096    // segments that wait
)

// A stream is one direction of a TCP connection.
type stream struct {
	started bool
	base    uint32 // sequence number of offset 0
	next    int64  // offset up to which bytes were passed on
	acked   int64  // offset up to which the other side has acknowledged
	segs    []segment
	pending int
	fin     int64 // offset of the end, 0 while unknown
	done    bool
	gaps    int
	omitted []int64 // offsets of bytes that are not data
}

type segment struct {
	off  int64
	data []byte
}

// offset returns the offset of a sequence number near those passed on.
func (s *stream) offset(seq uint32) int64 {
	delta := int64(int32(seq - (s.base + uint32(s.next))))
	return s.next + delta
}

// add stores a segment, and keeps data. Bytes that are already stored stay: the first copy
// applies, as on most systems. With replace, a segment that begins before a stored one and
// covers it replaces it, as on BSD and Windows.
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
			if replace && end >= oldEnd { // it begins before the old one and covers it
				s.pending -= len(old.data)
				s.segs = slices.Delete(s.segs, i, i+1)
				continue
			}
			head := data[:old.off-off]
			s.insert(i, off, head)
			data, off = data[old.off-off:], old.off
			i++
		default: // it begins inside the old one
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

// differs reports whether data differs from bytes that are stored.
func (s *stream) differs(off int64, data []byte) bool {
	for _, x := range s.segs {
		from, to := max(off, x.off), min(off+int64(len(data)), x.off+int64(len(x.data)))
		if from < to && !bytes.Equal(data[from-off:to-off], x.data[from-x.off:to-x.off]) {
			return true
		}
	}
	return false
}

// omit marks a byte that is not data.
func (s *stream) omit(off int64) {
	if len(s.omitted) < maxGaps {
		s.omitted = append(s.omitted, off)
	}
}

// skip skips bytes that are not data.
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

// take returns the next bytes up to offset limit, or nil. gap is the number of missing bytes
// before them; gaps are skipped only with skip.
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
