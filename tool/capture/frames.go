package capture

import (
	"bytes"
	"encoding/binary"

	"shuultuur/lib/suricata/rule"
	"shuultuur/lib/suricata/traffic"
)

// maxFrame is the number of bytes of a frame that rules inspect.
const maxFrame = 64 << 10

// A frameReader cuts the frames out of one side of a connection.
type frameReader struct {
	buf  []byte
	skip int64 // bytes of a long frame that are not kept
	lost bool  // bytes are missing, and no frame is found any more
}

// A frameSource is the source of one frame.
type frameSource struct {
	packetSource
	buffer rule.Buffer
	data   []byte
}

// Buffer implements the Source of package engine.
func (s *frameSource) Buffer(dir rule.Direction, b rule.Buffer, i int) ([]byte, bool) {
	if b == s.buffer {
		return s.data, i == 0
	}
	return s.packetSource.Buffer(dir, b, i)
}

// Files implements the Source of package engine.
func (s *frameSource) Files(rule.Direction) []*traffic.File { return nil }

// frame schedules trying the rules on a frame, after the packet was decoded.
func (r *Run) frame(f *flow, dir rule.Direction, b rule.Buffer, data []byte) {
	if r.settled || !r.engine.HasFrames(dir) {
		return
	}
	s := &frameSource{packetSource{p: r.current, f: f, run: r}, b, bytes.Clone(data[:min(len(data), maxFrame)])}
	f.waiting = append(f.waiting, inspection{dir: dir, frame: s})
}

// frames cuts the records of TLS, HTTP/2 and DNS out of a connection. The parsers of other
// protocols know their frames themselves.
func (r *Run) frames(f *flow, dir rule.Direction, b []byte, gap int64) {
	if !r.engine.HasFrames(dir) {
		return
	}
	cut := cutters[f.app.name()]
	s := &f.framing[index(dir)]
	if cut == nil || s.lost {
		return
	}
	if gap > 0 {
		*s = frameReader{lost: true}
		return
	}
	if n := min(s.skip, int64(len(b))); n > 0 {
		b, s.skip = b[n:], s.skip-n
	}
	s.buf = append(s.buf, b...)
	if dir == rule.ToServer && f.app.name() == "http2" {
		s.buf = bytes.TrimPrefix(s.buf, []byte(preface))
	}
	for {
		n, ok := cut(r, f, dir, s.buf, false)
		switch {
		case !ok:
			*s = frameReader{lost: true}
			return
		case n == 0 || n > len(s.buf) && len(s.buf) < maxFrame:
			return
		}
		cut(r, f, dir, s.buf[:min(n, len(s.buf))], true)
		if n > len(s.buf) {
			s.skip = int64(n - len(s.buf))
			s.buf = nil
			return
		}
		s.buf = s.buf[n:]
	}
}

// cutters find the frames of protocols. Each returns the length of the first frame, 0 if it is
// not known yet; ok is false if there is none. With whole, the bytes are one frame, on which
// it tries the rules.
var cutters = map[string]func(r *Run, f *flow, dir rule.Direction, b []byte, whole bool) (n int, ok bool){
	"tls": func(r *Run, f *flow, dir rule.Direction, b []byte, whole bool) (int, bool) {
		if len(b) < 5 {
			return 0, true
		}
		if b[0]&0x80 != 0 && b[2] == 1 {
			if whole {
				r.frame(f, dir, rule.SSL2Frame, b)
			}
			return 2 + int(b[0]&0x7f)<<8 + int(b[1]), true
		}
		if b[0] < 20 || b[0] > 24 {
			return 0, false
		}
		if whole {
			r.frame(f, dir, rule.TLSFrame, b)
			r.frame(f, dir, rule.TLSHeadFrame, b[:5])
			r.frame(f, dir, rule.TLSDataFrame, b[5:])
			switch b[0] {
			case 21:
				r.frame(f, dir, rule.TLSAlertFrame, b)
			case 24:
				r.frame(f, dir, rule.TLSHeartbeatFrame, b)
			}
		}
		return 5 + int(binary.BigEndian.Uint16(b[3:])), true
	},
	"http2": func(r *Run, f *flow, dir rule.Direction, b []byte, whole bool) (int, bool) {
		if len(b) < 9 || bytes.HasPrefix([]byte(preface), b) {
			return 0, true
		}
		if whole {
			r.frame(f, dir, rule.HTTP2HeadFrame, b[:9])
			r.frame(f, dir, rule.HTTP2DataFrame, b[9:])
			r.frame(f, dir, rule.HTTP2Frame, b)
		}
		return 9 + int(b[0])<<16 + int(b[1])<<8 + int(b[2]), true
	},
	"dns": func(r *Run, f *flow, dir rule.Direction, b []byte, whole bool) (int, bool) {
		if len(b) < 2 {
			return 0, true
		}
		if whole {
			r.frame(f, dir, rule.DNSFrame, b[2:])
		}
		return 2 + int(binary.BigEndian.Uint16(b)), true
	},
}

// keepFrame keeps the bytes of a message as they come.
func (s *httpSide) keepFrame(b []byte) {
	if n := maxFrame - len(s.frame); n > 0 {
		s.frame = append(s.frame, b[:min(n, len(b))]...)
	}
	s.framed += int64(len(b))
}

// endFrame tries the rules on the bytes of a message, which ends before those that are not read.
func (h *http1) endFrame(dir rule.Direction) {
	s := &h.sides[index(dir)]
	if !h.r.engine.HasFrames(dir) {
		return
	}
	n := s.framed - int64(len(s.buf))
	kept := s.frame[:min(int64(len(s.frame)), max(n, 0))]
	b := rule.HTTP1RequestFrame
	if dir == rule.ToClient {
		b = rule.HTTP1ResponseFrame
	}
	if kept = bytes.TrimLeft(kept, "\r\n"); len(kept) > 0 {
		h.r.frame(h.f, dir, b, kept)
	}
	s.frame, s.framed = nil, 0
	s.keepFrame(s.buf)
}
