package zone

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	miekg "github.com/miekg/dns"

	"shuultuur/lib/dns"
	"shuultuur/zone/entry"
	"shuultuur/zone/rdata"
)

// A master reads zone files as BIND, Knot and NSD do. It finds owners, TTLs, types and
// directives, and writes each record in one plain form for the parser of record data: with an
// absolute owner and a TTL, in one line. Record data that this parser reads otherwise than
// other servers is written as bytes (RFC 3597).
type master struct {
	in     *input
	origin []byte // in wire form; nil: not known
	zone   []byte // the origin at the start
	ttl    uint32 // of $TTL, or of the last record
	fixed  bool   // by $TTL
	owner  []byte // of the last record
	levels []level
	gen    *entry.Generator

	out    []byte // for the parser, read up to at
	at     int
	stated []byte // the origin that the parser knows
}

// A level is what a file that includes another returns to.
type level struct {
	origin, owner []byte
	ttl           uint32
	fixed         bool
}

const mostLevels = 7 // of included files

// defaultTTL is the TTL of records without one, before any other was given.
const defaultTTL = 3600

func newMaster(in *input, origin string) (*master, error) {
	m := &master{in: in, ttl: defaultTTL}
	if origin == "" {
		origin = "."
	}
	var err error
	if m.origin, err = dns.Name(origin); err != nil {
		return nil, err
	}
	m.zone = m.origin
	return m, nil
}

// ReadByte gives the parser the next byte.
func (m *master) ReadByte() (byte, error) {
	for m.at == len(m.out) {
		m.out, m.at = m.out[:0], 0
		if err := m.next(); err != nil {
			return 0, err
		}
	}
	m.at++
	return m.out[m.at-1], nil
}

func (m *master) Read(p []byte) (int, error) {
	for i := range p {
		b, err := m.ReadByte()
		if err != nil {
			return i, err
		}
		p[i] = b
	}
	return len(p), nil
}

// next reads an entry.
func (m *master) next() error {
	if m.gen != nil {
		text, ok, err := m.gen.Next()
		if err != nil {
			return m.fail(err)
		}
		if ok {
			e, err := entry.Next(strings.NewReader(text))
			owner := m.owner // stays that of the lines before
			if err == nil {
				err = m.record(e)
			}
			m.owner = owner
			if err != nil {
				return m.fail(fmt.Errorf("$GENERATE: %q: %w", text, err))
			}
			return nil
		}
		m.gen = nil
	}
	c := m.in.top()
	e, err := entry.Next(c)
	switch {
	case errors.Is(err, io.EOF) && len(m.levels) > 0:
		l := m.levels[len(m.levels)-1]
		m.levels = m.levels[:len(m.levels)-1]
		m.origin, m.owner, m.ttl, m.fixed = l.origin, l.owner, l.ttl, l.fixed
		return c.Close()
	case errors.Is(err, io.EOF):
		return io.EOF
	case err == nil && !e.Blank && !e.Tokens[0].Quoted && strings.HasPrefix(e.Tokens[0].Text, "$"):
		err = m.directive(strings.ToUpper(e.Tokens[0].Text), e.Tokens[1:])
	case err == nil:
		err = m.record(e)
	}
	if err != nil {
		return m.fail(err)
	}
	return nil
}

// fail ends the reading. The place is that of the entry.
func (m *master) fail(err error) error {
	if m.in.err == nil {
		m.in.err = fmt.Errorf("%s: %w", m.in.place(), err)
	}
	return m.in.err
}

func (m *master) directive(what string, args []entry.Token) error {
	switch want := map[string][2]int{"$ORIGIN": {1, 1}, "$TTL": {1, 1}, "$INCLUDE": {1, 2}, "$GENERATE": {3, 1 << 30}}[what]; {
	case want[1] == 0:
		return fmt.Errorf("%q is not one of $ORIGIN, $TTL, $INCLUDE, $GENERATE", what)
	case len(args) < want[0] || len(args) > want[1]:
		return fmt.Errorf("%s has %d values", what, len(args))
	}
	switch what {
	case "$ORIGIN":
		name, err := m.name(args[0])
		if args[0].Quoted {
			err = fmt.Errorf("%q has quotes", args[0].Text)
		}
		if err != nil {
			return fmt.Errorf("$ORIGIN: %w", err)
		}
		m.origin = name
	case "$TTL":
		ttl, ok := entry.TTL(args[0])
		if !ok {
			return fmt.Errorf("$TTL: %q is not a TTL", args[0].Text)
		}
		m.ttl, m.fixed = ttl, true
	case "$INCLUDE":
		return m.include(args)
	default:
		g, err := entry.NewGenerator(args)
		m.gen = g
		return err
	}
	return nil
}

func (m *master) include(args []entry.Token) error {
	l := level{m.origin, m.owner, m.ttl, m.fixed}
	origin := m.origin
	if len(args) == 2 {
		var err error
		if origin, err = m.name(args[1]); err != nil {
			return fmt.Errorf("$INCLUDE: %w", err)
		}
	}
	if len(m.levels) >= mostLevels {
		return errors.New("too deeply nested $INCLUDE")
	}
	name := args[0].Text
	if m.in.dir == nil {
		return fmt.Errorf("failed to open %q as $INCLUDE file: a text without a file has no folder to include from", name)
	}
	// It is relative to the file that includes it.
	from, err := filepath.Rel(m.in.folder, filepath.Dir(m.in.top().name))
	clean := path.Join(filepath.ToSlash(from), filepath.ToSlash(name))
	if err != nil || filepath.IsAbs(name) || !fs.ValidPath(clean) {
		return fmt.Errorf("failed to open %q as $INCLUDE file: only the folder of the zone file and what is below it is read", name)
	}
	if err := m.in.include(clean); err != nil {
		return fmt.Errorf("failed to open %q as $INCLUDE file: %w", name, err)
	}
	m.levels, m.origin = append(m.levels, l), origin
	return nil
}

// record writes a record for the parser.
func (m *master) record(e entry.Entry) error {
	rest := e.Tokens
	if !e.Blank {
		name, err := m.name(rest[0])
		if err != nil {
			return err
		}
		m.owner, rest = name, rest[1:]
	}
	if m.owner == nil {
		return errors.New("the first record has no owner")
	}
	ttl, hasTTL, hasClass := m.ttl, false, false
	var typ uint16
	for typ == 0 {
		if len(rest) == 0 {
			return errors.New("the record has no type")
		}
		t := rest[0]
		rest = rest[1:]
		if v, ok := entry.TTL(t); ok && !hasTTL {
			ttl, hasTTL = v, true
			continue
		}
		switch up := strings.ToUpper(t.Text); {
		case t.Quoted:
			return fmt.Errorf("%q is not a type of record", t.Text)
		case !hasClass && (up == "IN" || up == "CLASS1"):
			hasClass = true
			continue
		case up == "CH" || up == "HS" || up == "CS" || up == "NONE" || strings.HasPrefix(up, "CLASS"):
			return fmt.Errorf("class %s is not IN", up)
		default:
			if typ = entry.Type(up); typ == 0 {
				return fmt.Errorf("%q is not a type of record", t.Text)
			}
		}
	}
	if typ == miekg.TypeOPT || typ >= 128 && typ <= 255 { // RFC 6895 section 3.1
		return fmt.Errorf("%s is a type of questions and messages, not of records", typeName(typ))
	}
	if hasTTL && !m.fixed {
		m.ttl = ttl
	}
	if m.stated == nil || string(m.stated) != string(m.origin) {
		m.stated = m.origin
		m.out = append(append(m.out, "$ORIGIN "...), dns.AppendText(nil, m.origin)...)
		m.out = append(m.out, '\n')
	}
	m.out = dns.AppendText(m.out, m.owner)
	m.out = append(m.out, ' ')
	m.out = strconv.AppendUint(m.out, uint64(ttl), 10)
	m.out = append(append(append(m.out, " IN "...), typeName(typ)...), ' ')
	if len(rest) == 0 && typ == miekg.TypeAPL { // a list may be empty (RFC 3123 section 4)
		m.out = append(m.out, "\\# 0\n"...)
		return nil
	}
	if len(rest) == 0 {
		return fmt.Errorf("the %s record has no data", typeName(typ))
	}
	if rest[0].Text == `\#` && !rest[0].Quoted {
		if len(rest) == 1 {
			return errors.New(`\# has no length`)
		}
	} else if data, ok, err := rdata.Read(typ, rest, m.spelled); err != nil {
		return fmt.Errorf("%s: %w", typeName(typ), err)
	} else if ok {
		m.out = fmt.Appendf(m.out, "\\# %d %x\n", len(data), data)
		return nil
	}
	for i, t := range rest {
		if i > 0 && !t.Joined {
			m.out = append(m.out, ' ')
		}
		if t.Quoted {
			m.out = append(append(append(m.out, '"'), t.Text...), '"')
			continue
		}
		m.out = append(m.out, t.Text...)
	}
	m.out = append(m.out, '\n')
	return nil
}

// name returns the name of a word in wire form, with A to Z in lower case and all other bytes as
// they are.
func (m *master) name(t entry.Token) ([]byte, error) {
	name, err := m.spelled(t)
	dns.ToLower(name) // the origin, which it may be, is in lower case
	return name, err
}

// spelled returns the name of a word in wire form, in the case that it is written in.
func (m *master) spelled(t entry.Token) ([]byte, error) {
	s := t.Text
	if s == "@" && !t.Quoted {
		return m.origin, nil
	}
	if s == "." {
		return []byte{0}, nil
	}
	name, at := make([]byte, 1, len(s)+2+len(m.origin)), 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '.':
			if len(name)-at == 1 {
				return nil, fmt.Errorf("%.300q is not a domain name: it has an empty label", s)
			}
			name[at] = byte(len(name) - at - 1)
			at = len(name)
			name = append(name, 0)
			continue
		case c == '\\' && s[i+1] >= '0' && s[i+1] <= '9': // the lexer has seen three
			c, i = (s[i+1]-'0')*100+(s[i+2]-'0')*10+s[i+3]-'0', i+3
		case c == '\\':
			i++
			c = s[i]
		}
		if len(name)-at > 63 {
			return nil, fmt.Errorf("%.300q is not a domain name: a label has more than 63 bytes", s)
		}
		name = append(name, c)
	}
	if n := len(name) - at - 1; n > 0 {
		name[at] = byte(n)
		name = append(name, m.origin...)
	} else if len(name) == 1 {
		return nil, errors.New("a name is empty")
	}
	if len(name) > 255 {
		return nil, fmt.Errorf("%.300q is not a domain name: it is longer than 255 bytes", s)
	}
	return name, nil
}
