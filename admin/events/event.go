package events

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"shuultuur/admin/web"
	"shuultuur/admin/why"
	"shuultuur/event"
	"shuultuur/event/jsonl"
	"shuultuur/filter"
	"shuultuur/text"
)

// onePage shows one transaction in full.
type onePage struct {
	events *Events
	page   web.PageTemplate
}

type detail struct{ Name, Value string }

type oneData struct {
	Row         web.EventRow
	Site, Who   string // of the form that opens or blocks the site
	Sites, Whom []string
	ID          string
	Findings    []filter.Finding
	More        []detail
	Now         *why.Explanation
	NowError    string
	CanRule     bool
	Error       string
	Reason      string // of the verdict, in one sentence
	Way         []step // of the decision
	Scopes      []string
	Top         int // the highest score of the findings
}

func (o *onePage) show(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), web.MaxAsk)
	defer cancel()
	d := oneData{ID: r.PathValue("id")}
	row, err := event.RowByID(ctx, o.events.Reader, d.ID)
	status := http.StatusOK
	switch {
	case errors.Is(err, event.ErrNone):
		status = http.StatusNotFound
	case errors.Is(err, web.ErrTwoPeople):
		status = http.StatusForbidden
	case err != nil:
		err, status = web.TooLong(ctx, err), http.StatusServiceUnavailable
	}
	if err == nil && web.IsPage(r) {
		o.fill(ctx, &d, &row)
		d.Reason = reason(web.TextsOf(w), d.Row)
		d.Way, d.Scopes = o.way(web.TextsOf(w), &row)
	}
	switch {
	case web.IsPage(r):
		if err != nil {
			d.Error = err.Error()
		}
		web.WritePage(w, o.page, status, d)
	case err != nil:
		http.Error(w, err.Error(), status)
	default:
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		_, _ = w.Write(jsonl.AppendLine(nil, &row)) // it fails if the client has gone away
	}
}

// fill adds the details of a row, and the present decision.
func (o *onePage) fill(ctx context.Context, d *oneData, row *event.Row) {
	d.Row.Row = row
	if o.events.Names != nil && row.Client.IsValid() {
		d.Row.Name = o.events.Names(ctx, []netip.Addr{row.Client})[row.Client]
	}
	_ = json.Unmarshal([]byte(row.Findings), &d.Findings) // a row that was cut short has none
	for _, f := range d.Findings {
		d.Top = max(d.Top, f.Score)
	}
	more := jsonl.AppendLine(nil, row)
	var fields map[string]any
	if json.Unmarshal(more, &fields) == nil {
		for _, name := range []string{"server", "source", "unread", "cache", "picture", "conversation", "monitored", "signatures", "referer", "agent"} {
			switch v := fields[name].(type) {
			case nil:
			case string:
				if v != "" {
					d.More = append(d.More, detail{name, v})
				}
			default:
				if text, err := json.Marshal(v); err == nil {
					d.More = append(d.More, detail{name, string(text)})
				}
			}
		}
	}
	if o.events.Explain != nil && row.Host != "" {
		q := why.Question{URL: row.URL, Client: row.Client, User: row.User}
		if q.URL == "" {
			q.URL = "https://" + bracketed(row.Host) + "/"
		}
		if !q.Client.IsValid() {
			q.Client = netip.MustParseAddr("127.0.0.1")
		}
		var err error
		if d.Now, err = o.events.Explain(ctx, q); err != nil {
			d.NowError = err.Error()
		}
	}
	d.CanRule = o.events.CanRule && row.Host != ""
	d.Site = row.Host
	for host := row.Host; strings.Contains(host, "."); _, host, _ = strings.Cut(host, ".") {
		d.Sites = append(d.Sites, host)
	}
	d.Who = row.User
	if row.Client.IsValid() {
		d.Whom = append(d.Whom, row.Client.String())
		if d.Who == "" {
			d.Who = row.Client.String()
		}
	}
	if row.User != "" {
		d.Whom = append(d.Whom, row.User)
	}
}

// A step is one on the way of a decision.
type step struct {
	Icon, Name, Value string
	Not               bool // it did not fit
}

// mostSteps is how many rules that did not fit are named; the others are counted.
const mostSteps = 5

// way returns how the client, its groups and the rules of its policy led to what was decided, and for
// whom that may be changed. The rules are those of today.
func (o *onePage) way(t *text.Texts, row *event.Row) (all []step, scopes []string) {
	who := row.User
	if who == "" && row.Client.IsValid() {
		who = row.Client.String()
	}
	all = append(all, step{Icon: "user", Name: t.Say("Client"), Value: who})
	if who != "" {
		scopes = append(scopes, who)
	}
	if o.events.Groups != nil {
		groups := o.events.Groups(row.Client, row.User)
		scopes = append(scopes, groups[:min(len(groups), 3)]...)
		if len(groups) > 0 {
			all = append(all, step{Icon: "group", Name: t.Say("Groups"), Value: strings.Join(groups, ", ")})
		}
	}
	if row.Policy != "" {
		all = append(all, step{Icon: "rules", Name: t.Say("Policy"), Value: row.Policy})
	}
	var rules []string
	if o.events.Rules != nil && row.Policy != "" {
		rules = o.events.Rules(row.Policy)
	}
	before := len(rules)
	if row.Rule != "" {
		before = max(slices.Index(rules, row.Rule), 0)
	}
	for i, name := range rules[:before] {
		if i == mostSteps {
			all = append(all, step{Icon: "dots", Name: t.Say("More rules that do not fit"), Value: strconv.Itoa(before - i), Not: true})
			break
		}
		all = append(all, step{Icon: "minus", Name: t.Say("Does not fit"), Value: name, Not: true})
	}
	last := step{Icon: "check", Name: t.Say("Rule"), Value: row.Rule}
	if row.Rule == "" {
		last.Value = t.Say("no rule matched")
	}
	return append(all, last), scopes
}

// bracketed returns a host in the form for a URL.
func bracketed(host string) string {
	if strings.Contains(host, ":") {
		return "[" + host + "]"
	}
	return host
}
