package transfer

import (
	"slices"
	"time"

	miekg "github.com/miekg/dns"

	"shuultuur/lib/dns"
)

// access decides which clients may fetch and update zones, by the keys and rules of the settings.
type access struct {
	keys   Keys
	allow  []accessRule
	update []accessRule
	notify []notifyRule
	stats  *Stats
}

// wanted reports whether any client may fetch a zone.
func (s *access) wanted(origin string) bool {
	return slices.ContainsFunc(s.allow, func(a accessRule) bool { return covers(a.zones, origin) })
}

// Verify reports whether a query with a TSIG record is signed by a known key, as
// [wire.Authenticator] requires.
func (s *access) Verify(q *dns.Query) bool {
	_, _, code, err := s.keys.authenticate(q.Msg, q.TSIG, q.At)
	switch {
	case err != nil:
		return false
	case code == badKey:
		s.stats.BadKey.Add(1)
	case code == badSig:
		s.stats.BadSig.Add(1)
	case code == badTime:
		s.stats.BadTime.Add(1)
	case code == badTrunc:
		s.stats.BadTrunc.Add(1)
	}
	return code == 0
}

// Sign appends the TSIG record to a reply to q.
func (s *access) Sign(q *dns.Query, reply []byte) []byte {
	key, r, code, err := s.keys.authenticate(q.Msg, q.TSIG, q.At)
	if err != nil {
		return reply
	}
	return r.answer(key, code, reply, q.At)
}

// signer returns the key that signed q, nil if none did.
func (s *access) signer(q *dns.Query) *Key {
	if q.TSIG == 0 {
		return nil
	}
	key, _, code, err := s.keys.authenticate(q.Msg, q.TSIG, q.At)
	if err != nil || code != 0 {
		return nil
	}
	return key
}

// Signature returns the signature of a query that a key has signed, and until when it holds; ""
// if none has.
func (s *access) Signature(q *dns.Query) (mac string, until time.Time) {
	r, err := readTSIG(q.Msg, q.TSIG)
	if q.TSIG == 0 || err != nil {
		return "", time.Time{}
	}
	return string(r.mac), time.Unix(int64(r.time)+int64(r.fudge)+1, 0)
}

// mayFetch returns the rule that lets a client fetch a zone, nil if none does.
func (s *access) mayFetch(origin string, q *dns.Query, key *Key) *accessRule {
	for i := range s.allow {
		a := &s.allow[i]
		if covers(a.zones, origin) && (a.key == nil || a.key == key) && (!a.tls || q.Transport == dns.TLS) && (len(a.networks) == 0 || longestPrefix(a.networks, q.Client.Addr()) >= 0) {
			return a
		}
	}
	return nil
}

// MayUpdate returns the origin and the view of the zone that the sender of an update may change, and
// the name of the key that it has signed with. rcode is not 0 if it may change none.
func (s *Server) MayUpdate(q *dns.Query) (origin, view, by string, rcode int) {
	origin = dns.Text(q.Name)
	key := s.signer(q)
	if key == nil {
		return origin, "", "", miekg.RcodeRefused
	}
	var views []*entry
	s.mu.Lock()
	for n, e := range s.entries {
		if n.origin == origin {
			views = append(views, e)
		}
	}
	s.mu.Unlock()
	if len(views) == 0 || q.Class != miekg.ClassINET {
		return origin, "", key.text, miekg.RcodeNotAuth
	}
	i := slices.IndexFunc(s.update, func(a accessRule) bool { return a.key == key && covers(a.zones, origin) })
	if i < 0 {
		return origin, "", key.text, miekg.RcodeRefused
	}
	e := pick(views, s.update[i].view, q.Client.Addr())
	if e == nil {
		return origin, "", key.text, miekg.RcodeRefused
	}
	return origin, e.id.view, key.text, miekg.RcodeSuccess
}
