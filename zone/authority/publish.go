//go:build !small

package authority

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	miekg "github.com/miekg/dns"

	"shuultuur/lib/dns"
	"shuultuur/zone"
)

// Publishes reports whether a zone that has a name is kept here, so that records of it can be added.
func (a *Authority) Publishes(name string) bool { return len(a.kept(name)) > 0 }

// kept returns the zones that are kept here and have a name: one for each view.
func (a *Authority) kept(name string) (all []Summary) {
	wire, err := dns.Name(name)
	if err != nil {
		return nil
	}
	origin := a.Zone(wire)
	for _, z := range a.Show() {
		if zone.Canonical(z.Origin) != zone.Canonical(origin) || origin == "" {
			continue
		}
		if from, _ := a.sourceOf(zone.Canonical(z.Origin), z.View); from == fromFile || from == fromRedis {
			all = append(all, z)
		}
	}
	return all
}

const (
	publishedTTL = 30 // short, since the record is for one look
	publishWait  = time.Minute
)

// Publish adds a text record to the zone of a name, in each of its views, as an update would. It returns
// when the record is served, by those secondaries, too, that are notified of changes. remove takes the
// record away again.
func (a *Authority) Publish(ctx context.Context, name, text string) (remove func(context.Context) error, err error) {
	zones := a.kept(name)
	if len(zones) == 0 {
		return nil, fmt.Errorf("no zone in a file or in Redis has the name %s", name)
	}
	rr := &miekg.TXT{Hdr: miekg.RR_Header{Name: miekg.Fqdn(name), Rrtype: miekg.TypeTXT, Class: miekg.ClassINET, Ttl: publishedTTL}, Txt: []string{text}}
	remove = func(ctx context.Context) error {
		var failed error
		for _, z := range zones {
			m := updateOf(z.Origin)
			m.Remove([]miekg.RR{rr})
			failed = cmp.Or(failed, a.send(ctx, z, m))
		}
		return failed
	}
	for _, z := range zones {
		m := updateOf(z.Origin)
		m.Insert([]miekg.RR{rr})
		if err = a.send(ctx, z, m); err == nil {
			err = a.awaitServed(ctx, z, rr)
		}
		if err != nil {
			_ = remove(context.WithoutCancel(ctx)) // what was not added need not go
			return nil, err
		}
	}
	return remove, nil
}

func updateOf(origin string) *miekg.Msg { return new(miekg.Msg).SetUpdate(miekg.Fqdn(origin)) }

// send makes an update of our own.
func (a *Authority) send(ctx context.Context, z Summary, m *miekg.Msg) error {
	msg, err := m.Pack()
	if err != nil {
		return err
	}
	_, rcode, err := a.update(ctx, &dns.Query{Msg: msg}, zone.Canonical(z.Origin), z.View)
	if err == nil && rcode != miekg.RcodeSuccess {
		err = fmt.Errorf("the zone answers %s", miekg.RcodeToString[rcode])
	}
	if err != nil {
		return fmt.Errorf("changing the zone %s: %w", z.Origin, err)
	}
	return nil
}

// awaitServed waits until a record is served here and by the secondaries. Those that do not have it in
// time may be down; then the others answer.
func (a *Authority) awaitServed(ctx context.Context, z Summary, rr *miekg.TXT) error {
	ctx, cancel := context.WithTimeout(ctx, publishWait)
	defer cancel()
	name := zone.Canonical(rr.Hdr.Name)
	here := func() bool {
		s := a.Served(zone.Canonical(z.Origin), z.View)
		return s != nil && slices.ContainsFunc(s.At(name), func(o miekg.RR) bool { return hasText(o, rr.Txt[0]) })
	}
	if !await(ctx, here) {
		return fmt.Errorf("the zone %s is changed, but does not serve it", z.Origin)
	}
	transfers, _ := a.Transfers(z.Origin, z.View)
	for _, to := range transfers.Notified {
		at, _, _ := strings.Cut(to, " ")
		if addr, err := netip.ParseAddrPort(at); err == nil && !await(ctx, func() bool { return serves(ctx, addr, rr) }) {
			a.log.Warn("a secondary does not serve a new record yet", "zone", z.Origin, "server", addr, "name", name)
		}
	}
	return nil
}

// await asks until the answer is yes, and reports whether it was before ctx ended.
func await(ctx context.Context, yes func() bool) bool {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for !yes() {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
	return true
}

func hasText(rr miekg.RR, text string) bool {
	t, ok := rr.(*miekg.TXT)
	return ok && slices.Equal(t.Txt, []string{text})
}

// serves reports whether a server has a record.
func serves(ctx context.Context, at netip.AddrPort, rr *miekg.TXT) bool {
	m := new(miekg.Msg).SetQuestion(rr.Hdr.Name, miekg.TypeTXT)
	m.RecursionDesired = false
	c := miekg.Client{Timeout: time.Second}
	answer, _, err := c.ExchangeContext(ctx, m, at.String())
	return err == nil && slices.ContainsFunc(answer.Answer, func(o miekg.RR) bool { return hasText(o, rr.Txt[0]) })
}
