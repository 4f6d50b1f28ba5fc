package admin

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"

	"shuultuur/admin/account"
	"shuultuur/metric"
)

// A role determines who may use a route. The token of the settings and, while
// there are no accounts, this machine have the role of an owner.
type role int

const (
	anyone   role = iota // every client that reaches the address
	monitor              // networks of [Parts.Monitors], this machine, and everyone with the role operator
	viewer               // every account
	helper               // those who look after groups, for their own groups only; and all below
	lead                 // safeguarding leads, and all below
	operator             // operators and owners
	owner                // owners
)

// least returns the least role of an account that may use a route for r.
var least = [...]account.Role{anyone: account.None, monitor: account.Operator, viewer: account.Viewer, helper: account.Helper,
	lead: account.Lead, operator: account.Operator, owner: account.Owner}

func (r role) String() string {
	return [...]string{"anyone", "monitor", "viewer", "helper", "safeguarding-lead", "operator", "owner"}[r]
}

// A route is one line of the table that [Parts.routes] makes. Its parameters and
// answers are described in the table of openapi.go, by method and path.
type route struct {
	method, path string // as in a pattern of [http.ServeMux]
	role         role
	handler      http.HandlerFunc
}

// A Server answers on the admin address.
type Server struct {
	mux      *http.ServeMux
	parts    *Parts
	token    string
	want     [sha256.Size]byte
	monitors []netip.Prefix
	wrong    tries
	refused  [len(refusals)]atomic.Uint64
	pages    map[string]role // which roles see which paths
	errors   pageTemplate
	effects  pageTemplate // of changes
}

// These are the reasons for which a request is refused.
const (
	byName = iota
	byOrigin
	byRole
	byScope
	byToken
	byRate
	byAudit
)

var refusals = [...]string{byName: "host", byOrigin: "origin", byRole: "role", byScope: "scope", byToken: "token", byRate: "rate", byAudit: "audit"}

var refusedDesc = metric.NewDesc("shuultuur_admin_refused_total", "Requests to the admin address that were refused: host (a foreign host name), origin (a page of another site), role (not permitted for this account or from other machines), scope (not permitted for this token), token (wrong token or password), rate (too many wrong ones), audit (it could not be recorded).", "reason")

// New returns the handler of the admin address.
func New(p Parts) *Server {
	s := &Server{mux: http.NewServeMux(), parts: &p, token: p.Token, want: sha256.Sum256([]byte(p.Token)), monitors: p.Monitors, pages: map[string]role{}, errors: pageOf("error.html", p.Pause.notice), effects: pageOf("effect.html", p.Pause.notice)}
	p.server = s
	bindEffects(&p)
	if p.Events != nil {
		e := *p.Events
		e.Reader = &reader{e.Reader, &p}
		p.Events = &e
	}
	if p.Pause != nil {
		rest := *p.Pause
		rest.groups = p.Groups
		p.Pause = &rest
	}
	cross := http.NewCrossOriginProtection()
	cross.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s.refuse(w, byOrigin, http.StatusForbidden, "a page of another site has sent this; do it from a page of this address")
	}))
	for _, r := range p.routes() {
		if r.method == http.MethodGet {
			s.pages[r.path] = r.role
		}
		s.mux.Handle(r.method+" "+r.path, cross.Handler(s.guard(r)))
	}
	return s
}

// ServeHTTP refuses a Host that is not one of our names.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if isPage(r) {
		p := &pageWriter{ResponseWriter: w, server: s, texts: s.parts.Texts.For(r.Header.Get("Accept-Language"))}
		defer p.end(s.errors)
		w = p
	}
	if !ownName(r.Host) && (s.parts.Names == nil || !slices.Contains(s.parts.Names(), hostOf(r.Host))) {
		s.refuse(w, byName, http.StatusForbidden, "ask for this page by address, or by a name of access.names in the settings")
		return
	}
	s.mux.ServeHTTP(w, r)
}

// hostOf returns a Host without its port, in lower case.
func hostOf(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// Collect implements [metric.Collector].
func (s *Server) Collect(ch chan<- metric.Metric) {
	for i, reason := range refusals {
		ch <- metric.New(refusedDesc, metric.Count, float64(s.refused[i].Load()), reason)
	}
}

func (s *Server) refuse(w http.ResponseWriter, reason, status int, text string) {
	s.refused[reason].Add(1)
	http.Error(w, text, status)
}

// remote returns the client's address, or the zero Addr if it is unknown.
func remote(r *http.Request) netip.Addr {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return from.Addr().Unmap()
}

// guard passes the requests of permitted users, and records those that change
// something.
func (s *Server) guard(r route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		addr := remote(q)
		switch {
		case r.role == anyone:
			if s.refusedDry(w, q, r, 64<<10) {
				return
			}
			s.answer(r, w, q)
			return
		case r.role == monitor && (addr.IsLoopback() || s.isMonitor(addr)):
			r.handler(w, q)
			return
		}
		who := s.identify(w, q, addr)
		if who == nil {
			return // answered
		}
		if who.Role < least[r.role] {
			s.refuse(w, byRole, http.StatusForbidden, "this is for the role "+r.role.String()+" or one above it; "+who.Name+" has the role "+who.Role.String())
			return
		}
		if !covers(who, r, q) {
			s.refuse(w, byScope, http.StatusForbidden, "the scope of this token does not cover "+q.Method+" "+r.path)
			return
		}
		if p := personalOf(w); p != nil {
			p.who = who
		}
		if s.refusedDry(w, q, r, 3*maxSettings) {
			return
		}
		s.answer(r, w, q.WithContext(account.With(q.Context(), who)))
	})
}

// mcpPath is where assistants ask.
const mcpPath = "/mcp"

// covers reports whether the scope of a token covers a request. A token that may read may use
// assistants, which only read, and ask for the effect of a change.
func covers(who *account.Who, r route, q *http.Request) bool {
	reads := who.Covers(http.MethodGet, q.URL.Path)
	if r.path == mcpPath {
		return reads
	}
	tells, _ := r.hasDryRun()
	return who.Covers(q.Method, q.URL.Path) || reads && tells && dryRun(q.URL.Query())
}

// dryRun reports whether a form or query asks only for the effect of a change. Any value but
// false does, because a mistyped one must not change anything.
func dryRun(f url.Values) bool {
	return slices.ContainsFunc(f["dry_run"], func(v string) bool { return v != "" && v != "0" && v != "false" })
}

// refusedDry answers a dry run of a route that cannot show its effect. It reads a bounded part
// of a form for that.
func (s *Server) refusedDry(w http.ResponseWriter, q *http.Request, r route, most int64) bool {
	if tells, _ := r.hasDryRun(); tells || r.method == http.MethodGet || !asksDry(q, most) {
		return false
	}
	refusesDry(w, r)
	return true
}

// asksDry looks for dry_run in the query and in the form, which the handler reads again.
func asksDry(q *http.Request, most int64) bool {
	if dryRun(q.URL.Query()) {
		return true
	}
	if kind, _, _ := mime.ParseMediaType(q.Header.Get("Content-Type")); kind != "application/x-www-form-urlencoded" {
		return false
	}
	first, _ := io.ReadAll(io.LimitReader(q.Body, most)) // the handler meets the error again
	q.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(first), q.Body), q.Body}
	f, _ := url.ParseQuery(string(first)) // the readable part of it
	return dryRun(f)
}

func (s *Server) isMonitor(a netip.Addr) bool {
	return slices.ContainsFunc(s.monitors, func(n netip.Prefix) bool { return n.Contains(a) })
}

// cookieName is the cookie of a session.
const cookieName = "shuultuur-session"

// identify returns the user, and answers requests without one. While
// a client is barred for wrong tokens, its right one counts for nothing: it
// would learn which it was.
func (s *Server) identify(w http.ResponseWriter, r *http.Request, addr netip.Addr) *account.Who {
	any, err := s.parts.Accounts.Any()
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return nil
	}
	if !any && !addr.IsLoopback() && s.token == "" {
		s.refuse(w, byRole, http.StatusForbidden, "this is for this machine only; an account (shuultuur account add) or listen.token in the settings opens it to others, and listen.monitors metrics and health")
		return nil
	}
	_, shown := tokenOf(r)
	if shown && s.barred(w, addr) {
		return nil
	}
	if who := s.userOf(r, any); who != nil {
		return who
	}
	if shown {
		s.wrong.add(addr)
		s.refused[byToken].Add(1)
	}
	// htmx follows this field where it would put the page for signing in into another.
	inPlace := r.Header.Get("HX-Request") != ""
	if inPlace {
		w.Header().Set("HX-Refresh", "true")
	}
	if any && !shown && !inPlace && isPage(r) && r.Method == http.MethodGet {
		w.Header().Set("Cache-Control", "no-store")
		http.Redirect(w, r, "/login?"+url.Values{"to": {r.URL.RequestURI()}}.Encode(), http.StatusSeeOther)
		return nil
	}
	w.Header().Add("WWW-Authenticate", `Bearer realm="shuultuur"`)
	if s.token != "" && !any {
		w.Header().Add("WWW-Authenticate", `Basic realm="shuultuur"`)
	}
	text := "this needs the token of listen.token"
	switch {
	case shown:
		text = "the token is wrong, or has expired or been ended"
	case any:
		text = "sign in at /login, or send a token"
	}
	http.Error(w, text, http.StatusUnauthorized)
	return nil
}

// tokenOf returns the token that a request shows.
func tokenOf(r *http.Request) (given string, shown bool) {
	if given, shown = strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); !shown {
		_, given, shown = r.BasicAuth()
	}
	return given, shown
}

// byItself is the field with which a page says that it makes a request by itself.
const byItself = "Shuultuur-Refresh"

// userOf returns the user whose token or session a request has, or nil. Without accounts, this
// machine needs neither, but a wrong token is still refused.
func (s *Server) userOf(r *http.Request, any bool) *account.Who {
	if given, shown := tokenOf(r); shown {
		return s.byToken(given)
	}
	if !any {
		if who := account.Machine(); remote(r).IsLoopback() {
			return &who
		}
		return nil
	}
	if c, err := r.Cookie(cookieName); err == nil {
		used := r.Header.Get(byItself) == "" && r.URL.Path != livePath
		if who, ok := s.parts.Accounts.BySession(c.Value, used); ok {
			return &who
		}
	}
	return nil
}

// stillAllowed returns the user of a long request, if the user still may send it now.
func (s *Server) stillAllowed(r *http.Request) *account.Who {
	any, err := s.parts.Accounts.Any()
	if err != nil {
		return nil
	}
	who := s.userOf(r, any)
	if who == nil || who.Role < least[s.pages[r.URL.Path]] {
		return nil
	}
	return who
}

// barred answers a client that has tried too often.
func (s *Server) barred(w http.ResponseWriter, addr netip.Addr) bool {
	if !s.wrong.barred(addr) {
		return false
	}
	w.Header().Set("Retry-After", "60")
	s.refuse(w, byRate, http.StatusTooManyRequests, "too many wrong tokens or passwords from this address; wait a minute")
	return true
}

// byToken returns the user that a token belongs to, or nil.
func (s *Server) byToken(given string) *account.Who {
	got := sha256.Sum256([]byte(given)) // the digests have equal length, so that the time of the comparison reveals nothing
	if s.token != "" && subtle.ConstantTimeCompare(got[:], s.want[:]) == 1 {
		return &account.Who{Name: "token of the settings", Role: account.Owner, Via: "settings"}
	}
	if s.parts.Accounts == nil {
		return nil
	}
	if who, ok := s.parts.Accounts.ByToken(given); ok {
		return &who
	}
	return nil
}

// userOf returns the user of a request that passed the guard.
func userOf(r *http.Request) *account.Who {
	return cmp.Or(account.Of(r.Context()), &account.Who{Name: "nobody"})
}
