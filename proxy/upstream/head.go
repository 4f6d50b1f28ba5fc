package upstream

import (
	"bytes"
	"net/netip"
	"strconv"

	"shuultuur/lib/dns"
	"shuultuur/lib/message"
)

// headSize is sufficient for an ordinary head and a short body.
const headSize = 8 << 10

// appendHead appends the head of q: the target in origin form, or absolute for a parent; Host
// from the target (RFC 9112 section 3.2.2); the fields of q; then the framing of the body.
// passed is Caller.Passed.
func (t *Transport) appendHead(b []byte, q *message.Request, toParent bool, passed []byte) []byte {
	port, usual := portOf(q)
	b = append(append(b, q.Method...), ' ')
	if toParent {
		b = append(b, "http://"...)
		b = appendClean(b, q.Host)
		if port != 80 {
			b = appendPort(b, port)
		}
	}
	if !toParent || string(q.Path) != "*" {
		b = append(b, q.Path...)
	}
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = appendHost(b, q.Host)
	if port != usual || q.PortNamed && q.Scheme == "https" {
		b = appendPort(b, port)
	}
	b = append(b, "\r\n"...)
	counted := false
	for _, f := range q.Fields {
		switch length := len(f.Name); {
		case length == 14 && fold(f.Name, "content-length"):
			counted = true
			continue
		case length == 4 && fold(f.Name, "host"), length == 17 && fold(f.Name, "transfer-encoding"):
			continue
		}
		b = append(append(append(b, f.Name...), ": "...), f.Value...)
		b = append(b, "\r\n"...)
	}
	if q.Upgrade != nil {
		b = appendField(append(b, "Connection: Upgrade\r\n"...), "Upgrade", q.Upgrade)
	}
	if toParent {
		b = t.appendMark(b, passed)
	}
	if toParent && t.parent.auth != "" {
		b = appendField(b, "Proxy-Authorization", []byte(t.parent.auth))
	}
	if q.Expect && q.Length != message.None {
		b = append(b, "Expect: 100-continue\r\n"...)
	}
	switch {
	case q.Length == message.Chunked:
		b = append(b, "Transfer-Encoding: chunked\r\n"...)
	case q.Length > 0 || counted || q.Method == "POST" || q.Method == "PUT" || q.Method == "PATCH": // RFC 9110 section 8.6
		b = append(b, "Content-Length: "...)
		b = append(strconv.AppendInt(b, q.Length, 10), "\r\n"...)
	}
	return append(b, "\r\n"...)
}

// appendMark appends the fields that mark a request to a parent.
func (t *Transport) appendMark(b, passed []byte) []byte {
	b = append(b, "Connection: "+message.LoopField+"\r\n"+message.LoopField+": "...)
	if len(passed) > 0 {
		b = append(append(b, passed...), ", "...)
	}
	return append(append(b, t.mark...), "\r\n"...)
}

// portOf returns the port of q and the default port of its scheme.
func portOf(q *message.Request) (port, usual uint16) {
	usual = 80
	if q.Scheme == "https" {
		usual = 443
	}
	if q.Port == 0 {
		return usual, usual
	}
	return q.Port, usual
}

func appendField(dst []byte, name string, value []byte) []byte {
	dst = append(append(dst, name...), ": "...)
	return append(append(dst, value...), "\r\n"...)
}

// appendHost appends a host as it appears in a URL.
func appendHost[T string | []byte](dst []byte, host T) []byte {
	for i := range len(host) {
		if host[i] == ':' {
			dst = append(append(dst, '['), host...)
			return append(dst, ']')
		}
	}
	return append(dst, host...)
}

// appendClean is appendHost for a host in normal form: a name in lower case without the final
// dot, or an address in its usual form.
func appendClean[T string | []byte](dst []byte, host T) []byte {
	n := len(dst)
	dst = appendHost(dst, host)
	if len(dst) > n && dst[n] == '[' {
		if a, err := netip.ParseAddr(string(dst[n+1 : len(dst)-1])); err == nil {
			return appendHost(dst[:n], a.Unmap().String())
		}
		return dst
	}
	dst = dst[:n+len(bytes.TrimSuffix(dst[n:], []byte(".")))]
	for i, c := range dst[n:] {
		if c >= 'A' && c <= 'Z' {
			dst[n+i] = c | 0x20
		}
	}
	if last := dst[n+bytes.LastIndexByte(dst[n:], '.')+1:]; len(last) > 0 && last[0]-'0' <= 9 && !usualIPv4(dst[n:]) {
		return append(dst[:n], dns.Canonical(string(dst[n:]))...)
	}
	return dst
}

// usualIPv4 reports whether b is an IPv4 address in its usual form.
func usualIPv4(b []byte) bool {
	for n := 0; ; n++ {
		i, v := 0, 0
		for ; i < len(b) && b[i]-'0' <= 9; i++ {
			v = v*10 + int(b[i]-'0')
			if v > 255 || i > 0 && v < 10 {
				return false
			}
		}
		if i == 0 {
			return false
		}
		if i == len(b) {
			return n == 3
		}
		if b[i] != '.' {
			return false
		}
		b = b[i+1:]
	}
}

func appendPort(dst []byte, port uint16) []byte {
	return strconv.AppendUint(append(dst, ':'), uint64(port), 10)
}

// fold compares a field name with one in lower case, ASCII only.
func fold(a []byte, lower string) bool {
	for i, c := range a {
		if c >= 'A' && c <= 'Z' {
			c |= 0x20
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}
