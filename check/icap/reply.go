//go:build !small

package icap

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"mime"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"shuultuur/filter"
	httpmessage "shuultuur/lib/message"
	wire "shuultuur/lib/message/icap"
)

const (
	pageWait      = 2 * time.Second // for the rest of a reply whose head names something
	maxPage       = 64 << 10        // bytes of a scanner's page that are passed on
	maxViolations = 8               // findings about one message
	maxText       = 200             // bytes of a name in a finding
)

// A reply is a server's response.
type reply struct {
	line   string // the status line
	status int
	fields map[string]string // names in lower case; continued lines are joined by "\n"
	close  bool
	parts  wire.Encapsulated

	http   httpmessage.Response // of a response
	target string               // of a request
	body   bool
	length int64
	sum    uint64
	page   []byte // the beginning of the body

	verdict []named // what the fields of its head name

	by      string   // the server
	counted bool     // in the metrics
	asked   struct { // the body that was sent
		length int64
		sum    uint64
	}
}

// readReply reads a reply. c limits its body; nil is for the reply to OPTIONS, whose body is
// ignored. A reply whose head names something counts, whatever else is wrong with it: late is then
// called before the rest is read.
func readReply(r *bufio.Reader, c *Check, late func()) (*reply, error) {
	p := &reply{fields: map[string]string{}}
	err := p.readHead(r)
	if c != nil {
		p.verdict = verdictOf(p.fields)
	}
	if len(p.verdict) == 0 {
		if err == nil && p.status != 100 {
			err = p.readRest(r, c)
		}
		if err != nil {
			return nil, err
		}
		return p, nil
	}
	if err == nil && p.status != 100 && c.page {
		late()
		err = p.readRest(r, c)
	} else if err == nil && (p.status != 204 || !p.bare()) { // nobody wants the rest
		p.close = true
	}
	if err != nil {
		p.parts, p.page, p.close = wire.Encapsulated{}, nil, true
	}
	return p, nil
}

// bare reports whether nothing follows the head.
func (p *reply) bare() bool {
	v, ok := p.fields["encapsulated"]
	return !ok || p.parts.Parse(v) == nil && p.parts.Req <= 0 && p.parts.Res <= 0 && !p.parts.Body
}

// readRest reads what follows the head.
func (p *reply) readRest(r *bufio.Reader, c *Check) error {
	e := &p.parts
	if v, ok := p.fields["encapsulated"]; ok {
		if c == nil && strings.Contains(v, "opt-body") { // unused
			p.close = true
			return nil
		}
		if err := e.Parse(v); err != nil {
			return err
		}
	}
	if !e.Present || c == nil {
		return nil
	}
	return p.readParts(r, c)
}

// readHead reads the ICAP head. After a mistake it goes on, because a verdict may follow.
func (p *reply) readHead(r *bufio.Reader) (wrong error) {
	defer func() {
		p.fields["istag"] = strings.Trim(p.fields["istag"], `"`)
		p.close = wrong != nil || strings.Contains(strings.ToLower(p.fields["connection"]), "close")
	}()
	line, err := readLine(r, &wrong)
	if err != nil {
		return err
	}
	p.line = clean(string(line))
	version, rest, _ := bytes.Cut(line, []byte(" "))
	code, _, _ := bytes.Cut(rest, []byte(" "))
	if p.status, err = strconv.Atoi(string(code)); err != nil || p.status < 100 || p.status > 599 || !bytes.HasPrefix(version, []byte("ICAP/1.")) {
		wrong = cmp.Or(wrong, wire.Bad("%.60q is no ICAP status line", line))
	}
	last, size := "", 0
	for n := 0; ; n++ {
		line, err := readLine(r, &wrong)
		if err != nil {
			return cmp.Or(wrong, err)
		}
		if size += len(line); n == wire.MaxFields || size > wire.MaxHeads {
			return cmp.Or(wrong, wire.Bad("a head of more than %d fields or %d bytes", wire.MaxFields, wire.MaxHeads))
		}
		if len(line) == 0 {
			return wrong
		}
		if (line[0] == ' ' || line[0] == '\t') && last != "" {
			p.fields[last] += "\n" + string(bytes.Trim(line, " \t"))
			continue
		}
		name, value, err := wire.Field(line)
		if err != nil {
			wrong = cmp.Or(wrong, err)
			n, v, ok := bytes.Cut(line, []byte(":"))
			if !ok {
				continue
			}
			name, value = strings.ToLower(string(bytes.TrimSpace(n))), bytes.TrimSpace(v)
		}
		if last = name; p.fields[name] != "" {
			value = append([]byte(p.fields[name]+", "), value...)
		}
		p.fields[name] = string(value)
	}
}

// readLine reads a line of the head. It accepts one that ends with LF alone or with the connection,
// and stores that mistake in wrong.
func readLine(r *bufio.Reader, wrong *error) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return nil, wire.Bad("a line is longer than %d bytes", wire.MaxLine)
	case err != nil && len(line) == 0:
		return nil, wire.Unexpected(err)
	case err != nil:
		*wrong = cmp.Or(*wrong, wire.Unexpected(err))
		return line, nil
	}
	if line = line[:len(line)-1]; len(line) > 0 && line[len(line)-1] == '\r' {
		return line[:len(line)-1], nil
	}
	*wrong = cmp.Or(*wrong, wire.Bad("a line does not end with CRLF"))
	return line, nil
}

// readParts reads the HTTP heads and the body.
func (p *reply) readParts(r *bufio.Reader, c *Check) error {
	e := &p.parts
	heads := make([]byte, max(e.Req, 0)+max(e.Res, 0))
	if _, err := io.ReadFull(r, heads); err != nil {
		return wire.Unexpected(err)
	}
	if e.Req > 0 {
		first, _, _ := bytes.Cut(heads[:e.Req], []byte("\r\n"))
		_, rest, _ := bytes.Cut(first, []byte(" "))
		target, _, _ := bytes.Cut(rest, []byte(" "))
		p.target = string(target)
	}
	if e.Res > 0 {
		h := httpmessage.NewReader(bytes.NewReader(heads[max(e.Req, 0):]), 4<<10, wire.MaxHeads)
		if err := h.ReadResponse(&p.http, "GET"); err != nil {
			return fmt.Errorf("the server's HTTP head: %w", wire.Unexpected(err))
		}
		p.http.Body = nil
	}
	p.body = e.Body
	if !e.Body {
		return nil
	}
	var sum maphash.Hash
	sum.SetSeed(c.seed)
	buf := make([]byte, 16<<10)
	for {
		n, ext, err := wire.ReadChunk(r)
		if err != nil {
			return err
		}
		if n == 0 {
			if bytes.HasPrefix(ext, []byte("use-original-body")) {
				return wire.Bad("a part of the body is left out, which the request did not permit")
			}
			p.sum = sum.Sum64()
			return wire.SkipTrailer(r)
		}
		if p.length += n; p.length > c.largest+maxPage {
			return wire.Bad("it sends back more than %d bytes", c.largest+maxPage)
		}
		for n > 0 {
			k, err := r.Read(buf[:min(n, int64(len(buf)))])
			_, _ = sum.Write(buf[:k])
			if room := maxPage + 1 - len(p.page); room > 0 && c.page {
				p.page = append(p.page, buf[:min(k, room)]...)
			}
			if n -= int64(k); err != nil {
				return wire.Unexpected(err)
			}
		}
		if err := wire.EndChunk(r); err != nil {
			return err
		}
	}
}

// fault returns an error if the reply does not fit the request.
func (p *reply) fault() error {
	if len(p.verdict) > 0 {
		return nil
	}
	switch p.status {
	case 200:
		if !p.parts.Present || p.parts.Req <= 0 && p.parts.Res <= 0 {
			return errors.New("an answer without a message")
		}
		return nil
	case 204:
		return nil
	}
	return &statusError{p.status, p.line}
}

// report appends findings from the reply.
func (c *Check) report(m *message, x *reply, dst []filter.Finding) []filter.Finding {
	n := len(dst)
	by := x.by
	add := func(category, what string) {
		if len(dst)-n < maxViolations {
			dst = append(dst, filter.Finding{Check: "icap", Category: category, Evidence: clean(what) + ", says " + by})
		}
	}
	for _, v := range x.verdict {
		if v.category == filter.Unread {
			v.what = "not scanned: " + v.what
		}
		add(v.category, v.what)
	}
	if x.status == 200 && len(dst) == n {
		if what := x.refusal(m); what != "" {
			add(blocked, what)
		} else if what := x.change(m); what != "" {
			add(modified, what)
		}
	}
	if !x.counted {
		x.counted = true
		c.counters[map[bool]int{true: found, false: passed}[len(dst) > n]].Add(1)
	}
	if len(dst) == n {
		return dst
	}
	if page := x.ownPage(m); c.page && page != nil {
		for i := range dst[n:] {
			dst[n+i].Page = page
		}
	}
	return dst
}

// refusal describes a page that the server sends to the client instead of the message, "" if
// none.
func (p *reply) refusal(m *message) string {
	if p.parts.Res <= 0 {
		return ""
	}
	if m.method == reqmod {
		return "its own answer, status " + strconv.Itoa(p.http.Status)
	}
	was := 200
	if m.t.Response != nil && m.t.Response.Status > 0 {
		was = m.t.Response.Status
	}
	if p.http.Status != was {
		return fmt.Sprintf("its own answer, status %d instead of %d", p.http.Status, was)
	}
	// A page in place of a file has its own type.
	if typ := p.http.Get("Content-Type"); m.t.Response != nil && len(typ) > 0 && mediaType(typ) != mediaType(m.t.Response.Get("Content-Type")) && p.change(m) != "" {
		return fmt.Sprintf("its own answer, of type %.60q", typ)
	}
	return ""
}

// mediaType is the value of Content-Type without parameters, in lower case.
func mediaType(v []byte) string {
	typ, _, _ := bytes.Cut(v, []byte(";"))
	return strings.ToLower(string(bytes.TrimSpace(typ)))
}

// change describes the server's change of the message, "" if none.
func (p *reply) change(m *message) string {
	switch {
	case m.method == reqmod && p.target != "" && p.target != m.target:
		return "the request would go to " + p.target
	case p.body != (m.body != nil), p.body && (p.length != p.asked.length || p.sum != p.asked.sum):
		return fmt.Sprintf("a body of %d bytes would become another of %d", p.asked.length, p.length)
	}
	return ""
}

// ownPage returns the page that the server would send to the client. It returns nil if the
// server would pass the message, or if its page is too large.
func (p *reply) ownPage(m *message) *filter.Page {
	if p.status != 200 || p.parts.Res <= 0 || len(p.page) > maxPage || p.http.Has("Content-Encoding") {
		return nil
	}
	if m.method == respmod && p.asked.length == p.length && p.asked.sum == p.sum {
		return nil // the message itself
	}
	page := &filter.Page{Status: p.http.Status, Type: string(p.http.Get("Content-Type")), Body: p.page, Location: string(p.http.Get("Location"))}
	if _, _, err := mime.ParseMediaType(page.Type); err != nil {
		page.Type = "text/html"
	}
	if page.Status < 200 || page.Status > 599 || page.Status == 204 || page.Status == 304 {
		page.Status = 403
	}
	return page
}

// A named is what a scanner names in the head of its reply.
type named struct{ category, what string }

// Fields of scanners that name an infection, those with the best names first.
var infections = []string{
	"x-infection-found", "x-virus-id", "x-virus-name", "x-virus-found", "x-virus",
	"x-infection-name", "x-fsecure-infection-name", "x-malware-name", "x-malware-found", "x-threat-name", "x-threat-found",
}

// Fields of scanners that say in words how a scan ended.
var results = []string{"x-response-info", "x-response-desc", "x-scan-result", "x-fsecure-scan-result", "x-block-reason", "x-blocked-reason"}

// verdictOf returns what the fields of a head name.
func verdictOf(fields map[string]string) (all []named) {
	var rest *named
	for _, field := range infections {
		for v := range strings.SplitSeq(fields[field], ";,") { // several fields of one name
			name, category := threat(v), kind(v)
			switch {
			case len(all) > 0, harmless(name):
			case category == virus:
				all = append(all, named{virus, name})
			case rest == nil:
				rest = &named{category, name}
			}
		}
	}
	for _, field := range results {
		if v := fields[field]; len(all) == 0 && saysInfected(v) {
			all = append(all, named{virus, v})
		}
	}
	if code := fields["x-error-code"]; rest == nil && len(all) == 0 && code != "" {
		if category := kindOfError(code); category != "" {
			rest = &named{category, code}
		}
	}
	if rest != nil && len(all) == 0 {
		all = append(all, *rest)
	}
	for _, v := range violations(fields["x-violations-found"]) {
		if isUnread(v) {
			all = append(all, named{filter.Unread, v})
		} else {
			all = append(all, named{violation, v})
		}
	}
	return all
}

// kind returns the category of what a field names. In "Type=2; Resolution=2; Threat=Encrypted
// container;" the type is that of draft-stecher-icap-subid section 3.4: 0 for an infection, 1 for a
// violation of a policy for mail, 2 for a container that cannot be read.
func kind(v string) string {
	for part := range strings.SplitSeq(v, ";") {
		name, value, ok := strings.Cut(part, "=")
		if !ok || !strings.EqualFold(strings.TrimSpace(name), "type") {
			continue
		}
		switch strings.TrimSpace(value) {
		case "1":
			return violation
		case "2":
			return filter.Unread
		}
	}
	if isUnread(threat(v)) {
		return filter.Unread
	}
	return virus
}

// isUnread reports whether a scanner names, in place of an infection, why it could not look into a
// file.
func isUnread(name string) bool {
	name = strings.ToLower(name)
	_, after, ok := strings.Cut(name, "stream: ")
	if ok {
		name = after
	}
	for _, reason := range [...]string{"heuristics.limits.exceeded", "heuristics.encrypted", "encrypted container", "encrypted file", "encrypted archive", "password protected", "password-protected", "maximum extract", "size violation", "container violation"} {
		if strings.HasPrefix(name, reason) {
			return true
		}
	}
	return name == "encrypted"
}

// kindOfError returns the category of an error of which a scanner says the reason, "" if it is one of
// the scanner.
func kindOfError(code string) string {
	code = strings.ToLower(code)
	for _, word := range [...]string{"password", "encrypt", "size_limit", "too_large", "container"} {
		if strings.Contains(code, word) {
			return filter.Unread
		}
	}
	if strings.Contains(code, "blocked") || strings.Contains(code, "violation") {
		return violation
	}
	return ""
}

// harmless reports whether the value of a field that names infections says that there are none. A name
// such as "not-a-virus:AdWare" is one of an infection.
func harmless(v string) bool {
	for part := range strings.SplitSeq(v, ",") { // several fields of one name
		if !harmlessOne(part) {
			return false
		}
	}
	return true
}

func harmlessOne(v string) bool {
	words := strings.FieldsFunc(strings.ToLower(v), func(r rune) bool { return r == ' ' || r == '\t' || r == '\n' })
	for i := range words {
		words[i] = strings.Trim(words[i], `"'.;!()<>`)
	}
	switch strings.Join(words, " ") {
	case "", "-", "0", "no", "none", "null", "nil", "n/a", "na", "false", "ok", "clean", "safe", "passed", "allowed", "not found", "not infected", "not detected", "nothing found", "undetected":
		return true
	}
	if words[0] != "no" && words[0] != "0" {
		return false
	}
	for _, word := range words[1:] {
		switch word {
		case "virus", "viruses", "threat", "threats", "infection", "infections", "malware", "issue", "issues", "were", "was", "found", "detected", "name":
		default:
			return false
		}
	}
	return true
}

// saysInfected reports whether a scanner says in words that it found an infection.
func saysInfected(v string) bool {
	if harmless(v) {
		return false
	}
	before := ""
	for word := range strings.FieldsFuncSeq(strings.ToLower(v), func(r rune) bool { return r < 'a' || r > 'z' }) {
		switch word {
		case "infected", "infection", "infections", "virus", "viruses", "malware", "threat", "threats", "trojan":
			if before != "no" && before != "not" && before != "anti" && before != "without" && before != "for" {
				return true
			}
		}
		before = word
	}
	return false
}

// threat returns the name in "Type=0; Resolution=2; Threat=Eicar;".
func threat(v string) string {
	for part := range strings.SplitSeq(v, ";") {
		if name, value, ok := strings.Cut(part, "="); ok && strings.EqualFold(strings.TrimSpace(name), "threat") && strings.TrimSpace(value) != "" {
			return strings.TrimSpace(value)
		}
	}
	return v
}

// violations returns the names in X-Violations-Found (draft-stecher-icap-subid section 3.5): a
// count, and four lines for each violation. The first is the file, the second the violation.
func violations(v string) (all []string) {
	lines := strings.Split(v, "\n")
	count, err := strconv.Atoi(strings.TrimSpace(lines[0]))
	switch {
	case v == "", err == nil && count <= 0:
		return nil
	case err != nil:
		return []string{v}
	}
	for rest := lines[1:]; len(rest) >= 2 && len(all) < min(count, maxViolations); rest = rest[min(4, len(rest)):] {
		what := strings.TrimSpace(rest[1])
		if file := strings.TrimSpace(rest[0]); file != "" && file != "-" {
			what += " in " + file
		}
		all = append(all, what)
	}
	if len(all) == 0 {
		all = append(all, strconv.Itoa(count)+" violations")
	}
	return all
}

// clean makes a server's text printable, short and a single line.
func clean(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == utf8.RuneError {
			return ' '
		}
		return r
	}, s)
	s = strings.TrimSpace(s)
	if len(s) > maxText {
		s = s[:maxText]
		for !utf8.ValidString(s) {
			s = s[:len(s)-1]
		}
		s += "…"
	}
	return s
}
