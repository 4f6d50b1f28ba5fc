package syslog

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"shuultuur/event"
	"shuultuur/filter"
)

// enterprise is the identifier of our structured data. Its number is the one
// reserved for documentation (RFC 5612).
const enterprise = "shuultuur@32473"

// severity returns the severity of RFC 5424: warning for a refused transaction.
func severity(r *event.Row) int {
	if r.Action >= filter.Warn {
		return 4
	}
	return 6
}

// header appends the header of RFC 5424, section 6.2, and a blank.
func (s *Store) header(dst []byte, r *event.Row) []byte {
	dst = strconv.AppendInt(append(dst, '<'), int64(facility*8+severity(r)), 10)
	dst = r.Time.UTC().AppendFormat(append(dst, ">1 "...), "2006-01-02T15:04:05.000000Z")
	return append(append(append(dst, ' '), s.host...), " shuultuur - event "...)
}

// A pair is one field of an event.
type pair struct{ key, value string }

// appendStructured appends structured data (RFC 5424, 6.3) and a readable line.
func appendStructured(dst []byte, r *event.Row) []byte {
	dst = append(append(dst, '['), enterprise...)
	for _, p := range [...]pair{
		{"id", r.ID}, {"action", r.Action.String()}, {"client", address(r)}, {"user", r.User}, {"policy", r.Policy}, {"rule", r.Rule},
		{"category", r.Category}, {"evidence", r.Evidence}, {"method", r.Method}, {"url", r.URL}, {"host", r.Host}, {"type", r.Type},
		{"proto", r.Proto.String()}, {"status", number(r.Status)}, {"score", number(r.Score)}, {"in", strconv.FormatInt(r.BytesIn, 10)},
		{"out", strconv.FormatInt(r.BytesOut, 10)}, {"ms", strconv.FormatInt(r.Duration.Milliseconds(), 10)}, {"note", r.Note},
	} {
		if p.value == "" {
			continue
		}
		dst = append(append(append(append(dst, ' '), p.key...), '=', '"'), ""...)
		dst = appendEscaped(dst, p.value, `"\]`)
		dst = append(dst, '"')
	}
	dst = append(append(append(dst, "] "...), r.Action.String()...), ' ')
	return appendEscaped(dst, target(r), "")
}

// appendCEF appends the Common Event Format, version 0.
func appendCEF(dst []byte, r *event.Row) []byte {
	level := "3"
	if r.Action >= filter.Warn {
		level = "6"
	}
	name := r.Action.String()
	if r.Rule != "" {
		name += " by " + r.Rule
	}
	dst = append(dst, "- CEF:0|Shuultuur|Shuultuur|1|"...) // no structured data
	dst = append(appendEscaped(dst, r.Action.String(), `|\`), '|')
	dst = append(appendEscaped(dst, name, `|\`), '|')
	dst = append(append(dst, level...), '|')
	first := true
	for _, p := range [...]pair{
		{"rt", strconv.FormatInt(r.Time.UnixMilli(), 10)}, {"externalId", r.ID}, {"act", r.Action.String()}, {"src", address(r)}, {"suser", r.User},
		{"dhost", r.Host}, {"dpt", number(int(r.Port))}, {"request", r.URL}, {"requestMethod", r.Method}, {"app", r.Proto.String()}, {"cat", r.Category},
		{"reason", r.Evidence}, {"in", strconv.FormatInt(r.BytesIn, 10)}, {"out", strconv.FormatInt(r.BytesOut, 10)}, {"outcome", number(r.Status)},
		{"cs1Label", label("policy", r.Policy)}, {"cs1", r.Policy}, {"cs2Label", label("rule", r.Rule)}, {"cs2", r.Rule},
		{"cn1Label", label("score", number(r.Score))}, {"cn1", number(r.Score)}, {"msg", r.Note},
	} {
		if p.value == "" {
			continue
		}
		if !first {
			dst = append(dst, ' ')
		}
		first = false
		dst = appendEscaped(append(append(dst, p.key...), '='), p.value, `=\`)
	}
	return dst
}

// label appends the name of a field of our own, unless the field has no value.
func label(name, value string) string {
	if value == "" {
		return ""
	}
	return name
}

// appendECS appends JSON of the Elastic Common Schema, version 8.
func appendECS(dst []byte, r *event.Row) []byte {
	dst = append(dst, `- {"@timestamp":"`...)
	dst = r.Time.UTC().AppendFormat(dst, time.RFC3339Nano)
	dst = append(dst, `","ecs.version":"8.11.0","event.kind":"event","event.module":"shuultuur","event.dataset":"shuultuur.event"`...)
	kind, outcome := "allowed", "success"
	if r.Action >= filter.Warn {
		kind, outcome = "denied", "failure"
	}
	// Both are lists. What was allowed or denied is a type of the category network alone; only what was
	// read is of the web.
	category := `["network"]`
	if r.Proto == filter.HTTP {
		category = `["network","web"]`
	}
	dst = append(append(append(append(append(dst, `,"event.category":`...), category...), `,"event.type":["`...), kind...), `"]`...)
	network := map[filter.Proto]string{filter.HTTP: "http", filter.TLS: "tls", filter.DNS: "dns"}[r.Proto]
	for _, p := range [...]pair{
		{"event.id", r.ID}, {"event.outcome", outcome}, {"event.action", r.Action.String()}, {"client.ip", address(r)},
		{"user.name", r.User}, {"rule.ruleset", r.Policy}, {"rule.name", r.Rule}, {"rule.category", r.Category}, {"event.reason", r.Evidence}, {"url.full", r.URL},
		{"url.domain", r.Host}, {"http.request.method", r.Method}, {"http.response.mime_type", r.Type}, {"network.protocol", network}, {"message", r.Note},
	} {
		if p.value == "" {
			continue
		}
		dst = append(append(append(dst, `,"`...), p.key...), `":`...)
		dst = event.AppendJSON(dst, p.value)
	}
	for _, n := range [...]struct {
		key string
		n   int64
	}{
		{"http.response.status_code", int64(r.Status)}, {"http.request.body.bytes", r.BytesIn}, {"http.response.body.bytes", r.BytesOut},
		{"event.duration", int64(r.Duration)}, {"event.risk_score", int64(r.Score)}, {"destination.port", int64(r.Port)},
	} {
		if n.n != 0 {
			dst = append(append(append(dst, `,"`...), n.key...), `":`...)
			dst = strconv.AppendInt(dst, n.n, 10)
		}
	}
	return append(dst, '}')
}

func address(r *event.Row) string {
	if !r.Client.IsValid() {
		return ""
	}
	return r.Client.String()
}

func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// target returns the URL, or the host or name if there is none.
func target(r *event.Row) string {
	if r.URL != "" {
		return r.URL
	}
	return r.Host
}

// appendEscaped appends s with a backslash before the characters in special.
// The result is one line of UTF-8: control characters become blanks.
func appendEscaped(dst []byte, s, special string) []byte {
	for _, c := range s {
		switch {
		case c < ' ' || c >= 0x7f && c < 0xa0 || c == 0x2028 || c == 0x2029:
			c = ' '
		case strings.ContainsRune(special, c):
			dst = append(dst, '\\')
		}
		dst = utf8.AppendRune(dst, c)
	}
	return dst
}
