// Package leak recognises what should not leave in an upload: numbers of cards and accounts, what
// expressions match, and files by their hashes.
//
// [Patterns] are compiled once. Each body has a [Scan], which reads its text as a
// [content.Follower] and its bytes with Write. [Digests] read the bytes of a file.
package leak

import (
	"fmt"
	"regexp"

	"shuultuur/content"
	"shuultuur/lib/ascii"
)

// Patterns are kinds of numbers with check digits, and expressions, to be found in uploads.
// They never change; each body has a [Scan].
type Patterns struct {
	names []string
	cards int // index in names, -1 for none
	ibans int
	own   map[int]*regexp.Regexp
}

// tailLen is the number of previous bytes that a match of an expression can include.
const tailLen = 1 << 10

// NewPatterns returns the patterns in names: "card" (payment card numbers, ISO/IEC 7812, with
// a valid check digit), "iban" (account numbers, ISO 13616, with valid check digits), or an
// expression (RE2 syntax) between slashes.
func NewPatterns(names []string) (*Patterns, error) {
	p := &Patterns{names: names, cards: -1, ibans: -1, own: map[int]*regexp.Regexp{}}
	for i, name := range names {
		switch {
		case name == "card":
			p.cards = i
		case name == "iban":
			p.ibans = i
		case len(name) > 2 && name[0] == '/' && name[len(name)-1] == '/':
			x, err := regexp.Compile(name[1 : len(name)-1])
			if err != nil {
				return nil, fmt.Errorf("pattern %q: %w", name, err)
			}
			if x.MatchString("") {
				return nil, fmt.Errorf("pattern %q matches everything", name)
			}
			p.own[i] = x
		default:
			return nil, fmt.Errorf("pattern %q is not card, iban or an expression between slashes", name)
		}
	}
	return p, nil
}

// Follow implements [content.Reader]; it returns a *PatternScan.
func (p *Patterns) Follow(*content.Body) content.Follower {
	return &Scan{Patterns: p, N: make([]int, len(p.names))}
}

// A Scan has the matches in one body. It finds numbers in the text, and expressions in
// decoded bytes, which must be written to it.
type Scan struct {
	*Patterns
	N    []int // matches of each pattern
	tail []byte
}

// Read implements [content.Follower].
func (s *Scan) Read(text []byte, fresh int) {
	from := max(0, fresh-48)
	for from > 0 && text[from-1] != ' ' {
		from--
	}
	for i := from; i < len(text); {
		if text[i] == ' ' {
			i++
			continue
		}
		if end := cardAt(text[i:]); s.cards >= 0 && end > 0 && i+end > fresh {
			s.N[s.cards]++
			i += end
			continue
		}
		if end := ibanAt(text[i:]); s.ibans >= 0 && end > 0 && i+end > fresh {
			s.N[s.ibans]++
			i += end
			continue
		}
		for i < len(text) && text[i] != ' ' {
			i++
		}
	}
}

// Close implements [content.Follower].
func (s *Scan) Close() {}

// Write searches the next bytes of the body for the expressions.
func (s *Scan) Write(p []byte) (int, error) {
	if len(s.own) == 0 {
		return len(p), nil
	}
	had := len(s.tail)
	s.tail = append(s.tail, p...)
	for i, x := range s.own {
		for _, at := range x.FindAllIndex(s.tail, -1) {
			if at[1] > had {
				s.N[i]++
			}
		}
	}
	if over := len(s.tail) - tailLen; over > 0 {
		s.tail = s.tail[:copy(s.tail, s.tail[over:])]
	}
	return len(p), nil
}

// cardAt returns the end of a card number at the beginning of text, 0 if there is none. The
// number may be written in one piece or in the groups that are printed on cards.
func cardAt(text []byte) int {
	var digits [19]byte
	var groups [6]int
	n, g := 0, 0
	for i, c := range text {
		switch {
		case c >= '0' && c <= '9':
			if n == len(digits) {
				return 0
			}
			digits[n] = c - '0'
			n++
			groups[g]++
		case c == ' ' && groups[g] > 0:
			if isCard(digits[:n], groups[:g+1]) {
				return i
			}
			if g++; g == len(groups) || groups[0] != 4 {
				return 0
			}
		default:
			return 0
		}
	}
	if isCard(digits[:n], groups[:g+1]) {
		return len(text)
	}
	return 0
}

func isCard(d []byte, groups []int) bool {
	if len(d) < 13 {
		return false
	}
	if len(groups) > 1 {
		amex := len(groups) == 3 && groups[1] == 6
		for i, n := range groups {
			if last := i == len(groups)-1; !amex && !last && n != 4 || last && n > 5 {
				return false
			}
		}
	}
	p2, p4 := int(d[0])*10+int(d[1]), int(d[0])*1000+int(d[1])*100+int(d[2])*10+int(d[3])
	n := len(d)
	switch {
	case d[0] == 4 && (n == 13 || n == 16 || n == 19):
	case (p2 >= 51 && p2 <= 55 || p4 >= 2221 && p4 <= 2720) && n == 16:
	case (p2 == 34 || p2 == 37) && n == 15:
	case (p4 == 6011 || p2 == 65 || p4 >= 6440 && p4 < 6500 || p2 == 62 || p2 == 60 || p2 == 81 || p2 == 82) && n >= 16:
	case p4 >= 3528 && p4 <= 3589 && n >= 16:
	case (p2 == 36 || p2 == 38 || p2 == 39 || p4 >= 3000 && p4 <= 3059) && n >= 14:
	case (p2 == 50 || p2 >= 56 && p2 <= 58 || p2 >= 61 && p2 <= 69 || p4 >= 2200 && p4 <= 2204) && n >= 13:
	default:
		return false
	}
	sum := 0
	for i := range d {
		v := int(d[n-1-i])
		if i%2 == 1 {
			if v *= 2; v > 9 {
				v -= 9
			}
		}
		sum += v
	}
	return sum%10 == 0
}

// ibanLengths are the lengths by country.
var ibanLengths = map[string]int{
	"ad": 24, "ae": 23, "al": 28, "at": 20, "az": 28, "ba": 20, "be": 16, "bg": 22, "bh": 22, "bi": 27, "br": 29, "by": 28, "ch": 21, "cr": 22, "cy": 28, "cz": 24,
	"de": 22, "dj": 27, "dk": 18, "do": 28, "ee": 20, "eg": 29, "es": 24, "fi": 18, "fk": 18, "fo": 18, "fr": 27, "gb": 22, "ge": 22, "gi": 23, "gl": 18, "gr": 27, "gt": 28,
	"hn": 28, "hr": 21, "hu": 28, "ie": 22, "il": 23, "iq": 23, "is": 26, "it": 27, "jo": 30, "kw": 30, "kz": 20, "lb": 28, "lc": 32, "li": 21, "lt": 20, "lu": 20, "lv": 21, "ly": 25,
	"mc": 27, "md": 24, "me": 22, "mk": 19, "mn": 20, "mr": 27, "mt": 31, "mu": 30, "ni": 28, "nl": 18, "no": 15, "om": 23, "pk": 24, "pl": 28, "ps": 29, "pt": 25, "qa": 29, "ro": 24,
	"rs": 22, "ru": 33, "sa": 24, "sc": 31, "sd": 18, "se": 24, "si": 19, "sk": 24, "sm": 27, "so": 23, "st": 25, "sv": 28, "tl": 23, "tn": 24, "tr": 26, "ua": 29, "va": 22, "vg": 24, "xk": 20, "ye": 30,
}

// ibanAt is cardAt for account numbers, which may be written in groups of four.
func ibanAt(text []byte) int {
	if len(text) < 15 || !ascii.IsLetter(text[0]) || !ascii.IsLetter(text[1]) {
		return 0
	}
	want := ibanLengths[string(text[:2])]
	var id [34]byte
	n, i := 0, 0
	for ; i < len(text) && n < want; i++ {
		c := text[i]
		switch {
		case ascii.IsAlnum(c):
			id[n] = c
			n++
		case c != ' ' || n%4 != 0:
			return 0
		}
	}
	if want == 0 || n < want || i < len(text) && text[i] != ' ' {
		return 0
	}
	rest := 0
	for k := range want {
		c := id[(k+4)%want]
		if c >= '0' && c <= '9' {
			rest = (rest*10 + int(c-'0')) % 97
		} else {
			rest = (rest*100 + int(c-'a') + 10) % 97
		}
	}
	if rest != 1 {
		return 0
	}
	return i
}
