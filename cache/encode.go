package cache

import (
	"encoding/binary"
	"errors"
	"runtime"
	"time"
	"weak"

	"shuultuur/cache/disk"
	"shuultuur/cache/protocol"
	"shuultuur/lib/message"
)

// encodedVersion is the version of an object's format on the disk, apart from its body:
// version, then numbers as varints and texts preceded by their length, in the order of encode.
const encodedVersion = 2

var errEncoded = errors.New("cache: not an object")

type encoder []byte

func (e *encoder) number(n int64) { *e = binary.AppendVarint(*e, n) }

func (e *encoder) text(s string) {
	e.number(int64(len(s)))
	*e = append(*e, s...)
}

func (e *encoder) texts(list []string) {
	e.number(int64(len(list)))
	for _, s := range list {
		e.text(s)
	}
}

func (e *encoder) fields(f message.Fields) {
	e.number(int64(len(f)))
	for i := range f {
		e.number(int64(len(f[i].Name)))
		*e = append(*e, f[i].Name...)
		e.number(int64(len(f[i].Value)))
		*e = append(*e, f[i].Value...)
	}
}

func (e *encoder) flag(b bool) {
	n := int64(0)
	if b {
		n = 1
	}
	e.number(n)
}

// encode returns an object in its format on the disk.
func encode(o *object) []byte { return appendObject(nil, o) }

func appendObject(b []byte, o *object) []byte {
	e := encoder(append(b, encodedVersion))
	e.text(o.name)
	e.text(o.url)
	e.flag(o.marks != nil)
	if m := o.marks; m != nil {
		e.texts(m.names)
		e.number(int64(m.number))
		return e
	}
	e.number(int64(o.res.Status))
	e.text(string(o.res.Reason))
	e.number(int64(o.res.Proto))
	e.fields(o.res.Fields)
	e.number(o.facts.Received.UnixNano())
	e.number(int64(o.facts.Age))
	e.number(int64(o.facts.Lifetime))
	e.flag(o.facts.Heuristic)
	e.flag(o.facts.Control.NoCache)
	e.number(o.offset)
	e.number(o.size)
	e.texts(o.labels.tags)
	e.texts(o.labels.categories)
	e.number(int64(o.purges))
	return e
}

// A decoder reads the output of an encoder. After an error all values are zero.
type decoder struct {
	b      []byte
	failed bool
}

func (d *decoder) number() int64 {
	n, size := binary.Varint(d.b)
	if size <= 0 {
		d.failed, d.b = true, nil
		return 0
	}
	d.b = d.b[size:]
	return n
}

func (d *decoder) bytes() []byte {
	n := d.number()
	if n < 0 || n > int64(len(d.b)) {
		d.failed, d.b = true, nil
		return nil
	}
	v := d.b[:n:n]
	d.b = d.b[n:]
	return v
}

func (d *decoder) texts() (list []string) {
	for n := d.number(); n > 0 && !d.failed; n-- {
		list = append(list, string(d.bytes()))
	}
	return list
}

func (d *decoder) fields() message.Fields {
	n := d.number()
	if n < 0 || n > int64(len(d.b)) {
		d.failed, d.b = true, nil
		return nil
	}
	f := make(message.Fields, 0, n)
	for range n {
		f = append(f, message.Field{Name: d.bytes(), Value: d.bytes()})
	}
	return f
}

// decode decodes an object, which refers to meta.
func decode(meta []byte) (*object, error) {
	if len(meta) == 0 || meta[0] == 0 || meta[0] > encodedVersion {
		return nil, errEncoded
	}
	d := decoder{b: meta[1:]}
	o := &object{name: string(d.bytes()), url: string(d.bytes()), verdicts: &verdicts{}}
	o.host = hostOf(o.url)
	if d.number() == 1 {
		o.marks = &mark{names: d.texts(), number: uint64(d.number())}
		o.marks.languages = contains(o.marks.names, "accept-language")
		if d.failed {
			return nil, errEncoded
		}
		return o, nil
	}
	o.res = message.Response{Status: int(d.number()), Reason: d.bytes(), Proto: uint8(d.number())}
	o.res.Fields = d.fields()
	received := time.Unix(0, d.number())
	o.facts = protocol.Describe(&o.res, received, received)
	o.facts.Age, o.facts.Lifetime = time.Duration(d.number()), time.Duration(d.number())
	o.facts.Heuristic, o.facts.Control.NoCache = d.number() == 1, d.number() == 1
	o.offset, o.size = d.number(), d.number()
	o.labels = labels{tags: d.texts(), categories: d.texts()}
	if meta[0] > 1 { // the first version has no number
		o.purges = uint64(d.number())
	}
	if d.failed {
		return nil, errEncoded
	}
	return o, nil
}

// attach makes the object keep the record with its body until it is unreachable. Until the
// garbage collector notices that, the shelf finds it again under k.
func (s *shelf) attach(o *object, k Key, r *disk.Record) {
	o.record = r
	o.file, o.at = r.File()
	s.mu.Lock()
	s.read[k] = weak.Make(o)
	s.mu.Unlock()
	runtime.AddCleanup(o, func(r *disk.Record) {
		s.mu.Lock()
		if s.read[k].Value() == nil {
			delete(s.read, k)
		}
		s.mu.Unlock()
		r.Release()
	}, r)
}
