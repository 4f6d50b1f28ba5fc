package document

import (
	"bytes"
	"maps"
)

// This file reads the cross-reference tables of PDF (ISO 32000-1 sections 7.5.4 and 7.5.8).
// Objects are found without them. But if several have the same number, viewers use the one in
// the table.

const pdfTables = 1024 // limit of successive changes of a document

// A pdfPlace is the place of an object according to a table.
type pdfPlace struct {
	at int // offset in the document
	in int // the object stream that contains it, 0 for none
}

// A pdfTable reads the tables of one document.
type pdfTable struct {
	r      *pdfReader
	p      []byte
	base   int // of offsets: number of bytes before the document
	places map[int]pdfPlace
	good   bool // there was no error in them
}

// table returns the places of objects according to the tables in p, and whether all tables
// could be read.
func (r *pdfReader) table(p []byte) (places map[int]pdfPlace, good bool) {
	t := pdfTable{r: r, p: p, base: max(0, bytes.Index(p[:min(len(p), 1024)], []byte("%PDF-"))), places: map[int]pdfPlace{}, good: true}
	i := bytes.LastIndex(p, []byte("startxref"))
	if i < 0 {
		return nil, false
	}
	x := r.lexer(p[i+len("startxref"):])
	next := []any{x.value(0)}
	seen := map[int]bool{}
	for n := 0; len(next) > 0; n++ {
		at, ok := next[0].(float64)
		next = next[1:]
		switch {
		case !ok || at < 0 || int(at)+t.base >= len(p) || n == pdfTables || r.left <= 0:
			t.good = false
			continue
		case seen[int(at)]:
			continue
		}
		seen[int(at)] = true
		next = append(t.section(p[int(at)+t.base:]), next...)
	}
	return t.places, t.good
}

// section reads one table and returns the places of further ones.
func (t *pdfTable) section(p []byte) (next []any) {
	x := t.r.lexer(p)
	defer func() { t.r.spend(x.i) }()
	var d pdfDict
	if v := x.value(0); v == pdfWord("xref") {
		d = t.lines(&x)
	} else if _, ok := v.(float64); ok {
		x.value(0) // the generation
		x.value(0) // obj
		d = t.stream(p[x.i:])
	}
	if d == nil {
		t.good = false
		return nil
	}
	for _, key := range [...]pdfName{"XRefStm", "Prev"} {
		if v := d[key]; v != nil {
			next = append(next, v)
		}
	}
	return next
}

// lines reads a table in lines and returns the trailer after it.
func (t *pdfTable) lines(x *pdfLexer) pdfDict {
	for {
		v := x.value(0)
		if v == pdfWord("trailer") {
			d, _ := x.value(0).(pdfDict)
			return d
		}
		first, ok1 := v.(float64)
		count, ok2 := x.value(0).(float64)
		if !ok1 || !ok2 {
			return nil
		}
		for n := int(first); n < int(first)+int(min(count, pdfObjects)); n++ {
			at, ok := x.value(0).(float64)
			x.value(0) // the generation
			kind, _ := x.value(0).(pdfWord)
			if !ok || kind == "" {
				return nil
			}
			if kind == "n" {
				t.add(n, pdfPlace{at: int(at) + t.base})
			}
		}
	}
}

// stream reads a table in a stream, and returns its dictionary.
func (t *pdfTable) stream(p []byte) pdfDict {
	r := t.r
	r.at[pdfNoObject] = p
	defer delete(r.at, pdfNoObject)
	x := r.lexer(p)
	d, _ := x.value(0).(pdfDict)
	if !r.spend(x.i) || d["Type"] != pdfName("XRef") {
		return nil
	}
	var width [3]int
	for i, v := range r.list(d["W"]) {
		if f, ok := v.(float64); ok && i < len(width) && f >= 0 && f <= 8 {
			width[i] = int(f)
		}
	}
	row := width[0] + width[1] + width[2]
	index := r.list(d["Index"])
	if index == nil {
		index = []any{float64(0), d["Size"]}
	}
	rows := r.stream(pdfNoObject)
	if row == 0 {
		return nil
	}
	for i := 0; i+1 < len(index); i += 2 {
		first, _ := index[i].(float64)
		count, _ := index[i+1].(float64)
		for n := int(first); n < int(first)+int(min(count, pdfObjects)) && len(rows) >= row; n++ {
			var f [3]int
			for k, at := 0, 0; k < len(f); k++ {
				for range width[k] {
					f[k] = f[k]<<8 | int(rows[at])
					at++
				}
			}
			rows = rows[row:]
			switch {
			case width[0] == 0 || f[0] == 1:
				t.add(n, pdfPlace{at: f[1] + t.base})
			case f[0] == 2:
				t.add(n, pdfPlace{in: f[1]})
			}
		}
	}
	return d
}

// add records the place of object n, unless a newer table has one.
func (t *pdfTable) add(n int, place pdfPlace) {
	if _, old := t.places[n]; old {
		return
	}
	if len(t.places) == pdfObjects {
		t.good = false
		return
	}
	t.places[n] = place
}

// alternatives returns readers of p that use other objects with duplicate numbers than the last:
// those in the table, or if it cannot be read, the first ones.
func (r *pdfReader) alternatives(p []byte, first map[int][]byte) (all []*pdfReader) {
	places, good := r.table(p)
	other := r.freshReader()
	differs := false
	for n, place := range places {
		begin := place.at
		switch {
		case place.in > 0:
			other.within[n] = place.in
			differs = differs || len(r.covered) > 0
			continue
		case begin < 0 || begin >= len(p):
			good = false
			continue
		}
		x := r.lexer(p[begin:])
		number, _ := x.value(0).(float64)
		generation, _ := x.value(0).(float64)
		if isObject := x.value(0) == pdfWord("obj"); !r.spend(x.i) || !isObject || int(number) != n {
			good = false
			continue
		}
		at := p[begin+x.i:]
		if r.packed[n] || len(at) != len(other.at[n]) {
			other.at[n], other.generations[n], differs = at, int(generation), true
		}
		other.named[n] = true
	}
	if differs {
		all = append(all, other)
	}
	if !good {
		other := r.freshReader()
		for n := range other.at {
			other.named[n] = true
		}
		maps.Copy(other.at, first)
		all = append(all, other)
	}
	return all
}
