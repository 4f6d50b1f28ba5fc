package document

import (
	"bytes"
	stdlzw "compress/lzw"
	"io"

	"github.com/klauspost/compress/zlib"
	"golang.org/x/image/tiff/lzw"
)

// This file decodes the filters of streams (ISO 32000-1 section 7.4), except those of images.

const pdfFilters = 8 // limit of nested filters

// list returns the members of v if it is an array, or v itself.
func (r *pdfReader) list(v any) []any {
	switch v := r.resolve(v).(type) {
	case nil:
		return nil
	case []any:
		return v
	default:
		return []any{v}
	}
}

// first returns the value of the first key in names that d has.
func first(d pdfDict, names ...pdfName) any {
	for _, name := range names {
		if v := d[name]; v != nil {
			return v
		}
	}
	return nil
}

// unfilter decodes the filters of the stream p with dictionary d.
func (r *pdfReader) unfilter(p []byte, d pdfDict) []byte {
	filters := r.list(first(d, "Filter", "F"))
	parms := r.list(first(d, "DecodeParms", "DP"))
	for i, f := range filters {
		if i == pdfFilters {
			r.cut = true
			return nil
		}
		var parm pdfDict
		if i < len(parms) {
			parm = r.dict(parms[i])
		}
		switch r.resolve(f) {
		case pdfName("FlateDecode"), pdfName("Fl"):
			p = r.predicted(r.inflate(p), parm)
		case pdfName("LZWDecode"), pdfName("LZW"):
			p = r.predicted(r.unlzw(p, parm), parm)
		case pdfName("ASCIIHexDecode"), pdfName("AHx"):
			p = r.charged(unhexed(p))
		case pdfName("ASCII85Decode"), pdfName("A85"):
			p = r.charged(un85(p))
		case pdfName("RunLengthDecode"), pdfName("RL"):
			p = r.runLength(p)
		case pdfName("Crypt"): // already decrypted
		default:
			r.odd = true // a filter of images, or an unknown one
			return nil
		}
	}
	return p
}

// charged counts decoded bytes as work.
func (r *pdfReader) charged(p []byte) []byte {
	r.spend(len(p))
	return p
}

// pdfDecoder is the work of setting up a decoder.
const pdfDecoder = 256

// read reads in to its end, or to the limit. It keeps the bytes before an error.
func (r *pdfReader) read(in io.Reader) []byte {
	out, _ := io.ReadAll(io.LimitReader(in, max(r.left, 0)))
	r.spend(pdfDecoder + len(out))
	return out
}

func (r *pdfReader) inflate(p []byte) []byte {
	var err error
	if z, ok := r.zlib.(zlib.Resetter); ok {
		err = z.Reset(bytes.NewReader(p), nil)
	} else {
		r.zlib, err = zlib.NewReader(bytes.NewReader(p))
	}
	if err != nil {
		return r.charged(nil)
	}
	return r.read(r.zlib)
}

func (r *pdfReader) unlzw(p []byte, parms pdfDict) []byte {
	if early, ok := r.resolve(parms["EarlyChange"]).(float64); ok && early == 0 {
		return r.read(stdlzw.NewReader(bytes.NewReader(p), stdlzw.MSB, 8))
	}
	return r.read(lzw.NewReader(bytes.NewReader(p), lzw.MSB, 8))
}

// runLength decodes RunLengthDecode.
func (r *pdfReader) runLength(p []byte) (out []byte) {
	for len(p) > 1 && p[0] != 128 && int64(len(out)) < r.left {
		n := int(p[0])
		if n < 128 {
			k := min(n+2, len(p))
			out = append(out, p[1:k]...)
			p = p[k:]
			continue
		}
		out = append(out, bytes.Repeat(p[1:2], 257-n)...)
		p = p[2:]
	}
	return r.charged(out)
}

// predicted reverses the predictor in parms (section 7.4.4.4).
func (r *pdfReader) predicted(p []byte, parms pdfDict) []byte {
	number := func(name pdfName, missing int) int {
		if f, ok := r.resolve(parms[name]).(float64); ok && f >= 1 && f <= 1<<16 {
			return int(f)
		}
		return missing
	}
	predictor := number("Predictor", 1)
	colors, bits := number("Colors", 1), number("BitsPerComponent", 8)
	row := (number("Columns", 1)*colors*bits + 7) / 8
	switch back := max(1, colors*bits/8); {
	case row > len(p):
		return p
	case predictor >= 10:
		return unpredictPNG(p, row, back)
	case predictor == 2 && bits == 8: // of TIFF
		for at := 0; at+row <= len(p); at += row {
			for i := back; i < row; i++ {
				p[at+i] += p[at+i-back]
			}
		}
	}
	return p
}

// unpredictPNG reverses the predictors of PNG (section 9 of its specification) in rows of n
// bytes. back is the distance to the previous value.
func unpredictPNG(p []byte, n, back int) []byte {
	out := make([]byte, 0, len(p))
	above := make([]byte, n)
	for len(p) > 1 {
		row := p[1:min(1+n, len(p))]
		for i := range row {
			var left, corner byte
			if i >= back {
				left, corner = row[i-back], above[i-back]
			}
			switch p[0] {
			case 1:
				row[i] += left
			case 2:
				row[i] += above[i]
			case 3:
				row[i] += byte((int(left) + int(above[i])) / 2)
			case 4:
				row[i] += paeth(left, above[i], corner)
			}
		}
		out = append(out, row...)
		above = row
		if len(row) < n {
			break
		}
		p = p[1+n:]
	}
	return out
}

func paeth(a, b, c byte) byte {
	p := int(a) + int(b) - int(c)
	pa, pb, pc := max(p-int(a), int(a)-p), max(p-int(b), int(b)-p), max(p-int(c), int(c)-p)
	switch {
	case pa <= pb && pa <= pc:
		return a
	case pb <= pc:
		return b
	}
	return c
}
