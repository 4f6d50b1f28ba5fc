package index

import (
	"shuultuur/lib/suricata/address"
	"shuultuur/lib/suricata/match"
	"shuultuur/lib/suricata/rule"
)

// A Kind is the kind of data on which a rule is tried.
type Kind uint8

// The kinds of data.
const (
	OnMessage Kind = 1 << iota
	OnPacket
	OnStream
	OnFrame
)

// An Entry is a rule in an index: where it is tried, and for what it waits.
type Entry struct {
	*rule.Rule
	Dirs   rule.Direction
	Kinds  Kind
	Groups []match.Group
	Ends   address.Ends
	Single bool          // it tests nothing but addresses and ports, and alerts once per direction of a connection
	Fast   int           // group of the fast pattern, -1 for none
	text   *rule.Content // the fast pattern
}

// Pattern returns the bytes that the prefilter searches for.
func (c *Entry) Pattern() []byte {
	p := c.text.Pattern
	if c.text.FastLen > 0 {
		p = p[c.text.FastOff : c.text.FastOff+c.text.FastLen]
	}
	return p
}

// inBody reports whether a group inspects a body or file without transforms.
func inBody(g *match.Group, d int) bool {
	return g.Chain == 0 && (g.Buffer == rule.FileData || g.Buffer == bodies[d])
}

// outside reports whether a group inspects content outside any buffer, without transforms.
func outside(g *match.Group) bool { return g.Chain == 0 && g.Buffer == rule.Payload }

// bodies are the buffers that usually have the bytes of the only file.
var bodies = [2]rule.Buffer{rule.RequestBody, rule.ResponseBody}
