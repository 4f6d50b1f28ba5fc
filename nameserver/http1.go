package nameserver

import (
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"shuultuur/lib/dns"
	"shuultuur/lib/message"
)

// An h1conn is one connection of DNS over HTTPS with HTTP/1.1.
type h1conn struct {
	*caller
	raw *conn
	c   net.Conn
	r   *message.Reader
	in  message.Request
	out []byte
	alt string // the Alt-Svc field
}

// serveHTTP1 answers the requests of a connection in order.
func (s *Server) serveHTTP1(x *conn, c net.Conn) {
	h := &h1conn{caller: s.newCaller(), raw: x, c: c, r: message.NewReader(c, readSize, maxHead), alt: x.altSvc()}
	h.q.Client, h.q.Local, h.q.Transport = x.client, x.local(), dns.HTTPS
	for h.serveOne() && !s.stopping.Load() {
	}
}

// serveOne answers one request; false ends the connection.
func (h *h1conn) serveOne() bool {
	idle := h.s.rules.Load().idle
	h.raw.Conn.SetReadDeadline(time.Now().Add(idle))
	if h.s.stopping.Load() {
		return false // the deadline may have replaced that of the stop
	}
	if err := h.r.ReadRequest(&h.in); err != nil {
		if bad, ok := errors.AsType[*message.Error](err); ok {
			h.drop(badFrame)
			h.write(refusal(bad.Status), false, true)
		}
		return false
	}
	h.q.At = time.Now()
	h.raw.Conn.SetReadDeadline(h.q.At.Add(idle)) // of the body
	req := webRequest{method: h.in.Method, target: asString(h.in.Path), kind: asString(h.in.Get("Content-Type"))}
	status := h.body(&req)
	if status == http.StatusOK && h.raw.bare {
		status = h.forwarded(h.in.Fields)
	}
	if status == http.StatusOK {
		h.msg, status = req.read(h.msg[:0], h.s.path, h.s.rules.Load().json)
	}
	if status == http.StatusRequestEntityTooLarge {
		h.in.Close = true // the rest of the body is not read
	}
	if status != http.StatusOK {
		return h.write(refusal(status), req.method == "HEAD", h.in.Close)
	}
	h.q.ClientID = req.identify(h.q.ClientID, h.raw.named)
	reply, j := h.reply()
	if j != nil {
		defer h.s.queue.release(j)
	}
	return h.write(req.answered(reply), req.method == "HEAD", h.in.Close)
}

// forwarded takes the client from the fields that proxies have added, the last first.
func (h *h1conn) forwarded(fields message.Fields) (status int) {
	list := ""
	for i := range fields {
		if f := &fields[i]; message.EqualName(f.Name, "x-forwarded-for") {
			list += "," + string(f.Value)
		}
	}
	var ok bool
	if h.q.Client, ok = h.raw.clientOf(strings.TrimPrefix(list, ",")); !ok {
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// body reads the body of a request.
func (h *h1conn) body(req *webRequest) (status int) {
	if h.in.Body == nil {
		return http.StatusOK
	}
	if h.in.Length > maxMessage {
		return http.StatusRequestEntityTooLarge
	}
	if h.in.Expect {
		if _, err := io.WriteString(h.c, "HTTP/1.1 100 Continue\r\n\r\n"); errors.Join(err, h.raw.writeGathered()) != nil {
			return http.StatusBadRequest
		}
	}
	var err error
	h.msg, err = appendAll(h.msg[:0], io.LimitReader(h.in.Body, maxMessage+1))
	if req.body = h.msg; len(req.body) > maxMessage {
		return http.StatusRequestEntityTooLarge
	}
	if err != nil {
		h.in.Close = true
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// write writes a response; false ends the connection.
func (h *h1conn) write(x webReply, head, last bool) bool {
	b := append(h.out[:0], "HTTP/1.1 "...)
	b = strconv.AppendInt(b, int64(x.status), 10)
	b = append(append(b, ' '), http.StatusText(x.status)...)
	b = append(append(b, "\r\nContent-Type: "...), x.kind...)
	b = strconv.AppendInt(append(b, "\r\nContent-Length: "...), int64(len(x.body)), 10)
	switch x.status {
	case http.StatusOK:
		b = strconv.AppendUint(append(b, "\r\nCache-Control: max-age="...), uint64(x.maxAge), 10)
		if h.alt != "" {
			b = append(append(b, "\r\nAlt-Svc: "...), h.alt...)
		}
	case http.StatusMethodNotAllowed:
		b = append(b, "\r\nAllow: GET, HEAD, POST"...)
	}
	if last = last || h.s.leaving.Load(); last {
		b = append(b, "\r\nConnection: close"...)
	}
	b = append(b, "\r\n\r\n"...)
	if !head {
		b = append(b, x.body...)
	}
	if h.out = b; cap(b) > 4*writeAt {
		h.out = nil
	}
	_, err := h.c.Write(b)
	return errors.Join(err, h.raw.writeGathered()) == nil && !last
}

// appendAll reads to the end.
func appendAll(dst []byte, r io.Reader) ([]byte, error) {
	for {
		if len(dst) == cap(dst) {
			dst = append(dst, make([]byte, max(512, len(dst)))...)[:len(dst)]
		}
		n, err := r.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		if errors.Is(err, io.EOF) {
			return dst, nil
		}
		if err != nil {
			return dst, err
		}
	}
}

// asString returns b as a string, and asBytes s as bytes, without copying. Do
// not keep the result longer than its source, and do not write to the bytes.
func asString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
func asBytes(s string) []byte  { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// read appends the DNS query of a request to dst. The status is that of the
// refusal, or 200.
func (x *webRequest) read(dst []byte, path string, asJSON bool) (msg []byte, status int) {
	at, query, _ := strings.Cut(x.target, "?")
	if at != path {
		id, ok := strings.CutPrefix(at, path)
		if ok && path != "/" {
			id, ok = strings.CutPrefix(id, "/")
		}
		if ok && id != "" {
			x.clientID, ok = id, isClientID(id)
		}
		if !ok {
			return dst, http.StatusNotFound
		}
	}
	switch x.method {
	case "GET", "HEAD":
		if asJSON {
			if name := parameter(query, "name"); name != "" {
				x.json = true
				return readJSON(dst, name, query)
			}
		}
		var err error
		text := parameter(query, "dns")
		if text == "" || len(text) > base64.RawURLEncoding.EncodedLen(maxMessage) {
			return dst, http.StatusBadRequest
		}
		// base64 copies input that it cannot decode in place.
		if msg, err = base64.RawURLEncoding.AppendDecode(dst, asBytes(text)); err != nil {
			return dst, http.StatusBadRequest
		}
	case "POST":
		if x.kind != mediaType {
			return dst, http.StatusUnsupportedMediaType
		}
		if len(x.body) > maxMessage {
			return dst, http.StatusRequestEntityTooLarge
		}
		msg = append(dst, x.body...)
	default:
		return dst, http.StatusMethodNotAllowed
	}
	if q := msg[len(dst):]; len(q) < 12 || q[2]&0x80 != 0 {
		return dst, http.StatusBadRequest
	}
	return msg, http.StatusOK
}
