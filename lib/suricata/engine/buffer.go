package engine

import (
	"time"

	"shuultuur/lib/suricata/match"
	"shuultuur/lib/suricata/rule"
	"shuultuur/lib/suricata/traffic"
)

// buffer returns element i of a buffer after its transforms.
func (w *work) buffer(dir rule.Direction, b rule.Buffer, i, chain int) buffer {
	tx := w.tx
	at := tx.dir[dir>>1].at
	if b == rule.Payload && i == 0 {
		if data, ok := w.payload(dir); ok { // its memory is reused
			x := buffer{data: data, ok: true, at: at}
			w.transform(&x, chain)
			return x
		}
	}
	kept, before := tx.cached(bufferKey{dir, b, i, chain})
	if before && (kept.ok && kept.at >= rule.Trailer || kept.at == at && (at != rule.Body || b.Info().Progress < rule.Body) || kept.at >= rule.Headers && !w.e.config.Packets && b.InHead()) {
		return *kept
	}
	x := w.make(dir, b, i, chain)
	// Other buffers may have been made, and the entry moved.
	kept, _ = tx.cached(bufferKey{dir, b, i, chain})
	*kept = x
	return x
}

// make makes element i of a buffer. The first is made from the one without transforms.
func (w *work) make(dir rule.Direction, b rule.Buffer, i, chain int) (x buffer) {
	if chain > 0 && i == 0 {
		x = w.buffer(dir, b, 0, 0)
	} else {
		x.data, x.ok = w.raw(dir, b, i)
	}
	x.at = w.tx.dir[dir>>1].at
	w.transform(&x, chain)
	return x
}

// transform applies a chain of transforms to a buffer.
func (w *work) transform(x *buffer, chain int) {
	if !x.ok || chain == 0 {
		return
	}
	p := &w.tx.dir[w.dir>>1]
	for _, f := range w.e.chains[chain-1] {
		if len(x.data) == 0 {
			break
		}
		if p.spent+p.shaped > messageWork {
			w.giveUp(p)
			x.ok = false
			break
		}
		began := time.Now()
		out, ok := f(x.data)
		p.shaped += tryWork + len(x.data)
		if spent := int(time.Since(began)); spent > match.SlowSearch {
			p.shaped += spent
		}
		if !ok {
			if out == nil {
				x.ok = false
			} else if sameMemory(out, match.GivenUp) && !w.tx.Over.Transform {
				w.e.counters.OverRule.Add(1)
				w.tx.Over.Transform = true
			}
			break
		}
		x.data = out
	}
}

// fileBuffer returns the content of file i, or the name or type of the i-th file that has one.
func fileBuffer(files []*traffic.File, b rule.Buffer, i int) ([]byte, bool) {
	for _, f := range files {
		data := f.Data
		switch b {
		case rule.FileName:
			data = []byte(f.Name)
		case rule.FileMagic:
			data = []byte(f.Magic())
		}
		if b != rule.FileData && len(data) == 0 {
			continue
		}
		if i == 0 {
			return data, true
		}
		i--
	}
	return nil, false
}

// raw returns element i of a buffer without transforms.
func (w *work) raw(dir rule.Direction, b rule.Buffer, i int) ([]byte, bool) {
	tx := w.tx
	switch b {
	case rule.Payload:
		if data, ok := w.payload(dir); ok {
			return data, i == 0
		}
	case rule.IPSrc, rule.IPDst:
		src, dst := tx.ends(dir)
		if b == rule.IPDst {
			src = dst
		}
		return src.Addr().AsSlice(), i == 0
	case rule.FileData, rule.FileName, rule.FileMagic:
		return fileBuffer(tx.Source.Files(dir), b, i)
	}
	return tx.Source.Buffer(dir, b, i)
}
