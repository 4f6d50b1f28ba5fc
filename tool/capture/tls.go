package capture

import (
	"bytes"
	"crypto/md5"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"shuultuur/intercept"
	"shuultuur/lib/suricata/rule"
	"shuultuur/lib/suricata/traffic"
)

// maxHandshake limits the handshake messages of one side.
const maxHandshake = 1 << 20

func newTLS(r *Run, f *flow) *tlsParser {
	t := &tlsParser{r: r, f: f, id: f.txs}
	f.txs++
	t.tls.Events = map[string]bool{}
	t.tls.Now = r.now
	t.tx = r.tx(f, &messageSource{Source: &t.tls, run: r, f: f})
	t.tx.App = rule.TLS
	return t
}

func (t *tlsParser) name() string { return "tls" }

// data implements parser.
func (t *tlsParser) data(dir rule.Direction, b []byte, gap int64) {
	d := index(dir)
	if gap > 0 || t.ended[d] {
		t.ended[d] = true
		return
	}
	t.buf[d] = append(t.buf[d], b...)
	buf := t.buf[d]
	if len(buf) > 2 && buf[0]&0x80 != 0 && buf[2] == 1 && t.at[d] == 0 { // a hello of SSL 2
		n := 2 + int(buf[0]&0x7f)<<8 + int(buf[1])
		if len(buf) < n || n < 5 {
			return
		}
		t.tls.Version, t.tls.ClientHello = binary.BigEndian.Uint16(buf[3:5]), true
		t.step(dir, rule.Line)
		buf = buf[n:] // records of a later version may follow
	}
	for len(buf) >= 5 {
		n := int(binary.BigEndian.Uint16(buf[3:]))
		kind, version := buf[0], binary.BigEndian.Uint16(buf[1:])
		if kind < 20 || kind > 24 {
			t.recordAnomaly("tls.invalid_record_type")
			t.ended[d] = true
			break
		}
		if version>>8 != 3 {
			t.recordAnomaly("tls.invalid_record_version")
		}
		if len(buf) < 5+n {
			// A handshake may continue in truncated records: the available part of the first
			// one is read as it arrives.
			break
		}
		body := buf[5 : 5+n]
		buf = buf[5+n:]
		switch kind {
		case 22:
			t.hand[d] = append(t.hand[d], body...)
			t.handshake(dir)
		case 20:
			t.step(dir, rule.Headers)
			t.ended[d] = t.tls.Version != 0x304
		case 23:
			t.ended[d] = true
			t.step(dir, rule.Complete)
		case 21:
			if n == 2 && body[0] == 2 {
				t.recordAnomaly("tls.error_message_encountered")
			}
		}
		if t.ended[d] {
			buf = nil
		}
	}
	t.buf[d] = append(t.buf[d][:0], buf...)
}

// end implements parser.
func (t *tlsParser) end(dir rule.Direction) {
	t.step(dir, rule.Complete)
	t.show()
}

func (t *tlsParser) recordAnomaly(event string) { t.tls.Events[event] = true }

// step tries the rules after progress of one side.
func (t *tlsParser) step(dir rule.Direction, at rule.Progress) {
	d := index(dir)
	if at <= t.at[d] && at != rule.Line {
		return
	}
	t.at[d] = max(at, t.at[d])
	t.tls.Now = t.r.now
	t.r.inspect(t, t.tx, dir, at)
	if t.at[0] >= rule.Headers && t.at[1] >= rule.Headers {
		t.show()
	}
}

func (t *tlsParser) show() {
	if !t.shown && (t.tls.ClientHello || t.tls.ServerHello) {
		t.shown = true
		t.r.out.tlsRecord(t.r, t.f, t)
	}
}

// handshake parses the complete handshake messages.
func (t *tlsParser) handshake(dir rule.Direction) {
	d := index(dir)
	for len(t.hand[d]) >= 4 {
		h := t.hand[d]
		n := int(h[1])<<16 | int(h[2])<<8 | int(h[3])
		if n > maxHandshake {
			t.recordAnomaly("tls.invalid_handshake_message")
			t.ended[d] = true
			return
		}
		if len(h) < 4+n {
			return
		}
		message := h[:4+n]
		switch h[0] {
		case 1:
			t.clientHello(message)
			t.step(dir, rule.Line)
		case 2:
			t.serverHello(message[4:])
			t.step(dir, rule.Line)
		case 11:
			t.certificates(dir, message[4:])
			t.step(dir, rule.Headers)
		}
		t.hand[d] = h[4+n:]
	}
}

// A reader reads fields from bytes; after an error it is empty.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n int) []byte {
	if n > len(r.b) {
		r.b, r.bad = nil, true
		return make([]byte, min(n, 32))
	}
	v := r.b[:n]
	r.b = r.b[n:]
	return v
}

func (r *reader) number(n int) int {
	v := 0
	for _, c := range r.take(n) {
		v = v<<8 | int(c)
	}
	return v
}

func (r *reader) vector(n int) *reader {
	size := r.number(n)
	if size > len(r.b) {
		r.bad = true
		size = len(r.b)
	}
	return &reader{b: r.take(size)}
}

func (r *reader) list16() (out []uint16) {
	for len(r.b) >= 2 {
		out = append(out, uint16(r.number(2)))
	}
	return out
}

func grease(v uint16) bool { return v&0x0f0f == 0x0a0a && v>>8 == v&0xff }

func dashes(list []uint16) string {
	var out []string
	for _, v := range list {
		if !grease(v) {
			out = append(out, strconv.Itoa(int(v)))
		}
	}
	return strings.Join(out, "-")
}

func digest(s string) string {
	sum := md5.Sum([]byte(s))
	return hex.EncodeToString(sum[:])
}

// clientHello parses the client's hello.
func (t *tlsParser) clientHello(message []byte) {
	r := &reader{b: message[4:]}
	version := uint16(r.number(2))
	t.tls.Random[0] = append([]byte(nil), r.take(32)...)
	r.vector(1)
	ciphers := r.vector(2).list16()
	r.vector(1)
	var exts, groups []uint16
	var points []string
	for e := r.vector(2); len(e.b) >= 4; {
		kind := uint16(e.number(2))
		body := e.vector(2)
		exts = append(exts, kind)
		switch kind {
		case 0:
			for names := body.vector(2); len(names.b) > 3; {
				if names.number(1) == 0 {
					t.tls.SNI = append([]byte(nil), names.vector(2).b...)
				} else {
					names.vector(2)
				}
			}
		case 10:
			groups = body.vector(2).list16()
		case 11:
			for _, c := range body.vector(1).b {
				points = append(points, strconv.Itoa(int(c)))
			}
		case 16:
			t.tls.ALPN[0] = protocols(body)
		}
	}
	t.tls.ClientHello, t.extensions[0] = true, exts
	t.tls.Version = version
	t.tls.JA3 = fmt.Sprintf("%d,%s,%s,%s,%s", version, dashes(ciphers), dashes(exts), dashes(groups), strings.Join(points, "-"))
	t.tls.JA3Hash = digest(t.tls.JA3)
	var s intercept.Sniffer
	record := append([]byte{22, 3, 1, byte(len(message) >> 8), byte(len(message))}, message...)
	if len(message) < 1<<14 {
		if done, err := s.Feed(record); done && err == nil {
			if h, err := s.Hello(); err == nil {
				t.tls.JA4 = h.JA4()
			}
		}
	}
}

func protocols(body *reader) (names [][]byte) {
	for list := body.vector(2); len(list.b) > 0; {
		names = append(names, append([]byte(nil), list.vector(1).b...))
	}
	return names
}

// serverHello parses the server's hello.
func (t *tlsParser) serverHello(b []byte) {
	r := &reader{b: b}
	version := uint16(r.number(2))
	t.tls.Random[1] = append([]byte(nil), r.take(32)...)
	r.vector(1)
	cipher := r.number(2)
	r.number(1)
	var exts []uint16
	t.tls.Version = version
	for e := r.vector(2); len(e.b) >= 4; {
		kind := uint16(e.number(2))
		body := e.vector(2)
		exts = append(exts, kind)
		switch kind {
		case 43:
			t.tls.Version = uint16(body.number(2))
		case 16:
			t.tls.ALPN[1] = protocols(body)
		}
	}
	t.tls.ServerHello, t.extensions[1] = true, exts
	t.tls.JA3S = fmt.Sprintf("%d,%d,%s", version, cipher, dashesAll(exts))
	t.tls.JA3SHash = digest(t.tls.JA3S)
}

func dashesAll(list []uint16) string {
	var out []string
	for _, v := range list {
		out = append(out, strconv.Itoa(int(v)))
	}
	return strings.Join(out, "-")
}

// certificates parses the certificates of one side.
func (t *tlsParser) certificates(dir rule.Direction, b []byte) {
	d := index(dir)
	if len(t.tls.Certs[d]) > 0 {
		return
	}
	for list := (&reader{b: b}).vector(3); len(list.b) > 3; {
		c, err := traffic.NewCertificate(append([]byte(nil), list.vector(3).b...))
		if err != nil {
			t.recordAnomaly("tls.invalid_certificate")
			t.recordAnomaly("tls.certificate_invalid_length")
		}
		t.tls.Certs[d] = append(t.tls.Certs[d], c)
	}
}

// detect detects the protocol of a connection by the first bytes of either side.
func (r *Run) detect(f *flow, dir rule.Direction) parser {
	c, s := f.tried[0], f.tried[1]
	if p := r.transfer(f, dir); p != nil {
		return p
	}
	if p := r.lines(f); p != nil {
		return p
	}
	if bytes.HasPrefix(c, []byte("PRI * HTTP/2.0\r\n")) {
		return newHTTP2(r, f)
	}
	trim := bytes.TrimLeft(c, "\r\n \t")
	for _, m := range methods {
		if len(trim) > len(m) && strings.EqualFold(string(trim[:len(m)]), m) && (trim[len(m)] == ' ' || trim[len(m)] == '\t') {
			return newHTTP1(r, f)
		}
	}
	if len(s) >= 7 && strings.EqualFold(string(s[:5]), "HTTP/") {
		return newHTTP1(r, f)
	}
	if i := bytes.IndexByte(trim, '\n'); i > 0 && bytes.Contains(trim[:i], []byte(" HTTP/1.")) && !bytes.ContainsAny(trim[:bytes.IndexByte(trim, ' ')], "%\x00") {
		return newHTTP1(r, f)
	}
	for _, b := range [][]byte{c, s} {
		if len(b) >= 3 && b[0] >= 20 && b[0] <= 23 && b[1] == 3 && b[2] <= 4 {
			return newTLS(r, f)
		}
		if len(b) >= 5 && b[0]&0x80 != 0 && b[2] == 1 && (b[3] == 3 && b[4] <= 4 || b[3] == 0 && b[4] == 2) && f.server.Port() == 443 {
			return newTLS(r, f)
		}
		if len(b) >= 14 && int(binary.BigEndian.Uint16(b)) >= 12 && (f.server.Port() == 53 || r.dnsPort(f.server.Port()) || looksLikeDNS(b[2:min(len(b), 2+int(binary.BigEndian.Uint16(b)))])) {
			return &dnsParser{r: r, f: f}
		}
	}
	return nil
}
