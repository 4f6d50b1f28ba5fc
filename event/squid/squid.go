// Package squid writes events in Squid's native access.log format, for the
// programs that read it (SARG, SquidAnalyzer, calamaris):
//
//	%ts.%03tu %6tr %>a %Ss/%03>Hs %<st %rm %ru %[un %Sh/%<a %mt
//
//	1767225600.123    180 10.1.2.3 TCP_MISS/200 4711 GET http://example.com/ anna HIER_DIRECT/example.com text/html
//
// What differs from Squid: the size is that of the body without the head; the
// server stands there by name, as Squid writes a peer. A tunnel is
// "TCP_TUNNEL … CONNECT host:port"; what was blocked or warned of is
// TCP_DENIED, what was sent elsewhere TCP_REDIRECT. A name that was only
// looked up is "NONE/000 … DNS dns:host", which report programs leave out.
//
// Blanks, control characters, quotes and bytes that are not ASCII are written
// as %XX in every field, so that a line has exactly ten fields.
package squid

import (
	"strconv"
	"strings"

	"shuultuur/event"
	"shuultuur/filter"
)

// escaped are the printable characters written as %XX in URLs: those RFC 1738
// calls unsafe, but for the ones that do occur in a URL as such.
const escaped = " \"<>\\^`{|}"

// Open opens or makes the log at path.
func Open(path string) (*event.File, error) {
	return event.OpenFile("squid", path, AppendLine)
}

// AppendLine appends the line of r.
func AppendLine(dst []byte, r *event.Row) []byte {
	ms := r.Time.UnixMilli()
	dst = strconv.AppendInt(dst, ms/1000, 10)
	dst = append(dst, '.')
	dst = padded(dst, ms%1000, 3, '0')
	dst = append(dst, ' ')
	dst = padded(dst, r.Duration.Milliseconds(), 6, ' ')
	dst = append(dst, ' ')
	if r.Client.IsValid() {
		dst = r.Client.AppendTo(dst)
	} else {
		dst = append(dst, '-')
	}
	dst = append(dst, ' ')
	dst = append(dst, result(r)...)
	dst = append(dst, '/')
	dst = padded(dst, int64(r.Status), 3, '0')
	dst = append(dst, ' ')
	dst = strconv.AppendInt(dst, r.BytesOut, 10)
	dst = append(dst, ' ')
	dst = appendTarget(dst, r)
	dst = append(dst, ' ')
	dst = field(dst, r.User, escaped+"%[]")
	if r.Action >= filter.Warn || r.Host == "" || r.Proto == filter.DNS {
		dst = append(dst, " HIER_NONE/-"...)
	} else {
		dst = append(dst, " HIER_DIRECT/"...)
		dst = event.AppendEscaped(dst, r.Host, escaped)
	}
	dst = append(dst, ' ')
	dst = field(dst, r.Type, escaped)
	return append(dst, '\n')
}

// appendTarget appends method and URL.
func appendTarget(dst []byte, r *event.Row) []byte {
	switch {
	case r.URL != "":
		dst = field(dst, r.Method, escaped)
		dst = append(dst, ' ')
		return event.AppendEscaped(dst, r.URL, escaped)
	case r.Proto == filter.DNS:
		dst = append(dst, "DNS dns:"...)
		return event.AppendEscaped(dst, r.Host, escaped)
	case r.Proto == filter.HTTP: // a request that was refused unread
		return append(dst, "NONE error:invalid-request"...)
	}
	dst = append(dst, "CONNECT "...)
	v6 := strings.Contains(r.Host, ":")
	if v6 {
		dst = append(dst, '[')
	}
	dst = event.AppendEscaped(dst, r.Host, escaped)
	if v6 {
		dst = append(dst, ']')
	}
	dst = append(dst, ':')
	return strconv.AppendUint(dst, uint64(r.Port), 10)
}

// result returns Squid's request status.
func result(r *event.Row) string {
	switch {
	case r.Action == filter.Redirect:
		return "TCP_REDIRECT"
	case r.Action == filter.Block || r.Action == filter.Warn:
		return "TCP_DENIED"
	case r.Proto == filter.DNS || r.Proto == filter.HTTP && r.URL == "":
		return "NONE"
	case r.Proto == filter.TLS:
		return "TCP_TUNNEL"
	}
	return "TCP_MISS"
}

func field(dst []byte, s, also string) []byte {
	if s == "" {
		return append(dst, '-')
	}
	return event.AppendEscaped(dst, s, also)
}

// padded appends v, at least width wide.
func padded(dst []byte, v int64, width int, with byte) []byte {
	digits := 1
	for x := v; x >= 10; x /= 10 {
		digits++
	}
	for range width - digits {
		dst = append(dst, with)
	}
	return strconv.AppendInt(dst, v, 10)
}
