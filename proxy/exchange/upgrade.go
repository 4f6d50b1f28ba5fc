package exchange

import (
	"bytes"

	"shuultuur/filter"
	"shuultuur/lib/message"
)

// An UpgradeAnswer is how to handle a client's request for another protocol (RFC 9110 section
// 7.8).
type UpgradeAnswer uint8

const (
	UpgradeIgnored UpgradeAnswer = iota // forward the request without Upgrade
	UpgradePassed                       // forward it with Upgrade
	UpgradeRefused                      // do not forward it
)

var webSocket = []byte("websocket")

// Upgrade returns how to handle a request for another protocol. WebSocket is forwarded. Other
// protocols could not be inspected, so they require a rule that allows the request. Cleartext
// HTTP/2 and TLS are offers that a server may ignore (RFC 7540 section 3.2; RFC 2817 section
// 3.1), and so do we.
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

// upgrade returns the value of Upgrade to send upstream, nil for none.
func (x *Exchange) upgrade() []byte {
	switch {
	case x.Upgrade() != UpgradePassed:
		return nil
	case x.T.Verdict.Action == filter.Allow || bytes.IndexByte(x.Q.Upgrade, ',') < 0:
		return x.Q.Upgrade
	}
	return webSocket // without other offers
}

// Upgraded reports whether s is a response with which an origin may switch to the requested
// protocol.
func (x *Exchange) Upgraded(s *message.Response) bool {
	if s.Upgrade == nil || x.Upgrade() != UpgradePassed {
		return false
	}
	return x.T.Verdict.Action == filter.Allow || bytes.EqualFold(bytes.TrimSpace(s.Upgrade), webSocket)
}
