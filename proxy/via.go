package proxy

import (
	"bytes"
	"fmt"
	"strings"

	"shuultuur/lib/message"
	"shuultuur/lib/setting"
)

// A viaField is our addition to Via (RFC 9110 section 7.6.3) for messages of HTTP/1.0 and of
// later versions; nil adds nothing.
type viaField [2][]byte

// viaOn is the name of a gateway without a unique name.
const viaOn = "shuultuur"

// newVia parses a setting: "off", "on" or a name.
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

// name returns our name in the field, "" if others may have the same.
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

// maxPassed is the number of gateways that a request may have passed. More indicate a loop
// through gateways that restart.
const maxPassed = 32

// looped reports whether the request was here before. Gateways mark requests that they send to
// a parent; a loop through a proxy that removes the mark is detected by a unique name in Via.
// looped keeps the marks for the parent.
func (x *request) looped() bool {
	x.caller.Passed = nil
	for _, f := range x.q.Fields {
		switch {
		case len(f.Name) == len(message.LoopField) && message.EqualName(f.Name, message.LoopField):
			marks := bytes.Split(f.Value, []byte(","))
			for _, m := range marks {
				if bytes.Equal(bytes.TrimSpace(m), x.p.up.Mark()) {
					return true
				}
			}
			if x.caller.Passed != nil || len(marks) > maxPassed {
				return true // our gateways never write two, or so many
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
