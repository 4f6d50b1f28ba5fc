package match

import (
	"bytes"
	"io"
	"slices"
	"sort"
	"time"
	"unicode/utf8"

	"shuultuur/lib/suricata/rule"
)

// An Expression is a compiled pcre.
type Expression struct {
	*rule.PCRE
	Re *rule.Regexp
}

// latin converts the buffer to a text in which each byte is one character. ASCII needs no
// conversion.
func (in *Inspector) latin() []byte {
	if in.text != nil {
		return in.text
	}
	in.Work += 2 * len(in.buf) / searchBytes
	high := 0
	for _, c := range in.buf {
		high += int(c >> 7)
	}
	if in.ascii = high == 0; in.ascii {
		in.text = in.buf
		return in.text
	}
	out := slices.Grow(in.spare[:0], len(in.buf)+high)
	in.wide = in.wide[:0]
	for i, c := range in.buf {
		if i%stride == 0 {
			in.wide = append(in.wide, len(out)-i)
		}
		out = utf8.AppendRune(out, rune(c))
	}
	if len(in.buf)%stride == 0 {
		in.wide = append(in.wide, high)
	}
	in.text, in.spare = out, out
	return in.text
}

// stride is the distance of positions in the buffer whose position in the text is known.
const stride = 512

// toText converts a position in the buffer to one in the text, toBytes does the reverse.
func (in *Inspector) toText(i int) int {
	if in.ascii {
		return i
	}
	k := i / stride
	n := k*stride + in.wide[k]
	for _, c := range in.buf[k*stride : i] {
		n += width(c)
	}
	return n
}

func (in *Inspector) toBytes(i int) int {
	if in.ascii {
		return i
	}
	k := sort.Search(len(in.wide), func(k int) bool { return k*stride+in.wide[k] > i }) - 1
	at := k * stride
	for n := at + in.wide[k]; n < i; at++ {
		n += width(in.buf[at])
	}
	return at
}

// width returns the length in the text of a byte of the buffer.
func width(c byte) int { return 1 + int(c>>7) }

// pcre tries an expression from position at on.
func (in *Inspector) pcre(m *Expression, next []rule.Match, at int) result {
	from := 0
	if m.Relative {
		if at > len(in.buf) {
			return retry
		}
		from = at
	}
	place := from
	failed := retry
	if !m.Relative {
		failed = never
	}
	for {
		in.Regexps++
		loc, ok := in.search(m, from, place)
		if !ok {
			in.Over = true
			return never
		}
		if m.Negated {
			if loc != nil {
				return failed
			}
			return in.inspect(next, at)
		}
		if loc == nil {
			return failed
		}
		for i, c := range m.Captures {
			if 2*i+3 < len(loc) && loc[2*i+2] >= 0 {
				in.Captures = append(in.Captures, Capture{c.Scope, c.Name, bytes.Clone(in.buf[loc[2*i+2]:loc[2*i+3]])})
			}
		}
		r := in.inspect(next, loc[1])
		if r != retry || !m.RelativeNext {
			if r == retry {
				return failed
			}
			return r
		}
		place = loc[0] + 1
		if place > len(in.buf) || in.steps > maxSteps || m.Re.Anchored() {
			return failed
		}
	}
}

// search searches for an expression from position place on, in the text from position from on.
// ok is false if it was given up.
func (in *Inspector) search(m *Expression, from, place int) (loc []int, ok bool) {
	end := min(len(in.buf), place+maxSubject)
	switch anchored := m.Re.Anchored(); {
	case anchored && (place == from || !m.Re.Looking()) && in.refuses(m.Re, in.buf[place:end]):
		return nil, true
	case anchored && !m.Re.Looking():
		loc, ok = in.beginning(m.Re, in.buf[place:end]), true
		move(loc, place)
	default:
		began := time.Time{}
		if end-place > quickSubject || m.Re.Looking() {
			began = time.Now()
		}
		if m.Re.Looking() {
			loc, ok = in.backtrack(m.Re, from, place, end)
		} else {
			loc, ok = in.linear(m.Re, place, end), true
		}
		seen := end - place
		if loc != nil {
			seen = loc[1] - place
		}
		work := seen * expressionWork
		if !began.IsZero() {
			spent := int(time.Since(began))
			if m.Re.Looking() && spent > SlowSearch { // it examined the same bytes again and again
				in.Slow += spent
			}
			if end-place > quickSubject { // it may have examined less
				work = min(work, spent)
				if loc == nil && anchored && ok { // mostly at the beginning
					work = min(work, quickSubject*expressionWork)
				}
			}
		}
		in.Work += work
	}
	// The end of a part is not the end of the buffer for an expression.
	whole := end == len(in.buf) || loc == nil && m.Re.Anchored() || loc != nil && loc[1] < end
	return loc, ok && whole
}

func move(loc []int, by int) {
	for i := range loc {
		if loc[i] >= 0 {
			loc[i] += by
		}
	}
}

// A byteReader reads bytes as characters, as far as needed.
type byteReader struct {
	data []byte
	at   int
}

func (r *byteReader) ReadRune() (c rune, size int, err error) {
	if r.at == len(r.data) {
		return 0, 0, io.EOF
	}
	r.at++
	return rune(r.data[r.at-1]), 1, nil
}

// beginning returns the match of an expression that matches at the beginning only. It examines
// no more of data than needed.
func (in *Inspector) beginning(re *rule.Regexp, data []byte) []int {
	in.reader = byteReader{data: data}
	loc := re.Read(&in.reader)
	in.Work += in.reader.at * expressionWork
	in.reader.data = nil
	return loc
}

// refuses reports that an expression does not match at the beginning of data.
func (in *Inspector) refuses(re *rule.Regexp, data []byte) bool {
	read, no := re.Refuses(data)
	in.Work += read
	return no
}

// linear searches for an expression that may match anywhere.
func (in *Inspector) linear(re *rule.Regexp, place, end int) []int {
	n := re.Skip(in.buf[place:end])
	if n < 0 {
		return nil
	}
	place += n
	text := in.latin()
	begin := in.toText(place)
	loc := re.Find(text[begin:in.toText(end)])
	for i := range loc {
		if loc[i] >= 0 {
			loc[i] = in.toBytes(begin + loc[i])
		}
	}
	return loc
}

// backtrack searches for an expression that works on characters.
func (in *Inspector) backtrack(re *rule.Regexp, from, place, end int) (loc []int, ok bool) {
	if n := re.Longest(); n > 0 && place == from {
		end = min(end, from+n)
	}
	if !re.Anchored() {
		n := re.Skip(in.buf[place:end])
		if n < 0 {
			return nil, true
		}
		place += n
	}
	loc, ok = re.FindRunes(in.characters(from, end), place-from)
	move(loc, from)
	return loc, ok
}

// characters returns the text between two positions as characters. Many searches need nearly
// the same.
func (in *Inspector) characters(from, end int) []rune {
	if from < in.runesAt || from > in.runesAt+len(in.runes) {
		in.runes = in.runes[:0]
	}
	if len(in.runes) == 0 {
		in.runesAt = from
	}
	if n := in.runesAt + len(in.runes); n < end {
		in.runes = slices.Grow(in.runes, end-n)
		for _, c := range in.buf[n:end] {
			in.runes = append(in.runes, rune(c))
		}
	}
	return in.runes[from-in.runesAt : end-in.runesAt]
}
