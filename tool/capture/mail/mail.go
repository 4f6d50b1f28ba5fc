// Package mail finds the files and addresses in mails, as Suricata does.
package mail

import (
	"bytes"
	"strings"

	"shuultuur/content/coding"
	"shuultuur/lib/ascii"
	"shuultuur/lib/suricata/traffic"
)

// Limits of a mail.
const (
	maxParts     = 200
	maxNested    = 10
	maxMailLine  = 998
	maxURLs      = 100
	maxEncoded   = 76 + 2
	maxFieldName = 256
)

// A Mail is a message with its files, RFC 5322 and 2045.
type Mail struct {
	Fields []traffic.Header
	Files  []*traffic.File
	URLs   []string
	Body   []byte
	Odd    []string // names of anomalies
	parts  int
}

// Field returns the value of a field.
func (m *Mail) Field(name string) ([]byte, bool) {
	for _, h := range m.Fields {
		if strings.EqualFold(string(h.Name), name) {
			return h.Value, true
		}
	}
	return nil, false
}

func (m *Mail) note(event string) {
	for _, e := range m.Odd {
		if e == event {
			return
		}
	}
	m.Odd = append(m.Odd, event)
}

// Read reads a mail as far as it was sent.
func Read(raw []byte, complete bool) *Mail {
	m := &Mail{}
	fields, body := m.head(raw)
	m.Fields, m.Body = fields, body
	m.part(fields, body, complete, 0)
	return m
}

// head splits the fields from what follows.
func (m *Mail) head(raw []byte) (fields []traffic.Header, body []byte) {
	for len(raw) > 0 {
		line, rest, ok := cutLine(raw)
		if !ok {
			line, rest = raw, nil
		}
		if len(line) == 0 {
			return fields, rest
		}
		raw = rest
		if (line[0] == ' ' || line[0] == '\t') && len(fields) > 0 {
			last := &fields[len(fields)-1]
			last.Value = append(append(last.Value[:len(last.Value):len(last.Value)], ' '), bytes.TrimSpace(line)...)
			continue
		}
		name, value, found := bytes.Cut(line, []byte(":"))
		if !found {
			m.note("mime_malformed_msg")
			continue
		}
		if len(name) > maxFieldName {
			m.note("mime_long_header_name")
		}
		fields = append(fields, traffic.Header{Name: bytes.TrimSpace(name), Value: bytes.TrimSpace(value)})
	}
	return fields, nil
}

// parameter returns a parameter of a field, such as name in Content-Type. A value over several
// lines (RFC 2231) is joined.
func parameter(value, name string) string {
	parts := map[string]string{}
	rest := value
	for {
		i := strings.IndexByte(rest, ';')
		if i < 0 {
			break
		}
		rest = strings.TrimLeft(rest[i+1:], " \t\r\n")
		key, v, ok := strings.Cut(rest, "=")
		if !ok || strings.ContainsAny(key, ";") {
			continue
		}
		v = strings.TrimLeft(v, " \t")
		key = strings.ToLower(strings.TrimSpace(key))
		if strings.HasPrefix(v, `"`) {
			end := strings.IndexByte(v[1:], '"')
			if end < 0 {
				parts[key] = v[1:]
				break
			}
			parts[key], rest = v[1:1+end], v[2+end:]
			continue
		}
		parts[key], _, _ = strings.Cut(v, ";")
		parts[key] = strings.TrimSpace(parts[key])
		rest = v
	}
	if v, ok := parts[name]; ok {
		return v
	}
	if v, ok := parts[name+"*"]; ok {
		if i := strings.LastIndexByte(v, '\''); i >= 0 {
			v = v[i+1:]
		}
		return string(coding.AppendUnpercented(nil, []byte(v)))
	}
	joined := ""
	for n := range 20 {
		digit := name + "*" + string(rune('0'+n%10))
		v, ok := parts[digit]
		if !ok {
			if v, ok = parts[digit+"*"]; !ok {
				break
			}
			if i := strings.LastIndexByte(v, '\''); i >= 0 && n == 0 {
				v = v[i+1:]
			}
			v = string(coding.AppendUnpercented(nil, []byte(v)))
		}
		joined += v
	}
	return joined
}

// part reads one part: others in it, a file, or a text with addresses.
func (m *Mail) part(fields []traffic.Header, body []byte, complete bool, depth int) {
	if m.parts++; m.parts > maxParts || depth > maxNested {
		return
	}
	side := traffic.Side{Headers: fields}
	get := func(name string) string { v, _ := side.Get(name); return string(v) }
	kind := get("Content-Type")
	low := strings.ToLower(kind)
	name := parameter(get("Content-Disposition"), "filename")
	if name == "" {
		name = parameter(kind, "name")
	}
	coding := strings.ToLower(strings.TrimSpace(get("Content-Transfer-Encoding")))
	switch {
	case strings.HasPrefix(low, "multipart/") && parameter(kind, "boundary") != "":
		m.multipart(parameter(kind, "boundary"), body, complete, depth)
		return
	case strings.HasPrefix(low, "message/rfc822"): // whatever coding and name it claims
		inner, rest := m.head(body)
		m.part(inner, rest, complete, depth+1)
		return
	}
	data := m.decode(coding, body)
	if name != "" {
		m.Files = append(m.Files, &traffic.File{Name: name, Data: data, Size: int64(len(data)), Complete: complete})
		return
	}
	if low == "" || strings.HasPrefix(low, "text/") {
		m.find(data)
	}
}

// multipart reads the parts between boundaries.
func (m *Mail) multipart(boundary string, body []byte, complete bool, depth int) {
	mark := []byte("--" + boundary)
	var from []byte // the current part
	open := false
	close := func(end int, whole bool) {
		if !open {
			return
		}
		data := bytes.TrimSuffix(bytes.TrimSuffix(from[:end], []byte("\n")), []byte("\r"))
		if !whole {
			data = from[:end]
		}
		fields, rest := m.head(data)
		m.part(fields, rest, whole || complete, depth+1)
	}
	rest, offset := body, 0
	for len(rest) > 0 {
		line, next, ok := cutLine(rest)
		if !ok {
			line, next = rest, nil
		}
		if bytes.HasPrefix(line, mark) {
			close(offset, true)
			if bytes.HasPrefix(line[len(mark):], []byte("--")) {
				return
			}
			from, open, offset = next, true, 0
			rest = next
			continue
		}
		offset += len(rest) - len(next)
		rest = next
	}
	close(len(from), false)
}

// decode undoes a transfer coding. Bytes that do not belong to it are passed over.
func (m *Mail) decode(coding string, body []byte) []byte {
	switch coding {
	case "base64":
		var out []byte
		var bits, have uint
		for _, c := range body {
			v := strings.IndexByte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", c)
			switch {
			case c == '=':
				bits, have = 0, 0
				continue
			case v < 0:
				if c != '\r' && c != '\n' && c != ' ' && c != '\t' {
					m.note("mime_invalid_base64")
				}
				continue
			}
			bits, have = bits<<6|uint(v), have+6
			if have >= 8 {
				have -= 8
				out = append(out, byte(bits>>have))
			}
		}
		return out
	case "quoted-printable":
		out := make([]byte, 0, len(body))
		for i := 0; i < len(body); i++ {
			c := body[i]
			switch {
			case c != '=':
				out = append(out, c)
			case i+1 < len(body) && body[i+1] == '\n':
				i++
			case i+2 < len(body) && body[i+1] == '\r' && body[i+2] == '\n':
				i += 2
			case i+2 < len(body) && ascii.Unhex(body[i+1]) >= 0 && ascii.Unhex(body[i+2]) >= 0:
				out = append(out, byte(ascii.Unhex(body[i+1])<<4|ascii.Unhex(body[i+2])))
				i += 2
			default:
				m.note("mime_invalid_qp")
				out = append(out, c)
			}
		}
		return out
	}
	for line := range bytes.SplitSeq(body, []byte("\n")) {
		if len(line) > maxMailLine+1 {
			m.note("mime_long_line")
			break
		}
	}
	return body
}

// find finds the addresses of pages in a text, without their schemes.
func (m *Mail) find(text []byte) {
	low := bytes.ToLower(text)
	for _, scheme := range []string{"http://", "https://", "ftp://"} {
		for at := 0; len(m.URLs) < maxURLs; {
			i := bytes.Index(low[at:], []byte(scheme))
			if i < 0 {
				break
			}
			from := at + i + len(scheme)
			end := from
			for end < len(text) && strings.IndexByte(" \t\r\n\"'<>`{}|\\^", text[end]) < 0 && text[end] < 0x7f {
				end++
			}
			if end > from {
				m.URLs = append(m.URLs, string(low[from:end]))
			}
			at = end
		}
	}
}

// cutLine returns the first line without its end, and the rest.
func cutLine(b []byte) (line, rest []byte, ok bool) {
	line, rest, ok = bytes.Cut(b, []byte("\n"))
	return bytes.TrimSuffix(line, []byte("\r")), rest, ok
}
