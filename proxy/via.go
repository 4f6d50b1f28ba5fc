package proxy

import (
	"bytes"
	"fmt"
	"strings"

	"shuultuur/message"
	"shuultuur/setting"
)

// A viaField is what we add to Via (RFC 9110, 7.6.3) for messages of HTTP/1.0
// and of later versions; nil adds nothing.
type viaField [2][]byte

// viaOn is the name of a gateway that names itself like all others.
const viaOn = "shuultuur"

// newVia reads a setting: "off", "on" or a name.
func newVia(key, s string) (v viaField, err error) {
	switch s {
	case "", "off":
		return v, nil
	case "on":
		s = viaOn
	}
	for _, r := range s {
		if !isTokenByte(r) {
			return v, setting.At(key, fmt.Errorf("%q is neither on, off nor a name of letters, digits, '-', '.' and '_'", s))
		}
	}
	return viaField{[]byte("1.0 " + s), []byte("1.1 " + s)}, nil
}

// name is what the field calls us, "" when others are called the same.
func (v *viaField) name() string {
	if name := strings.TrimPrefix(string(v[1]), "1.1 "); name != viaOn {
		return name
	}
	return ""
}

func isTokenByte(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '.' || r == '_'
}

var viaName = []byte("Via")

// maxPassed is how many gateways a request may have passed. More of them are a
// loop through gateways that restart.
const maxPassed = 32

// looped says whether the request has been here before. Gateways mark what they
// send to a parent; a loop through a proxy that removes the mark is found by a
// name of our own in Via. It keeps the marks for the parent.
func (x *request) looped() bool {
	x.caller.Passed = nil
	for _, f := range x.Q.Fields {
		switch {
		case len(f.Name) == len(message.Passed) && message.EqualName(f.Name, message.Passed):
			marks := bytes.Split(f.Value, []byte(","))
			for _, m := range marks {
				if bytes.Equal(bytes.TrimSpace(m), x.p.up.Mark()) {
					return true
				}
			}
			if x.caller.Passed != nil || len(marks) > maxPassed {
				return true // no gateway of ours writes two, or so many
			}
			x.caller.Passed = f.Value
		case len(f.Name) == 3 && message.EqualName(f.Name, "via"):
			name := x.p.via.name()
			for v := range bytes.SplitSeq(f.Value, []byte(",")) {
				if part := bytes.Fields(v); name != "" && len(part) >= 2 && strings.EqualFold(string(part[1]), name) {
					return true
				}
			}
		}
	}
	return false
}
