package portal

import (
	"crypto/rand"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"sync"
	"time"

	"shuultuur/identity/session"
)

// A browser that has signed in by IPv6 may visit sites by IPv4, and is sent here again, by IPv6.
// Then it is sent on to the address of the portal of the other family, where its own address of
// that family is seen, with a pass that says who it is. The pass holds for a moment, once, and for
// an address of nobody.

const (
	passTime   = 30 * time.Second
	passCookie = "shuultuur-passed" // the browser has just been sent on: not again, or it would never end
	maxPasses  = 10_000             // that are remembered
)

// A pass lets a browser begin its session at its other address.
type pass struct {
	Member membership `json:"m"`
	From   netip.Addr `json:"f"` // where the browser has come from
	Until  time.Time  `json:"t"`
	Once   string     `json:"o"`
}

// passes remembers those that were used.
type passes struct {
	mu   sync.Mutex
	used map[string]time.Time // until when they would hold
}

// use reports whether a pass was not used before.
func (p *passes) use(once string, until time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.used == nil {
		p.used = map[string]time.Time{}
	}
	now := time.Now()
	if _, used := p.used[once]; used {
		return false
	}
	if len(p.used) >= maxPasses {
		for k, t := range p.used {
			if now.After(t) {
				delete(p.used, k)
			}
		}
	}
	if len(p.used) >= maxPasses {
		return false
	}
	p.used[once] = until
	return true
}

// otherFamily returns the URL of the portal at the address of the other family that this machine
// has on the link of the request, "" if there is none.
func (e *Engine) otherFamily(r *http.Request) string {
	at, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if !ok {
		return ""
	}
	local := at.AddrPort().Addr().Unmap().WithZone("")
	links, err := net.Interfaces()
	if err != nil {
		return ""
	}
	for _, l := range links {
		addrs, err := l.Addrs()
		if err != nil {
			continue
		}
		var other netip.Addr
		mine := false
		for _, a := range addrs {
			p, err := netip.ParsePrefix(a.String())
			if err != nil {
				continue
			}
			a := p.Addr().Unmap()
			mine = mine || a == local
			if a.Is4() != local.Is4() && !a.IsLinkLocalUnicast() && !other.IsValid() {
				other = a
			}
		}
		if mine && other.IsValid() {
			return e.plainAt(other)
		}
	}
	return ""
}

// plainAt returns the URL of the portal at an address, without TLS: no certificate is one of an
// address. It is "" if the portal does not listen there.
func (e *Engine) plainAt(a netip.Addr) string {
	for _, d := range e.Pages.place.Plain {
		own := d.AddrPort()
		if o := own.Addr(); own.Port() != 0 && (o.Unmap() == a || o.IsUnspecified() && (o.Is6() || a.Is4())) {
			return "http://" + net.JoinHostPort(a.String(), strconv.Itoa(int(own.Port())))
		}
	}
	return ""
}

// sendOn sends a browser that has signed in to the portal at the other family, if it comes because
// its other address is nobody's. It reports whether it does.
func (s *Server) sendOn(w http.ResponseWriter, r *http.Request, e *Engine, m membership, to string) bool {
	at := e.otherFamily(r)
	return at != "" && s.sendOnTo(w, r, e, m, at, to)
}

// sendOnTo sends a browser to the portal at a URL.
func (s *Server) sendOnTo(w http.ResponseWriter, r *http.Request, e *Engine, m membership, at, to string) bool {
	if to == "" || cookieOf(r, passCookie) != "" {
		return false
	}
	sealed, err := e.Pages.box.Seal(pass{m, remote(r), time.Now().Add(passTime), rand.Text()})
	if err != nil {
		return false
	}
	cookie(w, r, passCookie, "1", passTime)
	http.Redirect(w, r, at+"/sign-in/pass?"+url.Values{"pass": {sealed}, "to": {to}}.Encode(), http.StatusSeeOther)
	return true
}

// passed begins the session of a browser at its other address.
func (s *Server) passed(w http.ResponseWriter, r *http.Request) {
	e, ok := s.signsIn(w, r)
	if !ok {
		return
	}
	to, addr := wanted(r.FormValue("to")), remote(r)
	var p pass
	err := e.Pages.box.Open(r.FormValue("pass"), &p)
	if err != nil || !time.Now().Before(p.Until) || !time.Now().Before(p.Member.Until) || p.Member.ID == "" || !e.stands(&p.Member) ||
		p.From.Is4() == addr.Is4() || e.Identify(r.Context(), addr).User != "" || !s.passes.use(p.Once, p.Until) {
		s.show(w, r, http.StatusForbidden, e.form(&view{To: to}))
		return
	}
	m := p.Member
	if err := e.Start(session.Session{Addr: addr, User: m.User, Groups: s.groupsOf(m), Source: m.Source, By: "portal", ID: m.ID, Until: m.Until}); err != nil {
		s.log.Warn("a session of the portal does not begin", "error", err)
		s.show(w, r, http.StatusServiceUnavailable, e.form(&view{To: to}))
		return
	}
	s.redirect(w, r, to)
}
