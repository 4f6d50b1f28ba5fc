package resolver

import (
	"fmt"
	"strings"

	miekg "github.com/miekg/dns"
)

// A Text is a DNS message for people.
type Text struct {
	Rcode   uint16
	Records []string // records of the answer in zone file form, separated by single spaces
	HasEDE  bool
	EDE     uint16 // an Extended DNS Error, RFC 8914
	EDEText string
}

// ReadText reads an answer.
func ReadText(msg []byte) (Text, error) {
	var m miekg.Msg
	if err := m.Unpack(msg); err != nil {
		return Text{}, fmt.Errorf("reading an answer: %w", err)
	}
	x := Text{Rcode: uint16(m.Rcode)}
	for _, rr := range m.Answer {
		x.Records = append(x.Records, strings.ReplaceAll(rr.String(), "\t", " "))
	}
	opt := m.IsEdns0()
	if opt == nil {
		return x, nil
	}
	for _, o := range opt.Option {
		if e, ok := o.(*miekg.EDNS0_EDE); ok && !x.HasEDE {
			x.HasEDE, x.EDE, x.EDEText = true, e.InfoCode, e.ExtraText
		}
	}
	return x, nil
}
