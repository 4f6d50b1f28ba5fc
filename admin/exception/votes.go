package exception

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"shuultuur/admin/account"
	"shuultuur/admin/report"
	"shuultuur/admin/web"
	"shuultuur/lib/setting"
	"shuultuur/text"
	"shuultuur/vote"
)

// Votes shows and decides votes for the admin address.
type Votes struct {
	Desk *vote.Desk
	// Names returns the names of the devices at some addresses; nil if there is no source of names.
	Names func(ctx context.Context, addrs []netip.Addr) map[netip.Addr]string
	site  *web.Site // set by Routes
}

const (
	mostCases    = 200
	mostDecided  = 500
	mostCounted  = 50
	mostExported = 5000
)

// Routes returns the routes of votes.
//
//	GET /votes             cases that wait for a decision, most people first
//	POST /votes            decides one: remedy, action=open|block|keep, and for
//	                       whom (who), how long (for=TIME, without it for good),
//	                       site (a host name) and reason where wanted
//	GET /votes/decisions   the history of decisions
//	POST /votes/withdraw   id=NUMBER takes one back
//	GET /votes/counts      by=host|url|category|entry|group, name=… for one
//	GET /votes/export      format=text|csv|json, remedy=… for one case
//
// Browsers get HTML, others JSON.
func (v *Votes) Routes(site *web.Site) []web.Route {
	page := site.Page("votes.html")
	v.site = site
	site.TaskSources = append(site.TaskSources, web.TaskSource{Page: "/votes", Tasks: v.tasks})
	form := func(plan func(r *http.Request) (web.PendingChange, error), do func(r *http.Request) error) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
			err := r.ParseForm()
			var c web.PendingChange
			if err == nil {
				c, err = plan(r)
			}
			if err == nil {
				done := false
				if done, err = site.ShowEffect(w, r, c); done {
					return
				}
			}
			if err == nil {
				err = do(r)
			}
			if err != nil {
				var bad *vote.DecisionError
				var badChange *web.BadChange
				status := http.StatusServiceUnavailable
				if errors.As(err, &bad) || errors.As(err, &badChange) {
					status = http.StatusBadRequest
				}
				http.Error(w, err.Error(), status)
				return
			}
			if web.IsPage(r) {
				http.Redirect(w, r, "/votes", http.StatusSeeOther)
				return
			}
			v.queue(w, r, page)
		}
	}
	return []web.Route{
		{Method: "GET", Path: "/votes", Role: web.Lead,
			Link: web.LinkIn(web.Inbox, text.Mark("Requests")),
			Does: "cases that wait for a decision", Gives: web.PageOrJSON,
			Handler: func(w http.ResponseWriter, r *http.Request) { v.queue(w, r, page) }},
		{Method: "POST", Path: "/votes", Role: web.Lead,
			Does: "decide a case", Gives: web.PageOrJSON, Form: []web.Field{web.Required("remedy", "identifier"), web.Required("action", "open | block | keep | more: 15 minutes of time"), web.Optional("who", "for whom; everybody without it"), web.Optional("for", "how long: 15m, 7d; for good without it"), web.Optional("site", "host name"), web.Optional("reason", "answer to those who asked"), web.OnTrial},
			Effect:  web.Judged,
			Handler: form(v.decision, v.decide)},
		{Method: "POST", Path: "/votes/withdraw", Role: web.Lead,
			Does: "take a decision back", Form: append(slices.Clone(web.ByID), web.OnTrial), Gives: web.PageOrJSON,
			Effect:  web.Judged,
			Handler: form(v.withdrawal, v.withdraw)},
		{Method: "GET", Path: "/votes/decisions", Role: web.Lead,
			Does: "the history of decisions",
			Handler: func(w http.ResponseWriter, r *http.Request) {
				all, err := v.Desk.Store().Decisions(r.Context(), mostDecided)
				web.Answer(w, all, err)
			}},
		{Method: "GET", Path: "/votes/counts", Role: web.Lead,
			Does: "votes counted", Query: []web.Field{web.Required("by", "host | url | category | entry | group"), web.Optional("name", "only this one")},
			Handler: func(w http.ResponseWriter, r *http.Request) {
				all, err := v.Desk.Store().Tallies(r.Context(), r.URL.Query().Get("by"), r.URL.Query().Get("name"), mostCounted)
				web.Answer(w, all, err)
			}},
		{Method: "GET", Path: "/votes/export", Role: web.Lead,
			Does: "cases to send on", Query: []web.Field{web.Required("format", "text | csv | json"), web.Optional("remedy", "only this one")}, Gives: "text/plain text/csv application/json",
			Handler: v.export},
	}
}

// tasks returns the cases that wait. One click opens a site for whoever asked alone, for an hour.
func (v *Votes) tasks(ctx context.Context, _ *account.Who, t *text.Texts) (all []web.Task) {
	ctx, cancel := context.WithTimeout(ctx, web.MaxAsk)
	defer cancel()
	cases, err := v.Desk.Store().Queue(ctx, mostCases)
	if err != nil {
		return nil // /health says it
	}
	for _, c := range v.requests(ctx, t, cases) {
		task := web.Task{Icon: "hand", Verdict: "warn", At: c.First, To: "/votes", Do: t.Say("More")}
		if c.Words != "" {
			task.More = "“" + c.Words + "”"
		}
		if c.Hours && c.Words == "" {
			task.More = c.Host
		}
		task.Title = c.title(t)
		switch who := c.For().Value; {
		case who == "":
		case c.Time:
			task.Icon, task.Path, task.Act = "hourglass", "/votes", t.Say("15 minutes more")
			task.Form = []web.FormField{{Name: "remedy", Value: c.Remedy}, {Name: "site", Value: c.Host}, {Name: "who", Value: who}, {Name: "action", Value: "more"}}
		case c.Hours:
			task.Icon, task.Path, task.Act = "hourglass", "/votes", t.Say("15 minutes more")
			task.Form = []web.FormField{{Name: "remedy", Value: c.Remedy}, {Name: "site", Value: c.Host}, {Name: "who", Value: who}, {Name: "action", Value: "open"}, {Name: "for", Value: "15m"}}
		case c.Open:
			task.Path, task.Act = "/votes", t.Say("Open for 1 hour")
			task.Form = []web.FormField{{Name: "remedy", Value: c.Remedy}, {Name: "site", Value: c.Host}, {Name: "who", Value: who}, {Name: "for", Value: "1h"}, {Name: "action", Value: "open"}}
		}
		all = append(all, task)
	}
	return all
}

// parseDecision reads a decision.
func parseDecision(r *http.Request) (vote.Decision, error) {
	f := r.PostForm
	d := vote.Decision{Remedy: f.Get("remedy"), Site: strings.TrimSuffix(strings.ToLower(f.Get("site")), "."), Action: vote.Action(f.Get("action")),
		Who: f.Get("who"), Reason: f.Get("reason"), By: r.RemoteAddr}
	if who := web.UserOf(r); who.Via == "session" || who.Via == "token" {
		d.By = who.Name + " at " + r.RemoteAddr
	} else if user, _, ok := r.BasicAuth(); ok && user != "" {
		d.By = user + " at " + r.RemoteAddr
	}
	if text := f.Get("for"); text != "" {
		var long setting.Duration
		if err := long.UnmarshalText([]byte(text)); err != nil || long.Or(0) <= 0 {
			return d, &vote.DecisionError{Err: fmt.Errorf(`for=%q is not how long it holds: write "1h" or "30d"; leave it out for good`, text)}
		}
		d.Until = time.Now().Add(long.Or(0))
	}
	return d, nil
}

func (v *Votes) decide(r *http.Request) error {
	d, err := parseDecision(r)
	if err != nil {
		return err
	}
	return v.Desk.Decide(context.WithoutCancel(r.Context()), &d)
}

// decision returns the decision that a form describes.
func (v *Votes) decision(r *http.Request) (web.PendingChange, error) {
	c := web.PendingChange{Back: "/votes"}
	d, err := parseDecision(r)
	if err == nil {
		err = v.Desk.Complete(r.Context(), &d)
	}
	if err == nil && d.Action != vote.Keep {
		c.What, c.Votes = d.Site, []vote.Decision{d}
	}
	return c, err
}

// withdrawal returns the changes that taking back a decision would make.
func (v *Votes) withdrawal(r *http.Request) (c web.PendingChange, err error) {
	c.Back = "/votes"
	id, err := withdrawnID(r)
	if err == nil {
		c.Votes, err = v.Desk.Withdrawing(r.Context(), id)
	}
	if len(c.Votes) > 0 {
		c.What = c.Votes[0].Site
	}
	return c, err
}

func withdrawnID(r *http.Request) (int64, error) {
	id, err := strconv.ParseInt(r.PostForm.Get("id"), 10, 64)
	if err != nil {
		return 0, &vote.DecisionError{Err: fmt.Errorf("id=%q is not the number of a decision", r.PostForm.Get("id"))}
	}
	return id, nil
}

func (v *Votes) withdraw(r *http.Request) error {
	id, err := withdrawnID(r)
	if err != nil {
		return err
	}
	_, err = v.Desk.Withdraw(context.WithoutCancel(r.Context()), id)
	return err
}

// A tallyTable is a table of tallies.
type tallyTable struct {
	By  string
	All []vote.Tally
}

func (v *Votes) queue(w http.ResponseWriter, r *http.Request, page web.PageTemplate) {
	s := v.Desk.Store()
	cases, err := s.Queue(r.Context(), mostCases)
	if err != nil || !web.IsPage(r) {
		web.Answer(w, cases, err)
		return
	}
	t := web.TextsOf(w)
	d := &votesPage{MaySet: v.site != nil && v.site.May(w, "/settings/form"), Cases: v.requests(r.Context(), t, cases), Times: decisionTimes, texts: t}
	d.Decisions, err = s.Decisions(r.Context(), 50)
	for _, by := range vote.Dimensions() {
		var all []vote.Tally
		if err == nil {
			all, err = s.Tallies(r.Context(), by, "", 10)
		}
		d.Counts, d.Counted = append(d.Counts, tallyTable{by, all}), d.Counted || all != nil
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	d.names = v.called(r.Context(), cases)
	web.WritePage(w, page, http.StatusOK, d)
}

// A votesPage is what the page of requests shows.
type votesPage struct {
	Cases     []request
	Decisions []vote.Decision
	Counts    []tallyTable
	Counted   bool // anything
	Times     []web.Choice
	MaySet    bool // who is told can be set
	texts     *text.Texts
	names     func(string) string
}

// Called returns the name by which people know somebody.
func (d *votesPage) Called(who string) string { return d.names(who) }

// Kind names a category.
func (d *votesPage) Kind(category string) string { return report.KindName(d.texts, category) }

// decisionTimes are how long a decision may hold.
var decisionTimes = []web.Choice{{Value: "15m", Text: text.Mark("15 minutes")}, {Value: "1h", Text: text.Mark("1 hour")}, {Value: "1d", Text: text.Mark("1 day")}, {Value: "7d", Text: text.Mark("7 days")}, {Text: text.Mark("for good")}}

func (v *Votes) export(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	format := q.Get("format")
	ctype, ok := map[string]string{"text": "text/plain; charset=utf-8", "csv": "text/csv; charset=utf-8", "json": "application/json"}[format]
	if !ok {
		http.Error(w, fmt.Sprintf("format=%q: write text, csv or json", format), http.StatusBadRequest)
		return
	}
	var cases []vote.Case
	var err error
	if remedy := q.Get("remedy"); remedy != "" {
		var c vote.Case
		c, err = v.Desk.Store().Case(r.Context(), remedy)
		cases = append(cases, c)
	} else {
		cases, err = v.Desk.Store().Queue(r.Context(), mostExported)
	}
	var b bytes.Buffer
	if err == nil {
		err = vote.Export(&b, format, cases)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", ctype)
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(b.Bytes()) // it fails if the client has gone away
}
