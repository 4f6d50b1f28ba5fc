package transfer

import (
	"net/netip"
	"strings"
	"time"

	"shuultuur/zone"
	"shuultuur/zone/sign"
)

// Transfers describes between which servers a zone is transferred, for display. A server or
// network may have the name of a TSIG key and "TLS" behind it.
type Transfers struct {
	Primaries []string  `json:"primaries,omitempty"` // that it is fetched from
	Checked   time.Time `json:"checked,omitzero"`    // when it was last valid by a primary
	Allowed   []string  `json:"allowed,omitempty"`   // clients that may fetch it; none: nobody
	Notified  []string  `json:"notified,omitempty"`  // of changes
}

// Transfers returns the transfers of a zone, and the signer of its served version, nil
// for none.
func (s *Server) Transfers(origin, view string) (m Transfers, signer *sign.Signer) {
	origin = zone.Canonical(origin)
	for _, a := range s.allow {
		if !covers(a.zones, origin) || a.view != "" && a.view != view {
			continue
		}
		networks := a.networks
		if len(networks) == 0 {
			networks = []netip.Prefix{{}}
		}
		for _, n := range networks {
			who := ""
			if n.IsValid() {
				who = n.String()
			}
			m.Allowed = append(m.Allowed, described(who, a.key, a.tls))
		}
	}
	for _, n := range s.notify {
		if covers(n.zones, origin) && (n.view == "" || n.view == view) {
			m.Notified = append(m.Notified, described(n.address.String(), n.key, false))
		}
	}
	if sec := s.followed.find(origin); sec != nil {
		for _, p := range sec.feed.Load().primaries {
			m.Primaries = append(m.Primaries, described(p.address.String(), p.key, p.tls != nil))
		}
		if h := sec.held.Load(); h != nil {
			m.Checked = h.checked
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entries[id{origin, view}]; e != nil {
		signer = e.signs
	}
	return m, signer
}

// described joins the name of a server or network with how it is recognised.
func described(who string, key *Key, tls bool) string {
	if key != nil {
		who += " TSIG " + key.Name()
	}
	if tls {
		who += " TLS"
	}
	return strings.TrimSpace(who)
}
