// Package dansguardian writes events in the access log format 1 of DansGuardian and e2guardian,
// for the programs that read it (SARG, log analysers, alarms about denied pages). A line has
// these fields, each followed by one blank:
//
//	date time user client URL actions-and-reason method size weight category group-number
//	status media-type client-name group-name user-agent
//	and four that e2guardian leaves empty without plug-ins
//
//	2026.01.02 10:20:30 anna 10.1.2.3 http://example.com/ *DENIED* words: casino 80 GET 2310 120 phrase 1 403 text/html 10.1.2.3 pupils - - - - -
//
// The size is that of the body which the server sent, even when the client did not get it. The
// name of a client is its address, as where names are not looked up. Time is local, as in
// DansGuardian. A blocked page is *DENIED*, a warn page *WARNING*, an allowed page *EXCEPTION*,
// and a redirected one *URLMOD*; the rule and the evidence follow. The group name is the
// policy; the group number is always 1, because policies have no numbers. Empty fields are "-"
// (usedashforblanks).
//
// Only the reason may contain blanks, so that readers find it by counting fields from both
// ends. Control characters and asterisks are written as %XX, and outside the reason also blanks
// and bytes that are not ASCII. So no client can forge a line or a *DENIED* marker.
package dansguardian

import (
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"shuultuur/event"
	"shuultuur/filter"
)

// escaped are the printable characters written as %XX in a field.
const escaped = " *\"<>\\^`{|}"

// Kind is the kind of these logs. DansGuardian itself pads neither months nor hours.
var Kind = event.Kind{Store: "dansguardian", Entry: regexp.MustCompile(`^\d{1,4}\.\d\d?\.\d\d? \d\d?:\d\d:\d\d \S+ \S+ `)}

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
	dst = r.Time.Local().AppendFormat(dst, "2006.01.02 15:04:05 ")
	dst = field(dst, r.User)
	dst = appendClient(dst, r)
	dst = appendURL(dst, r)
	dst = append(dst, ' ')
	dst = appendReason(dst, r)
	dst = append(dst, ' ')
	dst = field(dst, r.Method)
	dst = number(dst, size(r))
	dst = number(dst, int64(r.Score))
	dst = field(dst, r.Category)
	dst = number(dst, 1)
	dst = number(dst, int64(r.Status))
	dst = field(dst, r.Type)
	dst = appendClient(dst, r)
	dst = field(dst, r.Policy)
	return append(dst, "- - - - -\n"...)
}

func appendClient(dst []byte, r *event.Row) []byte {
	if !r.Client.IsValid() {
		return append(dst, "- "...)
	}
	return append(r.Client.AppendTo(dst), ' ')
}

// size returns the size of the body that the server sent.
func size(r *event.Row) int64 {
	if r.Action == filter.Block || r.Action == filter.Warn {
		return max(r.Length, r.Looked) // BytesOut is the size of our own page
	}
	return r.BytesOut
}

func field(dst []byte, s string) []byte {
	if s == "" {
		return append(dst, "- "...)
	}
	return append(event.AppendEscaped(dst, s, escaped), ' ')
}

func number(dst []byte, v int64) []byte {
	return append(strconv.AppendInt(dst, v, 10), ' ')
}

// appendURL appends the URL, or one made from the host, because readers look
// for "//".
func appendURL(dst []byte, r *event.Row) []byte {
	if r.URL != "" {
		return event.AppendEscaped(dst, r.URL, escaped)
	}
	dst = append(dst, [...]string{"http", "https", "dns"}[r.Proto%3]...)
	dst = append(dst, "://"...)
	if strings.Contains(r.Host, ":") {
		dst = append(dst, '[')
		dst = event.AppendEscaped(dst, r.Host, escaped)
		dst = append(dst, ']')
	} else {
		dst = event.AppendEscaped(dst, r.Host, escaped)
	}
	if r.Proto == filter.TLS && r.Port != 443 {
		dst = append(dst, ':')
		dst = strconv.AppendUint(dst, uint64(r.Port), 10)
	}
	return dst
}

// appendReason appends the action and its reason.
func appendReason(dst []byte, r *event.Row) []byte {
	switch r.Action {
	case filter.Pass:
		return append(dst, '-')
	case filter.Allow:
		dst = append(dst, "*EXCEPTION*"...)
	case filter.Warn:
		dst = append(dst, "*WARNING*"...)
	case filter.Redirect:
		dst = append(dst, "*URLMOD*"...)
	default:
		dst = append(dst, "*DENIED*"...)
	}
	dst = append(dst, ' ')
	if r.Rule == "" {
		dst = append(dst, '-')
	} else {
		dst = text(dst, r.Rule)
	}
	if r.Evidence != "" {
		dst = append(dst, ": "...)
		dst = text(dst, r.Evidence)
	}
	return dst
}

// text appends s for people: UTF-8 stays unescaped.
func text(dst []byte, s string) []byte {
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r < ' ' || r == '*' || 0x7f <= r && r < 0xa0 || r == 0x2028 || r == 0x2029 || r == utf8.RuneError && n == 1 {
			dst = event.AppendEscaped(dst, s[i:i+n], "*")
		} else {
			dst = append(dst, s[i:i+n]...)
		}
		i += n
	}
	return dst
}
