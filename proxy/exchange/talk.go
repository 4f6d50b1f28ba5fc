package exchange

import (
	"bytes"
	"context"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"shuultuur/content"
	"shuultuur/filter"
	"shuultuur/message"
)

// This file is about conversations: bodies and upgraded connections that are
// messages without an end. A Talk is one direction of one. It passes a message
// on when all of it has come and was judged, with the recent text before it.

// freeMessage is how much of a message under way counts as held by nobody.
const freeMessage = 16 << 10

// mostMessage is how much of one message is kept back. Of a longer one, parts are
// judged and pass; where it cannot be read in parts, it is unread.
const mostMessage = 512 << 10

// A Protocol is how the messages of a conversation are framed.
type Protocol uint8

const (
	Events Protocol = iota // server-sent events
	Socket                 // WebSocket
	GRPC
	GRPCWeb
	Lines // of JSON
)

// A Talk judges the messages of one direction of a conversation. It belongs to
// one goroutine at a time.
type Talk struct {
	i      *Inspector
	e      *Engine
	base   *filter.Transaction // what was known when the conversation began: read only
	stage  filter.Stage        // RequestBody for the client's messages
	record func(*filter.Transaction)

	protocol Protocol
	framer   content.Framer
	window   content.Window
	known    []filter.Finding // of base
	noted    []filter.Reason  // monitoring rules that matched before

	pending []byte // of the message under way
	claimed int64
	midway  bool // a part of it has passed
	blind   bool // and what follows passes unread

	Verdict filter.Verdict   // with which it ended, the zero Verdict while it goes on
	Found   []filter.Finding // that led to it
	Looked  int64            // bytes of messages that were judged
}

// Talk returns what judges one direction of the conversation that x has begun.
// Messages on which a rule fits are recorded by themselves.
func (x *Exchange) Talk(s filter.Stage, p Protocol, f content.Framer, record func(*filter.Transaction)) *Talk {
	base := x.T
	base.Findings = append([]filter.Finding(nil), x.T.Findings...)
	return newTalk(x, &base, s, p, f, record)
}

func newTalk(x *Exchange, base *filter.Transaction, s filter.Stage, p Protocol, f content.Framer, record func(*filter.Transaction)) *Talk {
	return &Talk{i: x.in, e: x.Engine, base: base, stage: s, record: record, protocol: p, framer: f, known: slices.Clip(base.Findings)}
}

// judgement is what is needed while a message is judged.
type judgement struct {
	t    filter.Transaction
	body content.Body
	text []byte
}

var judgements = sync.Pool{New: func() any { return new(judgement) }}

// Pass takes the next bytes as they came and appends to dst what may go on now.
// over says that a verdict has ended the conversation: what dst then holds is
// the last that goes on, besides what [Talk.Last] says. Bytes that are no such
// conversation end it too.
func (k *Talk) Pass(ctx context.Context, dst, p []byte) (out []byte, over bool) {
	for len(p) > 0 {
		n, m, whole, err := k.framer.Next(p)
		piece := p[:n]
		p = p[n:]
		if err != nil {
			k.Verdict = filter.Verdict{Action: filter.Block, Reason: filter.Reason{Policy: k.base.Verdict.Reason.Policy,
				Finding: filter.Finding{Check: filter.Content, Category: filter.Unread, Evidence: "malformed: " + err.Error()}}}
			k.drop()
			return dst, true
		}
		w, socket := k.framer.(*content.WebSocket)
		if !whole || socket && m.Control && w.Midway() { // between the frames of a message: it passes with that
			var over bool
			if dst, over = k.keep(ctx, dst, piece); over {
				return dst, true
			}
			continue
		}
		switch pass := m.Control || k.judge(ctx, m); {
		case pass:
			dst = append(append(dst, k.pending...), piece...)
		case k.midway || !k.Verdict.Replace || k.protocol >= GRPC:
			k.drop()
			return dst, true
		default:
			dst = k.replacement(dst)
			k.Verdict, k.window = filter.Verdict{}, content.Window{}
		}
		k.drop()
	}
	return dst, false
}

// End appends to dst what is left of a message that the end of the conversation
// broke off, unless a verdict refuses it: who reads the bytes themselves sees
// it.
func (k *Talk) End(ctx context.Context, dst []byte) (out []byte, over bool) {
	if m := k.framer.Rest(); len(k.pending) > 0 || k.midway {
		if !k.judge(ctx, m) {
			k.drop()
			return dst, true
		}
	}
	dst = append(dst, k.pending...)
	k.drop()
	return dst, false
}

// keep keeps a piece of a message under way. Where there is no room for more, what
// came is judged and passes; over says that it does not.
func (k *Talk) keep(ctx context.Context, dst, piece []byte) (out []byte, over bool) {
	if k.blind {
		return append(dst, piece...), false
	}
	k.pending = append(k.pending, piece...)
	// The framer has the message too.
	if need := 2 * int64(cap(k.pending)); need > 2*freeMessage && need > k.claimed {
		if len(k.pending) <= mostMessage && k.i.budget.claim(k.base.Client.Addr, need-k.claimed) {
			k.claimed = need
			return dst, false
		}
		m, ok := k.framer.Part()
		if !ok { // a rule may say what is done about that
			m.Unread = content.TooLarge
			if len(k.pending) <= mostMessage {
				m.Unread = content.NoCapacity
			}
		}
		pass := k.judge(ctx, m)
		if pass {
			dst = append(dst, k.pending...)
		}
		begun := k.midway || pass
		k.pending = nil
		k.drop()
		k.midway, k.blind = begun, !ok
		return dst, !pass
	}
	return dst, false
}

// drop forgets the message under way.
func (k *Talk) drop() {
	if k.pending = k.pending[:0]; cap(k.pending) > freeMessage/4 {
		k.pending = nil // nothing is kept between messages, which may be far apart
	}
	if k.claimed > 0 {
		k.i.budget.give(k.base.Client.Addr, k.claimed)
		k.claimed = 0
	}
	k.midway, k.blind = false, false
}

// Close gives back what k holds.
func (k *Talk) Close() { k.drop() }

// judge has a message judged with the recent text before it, and says whether
// it may pass.
func (k *Talk) judge(ctx context.Context, m content.Message) bool {
	text, why := k.window.Add(m)
	if !text && why == content.AllRead {
		return true
	}
	defer k.window.Trim()
	if ok, _ := k.i.judges.Take(ctx, k.base.Client.Addr, 1, k.i.wait); !ok {
		why = content.NoCapacity
	} else {
		defer k.i.judges.Give(1)
	}
	k.i.counters[messages].Add(1)
	k.Looked += int64(len(m.Data))
	j := judgements.Get().(*judgement)
	defer judgements.Put(j)
	t := &j.t
	findings := append(t.Findings[:0], k.known...)
	*t = *k.base
	t.Findings, t.Verdict, t.Conversation = findings, filter.Verdict{}, k.base.ID
	t.Signatures, t.Body, t.Upload = nil, nil, nil
	t.Monitored = append([]filter.Reason(nil), k.noted...)
	if why != content.AllRead {
		k.i.unread[why].Add(1)
		t.Unread = strings.ReplaceAll(why.String(), " ", "-")
		t.Findings = append(t.Findings, filter.Finding{Check: filter.Content, Category: filter.Unread, Evidence: why.String() + ": a message of a conversation"})
	}
	j.text = k.window.AppendText(j.text[:0])
	j.body.ResetText(j.text)
	defer j.body.Release()
	if k.stage == filter.RequestBody {
		t.Upload, t.BytesIn = &j.body, int64(len(m.Data))
	} else {
		t.Body, t.BytesOut = &j.body, int64(len(m.Data))
	}
	v := k.e.Decider.Decide(ctx, t, k.stage)
	t.Body, t.Upload = nil, nil
	fresh := len(t.Monitored) > len(k.noted)
	if fresh {
		k.noted = append([]filter.Reason(nil), t.Monitored...)
	}
	if v.Final() {
		k.Verdict, k.Found = v, append([]filter.Finding(nil), t.Findings...)
		k.i.counters[messagesRefused].Add(1)
	}
	if (v.Final() || fresh) && k.record != nil {
		t.Looked, t.Length, t.Duration = int64(len(m.Data)), int64(len(m.Data)), time.Since(t.Start)
		k.record(t)
	}
	return !v.Final()
}

// why says in a few words why the conversation, or a message of it, was refused.
func (k *Talk) why() string {
	why := "blocked by the policy of this network"
	if c := k.Verdict.Reason.Finding.Category; c != "" {
		why += ": " + c
	}
	return why + " (" + k.base.ID + ")"
}

// replacement appends a message of ours in place of one that is refused.
func (k *Talk) replacement(dst []byte) []byte {
	k.i.counters[messagesReplaced].Add(1)
	text := "[" + oneLine(k.why()) + "]"
	if k.protocol == Events {
		return append(append(append(dst, "data: "...), text...), "\n\n"...)
	}
	return k.appendFrame(dst, 0x81, text)
}

// appendFrame appends a WebSocket frame (RFC 6455, 5.2). Those to servers are
// masked, with zeros.
func (k *Talk) appendFrame(dst []byte, first byte, payload string) []byte {
	dst = append(dst, first)
	var mask byte
	if k.stage == filter.RequestBody {
		mask = 0x80
	}
	if n := len(payload); n < 126 {
		dst = append(dst, mask|byte(n))
	} else {
		dst = binary.BigEndian.AppendUint16(append(dst, mask|126), uint16(n))
	}
	if mask != 0 {
		dst = append(dst, 0, 0, 0, 0)
	}
	return append(dst, payload...)
}

// policyViolation is the status of a WebSocket that a rule closes (RFC 6455,
// 7.4.1).
const policyViolation = 1008

// Last appends what ends this direction when a verdict on either has ended the
// conversation, with the reason: a Close frame, an event. It is nothing in the
// middle of a message.
func (k *Talk) Last(dst []byte, because *Talk) []byte {
	if k.midway {
		return dst
	}
	why := oneLine(because.why())
	switch k.protocol {
	case Events:
		return append(append(append(dst, "event: blocked\ndata: "...), why...), "\n\n"...)
	case Socket:
		why = why[:min(len(why), 123)]
		return k.appendFrame(dst, 0x88, string(binary.BigEndian.AppendUint16(nil, policyViolation))+strings.ToValidUTF8(why, ""))
	case GRPCWeb:
		trailer := "grpc-status: 7\r\ngrpc-message: " + percent(why) + "\r\n"
		dst = binary.BigEndian.AppendUint32(append(dst, 0x80), uint32(len(trailer)))
		return append(dst, trailer...)
	case Lines:
		return append(strconv.AppendQuote(append(dst, `{"error":`...), why), "}\n"...)
	}
	return dst
}

// percent is a grpc-message as it is sent (gRPC over HTTP/2, "Percent-Encoded").
func percent(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		if c < ' ' || c > '~' || c == '%' {
			b.WriteString("%" + strings.ToUpper(strconv.FormatUint(uint64(c)|0x100, 16)[1:]))
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}

// framing returns the protocol and framer of a body that is a conversation; ok
// is false where it is none.
func framing(h *content.Head, fields message.Fields) (p Protocol, f content.Framer, ok bool) {
	switch typ := h.Type(); {
	case typ == "text/event-stream":
		return Events, &content.Events{}, true
	case strings.HasPrefix(typ, "application/grpc-web"):
		return GRPCWeb, &content.GRPC{Coding: string(fields.Get("Grpc-Encoding")), Base64: strings.HasPrefix(typ, "application/grpc-web-text")}, true
	case strings.HasPrefix(typ, "application/connect+"): // messages are framed as those of gRPC
		return GRPCWeb, &content.GRPC{Coding: string(fields.Get("Connect-Content-Encoding"))}, true
	case strings.HasPrefix(typ, "application/grpc"):
		return GRPC, &content.GRPC{Coding: string(fields.Get("Grpc-Encoding"))}, true
	}
	return 0, nil, false
}

// extensions is the value of Sec-WebSocket-Extensions as it goes upstream: of
// what a client offers, only compression can be undone, and each message is to
// be compressed by itself, so that nothing has to be kept between them, and one
// can be replaced.
func extensions(x *Exchange, v []byte) []byte {
	start := len(x.scratch)
	for part := range bytes.SplitSeq(v, []byte(",")) {
		part = bytes.Trim(part, " \t")
		if name, _, _ := bytes.Cut(part, []byte(";")); !bytes.EqualFold(bytes.TrimSpace(name), []byte("permessage-deflate")) {
			continue
		}
		if len(x.scratch) > start {
			x.scratch = append(x.scratch, ", "...)
		}
		x.scratch = append(x.scratch, part...)
		for _, parameter := range [...]string{"server_no_context_takeover", "client_no_context_takeover"} {
			if !bytes.Contains(part, []byte(parameter)) {
				x.scratch = append(append(x.scratch, "; "...), parameter...)
			}
		}
	}
	if len(x.scratch) == start {
		return nil
	}
	return x.scratch[start:]
}

// Sockets returns what judges the two directions of the connection that s
// switches to; nil where it is no WebSocket, or nobody wants to see it.
func (x *Exchange) Sockets(s *message.Response, record func(*filter.Transaction)) (up, down *Talk) {
	if !bytes.EqualFold(s.Upgrade, []byte("websocket")) {
		return nil, nil
	}
	t := &x.T
	t.Response = s
	if !x.Wants(filter.ResponseBody) && !x.Wants(filter.RequestBody) {
		return nil, nil
	}
	deflate, takeover := false, true
	for i, f := range s.Fields {
		if !message.EqualName(f.Name, "sec-websocket-extensions") {
			continue
		}
		v := bytes.ToLower(f.Value)
		if !bytes.Contains(v, []byte("permessage-deflate")) {
			continue
		}
		deflate, takeover = true, takeover && !bytes.Contains(v, []byte("server_no_context_takeover"))
		if !bytes.Contains(v, []byte("client_no_context_takeover")) {
			s.Fields[i].Value = append(bytes.Clone(f.Value), "; client_no_context_takeover"...)
		}
	}
	// T stays as it is while the connection lasts, so it need not be copied.
	up = newTalk(x, t, filter.RequestBody, Socket, &content.WebSocket{Deflate: deflate}, record)
	down = newTalk(x, t, filter.ResponseBody, Socket, &content.WebSocket{Deflate: deflate, Takeover: takeover}, record)
	return up, down
}
