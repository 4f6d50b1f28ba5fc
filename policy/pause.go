package policy

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"shuultuur/filter"
)

// A pause lets pass what rules would warn of, block or send elsewhere. It is
// asked once for each decision, and costs one look at a pointer while there is
// none. A rule that would refuse does not fit meanwhile; what stands on other
// ground than lists and words is refused as ever: rules that name faults of
// certificates, limits and quotas, clients that no policy covers, and all that
// servers refuse by themselves. What was learned is not used, and nothing is.

// A Pause is for whom filtering rests, and until when.
type Pause struct {
	Who   string    `json:"who"` // an address, a network, a user or a group; "" is everybody
	Until time.Time `json:"until"`
}

// Whom is Who in words.
func (p Pause) Whom() string { return cmp.Or(p.Who, "everybody") }

// Pauses are those of now. They outlive engines, which ask them, and are safe
// for many goroutines. The zero value is none.
type Pauses struct {
	all atomic.Pointer[[]pause]
}

type pause struct {
	Pause
	network netip.Prefix // where Who is one
}

// maxPauses is the most bytes of [FormatPauses] that are kept: what a fleet
// tells one another with one message.
const maxPauses = 400

// Set replaces all pauses. It returns an error when there are too many.
func (s *Pauses) Set(all []Pause) error {
	if len(FormatPauses(time.Time{}, all)) > maxPauses {
		return errors.New("so many pauses at once cannot be kept; let some end, or name a network or group")
	}
	if len(all) == 0 {
		s.all.Store(nil)
		return nil
	}
	ready := make([]pause, len(all))
	for i, p := range all {
		ready[i].Pause = p
		if n := (Network{}); n.UnmarshalText([]byte(p.Who)) == nil {
			ready[i].network = n.Prefix
		}
	}
	s.all.Store(&ready)
	return nil
}

// At returns the pauses that hold at a time.
func (s *Pauses) At(now time.Time) (all []Pause) {
	if kept := s.all.Load(); kept != nil {
		for _, p := range *kept {
			if p.Until.After(now) {
				all = append(all, p.Pause)
			}
		}
	}
	return all
}

// left is how much longer filtering rests for a client, 0 when it does not.
func (s *Pauses) left(c *filter.Client, now time.Time) (left time.Duration) {
	if s == nil {
		return 0
	}
	all := s.all.Load()
	if all == nil {
		return 0
	}
	for i := range *all {
		if p := &(*all)[i]; p.covers(c) {
			left = max(left, p.Until.Sub(now))
		}
	}
	return left
}

func (p *pause) covers(c *filter.Client) bool {
	switch {
	case p.Who == "":
		return true
	case p.network.IsValid():
		return p.network.Contains(c.Addr.Unmap())
	}
	return p.Who == c.User || slices.Contains(c.Groups, p.Who)
}

// FormatPauses writes pauses, and when they were made, as one word.
func FormatPauses(made time.Time, all []Pause) string {
	v := url.Values{}
	for _, p := range all {
		v.Set(p.Who, strconv.FormatInt(p.Until.UnixMilli(), 10))
	}
	return fmt.Sprintf("%d?%s", made.UnixMilli(), v.Encode())
}

// ParsePauses reads what FormatPauses has written.
func ParsePauses(s string) (made time.Time, all []Pause, err error) {
	bad := fmt.Errorf("%.50q is not a record of pauses", s)
	at, query, ok := strings.Cut(s, "?")
	ms, err := strconv.ParseInt(at, 10, 64)
	if err != nil || !ok || len(query) > maxPauses {
		return made, nil, bad
	}
	v, err := url.ParseQuery(query)
	if err != nil {
		return made, nil, bad
	}
	for who := range v {
		until, err := strconv.ParseInt(v.Get(who), 10, 64)
		if err != nil {
			return made, nil, bad
		}
		all = append(all, Pause{who, time.UnixMilli(until)})
	}
	slices.SortFunc(all, func(a, b Pause) int { return strings.Compare(a.Who, b.Who) })
	return time.UnixMilli(ms), all, nil
}

// lifts says whether r does not count for a pause.
func (w *walk) lifts(r *rule) bool {
	return w.rest > 0 && r.action >= filter.Warn && !r.certificate && !r.implied
}

// noteLifted makes the verdict say what a pause has let pass, and for how long
// that holds.
func (w *walk) noteLifted() {
	if w.lifted == nil {
		return
	}
	v := &w.t.Verdict
	v.After = w.rest
	why := w.reason(w.lifted)
	f := filter.Finding{Check: "policy", Category: "paused"}
	if !w.t.Terse {
		f.Evidence = fmt.Sprintf("rule %q would %v until %s", w.lifted.name, w.lifted.action, w.now.Add(w.rest).Format(time.DateTime))
		if why.Evidence != "" {
			f.Evidence += "; " + why.Evidence
		}
	}
	if !slices.ContainsFunc(w.t.Findings, func(g filter.Finding) bool { return g.Check == f.Check && g.Category == f.Category }) {
		w.t.Findings = append(w.t.Findings, f)
	}
	if v.Action == filter.Pass {
		v.Reason.Rule, v.Reason.Finding = w.lifted.name, f
	}
}
