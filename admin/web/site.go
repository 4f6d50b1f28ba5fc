// Package web is what all pages of the admin address stand on: rows, guard, page, form, audit.
//
// A subject of the menu returns its rows ([Route]). [Site.Serve] puts each behind the guard
// (guard.go), which identifies the user and compares the role; audit.go records a change before it
// is made; effect.go shows what it would do. Pages are templates (page.go) in a frame with the menu
// (frame.go), which is made from the rows. The record that a subject asks is limited to what the
// user may see (access.go).
package web

import (
	"cmp"
	"context"
	"crypto/sha256"
	"net/http"
	"net/netip"
	"slices"
	"sync/atomic"

	"shuultuur/admin/account"
	"shuultuur/lib/tries"
	"shuultuur/text"
)

// A Site answers on the admin address.
type Site struct {
	Shared
	mux     *http.ServeMux
	want    [sha256.Size]byte          // the digest of the token
	wrong   *tries.Limit[netip.Prefix] // tokens and passwords, by client
	second  seconds
	refused [len(refusals)]atomic.Uint64
	pages   map[string]Role // which roles see which paths
	Rows    []Route         // the table of pages
	frame   PageTemplate    // the menu and the tabs
	errors  PageTemplate
	effects PageTemplate // of changes
	tasks   tasks
	// TaskSources find what waits for somebody.
	TaskSources []TaskSource
}

// Shared is what all pages share.
type Shared struct {
	Texts text.Choice // texts of the pages
	// Notice is shown on every page; nil: there is none.
	Notice noticeFunc
	// Token permits everything to clients on other machines. Without one and without accounts, only
	// this machine may use the address.
	Token string
	// Monitors are the networks that may read metrics and health without it.
	Monitors []netip.Prefix
	Accounts *account.Book // nil: there are none
	Audit    *account.Log  // nil: nothing is recorded
	// Names are the names by which browsers may ask for this address, besides localhost.
	Names func() []string // nil: none
	// Groups returns the groups of a user at an address. Nil: users have no groups.
	Groups func(addr netip.Addr, user string) []string
	// Members returns the groups of the settings with their members. Nil: there are none.
	Members func() map[string][]string
	// Privacy returns the current settings for privacy. Nil: the defaults.
	Privacy func() Privacy
	// Agreed returns the people whose browsing a user may look into, because somebody else has
	// agreed. Nil: there are none.
	Agreed func(by string) []string
	// Judge judges the events of the last day as if a change were made. A change that cannot be made
	// gives [*BadChange]. Nil: there is no record.
	Judge func(context.Context, Trial) (*Effect, error)
}

// NewSite returns a server without pages.
func NewSite(c Shared) *Site {
	if c.Notice == nil {
		c.Notice = NoNotice
	}
	s := &Site{Shared: c, wrong: newTries(), mux: http.NewServeMux(), want: sha256.Sum256([]byte(c.Token)), pages: map[string]Role{}}
	s.errors, s.effects, s.frame = s.Page("error.html"), s.Page("effect.html"), s.Page("frame.html")
	return s
}

// Page prepares a page. All pages have the same style, link to one another, and show the notice.
func (s *Site) Page(name string) PageTemplate { return PageOf(name, s.Notice) }

// Serve serves pages. A request from a page of another origin that would change something is
// refused. So is one whose Host is a name other than localhost, because pages in a browser on this
// machine must not reach it by pointing a name of theirs at the loopback address.
func (s *Site) Serve(all []Route) {
	cross := http.NewCrossOriginProtection()
	cross.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s.Refuse(w, byOrigin, http.StatusForbidden, "a page of another site has sent this; do it from a page of this address")
	}))
	s.Rows = all
	for _, r := range all {
		if r.Method == http.MethodGet {
			s.pages[r.Path] = r.Role
		}
		s.mux.Handle(r.Method+" "+r.Path, cross.Handler(s.guard(r)))
	}
}

// ServeHTTP refuses a Host that is not one of our names.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if IsPage(r) {
		view := viewOf(r)
		p := &pageWriter{ResponseWriter: w, server: s, asked: r, view: view, at: "/", texts: s.Texts.For(cmp.Or(view.Lang, r.Header.Get("Accept-Language")))}
		if r.Method == http.MethodGet {
			p.at = r.URL.RequestURI()
		}
		defer p.end(s.errors)
		w = p
	}
	if !ownName(r.Host) && (s.Names == nil || !slices.Contains(s.Names(), HostOf(r.Host))) {
		s.Refuse(w, byName, http.StatusForbidden, "ask for this page by address, or by a name of access.names in the settings")
		return
	}
	s.mux.ServeHTTP(w, r)
}

// CountRefused counts a request that is refused for a reason.
func (s *Site) CountRefused(reason int) { s.refused[reason].Add(1) }
