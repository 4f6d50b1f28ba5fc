package web

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"shuultuur/admin/account"
	"shuultuur/event"
	"shuultuur/lib/setting"
	"shuultuur/list"
	"shuultuur/policy"
	"shuultuur/text"
	"shuultuur/vote"
)

// Every change can show its effect first. Each changing route says how.

// These are the ways in which a route shows its effect. Any other text is the reason why it
// does not.
const (
	Judged    = "the events of the last day are judged again" // see [Site.ShowEffect]
	Explained = "it says in figures of its own what would change"
)

const (
	OfAccess  = "it is about access to these pages, and changes no verdict"
	OfAlerts  = "it is about what people are told, and changes no verdict"
	OfView    = "it is about how pages look, and changes no verdict"
	OfNothing = "it changes nothing"
)

// A Trial is a change that is not made. A temporary change is judged as if it applied all
// day.
type Trial struct {
	Text      []byte                   // of the settings; nil: those in use
	Lists     map[string][]list.Change // by name
	List      string                   // the list to read from File
	File      string
	Decisions []policy.Decision // one with an Until in the past ends what it names
	Votes     []vote.Decision   // one with Ended is withdrawn
	Pause     *policy.Pause     // one with an Until in the past ends; "" ends all pauses
	Bonus     *policy.Bonus     // one without minutes withdraws the given time
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
	case len(t.Decisions) == 1:
		who = t.Decisions[0].Who
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

// Foretell returns the effect of a change, as far as the user of a request may see the record.
func (s *Site) Foretell(ctx context.Context, t Trial) (*Effect, error) {
	if s.Judge == nil {
		return nil, ErrNoRecord
	}
	who := account.Of(ctx)
	if who == nil {
		return s.Judge(ctx, t)
	}
	var groups map[string][]string
	if s.Members != nil {
		groups = s.Members()
	}
	b := s.Bounds(who)
	if whom := t.whom(groups); whom != "" && b.hidden != nil {
		row := event.Row{User: whom}
		row.Client, _ = setting.Client(whom)
		if b.hidden(&row) {
			return nil, ErrTwoPeople
		}
	}
	e, err := s.Judge(ctx, t)
	if err == nil && b.NoURLs {
		e.hideURLs()
	}
	if err == nil && b.hidden != nil { // rules may be written for one person
		for i := range e.Changes {
			e.Changes[i].Examples = nil
		}
	}
	return e, err
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

// A PendingChange is one whose effect is shown before it is made.
type PendingChange struct {
	What string // the change, in a sentence
	Back string // the page with the form
	Trial
	Told *Consequence // the effect of a change without verdicts; nil: events are judged
	JSON any          // Told in the form for programs; nil: Told itself
}

// A Consequence is the effect of a change without verdicts.
type Consequence struct {
	Name  string     `json:"name,omitempty"`  // the name whose answers change
	Asked *int       `json:"asked,omitempty"` // its requests and queries of the last day; nil: there is no record
	Diff  []DiffLine `json:"diff,omitempty"`
	Note  string     `json:"note,omitempty"`
	Saved bool       `json:"saved"`
}

// isShown reports whether there is an effect to show before the change is made.
func (f *Consequence) isShown() bool { return f.Asked != nil && *f.Asked > 0 || len(f.Diff) > 0 }

// ShowEffect answers a request if its effect must be shown first, and reports whether it did. If
// not, the change must be made now. With dry_run=true, the answer is the effect alone. A
// browser gets the effect with a form that makes the change, if the change would have altered
// something; programs must ask for it. A mistake in the change is returned.
func (s *Site) ShowEffect(w http.ResponseWriter, r *http.Request, c PendingChange) (answered bool, err error) {
	if !MustForetell(r) {
		return false, nil
	}
	dry, page := DryRun(r.Form), IsPage(r)
	var out ChangeResult
	if c.Told == nil {
		out.Effect, err = s.Foretell(r.Context(), c.Trial)
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
	ChangedNothing(w)
	if !page {
		var answer any = out
		switch {
		case c.JSON != nil:
			answer = c.JSON
		case c.Told != nil:
			answer = c.Told
		}
		WriteJSON(w, http.StatusOK, answer)
		return true, nil
	}
	fields := changeForm(r)
	fields.Set("checked", FormTag(r))
	WritePage(w, s.effects, http.StatusOK, struct {
		ChangeResult
		Told               *Consequence
		What, Back, Action string
		Fields             url.Values
	}{out, c.Told, c.What, c.Back, WithoutDryRun(r.URL), fields})
	return true, nil
}

// MustForetell reports whether the effect of a change must be shown before it is made. The form
// must be parsed.
func MustForetell(r *http.Request) bool {
	return DryRun(r.Form) || IsPage(r) && r.PostForm.Get("checked") != FormTag(r)
}

// FormTag identifies the contents of a form, so that exactly the change whose effect was
// shown is made: a form has it in its field "checked".
func FormTag(r *http.Request) string {
	sum := sha256.Sum256([]byte(WithoutDryRun(r.URL) + "\n" + changeForm(r).Encode()))
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

// WithoutDryRun returns the path and query of u without the parameter that asks for an effect.
func WithoutDryRun(u *url.URL) string {
	q := u.Query()
	q.Del("dry_run")
	return (&url.URL{Path: u.Path, RawQuery: q.Encode()}).RequestURI()
}

// refusesDry answers a request for the effect of a change on a route that cannot
// show it.
func refusesDry(w http.ResponseWriter, r Route) {
	_, why := r.HasDryRun()
	if why == "" {
		why = "it cannot say its effect"
	}
	http.Error(w, fmt.Sprintf("dry_run: %s %s: %s; nothing was changed", r.Method, r.Path, why), http.StatusBadRequest)
}

// A ChangeResult is the result of a change of the settings made by a page.
type ChangeResult struct {
	Saved    bool              `json:"saved"`
	Mistakes []setting.Mistake `json:"mistakes,omitempty"`
	Effect   *Effect           `json:"effect,omitempty"`
	Note     string            `json:"note,omitempty"` // why the effect is not known
	Remarks  []string          `json:"remarks,omitempty"`
}

// Summary describes the effect in a sentence.
func (e *Effect) Summary() string { return e.describe(nil) }

// An Effect is what other settings would have done to the events of a period.
type Effect struct {
	Since  time.Time `json:"since"`
	Judged int64     `json:"judged"`
	// Changed are the events with another verdict.
	Changed int64 `json:"changed"`
	// Opens and Closes are those of them that would have been refused, or sent elsewhere, and would
	// not be now, and the reverse.
	Opens  int64 `json:"opens"`
	Closes int64 `json:"closes"`
	// Unknown are events that cannot be judged again from the record.
	Unknown int64        `json:"unknown"`
	Cut     bool         `json:"cut,omitempty"` // there were more events; only the newest were judged
	Took    float64      `json:"took"`          // seconds
	Changes []EffectKind `json:"changes"`       // most frequent first
}

// An EffectKind is one kind of change.
type EffectKind struct {
	Policy   string   `json:"policy"`
	Category string   `json:"category"`
	Rule     string   `json:"rule"`
	Was      string   `json:"was"`
	Is       string   `json:"is"`
	Count    int64    `json:"count"`
	Examples []string `json:"examples"`
}

// describe describes the effect in a sentence.
func (e *Effect) describe(t *text.Texts) string {
	switch {
	case e.Judged == 0:
		return t.Say("There are no events of the last day to judge.")
	case e.Changed == 0:
		return t.Say("This change would have altered none of {all} requests.", "all", number(e.Judged))
	}
	all, opens, closes := number(e.Judged), number(e.Opens), number(e.Closes)
	switch {
	case e.Opens > 0 && e.Closes > 0:
		return t.Say("This change would have opened {opens} and closed {closes} of {all} requests.", "opens", opens, "closes", closes, "all", all)
	case e.Opens > 0:
		return t.Say("This change would have opened {opens} of {all} requests.", "opens", opens, "all", all)
	case e.Closes > 0:
		return t.Say("This change would have closed {closes} of {all} requests.", "closes", closes, "all", all)
	}
	return t.Say("This change would have altered {n} of {all} requests.", "n", number(e.Changed), "all", all)
}
