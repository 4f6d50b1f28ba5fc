package events

import (
	"cmp"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"shuultuur/admin/web"
	"shuultuur/event"
	"shuultuur/filter"
	"shuultuur/text"
)

const (
	// foldWithin is the time in which the same again is only counted.
	foldWithin = time.Minute
	// foldTunnel is how far a CONNECT may be from a request that it carried.
	foldTunnel = 5 * time.Minute
)

// foldKey has what makes rows the same to a reader.
type foldKey struct {
	client                   netip.Addr
	user, host, what, method string
	action                   filter.Action
	rule                     string
}

// tunnelKey has what a CONNECT and the requests in it have in common.
type tunnelKey struct {
	client     netip.Addr
	user, host string
}

// fold leaves out what says nothing new: a CONNECT that opened, beside a request that it carried,
// and the same again within a minute, which is counted. The rows are the newest first.
func fold(rows []web.EventRow) []web.EventRow {
	inside := map[tunnelKey][]time.Time{}
	for _, r := range rows {
		if r.Method != "" && r.Method != "CONNECT" && strings.HasPrefix(r.URL, "https:") {
			k := tunnelKey{r.Client, r.User, r.Host}
			inside[k] = append(inside[k], r.Time)
		}
	}
	carried := func(r web.EventRow) bool {
		for _, at := range inside[tunnelKey{r.Client, r.User, r.Host}] {
			if at.Sub(r.Time).Abs() <= foldTunnel {
				return true
			}
		}
		return false
	}
	kept := rows[:0:0]
	newest := map[foldKey]int{}
	for _, r := range rows {
		if r.Method == "CONNECT" && (r.Action == filter.Pass || r.Action == filter.Allow) && carried(r) {
			continue
		}
		what, _, _ := strings.Cut(r.What(), "?")
		k := foldKey{r.Client, r.User, r.Host, what, r.Method, r.Action, r.Rule}
		if i, ok := newest[k]; ok && kept[i].Time.Sub(r.Time) <= foldWithin {
			kept[i].Times++
			continue
		}
		newest[k] = len(kept)
		r.Times = 1
		kept = append(kept, r)
	}
	return kept
}

// A liveFold folds rows as they arrive.
type liveFold struct {
	whole   bool // every row is wanted
	carried map[tunnelKey]time.Time
}

// maxCarried is how many tunnels a liveFold remembers.
const maxCarried = 512

// A counted is a row of a stream, with how often the same came with it.
type counted struct {
	*delivery
	times int
}

// next folds the rows of one message, the oldest first, and leaves out a CONNECT of a request that
// was in one before.
func (f *liveFold) next(some []*delivery) (all []counted) {
	if f.whole {
		for _, d := range some {
			all = append(all, counted{d, 1})
		}
		return all
	}
	of := map[*event.Row]*delivery{}
	var rows []web.EventRow
	for _, d := range slices.Backward(some) {
		r := web.EventRow{Row: &d.Row}
		k := tunnelKey{r.Client, r.User, r.Host}
		if at, known := f.carried[k]; known && r.Method == "CONNECT" && !r.Refused() && r.Time.Sub(at).Abs() <= foldTunnel {
			continue
		}
		of[r.Row], rows = d, append(rows, r)
		if r.Method != "CONNECT" && strings.HasPrefix(r.URL, "https:") {
			if f.carried == nil || len(f.carried) >= maxCarried {
				f.carried = map[tunnelKey]time.Time{}
			}
			f.carried[k] = r.Time
		}
	}
	for _, r := range slices.Backward(fold(rows)) {
		all = append(all, counted{of[r.Row], r.Times})
	}
	return all
}

// A chip is a link that shows only some of the rows, or all again.
type chip struct {
	Name, Icon, Verdict, To string
	On                      bool
}

// chips returns the links beside the filter of a page, which write the filter.
func chips(page string, q eventQuery, folded bool) (all []chip) {
	link := func(filter string, fold bool) string {
		to := page + "?" + url.Values{"filter": {filter}, "last": {q.Last}}.Encode()
		if !fold {
			to += "&fold=no"
		}
		return to
	}
	rest := " " + q.Filter + " "
	actions := []chip{{Name: text.Mark("Blocked"), Icon: "block", Verdict: "block"}, {Name: text.Mark("Warned"), Icon: "warn", Verdict: "warn"}, {Name: text.Mark("Allowed"), Icon: "allow", Verdict: "allow"}}
	for i := range actions {
		token := " action:" + actions[i].Verdict + " "
		actions[i].On = strings.Contains(rest, token)
		rest = strings.Replace(rest, token, " ", 1)
	}
	rest = strings.TrimSpace(rest)
	for _, c := range actions {
		to := rest
		if !c.On {
			to = strings.TrimSpace(rest + " action:" + c.Verdict)
		}
		c.To = link(to, folded)
		all = append(all, c)
	}
	return append(all, chip{Name: text.Mark("Every row"), Icon: "list", To: link(q.Filter, !folded), On: !folded})
}

// termFields are the fields that chips are of, and how many values of each.
var termFields = []struct {
	field event.Field
	icon  string
	most  int
}{{event.User, "user", 4}, {event.Client, "device", 4}, {event.Category, "filter", 4}, {event.Proto, "plug", 3}}

// termChips returns links that take a term out of the filter, and links that narrow it to the most
// frequent people, devices, categories and kinds of requests among the rows.
func termChips(page string, q eventQuery, rows []web.EventRow, folded bool) (all []chip) {
	terms := termsOf(q.Filter)
	link := func(terms []string) string {
		v := url.Values{"filter": {strings.Join(terms, " ")}, "last": {q.Last}}
		if !folded {
			v.Set("fold", "no")
		}
		return page + "?" + v.Encode()
	}
	given := map[string]bool{}
	for i, term := range terms {
		if name, _, ok := strings.Cut(strings.TrimPrefix(term, "-"), ":"); ok && name != "action" {
			given[name] = true
			all = append(all, chip{Name: term, Icon: "close", To: link(slices.Concat(terms[:i], terms[i+1:])), On: true})
		}
	}
	for _, f := range termFields {
		if given[f.field.String()] {
			continue
		}
		times := map[string]int{}
		for i := range rows {
			if v := f.field.Of(rows[i].Row); v != "" && (f.field != event.Client || rows[i].User == "") {
				times[v]++
			}
		}
		if len(times) < 2 && f.field == event.Proto {
			continue // all are of one kind
		}
		names := slices.SortedFunc(maps.Keys(times), func(a, b string) int { return cmp.Or(times[b]-times[a], cmp.Compare(a, b)) })
		for _, name := range names[:min(len(names), f.most)] {
			all = append(all, chip{Name: name, Icon: f.icon, To: link(append(slices.Clone(terms), f.field.String()+":"+web.Quoted(name)))})
		}
	}
	return all
}

// termsOf splits a filter at blanks outside of quotation marks.
func termsOf(filter string) (all []string) {
	quoted := false
	return append(all, strings.FieldsFunc(filter, func(r rune) bool {
		if r == '"' {
			quoted = !quoted
		}
		return !quoted && strings.ContainsRune(" \t\r\n", r)
	})...)
}

// reason says in one sentence why something was decided.
func reason(t *text.Texts, r web.EventRow) string {
	who := cmp.Or(r.User, r.ClientName())
	what := map[filter.Action]string{
		filter.Block: t.Say("Blocked for {who}", "who", who), filter.Warn: t.Say("{who} was warned", "who", who), filter.Allow: t.Say("Allowed for {who}", "who", who),
		filter.Redirect: t.Say("Sent elsewhere for {who}", "who", who), filter.Pass: t.Say("Open for {who}", "who", who),
	}[r.Action]
	why := r.Why()
	switch {
	case r.Rule != "" && r.Category != "" && r.Score > 0:
		why = t.Say("what is on the page counts {n} as {category}, and the rule {rule} decides", "n", strconv.Itoa(r.Score), "category", r.Category, "rule", r.Rule)
	case r.Rule != "" && r.Category != "":
		why = t.Say("{site} counts as {category}, and the rule {rule} decides", "site", r.Host, "category", r.Category, "rule", r.Rule)
	case r.Rule != "":
		why = t.Say("the rule {rule} decides", "rule", r.Rule)
	case r.Action == filter.Pass:
		why = t.Say("no rule fits, so it opens")
	}
	if why == "" {
		return what + "."
	}
	return what + ": " + why + "."
}
