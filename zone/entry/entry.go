// Package entry reads the words of zone files: records and directives before anybody knows what
// they mean (RFC 1035 section 5.1), TTLs, names of types, and what $GENERATE makes.
package entry

import (
	"errors"
	"fmt"
	"io"
)

// maxEntry bounds the text of one entry of a zone file. The longest record has 64 KiB, of which
// each byte takes four as \DDD.
const maxEntry = 1 << 20

// A Token is a word of a zone file: what stands between blanks, or between quotes. Text has
// escapes as they are written, and no quotes.
type Token struct {
	Text   string
	Quoted bool
	Joined bool // no blank is between it and the word before
}

// An Entry is a directive or a record: a line, or several in parentheses (RFC 1035 section 5.1).
type Entry struct {
	Tokens []Token
	Blank  bool // it begins with a blank: the owner is that of the record before
}

// Next reads an entry from r; the error is io.EOF at the end.
func Next(r io.ByteReader) (e Entry, err error) {
	var text []byte
	size, depth := 0, 0
	first, inWord, quoted, comment := true, false, false, false
	apart := true // a blank came after the last word
	end := func(q bool) {
		e.Tokens = append(e.Tokens, Token{string(text), q, !apart})
		text, inWord, apart = text[:0], false, false
	}
	escape := func() error {
		text = append(text, '\\')
		var digits [3]byte
		for i := range 3 {
			c, err := r.ReadByte()
			switch {
			case err != nil:
				return errors.New("a backslash stands before nothing")
			case c == '\r' || c == '\n':
				return errors.New("a backslash stands at the end of a line")
			case i == 0 && (c < '0' || c > '9'):
				text = append(text, c)
				return nil
			case c < '0' || c > '9':
				return fmt.Errorf("the escape \\%s%c is not a backslash and three digits", digits[:i], c)
			}
			digits[i] = c
		}
		if v := int(digits[0]-'0')*100 + int(digits[1]-'0')*10 + int(digits[2]-'0'); v > 255 {
			return fmt.Errorf("the escape \\%s is over 255", digits[:])
		}
		text = append(text, digits[:]...)
		return nil
	}
	for {
		c, err := r.ReadByte()
		if err != nil {
			switch {
			case !errors.Is(err, io.EOF):
				return e, err
			case quoted:
				return e, errors.New("a quoted text has no end")
			case depth > 0:
				return e, errors.New("a parenthesis is not closed")
			}
			if inWord {
				end(false)
			}
			if len(e.Tokens) == 0 {
				return e, io.EOF
			}
			return e, nil
		}
		if size++; size > maxEntry {
			return e, fmt.Errorf("a record has more than %d bytes of text", maxEntry)
		}
		switch {
		case comment:
			if c != '\n' {
				continue
			}
			comment = false
		case quoted:
			switch c {
			case '"':
				end(true)
				quoted = false
			case '\\':
				if err := escape(); err != nil {
					return e, err
				}
			case '\n':
				text = append(text, "\\010"...)
			default:
				text = append(text, c)
			}
			continue
		}
		switch c {
		case ' ', '\t', '\r':
			if inWord {
				end(false)
			}
			apart = true
			if first && c != '\r' {
				e.Blank = true
			}
		case ';':
			if inWord {
				end(false)
			}
			comment, apart = true, true
		case '(', ')':
			if inWord {
				end(false)
			}
			apart = true
			if c == '(' {
				depth++
			} else if depth--; depth < 0 {
				return e, errors.New("a parenthesis is closed that was not opened")
			}
		case '"':
			if inWord {
				end(false)
			}
			quoted = true
		case '\n':
			if inWord {
				end(false)
			}
			apart = true
			if depth > 0 {
				break
			}
			if len(e.Tokens) > 0 {
				return e, nil
			}
			e.Blank, first, size = false, true, 0
			continue
		case '\\':
			inWord = true
			if err := escape(); err != nil {
				return e, err
			}
		default:
			inWord = true
			text = append(text, c)
		}
		first = false
	}
}
