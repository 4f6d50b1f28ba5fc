package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// A role says which clients a route answers. This machine is always one.
type role int

const (
	anyone   role = iota // every client that reaches the address
	monitor              // networks of [Parts.Monitors], and what operator says
	operator             // holders of the token
)

// A route is one line of the table that [Parts.routes] makes.
type route struct {
	method, path string // as in a pattern of [http.ServeMux]
	role         role
	handler      http.HandlerFunc
}

// A Server answers on the admin address.
type Server struct {
	mux      *http.ServeMux
	token    string
	want     [sha256.Size]byte
	monitors []netip.Prefix
	wrong    tries
	refused  [len(refusals)]atomic.Uint64
}

// Reasons for which a request is refused.
const (
	byName = iota
	byRole
	byToken
	byRate
)

var refusals = [...]string{byName: "host", byRole: "role", byToken: "token", byRate: "rate"}

var refusedDesc = prometheus.NewDesc("shuultuur_admin_refused_total",
	"Requests to the admin address that were refused: host (a name of somebody else's), role (not for other machines), token (a wrong one), rate (too many wrong ones).", []string{"reason"}, nil)

// New returns what answers on the admin address.
func New(p Parts) *Server {
	s := &Server{mux: http.NewServeMux(), token: p.Token, want: sha256.Sum256([]byte(p.Token)), monitors: p.Monitors}
	cross := http.NewCrossOriginProtection()
	for _, r := range p.routes() {
		s.mux.Handle(r.method+" "+r.path, cross.Handler(s.guard(r)))
	}
	return s
}

// ServeHTTP refuses a Host that is a name of somebody else's.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !ownName(r.Host) {
		s.refuse(w, byName, http.StatusForbidden, "ask for this page by address, not by name")
		return
	}
	s.mux.ServeHTTP(w, r)
}

// Describe implements [prometheus.Collector].
func (s *Server) Describe(ch chan<- *prometheus.Desc) { ch <- refusedDesc }

// Collect implements [prometheus.Collector].
func (s *Server) Collect(ch chan<- prometheus.Metric) {
	for i, reason := range refusals {
		ch <- prometheus.MustNewConstMetric(refusedDesc, prometheus.CounterValue, float64(s.refused[i].Load()), reason)
	}
}

func (s *Server) refuse(w http.ResponseWriter, reason, status int, text string) {
	s.refused[reason].Add(1)
	http.Error(w, text, status)
}

// guard lets pass whom the route is for.
func (s *Server) guard(r route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		from, err := netip.ParseAddrPort(q.RemoteAddr)
		addr := from.Addr().Unmap()
		if r.role == anyone || err == nil && (addr.IsLoopback() || r.role == monitor && s.isMonitor(addr)) || s.holdsToken(w, q, addr) {
			r.handler(w, q)
		}
	})
}

func (s *Server) isMonitor(a netip.Addr) bool {
	for _, n := range s.monitors {
		if n.Contains(a) {
			return true
		}
	}
	return false
}

// holdsToken says whether a request has the token, and answers one that has
// not. While a client is barred for wrong tokens, its right one counts for
// nothing: it would learn which it was.
func (s *Server) holdsToken(w http.ResponseWriter, r *http.Request, addr netip.Addr) bool {
	if s.token == "" {
		s.refuse(w, byRole, http.StatusForbidden, "this is for this machine only; listen.token in the settings opens it to others, and listen.monitors metrics and health")
		return false
	}
	given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		_, given, ok = r.BasicAuth()
	}
	if ok && s.wrong.barred(addr) {
		w.Header().Set("Retry-After", "60")
		s.refuse(w, byRate, http.StatusTooManyRequests, "too many wrong tokens from this address; wait a minute")
		return false
	}
	got := sha256.Sum256([]byte(given)) // of one length, so that comparing tells nothing
	if ok && subtle.ConstantTimeCompare(got[:], s.want[:]) == 1 {
		return true
	}
	if ok {
		s.wrong.add(addr)
		s.refused[byToken].Add(1)
	}
	w.Header().Add("WWW-Authenticate", `Bearer realm="shuultuur"`)
	w.Header().Add("WWW-Authenticate", `Basic realm="shuultuur"`)
	http.Error(w, "this needs the token of listen.token", http.StatusUnauthorized)
	return false
}
