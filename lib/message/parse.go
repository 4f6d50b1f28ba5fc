package message

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"net/netip"
)

// Classes of bytes (RFC 9110, 5.6.2; RFC 3986).
const (
	tokenByte  = 1 << iota // may be in a method or field name
	targetByte             // may be in a request target
	hostByte               // may be in a host name
	hexByte
	digitByte
	schemeByte
)

var class = func() (c [256]uint8) {
	set := func(s string, bit uint8) {
		for i := range len(s) {
			c[s[i]] |= bit
		}
	}
	const digits, letters = "0123456789", "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	set(digits+letters+"!#$%&'*+-.^_`|~", tokenByte)
	// Narrower than RFC 3986, whose reg-name has percent encoding and
	// punctuation: no name that resolves has them, and hops decode or cut
	// them differently.
	set(digits+letters+"-._", hostByte)
	set(digits+"abcdefABCDEF", hexByte)
	set(digits, digitByte)
	set(digits+letters+"+-.", schemeByte)
	// Wider than RFC 3986, which browsers do not follow in queries ("|", "{").
	// A fragment is never sent.
	for b := '!'; b <= '~'; b++ {
		if b != '#' {
			c[b] |= targetByte
		}
	}
	return c
}()

func bad(reason string) *Error { return &Error{400, reason} }

// allIn reports whether every byte of b is of the class.
func allIn(b []byte, bit uint8) bool {
	for _, c := range b {
		if class[c]&bit == 0 {
			return false
		}
	}
	return true
}

// control returns the index of the first control byte (below 0x20, or 0x7f)
// of b, or len(b). Eight bytes at a time: values are most of a head.
func control(b []byte) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	i := 0
	for ; i+8 <= len(b); i += 8 {
		x := binary.LittleEndian.Uint64(b[i:])
		y := x ^ 0x7f*ones
		// A borrow may mark bytes above a marked one, never the lowest.
		if m := ((x-0x20*ones)&^x | (y-ones)&^y) & highs; m != 0 {
			return i + bits.TrailingZeros64(m)>>3
		}
	}
	for ; i < len(b); i++ {
		if b[i] < 0x20 || b[i] == 0x7f {
			return i
		}
	}
	return i
}

// framing is the information in the fields of a head about the message's end, its
// connection and its host.
type framing struct {
	host, length, coding, upgrade []byte
	hosts, lengths, codings       int
	expects, otherExpects         bool
	close, keepAlive, upgrades    bool
}

// note records a field that concerns framing.
func (f *framing) note(name, value []byte) {
	switch len(name) {
	case 4:
		if EqualName(name, "Host") {
			f.host = value
			f.hosts++
		}
	case 6:
		if EqualName(name, "Expect") {
			if EqualName(value, "100-continue") {
				f.expects = true
			} else {
				f.otherExpects = true
			}
		}
	case 7:
		if EqualName(name, "Upgrade") && f.upgrade == nil {
			f.upgrade = value
		}
	case 10:
		if EqualName(name, "Connection") {
			f.close = f.close || listHas(value, "close")
			f.keepAlive = f.keepAlive || listHas(value, "keep-alive")
			f.upgrades = f.upgrades || listHas(value, "upgrade")
		}
	case 14:
		if EqualName(name, "Content-Length") {
			f.length = value
			f.lengths++
		}
	case 17:
		if EqualName(name, "Transfer-Encoding") {
			f.coding = value
			f.codings++
		}
	}
}

// bodyLength returns the length by Content-Length and Transfer-Encoding, or UntilClose if they
// are missing.
func (f *framing) bodyLength(proto uint8, relaxed bool) (int64, *Error) {
	switch {
	case f.codings > 0 && f.lengths > 0:
		return 0, bad("both Transfer-Encoding and Content-Length")
	case f.codings > 1:
		return 0, bad("two Transfer-Encoding fields")
	case f.lengths > 1:
		return 0, bad("two Content-Length fields")
	case f.codings > 0 && proto == 10 && !relaxed:
		return 0, bad("Transfer-Encoding in HTTP/1.0")
	case f.codings > 0:
		return Chunked, checkCoding(f.coding)
	case f.lengths > 0:
		return parseLength(f.length)
	}
	return UntilClose, nil
}

// checkCoding accepts only "chunked". The response distinguishes a coding that we do not
// support from one that does not frame.
func checkCoding(v []byte) *Error {
	if EqualName(v, "chunked") {
		return nil
	}
	chunked := false
	for more := true; more; {
		var item []byte
		item, v, more = bytes.Cut(v, []byte(","))
		item = trim(item)
		switch {
		case len(item) == 0 || !allIn(item, tokenByte):
			return bad("malformed Transfer-Encoding")
		case chunked:
			return bad("Transfer-Encoding goes on after chunked")
		}
		chunked = EqualName(item, "chunked")
	}
	return &Error{501, "transfer coding other than chunked"}
}

func parseLength(v []byte) (int64, *Error) {
	if len(v) == 0 || len(v) > 18 || !allIn(v, digitByte) {
		return 0, bad("malformed Content-Length")
	}
	n := int64(0)
	for _, c := range v {
		n = n*10 + int64(c-'0')
	}
	return n, nil
}

// parseFields parses the field lines that begin at raw[i] and end, with the
// empty line, at the end of raw. Since raw ends with CRLF CRLF, every scan
// stops inside it. In a response, white space before the colon is cut, as
// RFC 9112, 5.1 wants of a proxy.
func parseFields(raw []byte, i int, fs Fields, f *framing, response bool) (Fields, *Error) {
	for raw[i] != '\r' || raw[i+1] != '\n' {
		if len(fs) == maxFields && !response || len(fs) == maxResponseFields {
			return fs, &Error{431, "too many fields"}
		}
		n := i
		for class[raw[n]]&tokenByte != 0 {
			n++
		}
		name := raw[i:n]
		if response && n > i {
			for raw[n] == ' ' || raw[n] == '\t' {
				n++
			}
		}
		if n == i || raw[n] != ':' {
			return fs, badName(raw[i], raw[n])
		}
		v := n + 1
		for raw[v] == ' ' || raw[v] == '\t' {
			v++
		}
		e := v + control(raw[v:])
		for raw[e] == '\t' {
			e++
			e += control(raw[e:])
		}
		if raw[e] != '\r' || raw[e+1] != '\n' {
			return fs, badValue(raw[e])
		}
		i = e + 2
		for e > v && (raw[e-1] == ' ' || raw[e-1] == '\t') {
			e--
		}
		value := raw[v:e:e]
		fs = append(fs, Field{name, value})
		f.note(name, value)
	}
	return fs, nil
}

// badName returns the mistake in a field line, by its first byte and where its name
// stops.
func badName(first, stop byte) *Error {
	switch {
	case first == ' ' || first == '\t':
		return bad("folded field line")
	case first == ':':
		return bad("empty field name")
	case stop == ' ' || stop == '\t':
		return bad("white space in or after a field name")
	case stop == '\r' || stop == '\n':
		return bad("field line without colon")
	}
	return bad("invalid byte in a field name")
}

func badValue(c byte) *Error {
	switch c {
	case '\r':
		return bad("CR without LF")
	case '\n':
		return bad("line ends with LF alone")
	}
	return bad("control byte in a field value")
}

// parse parses q.raw.
func (q *Request) parse() *Error {
	raw := q.raw
	m := 0
	for class[raw[m]]&tokenByte != 0 {
		m++
	}
	if m == 0 || raw[m] != ' ' {
		return bad("malformed method")
	}
	t := m + 1
	e, clean := t, true
	for ; class[raw[e]]&targetByte != 0 || raw[e] == '#' || raw[e] >= 0x80; e++ {
		clean = clean && class[raw[e]]&targetByte != 0
	}
	if raw[e] != ' ' || e == t {
		return bad("malformed request target")
	}
	i, err := q.version(e + 1)
	if err != nil {
		return err
	}
	if m > maxMethod {
		return &Error{501, "method too long"}
	}
	q.Method, q.Target = intern(raw[:m]), raw[t:e:e]
	if !clean {
		if err := q.cleanTarget(); err != nil {
			return err
		}
	}
	var f framing
	if q.Fields, err = parseFields(raw, i, q.Fields, &f, false); err != nil {
		return err
	}
	if err := q.parseTarget(); err != nil {
		return err
	}
	if err := q.checkHost(&f); err != nil {
		return err
	}
	return q.frame(&f)
}

// version parses the version at raw[i] and returns where the fields begin.
func (q *Request) version(i int) (int, *Error) {
	line, _, _ := bytes.Cut(q.raw[i:], []byte("\n"))
	switch {
	case string(line) == "HTTP/1.1\r":
		q.Proto = 11
	case string(line) == "HTTP/1.0\r":
		q.Proto = 10
	case len(line) == 9 && string(line[:7]) == "HTTP/1." && line[7] > '1' && line[7] <= '9' && line[8] == '\r':
		q.Proto = 11 // the highest that we know (RFC 9110 section 2.5)
	default:
		return 0, badVersion(line)
	}
	return i + len(line) + 1, nil
}

// badVersion distinguishes an unsupported version from a malformed one.
func badVersion(line []byte) *Error {
	if len(line) == 9 && string(line[:5]) == "HTTP/" && line[6] == '.' && line[8] == '\r' &&
		class[line[5]]&class[line[7]]&digitByte != 0 {
		return &Error{505, "HTTP version other than 1.0 and 1.1"}
	}
	return bad("malformed request line")
}

// cleanTarget makes of a target what should have been sent: a fragment is for the client alone
// (RFC 9110 section 7.1), and a byte beyond ASCII is percent-encoded (RFC 3986 section 2.1). It is
// stored after the head, in the same memory.
func (q *Request) cleanTarget() *Error {
	const hex = "0123456789ABCDEF"
	end, all := len(q.raw), q.raw
	for _, c := range q.Target {
		if c == '#' && q.Method != "CONNECT" {
			break
		}
		if c < 0x80 {
			all = append(all, c)
		} else {
			all = append(all, '%', hex[c>>4], hex[c&15])
		}
	}
	q.raw, q.Target = all[:end], all[end:len(all):len(all)]
	if len(q.Target) == 0 {
		return bad("malformed request target")
	}
	return nil
}

// withoutUser returns the authority of a URL without a name and password of the client, which some
// send although they are for the client alone (RFC 9110 section 4.2.4).
func withoutUser(authority []byte) ([]byte, *Error) {
	i := bytes.IndexByte(authority, '@')
	if i < 0 {
		return authority, nil
	}
	for _, c := range authority[:i] {
		if class[c]&tokenByte == 0 && !bytes.ContainsRune([]byte("():,;="), rune(c)) {
			return nil, bad("invalid byte in the name and password of a URL")
		}
	}
	return authority[i+1:], nil
}

// parseTarget parses q.Target (RFC 9112 section 3.2).
func (q *Request) parseTarget() *Error {
	t := q.Target
	switch {
	case q.Method == "CONNECT":
		q.Form = Authority
		var port bool
		var err *Error
		if q.Host, q.Port, port, err = parseHost(t); err != nil {
			return err
		}
		if !port || len(q.Host) == 0 {
			return bad("CONNECT needs host:port")
		}
		return nil
	case t[0] == '/':
		q.Form, q.Path = Origin, t
		return nil
	case len(t) == 1 && t[0] == '*':
		if q.Method != "OPTIONS" {
			return bad("target * without OPTIONS")
		}
		q.Form, q.Path = Asterisk, t
		return nil
	}
	return q.parseAbsolute()
}

// squidManager is the scheme of the addresses at which older programs ask Squid for its state.
const squidManager = "cache_object"

func (q *Request) parseAbsolute() *Error {
	t := q.Target
	q.Form = Absolute
	n := bytes.Index(t, []byte("://"))
	if n <= 0 || n > 32 || !allIn(t[:n], schemeByte) && string(t[:n]) != squidManager || class[t[0]]&digitByte != 0 || t[0] < 'A' {
		return bad("request target is neither path nor URL")
	}
	q.Scheme = internScheme(t[:n])
	t = t[n+3:]
	n = bytes.IndexAny(t, "/?")
	if n < 0 {
		n = len(t)
	}
	host, err := withoutUser(t[:n])
	if err != nil {
		return err
	}
	if q.Host, q.Port, _, err = parseHost(host); err != nil {
		return err
	}
	if len(q.Host) == 0 {
		return bad("URL without host")
	}
	switch q.Path = t[n:]; {
	case len(q.Path) == 0 && q.Method == "OPTIONS":
		q.Path = asterisk // RFC 9112, 3.2.4
	case len(q.Path) == 0:
		q.Path = slash
	case q.Path[0] == '?':
		q.Path = append([]byte{'/'}, q.Path...) // the path is empty but must be sent as "/"
	}
	return nil
}

var slash, asterisk = []byte("/"), []byte("*")

// checkHost requires exactly one Host field (RFC 9112 section 3.2) and takes host and port
// from it if the target has none.
func (q *Request) checkHost(f *framing) *Error {
	switch {
	case f.hosts > 1:
		return bad("two Host fields")
	case f.hosts == 0 && q.Proto == 11 && q.Form != Authority: // CONNECT names it anyway
		return bad("no Host field")
	}
	h, port, _, err := parseHost(f.host)
	if err != nil {
		return err
	}
	if q.Form == Origin || q.Form == Asterisk {
		q.Host, q.Port = h, port
	}
	return nil
}

// parseHost parses host[:port]. An empty host without port is allowed; port
// says whether a port is there, since an empty one is legal ("host:").
func parseHost(b []byte) (name []byte, number uint16, port bool, err *Error) {
	n := 0
	if len(b) > 0 && b[0] == '[' {
		n = bytes.IndexByte(b, ']')
		if n < 0 {
			return nil, 0, false, bad("malformed address in brackets")
		}
		name = b[1:n:n]
		a, e := netip.ParseAddr(string(name))
		if e != nil || !a.Is6() || a.Zone() != "" {
			return nil, 0, false, bad("malformed address in brackets")
		}
		n++
	} else {
		for n < len(b) && class[b[n]]&hostByte != 0 {
			n++
		}
		name = b[:n:n]
	}
	b = b[n:]
	if len(b) == 0 {
		return name, 0, false, nil
	}
	if b[0] != ':' || n == 0 {
		return nil, 0, false, bad("invalid host")
	}
	b = b[1:]
	if len(b) > 5 || !allIn(b, digitByte) {
		return nil, 0, false, bad("invalid port")
	}
	if len(b) == 0 {
		return name, 0, false, nil
	}
	v := 0
	for _, c := range b {
		v = v*10 + int(c-'0')
	}
	if v == 0 || v > 65535 {
		return nil, 0, false, bad("invalid port")
	}
	return name, uint16(v), true, nil
}

// frame sets the body and the connection by the fields.
func (q *Request) frame(f *framing) *Error {
	n, err := f.bodyLength(q.Proto, false)
	if err != nil {
		return err
	}
	if n == UntilClose {
		n = None
	}
	if q.Method == "CONNECT" && n != None {
		// One hop would read a body where the other already has the tunnel.
		return bad("CONNECT with a body")
	}
	if f.otherExpects {
		return &Error{417, "expectation other than 100-continue"}
	}
	q.Length = n
	q.Close = f.close || q.Proto == 10 && !f.keepAlive
	q.Expect = f.expects && n != None && q.Proto == 11
	if f.upgrades && q.Proto == 11 { // RFC 9110, 7.8
		q.Upgrade = f.upgrade
	}
	return nil
}

// parse parses s.raw.
func (s *Response) parse(method string, relaxed bool) *Error {
	raw := s.raw // at least HTTP/1. and CRLF CRLF
	switch raw[7] {
	case '1':
		s.Proto = 11
	case '0':
		s.Proto = 10
	default:
		return bad("HTTP version other than 1.0 and 1.1")
	}
	if raw[8] != ' ' || class[raw[9]]&class[raw[10]]&digitByte == 0 || len(raw) < 16 || class[raw[11]]&digitByte == 0 {
		return bad("malformed status line")
	}
	s.Status = int(raw[9]-'0')*100 + int(raw[10]-'0')*10 + int(raw[11]-'0')
	if s.Status < 100 { // beyond 599 they are used, and shown
		return bad("status out of range")
	}
	i := 12
	if raw[i] == ' ' { // without it the reason is missing: lenient
		i++
		e := i + control(raw[i:])
		for raw[e] == '\t' {
			e++
			e += control(raw[e:])
		}
		s.Reason = raw[i:e:e]
		i = e
	}
	if raw[i] != '\r' || raw[i+1] != '\n' {
		return bad("malformed status line")
	}
	var f framing
	var err *Error
	if relaxed {
		spaces(raw)
	}
	if s.Fields, err = parseFields(raw, i+2, s.Fields, &f, true); err != nil {
		return err
	}
	ends := false
	if relaxed {
		s.Fields, ends = f.relax(s.Fields)
	}
	if err := s.frame(&f, method, relaxed); err != nil {
		return err
	}
	s.Close = s.Close || ends || f.codings > 0 && s.Proto == 10
	return nil
}

// frame sets the body and the connection by the fields, the status and the
// request's method (RFC 9112, 6.3 and 9.3).
func (s *Response) frame(f *framing, method string, relaxed bool) *Error {
	n, err := f.bodyLength(s.Proto, relaxed)
	if method == "CONNECT" && s.Status/100 == 2 { // there is no body, whatever the fields say (RFC 9110 section 9.3.6)
		n, err = None, nil
	}
	if err != nil {
		return err
	}
	s.Close = f.close || s.Proto == 10 && !f.keepAlive
	if f.upgrades && s.Proto == 11 {
		s.Upgrade = f.upgrade
	}
	switch {
	case s.Status < 200 || s.Status == 204:
		// A length is forbidden here. A server that sends one may also send a body, which would be
		// taken for the next response.
		if n != UntilClose && n != None {
			s.Close = true
		}
		return nil
	case method == "HEAD" || s.Status == 304:
		return nil
	case method == "CONNECT" && s.Status < 300:
		return nil
	}
	s.Length = n
	if n == UntilClose {
		s.Close = true
	}
	return nil
}

// intern returns a method as string, without allocating for those registered
// (IANA HTTP Method Registry).
func intern(b []byte) string {
	switch string(b) {
	case "GET":
		return "GET"
	case "POST":
		return "POST"
	case "HEAD":
		return "HEAD"
	case "CONNECT":
		return "CONNECT"
	case "OPTIONS":
		return "OPTIONS"
	case "PUT":
		return "PUT"
	case "DELETE":
		return "DELETE"
	case "PATCH":
		return "PATCH"
	case "TRACE":
		return "TRACE"
	}
	for _, m := range registered {
		if string(b) == m {
			return m
		}
	}
	return string(b)
}

var registered = [...]string{
	"ACL", "BASELINE-CONTROL", "BIND", "CHECKIN", "CHECKOUT", "COPY", "LABEL",
	"LINK", "LOCK", "MERGE", "MKACTIVITY", "MKCALENDAR", "MKCOL",
	"MKREDIRECTREF", "MKWORKSPACE", "MOVE", "ORDERPATCH", "PRI", "PROPFIND",
	"PROPPATCH", "QUERY", "REBIND", "REPORT", "SEARCH", "UNBIND", "UNCHECKOUT",
	"UNLINK", "UNLOCK", "UPDATE", "UPDATEREDIRECTREF", "VERSION-CONTROL",
}

// internScheme returns a scheme in lower case.
func internScheme(b []byte) string {
	for _, s := range [...]string{"http", "https", "ws", "wss", "ftp"} {
		if EqualName(b, s) {
			return s
		}
	}
	return string(bytes.ToLower(b))
}
