// Package zonetest asks responders as a server does, and has the questions and
// answers of the Ferret data set.
package zonetest

import (
	"context"
	"net/netip"
	"testing"

	"github.com/miekg/dns"

	"shuultuur/nameserver/wire"
)

// Ask puts a question to a responder as a server does, and reads the reply
// with another codec than ours. It is nil when the responder declines.
func Ask(t testing.TB, z wire.Responder, m *dns.Msg, limit int) *dns.Msg {
	t.Helper()
	msg, err := m.Pack()
	if err != nil {
		t.Fatalf("%s: %v", m.Question[0].Name, err)
	}
	var q wire.Query
	q.Client = netip.MustParseAddrPort("192.0.2.200:4000")
	if s := q.Parse(msg); s != wire.OK {
		t.Fatalf("%v: the query has status %d", m, s)
	}
	var r wire.Reply
	opts := wire.Options{Size: 1232, Max: 65535}
	r.Start(&q, make([]byte, 0, 65535), limit-opts.Room(&q))
	switch out := z.Answer(&q, &r); out {
	case wire.Answered:
	case wire.Declined:
		return nil
	case wire.Later:
		r.Start(&q, make([]byte, 0, 65535), limit-opts.Room(&q))
		if out := z.Wait(context.Background(), &q, &r); out != wire.Answered {
			t.Fatalf("%v: Wait says %d", m, out)
		}
	default:
		t.Fatalf("%v: Answer says %d", m, out)
	}
	if len(r.Buf) > r.Limit {
		t.Fatalf("%v: %d bytes, over the limit", m, len(r.Buf))
	}
	var reply dns.Msg
	raw := r.Finish(&opts)
	if err := reply.Unpack(raw); err != nil {
		t.Fatalf("%v: the reply cannot be read: %v\n%x", m, err, raw)
	}
	return &reply
}

// Question is a query as a resolver sends it.
func Question(name string, typ uint16) *dns.Msg {
	m := new(dns.Msg)
	m.SetQuestion(name, typ)
	m.RecursionDesired = false
	return m
}
