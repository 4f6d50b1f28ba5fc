package engine

import (
	"strings"

	"shuultuur/check/signature/rule"
)

// A DNSName is a question or a record as rules see it.
type DNSName struct {
	Name []byte // dotted, without the last dot
	Type uint16
}

// A DNSMessage is a query or a response as rules see it.
type DNSMessage struct {
	Queries, Answers, Authorities, Additionals []DNSName
	Opcode, Rcode                              uint8
	Response                                   bool
	Events                                     map[string]bool
}

// Flags takes in the second word of the header.
func (m *DNSMessage) Flags(word uint16) {
	m.Response, m.Opcode, m.Rcode = word&0x8000 != 0, uint8(word>>11&15), uint8(word&15)
	if word&0x40 != 0 {
		m.Odd("dns.z_flag_set")
	}
	if m.Opcode >= 7 {
		m.Odd("dns.invalid_opcode")
	}
}

// Odd notes an anomaly, by its name in app-layer-event.
func (m *DNSMessage) Odd(event string) {
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

// Buffer implements [Source].
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

// Numbers implements [Source].
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

// Word implements [Source].
func (m *DNSMessage) Word(_ rule.Direction, keyword, value string) bool {
	value, _, _ = strings.Cut(value, ",")
	return keyword == "app-layer-protocol" && value == "dns"
}

// Event implements [Source].
func (m *DNSMessage) Event(kind, name string) bool {
	return kind == "app-layer-event" && m.Events[name]
}

// Files implements [Source].
func (m *DNSMessage) Files(rule.Direction) []*File { return nil }
