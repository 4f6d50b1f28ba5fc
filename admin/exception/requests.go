package exception

import (
	"context"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"shuultuur/admin/web"
	"shuultuur/lib/setting"
	"shuultuur/text"
	"shuultuur/vote"
)

// A request is a case as the page shows it: who asks, and for whom it is opened unless somebody
// chooses otherwise.
type request struct {
	vote.Case
	Title  string
	Asker  string // a name where one is known
	Scopes []web.Choice
	Words  string // what somebody said
	URL    string
	Open   bool // it should be open
	Time   bool // it is more time that is asked for, of a limit of a day
	Hours  bool // it is more time at a site that is closed at this hour
}

// For is for whom the case is decided unless somebody chooses otherwise, and how that is said.
func (q *request) For() web.Choice { return q.Scopes[0] }

// title says who asks for what.
func (q *request) title(t *text.Texts) string {
	switch {
	case q.Time, q.Hours:
		return t.Say("{who} asks for 15 minutes more", "who", q.Asker)
	case !q.Open:
		return t.Say("{who} asks to block {site}", "who", q.Asker, "site", q.Host)
	case q.People > 1:
		return t.Say("{who} and others ask to open {site}", "who", q.Asker, "site", q.Host)
	}
	return t.Say("{who} asks to open {site}", "who", q.Asker, "site", q.Host)
}

// requests describes the cases.
func (v *Votes) requests(ctx context.Context, t *text.Texts, cases []vote.Case) (all []request) {
	names := v.called(ctx, cases)
	for _, c := range cases {
		q := request{Case: c, Open: c.Kind == vote.Wrong.String(), Time: c.ForTime(), Hours: c.ForHours()}
		for _, x := range c.Examples {
			if q.Words == "" {
				q.Words = x.Comment
			}
		}
		if len(c.Examples) > 0 {
			first := c.Examples[0]
			q.Asker, q.URL = names(first.Voter), first.URL
			if c.People <= 1 {
				q.Scopes = append(q.Scopes, web.Choice{Value: first.Voter, Text: t.Say("only for {who}", "who", q.Asker)})
			}
		}
		for _, g := range shared(c.Examples) {
			q.Scopes = append(q.Scopes, web.Choice{Value: g, Text: t.Say("only for {who}", "who", g)})
		}
		if !q.Time || len(q.Scopes) == 0 { // time is for somebody
			q.Scopes = append(q.Scopes, web.Choice{Text: t.Say("for everyone")})
		}
		q.Title = q.title(t)
		all = append(all, q)
	}
	return all
}

// shared returns the groups that all examples have.
func shared(examples []vote.Example) (groups []string) {
	for i, x := range examples {
		in := strings.FieldsFunc(x.Groups, func(r rune) bool { return r == ',' || r == ' ' })
		if i == 0 {
			groups = in
		}
		groups = slices.DeleteFunc(groups, func(g string) bool { return !slices.Contains(in, g) })
	}
	return groups
}

// called returns the function from who has voted to the name by which people know them.
func (v *Votes) called(ctx context.Context, cases []vote.Case) func(voter string) string {
	var addrs []netip.Addr
	for _, c := range cases {
		for _, x := range c.Examples {
			if a, err := netip.ParseAddr(x.Voter); err == nil {
				addrs = append(addrs, a)
			}
		}
	}
	var names map[netip.Addr]string
	if v.Names != nil && len(addrs) > 0 {
		names = v.Names(ctx, addrs)
	}
	return func(voter string) string {
		if a, err := netip.ParseAddr(voter); err == nil && names[a] != "" {
			return names[a]
		}
		return voter
	}
}

// NoVotes has the page of requests where people cannot ask yet.
type NoVotes struct {
	// Change changes the settings, see [web.Site]; nil: that cannot be done here.
	Change func(w http.ResponseWriter, r *http.Request, then string, what func() (reason string, changes []setting.Change, err error)) error
}

// Routes returns the routes of requests where people cannot ask yet.
//
//	GET /votes             says so
//	POST /votes/on         lets people ask
func (n *NoVotes) Routes(site *web.Site) []web.Route {
	page := site.Page("novotes.html")
	all := []web.Route{{Method: "GET", Path: "/votes", Role: web.Lead,
		Link: web.LinkIn(web.Inbox, text.Mark("Requests")),
		Does: "cases that wait for a decision", Gives: web.PageOrJSON,
		Handler: func(w http.ResponseWriter, r *http.Request) {
			if !web.IsPage(r) {
				http.Error(w, "no votes are counted here: the settings have no votes, or have them forwarded", http.StatusNotFound)
				return
			}
			d := struct{ May, Saved bool }{site.May(w, "/settings") && n.Change != nil, r.URL.Query().Has("saved")}
			web.WritePage(w, page, http.StatusOK, d)
		}}}
	if n.Change == nil {
		return all
	}
	return append(all, web.Route{Method: "POST", Path: "/votes/on", Role: web.Operator,
		Does: "let people ask to open what is blocked", Gives: web.PageOrJSON, Form: []web.Field{web.OnTrial},
		Effect: web.Judged,
		Handler: func(w http.ResponseWriter, r *http.Request) {
			r.Body = http.MaxBytesReader(w, r.Body, 4<<10)
			err := r.ParseForm()
			if err == nil {
				err = n.Change(w, r, "/votes", func() (string, []setting.Change, error) {
					return "people can ask to open what is blocked", []setting.Change{{Path: []any{"votes"}, Value: map[string]any{}}}, nil
				})
			}
			if err != nil {
				http.Error(w, err.Error(), web.StatusOf(err))
			}
		}})
}
