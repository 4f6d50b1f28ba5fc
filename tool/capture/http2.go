package capture

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"strings"

	"golang.org/x/net/http2/hpack"

	"shuultuur/lib/suricata/rule"
	"shuultuur/lib/suricata/traffic"
	"shuultuur/tool/capture/body"
)

// maxStreams limits the streams of a connection that are followed at a time.
const maxStreams = 1024

const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// An http2 reads HTTP/2 frames.
type http2 struct {
	r       *Run
	f       *flow
	buf     [2][]byte
	hp      [2]*hpack.Decoder
	block   [2][]byte // an incomplete header block
	blockOf [2]frame
	streams map[uint32]*httpTx
	begun   bool
}

type frame struct {
	kind, flags uint8
	stream      uint32
	body        []byte
}

func newHTTP2(r *Run, f *flow) *http2 {
	h := &http2{r: r, f: f, streams: map[uint32]*httpTx{}}
	for i := range h.hp {
		h.hp[i] = hpack.NewDecoder(4096, nil)
		h.hp[i].SetMaxStringLength(64 << 10)
		h.hp[i].SetAllowedMaxDynamicTableSize(64 << 10)
	}
	return h
}

func (h *http2) name() string { return "http2" }

// data implements parser.
func (h *http2) data(dir rule.Direction, b []byte, gap int64) {
	i := index(dir)
	if gap > 0 {
		h.buf[i] = nil
	}
	h.buf[i] = append(h.buf[i], b...)
	if dir == rule.ToServer && !h.begun {
		if len(h.buf[i]) < len(preface) && bytes.HasPrefix([]byte(preface), h.buf[i]) {
			return
		}
		h.begun = true
		if !bytes.HasPrefix(h.buf[i], []byte(preface)) {
			h.odd(h.stream(0), dir, "invalid_client_magic")
		}
		h.buf[i] = bytes.TrimPrefix(h.buf[i], []byte(preface))
	}
	for len(h.buf[i]) >= 9 {
		p := h.buf[i]
		n := int(p[0])<<16 | int(p[1])<<8 | int(p[2])
		if len(p) < 9+n {
			return
		}
		fr := frame{kind: p[3], flags: p[4], stream: binary.BigEndian.Uint32(p[5:]) & 0x7fffffff, body: p[9 : 9+n]}
		h.frame(dir, fr)
		h.buf[i] = h.buf[i][9+n:]
	}
}

// end implements parser.
func (h *http2) end(rule.Direction) {
	for id, t := range h.streams {
		for _, d := range []rule.Direction{rule.ToServer, rule.ToClient} {
			h.finish(t, d)
		}
		h.r.out.httpRecord(h.r, h.f, t)
		delete(h.streams, id)
	}
}

// stream returns the exchange of a stream.
func (h *http2) stream(id uint32) (t *httpTx) {
	t = h.streams[id]
	if t == nil {
		if len(h.streams) >= maxStreams {
			defer func() { h.odd(t, rule.ToServer, "too_many_streams") }()
			for old := range h.streams {
				delete(h.streams, old)
				break
			}
		}
		t = &httpTx{id: h.f.txs, stream: id}
		h.f.txs++
		t.http.Two = true
		t.http.Events = map[string]bool{}
		t.tx = h.r.tx(h.f, &messageSource{Source: &t.http, run: h.r, f: h.f})
		t.tx.App = rule.HTTP2
		h.streams[id] = t
	}
	return t
}

// number records a number for rules.
func (t *httpTx) number(dir rule.Direction, keyword string, n uint64) {
	m := &t.http.Frames[index(dir)]
	if *m == nil {
		*m = map[string][]uint64{}
	}
	(*m)[keyword] = append((*m)[keyword], n)
}

// A http2Setting is a setting as one side sent it.
type http2Setting struct {
	id    uint16
	value uint32
}

// settingNames are the names of settings in rules and in records.
var settingNames = map[uint16]struct{ rule, record string }{
	1: {"SETTINGS_HEADER_TABLE_SIZE", "SETTINGSHEADERTABLESIZE"}, 2: {"SETTINGS_ENABLE_PUSH", "SETTINGSENABLEPUSH"},
	3: {"SETTINGS_MAX_CONCURRENT_STREAMS", "SETTINGSMAXCONCURRENTSTREAMS"}, 4: {"SETTINGS_INITIAL_WINDOW_SIZE", "SETTINGSINITIALWINDOWSIZE"},
	5: {"SETTINGS_MAX_FRAME_SIZE", "SETTINGSMAXFRAMESIZE"}, 6: {"SETTINGS_MAX_HEADER_LIST_SIZE", "SETTINGSMAXHEADERLISTSIZE"},
}

// frame handles one frame.
func (h *http2) frame(dir rule.Direction, f frame) {
	t := h.stream(f.stream)
	if f.stream == 0 { // each frame about the connection is a separate exchange
		delete(h.streams, 0)
	}
	t.number(dir, "http2.frametype", uint64(f.kind))
	h.check(t, dir, f)
	body := f.body
	switch f.kind {
	case 0:
		body = unpad(f, body)
		h.take(t, dir, body)
	case 1, 5, 9:
		h.fields(dir, f, t)
	case 2:
		if len(body) >= 5 {
			t.number(dir, "http2.priority", uint64(body[4]))
		}
	case 3:
		if len(body) >= 4 {
			t.number(dir, "http2.errorcode", uint64(binary.BigEndian.Uint32(body)))
		}
	case 4:
		for ; len(body) >= 6; body = body[6:] {
			m := &t.http.Settings[index(dir)]
			if *m == nil {
				*m = map[string][]uint64{}
			}
			id, value := binary.BigEndian.Uint16(body), binary.BigEndian.Uint32(body[2:])
			t.settings[index(dir)] = append(t.settings[index(dir)], http2Setting{id, value})
			name, v := settingNames[id].rule, uint64(value)
			(*m)[name] = append((*m)[name], v)
			if name == "SETTINGS_HEADER_TABLE_SIZE" {
				h.hp[1-index(dir)].SetAllowedMaxDynamicTableSize(uint32(min(v, 64<<10)))
			}
		}
	case 7:
		if len(body) >= 8 {
			t.number(dir, "http2.errorcode", uint64(binary.BigEndian.Uint32(body[4:])))
		}
	case 8:
		if len(body) >= 4 {
			t.number(dir, "http2.window", uint64(binary.BigEndian.Uint32(body)&0x7fffffff))
		}
	}
	h.inspect(t, dir, min(max(rule.Line, t.http.Sides[index(dir)].At), rule.Trailer))
	if f.kind <= 1 && f.flags&1 != 0 {
		h.finish(t, dir)
	}
	if f.stream == 0 {
		t.done = [2]bool{true, true}
		t.http.Sides[index(dir)].At = rule.Complete
		h.inspect(t, dir, rule.Complete)
		h.r.out.httpRecord(h.r, h.f, t)
		return
	}
	if t.done[0] && t.done[1] {
		h.r.out.httpRecord(h.r, h.f, t)
		delete(h.streams, f.stream)
	}
}

func unpad(f frame, body []byte) []byte {
	if f.flags&8 == 0 || len(body) == 0 {
		return body
	}
	pad := int(body[0])
	if pad+1 > len(body) {
		return nil
	}
	return body[1 : len(body)-pad]
}

// fields decodes a header block.
func (h *http2) fields(dir rule.Direction, f frame, t *httpTx) {
	d := index(dir)
	body := f.body
	if f.kind != 9 {
		body = unpad(f, body)
		if f.kind == 1 && f.flags&0x20 != 0 && len(body) >= 5 {
			t.number(dir, "http2.priority", uint64(body[4]))
			body = body[5:]
		}
		if f.kind == 5 && len(body) >= 4 {
			body = body[4:]
		}
		h.block[d] = h.block[d][:0]
	}
	if len(h.block[d]) > maxHead {
		return
	}
	h.block[d] = append(h.block[d], body...)
	if f.flags&4 == 0 {
		return
	}
	side := &t.http.Sides[d]
	h.hp[d].SetEmitFunc(func(x hpack.HeaderField) {
		if len(side.Headers) > 1000 {
			return
		}
		side.Headers = append(side.Headers, traffic.Header{Name: []byte(x.Name), Value: []byte(x.Value)})
	})
	_, err := h.hp[d].Write(h.block[d]) // keep the decoded part
	if err = cmp.Or(err, h.hp[d].Close()); err != nil {
		event := "invalid_header"
		if strings.Contains(err.Error(), "varint") {
			event = "header_integer_overflow"
		}
		h.odd(t, dir, event)
	}
	get := func(n string) []byte { v, _ := side.Get(n); return v }
	side.Protocol = []byte("HTTP/2")
	if dir == rule.ToServer {
		side.Method, side.Target = get(":method"), get(":path")
		side.Line = bytes.Join([][]byte{side.Method, side.Target, side.Protocol}, []byte(" "))
		h.authority(t, side)
	} else {
		side.Code = get(":status")
		side.Line = bytes.Join([][]byte{side.Protocol, side.Code}, []byte(" "))
	}
	if v, ok := side.Get("content-type"); ok && string(v) == dnsMessage {
		t.tx.App |= rule.DOH
	} else if v, ok := side.Get("accept"); ok && string(v) == dnsMessage {
		t.tx.App |= rule.DOH
	}
	if string(side.Code) != "100" {
		side.At = max(side.At, rule.Headers)
	}
}

// take appends bytes of a body.
func (h *http2) take(t *httpTx, dir rule.Direction, b []byte) {
	d := index(dir)
	if t.body[d] == nil {
		coding, _ := t.http.Sides[d].Get("content-encoding")
		t.body[d] = body.New(string(coding), h.r.config.Layers, h.r.config.limit(dir))
	}
	t.size[d] += int64(len(b))
	t.body[d].Write(b)
}

// finish ends one side of a stream.
func (h *http2) finish(t *httpTx, dir rule.Direction) {
	d := index(dir)
	if t.done[d] {
		return
	}
	t.done[d] = true
	side := &t.http.Sides[d]
	if b := t.body[d]; b != nil {
		side.Body = b.Decoded()
		side.HasBody = len(side.Body) > 0
	}
	side.At = rule.Complete
	h.names(t, dir)
	// Frames such as WINDOW_UPDATE may follow the end of a message, until the
	// stream is closed.
	if h.inspect(t, dir, rule.Trailer); t.done[1-d] {
		h.inspect(t, rule.ToServer, rule.Complete)
		h.inspect(t, rule.ToClient, rule.Complete)
	}
}

// dnsMessage is the type of messages of DNS over HTTPS, RFC 8484.
const dnsMessage = "application/dns-message"

// names tries the rules on a message of DNS that a request or a response carries.
func (h *http2) names(t *httpTx, dir rule.Direction) {
	side := &t.http.Sides[index(dir)]
	kind, _ := side.Get("content-type")
	body := side.Body
	if _, query, ok := bytes.Cut(side.Target, []byte("?dns=")); ok && dir == rule.ToServer && string(side.Method) == "GET" {
		query, _, _ = bytes.Cut(query, []byte("&"))
		accept, _ := side.Get("accept")
		kind = accept
		body, _ = base64.RawURLEncoding.DecodeString(strings.TrimRight(string(query), "="))
	}
	if string(kind) != dnsMessage {
		return
	}
	t.tx.App |= rule.DOH
	if t.size[index(dir)] > maxName {
		h.odd(t, dir, "dns_"+messageKind(dir)+"_too_long")
		return
	}
	if len(body) >= traffic.DNSHeader {
		h.r.dns(h.f, dir, body)
	}
}

// maxName is the length of the longest message of DNS.
const maxName = 1<<16 - 1

// odd notes an anomaly of a stream.
func (h *http2) odd(t *httpTx, dir rule.Direction, event string) {
	if h.f.firstAnomaly(t, "http2."+event) {
		h.inspect(t, dir, max(rule.Line, t.http.Sides[index(dir)].At))
	}
}

// sizes are the lengths that frames of a kind have, by kind.
var sizes = map[uint8]int{2: 5, 3: 4, 8: 4}

// check notes what is wrong with a frame by itself.
func (h *http2) check(t *httpTx, dir rule.Direction, f frame) {
	n, fixed := sizes[f.kind]
	switch {
	case f.kind > 9:
		h.odd(t, dir, "invalid_frame_header")
	case fixed && len(f.body) != n, f.kind == 7 && len(f.body) < 8:
		h.odd(t, dir, "invalid_frame_length")
	case f.kind == 4 && len(f.body)%6 != 0, f.kind == 1 && f.flags&8 != 0 && (len(f.body) == 0 || int(f.body[0]) >= len(f.body)):
		h.odd(t, dir, "invalid_frame_data")
	case f.kind == 0 && f.stream == 0:
		h.odd(t, dir, "data_stream_zero")
	}
}

// authority notes what is wrong with the host that a request names.
func (h *http2) authority(t *httpTx, side *traffic.Side) {
	named, ok := side.Get(":authority")
	if !ok {
		return
	}
	if bytes.IndexByte(named, '@') >= 0 {
		h.odd(t, rule.ToServer, "userinfo_in_uri")
	}
	if host, ok := side.Get("host"); ok && !bytes.EqualFold(host, named) {
		h.odd(t, rule.ToServer, "authority_host_mismatch")
	}
}

func (h *http2) inspect(t *httpTx, dir rule.Direction, at rule.Progress) {
	h.r.inspect(t, t.tx, dir, at)
}
