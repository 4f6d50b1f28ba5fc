package engine

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"shuultuur/lib/suricata/rule"
)

// A fieldHits are the rules whose pattern occurs in the fields of a request. Clients send the
// same fields again and again, so an engine keeps those that it saw last. It does not keep the
// fields, which may be secret.
type fieldHits struct {
	sum  [sha256.Size]byte // of the fields
	hits []int32
}

// A fieldSource is a source that knows whether two requests have the same fields.
type fieldSource interface {
	// AppendFields appends everything that buffers of the fields of a request are made from.
	// ok is false if they depend on more.
	AppendFields(dst []byte) (all []byte, ok bool)
}

// fields adds the rules whose pattern occurs in the fields of a request, if they are known
// completely. It searches fields only if they are new.
func (w *work) fields(p *progress) (done bool) {
	src, ok := w.tx.Source.(fieldSource)
	if !ok || w.dir != rule.ToServer || p.at < rule.Headers {
		return false
	}
	if w.key, ok = src.AppendFields(w.key[:0]); !ok {
		return false
	}
	sum := sha256.Sum256(w.key)
	slot := &w.e.fields[int(binary.LittleEndian.Uint16(sum[:]))%len(w.e.fields)]
	if f := slot.Load(); f != nil && f.sum == sum {
		w.hits = append(w.hits, f.hits...)
		return true
	}
	from := len(w.hits)
	for i, t := range w.e.index[0].Messages {
		if t.Fields {
			w.prefilter(t, &p.scanned[i])
		}
	}
	if !p.over && !w.tx.Over.Transform {
		slot.Store(&fieldHits{sum, slices.Clone(sortUnique(w.hits[from:]))})
	}
	return true
}
