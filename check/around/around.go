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
	"regexp"
	"strconv"
	"strings"

	"shuultuur/content/conversation"
	"shuultuur/filter"
	"shuultuur/lib/ascii"
	"shuultuur/lib/dns"
	"shuultuur/lib/message"
)

// The categories.
const (
	Bare     = conversation.Bare // a page asks a server to fetch for it, as Ultraviolet and others do
	DoH      = "doh"             // a query for names in HTTPS
	DNS      = "dns"             // queries for names that carry something
	Rewriter = "rewriter"        // a page of another site, under an address that hides which
)

// Name is the name of the check. The server that reads the messages of a conversation adds its
// findings about these itself.
const Name = conversation.Around

// Check reports ways around the filter.
type Check struct {
	posts posts
	names names
}

// New returns a check that goes on with what previous knows, which may be nil.
func New(previous filter.Check) *Check {
	if c, ok := previous.(*Check); ok {
		return c
	}
	return &Check{}
}

// Name implements [filter.Check].
func (*Check) Name() string { return Name }

// Cost implements [filter.Check].
func (*Check) Cost() filter.Cost { return filter.Cheap }

// Categories implements [filter.Check].
func (*Check) Categories() []filter.Category {
	return []filter.Category{{Name: Bare}, {Name: DoH}, {Name: conversation.Wisp}, {Name: conversation.Tunnel}, {Name: DNS}, {Name: Rewriter}, {Name: conversation.Channel}}
}

// Wants returns true for long names in queries, for requests and what they send, for the messages of
// conversations, and for answers of bytes that do not end.
func (*Check) Wants(t *filter.Transaction, s filter.Stage) bool {
	switch s {
	case filter.Name:
		return t.Proto == filter.DNS && len(t.Host) > shortName && t.Asked == ""
	case filter.Request:
		return t.Proto == filter.HTTP
	case filter.RequestBody:
		return t.Request != nil && (t.Request.Upgrade != nil || sends(t.Request) && mayCarry(t.Request, t.Sent().Type()))
	case filter.Response:
		return t.Request != nil && t.Response != nil && sends(t.Request)
	case filter.ResponseBody:
		return t.Response != nil && (t.Response.Status == 101 || isStream(t))
	}
	return false
}

// isStream reports whether an answer is a conversation, or bytes without an end.
func isStream(t *filter.Transaction) bool {
	typ := t.Content().Type()
	return strings.HasPrefix(typ, "application/grpc") || typ == "text/event-stream" || strings.HasPrefix(typ, "application/connect+") ||
		typ == "application/octet-stream" && t.Response.Get("Content-Length") == nil && t.Response.Status == 200
}

// mostText is the length of a text that is looked at: longer ones are uploads of people's own.
const mostText = 64 << 10

// mayCarry reports whether the body of a request may carry anything. Forms have rules of their own.
func mayCarry(q *message.Request, typ string) bool {
	switch {
	case typ == "application/x-www-form-urlencoded", typ == "multipart/form-data":
		return false
	case strings.HasPrefix(typ, "text/"), strings.HasSuffix(typ, "json"), strings.HasSuffix(typ, "xml"):
		n, err := strconv.Atoi(string(q.Get("Content-Length")))
		return err == nil && n <= mostText
	}
	return true
}

// Find implements [filter.Check].
func (c *Check) Find(_ context.Context, t *filter.Transaction, s filter.Stage, dst []filter.Finding) ([]filter.Finding, error) {
	add := func(category, evidence string) {
		dst = append(dst, filter.Finding{Check: Name, Category: category, Evidence: evidence})
	}
	switch s {
	case filter.Name:
		if c.Wants(t, s) {
			if says := c.names.look(t); says != "" {
				add(DNS, says)
			}
		}
		return dst, nil
	case filter.Response:
		if c.Wants(t, s) {
			c.posts.answer(t)
		}
		return dst, nil
	case filter.RequestBody, filter.ResponseBody:
		if category, says := c.inBody(t, s); category != "" {
			add(category, says)
		}
		return dst, nil
	}
	q := t.Request
	if s != filter.Request || q == nil {
		return dst, nil
	}
	path, query, _ := bytes.Cut(q.Path, []byte("?"))
	switch {
	case q.Upgrade != nil && isWisp(path):
		add(conversation.Wisp, fmt.Sprintf("a WebSocket to %.80q", path))
	case isBare(q, path):
		add(Bare, bareTarget(q, path))
	case isShuffled(path):
		add(Rewriter, fmt.Sprintf("an address whose letters are exchanged, in %.200q", path))
	}
	if how := isDoH(q, path, query); how != "" {
		add(DoH, how)
	}
	return dst, nil
}

// inBody looks at the beginning of a body, and counts what a client sends.
func (c *Check) inBody(t *filter.Transaction, s filter.Stage) (category, says string) {
	b, where := t.Body, " in an answer"
	if s == filter.RequestBody {
		b, where = t.Upload, " in a request"
	}
	if b == nil || t.Request == nil || t.Request.Upgrade != nil || t.Conversation != "" || !c.Wants(t, s) {
		return "", ""
	}
	var buf [mostBeginning]byte
	p := beginning(b, buf[:0])
	if len(p) == 0 {
		return "", ""
	}
	if category, says = conversation.Opening(p); category != "" {
		return category, says + where
	}
	if s == filter.RequestBody && c.posts.send(t, p) {
		return conversation.Tunnel, "many small requests to one address, whose bodies and answers look like noise"
	}
	return "", ""
}

// mostBeginning is the number of bytes of a body that are looked at.
const mostBeginning = 2048

// shuffledScheme is what is left of "http://" and "https://" where letters are exchanged: in a session of
// its own, so that the letters differ each time.
var shuffledScheme = regexp.MustCompile(`^/[0-9A-Za-z_-]{16,64}/(?:[!-.0-~]*/)?[^/:]{4,12}://?[^/:.]+(?:\.[^/:.]+)+(?:[:/]|$)`)

// isShuffled reports whether a path has an address whose letters are exchanged, behind the number of a
// session.
func isShuffled(path []byte) bool {
	at := bytes.Index(path, []byte(":/"))
	if at < 20 || !shuffledScheme.Match(path) {
		return false
	}
	scheme := path[bytes.LastIndexByte(path[:at], '/')+1 : at]
	mixed := false
	for _, c := range scheme {
		mixed = mixed || c < 'a' || c > 'z'
	}
	return mixed
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
