//go:build !small

package admin

import (
	"context"
	"errors"
	"net/http"
	"time"

	template "github.com/DataDog/datadog-agent/pkg/template/html"

	"shuultuur/admin/alert"
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

// alertRoutes returns the routes of alerts.
//
//	GET /alerts           all of them, open ones first; HTML or JSON GET /alerts/{id} one, with the events before and after; HTML or JSON
//	POST /alerts/{id}     does=acknowledged|closed|open&note=TEXT
func alertRoutes(p *Parts) []route {
	if p.Alerts == nil {
		return nil
	}
	all, one := pageOf("alerts.html", p.Pause.notice), pageOf("alert.html", p.Pause.notice)
	return []route{
		{"GET", "/alerts", lead, func(w http.ResponseWriter, r *http.Request) { p.alerts(w, r, all) }},
		{"GET", "/alerts/{id}", lead, func(w http.ResponseWriter, r *http.Request) { p.alert(w, r, one) }},
		{"POST", "/alerts/{id}", lead, p.settleAlert},
	}
}

func (p *Parts) alerts(w http.ResponseWriter, r *http.Request, page pageTemplate) {
	d := p.Alerts()
	var all []alert.Alert
	if d != nil {
		all = d.All()
	}
	if !isPage(r) {
		if d == nil {
			http.Error(w, errNothingWatched.Error(), http.StatusNotFound)
			return
		}
		writeJSON(w, http.StatusOK, all)
		return
	}
	open := 0
	for i := range all {
		if all[i].State == alert.Open {
			open++
		}
	}
	writePage(w, page, http.StatusOK, struct {
		Alerts  []alert.Alert
		Open    int
		Watched bool
	}{all, open, d != nil})
}

// An alertInFull is an alert with the events before and after it.
type alertInFull struct {
	alert.Alert
	Around   []event.Row `json:"around"`
	Rows     []eventRow  `json:"-"`
	NoAround string      `json:"no_around,omitempty"` // why there are no events
}

func (p *Parts) alert(w http.ResponseWriter, r *http.Request, page pageTemplate) {
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
	if !isPage(r) {
		writeJSON(w, http.StatusOK, x)
		return
	}
	writePage(w, page, http.StatusOK, &x)
}

// eventsAround finds the events of an alert's person before and after it. It is a look,
// limited to the events that the user may see, and is in the audit log.
func (p *Parts) eventsAround(ctx context.Context, x *alertInFull) error {
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
	ctx, cancel := context.WithTimeout(ctx, maxAsk)
	defer cancel()
	for row, err := range p.Events.Query(ctx, f, event.Page{Limit: alertRows}) {
		if err != nil {
			return tooLong(ctx, err)
		}
		x.Around = append(x.Around, row)
		x.Rows = append(x.Rows, eventRow{Row: &row})
	}
	return nil
}

func (p *Parts) desk() (*alert.Desk, error) {
	if d := p.Alerts(); d != nil {
		return d, nil
	}
	return nil, errNothingWatched
}

func (p *Parts) settleAlert(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	d, err := p.desk()
	if err == nil {
		err = r.ParseForm()
	}
	if err == nil {
		err = d.Settle(r.PathValue("id"), userOf(r).Name, alert.State(r.PostForm.Get("does")), r.PostForm.Get("note"))
	}
	switch {
	case errors.Is(err, alert.ErrNone), errors.Is(err, errNothingWatched):
		http.Error(w, err.Error(), http.StatusNotFound)
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
	case isPage(r):
		http.Redirect(w, r, "/alerts/"+r.PathValue("id"), http.StatusSeeOther)
	default:
		a, _ := d.One(r.PathValue("id"))
		writeJSON(w, http.StatusOK, a)
	}
}

// alertFuncs returns the functions for pages about alerts.
func alertFuncs(t *text.Texts) template.FuncMap {
	return template.FuncMap{
		"severity": alert.Severity.String,
		"alarming": func(a alert.Alert) string { return a.Who() },
		"alarm":    func(a alert.Alert) string { return a.Title(t) },
	}
}
