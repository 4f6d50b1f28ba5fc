package traffic

import (
	"strings"

	"shuultuur/lib/suricata/rule"
)

// A Parts is a message of a protocol without a form of its own: the reader of the connection fills
// in its buffers by their names.
type Parts struct {
	Protocol string // as in app-layer-protocol
	Values   [2]map[rule.Buffer][][]byte
	Counts   map[string][]uint64 // by integer keyword
	Words    map[string]string   // values of keywords with words
	Events   map[string]bool
	Attached [2][]*File
}

// Add adds an element to a buffer of one side.
func (p *Parts) Add(dir rule.Direction, b rule.Buffer, value []byte) {
	m := &p.Values[dir.Index()]
	if *m == nil {
		*m = map[rule.Buffer][][]byte{}
	}
	(*m)[b] = append((*m)[b], value)
}

// Set makes a value the only element of a buffer.
func (p *Parts) Set(dir rule.Direction, b rule.Buffer, value []byte) {
	delete(p.Values[dir.Index()], b)
	p.Add(dir, b, value)
}

// Text returns the first element of a buffer.
func (p *Parts) Text(dir rule.Direction, b rule.Buffer) string {
	v, _ := p.Buffer(dir, b, 0)
	return string(v)
}

// Buffer returns element i of a buffer as one side sent it.
func (p *Parts) Buffer(dir rule.Direction, b rule.Buffer, i int) ([]byte, bool) {
	if list := p.Values[dir.Index()][b]; i < len(list) {
		return list[i], true
	}
	return nil, false
}

// Numbers returns the values for an integer keyword.
func (p *Parts) Numbers(_ rule.Direction, keyword string) ([]uint64, bool) {
	ns, ok := p.Counts[keyword]
	return ns, ok
}

// Word reports whether a keyword with words matches.
func (p *Parts) Word(_ rule.Direction, keyword, value string) bool {
	value, _, _ = strings.Cut(strings.ToLower(value), ",")
	switch keyword {
	case "app-layer-protocol":
		return value == p.Protocol
	case "ftp.reply_received":
		return (value == "yes" || value == "on" || value == "true") == (p.Words[keyword] == "yes")
	case "ssh.protoversion":
		have := p.Words[keyword]
		return have != "" && (have == value || value == "2_compat" && (have == "2" || have == "2.0" || have == "1.99"))
	case "ssh.softwareversion":
		return p.Words[keyword] != "" && strings.Contains(strings.ToLower(p.Words[keyword]), value)
	}
	have, ok := p.Words[keyword]
	return ok && have == value
}

// Event reports whether an anomaly was seen.
func (p *Parts) Event(kind, name string) bool { return kind == "app-layer-event" && p.Events[name] }

// AddAnomaly notes an anomaly, by its name in app-layer-event.
func (p *Parts) AddAnomaly(event string) {
	if p.Events == nil {
		p.Events = map[string]bool{}
	}
	p.Events[event] = true
}

// Files returns the files that one side sends with the message.
func (p *Parts) Files(dir rule.Direction) []*File { return p.Attached[dir.Index()] }
