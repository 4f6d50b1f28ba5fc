package picture

import (
	"bytes"
	"math"
	"strconv"
	"strings"
)

// SVGSize returns the size in pixels at which browsers show the SVG b in <img>; ok is false if
// they do not show it. A missing length follows from the other one and the shape of viewBox
// (CSS Images 3, section 5.2; SVG 2, section 8.12).
func SVGSize(b []byte) (w, h int, ok bool) {
	root, ok := rootOf(b)
	if !ok {
		return 0, 0, false
	}
	x, fixedX := svgLength(attribute(root, "width"))
	y, fixedY := svgLength(attribute(root, "height"))
	shape := 0.5 // ratio of height to width, if no size is given
	box, shaped := numbers(attribute(root, "viewBox")), false
	if shaped = len(box) == 4 && box[2] > 0 && box[3] > 0; shaped {
		shape = box[3] / box[2]
	}
	switch {
	case fixedX && fixedY:
	case fixedX && shaped:
		y = x * shape
	case fixedY && shaped:
		x = y / shape
	case fixedX:
		y = 150
	case fixedY:
		x = 300
	default:
		x, y = 300, 300*shape
	}
	if w, h = pixels(x), pixels(y); w == 0 || h == 0 {
		return 0, 0, false
	}
	return w, h, true
}

// pixels rounds a length. 0 means that nothing is shown.
func pixels(v float64) int {
	if v = math.Round(v); !(v >= 1 && v <= MaxPixels) {
		return 0
	}
	return int(v)
}

// rootOf returns the start tag of the root of an SVG.
func rootOf(b []byte) (tag []byte, ok bool) {
	for {
		i := bytes.IndexByte(b, '<')
		if i < 0 {
			return nil, false
		}
		b = b[i:]
		end := ">"
		switch {
		case bytes.HasPrefix(b, []byte("<?")):
			end = "?>"
		case bytes.HasPrefix(b, []byte("<!--")):
			end = "-->"
		case bytes.HasPrefix(b, []byte("<!")):
			if open := bytes.IndexAny(b, "[>"); open >= 0 && b[open] == '[' {
				end = "]>"
			}
		default:
			name := b[1:]
			if n := bytes.IndexAny(name, " \t\r\n/>"); n >= 0 {
				name = name[:n]
			}
			_, local, prefixed := bytes.Cut(name, []byte(":"))
			if !prefixed {
				local = name
			}
			return b[:tagEnd(b)], string(local) == "svg"
		}
		if i = bytes.Index(b, []byte(end)); i < 0 {
			return nil, false
		}
		b = b[i+len(end):]
	}
}

// tagEnd returns the end of a tag: the first > outside of quotes.
func tagEnd(b []byte) int {
	quote := byte(0)
	for i, c := range b {
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '>':
			return i
		}
	}
	return len(b)
}

// attribute returns the value of an attribute of a tag, "" if it is missing.
func attribute(tag []byte, name string) string {
	for rest := tag; ; {
		i := bytes.IndexByte(rest, '=')
		if i < 0 {
			return ""
		}
		of := bytes.TrimRight(rest[:i], " \t\r\n")
		value := bytes.TrimLeft(rest[i+1:], " \t\r\n")
		if len(value) == 0 {
			return ""
		}
		end := bytes.IndexByte(value[1:], value[0])
		if value[0] != '"' && value[0] != '\'' || end < 0 {
			return ""
		}
		if k := bytes.LastIndexAny(of, " \t\r\n\"'"); string(of[k+1:]) == name {
			return strings.TrimSpace(string(value[1 : 1+end]))
		}
		rest = value[end+2:]
	}
}

// svgLength returns a length in pixels; ok is false if it depends on where the picture is
// shown.
func svgLength(s string) (v float64, ok bool) {
	unit := strings.TrimLeft(s, "+-.0123456789")
	if strings.HasPrefix(unit, "e") && len(unit) > 1 && unit[1] != 'm' && unit[1] != 'x' { // 1e3
		unit = strings.TrimLeft(unit[1:], "+-0123456789")
	}
	v, err := strconv.ParseFloat(s[:len(s)-len(unit)], 64)
	if err != nil || v < 0 {
		return 0, false
	}
	of, known := map[string]float64{"": 1, "px": 1, "pt": 96. / 72, "pc": 16, "mm": 96 / 25.4, "cm": 96 / 2.54, "in": 96, "em": 16, "ex": 8, "rem": 16}[strings.ToLower(unit)]
	return v * of, known
}

// numbers parses a list of numbers.
func numbers(s string) (all []float64) {
	for _, f := range strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' || r == '\n' || r == '\r' }) {
		v, err := strconv.ParseFloat(f, 64)
		if err != nil || len(all) == 4 {
			return nil
		}
		all = append(all, v)
	}
	return all
}
