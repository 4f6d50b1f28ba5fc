package admin

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"shuultuur/admin/account"
	"shuultuur/event"
	"shuultuur/list"
	"shuultuur/policy"
	"shuultuur/vote"
)

// Every change shows its effect first. The table [effects] says of each changing
// route how it does so; a test compares it with the table of routes.

// How a route tells its effect. Any other text is why it has none.
const (
	judged    = "the events of the last day are judged again" // see [Parts.foretell]
	explained = "it says in figures of its own what would change"
)

const (
	ofAccess  = "it is about access to these pages, and changes no verdict"
	ofAlerts  = "it is about what people are told, and changes no verdict"
	ofFetched = "it forgets what was fetched or resolved, and changes no verdict"
	ofWho     = "it says who is at an address from now on, which the record of the last day knows"
	ofNothing = "it changes nothing"
	ofFirst   = "a machine without settings has no record"
)

// effects are by method and path. A route that is missing refuses dry_run.
var effects = map[string]string{
	"PUT /settings":  judged,
	"POST /settings": judged,
	"POST /policies": judged,
	"POST /clients":  judged,

	"POST /rulings":             judged,
	"POST /events":              judged,
	"POST /lists":               judged,
	"POST /lists/{name}":        judged,
	"POST /lists/{name}/source": judged,
	"POST /pause":               judged,
	"POST /bonus":               judged,
	"POST /votes":               judged,
	"POST /votes/withdraw":      judged,

	"POST /zones":                  explained,
	"POST /zones/{origin}":         explained,
	"POST /zones/{origin}/record":  explained,
	"POST /zones/{origin}/delete":  explained,
	"POST /zones/{origin}/restore": explained,
	"POST /privacy/erase":          explained,

	"POST /settings/check":  ofNothing,
	"POST " + mcpPath:       ofNothing,
	"POST /setup":           ofFirst,
	"POST /api/sessions":    ofWho,
	"DELETE /api/sessions":  ofWho,
	"POST /names/flush":     ofFetched,
	"POST /cache/purge":     ofFetched,
	"POST /alerts/{id}":     ofAlerts,
	"POST /events/searches": ofAlerts,

	"POST /login":                      ofAccess,
	"POST /login/passkey/challenge":    ofAccess,
	"POST /login/passkey":              ofAccess,
	"POST /logout":                     ofAccess,
	"POST /account/password":           ofAccess,
	"POST /account/totp":               ofAccess,
	"POST /account/totp/end":           ofAccess,
	"POST /account/sessions/end":       ofAccess,
	"POST /account/tokens":             ofAccess,
	"POST /account/tokens/end":         ofAccess,
	"POST /account/passkeys/challenge": ofAccess,
	"POST /account/passkeys":           ofAccess,
	"POST /account/passkeys/end":       ofAccess,
	"POST /accounts":                   ofAccess,
	"POST /accounts/edit":              ofAccess,
	"POST /accounts/password":          ofAccess,
	"POST /accounts/totp/end":          ofAccess,
	"POST /accounts/remove":            ofAccess,
	"POST /accounts/sessions/end":      ofAccess,
	"POST /accounts/tokens/end":        ofAccess,
	"POST /looks":                      ofAccess,
	"POST /looks/agree":                ofAccess,
	"POST /looks/end":                  ofAccess,
}

// tells reports whether a route says the effect of a change without making it, when asked with
// dry_run=true, and why not.
func (r route) tells() (ok bool, why string) {
	why = effects[r.method+" "+r.path]
	return why == judged || why == explained, why
}

// A Trial is a change that has not been made. What holds for a while is judged as if it held
// all day.
type Trial struct {
	Text    []byte                   // of the settings; nil: those in use
	Lists   map[string][]list.Change // by name
	List    string                   // the list that is read from File
	File    string
	Rulings []policy.Decision // one with an Until that is past ends what it names
	Votes   []vote.Decision   // one with Ended is taken back
	Pause   *policy.Pause     // one with an Until that is past ends; for "" all of them
	Bonus   *policy.Bonus     // without minutes: what was given is taken back
}

// whom is the one user or device that a trial is about, "" for several.
func (t *Trial) whom(groups map[string][]string) string {
	who := ""
	switch {
	case t.Pause != nil:
		who = t.Pause.Who
	case t.Bonus != nil:
		who = t.Bonus.Who
	case len(t.Rulings) == 1:
		who = t.Rulings[0].Who
	case len(t.Votes) > 0:
		who = t.Votes[0].Who
	}
	if _, group := groups[who]; group || strings.Contains(who, "/") {
		return ""
	}
	return who
}

// ErrNoRecord says that there is no record to judge.
var ErrNoRecord = errors.New("no store that can be asked keeps events, so that what a change does cannot be said")

// bindEffects has each account see of an effect what it may see of the record.
func bindEffects(p *Parts) {
	judge := p.Effect
	p.Effect = func(ctx context.Context, t Trial) (*Effect, error) {
		if judge == nil {
			return nil, ErrNoRecord
		}
		who := account.Of(ctx)
		if who == nil {
			return judge(ctx, t)
		}
		b := (&reader{parts: p}).bounds(who)
		if whom := t.whom(groupNames(p)); whom != "" && b.hidden != nil {
			row := event.Row{User: whom}
			row.Client, _ = netip.ParseAddr(whom)
			if b.hidden(&row) {
				return nil, ErrTwoPeople
			}
		}
		e, err := judge(ctx, t)
		if err == nil && b.noURLs {
			e.hideURLs()
		}
		if err == nil && b.hidden != nil { // rules can be written for one person
			for i := range e.Changes {
				e.Changes[i].Examples = nil
			}
		}
		return e, err
	}
	if p.Settings != nil {
		s := *p.Settings
		s.effect = p.Effect
		p.Settings = &s
	}
}

// groupNames are the groups of the settings.
func groupNames(p *Parts) map[string][]string {
	if p.Clients == nil || p.Clients.Known == nil {
		return nil
	}
	_, groups := p.Clients.Known()
	return groups
}

// hideURLs leaves of the examples their hosts.
func (e *Effect) hideURLs() {
	for i := range e.Changes {
		c := &e.Changes[i]
		var hosts []string
		for _, x := range c.Examples {
			if u, err := url.Parse(x); err == nil && u.Host != "" {
				x = u.Scheme + "://" + u.Host + "/"
			}
			if !slices.Contains(hosts, x) {
				hosts = append(hosts, x)
			}
		}
		c.Examples = hosts
	}
}

//go:embed effect.html
var effectPage string

// A foretold change is one whose effect is shown before it is made.
type foretold struct {
	What string // will be, in a sentence
	Back string // the page that leads here
	Trial
	Told *consequence // of a change that has no verdicts; nil: it is judged
	JSON any          // of Told, for programs; nil: Told itself
}

// A consequence is what a change without verdicts does.
type consequence struct {
	Name  string     `json:"name,omitempty"`  // whose answers change
	Asked *int       `json:"asked,omitempty"` // requests and queries of the last day for it; nil: no record can be asked
	Diff  []diffLine `json:"diff,omitempty"`
	Note  string     `json:"note,omitempty"`
	Saved bool       `json:"saved"`
}

// some reports whether there is something to look at before the change is made.
func (f *consequence) some() bool { return f.Asked != nil && *f.Asked > 0 || len(f.Diff) > 0 }

// foretell answers a request for a change whose effect is to be seen first, and reports whether
// it did; else the change is to be made now. With dry_run=true, the effect is all that is
// answered. A browser is shown it, with a form that makes the change, where the change would
// have altered something; programs ask when they want to know. A mistake in the change is
// returned.
func (p *Parts) foretell(w http.ResponseWriter, r *http.Request, c foretold) (answered bool, err error) {
	if !foretells(r) {
		return false, nil
	}
	dry, page := dryRun(r.Form), isPage(r)
	var out changed
	if c.Told == nil {
		out.Effect, err = p.Effect(r.Context(), c.Trial)
	}
	var bad *BadChange
	switch {
	case errors.As(err, &bad):
		return false, err
	case err != nil:
		out.Note = err.Error()
	}
	if !dry && (errors.Is(err, ErrNoRecord) || out.Effect != nil && out.Effect.Changed == 0 || c.Told != nil && !c.Told.some()) {
		return false, nil
	}
	if s, ok := w.(*seeing); ok {
		s.effectOnly = true
	}
	switch {
	case page:
	case c.JSON != nil:
		writeJSON(w, http.StatusOK, c.JSON)
		return true, nil
	case c.Told != nil:
		writeJSON(w, http.StatusOK, c.Told)
		return true, nil
	default:
		writeJSON(w, http.StatusOK, out)
		return true, nil
	}
	fields := url.Values{"checked": {tagOf(r)}}
	for name, values := range r.PostForm {
		if name != "checked" && name != "dry_run" {
			fields[name] = values
		}
	}
	writePage(w, p.server.effects, http.StatusOK, struct {
		changed
		Told               *consequence
		What, Back, Action string
		Fields             url.Values
	}{out, c.Told, c.What, c.Back, withoutDryRun(r.URL), fields})
	return true, nil
}

// foretells reports whether somebody is to see the effect of a change before it is made. The
// form was read.
func foretells(r *http.Request) bool {
	return dryRun(r.Form) || isPage(r) && r.PostForm.Get("checked") != tagOf(r)
}

// tagOf identifies what a form asks for, so that the effect that was seen is that of the change
// that is made.
func tagOf(r *http.Request) string {
	f := url.Values{}
	for name, values := range r.PostForm {
		if name != "checked" && name != "dry_run" {
			f[name] = values
		}
	}
	sum := sha256.Sum256([]byte(withoutDryRun(r.URL) + "\n" + f.Encode()))
	return hex.EncodeToString(sum[:12])
}

func withoutDryRun(u *url.URL) string {
	q := u.Query()
	q.Del("dry_run")
	return (&url.URL{Path: u.Path, RawQuery: q.Encode()}).RequestURI()
}

// refusesDry answers a request for the effect of a change on a route that has none.
func refusesDry(w http.ResponseWriter, r route) {
	_, why := r.tells()
	if why == "" {
		why = "it cannot say its effect"
	}
	http.Error(w, fmt.Sprintf("dry_run: %s %s: %s; nothing was changed", r.method, r.path, why), http.StatusBadRequest)
}
