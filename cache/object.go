package cache

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"shuultuur/cache/admission"
	"shuultuur/cache/disk"
	"shuultuur/cache/protocol"
	"shuultuur/lib/message"
)

// A Key is the hash of an object's name.
type Key = admission.Key

// An object is a stored response, or a mark: the note that responses to a name vary by request
// fields, and are stored under separate names. It never changes, except for atomic fields; an
// update makes a new one.
type object struct {
	name  string // see key.go
	url   string // for people
	host  string
	marks *mark // nil for a response

	res    message.Response // without Body
	facts  protocol.Facts
	body   [][]byte
	length int64 // of body
	offset int64 // where body begins in the whole representation
	size   int64 // of the whole representation
	labels labels
	purges uint64 // the number of the latest purge when it was stored

	blocks *blocks     // the reusable ones of body; nil for none
	saving atomic.Bool // blocks are held for writing to the disk
	lent   atomic.Bool // others may refer to it

	parent   *object     // the mark that leads to it, if known
	written  atomic.Bool // it is on the disk, or being written
	verdicts *verdicts
	record   *disk.Record // contains body, for the life of the object; nil if it is in memory
	file     *os.File     // the file of record
	at       int64        // offset of body in file
}

// A mark has the request fields by which responses vary. Its number is part of their names:
// without the mark all of them are unreachable.
type mark struct {
	names     []string
	number    uint64
	languages bool // Accept-Language is among names
}

// labels are further properties by which an object can be purged.
type labels struct {
	tags       []string // of the origin (Cache-Tag, Surrogate-Key)
	categories []string // of its host, when it was stored
}

// overhead is the approximate memory of an object besides its fields and body.
const overhead = 850

// weight returns the memory of the object in bytes.
func (o *object) weight() int64 {
	n := int64(overhead + 2*len(o.name) + len(o.url))
	for i := range o.res.Fields {
		n += int64(len(o.res.Fields[i].Name)+len(o.res.Fields[i].Value)) + 48
	}
	for _, b := range o.body {
		n += int64(cap(b))
	}
	return n
}

// isComplete reports whether the body is the whole representation.
func (o *object) isComplete() bool { return o.offset == 0 && o.length == o.size }

// tagsOf returns the tags that the origin gave a response.
func tagsOf(f message.Fields) (tags []string) {
	for i := range f {
		sep := ""
		switch {
		case message.EqualName(f[i].Name, "cache-tag"):
			sep = ","
		case message.EqualName(f[i].Name, "surrogate-key"), message.EqualName(f[i].Name, "xkey"):
			sep = " "
		default:
			continue
		}
		for v := range strings.SplitSeq(string(f[i].Value), sep) {
			if v = strings.TrimSpace(v); v != "" && len(tags) < maxLabels {
				tags = append(tags, v)
			}
		}
	}
	return tags
}

// maxLabels limits the tags and the categories of an object.
const maxLabels = 32

// verdicts are the verdicts of policies on an object's body, by keys that include a digest of
// everything that decided. All copies of an object with the same body share them.
type verdicts struct {
	some atomic.Bool // there are any
	mu   sync.Mutex
	all  []verdict
}

type verdict struct {
	key   [16]byte
	value []byte
}

// maxVerdicts limits the verdicts on one object: about the number of policies.
const maxVerdicts = 32

func (v *verdicts) get(key [16]byte) ([]byte, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for i := range v.all {
		if v.all[i].key == key {
			return v.all[i].value, true
		}
	}
	return nil, false
}

func (v *verdicts) put(key [16]byte, value []byte) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for i := range v.all {
		if v.all[i].key == key {
			v.all[i].value = value
			return
		}
	}
	if len(v.all) == maxVerdicts { // the oldest one probably belongs to old lists
		v.all = v.all[1:]
	}
	v.all = append(v.all, verdict{key, value})
	v.some.Store(true)
}

// An objectBody is the body of a response: all or a part of an object's body. It implements
// filter.Stored and [message.FileBody].
type objectBody struct {
	message.MemoryBody
	o   *object
	end int64 // end in the object's body
}

// HasVerdicts implements filter.Stored.
func (h *objectBody) HasVerdicts() bool { return h.o.verdicts.some.Load() }

// Verdict implements filter.Stored.
func (h *objectBody) Verdict(key [16]byte) ([]byte, bool) { return h.o.verdicts.get(key) }

// KeepVerdict implements filter.Stored.
func (h *objectBody) KeepVerdict(key [16]byte, value []byte) { h.o.verdicts.put(key, value) }

// File implements [message.FileBody].
func (h *objectBody) File() (*os.File, int64) { return h.o.file, h.o.at + h.end - h.Remaining() }

// A storedResponse is a response made from an object.
type storedResponse struct {
	message.Response
	body   objectBody
	fields [14]message.Field // most have no more, and unused room costs as much
	digits [64]byte
}

var (
	ageName    = []byte("Age")
	statusName = []byte("Cache-Status")
	rangeName  = []byte("Content-Range")
	lengthName = []byte("Content-Length")
)

// answer makes the response to q from the object: all of it, a part, or "not modified". ok is
// false if the object lacks the requested part.
func (o *object) answer(q *message.Request, now time.Time, note []byte) (s *storedResponse, ok bool) {
	p, ok := protocol.Answer(q, &o.res, &o.facts, o.offset, o.length, o.size)
	if !ok {
		return nil, false
	}
	s = &storedResponse{body: objectBody{o: o}}
	s.Response = message.Response{Status: p.Status, Proto: o.res.Proto, Body: &s.body}
	s.Fields = s.fields[:0]
	d := s.digits[:0]
	number := func(n int64) []byte {
		start := len(d)
		d = strconv.AppendInt(d, n, 10)
		return d[start:len(d):len(d)]
	}
	for _, f := range o.res.Fields {
		if p.Status != o.res.Status && len(f.Name) > 8 && message.EqualName(f.Name[:8], "content-") && drops(p.Status, f.Name) {
			continue
		}
		s.Fields = append(s.Fields, f)
	}
	switch {
	case p.Status == 304:
		s.Reason = []byte("Not Modified")
	case p.Status == 416:
		s.Reason = []byte("Range Not Satisfiable")
		s.Fields = append(s.Fields, message.Field{Name: rangeName, Value: append([]byte("bytes */"), number(o.size)...)})
	case p.Status == 206 && o.res.Status != 206 || o.res.Status == 206 && p.Status == 206:
		s.Reason = []byte("Partial Content")
		s.Length = p.Last - p.First + 1
		s.body.part(p.First-o.offset, s.Length)
		s.Fields.Del("Content-Range")
		v := append(number(p.First), '-')
		v = append(append(append([]byte("bytes "), v...), number(p.Last)...), '/')
		s.Fields = append(s.Fields, message.Field{Name: rangeName, Value: append(v, number(o.size)...)})
	default:
		s.Reason = o.res.Reason
		s.Length, s.body.end = o.length, o.length
		s.body.Set(o.body...)
	}
	if q.Method == "HEAD" {
		if s.Length > 0 && !s.Fields.Has("Content-Length") {
			s.Fields = append(s.Fields, message.Field{Name: lengthName, Value: number(s.Length)})
		}
		s.Length = message.None
		s.body.Set()
	}
	age := max(0, int64(o.facts.AgeAt(now)/time.Second))
	s.Fields = append(s.Fields, message.Field{Name: ageName, Value: number(age)}, message.Field{Name: statusName, Value: note})
	return s, true
}

// drops reports whether a field that begins with "Content-" is omitted from a response with
// this status that is derived from another one.
func drops(status int, name []byte) bool {
	switch {
	case message.EqualName(name, "content-length"), message.EqualName(name, "content-range"):
		return true
	case message.EqualName(name, "content-type"), message.EqualName(name, "content-encoding"), message.EqualName(name, "content-language"):
		return status == 304 || status == 416
	}
	return false
}

// part makes the body length bytes of the object's body, from first on.
func (h *objectBody) part(first, length int64) {
	h.end = first + length
	var parts [][]byte
	for _, b := range h.o.body {
		if first >= int64(len(b)) {
			first -= int64(len(b))
			continue
		}
		b = b[first:]
		first = 0
		b = b[:min(int64(len(b)), length)]
		length -= int64(len(b))
		parts = append(parts, b)
		if length == 0 {
			break
		}
	}
	h.Set(parts...)
}

// sameTag reports whether two responses have the same strong entity tag, so that their parts
// can be combined.
func sameTag(a, b *protocol.Facts) bool {
	return protocol.IsStrong(a.Tag) && bytes.Equal(a.Tag, b.Tag)
}
