package settings

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"shuultuur/admin/web"
	"shuultuur/event"
	"shuultuur/lib/setting"
	"shuultuur/text"
)

// A ruleLine is a rule, or a limit of a day, on the page of a policy.
type ruleLine struct {
	RuleView
	Place         int
	Sentence      []piece
	Verdict, Icon string
	Hits          int // today; -1 if they are not known
	Last          bool
	Moved         bool // somebody has just moved it
}

// An expectLine is an expectation on the page of a policy.
type expectLine struct {
	URL, Is, As, At string
	Unmet           string // what is instead
}

// rulesData is the contents of the page of the rules.
type rulesData struct {
	All           []PolicyView
	Of            *PolicyView // nil: there are no policies
	Policy        int
	Tag           string
	MayEdit       bool
	Saved, Undo   string // the version that was saved, and the one that Undo goes back to
	Undone, Week  bool
	Mistakes      []string
	Broken        []unmet
	Sent          []field // the form that broke an expectation
	Limits, Rules []ruleLine
	Base          []ruleLine // the rules of the bases
	Expect        []expectLine
}

// A field is a field of a form that is sent again.
type field struct{ Name, Value string }

// showRules shows the rules of a policy.
func (s *Settings) showRules(w http.ResponseWriter, r *http.Request) {
	if !web.IsPage(r) {
		all, err := s.Policies()
		for i := range all {
			for j := range all[i].Rules {
				all[i].Rules[j].Sentence = plainSentence(all[i].Rules[j].sentence(nil))
			}
		}
		web.Answer(w, all, err)
		return
	}
	s.writeRules(w, r, http.StatusOK, r.URL.Query().Get("name"), nil)
}

// writeRules answers with the page of the rules of a policy, with what was wrong in a form.
func (s *Settings) writeRules(w http.ResponseWriter, r *http.Request, status int, name string, wrong error) {
	tag := s.tagFor(r)
	all, err := s.Policies()
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	q, t := r.URL.Query(), web.TextsOf(w)
	d := &rulesData{All: all, Tag: tag, MayEdit: tag != "", Week: q.Get("view") == "week", Saved: q.Get("saved"), Undone: q.Has("undone")}
	if d.MayEdit && d.Saved != "" && s.before(d.Saved) != "" {
		d.Undo = d.Saved
	}
	d.wrong(r, wrong)
	if len(all) > 0 {
		d.Policy = max(0, slices.IndexFunc(all, func(p PolicyView) bool { return p.Name == name }))
		d.Of = &all[d.Policy]
		d.fill(t, q.Get("moved"))
		d.count(r.Context(), s.Events)
		d.expect(r.Context(), s)
	}
	web.WritePage(w, s.rulesPage, status, d)
}

// wrong shows the mistakes of a form. A form that only breaks expectations can be sent again.
func (d *rulesData) wrong(r *http.Request, err error) {
	if err == nil {
		return
	}
	if d.Broken = unmetIn(err); d.Broken == nil {
		for line := range strings.SplitSeq(plainMistakes(err), "\n") {
			d.Mistakes = append(d.Mistakes, line)
		}
		return
	}
	for name, values := range r.PostForm {
		for _, v := range values {
			if name != "checked" && name != "yield" {
				d.Sent = append(d.Sent, field{name, v})
			}
		}
	}
}

// plainMistakes writes mistakes without the names of keys.
func plainMistakes(err error) string {
	d := settingsData{}
	d.fail(err)
	if d.Mistakes == nil {
		return d.Error
	}
	var all []string
	for _, m := range d.Mistakes {
		all = append(all, m.Text)
	}
	return strings.Join(all, "\n")
}

// fill fills in the rules and the limits.
func (d *rulesData) fill(t *text.Texts, moved string) {
	own := d.Of.Own()
	for j, r := range d.Of.Rules {
		line := ruleLine{RuleView: r, Place: j, Sentence: pieces(r.sentence(t)), Hits: -1, Last: j == own-1, Moved: moved != "" && fmt.Sprint(j) == moved}
		a := actionOf(r.Action)
		line.Verdict, line.Icon = a.Verdict, a.Icon
		if r.From != "" {
			d.Base = append(d.Base, line)
		} else {
			d.Rules = append(d.Rules, line)
		}
	}
	for j, f := range d.Of.limits {
		d.Limits = append(d.Limits, ruleLine{Place: j, Sentence: pieces(f.limitSentence(t)), Verdict: "warn", Icon: "hourglass", Hits: -1})
	}
}

// sentence says in a sentence what the rule does.
func (r *RuleView) sentence(t *text.Texts) string {
	switch {
	case r.Action == "" && r.Off:
		return t.Say("{rule} of the base is off", "rule", chosen(r.Name))
	case r.fields == nil:
		return t.Say(actionOf(r.Action).Sentence, "what", chosen(strings.Join(r.When, ", ")))
	}
	return r.fields.sentence(t)
}

// Bounds of the question for hits.
const (
	maxHitTime = 3 * time.Second
	maxCounted = 20 // rules that only count, each of which is a question of its own
)

// count asks the record how often each rule was met today.
func (d *rulesData) count(ctx context.Context, record event.Reader) {
	if record == nil {
		return
	}
	ctx, done := context.WithTimeout(ctx, maxHitTime)
	defer done()
	y, m, day := time.Now().Date()
	since := time.Date(y, m, day, 0, 0, 0, 0, time.Local)
	policy, err := event.NewTerm(event.Policy, false, d.Of.Name)
	if err != nil {
		return
	}
	questions := []event.Question{{Filter: event.Filter{Since: since, Terms: []event.Term{policy}}, By: event.Rule, Top: 1000}}
	lines := []*ruleLine{}
	for _, part := range [][]ruleLine{d.Rules, d.Base} {
		for i := range part {
			lines = append(lines, &part[i])
		}
	}
	var counted []*ruleLine
	for _, l := range lines {
		if l.Action != "monitor" || len(counted) == maxCounted {
			continue
		}
		if rule, err := event.NewTerm(event.Monitored, false, l.Name); err == nil {
			questions = append(questions, event.Question{Filter: event.Filter{Since: since, Terms: []event.Term{policy, rule}}, By: event.Text, Top: 1})
			counted = append(counted, l)
		}
	}
	answers, err := record.Count(ctx, questions...)
	if err != nil || len(answers) != len(questions) {
		return // the page has the rules without their hits
	}
	for _, l := range lines {
		l.Hits = max(l.Hits, 0)
		for _, a := range answers[0] {
			if a.Name == d.Of.Name+"/"+l.Name && l.Action != "monitor" {
				l.Hits = a.Events
			}
		}
	}
	for i, l := range counted {
		for _, a := range answers[i+1] {
			l.Hits = a.Events
		}
	}
}

// A judged is what the expectations of a text of settings have come to.
type judged struct {
	sync.Mutex
	tag   string
	at    time.Time
	unmet setting.Mistakes
}

// expect fills in the expectations of the policy, and which of them are not met now, since the lists and
// the time of day change. The answer is kept for a minute.
func (d *rulesData) expect(ctx context.Context, s *Settings) {
	if d.Of.Of == nil || len(d.Of.Of.Expect) == 0 {
		return
	}
	unmet := s.unmetNow(ctx)
	for j, x := range d.Of.Of.Expect {
		for _, u := range x.URL {
			line := expectLine{URL: u, Is: x.Is, As: x.As, At: x.At}
			for _, m := range unmet {
				if strings.HasPrefix(m.Key, fmt.Sprintf("policies[%d].expect", d.Policy)) && (strings.Contains(m.Key, fmt.Sprintf("[%d]", j)) || len(d.Of.Of.Expect) == 1) && strings.HasPrefix(m.Text, u+" is expected") {
					line.Unmet = m.Text
				}
			}
			d.Expect = append(d.Expect, line)
		}
	}
}

// unmetNow returns which expectations of the settings in use are not met.
func (s *Settings) unmetNow(ctx context.Context) setting.Mistakes {
	text, err := s.Read()
	if err != nil {
		return nil
	}
	s.judged.Lock()
	defer s.judged.Unlock()
	if tag := web.Tag(text); tag != s.judged.tag || time.Since(s.judged.at) > time.Minute {
		s.judged.tag, s.judged.at, s.judged.unmet = tag, time.Now(), nil
		_ = errors.As(s.Check(ctx, text), &s.judged.unmet) // other errors are not about expectations
	}
	return s.judged.unmet
}
