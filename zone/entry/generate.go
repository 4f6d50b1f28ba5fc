package entry

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// mostGenerated bounds the records of one $GENERATE.
const mostGenerated = 1 << 20

// A Generator makes the records of a $GENERATE directive, as BIND does: $ is the number, $$ and
// \$ are a dollar sign, ${offset,width,base} is the number plus offset, with a width and in a
// base: d, o, x, X, or n and N for nibbles in reverse order with dots between them.
type Generator struct {
	at, stop, step int64
	left           string // the owner
	middle         string // TTL, class and type
	right          string
}

// NewGenerator reads the values of a $GENERATE directive.
func NewGenerator(args []Token) (*Generator, error) {
	if len(args) < 4 {
		return nil, errors.New("$GENERATE: there is no type, or nothing after it")
	}
	g := &Generator{step: 1}
	rest, step, stepped := strings.Cut(args[0].Text, "/")
	from, to, ok := strings.Cut(rest, "-")
	var errs [3]error
	g.at, errs[0] = strconv.ParseInt(from, 10, 32)
	g.stop, errs[1] = strconv.ParseInt(to, 10, 32)
	if stepped {
		g.step, errs[2] = strconv.ParseInt(step, 10, 32)
	}
	switch err := errors.Join(errs[:]...); {
	case !ok || err != nil || g.at < 0 || g.step < 1 || g.at > g.stop:
		return nil, fmt.Errorf("$GENERATE: %q is not a range like 1-100 or 0-254/2", args[0].Text)
	case (g.stop-g.at)/g.step >= mostGenerated:
		return nil, fmt.Errorf("$GENERATE: %q has more than %d numbers", args[0].Text, mostGenerated)
	}
	g.left = args[1].Text
	typed := 2
	for ; typed < len(args) && typed < 5; typed++ {
		if _, ok := TTL(args[typed]); !ok && Type(strings.ToUpper(args[typed].Text)) != 0 {
			break
		}
	}
	if typed >= len(args) || typed == 5 || typed+1 >= len(args) {
		return nil, errors.New("$GENERATE: there is no type, or nothing after it")
	}
	for _, t := range args[2 : typed+1] {
		g.middle += " " + t.Text
	}
	for i, t := range args[typed+1:] {
		if i > 0 && !t.Joined {
			g.right += " "
		}
		if t.Quoted && len(args) > typed+2 {
			g.right += `"` + t.Text + `"`
		} else {
			g.right += t.Text // one quoted text is the data as a whole
		}
	}
	return g, nil
}

// Next returns the text of the next record; ok is false when there is none.
func (g *Generator) Next() (text string, ok bool, err error) {
	if g.at > g.stop {
		return "", false, nil
	}
	owner, err := expand(g.left, g.at)
	if err != nil {
		return "", false, err
	}
	data, err := expand(g.right, g.at)
	if err != nil {
		return "", false, err
	}
	g.at += g.step
	return owner + g.middle + " " + data, true, nil
}

// expand replaces the dollar signs of a template.
func expand(s string, n int64) (string, error) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\' && i+1 < len(s):
			if i++; s[i] != '$' {
				b.WriteByte('\\')
			}
			b.WriteByte(s[i])
		case s[i] != '$':
			b.WriteByte(s[i])
		case i+1 < len(s) && s[i+1] == '$':
			b.WriteByte('$')
			i++
		case i+1 < len(s) && s[i+1] == '{':
			end := strings.IndexByte(s[i:], '}')
			if end < 0 {
				return "", fmt.Errorf("%q: the brace is not closed", s)
			}
			out, err := modified(s[i+2:i+end], n)
			if err != nil {
				return "", fmt.Errorf("%q: %w", s, err)
			}
			b.WriteString(out)
			i += end
		default:
			b.WriteString(strconv.FormatInt(n, 10))
		}
	}
	return b.String(), nil
}

// modified returns a number as offset, width and base say.
func modified(how string, n int64) (string, error) {
	parts := strings.Split(how, ",")
	width, base := 0, "d"
	offset, err := strconv.ParseInt(parts[0], 10, 32)
	if err == nil && len(parts) > 1 {
		width, err = strconv.Atoi(parts[1])
	}
	if len(parts) > 2 {
		base = parts[2]
	}
	if err != nil || len(parts) > 3 || width < 0 || width > 255 {
		return "", fmt.Errorf("${%s} is not like ${offset,width,base}", how)
	}
	if n += offset; n < 0 && base != "d" {
		return "", fmt.Errorf("${%s} makes a negative number, which only d writes", how)
	}
	switch base {
	case "d":
		return fmt.Sprintf("%0*d", width, n), nil
	case "o":
		return fmt.Sprintf("%0*o", width, n), nil
	case "x":
		return fmt.Sprintf("%0*x", width, n), nil
	case "X":
		return fmt.Sprintf("%0*X", width, n), nil
	case "n", "N":
		return nibbles(n, width, base == "N"), nil
	}
	return "", fmt.Errorf("${%s}: %q is not one of d, o, x, X, n, N", how, base)
}

// nibbles returns the hexadecimal digits of n, the lowest first, with dots between them. width
// counts both; a width that ends in a dot has one there.
func nibbles(n int64, width int, capitals bool) string {
	digits := "0123456789abcdef"
	if capitals {
		digits = "0123456789ABCDEF"
	}
	var b strings.Builder
	for first := true; first || n > 0 || width > 0; first = false {
		b.WriteByte(digits[n&15])
		n >>= 4
		width--
		if n > 0 || width > 0 {
			b.WriteByte('.')
			width--
		}
	}
	return b.String()
}
