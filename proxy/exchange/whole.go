package exchange

import (
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"strconv"
	"strings"
	"sync/atomic"

	"shuultuur/content"
	"shuultuur/filter"
	"shuultuur/message"
)

// This file is about responses that are not a whole page: a range of one (206),
// and "not modified" (304) for one that the client has from elsewhere, so that
// it was never judged here. Checks have to see all of it: the request is sent
// once more, without its conditions.

// A Ranges says what is done with a range of a body that checks want to see.
type Ranges uint8

const (
	FetchWhole    Ranges = iota // the client gets all of it
	RefuseRange                 // the client gets 416, and asks for all of it
	CombineRanges               // all of it is judged, and the client gets its range
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

// errRange says that a range was refused.
var errRange = errors.New("a range of a page that must be judged as a whole")

// Again says whether the request has to be sent once more, for all of what s is
// only a part of: Outgoing then leaves out its conditions. Answer knows what to
// say to an error.
func (x *Exchange) Again(s *message.Response) (bool, error) {
	if x.whole || x.Q.Method != "GET" {
		return false, nil
	}
	switch s.Status {
	case 206:
		x.T.Response = s
		// What is text only if its type is wrong is judged by the range itself:
		// players read films by ranges.
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
		if x.in.ranges == CombineRanges {
			x.part = string(s.Get("Content-Range"))
		}
		x.Note("a range of a page: the whole page was requested")
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

// mayBeText says whether the client may be asking for something to read, or a
// style sheet, which may add text: it is not for an image or a script.
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

// condition says whether a field makes a request one for a part, or for news
// only.
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

// judgedPages remembers which pages were judged and passed: a hash of policy,
// URL and validator, in a place that another may take.
type judgedPages struct {
	seed maphash.Seed
	at   [1 << 15]atomic.Uint64
}

// page64 is the hash of a page with a validator.
func page64(x *Exchange, validator []byte) uint64 {
	j := x.in.pages
	var h maphash.Hash
	h.SetSeed(j.seed)
	fmt.Fprintf(&h, "%p", x.Engine) // other lists may judge otherwise
	h.WriteString(x.T.Verdict.Reason.Policy)
	h.WriteByte(0)
	h.WriteString(x.T.URL)
	h.WriteByte(0)
	h.Write(bytes.TrimPrefix(validator, []byte("W/")))
	return h.Sum64()
}

// keepJudged notes that all of a page was judged, and passed.
func keepJudged(x *Exchange) {
	s := x.T.Response
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

// wasJudged says whether the page that the client has was judged here.
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

// cutOut makes s the part that the client asked for, where all of the body was
// judged and lies in memory.
func (b *inspection) cutOut(s *message.Response) {
	var from, to int64
	first, rest, _ := strings.Cut(strings.TrimPrefix(b.x.part, "bytes "), "-")
	last, total, _ := strings.Cut(rest, "/")
	from, err1 := strconv.ParseInt(first, 10, 63)
	to, err2 := strconv.ParseInt(last, 10, 63)
	if err1 != nil || err2 != nil || s.Status != 200 || !b.over || b.hold.base > 0 || to < from || to >= b.hold.end || total != strconv.FormatInt(b.hold.end, 10) {
		return
	}
	b.sent = from
	b.clear(to + 1)
	s.Status, s.Reason, s.Length = 206, []byte("Partial Content"), to+1-from
	s.Add("Content-Range", b.x.part)
}
