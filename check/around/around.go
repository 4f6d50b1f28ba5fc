// Package around is the check for ways around the filter that their own traffic shows: requests to
// bare servers, DNS over HTTPS to whatever host, and connections in the messages of WebSockets.
//
// Lists know the hosts of such services. This check knows what they do, so that a service that
// nobody has listed is found.
package around

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"strings"

	"shuultuur/content/conversation"
	"shuultuur/filter"
	"shuultuur/lib/ascii"
	"shuultuur/lib/dns"
	"shuultuur/lib/message"
)

// The categories.
const (
	Bare = "bare" // a page asks a server to fetch for it, as Ultraviolet and others do
	DoH  = "doh"  // a query for names in HTTPS
)

// Name is the name of the check. The server that reads the messages of a conversation adds its
// findings about these itself.
const Name = conversation.Around

// Check reports bare, doh, wisp and tunnel.
type Check struct{}

// Name implements [filter.Check].
func (Check) Name() string { return Name }

// Cost implements [filter.Check].
func (Check) Cost() filter.Cost { return filter.Cheap }

// Categories implements [filter.Check].
func (Check) Categories() []filter.Category {
	return []filter.Category{{Name: Bare}, {Name: DoH}, {Name: conversation.Wisp}, {Name: conversation.Tunnel}}
}

// Wants returns true for requests, and for the messages of a connection that becomes a WebSocket.
func (Check) Wants(t *filter.Transaction, s filter.Stage) bool {
	switch s {
	case filter.Request:
		return t.Proto == filter.HTTP
	case filter.RequestBody:
		return t.Request != nil && t.Request.Upgrade != nil
	case filter.ResponseBody:
		return t.Response != nil && t.Response.Status == 101
	}
	return false
}

// Find implements [filter.Check].
func (Check) Find(_ context.Context, t *filter.Transaction, s filter.Stage, dst []filter.Finding) ([]filter.Finding, error) {
	q := t.Request
	if s != filter.Request || q == nil {
		return dst, nil
	}
	add := func(category, evidence string) {
		dst = append(dst, filter.Finding{Check: Name, Category: category, Evidence: evidence})
	}
	path, query, _ := bytes.Cut(q.Path, []byte("?"))
	switch {
	case q.Upgrade != nil && isWisp(path):
		add(conversation.Wisp, fmt.Sprintf("a WebSocket to %.80q", path))
	case isBare(q, path):
		add(Bare, bareTarget(q, path))
	}
	if how := isDoH(q, path, query); how != "" {
		add(DoH, how)
	}
	return dst, nil
}

// isWisp reports whether a path is that of wisp servers.
func isWisp(path []byte) bool {
	return bytes.HasSuffix(path, []byte("/wisp/")) || bytes.HasSuffix(path, []byte("/wisp"))
}

// isBare reports whether a request is one to a bare server: its fields name what is to be fetched, or
// its path is that of such a server and a WebSocket says so.
func isBare(q *message.Request, path []byte) bool {
	for i := range q.Fields {
		f := &q.Fields[i]
		switch {
		case ascii.HasPrefixLower(f.Name, "x-bare-"):
			return true
		case message.EqualName(f.Name, "sec-websocket-protocol") && q.Upgrade != nil:
			if first, _, _ := bytes.Cut(f.Value, []byte(",")); ascii.EqualLower(bytes.TrimSpace(first), "bare") {
				return true
			}
		}
	}
	if q.Upgrade == nil {
		return false
	}
	for _, end := range [...]string{"/bare/v1/", "/bare/v2/", "/bare/v3/"} {
		if bytes.HasSuffix(path, []byte(end)) {
			return true
		}
	}
	return false
}

// bareTarget says what a request to a bare server asks for.
func bareTarget(q *message.Request, path []byte) string {
	for _, name := range [...]string{"X-Bare-URL", "X-Bare-Host"} {
		if v := q.Get(name); len(v) > 0 {
			return fmt.Sprintf("a request to a bare server, for %.200q", v)
		}
	}
	return fmt.Sprintf("a request to a bare server at %.80q", path)
}

// isDoH returns how a request shows that it is a query for a name, "" if it is none: by its media
// type, by the query in its parameter, or by the names of the parameters.
func isDoH(q *message.Request, path, query []byte) string {
	for _, name := range [...]string{"Content-Type", "Accept"} {
		typ, _, _ := strings.Cut(strings.ToLower(string(q.Get(name))), ";")
		switch typ = strings.TrimSpace(typ); typ {
		case "application/dns-message", "application/dns-json", "application/oblivious-dns-message":
			return fmt.Sprintf("a query for a name, of type %s", typ)
		}
	}
	var name, typ bool
	for part := range bytes.SplitSeq(query, []byte("&")) {
		key, value, _ := bytes.Cut(part, []byte("="))
		switch string(key) {
		case "dns":
			if asked := questionIn(value); asked != "" {
				return fmt.Sprintf("a query for the name %.253q", asked)
			}
		case "name":
			name = bytes.IndexByte(value, '.') > 0
		case "type":
			typ = isType(value)
		}
	}
	if name && (typ && bytes.HasSuffix(path, []byte("/resolve")) || bytes.HasSuffix(path, []byte("/dns-query"))) {
		return fmt.Sprintf("a query for a name, at %.80q", path)
	}
	return ""
}

// isType reports whether a value is a type of DNS records.
func isType(v []byte) bool {
	_, err := dns.Type(strings.ToUpper(string(v)))
	if err == nil {
		return true
	}
	for _, c := range v {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(v) > 0 && len(v) < 6
}

// shortestQuery is the length of a header and a question for the root, in bytes.
const shortestQuery = 12 + 5

// questionIn returns the name that a DNS message in base64url asks for (RFC 8484 section 4.1), "" if it
// is no such message.
func questionIn(v []byte) string {
	if len(v) > 4096 {
		return ""
	}
	p, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(string(v), "="))
	if err != nil || len(p) < shortestQuery || p[2]&0xF8 != 0 || p[4] != 0 || p[5] != 1 || p[6]|p[7]|p[8]|p[9] != 0 {
		return "" // no query with one question
	}
	name, end, err := dns.ReadName(nil, p, 12)
	if err != nil || end+4 > len(p) {
		return ""
	}
	return string(dns.AppendHost(nil, name))
}
