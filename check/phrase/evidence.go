package phrase

import (
	"cmp"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Number of contributions that evidence names: enough to explain the score, few enough to cost
// next to nothing on a page that passes.
const (
	topOfTotal    = 8
	topOfCategory = 3
)

// appendReadable appends a phrase as UTF-8. It reads anything else as Latin-1.
func appendReadable(dst, p []byte) []byte {
	if utf8.Valid(p) {
		return append(dst, p...)
	}
	for _, c := range p {
		dst = utf8.AppendRune(dst, rune(c))
	}
	return dst
}

// place appends "file:line".
func (b *book) place(dst []byte, l *line) []byte {
	dst = append(dst, b.files[l.file]...)
	dst = append(dst, ':')
	return strconv.AppendUint(dst, uint64(l.number), 10)
}

// evidence appends the parts with the greatest weight, such as `<sex toy> 20 = 2 × 10
// lists/adult:12; <shop> -5 lists/good:3; and 4 more`. parts must be sorted. With a category
// it names only its parts with a positive weight.
func (sc *scan) evidence(dst []byte, parts []part, category uint16, most int) []byte {
	named, more := 0, 0
	for _, p := range parts {
		l := &sc.lines[p.line]
		if category != 0 && (l.category != category || p.value <= 0) {
			continue
		}
		if named == most {
			more++
			continue
		}
		if named++; named > 1 {
			dst = append(dst, "; "...)
		}
		dst = append(sc.text(dst, l), ' ')
		dst = strconv.AppendInt(dst, int64(p.value), 10)
		if p.count > 1 {
			dst = append(dst, " = "...)
			dst = strconv.AppendInt(dst, int64(p.count), 10)
			dst = append(dst, " × "...)
			dst = strconv.AppendInt(dst, int64(l.weight), 10)
		}
		dst = sc.place(append(dst, ' '), l)
	}
	if more > 0 {
		dst = append(dst, "; and "...)
		dst = strconv.AppendInt(dst, int64(more), 10)
		dst = append(dst, " more"...)
	}
	return dst
}

// sortParts sorts by weight, greatest first; equal ones stay in the order of the lists.
func sortParts(parts []part) {
	slices.SortStableFunc(parts, func(x, y part) int {
		if c := cmp.Compare(max(y.value, -y.value), max(x.value, -x.value)); c != 0 {
			return c
		}
		return cmp.Compare(x.line, y.line)
	})
}
