// Package admin serves the operator's address of the gateway: metrics, health, lists,
// events, pauses, profiles, accounts. The address is loopback by default, and cannot be
// reached through the proxy.
//
// The gateway supplies functions that read its state ([Parts]). [New] makes a [Server]
// from them and from one table of routes ([Parts.routes]) with the role that each
// requires. The guard (route.go) identifies the user ([account.Book]), records changes
// (audit.go) and limits what of the record a user sees (access.go). This package
// changes only entries of lists (lists.go), pauses (pause.go), the contents of the
// cache (cache.go), accounts (accounts.go), and the sampling of waits while they are
// profiled (contention.go).
package admin

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"shuultuur/admin/account"
	"shuultuur/admin/search"
	"shuultuur/check"
	"shuultuur/filter"
	"shuultuur/intercept"
	"shuultuur/text"
	"shuultuur/zone/authority"
)

// Health is the state of a gateway for load balancers and operators. Problems need attention
// but do not stop the gateway.
type Health struct {
	Ready    bool     `json:"ready"` // accepting work: started, not draining
	Started  string   `json:"started"`
	Settings string   `json:"settings"`         // file the running engine was built from
	Revision string   `json:"revision"`         // revision of the running settings and lists
	State    string   `json:"state"`            // alone, shared with a fleet, or degraded: the fleet's state cannot be reached
	Update   string   `json:"update,omitempty"` // a newer version of the program than this one; "" if none is known
	Problems []string `json:"problems"`
}

// Quotas are the remainders of a client's quotas.
type Quotas struct {
	Policy string           `json:"policy"` // policy; "" if there is none
	User   string           `json:"user"`
	Quotas []filter.Balance `json:"quotas"`
}

// Parts are the parts of the gateway that the admin address shows.
type Parts struct {
	Metrics http.Handler
	Health  func() Health
	Lists   *Lists  // nil: they are not shown
	Events  *Events // nil: no record can be queried
	Cache   *Cache  // nil: nothing is stored
	Pause   *Pause  // nil: filtering is never paused
	Votes   *Votes  // nil: there are no votes, or another node counts them
	// Sessions receive which user has which address at present; nil for none.
	Sessions *Sessions
	Live     *Live // nil: the start page has no graph
	// Rulings opens and blocks sites for people; nil: nobody may.
	Rulings *Rulings
	// Explain returns the decision on a request, and the reason.
	Explain Explain
	// Settings shows and changes the settings file; nil: it cannot be seen.
	Settings *Settings
	// Setup returns the first steps, or nil if they are not offered.
	Setup func() *Setup
	Texts text.Choice // texts of the pages
	// Root returns the certificate that clients should trust, nil for none.
	Root func() *intercept.Root
	// Refusals are the hosts proposed as exceptions from interception.
	Refusals func() any
	// Quotas returns the remainders of a client's quotas in a policy; "" selects
	// the policy that covers the client.
	Quotas func(ctx context.Context, policy string, addr netip.Addr, user string) Quotas
	// Clients are the filtered clients; nil: there is no page about them.
	Clients    *Clients
	System     *System // nil: the program is not shown
	NameServer *Names  // nil: there is none
	// Token permits everything to clients on other machines. Without one, only this machine may
	// use the address.
	Token string
	// Monitors are the networks that may read metrics and health without it.
	Monitors []netip.Prefix
	Access
	Watching
	Internals
}

// Internals are parts of the filter that pages look into.
type Internals struct {
	// Effect judges the events of the last day as if a change were made. A change that
	// cannot be made gives [*BadChange]. Nil: there is no record.
	Effect func(context.Context, Trial) (*Effect, error)
	Zones  func() *authority.Authority // returns nil while there are no zones
	Checks func() *check.Set
	// Devices returns the address of the pages for devices; "" for none.
	Devices func() string
	Remarks func() []Remark // nil: there are none
}

// A Remark says what is low on the machine, why that matters, and which commands raise it.
type Remark struct {
	About, Found, Wanted, Why string
	Mend                      []string
}

// Access has the people who may use the admin address, and their sessions.
type Access struct {
	Accounts *account.Book // nil: there are none
	Audit    *account.Log  // nil: nothing is recorded
	Looks    *Looks        // nil: looks need no second person
	// Names are the names by which browsers may ask for this address, besides
	// localhost.
	Names func() []string // nil: none
	// Rules are the rules of the current settings. Nil: nothing.
	Rules func() *Rules
	// Groups returns the groups of a user at an address. Nil: users have no groups.
	Groups func(addr netip.Addr, user string) []string
	// Searches are saved searches. Nil: they cannot be saved.
	Searches *search.Book
	// Holders returns the stores of data about people outside this package.
	Holders func() []Holder
	// Privacy returns the current settings for privacy. Nil: the defaults.
	Privacy func() Privacy

	server *Server
}

// routes returns the table of all routes. It leaves out routes whose part is missing.
//
// A request from a page of another origin that would change something is refused. So is one
// whose Host is a name other than localhost, because pages in a browser on this machine must
// not reach it by pointing a name of theirs at the loopback address. The profiles block and
// mutex with ?seconds=N sample waits for that long.
func (p *Parts) routes() []route {
	all := []route{
		{"GET", "/static/{digest}/{name}", anyone, staticFile},
		{"GET", "/metrics", monitor, p.Metrics.ServeHTTP},
		{"GET", "/health", monitor, func(w http.ResponseWriter, r *http.Request) { writeJSON(w, http.StatusOK, p.Health()) }},
		{"GET", "/ready", monitor, p.answerReady},
	}
	all = slices.Concat(all, profileRoutes(), p.signInRoutes(), p.accountRoutes(), p.accountsRoutes(), p.auditRoutes(), p.Looks.routes(p.Pause.notice), p.privacyRoutes())
	all = append(all, p.home()...)
	all = append(all, p.Events.routes(p)...)
	all = append(all, rulingRoutes(p)...)
	all = append(all, p.Explain.routes(p.Pause.notice)...)
	all = append(all, p.Settings.routes(p.Pause.notice)...)
	all = slices.Concat(all, p.clientRoutes(), p.systemRoutes(), p.nameRoutes(), p.zoneRoutes(), p.checkRoutes(), assistantRoutes(p))
	all = append(all, setupRoutes(p.Setup)...)
	all = append(all, alertRoutes(p)...)
	all = append(all, p.pictureRoutes()...)
	all = append(all, reportRoutes(p)...)
	if p.Lists != nil {
		all = append(all, listRoutes(p)...)
	}
	if p.Pause != nil {
		all = append(all, pauseRoutes(p)...)
	}
	all = append(all, voteRoutes(p)...)
	if p.Sessions != nil {
		all = append(all, p.Sessions.routes()...)
	}
	if p.Cache != nil {
		all = append(all, p.Cache.routes(p.Pause.notice)...)
	}
	if p.Root != nil {
		all = append(all, route{"GET", "/ca", anyone, rootPage(p.Root, p.Devices)}, route{"GET", "/ca/{file}", anyone, rootFile(p.Root, p.Devices)})
	}
	if p.Refusals != nil {
		all = append(all, route{"GET", "/refusals", operator, func(w http.ResponseWriter, r *http.Request) { writeJSON(w, http.StatusOK, p.Refusals()) }})
	}
	if p.Quotas != nil {
		all = append(all, route{"GET", "/quotas", helper, p.quotas})
	}
	return append(all, apiRoutes(all, p.Pause.notice)...)
}

// index lists the paths that can be requested.
func (p *Parts) index(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	text := "Shuultuur\n\n"
	for _, r := range p.routes() {
		if r.method == "GET" && !strings.Contains(r.path, "{") && (r.path == "/debug/pprof/" || !strings.HasPrefix(r.path, "/debug")) {
			text += r.path + "\n"
		}
	}
	_, _ = io.WriteString(w, text)
}

func (p *Parts) answerReady(w http.ResponseWriter, r *http.Request) {
	h, status := p.Health(), http.StatusOK
	if !h.Ready {
		status = http.StatusServiceUnavailable
	}
	writeJSON(w, status, h)
}

func (p *Parts) quotas(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	addr, err := netip.ParseAddr(q.Get("client"))
	if err != nil {
		http.Error(w, fmt.Sprintf("client=%q is not an address; whose quotas?", q.Get("client")), http.StatusBadRequest)
		return
	}
	writeJSON(w, http.StatusOK, p.Quotas(r.Context(), q.Get("policy"), addr.Unmap(), q.Get("user")))
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // it fails if the client has gone away
}

// ownName reports whether a Host is an address or localhost.
func ownName(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	_, err := netip.ParseAddr(host)
	return err == nil
}

// Serve answers on l until ctx ends, then lets running requests finish for a
// moment. On an address that other machines reach, it speaks TLS with t.
func Serve(ctx context.Context, l net.Listener, t *tls.Config, h http.Handler) error {
	if a, ok := l.Addr().(*net.TCPAddr); !ok || !a.IP.IsLoopback() {
		if t == nil {
			return fmt.Errorf("%v is reachable from other machines and has no certificate", l.Addr())
		}
		l = tls.NewListener(l, t)
	}
	streams := make(chan struct{}) // closed when endless requests must end
	s := &http.Server{Handler: h, BaseContext: func(net.Listener) context.Context {
		return context.WithValue(context.Background(), closingKey{}, streams)
	}, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		<-ctx.Done()
		close(streams)
		grace, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		if s.Shutdown(grace) != nil {
			s.Close()
		}
	}()
	err := s.Serve(l)
	if errors.Is(err, http.ErrServerClosed) {
		<-stopped
		return nil
	}
	return err
}
