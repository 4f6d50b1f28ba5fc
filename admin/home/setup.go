package home

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"sync"

	"shuultuur/admin/lists"
	"shuultuur/admin/web"
)

// A Setup asks the first questions on a new machine, and writes the settings. Its link is valid
// until then.
type Setup struct {
	// Token opens the page.
	Token string
	// Topics are the possible subjects of filtering.
	Topics []Topic
	// Write writes settings and takes them into use. Answers that cannot be
	// carried out give [*web.BadChange].
	Write func(ctx context.Context, a Answers) (*SetUp, error)

	mu   sync.Mutex
	done *SetUp // guarded by mu; nil while the link is valid
}

// A Topic is something that can be filtered.
type Topic struct {
	Name, What string
	Lists      []TopicList
	Optional   bool // it is not chosen at first: many people want it to pass
}

// A TopicList is a list that is fetched for a topic.
type TopicList struct{ Name, What, Size, Licence string }

// Answers are a person's choices.
type Answers struct {
	Who         string   // home, school or company
	Topics      []string // by name
	Proxy, DNS  bool
	Network     bool // for the whole network, not only this machine
	Certificate bool // decrypt encrypted connections
	Contact     string
}

// SetUp is the result of the setup.
type SetUp struct {
	File        string
	Certificate bool
	Steps       []string // how to try it
	Remarks     []string // changes that need a restart
	// Look tests whether the new settings work, for a browser at an address.
	Look func(ctx context.Context, from netip.Addr) []SetupTest
}

// A SetupTest is the result of one test.
type SetupTest struct {
	Text     string
	Bad      bool
	Wait     bool                // its result is not known yet
	Fetching lists.FetchProgress // of a list
}

var errSetUp = errors.New("this link is not good, or was used already; the settings are at /settings")

// SetupRoutes returns the first steps, if they are offered.
//
//	GET /setup?token=TOKEN    the questions
//	POST /setup               the answers: token, who=home|school|company, topic=NAME…, way=both|proxy|dns,
//	                          network=yes, certificate=yes, contact
//	GET /setup/done           what was set up, and whether it works, as long as the gateway runs
func SetupRoutes(offered func() *Setup) []web.Route {
	page := web.PageOf("setup.html", web.NoNotice)
	show := func(w http.ResponseWriter, status int, d setupForm) { web.WritePage(w, page, status, d) }
	refuse := func(w http.ResponseWriter) { http.Error(w, errSetUp.Error(), http.StatusForbidden) }
	// good returns the first steps, locked, while their link is valid.
	good := func(token string) *Setup {
		s := offered()
		if s == nil {
			return nil
		}
		s.mu.Lock()
		if s.done != nil || !equalSecrets(token, s.Token) {
			s.mu.Unlock()
			return nil
		}
		return s
	}
	return []web.Route{
		{Method: "GET", Path: "/setup", Role: web.Anyone,
			Does: "the first steps, by a link that is good once", Query: []web.Field{web.Required("token", "token of the link")}, Gives: "text/html",
			Handler: func(w http.ResponseWriter, r *http.Request) {
				s := good(r.URL.Query().Get("token"))
				if s == nil {
					refuse(w)
					return
				}
				defer s.mu.Unlock()
				first := url.Values{"who": {"home"}, "way": {"both"}}
				for _, t := range s.Topics {
					if !t.Optional {
						first.Add("topic", t.Name)
					}
				}
				show(w, http.StatusOK, setupFormOf(s, first, ""))
			}},
		{Method: "POST", Path: "/setup", Role: web.Anyone,
			Does: "write settings for the answers of the first steps", Gives: "text/html", Form: []web.Field{web.Required("token", "token of the link"), web.Required("who", "home | school | company"), web.Required("way", "both | proxy | dns"), web.Optional("topic", "what is filtered; several times"), web.Optional("network", "yes: the whole network"), web.Optional("certificate", "yes: look into encrypted connections"), web.Optional("contact", "whom a blocked person may ask")},
			Effect: ofFirst,
			Handler: func(w http.ResponseWriter, r *http.Request) {
				r.Body = http.MaxBytesReader(w, r.Body, 16<<10)
				s := good(r.PostFormValue("token"))
				if s == nil {
					refuse(w)
					return
				}
				defer s.mu.Unlock()
				done, err := s.apply(r)
				if err != nil {
					show(w, web.StatusOf(err), setupFormOf(s, r.PostForm, err.Error()))
					return
				}
				s.done = done
				http.Redirect(w, r, "/setup/done", http.StatusSeeOther)
			}},
		{Method: "GET", Path: "/setup/done", Role: web.Viewer,
			Does: "what the first steps have set up, and whether it works", Gives: "text/html",
			Handler: func(w http.ResponseWriter, r *http.Request) {
				s := offered()
				if s == nil {
					http.NotFound(w, r)
					return
				}
				s.mu.Lock()
				done := s.done
				s.mu.Unlock()
				if done == nil {
					http.NotFound(w, r)
					return
				}
				show(w, http.StatusOK, setupForm{SetUp: *done, Tests: done.Look(r.Context(), web.Remote(r)), Done: true})
			}},
	}
}

// A setupForm is the page of the first steps.
type setupForm struct {
	SetUp
	Tests        []SetupTest
	Token, Error string
	Topics       []Topic
	Chosen       map[string]bool // NAME=VALUE of the form
	Contact      string
	Done         bool
}

// setupFormOf returns the questions with the answers so far, and what is wrong with them.
func setupFormOf(s *Setup, f url.Values, failed string) setupForm {
	d := setupForm{Token: s.Token, Topics: s.Topics, Chosen: map[string]bool{}, Contact: f.Get("contact"), Error: failed}
	for name, values := range f {
		for _, v := range values {
			d.Chosen[name+"="+v] = true
		}
	}
	return d
}

// apply carries out the answers.
func (s *Setup) apply(r *http.Request) (*SetUp, error) {
	f := r.PostForm
	if !slices.Contains([]string{"home", "school", "company"}, f.Get("who")) || !slices.Contains([]string{"both", "proxy", "dns"}, f.Get("way")) {
		return nil, &web.BadChange{Err: errors.New("say who the network is for, and how devices reach the filter")}
	}
	return s.Write(r.Context(), Answers{Who: f.Get("who"), Topics: f["topic"], Network: f.Get("network") != "", Certificate: f.Get("certificate") != "", Contact: f.Get("contact"),
		Proxy: f.Get("way") != "dns", DNS: f.Get("way") != "proxy"})
}

const ofFirst = "a machine without settings has no record"

// equalSecrets compares secrets in constant time.
func equalSecrets(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return b != "" && subtle.ConstantTimeCompare(x[:], y[:]) == 1
}
