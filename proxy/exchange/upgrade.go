package exchange

import (
	"bytes"

	"shuultuur/filter"
	"shuultuur/message"
)

// An UpgradeAnswer is what becomes of a client's wish for another protocol
// (RFC 9110, 7.8).
type UpgradeAnswer uint8

const (
	UpgradeIgnored UpgradeAnswer = iota // the request goes on without it
	UpgradePassed                       // the wish goes on too
	UpgradeRefused                      // the request does not go on
)

var webSocket = []byte("websocket")

// Upgrade says what becomes of the wish. WebSocket is passed on. What runs in
// another protocol would be inspected by nobody, so it takes a rule that allows
// the request. Cleartext HTTP/2 and TLS are offers that a server may ignore
// (RFC 7540, 3.2; RFC 2817, 3.1), and so do we.
func (x *Exchange) Upgrade() UpgradeAnswer {
	answer := UpgradeRefused
	switch {
	case x.Q.Upgrade == nil:
		return UpgradeIgnored
	case x.T.Verdict.Action == filter.Allow:
		return UpgradePassed
	}
	for part := range bytes.SplitSeq(x.Q.Upgrade, []byte(",")) {
		name, _, _ := bytes.Cut(bytes.TrimSpace(part), []byte("/"))
		switch {
		case message.EqualName(name, "websocket"):
			return UpgradePassed
		case message.EqualName(name, "h2c"), message.EqualName(name, "tls"):
			answer = UpgradeIgnored
		}
	}
	return answer
}

// upgrade is the wish as it goes upstream, nil for none.
func (x *Exchange) upgrade() []byte {
	switch {
	case x.Upgrade() != UpgradePassed:
		return nil
	case x.T.Verdict.Action == filter.Allow || bytes.IndexByte(x.Q.Upgrade, ',') < 0:
		return x.Q.Upgrade
	}
	return webSocket // alone, of all that were offered
}

// Upgraded says whether s is a response with which an origin may change to
// another protocol: one that was asked for.
func (x *Exchange) Upgraded(s *message.Response) bool {
	if s.Upgrade == nil || x.Upgrade() != UpgradePassed {
		return false
	}
	return x.T.Verdict.Action == filter.Allow || bytes.EqualFold(bytes.TrimSpace(s.Upgrade), webSocket)
}
