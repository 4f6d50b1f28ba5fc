package transfer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	miekg "github.com/miekg/dns"

	"shuultuur/lib/dns"
)

// news are the NOTIFY messages to send.
type news struct {
	mu      sync.Mutex
	pending map[newsKey]*item
	wake    chan struct{}
}

type newsKey struct {
	id id
	to netip.AddrPort
}

// An item is one message to one server, repeated until it is acknowledged.
type item struct {
	soa   *miekg.SOA
	key   *Key
	at    time.Time // time of the next try
	tries int
	busy  bool
}

const (
	maxTries   = 8 // with a pause that doubles each time: 21 minutes in all
	maxSending = 16
	// maxPending bounds the messages to send, for many zones and many unreachable secondaries.
	maxPending = 100_000
	answerTime = 5 * time.Second
)

// announce queues a zone's new serial, in place of an older one.
func (s *Server) announce(n id, soa *miekg.SOA) {
	s.news.mu.Lock()
	for _, t := range s.notify {
		k := newsKey{n, t.address}
		if !covers(t.zones, n.origin) || t.view != "" && t.view != n.view {
			continue
		}
		if s.news.pending[k] == nil && len(s.news.pending) >= maxPending {
			s.Stats.NotifyFailed.Add(1)
			continue
		}
		s.news.pending[k] = &item{soa: soa, key: t.key, at: time.Now()}
	}
	s.news.mu.Unlock()
	wakeUp(s.news.wake)
}

// run sends due messages until ctx ends, and waits for those in progress.
func (n *news) run(ctx context.Context, s *Server) {
	var wg sync.WaitGroup
	defer wg.Wait()
	places := make(chan struct{}, maxSending)
	for {
		k, it, wait := n.takeDue(time.Now())
		if it == nil {
			select {
			case <-ctx.Done():
				return
			case <-n.wake:
			case <-time.After(wait):
			}
			continue
		}
		select {
		case <-ctx.Done():
			return
		case places <- struct{}{}:
		}
		wg.Go(func() {
			err := notify(ctx, k.to, it)
			n.finish(s, k, it, err)
			<-places
			wakeUp(n.wake)
		})
	}
}

// takeDue takes a due item, or returns how long there is none.
func (n *news) takeDue(now time.Time) (newsKey, *item, time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	wait := time.Hour
	for k, it := range n.pending {
		if it.busy {
			continue
		}
		if in := it.at.Sub(now); in > 0 {
			wait = min(wait, in)
			continue
		}
		it.busy = true
		return k, it, 0
	}
	return newsKey{}, nil, wait
}

// finish removes an item, or queues it for later.
func (n *news) finish(s *Server, k newsKey, it *item, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	it.busy = false
	current := n.pending[k] == it // otherwise a newer serial has replaced it
	if err == nil {
		s.Stats.NotifyOut.Add(1)
		if current {
			delete(n.pending, k)
		}
		return
	}
	it.tries++
	if it.tries < maxTries && !errors.Is(err, errUnwanted) {
		pause := s.backoff << (it.tries - 1)
		it.at = time.Now().Add(pause + rand.N(pause/4+1))
		return
	}
	s.Stats.NotifyFailed.Add(1)
	s.log.Warn("a secondary does not acknowledge that a zone has changed", "zone", k.id.origin, "secondary", k.to, "tries", it.tries, "error", err)
	if current {
		delete(n.pending, k)
	}
}

var errUnwanted = errors.New("it does not understand NOTIFY")

// notify sends one message and waits for its acknowledgement.
func notify(ctx context.Context, to netip.AddrPort, it *item) error {
	m := new(miekg.Msg)
	m.SetNotify(it.soa.Hdr.Name)
	m.Authoritative = true
	m.Answer = []miekg.RR{it.soa}
	msg, err := m.Pack()
	if err != nil {
		return err
	}
	var s *session
	if it.key != nil {
		s = &session{key: it.key}
		msg = s.sign(msg, time.Now(), 0, 0)
		s.later = false // the answer covers all variables
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "udp", to.String())
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	_ = conn.SetDeadline(time.Now().Add(answerTime))
	if _, err := conn.Write(msg); err != nil {
		return err
	}
	buf := make([]byte, 4096)
	for {
		size, err := conn.Read(buf)
		if err != nil {
			return err
		}
		answer := buf[:size]
		if size < 12 || answer[0] != msg[0] || answer[1] != msg[1] || answer[2]&0xf8 != 0x80|miekg.OpcodeNotify<<3 {
			continue // an answer to something else
		}
		if s != nil {
			try := *s
			if answer, _, err = try.verify(answer, time.Now()); err != nil {
				return err
			}
		}
		switch rcode := int(answer[3] & 15); rcode {
		case miekg.RcodeSuccess:
			return nil
		case miekg.RcodeNotImplemented:
			return errUnwanted
		default:
			return fmt.Errorf("it answers %s", miekg.RcodeToString[rcode])
		}
	}
}

// Notify handles a NOTIFY, as [wire.Notifier] requires: only from the zone's primaries, signed
// if they have a key.
func (s *Server) Notify(q *dns.Query, r *dns.Reply) dns.Outcome {
	if q.Class != miekg.ClassINET {
		return dns.Declined
	}
	sec := s.followed.find(dns.Text(q.Name))
	if sec == nil {
		return dns.Declined
	}
	key := s.signer(q)
	from := q.Client.Addr().Unmap()
	if !slices.ContainsFunc(sec.feed.Load().primaries, func(p upstream) bool {
		return p.key == key && (key != nil || p.address.Addr() == from)
	}) {
		s.Stats.NotifyRefused.Add(1)
		r.Rcode = miekg.RcodeRefused
		return dns.Answered
	}
	s.Stats.NotifyIn.Add(1)
	r.AA = true
	wakeUp(sec.poke)
	return dns.Answered
}
