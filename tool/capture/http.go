package capture

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"shuultuur/lib/suricata/engine"
	"shuultuur/lib/suricata/rule"
	"shuultuur/lib/suricata/traffic"
	"shuultuur/tool/capture/body"
	"shuultuur/tool/capture/syntax"
)

// Limits of the kept parts of a message.
const (
	maxLine  = 64 << 10
	maxHead  = 256 << 10
	maxField = 18000 // a longer field is an anomaly
	maxFlown = 1000  // messages of a connection that wait for their responses
)

// An httpState is the position of the parser in a message.
type httpState uint8

const (
	atLine httpState = iota
	atHeaders
	atBody      // in a body of known length
	atChunkSize // before the size of a chunk
	atChunk     // the bytes of a chunk
	atChunkEnd  // the line end after a chunk
	atTrailer   // the fields after the last chunk
	atClose     // a body that ends with the connection
	atIgnore    // in a tunnel, or in unreadable data
)

// An http1 reads HTTP/1 as tolerantly as the browsers and servers that it protects: line ends
// without CR, folded fields, misplaced spaces, bodies with contradictory framing.
type http1 struct {
	r     *Run
	f     *flow
	sides [2]httpSide
	txs   []*httpTx // oldest first; the last is being sent
	next  int       // index of the one that the server answers next
}

type httpSide struct {
	state httpState
	buf   []byte // bytes not yet parsed
	left  int64
	head  []byte // raw fields so far
	ended bool
	// frame is the beginning of the message as it was sent, and framed how long it is, for rules on frames.
	frame  []byte
	framed int64
}

func (h *http1) name() string { return "http" }

func newHTTP1(r *Run, f *flow) *http1 { return &http1{r: r, f: f} }

// data implements parser.
func (h *http1) data(dir rule.Direction, b []byte, gap int64) {
	s := &h.sides[index(dir)]
	if gap > 0 {
		h.gap(dir, gap)
	}
	if len(s.buf) == 0 {
		s.buf = b[:len(b):len(b)]
	} else {
		s.buf = append(s.buf, b...)
	}
	if h.r.engine.HasFrames(dir) {
		s.keepFrame(b)
	}
	h.run(dir, false)
}

// gap skips missing bytes.
func (h *http1) gap(dir rule.Direction, n int64) {
	s := &h.sides[index(dir)]
	switch s.state {
	case atBody, atChunk:
		s.left = max(0, s.left-n)
		if s.left == 0 {
			h.bodyEnd(dir)
		}
	case atClose:
	default:
		s.buf = nil
	}
}

// run parses the available bytes.
func (h *http1) run(dir rule.Direction, end bool) {
	s := &h.sides[index(dir)]
	for {
		before, state := len(s.buf), s.state
		switch s.state {
		case atLine:
			h.line(dir, end)
		case atHeaders, atTrailer:
			h.headers(dir, end)
		case atBody, atChunk:
			h.counted(dir)
		case atChunkSize:
			h.chunkSize(dir)
		case atChunkEnd:
			h.chunkEnd(dir)
		case atClose:
			h.take(dir, s.buf)
			s.buf = nil
		case atIgnore:
			s.buf = nil
		}
		if len(s.buf) == before && s.state == state {
			return
		}
	}
}

// end implements parser.
func (h *http1) end(dir rule.Direction) {
	s := &h.sides[index(dir)]
	h.run(dir, true)
	t := h.tx(dir)
	if t != nil && !t.done[index(dir)] {
		if s.state == atHeaders && len(s.head) > 0 {
			h.headEnd(dir, t)
		}
		if s.state != atLine {
			h.messageEnd(dir)
		}
	}
	s.ended = true
	if h.sides[0].ended && h.sides[1].ended { // what was never answered
		for _, t := range slices.Clone(h.txs) {
			h.show(t)
		}
	}
}

// tx returns the current exchange of a side.
func (h *http1) tx(dir rule.Direction) *httpTx {
	if dir == rule.ToServer {
		if len(h.txs) == 0 {
			return nil
		}
		return h.txs[len(h.txs)-1]
	}
	if h.next < len(h.txs) {
		return h.txs[h.next]
	}
	return nil
}

// begin makes an exchange.
func (h *http1) begin() *httpTx {
	t := &httpTx{id: h.f.txs, at: h.r.current}
	h.f.txs++
	t.http.Events = map[string]bool{}
	t.tx = h.r.tx(h.f, &messageSource{Source: &t.http, run: h.r, f: h.f})
	t.tx.App = rule.HTTP1
	h.txs = append(h.txs, t)
	if len(h.txs) > maxFlown {
		h.txs = h.txs[1:]
		h.next = max(0, h.next-1)
	}
	return t
}

// line parses a request line or a status line.
func (h *http1) line(dir rule.Direction, end bool) {
	s := &h.sides[index(dir)]
	for len(s.buf) > 0 && (s.buf[0] == '\r' || s.buf[0] == '\n' || dir == rule.ToClient && (s.buf[0] == ' ' || s.buf[0] == '\t')) { // empty lines between messages
		s.buf = s.buf[1:]
	}
	if len(s.buf) == 0 {
		return
	}
	if dir == rule.ToClient && !syntax.StartsStatus(s.buf) {
		// There may be another line before the status line.
		if i := bytes.Index(s.buf[:min(len(s.buf), 1024)], []byte("\nHTTP/1.")); i >= 0 {
			s.buf = s.buf[i+1:]
		}
	}
	if dir == rule.ToClient && !syntax.StartsStatus(s.buf) && (len(s.buf) >= 5 || end) {
		// A server without a status line uses HTTP/0.9.
		t := h.answer()
		side := &t.http.Sides[1]
		side.Protocol, side.At = []byte("HTTP/0.9"), rule.Headers
		if !t.continued { // of a status 100, whose body this is
			side.Headers = nil
		}
		h.startBody(dir, t, atClose, 0)
		return
	}
	stop, next := syntax.LineEnd(s.buf, 0)
	if next < 0 {
		if len(s.buf) <= maxLine && !end {
			return
		}
		next = len(s.buf)
	}
	line := bytes.Clone(s.buf[:stop])
	s.buf = s.buf[next:]
	s.head = nil
	if dir == rule.ToServer {
		h.requestLine(line)
	} else {
		h.statusLine(line)
	}
}

func (h *http1) requestLine(line []byte) {
	t := h.begin()
	side := &t.http.Sides[0]
	side.Line = line
	h.request(t, line)
	side.At = rule.Line
	s := &h.sides[0]
	h.inspect(t, rule.ToServer, rule.Line)
	if side.Protocol == nil { // HTTP/0.9
		side.Protocol = []byte("HTTP/0.9")
		if len(bytes.TrimSpace(s.buf)) == 0 {
			s.state = atLine
			side.At = rule.Headers
			h.messageEnd(rule.ToServer)
			return
		}
	}
	s.state = atHeaders
}

// request splits a request line. Spaces in the target belong to it if a protocol follows.
func (h *http1) request(t *httpTx, line []byte) {
	side := &t.http.Sides[0]
	line = bytes.TrimLeft(line, " \t\x00")
	i := bytes.IndexAny(line, " \t")
	if i < 0 {
		side.Method = line
		return
	}
	side.Method = line[:i]
	rest := bytes.TrimLeft(line[i:], " \t\v\f")
	target := rest
	if j := bytes.LastIndexAny(bytes.TrimRight(rest, " \t"), " \t"); j >= 0 {
		last := bytes.TrimSpace(rest[j:])
		if len(last) >= 5 && strings.EqualFold(string(last[:5]), "HTTP/") || len(last) >= 4 && strings.EqualFold(string(last[:4]), "HTTP") {
			side.Protocol = last
			target = bytes.TrimRight(rest[:j], " \t\v\f")
		}
	}
	if side.Protocol == nil {
		target = bytes.TrimRight(target, " \t")
		h.f.firstAnomaly(t, "http.request_line_incomplete")
	}
	side.Target = target
}

// answer returns the exchange to which a response belongs, an empty one if there was no
// request.
func (h *http1) answer() *httpTx {
	t := h.tx(rule.ToClient)
	if t == nil {
		t = h.begin()
		h.f.firstAnomaly(t, "http.unable_to_match_response_to_request")
		side := &t.http.Sides[0]
		side.Line, side.Method, side.Target = []byte("GET /libhtp::request_uri_not_seen"), []byte("GET"), []byte("/libhtp::request_uri_not_seen")
		t.done[0] = true
		side.At = rule.Complete
		h.sides[0].state = atLine
	}
	return t
}

func (h *http1) statusLine(line []byte) {
	t := h.answer()
	side := &t.http.Sides[1]
	trim := bytes.TrimLeft(line, " \t\x00\v\f")
	side.Line = line
	side.Headers, side.Reason, side.Code = nil, nil, nil
	proto, rest, _ := bytes.Cut(trim, []byte(" "))
	if i := bytes.IndexByte(proto, '\t'); i >= 0 {
		proto, rest = trim[:i], trim[i+1:]
	}
	side.Protocol = proto
	rest = bytes.TrimLeft(rest, " \t")
	code, reason, _ := bytes.Cut(rest, []byte(" "))
	side.Code, side.Reason = bytes.TrimSpace(code), bytes.TrimLeft(reason, " \t")
	if side.Reason == nil {
		side.Reason = []byte{}
	}
	side.At = rule.Line
	h.inspect(t, rule.ToClient, rule.Line)
	h.sides[1].state = atHeaders
}

// headers reads fields up to the empty line.
func (h *http1) headers(dir rule.Direction, end bool) {
	s := &h.sides[index(dir)]
	t := h.tx(dir)
	if t == nil {
		s.state = atIgnore
		return
	}
	n, ok := syntax.HeadLength(s.buf, end)
	if !ok {
		switch {
		case len(s.buf)-bytes.LastIndexByte(s.buf, '\n') > maxField && h.f.firstAnomaly(t, "http."+messageKind(dir)+"_field_too_long"):
			h.inspect(t, dir, rule.Line)
			return
		case len(s.buf) > maxHead:
			s.state = atIgnore
		case end && len(s.buf) > 0:
			n = len(s.buf)
		default:
			return
		}
		if n == 0 {
			return
		}
	}
	s.head = append(s.head, s.buf[:n]...)
	s.buf = s.buf[n:]
	if s.state == atTrailer {
		h.messageEnd(dir)
		return
	}
	h.headEnd(dir, t)
}

// headEnd determines the kind of data after a head.
func (h *http1) headEnd(dir rule.Direction, t *httpTx) {
	s := &h.sides[index(dir)]
	side := &t.http.Sides[index(dir)]
	side.RawHead = s.head
	side.Headers = syntax.ParseFields(s.head)
	side.At = rule.Headers
	s.head = nil
	h.anomalies(dir, t)
	h.inspect(t, dir, rule.Headers)
	state, length := h.framing(dir, t)
	if dir == rule.ToClient {
		code, _ := strconv.Atoi(string(side.Code))
		method := string(t.http.Sides[0].Method)
		switch {
		case code == 101 && hasUpgrade(side):
			h.upgrade(t)
			return
		case code >= 100 && code < 200 && code != 101:
			if code == 100 && t.continued {
				h.f.firstAnomaly(t, "http.100_continue_already_seen")
			}
			t.continued = t.continued || code == 100
			side.At = rule.NotStarted
			s.state = atLine
			return
		case method == "CONNECT" && code >= 200 && code < 300:
			h.messageEnd(dir)
			h.tunnel()
			return
		case method == "HEAD", code == 204, code == 304:
			h.messageEnd(dir)
			return
		}
	}
	h.startBody(dir, t, state, length)
}

func hasUpgrade(s *traffic.Side) bool {
	_, ok := s.Get("Upgrade")
	return ok
}

// startBody begins a body.
func (h *http1) startBody(dir rule.Direction, t *httpTx, state httpState, length int64) {
	s := &h.sides[index(dir)]
	s.state, s.left = state, length
	if state == atBody && length == 0 {
		if dir == rule.ToServer && !beginsRequest(s.buf) {
			h.f.firstAnomaly(t, "http.request_body_unexpected")
			h.take(dir, s.buf)
			s.buf = nil
		}
		h.messageEnd(dir)
		return
	}
	coding, _ := syntax.Lenient(&t.http.Sides[index(dir)], "Content-Encoding")
	b := body.New(coding, h.r.config.Layers, h.r.config.limit(dir))
	if strings.Count(coding, ",") >= max(b.Layers, 1) && h.f.firstAnomaly(t, "http.too_many_encoding_layers") && dir == rule.ToClient {
		h.inspect(t, rule.ToServer, t.http.Sides[0].At)
	}
	if state == atBody {
		b.Reserve(length)
	}
	t.body[index(dir)] = b
}

// beginsRequest reports whether bytes after a request without a body may be the next request;
// otherwise they are an unannounced body.
func beginsRequest(b []byte) bool {
	b = bytes.TrimLeft(b, "\r\n \t")
	word := b
	if i := bytes.IndexAny(b, " \t\r\n"); i >= 0 {
		word = b[:i]
	}
	return len(b) == 0 || len(word) == 0 || slices.Contains(methods, strings.ToUpper(string(word))) || string(word) == "PRI" || len(word) == len(b) && len(b) < 20 && startsMethod(word)
}

// startsMethod reports whether a method begins with a truncated word.
func startsMethod(word []byte) bool {
	for _, m := range methods {
		if strings.HasPrefix(m, string(word)) {
			return true
		}
	}
	return false
}

// framing determines how the body of a message ends.
func (h *http1) framing(dir rule.Direction, t *httpTx) (httpState, int64) {
	side := &t.http.Sides[index(dir)]
	if te, ok := syntax.Lenient(side, "Transfer-Encoding"); ok {
		low := strings.ToLower(te)
		if strings.Contains(low, "chunked") && !h.unchunked(dir) {
			return atChunkSize, 0
		}
		h.f.firstAnomaly(t, "http.invalid_transfer_encoding_value_in_"+messageKind(dir))
	}
	if cl, ok := syntax.Lenient(side, "Content-Length"); ok {
		if n, ok := syntax.LenientNumber([]byte(cl)); ok {
			return atBody, n
		}
		h.f.firstAnomaly(t, "http.invalid_content_length_field_in_"+messageKind(dir))
	}
	if dir == rule.ToServer {
		return atBody, 0
	}
	return atClose, 0
}

// unchunked reports whether the bytes after a head that announces chunks cannot be a chunk.
func (h *http1) unchunked(dir rule.Direction) bool {
	b := bytes.TrimLeft(h.sides[index(dir)].buf, " \t\r\n")
	if len(b) == 0 {
		return false
	}
	_, ok := syntax.ChunkLength(syntax.FirstLine(b))
	return !ok
}

func messageKind(dir rule.Direction) string {
	if dir == rule.ToServer {
		return "request"
	}
	return "response"
}

// counted reads a body or a chunk of known length.
func (h *http1) counted(dir rule.Direction) {
	s := &h.sides[index(dir)]
	n := min(int64(len(s.buf)), s.left)
	h.take(dir, s.buf[:n])
	s.buf, s.left = s.buf[n:], s.left-n
	if s.left == 0 {
		if s.state == atChunk {
			s.state = atChunkEnd
			return
		}
		h.bodyEnd(dir)
	}
}

func (h *http1) bodyEnd(dir rule.Direction) {
	s := &h.sides[index(dir)]
	if s.state == atChunk {
		s.state = atChunkEnd
		return
	}
	h.messageEnd(dir)
}

// chunkEnd skips the line end after a chunk.
func (h *http1) chunkEnd(dir rule.Direction) {
	s := &h.sides[index(dir)]
	i := bytes.IndexByte(s.buf, '\n')
	if i < 0 {
		if len(s.buf) > 0 && s.buf[0] != '\r' { // no line end: the size follows directly
			s.state = atChunkSize
		}
		return
	}
	if len(bytes.TrimSpace(s.buf[:i])) > 0 {
		s.state = atChunkSize // no line end: the size follows directly
		return
	}
	s.buf, s.state = s.buf[i+1:], atChunkSize
}

func (h *http1) chunkSize(dir rule.Direction) {
	s := &h.sides[index(dir)]
	line, rest, ok := syntax.CutLine(s.buf)
	if !ok {
		if len(s.buf) > 1024 {
			s.state = atClose
		}
		return
	}
	if len(bytes.TrimSpace(line)) == 0 {
		s.buf = rest
		return
	}
	n, ok := syntax.ChunkLength(line)
	if !ok {
		t := h.tx(dir)
		h.f.firstAnomaly(t, "http.invalid_"+messageKind(dir)+"_chunk_len")
		s.state = atClose // the rest is read unchanged
		return
	}
	if bytes.IndexByte(line, ';') >= 0 {
		h.f.firstAnomaly(h.tx(dir), "http."+messageKind(dir)+"_chunk_extension")
	}
	s.buf = rest
	if n == 0 {
		s.state = atTrailer
		return
	}
	s.left, s.state = n, atChunk
}

// take appends bytes of a body.
func (h *http1) take(dir rule.Direction, b []byte) {
	if len(b) == 0 {
		return
	}
	t := h.tx(dir)
	if t == nil {
		return
	}
	d := index(dir)
	if t.body[d] == nil {
		t.body[d] = body.New("", h.r.config.Layers, h.r.config.limit(dir))
	}
	t.size[d] += int64(len(b))
	full := t.body[d].Full()
	t.body[d].Write(b)
	if !full && t.body[d].Full() {
		h.showBody(t, dir, rule.Body)
		h.inspect(t, dir, rule.Trailer)
	}
}

// showBody makes the received part of the body visible to rules.
func (h *http1) showBody(t *httpTx, dir rule.Direction, at rule.Progress) {
	d := index(dir)
	side := &t.http.Sides[d]
	if b := t.body[d]; b != nil {
		side.Body = b.Decoded()
		side.HasBody = len(side.Body) > 0
		if dir == rule.ToServer {
			side.Parts = syntax.Multipart(side, at >= rule.Trailer)
		}
	}
	side.At = max(side.At, at)
}

// messageEnd ends a message.
func (h *http1) messageEnd(dir rule.Direction) {
	s := &h.sides[index(dir)]
	t := h.tx(dir)
	s.state = atLine
	if t == nil || t.done[index(dir)] {
		return
	}
	if rest := bytes.Trim(s.buf, "\r\n"); dir == rule.ToClient && len(rest) > 0 && !syntax.StartsStatus(rest) { // belongs to no other response
		h.take(dir, s.buf)
		s.buf = nil
	}
	t.done[index(dir)] = true
	h.endFrame(dir)
	h.showBody(t, dir, rule.Complete)
	h.inspect(t, dir, rule.Complete)
	if dir == rule.ToClient {
		h.next++
	}
	if t.done[0] && t.done[1] {
		h.show(t)
	}
}

// show writes the records of an exchange.
func (h *http1) show(t *httpTx) {
	if t.shown {
		return
	}
	t.shown = true
	h.r.out.httpRecord(h.r, h.f, t)
	// Keep the list of exchanges short.
	for h.next > 64 && len(h.txs) > 0 && h.txs[0].done[0] && h.txs[0].done[1] {
		h.txs, h.next = h.txs[1:], h.next-1
	}
}

// inspect tries the rules on a message.
func (h *http1) inspect(t *httpTx, dir rule.Direction, at rule.Progress) {
	h.r.inspect(t, t.tx, dir, at)
}

// upgrade changes to HTTP/2 or to a tunnel.
func (h *http1) upgrade(t *httpTx) {
	up, _ := t.http.Sides[1].Get("Upgrade")
	h.messageEnd(rule.ToClient)
	if strings.EqualFold(string(up), "h2c") {
		rest := [2][]byte{h.sides[0].buf, h.sides[1].buf}
		p := newHTTP2(h.r, h.f)
		h.f.app, h.f.appName, h.f.before = p, "http2", h.name()
		for i, d := range []rule.Direction{rule.ToServer, rule.ToClient} {
			h.sides[i].state, h.sides[i].buf = atIgnore, nil
			if len(rest[i]) > 0 {
				p.data(d, rest[i], 0)
			}
		}
		return
	}
	h.sides[0].state, h.sides[1].state = atIgnore, atIgnore
}

// tunnel hands the bytes after a CONNECT to the parser of their protocol.
func (h *http1) tunnel() {
	h.f.app, h.f.appName, h.f.before, h.f.gaveUp = nil, "", h.name(), false
	rest := [2][]byte{h.sides[0].buf, h.sides[1].buf}
	h.sides[0].state, h.sides[1].state = atIgnore, atIgnore
	for i, d := range []rule.Direction{rule.ToServer, rule.ToClient} {
		if len(rest[i]) > 0 {
			h.r.application(h.f, d, rest[i], 0)
		}
	}
}

// firstAnomaly records an anomaly of an exchange, and reports whether it is the first of its kind.
func (f *flow) firstAnomaly(t *httpTx, event string) bool {
	if t == nil || t.http.Events[event] {
		return false
	}
	t.http.Events[event] = true
	t.odd = append(t.odd, event)
	return true
}

// anomalies records the anomalies of a head.
func (h *http1) anomalies(dir rule.Direction, t *httpTx) {
	for _, event := range t.http.Anomalies(dir) {
		h.f.firstAnomaly(t, event)
	}
}

// A messageSource is the source of a message, with the properties of the current packet.
type messageSource struct {
	engine.Source
	run *Run
	f   *flow
}

// Buffer implements [engine.Source].
func (m *messageSource) Buffer(dir rule.Direction, b rule.Buffer, i int) ([]byte, bool) {
	if b == rule.Payload && m.f.proto == 17 {
		return m.run.current.payload, i == 0
	}
	if b == rule.Payload {
		raw := m.f.raw[index(dir)].data
		return raw, i == 0 && len(raw) > 0
	}
	if b.Info().Packet {
		return m.packet().Buffer(dir, b, i)
	}
	return m.Source.Buffer(dir, b, i)
}

// Event implements [engine.Source].
func (m *messageSource) Event(kind, name string) bool {
	return m.Source.Event(kind, name) || m.packet().Event(kind, name)
}

func (m *messageSource) packet() *packetSource {
	return &packetSource{p: m.run.current, f: m.f, run: m.run}
}

// Numbers implements [engine.Source].
func (m *messageSource) Numbers(dir rule.Direction, k string) ([]uint64, bool) {
	if ns, ok := m.Source.Numbers(dir, k); ok {
		return ns, ok
	}
	return m.packet().Numbers(dir, k)
}

// Word implements [engine.Source].
func (m *messageSource) Word(dir rule.Direction, k, v string) bool {
	return m.Source.Word(dir, k, v) || k != "app-layer-protocol" && m.packet().Word(dir, k, v)
}

// Unwrap returns the message itself.
func (m *messageSource) Unwrap() engine.Source { return m.Source }
