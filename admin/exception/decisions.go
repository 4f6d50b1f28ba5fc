// Package exception has the pages of what people decide by hand: sites opened or blocked for
// somebody, pauses of filtering, and the requests of clients, which decide the same. Each shows its
// effect first, is made on all nodes, and ends by itself.
package exception

import (
	"cmp"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"shuultuur/admin/web"
	"shuultuur/check/service"
	"shuultuur/lib/clock"
	"shuultuur/lib/setting"
	"shuultuur/policy"
	"shuultuur/text"
)

// Decisions opens and blocks sites for clients; its decisions override lists and
// rules.
type Decisions struct {
	// All returns the decisions in force.
	All func() []policy.Decision
	// Set makes a decision, which replaces that about the same site and people. An
	// Until in the past ends it. by is the user. An invalid decision gives
	// [*web.BadChange].
	Set func(d policy.Decision, by netip.Addr) error
	// Groups are those of a user at an address. Nil: none are offered.
	Groups func(addr netip.Addr, user string) []string
}

// maxDecision is the longest duration of a decision; longer ones are permanent.
const maxDecision = 10 * 365 * 24 * time.Hour

// Routes returns the routes of exceptions.
//
//	GET /rulings          those in force; HTML for browsers, else JSON
//	POST /rulings         what=open|block|end&site=NAME[&who=WHO][&for=TIME]
//	                      [&until=CLOCK]; NAME is a host or a service of the
//	                      catalogue, WHO an address, network, user or
//	                      group, without it everyone; block may name * for the
//	                      whole web; without TIME or CLOCK it is for good.
//	                      back=PATH is the page that a browser sees afterwards.
//	                      dry_run=true only says the effect
func (x *Decisions) Routes(site *web.Site) []web.Route {
	page := site.Page("rulings.html")
	return []web.Route{
		{Method: "GET", Path: "/rulings", Role: web.Lead,
			Link: web.LinkIn(web.Rules, text.Mark("Allowed and blocked")),
			Does: "sites opened or blocked by hand", Gives: web.PageOrJSON,
			Handler: func(w http.ResponseWriter, r *http.Request) { x.show(w, r, page, nil, nil) }},
		{Method: "POST", Path: "/rulings", Role: web.Operator,
			Does: "open or block a site above lists and rules, or end that", Gives: web.PageOrJSON, Form: []web.Field{web.Required("what", "open | block | end"), web.Required("site", "host name, with everything below it; * to block the whole web"), web.Optional("who", "address, network, user or group; everybody without it"), web.Optional("for", "how long: 15m, 7d, today; for good without it"), web.Optional("until", "clock time at which it ends, such as 18:30"), web.Back, web.OnTrial},
			Effect: web.Judged,
			Handler: func(w http.ResponseWriter, r *http.Request) {
				r.Body = http.MaxBytesReader(w, r.Body, 16<<10)
				var d policy.Decision
				var each []policy.Decision
				err := r.ParseForm()
				if err != nil {
					err = &web.BadChange{Err: err}
				} else {
					d, err = readDecision(r.PostForm, time.Now())
				}
				if err == nil {
					each = eachHost(d)
					var done bool
					done, err = site.ShowEffect(w, r, web.PendingChange{What: describeDecision(web.TextsOf(w), &d, time.Now()), Back: web.BackTo(r, "/rulings"), Trial: web.Trial{Decisions: each}})
					if done {
						return
					}
				}
				for i := 0; err == nil && i < len(each); i++ {
					err = x.Set(each[i], web.Remote(r))
				}
				if err == nil && web.GoBack(w, r) {
					return
				}
				x.show(w, r, page, &d, err)
			}},
	}
}

// SiteIn extracts the host from a pasted or typed text.
func SiteIn(s string) string {
	s = strings.TrimSpace(s)
	if u, err := url.Parse(s); err == nil && u.Host != "" {
		s = u.Hostname()
	}
	s, _, _ = strings.Cut(s, "/")
	return strings.ToLower(strings.Trim(s, "."))
}

// sitesOf returns a host and its parent domains down to the site.
func sitesOf(host string) (all []string) {
	if _, err := netip.ParseAddr(host); err == nil {
		return []string{host}
	}
	for strings.Contains(host, ".") {
		all = append(all, host)
		_, host, _ = strings.Cut(host, ".")
	}
	return all
}

// scopesOf returns for whom something may be opened: a client and its groups.
func (x *Decisions) scopesOf(who string) (all []string) {
	if who == "" || x.Groups == nil {
		return nil
	}
	addr, err := setting.Client(who)
	user := who
	if err == nil {
		user = ""
	}
	return append([]string{who}, x.Groups(addr, user)...)
}

// readDecision reads the form.
func readDecision(f url.Values, now time.Time) (d policy.Decision, err error) {
	d = policy.Decision{Site: SiteIn(f.Get("site")), Who: strings.TrimSpace(f.Get("who")), Block: f.Get("what") == "block"}
	switch f.Get("what") {
	case "open", "block":
	case "end":
		d.Until = now
		return d, nil
	default:
		return d, &web.BadChange{Err: fmt.Errorf("what=%q is neither open, block nor end", f.Get("what"))}
	}
	if at := strings.TrimSpace(f.Get("until")); at != "" {
		d.Until, err = nextTime(now, at)
		return d, err
	}
	text := f.Get("for")
	switch text {
	case "":
		return d, nil
	case "today":
		d.Until = clock.Day(now, 1)
		return d, nil
	}
	var long setting.Duration
	if err := long.UnmarshalText([]byte(text)); err != nil || long.Or(0) <= 0 || long.Or(0) > maxDecision {
		return d, &web.BadChange{Err: fmt.Errorf("for=%q is not how long it holds: write 15m, 1h or 7d; leave it out for good", text)}
	}
	d.Until = now.Add(long.Or(0))
	return d, nil
}

// nextTime returns the next time at which clocks show at.
func nextTime(now time.Time, at string) (time.Time, error) {
	wanted, err := time.Parse("15:04", at)
	if err != nil {
		return now, &web.BadChange{Err: fmt.Errorf("until=%q is not a time of a clock: write 18:30", at)}
	}
	now = now.Local()
	for day := 0; ; day++ {
		if t := time.Date(now.Year(), now.Month(), now.Day()+day, wanted.Hour(), wanted.Minute(), 0, 0, time.Local); t.After(now) {
			return t, nil
		}
	}
}

// eachHost returns a decision for each host of the service that a decision names as its site, or the
// decision itself.
func eachHost(d policy.Decision) (all []policy.Decision) {
	s, ok := service.Find(d.Site)
	if !ok {
		return []policy.Decision{d}
	}
	for _, host := range s.Hosts {
		d.Site = host
		all = append(all, d)
	}
	return all
}

// decisionForm has the initial values of the form.
type decisionForm struct {
	Site, Who   string
	Sites, Whom []string
}

func (x *Decisions) show(w http.ResponseWriter, r *http.Request, page web.PageTemplate, decision *policy.Decision, failed error) {
	q := r.URL.Query()
	d := struct {
		decisionForm
		All         []policy.Decision
		Done, Error string
		Undo        *policy.Decision
	}{decisionForm: decisionForm{Site: SiteIn(q.Get("site")), Who: q.Get("who")}}
	d.Sites, d.Whom = sitesOf(d.Site), x.scopesOf(d.Who)
	status := http.StatusOK
	switch {
	case failed != nil:
		d.Error, status = failed.Error(), web.StatusOf(failed)
		d.Site, d.Who = decision.Site, decision.Who
	case decision != nil:
		d.Done, d.Undo = describeDecision(web.TextsOf(w), decision, time.Now()), decision
		if !decision.Until.IsZero() && !decision.Until.After(time.Now()) {
			d.Undo = nil
		}
	}
	d.All = append([]policy.Decision{}, x.All()...)
	web.Respond(w, r, page, status, d, d.All, d.Error)
}

// describeDecision describes a decision in words.
func describeDecision(t *text.Texts, d *policy.Decision, now time.Time) string {
	pairs := []string{"site", d.Site, "who", cmp.Or(d.Who, t.Say("everyone")), "time", d.Until.Local().Format("2006-01-02 15:04")}
	switch ended := !d.Until.IsZero() && !d.Until.After(now); {
	case d.Site == policy.AnySite && ended:
		return t.Say("The web is no longer closed for {who}.", pairs...)
	case d.Site == policy.AnySite && d.Until.IsZero():
		return t.Say("The web is closed for {who}, for good.", pairs...)
	case d.Site == policy.AnySite:
		return t.Say("The web is closed for {who} until {time}.", pairs...)
	case ended:
		return t.Say("Lists and rules decide about {site} for {who} again.", pairs...)
	case d.Until.IsZero() && d.Block:
		return t.Say("{site} is blocked for {who}, for good.", pairs...)
	case d.Until.IsZero():
		return t.Say("{site} is open for {who}, for good.", pairs...)
	case d.Block:
		return t.Say("{site} is blocked for {who} until {time}.", pairs...)
	}
	return t.Say("{site} is open for {who} until {time}.", pairs...)
}
