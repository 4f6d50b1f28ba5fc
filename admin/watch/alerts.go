//go:build !small

package watch

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"shuultuur/admin/account"
	"shuultuur/admin/alert"
	"shuultuur/admin/web"
	"shuultuur/event"
	"shuultuur/text"
)

// An alert is shown with the person's events in this span before and after it, and at most this
// number on each side.
const (
	alertAround = 30 * time.Minute
	alertRows   = 200
)

var errNothingWatched = errors.New("nothing is watched: name themes under alerts in the settings")

// Alerts are the pages of alerts.
type Alerts struct {
	Site *web.Site
	// Alerts returns the desk; nil while no theme is watched.
	Alerts func() *alert.Desk
	Events *web.Record // nil: no record can be asked
}

// Routes returns the routes of alerts.
//
//	GET /alerts           all of them, open ones first; HTML or JSON GET /alerts/{id} one, with the events before and after; HTML or JSON
//	POST /alerts/{id}     does=acknowledged|closed|open&note=TEXT
func (p *Alerts) Routes() []web.Route {
	all, one := p.Site.Page("alerts.html"), p.Site.Page("alert.html")
	p.Site.TaskSources = append(p.Site.TaskSources, web.TaskSource{Page: "/alerts", Tasks: p.tasks})
	return []web.Route{
		{Method: "GET", Path: "/alerts", Role: web.Lead,
			Link: web.LinkIn(web.Inbox, text.Mark("Alerts")),
			Does: "alerts, open ones first", Gives: web.PageOrJSON,
			Handler: func(w http.ResponseWriter, r *http.Request) { p.alerts(w, r, all) }},
		{Method: "GET", Path: "/alerts/{id}", Role: web.Lead,
			Does: "an alert, with what was before and after", Gives: web.PageOrJSON,
			Handler: func(w http.ResponseWriter, r *http.Request) { p.alert(w, r, one) }},
		{Method: "POST", Path: "/alerts/{id}", Role: web.Lead,
			Does: "acknowledge, close or open an alert", Gives: web.PageOrJSON, Form: []web.Field{web.Required("does", "acknowledged | closed | open"), web.Optional("note", "what was done; needed to close")},
			Effect:  web.OfAlerts,
			Handler: p.settleAlert},
	}
}

func (p *Alerts) alerts(w http.ResponseWriter, r *http.Request, page web.PageTemplate) {
	d := p.Alerts()
	var all []alert.Alert
	if d != nil {
		all = d.All()
	}
	if !web.IsPage(r) {
		if d == nil {
			http.Error(w, errNothingWatched.Error(), http.StatusNotFound)
			return
		}
		web.WriteJSON(w, http.StatusOK, all)
		return
	}
	open := 0
	for i := range all {
		if all[i].State == alert.Open {
			open++
		}
	}
	web.WritePage(w, page, http.StatusOK, struct {
		Alerts  []alert.Alert
		Open    int
		Watched bool
	}{all, open, d != nil})
}

// tasks returns the alerts that nobody has read.
func (p *Alerts) tasks(_ context.Context, _ *account.Who, t *text.Texts) (tasks []web.Task) {
	d := p.Alerts()
	if d == nil {
		return nil
	}
	for _, a := range d.All() {
		if a.State == alert.Open {
			who := cmp.Or(a.User, a.Client.String())
			tasks = append(tasks, web.Task{Icon: "bell", Verdict: "block", Title: who + ": " + a.Theme, More: t.Say(a.Severity.String()),
				At: a.Last, To: "/alerts/" + a.ID, Do: t.Say("Read alert"), Urgent: a.Severity == alert.High})
		}
	}
	return tasks
}

// An alertInFull is an alert with the events before and after it.
type alertInFull struct {
	alert.Alert
	Around   []event.Row    `json:"around"`
	Rows     []web.EventRow `json:"-"`
	NoAround string         `json:"no_around,omitempty"` // why there are no events
}

func (p *Alerts) alert(w http.ResponseWriter, r *http.Request, page web.PageTemplate) {
	d, err := p.desk()
	var a alert.Alert
	if err == nil {
		a, err = d.One(r.PathValue("id"))
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	x := alertInFull{Alert: a}
	if err := p.eventsAround(r.Context(), &x); err != nil {
		x.NoAround = err.Error()
	}
	if !web.IsPage(r) {
		web.WriteJSON(w, http.StatusOK, x)
		return
	}
	web.WritePage(w, page, http.StatusOK, &x)
}

// eventsAround finds the events of an alert's person before and after it. It is a look,
// limited to the events that the user may see, and is in the audit log.
func (p *Alerts) eventsAround(ctx context.Context, x *alertInFull) error {
	if p.Events == nil {
		return errors.New("no store that can be asked keeps events")
	}
	f := event.Filter{Since: x.First.Add(-alertAround), Until: x.Last.Add(alertAround)}
	field, value := event.User, x.User
	if value == "" {
		field, value = event.Client, x.Client.String()
	}
	if err := f.And(field, false, value); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, web.MaxAsk)
	defer cancel()
	for row, err := range p.Events.Query(ctx, f, event.Page{Limit: alertRows}) {
		if err != nil {
			return web.TooLong(ctx, err)
		}
		x.Around = append(x.Around, row)
		x.Rows = append(x.Rows, web.EventRow{Row: &row})
	}
	return nil
}

func (p *Alerts) desk() (*alert.Desk, error) {
	if d := p.Alerts(); d != nil {
		return d, nil
	}
	return nil, errNothingWatched
}

func (p *Alerts) settleAlert(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, web.MaxForm)
	d, err := p.desk()
	if err == nil {
		err = r.ParseForm()
	}
	if err == nil {
		err = d.Settle(r.PathValue("id"), web.UserOf(r).Name, alert.State(r.PostForm.Get("does")), r.PostForm.Get("note"))
	}
	switch {
	case errors.Is(err, alert.ErrNone), errors.Is(err, errNothingWatched):
		http.Error(w, err.Error(), http.StatusNotFound)
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
	case web.IsPage(r):
		http.Redirect(w, r, "/alerts/"+r.PathValue("id"), http.StatusSeeOther)
	default:
		a, _ := d.One(r.PathValue("id"))
		web.WriteJSON(w, http.StatusOK, a)
	}
}
