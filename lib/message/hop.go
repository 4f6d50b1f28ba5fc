package message

import "bytes"

// Passed is the field with which gateways mark requests that they send to a parent proxy, to
// detect loops. Its value is a list of marks. It is listed in Connection, so that the parent
// does not send it to origins.
const LoopField = "Shuultuur-Passed"

// HopByHop reports whether fields of this name are for the next hop only (RFC 9110 section
// 7.6.1, RFC 9113 section 8.2.2). So are those that Connection lists: see
// [Fields.ConnectionNames].
func HopByHop(name []byte) bool {
	switch len(name) {
	case 2:
		return EqualName(name, "te")
	case 7:
		return name[0]|0x20 == 'u' && EqualName(name, "upgrade")
	case 10:
		if name[0]|0x20 == 'k' {
			return EqualName(name, "keep-alive")
		}
		return EqualName(name, "connection")
	case 14:
		return name[0]|0x20 == 'h' && EqualName(name, "http2-settings")
	case 16:
		return EqualName(name, "proxy-connection") || EqualName(name, LoopField)
	case 17:
		return EqualName(name, "transfer-encoding")
	case 18:
		return EqualName(name, "proxy-authenticate")
	case 19:
		return EqualName(name, "proxy-authorization")
	}
	return false
}

// ConnectionNames returns the names of fields that Connection makes hop-by-hop, or nil:
// usually it lists only keep-alive or close. End-to-end fields cannot be removed this way.
func (f Fields) ConnectionNames() (list [][]byte) {
	for i := range f {
		if n := len(f[i].Name); n != 10 && n != 16 || !EqualName(f[i].Name, "connection") && !EqualName(f[i].Name, "proxy-connection") {
			continue
		}
		for v := range bytes.SplitSeq(f[i].Value, []byte(",")) {
			v = trim(v)
			switch {
			case len(v) == 0, EqualName(v, "keep-alive"), EqualName(v, "close"), EqualName(v, "upgrade"):
			case EqualName(v, "content-length"), EqualName(v, "cookie"), EqualName(v, "host"), EqualName(v, "via"):
			default:
				list = append(list, v)
			}
		}
	}
	return list
}

// NameIn reports whether list contains a field name.
func NameIn(list [][]byte, name []byte) bool {
	for _, v := range list {
		if bytes.EqualFold(v, name) {
			return true
		}
	}
	return false
}
