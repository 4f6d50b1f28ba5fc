package admin

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"sync"
)

// A Setup asks the first questions on a new machine, and writes the settings. Its link is valid
// until then.
type Setup struct {
	// Token opens the page.
	Token string
	// Topics are the possible subjects of filtering.
	Topics []Topic
	// Write writes settings and takes them into use. Answers that cannot be
	// carried out give [*BadChange].
	Write func(ctx context.Context, a Answers) (*SetUp, error)

	mu   sync.Mutex
	done *SetUp // guarded by mu; nil while the link is valid
}

// A Topic is something that can be filtered.
type Topic struct {
	Name, What string
	Lists      []TopicList
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
	Wait     bool          // its result is not known yet
	Fetching FetchProgress // of a list
}

var errSetUp = errors.New("this link is not good, or was used already; the settings are at /settings")

// setupRoutes returns the first steps, if they are offered.
//
//	GET /setup?token=TOKEN    the questions
//	POST /setup               the answers: token, who=home|school|company, topic=NAME…, way=both|proxy|dns,
//	                          network=yes, certificate=yes, contact
//	GET /setup/done           what was set up, and whether it works, as long as the gateway runs
func setupRoutes(offered func() *Setup) []route {
	if offered == nil {
		return nil
	}
	page := pageOf("setup.html", noNotice)
	show := func(w http.ResponseWriter, status int, d setupForm) { writePage(w, page, status, d) }
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
	return []route{
		{"GET", "/setup", anyone, func(w http.ResponseWriter, r *http.Request) {
			s := good(r.URL.Query().Get("token"))
			if s == nil {
				refuse(w)
				return
			}
			defer s.mu.Unlock()
			first := url.Values{"who": {"home"}, "way": {"both"}}
			for _, t := range s.Topics {
				first.Add("topic", t.Name)
			}
			show(w, http.StatusOK, setupFormOf(s, first, ""))
		}},
		{"POST", "/setup", anyone, func(w http.ResponseWriter, r *http.Request) {
			r.Body = http.MaxBytesReader(w, r.Body, 16<<10)
			s := good(r.PostFormValue("token"))
			if s == nil {
				refuse(w)
				return
			}
			defer s.mu.Unlock()
			done, err := s.apply(r)
			if err != nil {
				show(w, statusOf(err), setupFormOf(s, r.PostForm, err.Error()))
				return
			}
			s.done = done
			http.Redirect(w, r, "/setup/done", http.StatusSeeOther)
		}},
		{"GET", "/setup/done", viewer, func(w http.ResponseWriter, r *http.Request) {
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
			show(w, http.StatusOK, setupForm{SetUp: *done, Tests: done.Look(r.Context(), remote(r)), Done: true})
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
		return nil, &BadChange{errors.New("say who the network is for, and how devices reach the filter")}
	}
	return s.Write(r.Context(), Answers{Who: f.Get("who"), Topics: f["topic"], Network: f.Get("network") != "", Certificate: f.Get("certificate") != "", Contact: f.Get("contact"),
		Proxy: f.Get("way") != "dns", DNS: f.Get("way") != "proxy"})
}
