// Package squid writes events in Squid's native access.log format, for the programs that read
// it (SARG, SquidAnalyzer, calamaris):
//
//	%ts.%03tu %6tr %>a %Ss/%03>Hs %<st %rm %ru %[un %Sh/%<a %mt
//
//	1767225600.123    180 10.1.2.3 TCP_MISS/200 4711 GET http://example.com/ anna HIER_DIRECT/192.0.2.1 text/html
//
// The size is that of head and body. The server is the address that the request was sent to,
// with FIRSTUP_PARENT for a parent proxy. A tunnel is "TCP_TUNNEL … CONNECT host:port". A
// blocked or warned request is TCP_DENIED if no server was asked and TCP_DENIED_REPLY
// otherwise, with a page of text/html; a redirected one is TCP_REDIRECT. A DNS query is
// "NONE_NONE/000 … DNS dns:host", which report programs leave out. Unlike Squid's default, the
// query stays in the URL.
//
// Blanks, control characters, quotes and bytes that are not ASCII are written as %XX in every
// field, so that a line has exactly ten fields.
package squid

import (
	"regexp"
	"strconv"
	"strings"

	"shuultuur/event"
	"shuultuur/filter"
)

// escaped has the printable characters that are written as %XX in URLs: those that RFC 1738
// calls unsafe, except the ones that occur unescaped in practice.
const escaped = " \"<>\\^`{|}"

// Kind is the kind of these logs.
var Kind = event.Kind{Store: "squid", Entry: regexp.MustCompile(`^-?\d{1,12}\.\d{3} +-?\d+ \S+ [A-Z_]+/\d{3} `)}

// Path is the setting of the store: the name of its file.
type Path string

// Open implements [event.Setting].
func (p Path) Open(o event.Opening) ([]event.Store, error) {
	return o.OpenFile(string(p), Kind.Check, func(path string) (event.Store, error) { return Open(path) })
}

// Place implements [event.Placed].
func (p Path) Place() string { return string(p) }

// Open opens or creates the log at path.
func Open(path string) (*event.File, error) { return event.OpenFile(Kind, path, AppendLine) }

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
	dst = padded(dst, int64(status(r)), 3, '0')
	dst = append(dst, ' ')
	dst = strconv.AppendInt(dst, r.HeadOut+r.BytesOut, 10)
	dst = append(dst, ' ')
	dst = appendTarget(dst, r)
	dst = append(dst, ' ')
	dst = field(dst, r.User, escaped+"%[]")
	dst = append(dst, ' ')
	dst = appendServer(dst, r)
	dst = append(dst, ' ')
	dst = field(dst, mediaType(r), escaped)
	return append(dst, '\n')
}

// appendServer appends how the request reached the server, and its address.
func appendServer(dst []byte, r *event.Row) []byte {
	switch {
	case !r.Server.IsValid():
		return append(dst, "HIER_NONE/-"...)
	case r.Parent:
		dst = append(dst, "FIRSTUP_PARENT/"...)
	default:
		dst = append(dst, "HIER_DIRECT/"...)
	}
	return r.Server.AppendTo(dst)
}

// refused reports that the client got a page instead of the response.
func refused(r *event.Row) bool { return r.Action == filter.Block || r.Action == filter.Warn }

// status returns the status of the response. If we cut the connection, there was none; Squid
// writes 403 for such denials.
func status(r *event.Row) int {
	switch {
	case r.Proto == filter.DNS: // Status is a DNS response code
		return 0
	case refused(r) && r.Status == 0:
		return 403
	}
	return r.Status
}

// mediaType returns the media type of the response. For refusals and errors it
// is that of our page.
func mediaType(r *event.Row) string {
	own := refused(r) || r.Type == "" && r.Status >= 400 && (r.Proto == filter.HTTP && r.Note != "" || unread(r))
	if own && r.Proto != filter.DNS {
		return "text/html"
	}
	return r.Type
}

// unread reports that no valid request was received.
func unread(r *event.Row) bool { return r.Proto == filter.HTTP && r.URL == "" }

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
	case unread(r):
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

// result returns Squid's result code.
func result(r *event.Row) string {
	switch {
	case r.Proto == filter.DNS:
		return "NONE_NONE"
	case r.Action == filter.Redirect:
		return "TCP_REDIRECT"
	case refused(r) && r.Server.IsValid():
		return "TCP_DENIED_REPLY"
	case refused(r):
		return "TCP_DENIED"
	case unread(r):
		return "NONE_NONE"
	case r.Proto == filter.TLS:
		if r.Status != 200 && r.Status != 0 { // the server was unreachable
			return "NONE_NONE"
		}
		return "TCP_TUNNEL"
	case r.Status == 0: // the client did not wait for the response
		return "TCP_MISS_ABORTED"
	}
	switch r.Cache {
	case "hit":
		return "TCP_HIT"
	case "revalidated":
		return "TCP_REFRESH_UNMODIFIED"
	case "stale":
		return "TCP_REFRESH_FAIL_OLD"
	}
	return "TCP_MISS"
}

func field(dst []byte, s, also string) []byte {
	if s == "" {
		return append(dst, '-')
	}
	return event.AppendEscaped(dst, s, also)
}

// padded appends v, padded on the left to width bytes.
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
