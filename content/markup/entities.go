package markup

import (
	"bytes"
	"strings"
)

// entities are the entities that a document declares.
type entities struct {
	values   map[string]string
	defaults [][]byte // default values of attributes
	left     *int     // bytes left for references, also in documents within
	over     bool     // a limit was reached
}

// Limits of the entities in a document.
const (
	mostEntities = 256
	mostDeep     = 8  // nested entities
	longestName  = 64 // of a parameter, with its semicolon
)

// takes takes n bytes, and one for the work, from those left. It returns false if there are not
// so many.
func (e *entities) takes(n int) bool {
	if *e.left <= n {
		e.over = true
		return false
	}
	*e.left -= n + 1
	return true
}

// expand returns p with references to declared entities expanded, including their markup.
func (e *entities) expand(p []byte, deep int) []byte {
	if e == nil {
		return p
	}
	if deep == mostDeep {
		e.over = e.over || bytes.IndexByte(p, '&') >= 0
		return p
	}
	var out []byte
	for {
		i := bytes.IndexByte(p, '&')
		if i < 0 {
			return append(out, p...)
		}
		out, p = append(out, p[:i]...), p[i:]
		end := bytes.IndexByte(p, ';')
		if end < 0 {
			return append(out, p...)
		}
		v, known := e.values[string(p[1:end])]
		switch {
		case !known:
			out = append(out, p[:end+1]...)
		case e.takes(len(v)):
			out = append(out, e.expand([]byte(v), deep+1)...)
		}
		p = p[end+1:]
	}
}

func (e *entities) read(p []byte, params map[string]string, deep int) {
	for {
		i := bytes.IndexAny(p, "<%")
		if i < 0 {
			return
		}
		if deep == mostDeep || len(e.values)+len(params) >= mostEntities {
			e.over = e.over || bytes.Contains(p, []byte("<!ENTITY"))
			return
		}
		if p[i] == '%' {
			p = p[i+1:]
			name, _, ok := bytes.Cut(p[:min(len(p), longestName)], []byte(";"))
			if value := params[string(name)]; ok && value != "" {
				p = p[len(name)+1:]
				if !e.takes(len(value)) {
					return
				}
				e.read([]byte(value), params, deep+1)
			}
			continue
		}
		p = p[i:]
		if list, ok := bytes.CutPrefix(p, []byte("<!ATTLIST")); ok {
			p = e.readDefaults(list)
			continue
		}
		const start = "<!ENTITY"
		if !bytes.HasPrefix(p, []byte(start)) {
			p = p[1:]
			continue
		}
		p = bytes.TrimLeft(p[len(start):], " \t\r\n")
		to := e.values
		if len(p) > 0 && p[0] == '%' {
			to = params
			p = bytes.TrimLeft(p[1:], " \t\r\n")
		}
		end := bytes.IndexAny(p, " \t\r\n")
		if end < 0 {
			return
		}
		name := string(p[:end])
		p = bytes.TrimLeft(p[end:], " \t\r\n")
		if len(p) == 0 || p[0] != '"' && p[0] != '\'' {
			continue // external
		}
		end = bytes.IndexByte(p[1:], p[0])
		if end < 0 {
			return
		}
		if _, known := to[name]; !known {
			to[name] = characters(p[1 : 1+end])
		}
		p = p[end+2:]
	}
}

// readDefaults reads the strings in the attribute declaration at the beginning of p, and
// returns the rest.
func (e *entities) readDefaults(p []byte) []byte {
	for {
		i := bytes.IndexAny(p, "'\">")
		if i < 0 {
			return nil
		}
		if p[i] == '>' {
			return p[i:]
		}
		end := bytes.IndexByte(p[i+1:], p[i])
		if end < 0 {
			return nil
		}
		if len(e.defaults) == mostEntities {
			e.over = true
			return nil
		}
		e.defaults = append(e.defaults, bytes.Clone(p[i+1:i+1+end]))
		p = p[i+end+2:]
	}
}

// characters returns v with numeric references decoded, as in a declaration.
func characters(v []byte) string {
	s := string(v)
	if !strings.Contains(s, "&#") {
		return s
	}
	var b strings.Builder
	for {
		i := strings.Index(s, "&#")
		if i < 0 {
			break
		}
		b.WriteString(s[:i])
		end := strings.IndexByte(s[i:], ';')
		if end < 0 {
			s = s[i:]
			break
		}
		b.Write(unescape([]byte(s[i : i+end+1])))
		s = s[i+end+1:]
	}
	b.WriteString(s)
	return b.String()
}

// Text implements what prose asks of entities.
func (e *entities) Text(name string) (string, bool) { return e.text(name, 0) }

// text returns the text of an entity without markup, and whether the entity exists.
func (e *entities) text(name string, deep int) (string, bool) {
	v, ok := e.values[name]
	if !ok || deep == mostDeep {
		e.over = e.over || ok
		return "", ok
	}
	var b strings.Builder
	for len(v) > 0 {
		i := strings.IndexAny(v, "<&")
		if i < 0 {
			i = len(v)
		}
		if !e.takes(i) {
			break
		}
		b.WriteString(v[:i])
		if v = v[i:]; v == "" {
			break
		}
		end := strings.IndexByte(v, map[byte]byte{'<': '>', '&': ';'}[v[0]])
		if end < 0 || !e.takes(end) {
			break
		}
		if ref := v[:end+1]; ref[0] == '&' {
			if s, ok := e.text(ref[1:end], deep+1); ok {
				b.WriteString(s)
			} else {
				b.Write(unescape([]byte(ref)))
			}
		}
		v = v[end+1:]
	}
	return b.String(), true
}
