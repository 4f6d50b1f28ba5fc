package proxy

import (
	"errors"
	"io"
	"strconv"
	"time"

	"shuultuur/content"
	"shuultuur/filter"
	"shuultuur/message"
)

// This file is what happens to a body that somebody wants to see.

const (
	firstAsk = 128 << 10        // room taken for a body of unknown length
	slowHold = 10 * time.Second // after which a body held gives back room it does not use
)

// fill reads body into h until it is complete or limit is reached; complete
// says which. ok false means that an answer is out or the client is gone.
func (x *session) fill(h *hold, body *message.Body, limit int64, alive func(now time.Time)) (complete bool, err error) {
	ask := int64(firstAsk)
	if left := body.Left(); left >= 0 {
		ask = left
	}
	h.who = x.t.Client.Addr
	switch ok, waited := h.claim(x.ctx, min(ask, limit), x.p.cfg.QueueTime); {
	case !ok:
		return false, errNoRoom
	case waited && x.abandoned():
		return false, errGone
	}
	start, shrunk := time.Now(), false
	for now := start; !body.Done() && h.n < limit; now = time.Now() {
		left := body.Left()
		if left < 0 {
			left = large
		}
		left = min(left, limit-h.n)
		p := h.grow(x.ctx, left, 0)
		if p == nil {
			return false, errFull
		}
		alive(now)
		n, err := body.Read(p[:min(int64(len(p)), limit-h.n)])
		h.wrote(n)
		if err == io.EOF {
			break
		}
		if err != nil {
			return false, err
		}
		if !shrunk && now.Sub(start) > slowHold {
			shrunk = true
			h.shrink()
		}
	}
	return body.Done(), nil
}

var (
	errNoRoom = errors.New("no room to hold a body within queue-time")
	errFull   = errors.New("no room to hold more of a body")
	errNoTurn = errors.New("no turn to judge a body within queue-time")
	errGone   = errors.New("client went away before its body was judged")
)

// noRoom answers when a body had to be seen and there was no memory for it.
func (x *session) noRoom(why error) bool {
	return x.fail(503, "The proxy has too much to look at. Try again in a moment.", why.Error())
}

// judgeUpload holds the request's body and has it judged. ok false means that
// the request goes no further.
func (x *session) judgeUpload() (ok, more bool) {
	q, t, body := &x.q, &x.t, x.requestBody()
	if q.Expect {
		if _, err := x.c.Write([]byte("HTTP/1.1 100 Continue\r\n\r\n")); err != nil {
			return false, x.lostClient(err)
		}
		x.continued = true
	}
	complete, err := x.fill(&x.in, body, x.p.cfg.Held, func(now time.Time) { x.arm(now, x.p.cfg.Answer) })
	t.BytesIn = x.in.n
	switch {
	case err == errNoRoom:
		return false, x.noRoom(err)
	case err == errGone:
		return false, false
	case err == errFull:
		x.note("held-total reached: upload judged in part")
	case err != nil:
		if e, is := errors.AsType[*message.Error](err); is {
			x.p.counters.bad.Add(1)
			x.lost = true
			return false, x.fail(400, "The body of the request is malformed: "+e.Reason+".", "request body refused: "+e.Reason)
		}
		return false, x.lostClient(err)
	}
	x.upload.Reset(q.Get("Content-Type"), q.Get("Content-Encoding"), content.Limits{})
	t.Upload = &x.upload
	for _, b := range x.in.blocks {
		x.upload.Append(b)
	}
	if complete {
		x.upload.Finish()
	} else {
		x.p.counters.partial.Add(1)
		x.note("upload judged by its first " + strconv.FormatInt(x.in.n, 10) + " bytes")
	}
	pass, err := x.judge(filter.RequestBody, x.p.cfg.QueueTime)
	if err == errNoTurn {
		return false, x.noRoom(err)
	} else if err != nil {
		return false, false
	}
	x.upload.Release()
	t.Upload = nil
	if !pass {
		return false, x.obey()
	}
	return true, false
}

// judge has a body judged, when it is its turn: there is no point in starting
// more judgements than there are processors. It waits for that at most wait,
// and fails with errNoTurn, or errGone when the client went away meanwhile and
// nobody needs to know any more.
func (x *session) judge(s filter.Stage, wait time.Duration) (pass bool, err error) {
	p := x.p
	switch ok, waited := p.judges.take(x.ctx, x.t.Client.Addr, 1, wait); {
	case !ok && x.ctx.Err() != nil:
		return false, errGone
	case !ok:
		return false, errNoTurn
	case waited && x.abandoned():
		p.judges.give(1)
		return false, errGone
	}
	defer p.judges.give(1)
	p.counters.judged.Add(1)
	return x.decide(s), nil
}

// abandoned says whether the client has gone while it waited: under load
// nobody works for who has left. A client that only ended its own side looks
// the same, so without load it gets its answer.
func (x *session) abandoned() bool {
	if !x.gone() {
		return false
	}
	x.p.counters.abandoned.Add(1)
	x.note(errGone.Error())
	return true
}

// judgeBody holds the response's body, has it judged and passes it on.
func (x *session) judgeBody() (more bool) {
	s, t, body, h := &x.s, &x.t, x.responseBody(), &x.down
	complete, err := x.fill(h, body, x.p.cfg.Held, func(now time.Time) { x.up.arm(now, x.p.cfg.Answer) })
	switch {
	case err == errNoRoom:
		return x.noRoom(err)
	case err == errGone:
		return false
	case err == errFull:
		x.note("held-total reached: body judged piece by piece")
	case err != nil:
		return x.upstreamError(err)
	}
	x.body.Reset(s.Get("Content-Type"), s.Get("Content-Encoding"), content.Limits{})
	t.Body = &x.body
	for _, b := range h.blocks {
		x.body.Append(b)
	}
	if complete {
		x.body.Finish()
	}
	t.Looked = h.n
	pass, err := x.judge(filter.ResponseBody, x.p.cfg.QueueTime)
	if err == errNoTurn {
		return x.noRoom(err)
	} else if err != nil {
		return false
	}
	if complete {
		x.reuse()
	}
	if !pass {
		return x.obey()
	}

	framing, keep := x.framing(x.keep())
	x.responseHead(framing, false, keep)
	t.Status = s.Status
	x.started = true
	if complete {
		x.yield() // a client that is slow to read keeps nobody out
	}
	if err := x.writePiece(x.c, framing, h.blocks, h.n, complete, s.Trailer); err != nil {
		return x.lostClient(err)
	}
	t.BytesOut = h.n
	if complete {
		return keep
	}
	x.p.counters.partial.Add(1)
	x.body.Forget()
	if t.Verdict.Action == filter.Allow {
		h.free()
		return x.deliverRest(framing, body, keep)
	}
	return x.judgeRest(framing, body, keep)
}

// judgeRest passes on a body of which a part is out already, piece by piece,
// each seen before it leaves. The last piece waits for the last judgement: if
// the body tips, the client does not have it whole.
func (x *session) judgeRest(framing int64, body *message.Body, keep bool) (more bool) {
	t := &x.t
	now, before := x.down.pair()
	next := 2 * t.Looked
	for !body.Done() {
		x.up.arm(time.Now(), x.p.cfg.Answer)
		n, err := body.Read(now[:cap(now)])
		if err != nil && err != io.EOF {
			return x.cut(err)
		}
		if n == 0 {
			continue
		}
		now = now[:n]
		x.body.Append(now)
		x.body.Forget()
		t.Looked += int64(n)
		if t.Looked >= next {
			next = 2 * t.Looked
			if pass, err := x.judge(filter.ResponseBody, forever); err != nil {
				return false
			} else if !pass {
				return x.tipped()
			}
		}
		if len(before) > 0 {
			if err := x.pass(framing, before, false); err != nil {
				return x.lostClient(err)
			}
		}
		before, now = now, before[:0]
		if t.Verdict.Action == filter.Allow {
			if err := x.pass(framing, before, body.Done()); err != nil {
				return x.lostClient(err)
			}
			return x.deliverRest(framing, body, keep)
		}
	}
	x.body.Finish()
	if pass, err := x.judge(filter.ResponseBody, forever); err != nil {
		return false
	} else if !pass {
		return x.tipped()
	}
	if err := x.pass(framing, before, true); err != nil {
		return x.lostClient(err)
	}
	x.reuse()
	return keep
}

// pass writes one piece of a body to the client.
func (x *session) pass(framing int64, b []byte, last bool) error {
	x.vec = append(x.vec[:0], b)
	err := x.writePiece(x.c, framing, x.vec, int64(len(b)), last, x.s.Trailer)
	x.t.BytesOut += int64(len(b))
	return err
}

// tipped cuts a response that turned out to be unwanted when a part of it was
// out already.
func (x *session) tipped() bool {
	x.p.counters.cut.Add(1)
	x.countVerdict()
	x.note("cut after " + strconv.FormatInt(x.t.BytesOut, 10) + " bytes: " + x.t.Verdict.Action.String() + " when more of the body was known")
	return x.cut(nil)
}
