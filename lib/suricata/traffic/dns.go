package traffic

import (
	"encoding/binary"
	"errors"
	"strings"

	"shuultuur/lib/dns"
	"shuultuur/lib/suricata/rule"
)

// A DNSName is a question or a record in the form that rules inspect.
type DNSName struct {
	Name []byte // dotted, without the final dot
	Type uint16
}

// A DNSMessage is a query or a response in the form that rules inspect.
type DNSMessage struct {
	Queries, Answers, Authorities, Additionals []DNSName
	Opcode, Rcode                              uint8
	Response                                   bool
	Malformed                                  bool // it could not be read to its end
	Events                                     map[string]bool
}

// Flags sets the flags from the second word of the header.
func (m *DNSMessage) Flags(word uint16) {
	m.Response, m.Opcode, m.Rcode = word&0x8000 != 0, uint8(word>>11&15), uint8(word&15)
	if word&0x40 != 0 {
		m.AddAnomaly("dns.z_flag_set")
	}
	if m.Opcode >= 7 {
		m.AddAnomaly("dns.invalid_opcode")
	}
}

// DNSHeader is the length of a message's header in bytes.
const DNSHeader = 12

// maxRecords limits the records that are read from a section.
const maxRecords = 1024

// errDNS reports a malformed DNS message.
var errDNS = errors.New("malformed DNS message")

// Read reads a message as far as possible, and notes an anomaly if it cannot be read to its
// end. It passes the records of answers, authorities and additionals, in this order, to
// record, unless that is nil.
func (m *DNSMessage) Read(msg []byte, record func(section int, x dns.Record)) {
	if m.read(msg, record) != nil {
		m.Malformed = true
		m.AddAnomaly("dns.malformed_data")
	}
}

func (m *DNSMessage) read(msg []byte, record func(section int, x dns.Record)) error {
	if len(msg) < DNSHeader {
		return errDNS
	}
	m.Flags(binary.BigEndian.Uint16(msg[2:]))
	off := DNSHeader
	for range min(int(binary.BigEndian.Uint16(msg[4:])), maxRecords) {
		name, next, err := RawDNSName(msg, off)
		if err != nil || next+4 > len(msg) {
			return errDNS
		}
		m.noteTruncated(name)
		m.Queries = append(m.Queries, DNSName{Name: name, Type: binary.BigEndian.Uint16(msg[next:])})
		off = next + 4
	}
	for s, list := range []*[]DNSName{&m.Answers, &m.Authorities, &m.Additionals} {
		for range min(int(binary.BigEndian.Uint16(msg[6+2*s:])), maxRecords) {
			name, _, err := RawDNSName(msg, off)
			if err != nil {
				return errDNS
			}
			m.noteTruncated(name)
			x, err := dns.ReadRecord(msg, off)
			if err != nil {
				return errDNS
			}
			*list = append(*list, DNSName{Name: name, Type: x.Type})
			if record != nil {
				record(s, x)
			}
			off = x.End
		}
	}
	return nil
}

// noteTruncated notes a name that was truncated.
func (m *DNSMessage) noteTruncated(name []byte) {
	if len(name) == MaxDNSName {
		m.AddAnomaly("dns.name_too_long")
	}
}

// Limits of names.
const (
	MaxDNSName = 1025 // bytes of a name that are kept
	maxLabels  = 255  // labels and pointers of a name
)

// errLoop reports a name with a loop of pointers or too many labels.
var errLoop = errors.New("too many labels")

// RawDNSName reads a name in its original case, which rules may test. A name that is too long
// is truncated to MaxDNSName bytes.
func RawDNSName(msg []byte, off int) (name []byte, next int, err error) {
	next = -1
	for range maxLabels {
		if off >= len(msg) {
			return nil, 0, errDNS
		}
		n := int(msg[off])
		switch {
		case n == 0:
			if next < 0 {
				next = off + 1
			}
			return name, next, nil
		case n&0xc0 == 0xc0:
			if off+2 > len(msg) {
				return nil, 0, errDNS
			}
			if next < 0 {
				next = off + 2
			}
			off = int(binary.BigEndian.Uint16(msg[off:]) & 0x3fff)
			continue
		case n > 63 || off+1+n > len(msg):
			return nil, 0, errDNS
		}
		if room := MaxDNSName - len(name); room > 0 {
			if len(name) > 0 {
				name = append(name, '.')
			}
			name = append(name, msg[off+1:off+1+n]...)
			name = name[:min(len(name), MaxDNSName)]
		}
		off += 1 + n
	}
	if len(name) == MaxDNSName && next >= 0 {
		return name, next, nil
	}
	return nil, 0, errLoop
}

// AddAnomaly notes an anomaly, by its name in app-layer-event.
func (m *DNSMessage) AddAnomaly(event string) {
	if m.Events == nil {
		m.Events = map[string]bool{}
	}
	m.Events[event] = true
}

func name(ns []DNSName, i int) ([]byte, bool) {
	if i >= len(ns) {
		return nil, false
	}
	return ns[i].Name, true
}

// Buffer returns the name of a question or record, by the section that the buffer stands for.
func (m *DNSMessage) Buffer(_ rule.Direction, b rule.Buffer, i int) ([]byte, bool) {
	switch b {
	case rule.DNSQuery:
		if m.Response {
			return nil, false
		}
		return name(m.Queries, i)
	case rule.DNSQueriesName:
		return name(m.Queries, i)
	case rule.DNSAnswersName:
		return name(m.Answers, i)
	case rule.DNSAuthoritiesName:
		return name(m.Authorities, i)
	case rule.DNSAdditionalsName:
		return name(m.Additionals, i)
	case rule.DNSResponseName:
		if !m.Response {
			return nil, false
		}
		for _, ns := range [][]DNSName{m.Queries, m.Answers, m.Authorities, m.Additionals} {
			if i < len(ns) {
				return ns[i].Name, true
			}
			i -= len(ns)
		}
	}
	return nil, false
}

// Numbers returns the values for an integer keyword.
func (m *DNSMessage) Numbers(_ rule.Direction, keyword string) ([]uint64, bool) {
	switch keyword {
	case "dns.opcode":
		return []uint64{uint64(m.Opcode)}, true
	case "dns.rcode":
		return []uint64{uint64(m.Rcode)}, true
	case "dns.rrtype":
		var ns []uint64
		lists := [][]DNSName{m.Queries}
		if m.Response {
			lists = [][]DNSName{m.Answers, m.Authorities, m.Additionals}
		}
		for _, list := range lists {
			for _, n := range list {
				ns = append(ns, uint64(n.Type))
			}
		}
		return ns, true
	}
	return nil, false
}

// Word reports whether a keyword with words matches.
func (m *DNSMessage) Word(_ rule.Direction, keyword, value string) bool {
	value, _, _ = strings.Cut(value, ",")
	return keyword == "app-layer-protocol" && value == "dns"
}

// Event reports whether an anomaly was seen.
func (m *DNSMessage) Event(kind, name string) bool {
	return kind == "app-layer-event" && m.Events[name]
}

// Files returns none.
func (m *DNSMessage) Files(rule.Direction) []*File { return nil }
