package admin

import (
	"context"
	_ "embed"
	"errors"
	"net/http"
	"slices"
	"sync"
)

// A Setup asks on a fresh machine what is to be filtered, and writes the
// settings. Its link is good until that is done.
type Setup struct {
	// Token opens the page.
	Token string
	// Topics are what can be filtered.
	Topics []Topic
	// Write writes settings and takes them into use. Answers that cannot be
	// carried out give [*BadChange].
	Write func(ctx context.Context, a Answers) (*SetUp, error)

	mu   sync.Mutex
	done bool // guarded by mu
}

// A Topic is something that can be filtered.
type Topic struct {
	Name, What string
	Lists      []TopicList
}

// A TopicList is a list that is fetched for a topic.
type TopicList struct{ Name, What, Size, Licence string }

// Answers are what a person chose.
type Answers struct {
	Who         string   // home, school or company
	Topics      []string // by name
	Proxy, DNS  bool
	Network     bool // the whole network, not this machine alone
	Certificate bool // look into encrypted connections
	Contact     string
}

// SetUp is what was done.
type SetUp struct {
	File        string
	Certificate bool
	Steps       []string // to try it
	Remarks     []string // what needs a restart
	Tests       []SetupTest
}

// A SetupTest is something that was looked at.
type SetupTest struct {
	Text string
	Bad  bool
}

//go:embed setup.html
var setupPage string

var errSetUp = errors.New("this link is not good, or was used already; the settings are at /settings")

// setupRoutes returns the first steps, where they are offered.
//
//	GET /setup?token=TOKEN    the questions
//	POST /setup               the answers: token, who=home|school|company,
//	                          topic=NAME…, way=both|proxy|dns, network=yes,
//	                          certificate=yes, contact
func setupRoutes(offered func() *Setup) []route {
	if offered == nil {
		return nil
	}
	page := pageOf(setupPage, noNotice)
	type data struct {
		SetUp
		Token, Error string
		Topics       []Topic
		Done         bool
	}
	show := func(w http.ResponseWriter, status int, d data) { writePage(w, page, status, d) }
	return []route{
		{"GET", "/setup", anyone, func(w http.ResponseWriter, r *http.Request) {
			s := offered()
			if s == nil {
				http.Error(w, errSetUp.Error(), http.StatusForbidden)
				return
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			token := r.URL.Query().Get("token")
			if s.done || !same(token, s.Token) {
				http.Error(w, errSetUp.Error(), http.StatusForbidden)
				return
			}
			show(w, http.StatusOK, data{Token: token, Topics: s.Topics})
		}},
		{"POST", "/setup", anyone, func(w http.ResponseWriter, r *http.Request) {
			r.Body = http.MaxBytesReader(w, r.Body, 16<<10)
			s := offered()
			if s == nil {
				http.Error(w, errSetUp.Error(), http.StatusForbidden)
				return
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if r.ParseForm() != nil || s.done || !same(r.PostForm.Get("token"), s.Token) {
				http.Error(w, errSetUp.Error(), http.StatusForbidden)
				return
			}
			f := r.PostForm
			a := Answers{Who: f.Get("who"), Topics: f["topic"], Network: f.Get("network") != "", Certificate: f.Get("certificate") != "", Contact: f.Get("contact"),
				Proxy: f.Get("way") != "dns", DNS: f.Get("way") != "proxy"}
			var err error
			var done *SetUp
			if !slices.Contains([]string{"home", "school", "company"}, a.Who) || !slices.Contains([]string{"both", "proxy", "dns"}, f.Get("way")) {
				err = &BadChange{errors.New("say who the network is for, and how devices reach the filter")}
			} else {
				done, err = s.Write(r.Context(), a)
			}
			if err != nil {
				show(w, statusOf(err), data{Token: s.Token, Topics: s.Topics, Error: err.Error()})
				return
			}
			s.done = true
			show(w, http.StatusOK, data{SetUp: *done, Done: true})
		}},
	}
}
