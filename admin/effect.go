package admin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
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

// Every change can show its effect first. The table [effects] says for each changing route how.
// A test compares it with the table of routes.

// These are the ways in which a route shows its effect. Any other text is the reason why it
// does not.
const (
	judged    = "the events of the last day are judged again" // see [Parts.showEffect]
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

// effects has an entry for each method and path. A missing route refuses
// dry_run.
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

// hasDryRun reports whether a route answers dry_run=true with the effect of a change, and if not,
// why.
func (r route) hasDryRun() (ok bool, why string) {
	why = effects[r.method+" "+r.path]
	return why == judged || why == explained, why
}

// A Trial is a change that is not made. A temporary change is judged as if it applied all
// day.
type Trial struct {
	Text    []byte                   // of the settings; nil: those in use
	Lists   map[string][]list.Change // by name
	List    string                   // the list to read from File
	File    string
	Rulings []policy.Decision // one with an Until in the past ends what it names
	Votes   []vote.Decision   // one with Ended is withdrawn
	Pause   *policy.Pause     // one with an Until in the past ends; "" ends all pauses
	Bonus   *policy.Bonus     // one without minutes withdraws the given time
}

// whom returns the only user or device that a trial is about, or "" for
// several.
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

// ErrNoRecord reports that there is no record to judge.
var ErrNoRecord = errors.New("no store that can be asked keeps events, so that what a change does cannot be said")

// bindEffects limits the visible effect to the part of the record that each
// account may see.
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
		if err == nil && b.hidden != nil { // rules may be written for one person
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

// groupNames returns the groups of the settings.
func groupNames(p *Parts) map[string][]string {
	if p.Clients == nil || p.Clients.Known == nil {
		return nil
	}
	_, groups := p.Clients.Known()
	return groups
}

// hideURLs reduces the examples to their hosts.
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

// A pendingChange is one whose effect is shown before it is made.
type pendingChange struct {
	What string // the change, in a sentence
	Back string // the page with the form
	Trial
	Told *consequence // the effect of a change without verdicts; nil: events are judged
	JSON any          // Told in the form for programs; nil: Told itself
}

// A consequence is the effect of a change without verdicts.
type consequence struct {
	Name  string     `json:"name,omitempty"`  // the name whose answers change
	Asked *int       `json:"asked,omitempty"` // its requests and queries of the last day; nil: there is no record
	Diff  []diffLine `json:"diff,omitempty"`
	Note  string     `json:"note,omitempty"`
	Saved bool       `json:"saved"`
}

// isShown reports whether there is an effect to show before the change is made.
func (f *consequence) isShown() bool { return f.Asked != nil && *f.Asked > 0 || len(f.Diff) > 0 }

// showEffect answers a request if its effect must be shown first, and reports whether it did. If
// not, the change must be made now. With dry_run=true, the answer is the effect alone. A
// browser gets the effect with a form that makes the change, if the change would have altered
// something; programs must ask for it. A mistake in the change is returned.
func (p *Parts) showEffect(w http.ResponseWriter, r *http.Request, c pendingChange) (answered bool, err error) {
	if !mustForetell(r) {
		return false, nil
	}
	dry, page := dryRun(r.Form), isPage(r)
	var out changeResult
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
	if !dry && (errors.Is(err, ErrNoRecord) || out.Effect != nil && out.Effect.Changed == 0 || c.Told != nil && !c.Told.isShown()) {
		return false, nil
	}
	if s, ok := w.(*statusRecorder); ok {
		s.effectOnly = true
	}
	if !page {
		var answer any = out
		switch {
		case c.JSON != nil:
			answer = c.JSON
		case c.Told != nil:
			answer = c.Told
		}
		writeJSON(w, http.StatusOK, answer)
		return true, nil
	}
	fields := changeForm(r)
	fields.Set("checked", tagOf(r))
	writePage(w, p.server.effects, http.StatusOK, struct {
		changeResult
		Told               *consequence
		What, Back, Action string
		Fields             url.Values
	}{out, c.Told, c.What, c.Back, withoutDryRun(r.URL), fields})
	return true, nil
}

// mustForetell reports whether the effect of a change must be shown before it is made. The form
// must be parsed.
func mustForetell(r *http.Request) bool {
	return dryRun(r.Form) || isPage(r) && r.PostForm.Get("checked") != tagOf(r)
}

// tagOf identifies the contents of a form, so that exactly the change whose effect was
// shown is made.
func tagOf(r *http.Request) string {
	sum := sha256.Sum256([]byte(withoutDryRun(r.URL) + "\n" + changeForm(r).Encode()))
	return hex.EncodeToString(sum[:12])
}

// changeForm returns the form of a change, without the field that asks for its
// effect.
func changeForm(r *http.Request) url.Values {
	f := maps.Clone(r.PostForm)
	if f == nil {
		f = url.Values{}
	}
	f.Del("checked")
	f.Del("dry_run")
	return f
}

func withoutDryRun(u *url.URL) string {
	q := u.Query()
	q.Del("dry_run")
	return (&url.URL{Path: u.Path, RawQuery: q.Encode()}).RequestURI()
}

// refusesDry answers a request for the effect of a change on a route that cannot
// show it.
func refusesDry(w http.ResponseWriter, r route) {
	_, why := r.hasDryRun()
	if why == "" {
		why = "it cannot say its effect"
	}
	http.Error(w, fmt.Sprintf("dry_run: %s %s: %s; nothing was changed", r.method, r.path, why), http.StatusBadRequest)
}
