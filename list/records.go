package list

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"shuultuur/list/files"
)

// Entries written by programs: JSON, either one array or a sequence of values (each a string
// or an object), or CSV with a line that names the columns. Keys of objects and columns have
// the same names; others are ignored.
//
//	entry      a host or URL, as in the format "domains"; also host, domain,
//	           url, name
//	category   of this entry, unless the list has one for all
//	exact      true: the host alone
//	exception  true: an exception from the category
//	remove     true: removes the entry ([ReadChanges] only)

// maxRecord bounds a value of JSON, in bytes.
const maxRecord = files.MaxLine

// set sets a field of a change by the name of a column or key. ok is false for an invalid
// value.
func (c *Change) set(name, value string) (ok bool) {
	flag := func(to *bool) bool {
		if value == "" {
			return true
		}
		on, err := strconv.ParseBool(strings.ToLower(value))
		*to = on
		return err == nil
	}
	switch strings.ToLower(strings.TrimSpace(name)) {
	case "entry", "host", "domain", "url", "name", "hostname":
		if c.Entry == "" {
			c.Entry = value
		}
	case "category":
		c.Category = value
	case "exact":
		return flag(&c.Exact)
	case "exception":
		return flag(&c.Exception)
	case "remove":
		return flag(&c.Remove)
	}
	return true
}

// UnmarshalJSON reads a string or an object.
func (c *Change) UnmarshalJSON(b []byte) error {
	*c = Change{}
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, &c.Entry)
	}
	fields, err := members(b)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		raw := fields[name]
		text := string(raw)
		if text == "null" {
			continue
		}
		if raw[0] == '"' {
			if err := json.Unmarshal(raw, &text); err != nil {
				return err
			}
		}
		if !c.set(name, text) {
			return fmt.Errorf("%q: %s is neither true nor false", name, files.Quote(text))
		}
	}
	return nil
}

// members returns the members of an object. One that has a name twice, in whatever case, has no
// single meaning (RFC 8259 section 4).
func members(b []byte) (map[string]json.RawMessage, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("is neither a string nor an object")
	}
	fields := map[string]json.RawMessage{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, err
		}
		name := strings.ToLower(strings.TrimSpace(t.(string)))
		if _, twice := fields[name]; twice {
			return nil, fmt.Errorf("the name %q occurs twice in one object", name)
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return nil, err
		}
		fields[name] = raw
	}
	return fields, nil
}

// A valueReader passes on the bytes it reads and tracks the ends of lines. Between two
// calls of next it reads at most maxRecord bytes and a buffer.
type valueReader struct {
	r     io.Reader
	read  int64   // bytes passed on
	until int64   // limit of read
	ends  []int64 // ends of lines passed on but not consumed yet
	line  int
}

var errLongValue = fmt.Errorf("a value is longer than %d bytes", maxRecord)

func (v *valueReader) Read(p []byte) (int, error) {
	if v.read >= v.until {
		return 0, errLongValue
	}
	n, err := v.r.Read(p[:min(int64(len(p)), v.until-v.read)])
	for i, c := range p[:n] {
		if c == '\n' {
			v.ends = append(v.ends, v.read+int64(i))
		}
	}
	v.read += int64(n)
	return n, err
}

// next says that everything before offset was consumed, and returns the line of offset.
func (v *valueReader) next(offset int64) int {
	v.until = max(v.read, offset) + maxRecord
	n := 0
	for n < len(v.ends) && v.ends[n] < offset {
		n++
	}
	v.ends = append(v.ends[:0], v.ends[n:]...)
	v.line += n
	return v.line
}

// decodeJSON passes each value to use, with the line where it ends. Malformed JSON ends the
// reading; for a value that is not an entry, use gets an error.
func decodeJSON(r io.Reader, use func(line int, c Change, err error) error) error {
	v := &valueReader{r: r, until: maxRecord, line: 1}
	d := json.NewDecoder(v)
	// The array's bracket is a token; a sequence of values has none.
	br := bufio.NewReaderSize(r, files.MaxLine)
	v.r = br
	array := false
	for {
		head, _ := br.Peek(1)
		if len(head) == 0 || !bytes.ContainsAny(head, " \t\r\n") {
			array = len(head) > 0 && head[0] == '['
			break
		}
		if head[0] == '\n' {
			v.line++
		}
		br.Discard(1)
	}
	if array {
		if _, err := d.Token(); err != nil {
			return err
		}
	}
	for !array || d.More() {
		var raw json.RawMessage
		if err := d.Decode(&raw); err == io.EOF && !array {
			return nil
		} else if err != nil {
			return fmt.Errorf("line %d: %w", v.next(d.InputOffset()), err)
		}
		var c Change
		err := c.UnmarshalJSON(raw)
		if err := use(v.next(d.InputOffset()), c, err); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return fmt.Errorf("line %d: the array does not end: %w", v.next(d.InputOffset()), err)
	}
	return nil
}

// columns are the names of a CSV file's columns; nil while unknown.
type columns struct {
	names []string
	comma byte
	cells []string
}

// read reads a line. ok is false if it has no entry: a comment, or the column names.
func (x *columns) read(s []byte) (c Change, ok bool, err error) {
	comment := len(s) > 0 && s[0] == '#'
	if len(s) == 0 || comment && x.names != nil {
		return c, false, nil
	}
	if x.names == nil {
		x.comma = ','
		if bytes.Count(s, []byte(";")) > bytes.Count(s, []byte(",")) {
			x.comma = ';'
		}
		x.split(bytes.TrimLeft(s, "# "))
		for _, name := range x.cells {
			if probe := (Change{}); probe.set(name, "x") && probe.Entry != "" {
				x.names = append([]string(nil), x.cells...)
				return c, false, nil
			}
		}
		if comment {
			return c, false, nil
		}
		x.names = []string{"entry"} // no names: use the first column
	}
	x.split(s)
	for i, name := range x.names[:min(len(x.names), len(x.cells))] {
		if !c.set(name, x.cells[i]) {
			return c, true, fmt.Errorf("has %s for %q instead of true or false", files.Quote(x.cells[i]), name)
		}
	}
	if c.Entry == "" {
		return c, true, errors.New("has no entry")
	}
	return c, true, nil
}

// split splits a line into cells, which may be quoted with "" for a quote (RFC 4180).
func (x *columns) split(s []byte) {
	x.cells = x.cells[:0]
	for more := true; more; {
		if len(s) > 0 && s[0] == '"' {
			var cell []byte
			s = s[1:]
			for {
				i := bytes.IndexByte(s, '"')
				if i < 0 {
					cell, s = append(cell, s...), nil
					break
				}
				cell, s = append(cell, s[:i]...), s[i+1:]
				if len(s) == 0 || s[0] != '"' {
					break
				}
				cell, s = append(cell, '"'), s[1:]
			}
			x.cells = append(x.cells, strings.TrimSpace(string(cell)))
			_, s, more = bytes.Cut(s, []byte{x.comma})
			continue
		}
		var cell []byte
		cell, s, more = bytes.Cut(s, []byte{x.comma})
		x.cells = append(x.cells, strings.TrimSpace(string(cell)))
	}
}

// record adds an entry of the formats json and csv.
func (p *parser) record(c Change) {
	if c.Remove {
		p.refuse([]byte(c.Entry), "is marked for removal: only changes to a list can remove entries")
		return
	}
	cat, exact := p.cat, p.exact
	defer func() { p.cat, p.exact = cat, exact }()
	if c.Category != "" && p.b.cfg.Category == "" {
		if !categoryName(c.Category) {
			p.refuse([]byte(c.Category), "cannot name a category")
			return
		}
		if !p.b.admit(c.Category) {
			p.refuse([]byte(c.Entry), fmt.Sprintf("is in the category %q, which this list may not name", c.Category))
			return
		}
		id, ok := p.categories[c.Category]
		if !ok {
			var err error
			if id, err = p.b.categories.id(c.Category); err != nil {
				p.err = err
				return
			}
			if p.categories == nil {
				p.categories = map[string]uint16{}
			}
			p.categories[c.Category] = id
		}
		p.cat = id
	}
	p.exact = p.exact || c.Exact
	if c.Exception {
		p.name([]byte(c.Entry), flagException)
		return
	}
	p.item([]byte(c.Entry))
}

func categoryName(s string) bool {
	return s != "" && len(s) <= 200 && !strings.ContainsAny(s, removalMark+"\n")
}

func (p *parser) csvLine(s []byte) {
	switch c, ok, err := p.columns.read(s); {
	case err != nil:
		p.refuse(s, err.Error())
	case ok:
		p.record(c)
	}
}

// json reads a file of the format json. A truncated file is an error, because half a list must
// not be used.
func (p *parser) json(r *bufio.Reader) error {
	n := 0
	err := decodeJSON(r, func(line int, c Change, err error) error {
		p.src.Lines = line
		if n++; n&0xfff == 0 && p.b.ctx.Err() != nil {
			return p.b.ctx.Err()
		}
		switch {
		case p.b.lines+uint64(line) > maxInFile:
			return errors.New("more than 4 billion lines")
		case err != nil:
			p.refuse([]byte(c.Entry), err.Error())
		case c.Entry == "":
			p.refuse(nil, "names no entry")
		default:
			p.record(c)
		}
		return p.err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", p.src.Path, err)
	}
	return nil
}

// mostRead bounds the changes read at once.
const mostRead = 100_000

// ReadChanges reads changes to a list, as JSON if the input begins with "[" or "{", else as
// CSV. An error names the line, and then there are no changes.
func ReadChanges(r io.Reader) ([]Change, error) {
	br := bufio.NewReaderSize(r, files.MaxLine)
	var all []Change
	take := func(line int, c Change, err error) error {
		if err == nil {
			_, _, err = parseEntry(c.Entry, Boundary)
		}
		if err == nil && c.Category != "" && !categoryName(c.Category) {
			err = fmt.Errorf("%s cannot name a category", files.Quote(c.Category))
		}
		if err == nil && len(all) == mostRead {
			err = fmt.Errorf("exceeds the %d changes of one request", mostRead)
		}
		if err != nil {
			return fmt.Errorf("line %d: %s: %w", line, files.Quote(c.Entry), err)
		}
		all = append(all, c)
		return nil
	}
	head, _ := br.Peek(512)
	if head = bytes.TrimLeft(head, " \t\r\n"); len(head) > 0 && (head[0] == '[' || head[0] == '{') {
		if err := decodeJSON(br, take); err != nil {
			return nil, err
		}
		return all, nil
	}
	var x columns
	for n := 1; ; n++ {
		s, err := br.ReadSlice('\n')
		if err == bufio.ErrBufferFull {
			return nil, fmt.Errorf("line %d: is longer than %d bytes", n, files.MaxLine)
		}
		if c, ok, bad := x.read(bytes.TrimSpace(s)); ok || bad != nil {
			if err := take(n, c, bad); err != nil {
				return nil, err
			}
		}
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// isJSON distinguishes an array of strings or objects, or an object, from "[Adblock".
func isJSON(s []byte) bool {
	if len(s) == 0 || s[0] != '[' && s[0] != '{' {
		return false
	}
	rest := bytes.TrimSpace(s[1:])
	return len(rest) > 0 && (rest[0] == '"' || s[0] == '[' && (rest[0] == '{' || rest[0] == ']'))
}
