package message

import "bytes"

// DelHopByHop removes, in place, the fields that are for this connection only
// (RFC 9110, 7.6.1): Connection and everything it names, and those that are
// hop-by-hop without being named. Host and Content-… stay even when named:
// without them the message would end elsewhere, go elsewhere, or be read in
// another way than it was checked.
func (f *Fields) DelHopByHop() {
	fs := *f
	for i := range fs {
		if equalFold(fs[i].Name, "Connection") {
			fs.unname(fs[i].Value)
		}
	}
	g := fs[:0]
	for i := range fs {
		if len(fs[i].Name) > 0 && !hopByHop(fs[i].Name) {
			g = append(g, fs[i])
		}
	}
	*f = g
}

// unname takes the name from the fields that options, the value of a
// Connection field, names.
func (f Fields) unname(options []byte) {
	for more := true; more; {
		var o []byte
		o, options, more = bytes.Cut(options, []byte(","))
		if o = trim(o); len(o) == 0 || keepAlways(o) {
			continue
		}
		for i := range f {
			if len(f[i].Name) == len(o) && bytes.EqualFold(f[i].Name, o) {
				f[i].Name = nil
			}
		}
	}
}

func keepAlways(name []byte) bool {
	const content = "Content-"
	return equalFold(name, "Host") || equalFold(name, "Connection") ||
		len(name) > len(content) && equalFold(name[:len(content)], content)
}

func hopByHop(name []byte) bool {
	switch len(name) {
	case 2:
		return equalFold(name, "TE")
	case 7:
		return equalFold(name, "Upgrade") || equalFold(name, "Trailer")
	case 10:
		return equalFold(name, "Connection") || equalFold(name, "Keep-Alive")
	case 16:
		return equalFold(name, "Proxy-Connection")
	case 17:
		return equalFold(name, "Transfer-Encoding")
	case 18:
		return equalFold(name, "Proxy-Authenticate")
	case 19:
		return equalFold(name, "Proxy-Authorization")
	}
	return false
}
