package events

import (
	"cmp"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"shuultuur/admin/web"
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
