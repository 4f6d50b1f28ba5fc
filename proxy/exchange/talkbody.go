package exchange

import (
	"context"
	"io"

	"shuultuur/content"
	"shuultuur/content/conversation"
	"shuultuur/filter"
	"shuultuur/lib/message"
	"shuultuur/proxy/held"
)

// A talkBody is a body that is a conversation: its messages are forwarded one by one.
type talkBody struct {
	derivedBody
	ctx     context.Context
	x       *Exchange
	talk    *Talk
	decoder *content.Body // of its content coding, nil if there is none
	block   []byte
	in      []byte // buffer for received bytes
	out     []byte
	trailer message.Fields // ours
	err     error
}

// converse makes b the body of a conversation to judge, and reports whether it is one. A file that
// only says so, of which the beginning is at hand, is judged as a file.
func (x *Exchange) converse(ctx context.Context, s filter.Stage, h *content.Head, fields message.Fields, src message.Body) *talkBody {
	endless := s == filter.ResponseBody && src.Remaining() < 0
	p, f, ok := framing(h, fields, endless)
	if !ok || !h.Coded() && !begins(src, f) {
		return nil
	}
	p, f, _ = framing(h, fields, endless)
	b := &talkBody{ctx: ctx, x: x, talk: x.Talk(s, p, f, x.Record)}
	b.src, b.fill = src, b.next
	if h.Coded() {
		b.decoder = new(content.Body)
		b.decoder.Reset(h, x.in.limits(&held.Windows{Memory: x.in.budget, Client: x.T.Client.Addr}))
	}
	x.talks = append(x.talks, b)
	return b
}

// begins reports whether the bytes of src at hand are the beginning of a conversation.
func begins(src message.Body, f conversation.Framer) bool {
	for _, p := range src.Ready(nil) {
		for len(p) > 0 {
			n, _, _, err := f.Next(p)
			if err != nil {
				return false
			}
			p = p[n:]
		}
	}
	return true
}

// next reads until messages may be forwarded, or the body is over.
func (b *talkBody) next() error {
	if b.block == nil {
		b.block = b.x.in.budget.Block(held.Medium)
	}
	for b.ready.Remaining() == 0 && !b.over {
		if b.err != nil {
			return b.err
		}
		n, err := b.src.Read(b.block[:cap(b.block)])
		b.out = b.out[:0]
		refused := false
		if n > 0 {
			refused = b.pass(b.block[:n])
		}
		if !refused && (err == io.EOF || b.src.AtEnd()) {
			b.over = true
			b.out, refused = b.talk.End(b.ctx, b.out)
		}
		switch {
		case refused:
			b.out = b.talk.AppendEnd(b.out, b.talk)
			if b.over = b.talk.protocol != GRPC || b.talk.stage == filter.ResponseBody; !b.over {
				b.err = ErrCut
			}
			b.trailer = message.Fields{
				{Name: []byte("grpc-status"), Value: []byte("7")},
				{Name: []byte("grpc-message"), Value: []byte(percent(b.talk.reason()))},
			}
		case b.over:
		case err != nil:
			b.err = err
		}
		b.ready.Set(b.out)
	}
	return nil
}

// pass judges received bytes, after decoding their content coding.
func (b *talkBody) pass(p []byte) (refused bool) {
	if b.decoder == nil {
		b.out, refused = b.talk.Pass(b.ctx, b.out, p)
		return refused
	}
	b.decoder.Append(p)
	for !refused {
		q, err := b.decoder.Next()
		if len(q) > 0 {
			b.out, refused = b.talk.Pass(b.ctx, b.out, q)
		}
		if err != nil && err != io.EOF {
			b.err = err
		}
		if q == nil || err != nil {
			break
		}
	}
	b.decoder.Forget()
	return refused
}

// free releases everything that b holds, and stores the verdict that ended it in the
// transaction of x.
func (b *talkBody) free() {
	if b.block != nil {
		b.x.in.budget.Free(b.block)
		b.block = nil
	}
	if b.decoder != nil {
		b.decoder.Release()
	}
	b.talk.Close()
	b.x.Conclude(b.talk)
}

// Conclude records the verdict that ended a conversation, if any. Nobody may be using k any
// more.
func (x *Exchange) Conclude(k *Talk) {
	t := &x.T
	if k.stage == filter.ResponseBody {
		t.Looked += k.looked
	}
	if k.refusal != nil && !t.Verdict.Final() {
		t.Verdict = k.refusal.verdict
		t.Findings = append(t.Findings[:0], k.refusal.found...)
		x.Note("conversation closed")
	}
}

// Trailer implements [message.Body].
func (b *talkBody) Trailer() message.Fields {
	if b.trailer != nil {
		return b.trailer
	}
	return b.src.Trailer()
}
