package dns

import (
	"bytes"
	"encoding/binary"
)

// MaxAliases is how many aliases in succession are followed.
const MaxAliases = 16

// A Chain is the aliases (CNAME) among the answers of a message, from a name on.
type Chain struct {
	Last    []byte // the name that the last alias leads to, in wire form and lower case
	Aliases int    // the number of aliases on the way there
	Found   bool   // the last name has records of the type that is looked for
	Closed  bool   // the authority section speaks about the last name: it has an SOA record of a domain above it
}

// FollowAliases follows the aliases in a message whose records begin at off. The sections may
// have any order. visit, which may be nil, gets each target, and returns false to end there. The
// last name is written to dst.
func FollowAliases(dst, msg []byte, off int, answers, authorities uint16, name []byte, typ uint16, visit func(target []byte) bool) (c Chain, err error) {
	c.Last = append(dst[:0], name...)
	type link struct{ owner, data int }
	var room [MaxAliases]link
	links := room[:0]
	from := off
	for range answers {
		x, err := ReadRecord(msg, off)
		if err != nil {
			return c, err
		}
		if x.Type == TypeCNAME && len(links) < 4*MaxAliases {
			links = append(links, link{x.Owner, x.Data})
		}
		off = x.End
	}
	var owner [256]byte
	is := func(at int) bool {
		n, _, err := ReadName(owner[:0], msg, at)
		return err == nil && bytes.Equal(n, c.Last)
	}
	for moved := typ != TypeCNAME; moved && c.Aliases < MaxAliases; {
		moved = false
		for _, l := range links {
			if !is(l.owner) {
				continue
			}
			target, _, err := ReadName(owner[:0], msg, l.data)
			if err != nil {
				return c, err
			}
			c.Last = append(c.Last[:0], target...)
			c.Aliases++
			if moved = true; visit != nil && !visit(c.Last) {
				return c, nil
			}
			break
		}
	}
	for range answers {
		x, err := ReadRecord(msg, from)
		if err != nil {
			return c, err
		}
		if x.Type == typ && is(x.Owner) {
			c.Found = true
			break
		}
		from = x.End
	}
	for range authorities {
		x, err := ReadRecord(msg, off)
		if err != nil {
			return c, err
		}
		if x.Type == TypeSOA {
			n, _, err := ReadName(owner[:0], msg, x.Owner)
			c.Closed = c.Closed || err == nil && Within(c.Last, n)
		}
		off = x.End
	}
	return c, nil
}

// Open reports whether an answer without error ends in an alias and says nothing about what that
// leads to: the server has other names only, or does not follow aliases.
func (c *Chain) Open() bool { return c.Aliases > 0 && !c.Found && !c.Closed }

// OpenAlias follows the aliases of a whole answer to one question.
func OpenAlias(msg []byte) (c Chain, open bool) {
	off, err := SkipQuestions(msg)
	if err != nil || binary.BigEndian.Uint16(msg[4:]) != 1 || msg[3]&15 != RcodeSuccess || binary.BigEndian.Uint16(msg[6:]) == 0 {
		return c, false
	}
	var room [256]byte
	name, end, err := ReadName(room[:0], msg, headerLen)
	if err != nil {
		return c, false
	}
	typ := binary.BigEndian.Uint16(msg[end:])
	if typ == TypeANY {
		return c, false
	}
	c, err = FollowAliases(make([]byte, 0, 256), msg, off, binary.BigEndian.Uint16(msg[6:]), binary.BigEndian.Uint16(msg[8:]), name, typ, nil)
	return c, err == nil && c.Open()
}
