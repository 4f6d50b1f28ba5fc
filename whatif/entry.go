// Package whatif answers what other settings would have decided: it judges recorded requests
// again, and reports which verdicts would change. Effects of a change on the pages of the
// administrator use it, and so do the commands replay and import.
//
// A [Source] reads files in any supported format (squid.go, combined.go, dansguardian.go,
// events.go, queries.go, har.go) line by line, or rows of the record of events, of which a
// [NewestReader] selects the newest. It yields an [Entry] for each request, counts unreadable
// lines and remembers the first ones. A [Comparison] has two judges decide about each entry, or
// one against the verdict on record, without a network and without bodies, which no log has. It
// counts what differs in a [Report], as text or JSON.
package whatif

import (
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"shuultuur/filter"
)

// An Entry is the information in a log about one request. Unknown fields are zero.
type Entry struct {
	Start    time.Time
	Duration time.Duration
	Minutes  filter.Minutes // in which it was used; nil: all of its duration, as far as its log tells
	Client   netip.Addr
	User     string

	// Method is the request's; CONNECT for a tunnel, DNS for a name that was only looked up.
	// URL is "" for these two.
	Method string
	URL    string // absolute, without fragment
	Host   string // lower case, no port, no final dot; IPv6 without brackets
	Port   uint16
	// Opening is what was said first in a tunnel, "" if that is not recorded.
	Opening string
	// Question is the queried record type, 0 if unknown.
	Question uint16

	Status  int
	Sent    int64 // bytes of body from the client
	Bytes   int64 // bytes to the client; some logs include the head
	Type    string
	Referer string
	Agent   string

	Decrypted bool // of a tunnel: what was in it has entries of its own

	Refused  bool             // a filter answered instead of the origin
	Recorded *RecordedVerdict // nil if the log contains no verdict
}

// RecordedVerdict is a filter's verdict on an entry.
type RecordedVerdict struct {
	Action   filter.Action
	Policy   string
	Rule     string
	Category string
	// Unseen says that the verdict was, or may have been, due to what the log does not contain, such
	// as a body. For a row of a record its findings may say so, too; they are read only if the verdict
	// changes.
	Unseen   bool
	findings string // JSON
	looked   bool   // checks inspected a body
}

// Tunnel and Lookup are methods for which only the host is known.
const (
	Tunnel = "CONNECT"
	Lookup = "DNS"
)

// Request returns the entry of a request for a URL, or of a [Tunnel] to host:port.
func Request(method, target string) (e Entry, err error) {
	err = e.request(method, target)
	return e, err
}

// Query returns the entry of a query for a name.
func Query(name string, question uint16) (Entry, error) {
	e := Entry{Method: Lookup, Question: question}
	return e, e.setName(name, 0)
}

// Target returns the URL, or host and port if there is none.
func (e *Entry) Target() string {
	if e.URL != "" {
		return e.URL
	}
	if e.Port == 0 {
		return e.Host
	}
	host := e.Host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return host + ":" + strconv.Itoa(int(e.Port))
}

// setURL sets the fields from a URL. It accepts only http and https.
func (e *Entry) setURL(raw string) error {
	if i := strings.IndexByte(raw, '#'); i >= 0 {
		raw = raw[:i]
	}
	scheme, rest, ok := strings.Cut(raw, "://")
	port := uint16(80)
	switch {
	case ok && strings.EqualFold(scheme, "http"):
	case ok && strings.EqualFold(scheme, "https"):
		port = 443
	default:
		return fmt.Errorf("%.80q is not an http or https URL", raw)
	}
	authority, path := rest, ""
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		authority, path = rest[:i], rest[i:]
	}
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		authority = authority[i+1:] // without user name and password
	}
	if err := e.setHost(authority, port); err != nil {
		return err
	}
	if unsafeInHead(path) {
		path = escape(path)
	}
	if path == "" || path[0] == '?' {
		path = "/" + path
	}
	if whole := strings.ToLower(scheme) + "://" + authority + path; whole != raw {
		raw = whole
	}
	e.URL = raw
	return nil
}

// setHost sets host and port from "host", "host:port" or "[v6]:port".
func (e *Entry) setHost(authority string, port uint16) error {
	host, digits := authority, ""
	if strings.HasPrefix(authority, "[") {
		inside, after, ok := strings.Cut(authority[1:], "]")
		a, err := netip.ParseAddr(inside)
		if !ok || err != nil || !a.Is6() || a.Zone() != "" || after != "" && after[0] != ':' {
			return fmt.Errorf("%.80q is not a host", authority)
		}
		host, digits = inside, strings.TrimPrefix(after, ":")
	} else if i := strings.LastIndexByte(authority, ':'); i >= 0 {
		host, digits = authority[:i], authority[i+1:]
	}
	if digits != "" {
		n, err := strconv.ParseUint(digits, 10, 16)
		if err != nil || n == 0 {
			return fmt.Errorf("%.20q is not a port", digits)
		}
		port = uint16(n)
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if host == "" || len(host) > 255 || !strings.HasPrefix(authority, "[") && strings.ContainsFunc(host, notInHost) {
		return fmt.Errorf("%.80q is not a host", authority)
	}
	e.Host, e.Port = host, port
	return nil
}

// notInHost reports bytes that could end a request line or a Host field. Names in Unicode are
// permitted: handling them is up to the gateway.
func notInHost(r rune) bool {
	return r <= ' ' || r == 0x7f || strings.ContainsRune(`/\?#@[]<>"':,;`, r)
}

// unsafeInHead reports whether s contains bytes that are not permitted in a request target.
func unsafeInHead(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f {
			return true
		}
	}
	return false
}

// escape writes bytes that are not permitted in a request target as %XX.
func escape(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f {
			fmt.Fprintf(&b, "%%%02X", s[i])
		} else {
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

// unescape decodes %XX in a field other than the URL.
func unescape(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	if u, err := url.PathUnescape(s); err == nil {
		return u
	}
	return s
}

// dash returns s, or "" if it is a dash, which means nothing.
func dash(s string) string {
	if s == "-" {
		return ""
	}
	return s
}

// method validates a request method (RFC 9110 section 5.6.2: a token).
func method(s string) (string, error) {
	if s == "" || len(s) > 32 {
		return "", fmt.Errorf("%.40q is not a method", s)
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return "", fmt.Errorf("%.40q is not a method", s)
		}
	}
	return s, nil
}

// address parses a client's address; a name gives an invalid address.
func address(s string) netip.Addr {
	a, err := netip.ParseAddr(s)
	if err != nil {
		return netip.Addr{}
	}
	return a.Unmap().WithZone("")
}

// size parses a number of bytes, "-" for none.
func size(s string) (int64, error) {
	if s == "-" {
		return 0, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%.40q is not a number of bytes", s)
	}
	return n, nil
}

// statusCode parses a status; 0 if there was no response.
func statusCode(s string) (int, error) {
	if s == "-" {
		return 0, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > 999 {
		return 0, fmt.Errorf("%.40q is not a status", s)
	}
	return n, nil
}
