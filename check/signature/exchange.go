//go:build !small

package signature

import (
	"bytes"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"slices"
	"strconv"

	"shuultuur/content"
	"shuultuur/filter"
	hm "shuultuur/lib/message"
	"shuultuur/lib/suricata/engine"
	"shuultuur/lib/suricata/rule"
	"shuultuur/lib/suricata/traffic"
)

// name tries the rules on a name: a DNS query, or the name in a TLS hello.
func (c *Check) name(t *filter.Transaction) ([]engine.Alert, engine.ExceededLimits) {
	f := connection(t)
	tx := &engine.Tx{}
	c.start(tx, t, f.Flow)
	if t.Proto == filter.DNS {
		host := t.Asked
		if host == "" {
			host = t.Host
		}
		tx.App, tx.L4 = rule.DNS, rule.UDP
		q := traffic.DNSName{Name: []byte(host), Type: t.Type}
		m := &traffic.DNSMessage{Queries: []traffic.DNSName{q}}
		m.Flags(t.Flags)
		tx.Source = m
		alerts := c.engine.Inspect(tx, rule.ToServer, rule.Complete, nil)
		return alerts, tx.Over
	}
	return c.handshake(t, f)
}

// refusedDNS tries the rules on a DNS message that the name server answers by itself.
func (c *Check) refusedDNS(t *filter.Transaction, msg []byte) {
	if !c.engine.Has(rule.DNS, rule.ToServer, rule.Line) {
		return
	}
	m := &traffic.DNSMessage{}
	m.Read(msg, nil)
	tx := &engine.Tx{App: rule.DNS, Source: m}
	c.start(tx, t, connection(t).Flow)
	tx.L4 = rule.UDP
	alerts := c.engine.Inspect(tx, rule.ToServer, rule.Complete, nil)
	t.Findings = c.findings(alerts, new(map[uint32]bool), t.Terse, reportExceeded(t, tx.Over, t.Findings))
}

// A handshake is a TLS handshake that rules follow: its name is judged several times, as more
// of it becomes known.
type handshake struct {
	check      *Check
	host, ja4  string
	tx         engine.Tx
	handshake  traffic.TLSHandshake
	serverSeen bool
}

// handshake tries the rules on the known part of a TLS handshake: the name, the client's
// hello, the origin's certificates. It continues where it stopped, so that thresholds count a
// hello once.
func (c *Check) handshake(t *filter.Transaction, f *flow) (alerts []engine.Alert, o engine.ExceededLimits) {
	k := &f.tls
	if k.check != c || k.host != t.Host || k.ja4 != t.JA4 {
		*k = handshake{check: c, host: t.Host, ja4: t.JA4}
		c.start(&k.tx, t, f.Flow)
		k.handshake = traffic.TLSHandshake{SNI: []byte(t.Host), ClientHello: true, Now: k.tx.Now}
		if t.JA4 != filter.NoHello {
			k.handshake.JA4 = t.JA4
		}
		if t.TLS != nil {
			k.handshake.Version, k.handshake.JA3 = t.TLS.Version, t.TLS.JA3
			sum := md5.Sum([]byte(t.TLS.JA3))
			k.handshake.JA3Hash = hex.EncodeToString(sum[:])
			for _, p := range t.TLS.Protocols {
				k.handshake.ALPN[0] = append(k.handshake.ALPN[0], []byte(p))
			}
		}
		k.tx.App, k.tx.Source = rule.TLS, &k.handshake
		alerts = c.engine.Inspect(&k.tx, rule.ToServer, rule.Complete, nil)
	}
	if t.TLS != nil && t.TLS.Certificates != nil && !k.serverSeen {
		k.serverSeen, k.handshake.ServerHello, k.handshake.Version = true, true, t.TLS.Version
		for _, der := range t.TLS.Certificates {
			cert, err := traffic.NewCertificate(der) // the fingerprint of a broken one is still known
			if err != nil {
				k.handshake.Events = map[string]bool{"tls.invalid_certificate": true}
			}
			k.handshake.Certs[1] = append(k.handshake.Certs[1], cert)
		}
		alerts = c.engine.Inspect(&k.tx, rule.ToClient, rule.Complete, alerts)
	}
	o, k.tx.Over = k.tx.Over, engine.ExceededLimits{}
	return alerts, o
}

// inspect tries the rules at a stage of an exchange.
func (m *exchange) inspect(t *filter.Transaction, s filter.Stage) (alerts []engine.Alert) {
	e := m.check.engine
	side := &m.http.Sides[0]
	if side.Line == nil {
		m.request(t.Request)
		if s > filter.Request { // previous stages were not inspected, or were forgotten
			alerts = e.Inspect(&m.tx, rule.ToServer, rule.Headers, alerts)
		}
	}
	switch s {
	case filter.Request:
		at := rule.Headers
		if t.Request.Length == hm.None {
			at = rule.Complete
		}
		side.At = at
		alerts = e.Inspect(&m.tx, rule.ToServer, at, alerts)
	case filter.RequestBody:
		at := m.body(side, t.Upload)
		alerts = e.Inspect(&m.tx, rule.ToServer, at, alerts)
	case filter.Response, filter.ResponseBody:
		if side.At < rule.Complete {
			side.At = rule.Complete
			alerts = e.Inspect(&m.tx, rule.ToServer, rule.Complete, alerts)
		}
		alerts = m.answer(t, s, alerts)
	}
	return alerts
}

// answer tries the rules on the response.
func (m *exchange) answer(t *filter.Transaction, s filter.Stage, alerts []engine.Alert) []engine.Alert {
	if t.Response == nil {
		return alerts
	}
	e, side := m.check.engine, &m.http.Sides[1]
	if s == filter.Response || side.Line == nil {
		m.response(t.Response)
	}
	at := rule.Headers
	if s == filter.ResponseBody {
		at = m.body(side, t.Body)
	} else if t.Last == filter.Response {
		at = rule.Complete
		side.At = at
	}
	return e.Inspect(&m.tx, rule.ToClient, at, alerts)
}

// request sets the head of the request.
func (m *exchange) request(q *hm.Request) {
	s := &m.http.Sides[0]
	s.Method, s.Target = []byte(q.Method), q.Target
	s.Protocol = protocol(q.Proto)
	s.Line, s.RawHead = head(q.Raw())
	if m.http.Two || s.Line == nil {
		s.Line = bytes.Join([][]byte{s.Method, s.Target, s.Protocol}, []byte(" "))
	}
	s.Headers = headers(s.Headers[:0], q.Fields)
	if m.http.Two {
		s.Target = q.Path
		pseudo := []traffic.Header{{Name: []byte(":method"), Value: s.Method}, {Name: []byte(":path"), Value: q.Path}, {Name: []byte(":scheme"), Value: []byte("https")}, {Name: []byte(":authority"), Value: q.Host}}
		s.Headers = append(pseudo, s.Headers...)
	}
	s.At = rule.Headers
	m.recordAnomalies(m.http.Anomalies(rule.ToServer)...)
}

// setMalformed sets a request head that cannot be parsed, as far as it can be split: into lines,
// the words of the first, and names and values.
func (m *exchange) setMalformed(raw []byte) {
	s := &m.http.Sides[0]
	if s.Line, s.RawHead = head(raw); s.Line == nil {
		s.Line = raw
	}
	s.Line, s.RawHead = bytes.Clone(s.Line), bytes.Clone(s.RawHead)
	line := bytes.TrimLeft(s.Line, " \t")
	end := bytes.IndexAny(line, " \t")
	if end < 0 {
		end = len(line)
	}
	s.Method, s.Target = line[:end], bytes.TrimLeft(line[end:], " \t")
	if i := bytes.LastIndexAny(s.Target, " \t"); i >= 0 && bytes.HasPrefix(s.Target[i+1:], []byte("HTTP")) {
		s.Protocol, s.Target = s.Target[i+1:], bytes.TrimRight(s.Target[:i], " \t")
	} else {
		m.recordAnomalies("http.request_line_incomplete")
	}
	for line := range bytes.Lines(s.RawHead) {
		if line = bytes.TrimRight(line, "\r\n"); len(line) == 0 || len(s.Headers) > maxFields {
			break
		}
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok {
			name, value = nil, line
		}
		s.Headers = append(s.Headers, traffic.Header{Name: bytes.TrimRight(name, " \t"), Value: bytes.TrimSpace(value)})
	}
	s.At = rule.Complete
	m.recordAnomalies(m.http.Anomalies(rule.ToServer)...)
}

// maxFields limits the fields of a malformed request that rules inspect.
const maxFields = 2048

// recordAnomalies records anomalies, by their names in app-layer-event.
func (m *exchange) recordAnomalies(events ...string) {
	for _, name := range events {
		if m.http.Events == nil {
			m.http.Events = map[string]bool{}
		}
		m.http.Events[name] = true
	}
}

// maxCodings is the number of content codings of a body that Suricata decodes.
const maxCodings = 2

// response sets the head of the response.
func (m *exchange) response(r *hm.Response) {
	s := &m.http.Sides[1]
	s.Code, s.Reason, s.Protocol = strconv.AppendInt(nil, int64(r.Status), 10), r.Reason, protocol(r.Proto)
	if s.Reason == nil {
		s.Reason = []byte{}
	}
	s.Line, s.RawHead = head(r.Raw())
	if s.Line == nil {
		s.Line = bytes.Join([][]byte{s.Protocol, s.Code, s.Reason}, []byte(" "))
	}
	s.Headers = headers(s.Headers[:0], r.Fields)
	s.At = max(s.At, rule.Headers)
	m.recordAnomalies(m.http.Anomalies(rule.ToClient)...)
	if v, _ := s.Get("Content-Encoding"); bytes.Count(v, []byte(",")) >= maxCodings {
		m.recordAnomalies("http.too_many_encoding_layers")
	}
	if r.Folded {
		m.recordAnomalies("http.invalid_response_field_folding")
	}
}

func headers(dst []traffic.Header, fs hm.Fields) []traffic.Header {
	dst = slices.Grow(dst, len(fs))
	for _, f := range fs {
		dst = append(dst, traffic.Header{Name: f.Name, Value: f.Value})
	}
	return dst
}

// head splits a raw head into the first line and the rest.
func head(raw []byte) (line, rest []byte) {
	i := bytes.IndexByte(raw, '\n')
	if i < 0 {
		return nil, nil
	}
	return bytes.TrimSuffix(raw[:i], []byte("\r")), raw[i+1:]
}

func protocol(p uint8) []byte {
	switch p {
	case 10:
		return []byte("HTTP/1.0")
	case 20:
		return []byte("HTTP/2")
	}
	return []byte("HTTP/1.1")
}

// body sets a body as far as it has arrived, and returns its progress.
func (m *exchange) body(s *traffic.Side, b *content.Body) rule.Progress {
	s.At = rule.Body
	if b == nil {
		s.At = rule.Complete
		return s.At
	}
	data, err := b.Decoded() // data before an error is inspected, too
	switch v, _ := s.Get("Content-Encoding"); {
	case errors.Is(err, content.ErrBomb):
		m.recordAnomalies("http.compression_bomb")
	case (err != nil || b.Uncoded()) && len(v) > 0 && b.Complete():
		m.recordAnomalies("http.gzip_decompression_failed")
	}
	if len(data) > m.check.body {
		data = data[:m.check.body]
		s.At = rule.Complete
	}
	if b.Complete() {
		s.At = rule.Complete
	}
	s.Body, s.HasBody, s.Front = data, len(data) > 0, b
	return s.At
}
