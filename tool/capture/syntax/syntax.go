// Package syntax reads the lines, fields, chunks and forms of HTTP/1 as tolerantly as browsers do.
package syntax

import (
	"bytes"
	"strconv"
	"strings"

	"shuultuur/lib/ascii"
	"shuultuur/lib/suricata/traffic"
)

// CutLine returns the first line without its end, and the rest.
func CutLine(b []byte) (line, rest []byte, ok bool) {
	i := bytes.IndexByte(b, '\n')
	if i < 0 {
		return nil, b, false
	}
	return bytes.TrimSuffix(b[:i], []byte("\r")), b[i+1:], true
}

// StartsStatus reports whether bytes may be the beginning of a status line.
func StartsStatus(b []byte) bool {
	b = bytes.TrimLeft(b, " \t\x00\v\f")
	n := min(4, len(b))
	return strings.EqualFold(string(b[:n]), "HTTP"[:n])
}

// LineEnd returns where the line that begins at from ends and where the next one begins. A CR
// alone also ends a line. next is -1 if unknown.
func LineEnd(b []byte, from int) (end, next int) {
	for i := from; i < len(b); i++ {
		switch b[i] {
		case '\n':
			return i, i + 1
		case '\r':
			j := i
			for j < len(b) && b[j] == '\r' {
				j++
			}
			switch {
			case j == len(b):
				return i, -1
			case b[j] == '\n':
				return i, j + 1
			}
			return i, j
		}
	}
	return len(b), -1
}

// HeadLength returns the length of a head, including its empty line. A line of spaces also
// ends the head, unless a field or a continuation follows.
func HeadLength(b []byte, end bool) (n int, ok bool) {
	for from := 0; from < len(b); {
		stop, next := LineEnd(b, from)
		if next < 0 {
			return 0, false
		}
		line := b[from:stop]
		if len(line) == 0 {
			return next, true
		}
		if len(bytes.TrimSpace(line)) == 0 {
			if next == len(b) && !end {
				return 0, false
			}
			e2, _ := LineEnd(b, next)
			if after := b[next:e2]; !IsContinuation(after) && !IsField(after) && len(after) > 0 {
				return next, true
			}
		}
		from = next
	}
	return 0, false
}

// IsContinuation reports whether a line may continue the field before it.
func IsContinuation(line []byte) bool {
	return len(line) > 0 && (line[0] == ' ' || line[0] == '\t' || line[0] == 0 || line[0] == ':')
}

// IsField reports whether a line begins with a name and a colon.
func IsField(line []byte) bool {
	i := bytes.IndexByte(line, ':')
	if i <= 0 {
		return false
	}
	for _, c := range line[:i] {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_') {
			return false
		}
	}
	return true
}

// ParseFields splits a raw head into fields. A line that begins with a space continues the
// previous field, unless it is a field itself.
func ParseFields(raw []byte) (hs []traffic.Header) {
	var lines [][]byte
	for from := 0; from < len(raw); {
		stop, next := LineEnd(raw, from)
		line := raw[from:stop]
		if len(line) > 0 {
			text := bytes.Trim(line, " \t\x00")
			if IsContinuation(line) && len(lines) > 0 && !IsField(text) {
				last := &lines[len(lines)-1]
				*last = append(append((*last)[:len(*last):len(*last)], ' '), text...)
			} else {
				lines = append(lines, line)
			}
		}
		if next < 0 {
			break
		}
		from = next
	}
	for _, line := range lines {
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok {
			name, value = nil, line
		}
		name = bytes.Trim(name, " \t\x00\v\f\r")
		hs = append(hs, traffic.Header{Name: name, Value: bytes.Trim(value, " \t\r\x00\v\f")})
	}
	return hs
}

// Lenient returns a field for framing, with several values joined. It ignores invisible bytes.
func Lenient(s *traffic.Side, name string) (string, bool) {
	var all []string
	for _, h := range s.Headers {
		if strings.EqualFold(string(bytes.ReplaceAll(h.Name, []byte{0}, nil)), name) {
			all = append(all, string(bytes.ReplaceAll(h.Value, []byte{0}, nil)))
		}
	}
	return strings.Join(all, ", "), len(all) > 0
}

// LenientNumber returns the greatest number in a field.
func LenientNumber(v []byte) (best int64, ok bool) {
	for i := 0; i < len(v); {
		if v[i] < '0' || v[i] > '9' {
			i++
			continue
		}
		j := i
		for j < len(v) && v[j] >= '0' && v[j] <= '9' {
			j++
		}
		if n, err := strconv.ParseInt(string(v[i:j]), 10, 64); err == nil {
			best, ok = max(best, n), true
		}
		i = j
	}
	return best, ok
}

// ChunkLength parses the size of a chunk: hexadecimal digits, with surrounding bytes that some
// servers ignore.
func ChunkLength(line []byte) (int64, bool) {
	line = bytes.TrimLeft(line, " \t\r\n\v\f\x00")
	if len(line) > 2 && line[0] == '0' && line[1]|0x20 == 'x' {
		line = line[2:]
	}
	n, digits := int64(0), 0
	for _, c := range line {
		d := ascii.Unhex(c)
		if d < 0 {
			return n, digits > 0
		}
		n = n<<4 | int64(d)
		if digits++; digits > 15 {
			return 0, false
		}
	}
	return n, digits > 0
}

// FirstLine returns the bytes before the first line end.
func FirstLine(b []byte) []byte {
	if i := bytes.IndexByte(b, '\n'); i >= 0 {
		return b[:i]
	}
	return b
}

// Multipart returns the files of a form.
func Multipart(s *traffic.Side, complete bool) []*traffic.File {
	ct, _ := s.Get("Content-Type")
	low := strings.ToLower(string(ct))
	i := strings.Index(low, "boundary=")
	if !strings.HasPrefix(low, "multipart/") || i < 0 {
		return nil
	}
	b := strings.Trim(strings.TrimSpace(string(ct[i+len("boundary="):])), `"`)
	b, _, _ = strings.Cut(b, ";")
	mark := []byte("--" + b)
	var files []*traffic.File
	rest := s.Body
	for {
		i := bytes.Index(rest, mark)
		if i < 0 {
			return files
		}
		rest = rest[i+len(mark):]
		if bytes.HasPrefix(rest, []byte("--")) {
			return files
		}
		_, rest, _ = CutLine(rest)
		var head []byte
		for {
			line, next, ok := CutLine(rest)
			if !ok || len(line) == 0 {
				rest = next
				break
			}
			head = append(append(head, line...), '\n')
			rest = next
		}
		part := &traffic.Side{Headers: ParseFields(head)}
		end := bytes.Index(rest, mark)
		data, whole := rest, complete
		if end >= 0 {
			data, whole = rest[:end], true
			data = bytes.TrimSuffix(bytes.TrimSuffix(data, []byte("\n")), []byte("\r"))
		}
		cd, _ := part.Get("Content-Disposition")
		if name := traffic.DispositionName(string(cd)); name != "" {
			files = append(files, &traffic.File{Name: name, Data: data, Size: int64(len(data)), Complete: whole})
		}
		if len(files) > 100 {
			return files
		}
	}
}
