package exception

import (
	"cmp"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"shuultuur/admin/account"
	"shuultuur/admin/web"
	"shuultuur/lib/clock"
	"shuultuur/lib/setting"
	"shuultuur/policy"
	"shuultuur/text"
)

// Pause lets the admin address pause filtering.
type Pause struct {
	// All returns the pauses in force.
	All func() []policy.Pause
	// Set pauses filtering for who until a time, or resumes it if that is not in
	// the future. by is the address of the request. An unknown who gives
	// [*web.BadChange].
	Set func(who string, until time.Time, by netip.Addr) error

	// Groups returns the groups of a user at an address. Nil: users have no groups.
	Groups func(addr netip.Addr, user string) []string
}

// May reports whether somebody may pause filtering for who: helpers for their own
// groups, and for a user or a device in one of them.
func (p *Pause) May(r *http.Request, who string) bool {
	asks := web.UserOf(r)
	if asks.Role != account.Helper {
		return true
	}
	who = strings.TrimSpace(who)
	if who == "" || slices.Contains(asks.Groups, who) || p.Groups == nil {
		return who != "" && slices.Contains(asks.Groups, who)
	}
	if addr, err := setting.Client(who); err == nil {
		return web.Shares(p.Groups(addr, ""), asks.Groups)
	}
	if strings.Contains(who, "/") {
		return false // a network may include clients outside their groups
	}
	return web.Shares(p.Groups(netip.Addr{}, who), asks.Groups)
}

// maxPause is the longest pause, so that nobody forgets one.
const maxPause = 24 * time.Hour

// Notice returns the notice for every page that filtering is paused for somebody,
// or "".
func (p *Pause) Notice(t *text.Texts) string {
	if p == nil {
		return ""
	}
	switch all := p.All(); {
	case len(all) == 0:
		return ""
	case len(all) == 1:
		return t.Say("paused for {who} until {time}", "who", t.Say(all[0].Whom()), "time", web.Clock(all[0].Until, time.TimeOnly))
	default:
		return t.Say("{n} pauses", "n", strconv.Itoa(len(all)))
	}
}

// Routes returns the routes of pauses.
//
//	GET /pause            those that hold; HTML for browsers, else JSON
//	POST /pause           for=TIME[&who=WHO] begins one, for=0s ends it; TIME
//	                      may be "tomorrow", WHO an address, network, user or group
func (p *Pause) Routes(site *web.Site) []web.Route {
	page := site.Page("pause.html")
	return []web.Route{
		{Method: "GET", Path: "/pause", Role: web.Helper,
			Link: web.LinkIn(web.People, text.Mark("Pauses")),
			Does: "for whom filtering is paused", Gives: web.PageOrJSON,
			Handler: func(w http.ResponseWriter, r *http.Request) { p.show(w, r, page, nil) }},
		{Method: "POST", Path: "/pause", Role: web.Helper,
			Does: "pause filtering; helpers for their own groups", Gives: web.PageOrJSON, Form: []web.Field{web.Required("for", "how long: 30s, 5m, 24h at most, tomorrow; 0s ends it"), web.Optional("who", "address, network, user or group; everybody without it"), web.Back, web.OnTrial},
			Effect: web.Judged,
			Handler: func(w http.ResponseWriter, r *http.Request) {
				r.Body = http.MaxBytesReader(w, r.Body, 4<<10)
				until, err := p.readLength(r)
				if err == nil {
					who := strings.TrimSpace(r.PostForm.Get("who"))
					var done bool
					done, err = site.ShowEffect(w, r, web.PendingChange{What: pauseEffect(web.TextsOf(w), who, until), Back: web.BackTo(r, "/pause"), Trial: web.Trial{Pause: &policy.Pause{Who: who, Until: until}}})
					if done {
						return
					}
					if err == nil {
						err = p.Set(who, until, web.Remote(r))
					}
					if err == nil && web.GoBack(w, r) {
						return
					}
				}
				p.show(w, r, page, err)
			}},
	}
}

// readLength reads the length of a pause that the user may begin.
func (p *Pause) readLength(r *http.Request) (until time.Time, err error) {
	if err := r.ParseForm(); err != nil {
		return until, &web.BadChange{Err: err}
	}
	if until, err = restUntil(time.Now(), r.PostForm.Get("for")); err != nil {
		return until, &web.BadChange{Err: err}
	}
	who := r.PostForm.Get("who")
	if !p.May(r, who) {
		return until, &web.NotOwn{Err: fmt.Errorf("%s looks after %s; filtering for %q is for others to pause", web.UserOf(r).Name, strings.Join(web.UserOf(r).Groups, ", "), cmp.Or(who, "everybody"))}
	}
	return until, nil
}

// pauseEffect announces the effect of a pause.
func pauseEffect(t *text.Texts, who string, until time.Time) string {
	whom := t.Say(policy.Pause{Who: who}.Whom())
	if !until.After(time.Now()) {
		return t.Say("Filtering resumes for {who}.", "who", whom)
	}
	return t.Say("paused for {who} until {time}", "who", whom, "time", web.Clock(until, time.TimeOnly))
}

// restUntil reads the end of a pause.
func restUntil(now time.Time, s string) (time.Time, error) {
	if s == "tomorrow" {
		return clock.Day(now, 1), nil
	}
	var long setting.Duration
	if err := long.UnmarshalText([]byte(s)); err != nil || long.Or(0) > maxPause {
		return now, fmt.Errorf("for=%q is not the time of a pause: write 30s, 5m, 1h, at most %v, or tomorrow; 0s ends a pause", s, maxPause)
	}
	return now.Add(long.Or(0)), nil
}

func (p *Pause) show(w http.ResponseWriter, r *http.Request, page web.PageTemplate, failed error) {
	status := http.StatusOK
	all := append([]policy.Pause{}, p.All()...) // JSON has [], not null
	all = slices.DeleteFunc(all, func(x policy.Pause) bool { return x.Who != "" && !p.May(r, x.Who) })
	d := struct {
		Pauses     []policy.Pause
		Who, Error string
	}{Pauses: all, Who: r.URL.Query().Get("who")}
	if failed != nil {
		d.Error, status = failed.Error(), web.StatusOf(failed)
	}
	switch {
	case strings.Contains(r.Header.Get("Accept"), "text/html"):
		web.WritePage(w, page, status, d)
	case failed != nil:
		http.Error(w, d.Error, status)
	default:
		web.WriteJSON(w, status, all)
	}
}
