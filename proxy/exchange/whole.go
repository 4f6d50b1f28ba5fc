package exchange

import (
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"strings"
	"sync/atomic"

	"shuultuur/content"
	"shuultuur/filter"
	"shuultuur/lib/message"
)

// This file handles responses that are not a complete page: a range (206), and "not modified"
// (304) for a page that the client has from elsewhere, so that it was never judged here.
// Checks must inspect all of it: the request is sent again without its conditions.

// A Ranges is how to handle a range of a body that checks inspect.
type Ranges uint8

const (
	FetchWhole    Ranges = iota // the client gets the whole body
	RefuseRange                 // the client gets 416, and requests the whole body
	CombineRanges               // the whole body is judged, and the client gets its range
)

var rangesNames = [...]string{"whole", "refuse", "combine"}

// UnmarshalText reads whole, refuse or combine.
func (r *Ranges) UnmarshalText(text []byte) error {
	for i, name := range rangesNames {
		if string(text) == name {
			*r = Ranges(i)
			return nil
		}
	}
	return fmt.Errorf("%q is not one of %s", text, strings.Join(rangesNames[:], ", "))
}

// errRange reports that a range was refused.
var errRange = errors.New("a range of a page that must be judged as a whole")

// NeedsWhole reports whether the request must be sent again for the whole of a page of which s is a
// part: Outgoing then omits its conditions. Answer returns a response to an error.
func (x *Exchange) NeedsWhole(s *message.Response) (bool, error) {
	if x.whole || x.Q.Method != "GET" {
		return false, nil
	}
	switch s.Status {
	case 206:
		x.T.Response = s
		// A body that is text only if its type is wrong is judged by the range itself: players
		// request films in ranges.
		h := x.T.Content()
		use := h.Use()
		h.SetUse(content.Embedded)
		wanted := x.Wants(filter.ResponseBody)
		h.SetUse(use)
		x.T.Response = nil
		if !wanted {
			return false, nil
		}
		if x.in.ranges == RefuseRange {
			return false, errRange
		}
		x.in.counters[wholes].Add(1)
		x.Note("all of the body was requested, because checks read it: the client asked for a range")
		var ok bool
		if x.part, ok = partOf(s); ok {
			x.Note(fmt.Sprintf("range of %d bytes of %d", x.part.end-x.part.from, x.part.total))
		}
		x.part.combined = ok && x.in.ranges == CombineRanges
	case 304:
		if !mayBeText(&x.Q) || !x.Wants(filter.ResponseBody) || wasJudged(x, s) {
			return false, nil
		}
		x.Note("a page that was never judged here: the whole page was requested")
	default:
		return false, nil
	}
	x.whole = true
	return true, nil
}

// mayBeText reports whether the client may be requesting text, or a style sheet, which may add
// text, rather than an image or a script.
func mayBeText(q *message.Request) bool {
	switch string(q.Get("Sec-Fetch-Dest")) {
	case "audio", "font", "image", "script", "video", "worker":
		return false
	}
	accept := q.Get("Accept")
	for _, kind := range [...]string{"image/", "audio/", "video/", "font/"} {
		if bytes.HasPrefix(accept, []byte(kind)) {
			return false
		}
	}
	return true
}

// condition reports whether a field makes a request a partial or conditional one.
func condition(name []byte) bool {
	switch len(name) {
	case 5:
		return message.EqualName(name, "range")
	case 8:
		return message.EqualName(name, "if-match") || message.EqualName(name, "if-range")
	case 13:
		return message.EqualName(name, "if-none-match")
	case 17:
		return message.EqualName(name, "if-modified-since")
	case 19:
		return message.EqualName(name, "if-unmodified-since")
	}
	return false
}

// judgedPages remembers which pages were judged and passed: a hash of policy, URL and
// validator. Another page may overwrite an entry.
type judgedPages struct {
	seed maphash.Seed
	at   [1 << 15]atomic.Uint64
}

// page64 returns the hash of a page with a validator.
func page64(x *Exchange, validator []byte) uint64 {
	j := x.in.pages
	var h maphash.Hash
	h.SetSeed(j.seed)
	maphash.WriteComparable(&h, x.Engine) // other lists may judge differently
	h.WriteString(x.T.Verdict.Reason.Policy)
	h.WriteByte(0)
	h.WriteString(x.T.URL)
	h.WriteByte(0)
	h.Write(bytes.TrimPrefix(validator, []byte("W/")))
	return h.Sum64()
}

// keepJudged records that a whole page was judged and passed.
func (b *inspection) keepJudged() {
	x, s := b.x, b.t.Response
	if s == nil || s.Status != 200 || x.Q.Method != "GET" {
		return
	}
	for _, name := range [...]string{"ETag", "Last-Modified"} {
		if v := s.Get(name); v != nil {
			h := page64(x, v)
			x.in.pages.at[h%uint64(len(x.in.pages.at))].Store(h)
		}
	}
}

// wasJudged reports whether the page that the client has was judged here.
func wasJudged(x *Exchange, s *message.Response) bool {
	for i := range x.T.Findings {
		if f := &x.T.Findings[i]; f.Check == "policy" && f.Category == "learned" {
			return true
		}
	}
	for _, v := range [...][]byte{s.Get("ETag"), x.Q.Get("If-None-Match"), x.Q.Get("If-Modified-Since")} {
		if v == nil {
			continue
		}
		h := page64(x, v)
		return x.in.pages.at[h%uint64(len(x.in.pages.at))].Load() == h
	}
	return false
}
