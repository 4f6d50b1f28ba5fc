package web

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

	"shuultuur/admin/account"
	"shuultuur/lib/metric"
	"shuultuur/lib/tries"
)

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

// These are the reasons for which a request is refused.
const (
	byName = iota
	byOrigin
	byRole
	byScope
	ByToken
	ByRate
	ByAudit
)

var refusals = [...]string{byName: "host", byOrigin: "origin", byRole: "role", byScope: "scope", ByToken: "token", ByRate: "rate", ByAudit: "audit"}

var refusedDesc = metric.NewDesc("shuultuur_admin_refused_total", "Requests to the admin address that were refused: host (a foreign host name), origin (a page of another site), role (not permitted for this account or from other machines), scope (not permitted for this token), token (wrong token or password), rate (too many wrong ones), audit (it could not be recorded).", "reason")

// HostOf returns a Host without its port, in lower case.
func HostOf(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// Collect implements [metric.Collector].
func (s *Site) Collect(ch chan<- metric.Metric) {
	for i, reason := range refusals {
		ch <- metric.New(refusedDesc, metric.Count, float64(s.refused[i].Load()), reason)
	}
}

// Refuse answers a request that the guard refuses, and counts it under the reason.
func (s *Site) Refuse(w http.ResponseWriter, reason, status int, text string) {
	s.CountRefused(reason)
	http.Error(w, text, status)
}

// Remote returns the client's address, or the zero Addr if it is unknown.
func Remote(r *http.Request) netip.Addr {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return from.Addr().Unmap()
}

// guard passes the requests of permitted users, and records those that change
// something.
func (s *Site) guard(r Route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		addr := Remote(q)
		switch {
		case r.Role == Anyone:
			if p := personalOf(w); p != nil {
				p.who = s.here(q) // the menu is there for those who have signed in
			}
			if s.refusedDry(w, q, r, 64<<10) {
				return
			}
			s.answer(r, w, q)
			return
		case r.Role == Monitor && (addr.IsLoopback() || s.isMonitor(addr)):
			r.Handler(w, q)
			return
		}
		who := s.identify(w, q, addr)
		if who == nil {
			return // answered
		}
		if who.Role < Least[r.Role] {
			s.Refuse(w, byRole, http.StatusForbidden, "this is for the role "+r.Role.String()+" or one above it; "+who.Name+" has the role "+who.Role.String())
			return
		}
		if !covers(who, r, q) {
			s.Refuse(w, byScope, http.StatusForbidden, "the scope of this token does not cover "+q.Method+" "+r.Path)
			return
		}
		if p := personalOf(w); p != nil {
			p.who = who
		}
		if s.refusedDry(w, q, r, 3*MaxSettings) {
			return
		}
		s.answer(r, w, q.WithContext(account.With(q.Context(), who)))
	})
}

// MCPPath is where assistants ask.
const MCPPath = "/mcp"

// covers reports whether the scope of a token covers a request. A token that may read may use
// assistants, which only read, and ask for the effect of a change.
func covers(who *account.Who, r Route, q *http.Request) bool {
	reads := who.Covers(http.MethodGet, q.URL.Path)
	if r.Path == MCPPath {
		return reads
	}
	tells, _ := r.HasDryRun()
	return who.Covers(q.Method, q.URL.Path) || reads && tells && DryRun(q.URL.Query())
}

// DryRun reports whether a form or query asks only for the effect of a change. Any value but
// false does, because a mistyped one must not change anything.
func DryRun(f url.Values) bool {
	return slices.ContainsFunc(f["dry_run"], func(v string) bool { return v != "" && v != "0" && v != "false" })
}

// refusedDry answers a dry run of a route that cannot show its effect. It reads a bounded part
// of a form for that.
func (s *Site) refusedDry(w http.ResponseWriter, q *http.Request, r Route, most int64) bool {
	if tells, _ := r.HasDryRun(); tells || r.Method == http.MethodGet || !asksDry(q, most) {
		return false
	}
	refusesDry(w, r)
	return true
}

// asksDry looks for dry_run in the query and in the form, which the handler reads again.
func asksDry(q *http.Request, most int64) bool {
	if DryRun(q.URL.Query()) {
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
	return DryRun(f)
}

func (s *Site) isMonitor(a netip.Addr) bool {
	return slices.ContainsFunc(s.Monitors, func(n netip.Prefix) bool { return n.Contains(a) })
}

// CookieName is the cookie of a session.
const CookieName = "shuultuur-session"

// SetSession gives a browser the cookie of its session.
func SetSession(w http.ResponseWriter, r *http.Request, secret string) {
	http.SetCookie(w, &http.Cookie{Name: CookieName, Value: secret, Path: "/", HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode})
	w.Header().Set("Cache-Control", "no-store")
}

// identify returns the user, and answers requests without one. While
// a client is barred for wrong tokens, its right one counts for nothing: it
// would learn which it was.
func (s *Site) identify(w http.ResponseWriter, r *http.Request, addr netip.Addr) *account.Who {
	any, err := s.Accounts.Any()
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return nil
	}
	if !any && !addr.IsLoopback() && s.Token == "" {
		s.Refuse(w, byRole, http.StatusForbidden, "this is for this machine only; an account (shuultuur account add) or listen.token in the settings opens it to others, and listen.monitors metrics and health")
		return nil
	}
	var who *account.Who
	_, shown := tokenOf(r)
	if shown {
		guess := s.Guess(w, r)
		if guess == nil {
			return nil
		}
		who = s.userOf(r, any)
		guess.End(who == nil)
	} else {
		who = s.userOf(r, any)
	}
	if who != nil {
		return who
	}
	if shown {
		s.CountRefused(ByToken)
	}
	// htmx follows this field where it would put the page for signing in into another.
	inPlace := r.Header.Get("HX-Request") != ""
	if inPlace {
		w.Header().Set("HX-Refresh", "true")
	}
	if any && !shown && !inPlace && IsPage(r) && r.Method == http.MethodGet {
		w.Header().Set("Cache-Control", "no-store")
		http.Redirect(w, r, "/login?"+url.Values{"to": {r.URL.RequestURI()}}.Encode(), http.StatusSeeOther)
		return nil
	}
	w.Header().Add("WWW-Authenticate", `Bearer realm="shuultuur"`)
	if s.Token != "" && !any {
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
func (s *Site) userOf(r *http.Request, any bool) *account.Who {
	if given, shown := tokenOf(r); shown {
		return s.byToken(given)
	}
	if !any {
		if who := account.Machine(); Remote(r).IsLoopback() {
			return &who
		}
		return nil
	}
	if c, err := r.Cookie(CookieName); err == nil {
		used := r.Header.Get(byItself) == "" && r.URL.Path != LivePath
		if who, ok := s.Accounts.BySession(c.Value, used); ok {
			return &who
		}
	}
	return nil
}

// here returns the user of a session, or of this machine while there are no accounts, without
// counting it as a use; nil: nobody is known.
func (s *Site) here(r *http.Request) *account.Who {
	if _, shown := tokenOf(r); shown {
		return nil
	}
	any, err := s.Accounts.Any()
	if err != nil {
		return nil
	}
	if c, err := r.Cookie(CookieName); any && err == nil {
		if who, ok := s.Accounts.BySession(c.Value, false); ok {
			return &who
		}
		return nil
	}
	return s.userOf(r, any)
}

// StillAllowed returns the user of a long request, if the user still may send it now.
func (s *Site) StillAllowed(r *http.Request) *account.Who {
	any, err := s.Accounts.Any()
	if err != nil {
		return nil
	}
	who := s.userOf(r, any)
	if who == nil || who.Role < Least[s.pages[r.URL.Path]] {
		return nil
	}
	return who
}

// Guess begins a try to give a token or a password, whose end says whether it was wrong. It
// answers a client that has tried too often, and returns nil.
func (s *Site) Guess(w http.ResponseWriter, r *http.Request) *tries.Try[netip.Prefix] {
	t, err := s.wrong.Begin(r.Context(), clientOf(Remote(r)))
	if err != nil {
		w.Header().Set("Retry-After", "60")
		s.Refuse(w, ByRate, http.StatusTooManyRequests, "too many wrong tokens or passwords from this address; wait a minute")
		return nil
	}
	return t
}

// NoteWrong counts a wrong password whose try was of an account alone.
func (s *Site) NoteWrong(addr netip.Addr) { s.wrong.Add(clientOf(addr)) }

// byToken returns the user that a token belongs to, or nil.
func (s *Site) byToken(given string) *account.Who {
	got := sha256.Sum256([]byte(given)) // the digests have equal length, so that the time of the comparison reveals nothing
	if s.Token != "" && subtle.ConstantTimeCompare(got[:], s.want[:]) == 1 {
		return &account.Who{Name: "token of the settings", Role: account.Owner, Via: "settings"}
	}
	if s.Accounts == nil {
		return nil
	}
	if who, ok := s.Accounts.ByToken(given); ok {
		return &who
	}
	return nil
}

// UserOf returns the user of a request that passed the guard.
func UserOf(r *http.Request) *account.Who {
	return cmp.Or(account.Of(r.Context()), &account.Who{Name: "nobody"})
}

// MaxSettings is the largest file of settings, in bytes.
const MaxSettings = 2 << 20

// Author returns the name of the user, for the history.
func Author(r *http.Request) string {
	return UserOf(r).Name + " at " + Remote(r).String()
}

// LivePath is the path of the stream of new events, which a page holds open.
const LivePath = "/events/live"
