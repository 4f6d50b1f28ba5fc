package exchange

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"shuultuur/content"
	"shuultuur/filter"
	"shuultuur/lib/fair"
	"shuultuur/lib/message"
	"shuultuur/proxy/held"
	"shuultuur/proxy/judging"
)

const (
	// tail is the number of bytes held back of a body that passes piece by piece, so that the
	// bytes that change the verdict do not pass.
	tail = 4 << 10
	// judgeStep is the number of further bytes after which a body is judged again.
	judgeStep = 4 << 10
	// ahead is the number of bytes that are read before the client takes them, of a body that
	// passes piece by piece.
	ahead = 128 << 10
	// keptStep is the number of further bytes after which a body is judged again while a check
	// awaits its end.
	keptStep = 64 << 10
	// endlessPatience is the patience for endless bodies.
	endlessPatience = 300 * time.Millisecond
)

// Errors of inspecting a body, in addition to those of the body itself.
var (
	ErrRefused = errors.New("the body was refused")
	ErrCut     = error(cutError{})
	ErrGone    = errors.New("client went away before its body was judged")
	errNoRoom  = errors.New("no room to hold a body within queue-time")
	errNoTurn  = errors.New("no turn to judge a body within queue-time")
	errFull    = errors.New("no room to hold more of a body")
)

// A cutError is [ErrCut].
type cutError struct{}

func (cutError) Error() string { return "the verdict on the body changed after a part had been sent" }

// OfBody says that the connection is intact.
func (cutError) OfBody() {}

// An inspection is a body that checks read before its reader does.
//
// It has two ends. One reads the source into the hold: at first the caller, and when the
// caller must not wait any longer, a goroutine (feed.go). The other shows the bytes to the
// checks, judges them, and releases them to the reader (body.go). Positions count from the
// beginning of the body.
type inspection struct {
	feed
	x       *Exchange
	t       *filter.Transaction // the judged transaction
	own     filter.Transaction  // copy of it, while x.T is used for something else
	stage   filter.Stage
	content content.Body
	limit   judging.Limit // of its judgements
	windows held.Windows
	behind  *content.Body // the released part of a coded page, decoded in order to end it

	seen      int64              // position up to which checks have read
	judged    int64              // position up to which it was judged
	sent      int64              // position up to which it was released
	ready     message.MemoryBody // released and not yet read
	awaited   bool               // a check awaits its end, so that nothing is released
	asked     bool               // checks were asked
	headFirst bool               // the source may end only after the head was released
	begun     bool               // the head of the response was released before it was judged
	store     store              // the beginning of a kept body that memory has no room for
	open      bool               // no check needs the rest
	aside     bool               // a goroutine reads the client's connection, so that nobody else may
	barren    bool               // because there is nothing in it to inspect
	over      bool               // the source has ended and all of it is released
	failed    error              // returned when ready is empty
	noticed   bool               // its reader is told that the rest is missing
	trickles  bool               // it is judged in a goroutine of a trickle, on its own copy of T
	notes     string             // for T, of that goroutine
	first     []byte             // what a trickle may send of a body that is in a file; guarded by mu
	waits     atomic.Bool        // a check awaits the end, or another server

	unclosed bool // src must be closed at the end
	vec      [][]byte
}

// InspectRequest holds the request's body and judges it. On success Q.Body is the body to send
// upstream: if it is larger than may be held, the rest is judged as it passes. So is that of a body
// whose length nobody knows, once the patience of the policy is over: the client may send the rest
// only after a part of the answer. Answer returns a response to errors, except to those of the body
// itself.
func (x *Exchange) InspectRequest(ctx context.Context) error {
	b, q, t := &x.upload, &x.Q, &x.T
	h := t.Sent()
	if talk := x.converse(ctx, filter.RequestBody, h, q.Fields, q.Body); talk != nil {
		q.Body = talk
		return nil
	}
	b.begin(x, ctx, q.Body, filter.RequestBody)
	b.content.Reset(h, x.in.limits(&b.windows))
	t.Upload = &b.content
	patience := time.Duration(0)
	if q.Body.Remaining() < 0 && q.Get("Content-Length") == nil {
		patience = patienceFor(t, h)
	}
	full, err := b.fill(patience)
	b.aside = b.pumping
	if end, done, _, _ := b.state(); err == nil {
		if b.begun = end == 0 && !done; !b.begun {
			err = b.advance()
		}
	}
	t.BytesIn, _, _, _ = b.state()
	if err != nil {
		return err
	}
	if full && !b.over {
		x.in.counters[partial].Add(1)
		x.Note("upload judged in pieces after " + strconv.FormatInt(t.BytesIn, 10) + " bytes")
	}
	if !b.over { // it is still being judged while x.T is used for the response
		b.own = *t
		b.own.Findings = append([]filter.Finding(nil), t.Findings...)
		b.own.Monitored, b.own.Signatures = nil, nil
		b.t = &b.own
	}
	t.Upload = nil
	q.Body = b
	return nil
}

// InspectResponse holds the body of s and judges it, until it is complete or the patience of
// the policy ends. On success s.Body is the body for the client, or answer is a page that
// leads to the body once it was judged. Answer returns a response to errors, except to those
// of the body itself.
func (x *Exchange) InspectResponse(ctx context.Context, s *message.Response) (answer *message.Response, err error) {
	if talk := x.converse(ctx, filter.ResponseBody, x.T.Content(), s.Fields, s.Body); talk != nil {
		if s.Body, s.Length = talk, message.Chunked; talk.decoder != nil {
			s.Del("Content-Encoding")
		}
		return nil, nil
	}
	if isDownload(x, s) {
		if answer, ok, err := save(ctx, x, s); ok {
			return answer, err
		}
	}
	if !x.part.combined && mayTrickle(&x.T) {
		ctx, cancel := context.WithCancel(ctx)
		x.download.beginResponse(x, ctx, s)
		return nil, x.download.trickle(s, cancel)
	}
	return nil, holdResponse(ctx, x, s)
}

// holdResponse holds the body of s for at most the policy's patience.
func holdResponse(ctx context.Context, x *Exchange, s *message.Response) error {
	b := &x.download
	b.beginResponse(x, ctx, s)
	full, err := b.untilReleased()
	if err != nil {
		return b.passBroken(err)
	}
	b.afterHold(s, full)
	if x.part.combined {
		b.cutOut(s)
	}
	return nil
}

// passBroken judges what came of a body whose connection ended in the middle, and passes it on as one that
// is cut: its reader meets the error. Other errors, and those before a byte has come, are returned.
func (b *inspection) passBroken(err error) error {
	b.mu.Lock()
	end := b.hold.End
	broken := err == b.broken && end > 0 && b.hold.Base == 0 && b.sent == 0 && !b.begun && !b.awaited && !b.x.part.combined && b.ctx.Err() == nil
	b.mu.Unlock()
	if !broken {
		return err
	}
	b.show(end)
	if err := b.judge(end, true); err != nil || b.failed != nil {
		return err
	}
	b.clear(end)
	b.failed = err
	return nil
}

// beginResponse begins the inspection of the body of s, and makes it that body.
func (b *inspection) beginResponse(x *Exchange, ctx context.Context, s *message.Response) {
	t := &x.T
	b.begin(x, ctx, s.Body, filter.ResponseBody)
	b.content.Reset(t.Content(), x.in.limits(&b.windows))
	if n := s.Body.Remaining(); n >= 0 {
		b.content.Expect(n)
	}
	t.Body = &b.content
	s.Body = b
	b.headFirst = x.HeadFirst
}

// untilReleased reads and judges until something is released, or only the head. full says that there
// was no room for more.
func (b *inspection) untilReleased() (full bool, err error) {
	h := b.t.Content()
	if full, err = b.fill(patienceFor(b.t, h)); err != nil {
		return full, err
	}
	if end, done, _, _ := b.state(); end == 0 && !done && !b.trickles && h.MaybeText() {
		b.begun = true
		return full, nil // a program may wait for the head, and gets no page instead
	}
	return full, b.advance()
}

// afterHold prepares s after something of its body was released, or only the head.
func (b *inspection) afterHold(s *message.Response, full bool) {
	x := b.x
	if !b.over {
		x.in.counters[partial].Add(1)
	}
	if b.begun && b.judged == 0 {
		return
	}
	if !b.over && !(b.begun && b.awaited) {
		if full {
			end, _, _, _ := b.state()
			x.Note("body judged in pieces after " + strconv.FormatInt(end, 10) + " bytes")
		}
		uncode(b, s)
	}
}

// patienceFor returns how long a body with a head is held while its verdict is open; 0 means to its end.
func patienceFor(t *filter.Transaction, h *content.Head) time.Duration {
	if d := t.Verdict.Patience; d != 0 || !h.IsStream() {
		return d
	}
	return endlessPatience
}

// begin starts the inspection of src.
func (b *inspection) begin(x *Exchange, ctx context.Context, src message.Body, s filter.Stage) {
	b.x, b.t, b.stage = x, &x.T, s
	b.windows = held.Windows{Memory: x.in.budget, Client: x.T.Client.Addr}
	b.limit.Prepare(ctx, x.in.watch, &x.T, x.ClientLeft)
	b.feed.begin(x.in, ctx, src, x.T.Client.Addr)
}

// Stored returns the store of verdicts on the body, nil if the body does not come from a
// store.
func (b *inspection) Stored() filter.Stored { return filter.StoredOf(b.src) }

// fill reads the source into the hold until it is complete, or there is no more room (full),
// or patience has passed.
func (b *inspection) fill(patience time.Duration) (full bool, err error) {
	switch ok, waited := b.hold.First(b.ctx, b.left, b.x.in.wait); {
	case !ok:
		return false, errNoRoom
	case waited && !b.trickles && abandonedBy(b.x):
		return false, ErrGone
	}
	start := time.Now()
	for !b.done {
		if patience > 0 && !b.atHand() {
			return b.wait(start.Add(patience))
		}
		switch err := b.read(); {
		case err == errFull:
			return true, nil
		case err != nil:
			return false, err
		}
		if b.seen == 0 { // the first bytes decide; no request waits for the rest of a film
			b.show(b.hold.End)
			if nothing := b.sniff(); b.done || !nothing {
				continue
			}
			// It has no text, but checks may want the bytes themselves.
			if err := b.judge(b.hold.End, false); err != nil || b.open {
				return false, err
			}
		}
	}
	return false, nil
}

// wait lets the pump fill the hold until a time.
func (b *inspection) wait(until time.Time) (full bool, err error) {
	b.pump()
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	for {
		_, done, full, err := b.state()
		switch {
		case err != nil:
			return false, err
		case done, full:
			return full, nil
		}
		select {
		case <-b.feed.more:
		case <-timer.C:
			return false, nil
		}
	}
}

// show shows the bytes up to a position to the checks.
func (b *inspection) show(end int64) {
	if b.seen == end || b.open {
		return
	}
	b.mu.Lock()
	b.vec = b.hold.Slices(b.vec[:0], b.seen, end)
	if b.seen == 0 {
		b.content.SetRoom(b.hold.Long) // nil if the body is not in one block
	}
	b.mu.Unlock()
	for _, p := range b.vec {
		b.content.Append(p)
	}
	clear(b.vec)
	b.seen = end
}

// advance releases the next piece to the reader: it waits for enough of the body, judges it,
// and holds back the tail. The last piece waits for the final verdict, so that the reader does
// not have the complete body if the verdict changes. A tail that has been held for the policy's
// patience is released too, except as keepsTail says. A document that can only be read when
// complete is held as long as there is room. While a check awaits the end, nothing is released:
// what memory has no room for goes to a file.
func (b *inspection) advance() error {
	b.drop(b.sent)
	for late := false; ; {
		end, done, full, err := b.state()
		if err != nil {
			return err
		}
		if !done && !full && !b.worthJudging(end) && !late {
			if late, err = b.await(end); err != nil {
				return err
			}
			continue
		}
		b.show(end)
		if b.sent == 0 && !done && !full && b.needsWhole() {
			if err := b.more(); err != nil {
				return err
			}
			continue
		}
		if err := b.judge(end, done); err != nil || b.failed != nil {
			return err
		}
		if b.awaited {
			switch {
			case full:
				b.storeMore(end)
			case b.headFirst && !b.begun && !b.trickles:
				b.begun = true
				return nil
			}
			late = false
			continue
		}
		if !done {
			b.passOn()
		}
		to := end
		if b.over = done; !done && !b.open && (!late || b.keepsTail()) {
			to -= tail
		}
		switch {
		case done:
			b.end()
			b.clear(end)
			return nil
		case to > b.sent:
			b.clear(to)
			return nil
		case full: // there is room for less than a tail
			b.clear(end - (end-b.sent)/2)
			return nil
		case b.pumping && !b.begun && b.sent == 0:
			// Patience is over, and all that came is less than a tail: the head does not wait for more.
			b.begun = true
			return nil
		}
		late = false
	}
}

// worthJudging reports whether it is worth judging the body up to a position.
func (b *inspection) worthJudging(end int64) bool {
	if b.open {
		return end > b.sent
	}
	step := int64(judgeStep)
	if b.awaited {
		step = keptStep
	}
	return end-b.judged >= step || b.judged == 0 && end > 0
}

// more waits until more was read.
func (b *inspection) more() error {
	if b.pumping {
		<-b.feed.more
		return nil
	}
	err := b.read()
	full := err == errFull
	b.mu.Lock() // a page may ask about the progress of a download
	b.full = full
	b.mu.Unlock()
	if full {
		err = nil
	}
	return err
}

// await waits until more was read. It gives up (late) when the oldest byte that could be released has
// been held for the policy's patience, because the reader may be waiting for it.
func (b *inspection) await(end int64) (late bool, err error) {
	if b.keepsTail() {
		end -= tail
	}
	if !b.pumping || end <= b.sent || b.awaited {
		return false, b.more()
	}
	oldest := b.oldest(b.sent)
	timer := time.NewTimer(time.Until(oldest.Add(max(b.t.Verdict.Patience, endlessPatience))))
	defer timer.Stop()
	select {
	case <-b.feed.more:
		return false, nil
	case <-timer.C:
		return true, nil
	}
}

// keepsTail reports whether the tail is held back however long that takes: of a page, which browsers
// show when it is complete, and of what a scanner must see whole.
func (b *inspection) keepsTail() bool { return b.content.Markup() || b.content.AwaitsVerdict() }

// clear releases the bytes before a position to the reader.
func (b *inspection) clear(to int64) {
	b.mu.Lock()
	b.vec = b.hold.Slices(b.vec[:0], max(b.sent, b.store.end), to)
	b.most = ahead
	b.mu.Unlock()
	b.follow(b.vec)
	b.sent = to
	if b.store.left(to) > 0 {
		b.store.after = append(b.store.after[:0], b.vec...)
		return
	}
	b.ready.Set(b.vec...)
}

// follow decodes the released bytes of a page that may still be cut.
func (b *inspection) follow(cleared [][]byte) {
	if b.over || b.open || b.stage != filter.ResponseBody || b.store.end > 0 {
		return
	}
	if b.behind == nil {
		if h := b.content.Head(); b.sent > 0 || !h.Deflated() || b.content.Type() != "text/html" {
			return
		}
		b.behind = new(content.Body)
		b.behind.Reset(b.content.Head(), b.x.in.limits(&b.windows))
	}
	for _, p := range cleared {
		b.behind.Append(p)
	}
	for p, err := b.behind.Next(); p != nil && err == nil; p, err = b.behind.Next() {
		continue
	}
	b.behind.Forget()
}

// last returns the end of a page that is cut: a notice in the page's coding; nil if that is
// impossible.
func (b *inspection) last() []byte {
	switch {
	case b.stage != filter.ResponseBody || b.content.Type() != "text/html":
		return nil
	case !b.content.Head().Coded():
		return notice(b.x)
	}
	if b.sent == 0 { // only the head was sent
		b.follow(nil)
	}
	if b.behind == nil {
		return nil
	}
	b.mu.Lock()
	rest := b.hold.Slices(nil, b.sent, b.hold.End)
	b.mu.Unlock()
	return b.behind.Seal(rest, notice(b.x))
}

// StopUpload ends a goroutine that reads the request's body, so that nobody reads the client any more. It
// reports whether there is none, or it has ended by itself.
func (x *Exchange) StopUpload() bool {
	if x.storage == nil || x.upload.x == nil || !x.upload.aside {
		return true
	}
	b, by := &x.upload, true
	b.stop(func() { by = false; b.src.Close() }, fair.Forever)
	return by
}

// interrupt returns what ends a Read of the source in another goroutine.
func (b *inspection) interrupt() func() {
	if b.stage == filter.RequestBody {
		return func() { b.src.Close() }
	}
	return interrupt(b.x, b.src)
}

// beginLimit begins a part of the judgement. Its end is [judging.Watch.Finish].
func (b *inspection) beginLimit(turn bool) {
	b.content.Bound(b.limit.Over)
	b.x.in.watch.Begin(&b.limit, b.content.Len(), turn)
}

// sniff reads the beginning of the body, and reports whether there is nothing to read in it.
func (b *inspection) sniff() bool {
	b.beginLimit(false)
	defer b.x.in.watch.Finish(&b.limit)
	_ = b.content.SniffedType()
	return b.content.NothingToRead()
}

// needsWhole reports whether the body can only be read when it is complete.
func (b *inspection) needsWhole() bool {
	b.beginLimit(false)
	defer b.x.in.watch.Finish(&b.limit)
	return b.content.NeedsWhole()
}

// judge judges the body up to a position, after waiting for a turn: running more judgements
// than there are processors is useless.
func (b *inspection) judge(end int64, done bool) error {
	if b.open || end == b.judged && !done {
		return nil
	}
	if done {
		b.content.Finish()
	}
	wait := fair.Forever
	if b.judged == 0 {
		wait = b.x.in.wait
	}
	i := b.x.in
	switch ok, waited := i.judges.Acquire(b.ctx, b.x.T.Client.Addr, 1, wait); {
	case !ok && b.ctx.Err() != nil:
		return ErrGone
	case !ok:
		return errNoTurn
	case waited && b.t == &b.x.T && b.sent == 0 && abandonedBy(b.x):
		i.judges.Release(1)
		return ErrGone
	}
	b.beginLimit(true)
	defer func() {
		if i.watch.Finish(&b.limit) {
			i.judges.Release(1)
		}
	}()
	i.counters[judged].Add(1)
	if !b.asked {
		b.asked = true
		b.keep()
	}
	decide(&b.limit, b.x, b.t, b.stage)
	v := &b.t.Verdict
	switch {
	case b.limit.ClientLeft():
		i.counters[abandoned].Add(1)
		return ErrGone
	case b.limit.TookTooLong():
		b.content.Stop(content.TookTooLong)
	}
	b.judged = end
	defer func() { b.waits.Store(b.awaited) }()
	b.awaited = b.content.Wait.Awaited() && b.content.Wait.Kept() && v.Action != filter.Allow && !done
	if !done {
		b.content.Forget()
	}
	b.record()
	b.barren = b.content.NothingToRead() && !b.awaited
	b.open = v.Action == filter.Allow || b.barren
	switch {
	case !v.Final():
		return nil
	case b.sent == 0 && !b.begun:
		return ErrRefused
	}
	return b.cut()
}

// record records how much was inspected.
func (b *inspection) record() {
	n, of, why := b.content.Inspected()
	if b.stage == filter.ResponseBody {
		b.t.Looked, b.t.Length = n, of
	}
	if why = cmp.Or(why, b.content.Wait.Unkept()); why != content.AllRead {
		b.t.Unread = strings.ReplaceAll(why.String(), " ", "-")
	}
}

// note adds a note to the transaction that is judged.
func (b *inspection) note(s string) {
	switch {
	case b.t == &b.x.T:
		b.x.Note(s)
	case b.trickles:
		b.notes = s
	}
}

// cut ends a body of which a part was sent. A page ends with a notice.
func (b *inspection) cut() error {
	b.x.in.counters[cut].Add(1)
	note := "cut after " + strconv.FormatInt(b.sent, 10) + " bytes: " + b.t.Verdict.Action.String() + " when more of the body was known"
	b.note(note)
	if end := b.last(); end != nil {
		b.failed, b.noticed = ErrCut, true
		b.ready.Set(end)
		return nil
	}
	return ErrCut
}

// abandonedBy reports whether the client has gone while it waited: under load, work for such a
// client stops. A client that only closed its own side looks the same, so without load it gets
// its response.
func abandonedBy(x *Exchange) bool {
	if x.ClientGone == nil || x.upload.aside || !x.ClientGone() {
		return false
	}
	x.in.counters[abandoned].Add(1)
	x.Note(ErrGone.Error())
	return true
}

// end records that the whole body was judged, and releases the memory of checks.
func (b *inspection) end() {
	if b.stage == filter.ResponseBody && (!b.open || b.barren) && cmp.Or(b.content.Unread(), b.content.Wait.Unkept()) == content.AllRead {
		b.keepJudged()
	}
	b.release()
}

// release releases the memory of checks.
func (b *inspection) release() {
	if why := cmp.Or(b.content.Unread(), b.content.Wait.Unkept()); why != content.AllRead {
		b.x.in.unread[why].Add(1)
	}
	b.content.Release()
	if b.behind != nil {
		b.behind.Release()
		b.behind = nil
	}
	if b.t.Body == &b.content {
		b.t.Body = nil
	}
	if b.t.Upload == &b.content {
		b.t.Upload = nil
	}
}

// free releases everything that b holds.
func (b *inspection) free() {
	if b.x == nil {
		return
	}
	b.stop(b.interrupt(), fair.Forever)
	if b.unclosed {
		b.src.Close()
		b.unclosed = false
	}
	own := b.t == &b.own
	if own && b.stage == filter.RequestBody {
		b.x.UploadRefused()
	}
	if b.stage == filter.ResponseBody && b.x.whole && b.x.part.end > 0 {
		b.x.in.counters[wholeBytes].Add(max(0, b.received()-(b.x.part.end-b.x.part.from)))
	}
	b.release()
	if own {
		b.own = filter.Transaction{}
	}
	b.ready.Close()
	b.store.free(b.x.in)
	b.hold.Free()
	b.limit.Reset()
	clear(b.vec)
	b.x, b.t, b.ctx, b.src = nil, nil, nil, nil
	b.seen, b.judged, b.sent, b.open, b.barren, b.over, b.failed = 0, 0, 0, false, false, false, nil
	b.awaited, b.asked, b.headFirst, b.begun, b.noticed, b.aside = false, false, false, false, false, false
	b.trickles, b.notes, b.first = false, "", nil
	b.waits.Store(false)
}

// UploadRefused reports whether the verdict on an upload changed while it passed, and stores
// that verdict in T. Nobody may be reading the upload any more.
func (x *Exchange) UploadRefused() bool {
	for _, b := range x.talks {
		if b.talk.stage == filter.RequestBody && b.talk.refusal != nil {
			x.Conclude(b.talk)
			return true
		}
	}
	b := &x.upload
	if b.t != &b.own || !b.own.Verdict.Final() {
		return false
	}
	if !x.T.Verdict.Final() {
		x.T.Verdict, x.T.Findings = b.own.Verdict, append(x.T.Findings[:0], b.own.Findings...)
		x.Note("upload cut after " + strconv.FormatInt(b.sent, 10) + " bytes")
	}
	return true
}

// End releases everything that x holds. T remains.
func (x *Exchange) End() {
	if x.storage == nil { // after Shrink
		return
	}
	if x.saving != nil {
		x.saving.free()
	}
	if x.kept != nil {
		x.kept.Drop()
		x.kept = nil
	}
	if x.uncoded != nil {
		x.uncoded.free()
		x.uncoded = nil
	}
	x.upload.free()
	if x.trickling != nil {
		x.trickling.stop()
		x.trickling = nil
	}
	x.download.free()
	for i, b := range x.talks {
		b.free()
		x.talks[i] = nil
	}
	x.talks = x.talks[:0]
	if x.changing != nil {
		x.changing.free()
		x.changing = nil
	}
	x.T.Upload, x.T.Body = nil, nil
	x.body.Close()
	x.Edits = nil
}
