package nameserver

import (
	"encoding/binary"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"shuultuur/lib/dns"
)

// DNS over HTTPS (RFC 8484), the part common to all versions of HTTP. A request
// arrives as a webRequest and is converted into a query, which is answered as on
// any other transport. HTTP/1.1 (http1.go) and HTTP/2 (http2.go) are implemented
// here without net/http, whose handlers were most of the cost of an answer.
// HTTP/3 (http3.go) uses quic-go.

const mediaType = "application/dns-message"

// maxHead bounds the head of a request, in bytes.
const maxHead = 8 << 10

// A webRequest is an HTTP request. Its strings are valid until the connection is
// read again.
type webRequest struct {
	method string
	target string // path and query
	kind   string // Content-Type
	body   []byte
	webQuery
}

// A webQuery has the parts of a request besides the message.
type webQuery struct {
	clientID string // from the path, as written
	json     bool   // the answer should be JSON
}

// A webReply has the contents of an HTTP response.
type webReply struct {
	status int
	kind   string
	maxAge uint32 // seconds, with status 200
	body   []byte
}

// refusal returns the reply with a status other than 200.
func refusal(status int) webReply {
	return webReply{status: status, kind: "text/plain; charset=utf-8", body: statusTexts[status]}
}

// statusTexts are the bodies of refusals.
var statusTexts = func() map[int][]byte {
	m := map[int][]byte{}
	for _, status := range []int{400, 404, 405, 408, 413, 414, 415, 417, 431, 500, 501, 503, 505} {
		m[status] = []byte(http.StatusText(status) + "\n")
	}
	return m
}()

// answered returns the reply with a DNS message, or a refusal if there is none.
func (x *webQuery) answered(msg []byte) webReply {
	if len(msg) == 0 { // denied, dropped, or the server stops
		return refusal(http.StatusServiceUnavailable)
	}
	if x.json {
		return webReply{http.StatusOK, mediaTypeJSON, leastTTL(msg), appendJSON(nil, msg)}
	}
	return webReply{http.StatusOK, mediaType, leastTTL(msg), msg}
}

// parameter returns the value of a parameter in the query of a URL, or "".
func parameter(query, name string) string {
	if strings.ContainsAny(query, "%+;") {
		values, _ := url.ParseQuery(query) // skips malformed parameters
		return values.Get(name)
	}
	for query != "" {
		var pair string
		pair, query, _ = strings.Cut(query, "&")
		if value, ok := strings.CutPrefix(pair, name); ok && len(value) > 0 && value[0] == '=' {
			return value[1:]
		}
	}
	return ""
}

// leastTTL is how long a reply may be cached, in seconds: the least TTL of its
// records, and for a negative answer that of its SOA record (RFC 8484 section
// 5.1).
func leastTTL(msg []byte) uint32 {
	off, err := dns.SkipQuestions(msg)
	if err != nil {
		return 0
	}
	least, n := uint32(0), 0
	counts := binary.BigEndian.Uint64(msg[4:])
	for range int(counts>>32&0xffff) + int(counts>>16&0xffff) + int(counts&0xffff) {
		x, err := dns.ReadRecord(msg, off)
		if err != nil {
			return 0
		}
		off = x.End
		if x.Type == dns.TypeOPT {
			continue
		}
		ttl := x.TTL
		if x.Type == dns.TypeSOA && x.End-x.Data >= 4 && counts>>32&0xffff == 0 {
			ttl = min(ttl, binary.BigEndian.Uint32(msg[x.End-4:]))
		}
		if n == 0 || ttl < least {
			least = ttl
		}
		n++
	}
	return least
}

// A waiter is a sink for a goroutine that waits for one job.
type waiter struct{ done chan *job }

func (w *waiter) deliver(j *job) { w.done <- j }

// A caller answers one query after another on a goroutine that may wait: for a
// request of HTTP/1.1 or HTTP/3, or a stream of DNS over QUIC.
type caller struct {
	handler
	waiter
	msg []byte // the query
	buf []byte // its reply
}

func (s *Server) newCaller() *caller {
	return &caller{handler: s.newHandler(), waiter: waiter{make(chan *job, 1)}, buf: make([]byte, 0, 2048)}
}

// reply answers x.msg. The job, if any, is released when the reply has been
// used.
func (x *caller) reply() (reply []byte, j *job) {
	defer x.s.recovered(&x.handler)
	reply, o := x.answer(x.msg, x.buf[:0])
	if o == dns.Later {
		x.s.queue.put(&x.handler, &x.waiter, nil)
		j = <-x.done
		return j.msg, j
	}
	if cap(reply) > cap(x.buf) && cap(reply) <= keptBuffer {
		x.buf = reply[:0]
	}
	return reply, nil
}

// altSvc is the header field that announces HTTP/3 on a port.
func altSvc(port uint16) string { return `h3=":` + strconv.Itoa(int(port)) + `"; ma=86400` }
