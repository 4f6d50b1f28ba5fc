package alert

import (
	"context"
	"crypto/rand"
	"errors"
	"net/textproto"
	"slices"
	"sync"
	"time"

	"shuultuur/admin/mail"
)

// Messages go to receivers: mailboxes and webhooks. Each has one queue, in the order in which alerts were
// raised, and one pace: a message at a time, and none before the receiver wants the next one, or before a
// pause that grows while it fails. When several alerts wait for a receiver, the next message is a digest of
// them. No alert is given up: what could not be told for days is told in a digest when that is possible.
//
// A message has an identifier, and stays the same until it is taken, so that one that was taken without our
// knowledge is known by its identifier.

const (
	firstPause = 10 * time.Second
	longPause  = time.Hour
	maxPause   = 24 * time.Hour // that a receiver may ask for
	pace       = time.Second    // between two messages to a receiver
	alone      = 3              // so many waiting alerts are told one by one
	maxDigest  = 100            // alerts in a message
	atOnce     = 8              // messages in flight
)

// A receiver is one of those who are told. What it is asked to wait is measured by the time that runs, not
// by the clock.
type receiver struct {
	busy  bool
	next  time.Duration // nothing is sent before, by Desk.running
	fails int           // since the last message that was taken
	most  int           // alerts in a message; 0: maxDigest
}

// A parcel is a message to a receiver and the sendings that it settles.
type parcel struct {
	to   *receiver
	key  string
	id   string
	of   []*Sending
	copy []*Alert
	send func(context.Context, *message) error
	make func(id string, of []*Alert) *message
}

// A waiting is the sending of an alert that waits.
type waiting struct {
	alert *Alert
	*Sending
}

// deliver sends to each receiver the next message that is due. The messages are sent in goroutines of work.
func (d *Desk) deliver(ctx context.Context, work *sync.WaitGroup) {
	for _, p := range d.due() {
		work.Go(func() {
			err := p.send(ctx, p.make(p.id, p.copy))
			d.settle(p, err)
			d.wake()
		})
	}
}

// due returns the messages to send now.
func (d *Desk) due() (parcels []*parcel) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.watch == nil {
		return nil
	}
	now := d.now()
	queues, keys := map[string][]waiting{}, []string(nil)
	for _, a := range d.alerts {
		for i := range a.Sent {
			s := &a.Sent[i]
			if !s.At.IsZero() || !d.watch.isDue(a, s, now) {
				continue
			}
			if queues[s.Key] == nil {
				keys = append(keys, s.Key)
			}
			queues[s.Key] = append(queues[s.Key], waiting{a, s})
		}
	}
	for _, key := range keys {
		r := d.receivers[key]
		if r == nil {
			r = &receiver{}
			d.receivers[key] = r
		}
		if r.busy || d.running() < r.next || d.inFlight >= atOnce {
			continue
		}
		p := d.watch.find(key)
		if p == nil {
			for _, w := range queues[key] {
				w.At, w.Error = now.UTC(), "the settings no longer name it"
			}
			d.dirty = true
			continue
		}
		p.to, p.key = r, key
		p.fill(queues[key])
		r.busy = true
		d.inFlight++
		d.dirty = true
		parcels = append(parcels, p)
	}
	if len(parcels) > 0 { // after a crash the identifiers are the same
		if err := d.writeLocked(); err != nil {
			d.log.Error("alerts are not kept; will try again", "error", err)
		}
	}
	return parcels
}

// isDue reports whether a message may be sent now. When quiet hours end was worked out by the clock, which
// may have been wrong then: so a message is due, too, when it is not quiet now.
func (w *Watch) isDue(a *Alert, s *Sending, now time.Time) bool {
	if !now.Before(s.Due) {
		return true
	}
	for i := range w.config.To {
		r := &w.config.To[i]
		if r.wants(a) && r.names(s.Key) && (a.Severity == High || !w.quiet[i].Open(now)) {
			return true
		}
	}
	return false
}

// names reports whether a route leads to a receiver.
func (r *Route) names(key string) bool {
	return slices.ContainsFunc(r.Mail, func(m string) bool { return "mail:"+m == key }) ||
		slices.ContainsFunc(r.Webhook, func(h Webhook) bool { return h.key() == key })
}

// fill chooses what the message is about: the one that was begun, or else the next alert, or a digest if
// several wait. What was refused of itself comes after the others.
func (p *parcel) fill(queue []waiting) {
	slices.SortStableFunc(queue, func(a, b waiting) int {
		switch {
		case a.refused == b.refused:
			return 0
		case a.refused:
			return 1
		}
		return -1
	})
	if p.id = queue[0].Message; p.id != "" {
		queue = slices.DeleteFunc(queue, func(w waiting) bool { return w.Message != p.id })
	} else {
		most := p.to.most
		if most == 0 {
			most = maxDigest
		}
		if len(queue) <= alone {
			most = 1
		}
		queue = queue[:min(len(queue), most)]
		p.id = rand.Text()
	}
	for _, w := range queue {
		w.Message = p.id
		p.of = append(p.of, w.Sending)
		c := w.alert.clone()
		p.copy = append(p.copy, &c)
	}
}

// settle notes what became of a message.
func (d *Desk) settle(p *parcel, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	r, now := p.to, d.now()
	r.busy = false
	d.inFlight--
	d.dirty = true
	if err == nil {
		r.fails, r.next = 0, d.running()+pace
		if r.most > 0 {
			r.most = min(r.most+1, maxDigest) // it may take more again
		}
		for _, s := range p.of {
			s.At, s.Error, s.Tries = now.UTC().Truncate(time.Second), "", s.Tries+1
		}
		return
	}
	wait, mine := min(firstPause<<min(r.fails, 12), longPause), false
	if no, ok := errors.AsType[*refusal](err); ok {
		mine = no.ofItself
		if no.after > 0 {
			wait = min(max(no.after, pace), maxPause)
		}
	}
	r.fails++
	r.next = d.running() + wait
	if mine { // next time in another message, a smaller one if it was a digest
		r.most = max(len(p.of)/2, 1)
	}
	for _, s := range p.of {
		s.Error, s.Tries = err.Error(), s.Tries+1
		if mine {
			s.Message, s.refused = "", len(p.of) == 1
		}
		s.Due = now.UTC().Add(wait)
	}
	d.fails.Inc()
	d.log.Error("a message about alerts was not taken", "to", p.of[0].To, "alerts", len(p.of), "error", err)
}

// find returns how to make and send a message to a receiver, nil if the settings do not name it.
func (w *Watch) find(key string) *parcel {
	for i := range w.config.To {
		r := &w.config.To[i]
		t := w.texts.For(r.Language)
		p := &parcel{make: func(id string, of []*Alert) *message { return w.message(t, id, of) }}
		for _, m := range r.Mail {
			if "mail:"+m == key && w.sender != nil {
				p.send = func(ctx context.Context, x *message) error { return w.mail(ctx, m, x) }
				return p
			}
		}
		for j := range r.Webhook {
			if h := r.Webhook[j]; h.key() == key {
				p.send = func(ctx context.Context, x *message) error { return w.post(ctx, &h, x) }
				return p
			}
		}
	}
	return nil
}

// mail sends a message by mail.
func (w *Watch) mail(ctx context.Context, to string, m *message) error {
	err := w.sender.Send(ctx, &mail.Message{To: []string{to}, Subject: m.title, Text: m.text})
	if no, ok := errors.AsType[*textproto.Error](err); ok {
		return &refusal{error: err, ofItself: no.Code == 552 || no.Code == 554}
	}
	return err
}
