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
	"shuultuur/content/conversation"
	"shuultuur/filter"
	"shuultuur/lib/message"
	"shuultuur/proxy/judging"
)

// This file handles conversations: bodies and upgraded connections that are endless series of
// messages. A Talk is one direction of a conversation. It forwards a message when all of it
// has arrived and was judged together with the recent text before it.

// freeMessage is the number of bytes of an incomplete message that count for no client.
const freeMessage = 16 << 10

// mostMessage is the number of bytes of one message that are held. Parts of a longer one are
// judged and forwarded; if it cannot be read in parts, it is unread.
const mostMessage = 512 << 10

// A Protocol is the framing of the messages of a conversation.
type Protocol uint8

const (
	Events Protocol = iota // server-sent events
	Socket                 // WebSocket
	GRPC
	GRPCWeb
	Lines // JSON
)

// in says in what messages something is.
func (p Protocol) in() string {
	switch p {
	case Socket:
		return " in a WebSocket"
	case GRPC, GRPCWeb:
		return " in the messages of gRPC"
	}
	return " in a stream of messages"
}

// A Talk judges the messages of one direction of a conversation. It belongs to one goroutine
// at a time.
type Talk struct {
	i      *Inspector
	e      *Engine
	base   *filter.Transaction // state when the conversation began: read only
	stage  filter.Stage        // RequestBody for the client's messages
	record func(*filter.Transaction)

	protocol Protocol
	framer   conversation.Framer
	window   conversation.Window
	inside   conversation.Recogniser // of connections in it
	known    []filter.Finding        // of base
	noted    []filter.Reason         // monitoring rules that matched before

	pending []byte // of the incomplete message
	claimed int64
	midway  bool // a part of it was forwarded
	blind   bool // and the rest is forwarded unread

	refusal *refusal // the verdict that ended it, nil before
	looked  int64    // bytes of messages that were judged
}

// A refusal is the verdict on a message that may not pass.
type refusal struct {
	verdict filter.Verdict
	found   []filter.Finding // findings that led to it
	invalid uint16           // the status that a WebSocket whose peer breaks the protocol is closed with; 0 for a refusal by the policy
}

// invalid refuses what breaks the protocol, whatever the policy says.
func (k *Talk) invalid(err error) {
	status := uint16(protocolError)
	if err == conversation.ErrText {
		status = invalidData
	}
	k.i.counters[messagesRefused].Add(1)
	k.refusal = &refusal{invalid: status, verdict: filter.Verdict{Action: filter.Block, Reason: filter.Reason{Policy: k.base.Verdict.Reason.Policy,
		Finding: filter.Finding{Check: "proxy", Category: "refused", Evidence: "malformed: " + err.Error()}}}}
	k.drop()
}

// Talk returns a Talk for one direction of the conversation that x has begun. Messages that
// match a rule are recorded separately.
func (x *Exchange) Talk(s filter.Stage, p Protocol, f conversation.Framer, record func(*filter.Transaction)) *Talk {
	base := x.T
	base.Findings = append([]filter.Finding(nil), x.T.Findings...)
	return newTalk(x, &base, s, p, f, record)
}

func newTalk(x *Exchange, base *filter.Transaction, s filter.Stage, p Protocol, f conversation.Framer, record func(*filter.Transaction)) *Talk {
	return &Talk{i: x.in, e: x.Engine, base: base, stage: s, record: record, protocol: p, framer: f, known: slices.Clip(base.Findings)}
}

// A judgement is the memory for judging a message.
type judgement struct {
	t     filter.Transaction
	body  content.Body
	text  []byte
	limit judging.Limit
}

var judgements = sync.Pool{New: func() any { return new(judgement) }}

// Pass gets the next bytes as received and appends to dst the bytes to forward now. over
// reports that a verdict has ended the conversation: dst then has the last bytes to forward,
// apart from those of [Talk.AppendEnd]. Bytes that are not such a conversation end it too.
func (k *Talk) Pass(ctx context.Context, dst, p []byte) (out []byte, over bool) {
	var b *batch
	for len(p) > 0 {
		n, m, whole, err := k.framer.Next(p)
		piece := p[:n]
		p = p[n:]
		if err != nil {
			whole, m = false, conversation.Message{}
		}
		around, evidence := "", ""
		if whole || m.Control {
			around, evidence = k.inside.Look(m)
		}
		joins := whole && around == "" && k.mayJoin(m) && (b != nil || len(p) > 0)
		if joins {
			if b == nil {
				b = k.newBatch(len(dst))
			}
			dst = append(append(dst, k.pending...), piece...)
			k.drop()
			k.join(b, m, len(dst))
		}
		if b != nil && (!joins || len(p) == 0 || len(b.data) >= mostBatch || len(b.messages) == mostJoined) {
			dst, over = k.judgeBatch(ctx, dst, b)
			if b = nil; over {
				return dst, true
			}
		}
		switch {
		case joins:
		case err != nil:
			k.invalid(err)
			return dst, true
		default:
			if dst, over = k.passOne(ctx, dst, piece, m, whole, around, evidence); over {
				return dst, true
			}
		}
	}
	return dst, false
}

// passOne passes on one message, or holds a piece of one.
func (k *Talk) passOne(ctx context.Context, dst, piece []byte, m conversation.Message, whole bool, around, evidence string) (out []byte, over bool) {
	if m.Control && len(m.Data) > 0 && !k.judge(ctx, m, around, evidence) {
		k.drop()
		return dst, true
	}
	w, socket := k.framer.(*conversation.WebSocket)
	if !whole || socket && m.Control && w.InMessage() { // between the frames of a message: it is forwarded with that
		return k.holdPiece(ctx, dst, piece)
	}
	switch pass := m.Control || k.judge(ctx, m, around, evidence); {
	case pass:
		dst = append(append(dst, k.pending...), piece...)
	case k.midway || !k.refusal.verdict.Replace || k.protocol >= GRPC:
		k.drop()
		return dst, true
	default:
		dst = k.replacement(dst)
		k.refusal, k.window = nil, conversation.Window{}
	}
	k.drop()
	return dst, false
}

// mostBatch is the number of bytes of messages from which no more are judged together, mostJoined that of
// messages.
const (
	mostBatch  = 4 << 10
	mostJoined = 64
)

// A batch is a few whole messages that arrived together. They are judged as one, because judging looks
// at all of the recent text again; only if that finds anything, they are judged one by one.
type batch struct {
	before   conversation.Window
	messages []joined
	data     []byte // of the messages
	from     int    // where they begin in what is forwarded
	texts    int    // messages with text, and their length
	length   int64
}

type joined struct {
	conversation.Message
	end int // of it in what is forwarded
}

var batches = sync.Pool{New: func() any { return new(batch) }}

func (k *Talk) newBatch(from int) *batch {
	b := batches.Get().(*batch)
	b.before.Set(&k.window)
	b.messages, b.data, b.from, b.texts, b.length = b.messages[:0], b.data[:0], from, 0, 0
	return b
}

// mayJoin reports whether a whole message may be judged with others.
func (k *Talk) mayJoin(m conversation.Message) bool {
	return !m.Control && !k.midway && m.Unread == content.AllRead && len(m.Data)+len(m.Aside) <= mostBatch
}

// join adds a message to b.
func (k *Talk) join(b *batch, m conversation.Message, end int) {
	at := len(b.data)
	b.data = append(append(b.data, m.Data...), m.Aside...)
	m.Data, m.Aside = b.data[at:at+len(m.Data)], b.data[at+len(m.Data):]
	b.messages = append(b.messages, joined{m, end})
	if text, _ := k.window.Add(m); text {
		b.texts++
		b.length += int64(len(m.Data))
	}
}

// judgeBatch judges the messages of b, which are the last in dst, and leaves there what passes.
func (k *Talk) judgeBatch(ctx context.Context, dst []byte, b *batch) (out []byte, over bool) {
	defer batches.Put(b)
	pass := b.texts == 0 || k.decide(ctx, b.length, content.AllRead, "", "", true)
	k.window.Trim()
	if pass {
		k.i.counters[messages].Add(int64(b.texts))
		k.looked += b.length
		return dst, false
	}
	k.window.Set(&b.before)
	arrived := bytes.Clone(dst[b.from:])
	dst = dst[:b.from]
	at := b.from
	for _, m := range b.messages {
		piece := arrived[at-b.from : m.end-b.from]
		at = m.end
		if dst, over = k.passOne(ctx, dst, piece, m.Message, true, "", ""); over {
			return dst, true
		}
	}
	return dst, false
}

// End appends to dst the rest of a message that is incomplete at the end of the conversation,
// unless a verdict refuses it, because readers of the raw bytes see it.
func (k *Talk) End(ctx context.Context, dst []byte) (out []byte, over bool) {
	if m := k.framer.Finish(); len(k.pending) > 0 || k.midway {
		if around, evidence := k.inside.Look(m); !k.judge(ctx, m, around, evidence) {
			k.drop()
			return dst, true
		}
	}
	dst = append(dst, k.pending...)
	k.drop()
	return dst, false
}

// holdPiece holds a piece of an incomplete message. If there is no more room, the part so far is
// judged and forwarded; over reports that it was refused.
func (k *Talk) holdPiece(ctx context.Context, dst, piece []byte) (out []byte, over bool) {
	if k.blind {
		return append(dst, piece...), false
	}
	k.pending = append(k.pending, piece...)
	// The framer also holds the message.
	if need := 2 * int64(cap(k.pending)); need > 2*freeMessage && need > k.claimed {
		if len(k.pending) <= mostMessage && k.i.budget.Claim(k.base.Client.Addr, need-k.claimed) {
			k.claimed = need
			return dst, false
		}
		m, ok := k.framer.Part()
		if !ok { // rules may decide about that
			m.Unread = content.TooLarge
			if len(k.pending) <= mostMessage {
				m.Unread = content.NoCapacity
			}
		}
		around, evidence := k.inside.Look(m)
		pass := k.judge(ctx, m, around, evidence)
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

// drop drops the incomplete message.
func (k *Talk) drop() {
	if k.pending = k.pending[:0]; cap(k.pending) > freeMessage/4 {
		k.pending = nil // keep nothing between messages, which may be far apart
	}
	if k.claimed > 0 {
		k.i.budget.Return(k.base.Client.Addr, k.claimed)
		k.claimed = 0
	}
	k.midway, k.blind = false, false
}

// Close releases everything that k holds.
func (k *Talk) Close() { k.drop() }

// judge judges a message together with the recent text before it, and reports whether it may
// pass. around is the kind of the connection that is in it, if any.
func (k *Talk) judge(ctx context.Context, m conversation.Message, around, evidence string) bool {
	text, why := k.window.Add(m)
	if !text && why == content.AllRead && around == "" {
		return true
	}
	defer k.window.Trim()
	k.i.counters[messages].Add(1)
	k.looked += int64(len(m.Data))
	return k.decide(ctx, int64(len(m.Data)), why, around, evidence, false)
}

// decide judges the recent text, with length bytes that are new. A try records nothing, and passes only
// if there is nothing to record.
func (k *Talk) decide(ctx context.Context, length int64, why content.Reason, around, evidence string, try bool) bool {
	turn, _ := k.i.judges.Acquire(ctx, k.base.Client.Addr, 1, k.i.wait)
	if !turn {
		why = content.NoCapacity
	}
	j := judgements.Get().(*judgement)
	defer judgements.Put(j)
	t := &j.t
	findings := append(t.Findings[:0], k.known...)
	*t = *k.base
	t.Findings, t.Verdict, t.Conversation = findings, filter.Verdict{}, k.base.ID
	t.Signatures, t.Body, t.Upload, t.Minutes = nil, nil, nil, nil
	t.Monitored = append([]filter.Reason(nil), k.noted...)
	if why != content.AllRead {
		k.i.unread[why].Add(1)
		t.Unread = strings.ReplaceAll(why.String(), " ", "-")
		t.Findings = append(t.Findings, filter.Finding{Check: filter.Content, Category: filter.Unread, Evidence: why.String() + ": a message of a conversation"})
	}
	if around != "" {
		t.Findings = append(t.Findings, filter.Finding{Check: conversation.Around, Category: around, Evidence: evidence + k.protocol.in()})
	}
	j.text = k.window.AppendText(j.text[:0])
	j.body.ResetText(j.text)
	defer j.body.Release()
	j.limit.Prepare(ctx, k.i.watch, k.base, nil)
	j.body.Bound(j.limit.Over)
	k.i.watch.Begin(&j.limit, length, turn)
	defer func() {
		if k.i.watch.Finish(&j.limit) {
			k.i.judges.Release(1)
		}
		j.limit.Reset()
	}()
	if k.stage == filter.RequestBody {
		t.Upload, t.BytesIn = &j.body, length
	} else {
		t.Body, t.BytesOut = &j.body, length
	}
	k.e.Decider.Decide(&j.limit, t, k.stage)
	v := &t.Verdict
	t.Body, t.Upload = nil, nil
	fresh := len(t.Monitored) > len(k.noted)
	if try && (v.Final() || fresh) {
		return false
	}
	if fresh {
		k.noted = append([]filter.Reason(nil), t.Monitored...)
	}
	if v.Final() {
		k.refusal = &refusal{verdict: *v, found: append([]filter.Finding(nil), t.Findings...)}
		k.i.counters[messagesRefused].Add(1)
	}
	if (v.Final() || fresh) && k.record != nil {
		t.Looked, t.Length, t.Duration = length, length, time.Since(t.Start)
		k.record(t)
	}
	return !v.Final()
}

// reason returns a short reason why the conversation, or a message of it, was refused.
func (k *Talk) reason() string {
	why := "blocked by the policy of this network"
	if k.refusal != nil && k.refusal.invalid > 0 {
		return k.refusal.verdict.Reason.Finding.Evidence + " (" + k.base.ID + ")"
	}
	if k.refusal != nil && k.refusal.verdict.Reason.Finding.Category != "" {
		why += ": " + k.refusal.verdict.Reason.Finding.Category
	}
	return why + " (" + k.base.ID + ")"
}

// replacement appends our message in place of a refused one.
func (k *Talk) replacement(dst []byte) []byte {
	k.i.counters[messagesReplaced].Add(1)
	text := "[" + fieldValue(k.reason()) + "]"
	if k.protocol == Events {
		return append(append(append(dst, "data: "...), text...), "\n\n"...)
	}
	return k.appendFrame(dst, 0x81, text)
}

// appendFrame appends a WebSocket frame (RFC 6455 section 5.2). Frames to servers are masked
// with zeros.
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

// Status with which a WebSocket is closed (RFC 6455 section 7.4.1).
const (
	protocolError   = 1002
	invalidData     = 1007
	policyViolation = 1008 // by a rule
	tooBig          = 1009
)

// status returns the one for the end of the conversation.
func (r *refusal) status() uint16 {
	switch {
	case r == nil:
	case r.invalid > 0:
		return r.invalid
	case r.verdict.Reason.Finding.Category == filter.UnreadLarge:
		return tooBig
	}
	return policyViolation
}

// AppendEnd appends the end of this direction, with the reason, when a verdict on either direction
// has ended the conversation: a Close frame, or an event. In the middle of a message it
// appends nothing.
func (k *Talk) AppendEnd(dst []byte, because *Talk) []byte {
	if k.midway {
		return dst
	}
	why := fieldValue(because.reason())
	switch k.protocol {
	case Events:
		return append(append(append(dst, "event: blocked\ndata: "...), why...), "\n\n"...)
	case Socket:
		why = why[:min(len(why), 123)]
		return k.appendFrame(dst, 0x88, string(binary.BigEndian.AppendUint16(nil, because.refusal.status()))+strings.ToValidUTF8(why, ""))
	case GRPCWeb:
		trailer := "grpc-status: 7\r\ngrpc-message: " + percent(why) + "\r\n"
		dst = binary.BigEndian.AppendUint32(append(dst, 0x80), uint32(len(trailer)))
		return append(dst, trailer...)
	case Lines:
		return append(strconv.AppendQuote(append(dst, `{"error":`...), why), "}\n"...)
	}
	return dst
}

// percent encodes a grpc-message (gRPC over HTTP/2, "Percent-Encoded").
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

// framing returns the protocol and framer of a body that is a conversation; otherwise ok is
// false. endless says that it is generated while it is sent.
func framing(h *content.Head, fields message.Fields, endless bool) (p Protocol, f conversation.Framer, ok bool) {
	switch typ := h.Type(); {
	case typ == "text/event-stream":
		return Events, &conversation.Events{}, true
	case strings.HasPrefix(typ, "application/grpc-web"):
		return GRPCWeb, &conversation.GRPC{Coding: string(fields.Get("Grpc-Encoding")), Base64: strings.HasPrefix(typ, "application/grpc-web-text")}, true
	case strings.HasPrefix(typ, "application/connect+"): // framed like gRPC
		return GRPCWeb, &conversation.GRPC{Coding: string(fields.Get("Connect-Content-Encoding"))}, true
	case strings.HasPrefix(typ, "application/grpc"):
		return GRPC, &conversation.GRPC{Coding: string(fields.Get("Grpc-Encoding"))}, true
	case h.Lines() && endless:
		return Lines, &conversation.Lines{}, true
	}
	return 0, nil, false
}

// extensions returns the value of Sec-WebSocket-Extensions to send upstream. Of a client's
// offers, only compression is supported. Each message must be compressed separately, so that
// nothing needs to be kept between messages, and single messages can be replaced.
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

// begin adds the names of subprotocols to the text, which are judged with the first message: programs
// read them.
func (k *Talk) begin(fields message.Fields) {
	for i := range fields {
		if message.EqualName(fields[i].Name, "sec-websocket-protocol") {
			k.window.Add(conversation.Message{Text: true, Data: fields[i].Value})
			k.inside.Agreed(fields[i].Value)
		}
	}
}

// Sockets returns a Talk for each direction of the connection to which s switches; nil if it
// is not a WebSocket, or no check inspects it.
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
	// T does not change while the connection lasts, so it need not be copied.
	up = newTalk(x, t, filter.RequestBody, Socket, &conversation.WebSocket{Deflate: deflate}, record)
	down = newTalk(x, t, filter.ResponseBody, Socket, &conversation.WebSocket{Deflate: deflate, Takeover: takeover}, record)
	up.begin(t.Request.Fields)
	down.begin(s.Fields)
	return up, down
}
