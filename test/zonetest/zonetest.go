// Package zonetest asks responders as a server does, and reads the questions and answers of the
// Ferret data set.
package zonetest

import (
	"context"
	"net/netip"
	"testing"

	miekg "github.com/miekg/dns"

	"shuultuur/filter"
	"shuultuur/lib/dns"
	"shuultuur/nameserver"
)

// Ask puts a question to a responder as a server does, and decodes the reply with miekg/dns,
// not with our own code. It returns nil if the responder declines.
func Ask(t testing.TB, z nameserver.Responder, m *miekg.Msg, limit int) *miekg.Msg {
	t.Helper()
	msg, err := m.Pack()
	if err != nil {
		t.Fatalf("%s: %v", m.Question[0].Name, err)
	}
	var q dns.Query
	q.Client = netip.MustParseAddrPort("192.0.2.200:4000")
	if s := q.Parse(msg); s != dns.OK {
		t.Fatalf("%v: the query has status %d", m, s)
	}
	var r dns.Reply
	var judged filter.Transaction
	opts := dns.Options{Size: 1232, Max: 65535}
	r.Start(&q, make([]byte, 0, 65535), limit-opts.Room(&q))
	switch out := z.Answer(&q, &r, &judged); out {
	case dns.Answered:
	case dns.Declined:
		return nil
	case dns.Later:
		r.Start(&q, make([]byte, 0, 65535), limit-opts.Room(&q))
		if out := z.Wait(context.Background(), &q, &r, &judged); out != dns.Answered {
			t.Fatalf("%v: Wait says %d", m, out)
		}
	default:
		t.Fatalf("%v: Answer says %d", m, out)
	}
	if len(r.Buf) > r.Limit {
		t.Fatalf("%v: %d bytes, over the limit", m, len(r.Buf))
	}
	var reply miekg.Msg
	raw := r.Finish(&opts)
	if err := reply.Unpack(raw); err != nil {
		t.Fatalf("%v: the reply cannot be read: %v\n%x", m, err, raw)
	}
	return &reply
}

// Question is a query as a resolver sends it.
func Question(name string, typ uint16) *miekg.Msg {
	m := new(miekg.Msg)
	m.SetQuestion(name, typ)
	m.RecursionDesired = false
	return m
}
