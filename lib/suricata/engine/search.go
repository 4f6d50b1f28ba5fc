package engine

import (
	"shuultuur/lib/suricata/index"
)

// prefilter searches for the fast patterns of one buffer, and of its twin if that has other
// bytes.
func (w *work) prefilter(t *index.Table, scanned *int) {
	w.elements(t, scanned)
	if !t.HasTwin {
		return
	}
	b := w.buffer(w.dir, t.Twin, 0, 0)
	if !b.ok || len(b.data) == 0 {
		return
	}
	if f := w.buffer(w.dir, t.Buffer, 0, t.Chain); !f.ok || !sameMemory(f.data, b.data) {
		w.hits = t.Anchored(b.data, w.hits)
		w.hits = t.Find(b.data, &w.body, w.hits)
		w.body.Data = b.data
	}
}

// elements searches each element of a buffer.
func (w *work) elements(t *index.Table, scanned *int) {
	for i := 0; ; i++ {
		var b buffer
		if i == 0 {
			b = w.buffer(w.dir, t.Buffer, i, t.Chain)
		} else { // mostly needed only now
			b = w.make(w.dir, t.Buffer, i, t.Chain)
		}
		if !b.ok {
			return
		}
		data := b.data
		w.hits = t.Anchored(data, w.hits)
		only := !t.Buffer.Info().Multi || i == 0 && w.isBody(t, data)
		if only {
			if *scanned >= len(data) {
				return
			}
			if *scanned > 0 && t.Chain == 0 {
				data = data[max(0, *scanned-t.Longest()):]
			}
			*scanned = len(b.data)
		}
		seen := &w.seen
		if t.HasTwin {
			seen = &w.body
		}
		if w.hits = t.Find(data, seen, w.hits); len(data) == len(b.data) {
			seen.Data = data
		}
		if only {
			return
		}
	}
}

// isBody reports whether a file is the body of a message, whose earlier bytes do not change
// when more arrives.
func (w *work) isBody(t *index.Table, data []byte) bool {
	return t.HasTwin && !w.e.config.Packets && sameMemory(data, w.buffer(w.dir, t.Twin, 0, 0).data)
}

// sameMemory reports whether two slices share the same memory.
func sameMemory(a, b []byte) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }
