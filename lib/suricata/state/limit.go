package state

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"shuultuur/lib/suricata/address"
	"shuultuur/lib/suricata/rule"
)

// A Limit is a line of threshold.config: threshold, rate_filter or suppress.
type Limit struct {
	GID, SID uint32 // 0 for all
	rule.Threshold
	line int // in its file
	at   *address.Set
}

// setsThreshold reports whether the line limits alerts, instead of changing or suppressing
// them.
func (l *Limit) setsThreshold() bool { return l.Type != "suppress" && l.Type != "rate_filter" }

// limitParts are the parts that each kind of line has to have, besides gen_id and sig_id.
var limitParts = map[string][]string{
	"threshold": {"type", "track", "count", "seconds"}, "event_filter": {"type", "track", "count", "seconds"},
	"rate_filter": {"track", "count", "seconds", "new_action", "timeout"}, "suppress": nil,
}

// check returns an error for a line that is incomplete or names what does not exist. seen are
// the parts of the line.
func (l *Limit) check(word string, seen map[string]bool) error {
	for _, part := range append([]string{"gen_id", "sig_id"}, limitParts[word]...) {
		if part == "seconds" && l.Type == "backoff" {
			part = "multiplier"
		}
		if !seen[part] {
			return fmt.Errorf("%s has no %s", word, part)
		}
	}
	switch {
	case word == "suppress" && seen["track"] != seen["ip"]:
		return errors.New("suppress has either both track and ip, or neither")
	case word == "rate_filter" && !slices.Contains([]string{"alert", "drop", "pass", "log", "reject", "sdrop"}, l.NewAction):
		return fmt.Errorf("new_action %q is not alert, drop, pass, log or reject", l.NewAction)
	case limitParts[word] != nil && word != "rate_filter" && !slices.Contains([]string{"limit", "threshold", "both", "backoff"}, l.Type):
		return fmt.Errorf("type %q is not limit, threshold, both or backoff", l.Type)
	}
	return nil
}

// ReadLimits reads a threshold.config.
func ReadLimits(name string, r io.Reader) (limits []*Limit, err error) {
	s := bufio.NewScanner(r)
	var begun strings.Builder // of a line that continues
	for n := 1; s.Scan(); n++ {
		line := strings.TrimSpace(s.Text())
		if cont, ok := strings.CutSuffix(line, "\\"); ok {
			begun.WriteString(cont)
			begun.WriteByte(' ')
			continue
		}
		line = begun.String() + line
		begun.Reset()
		if line == "" || line[0] == '#' {
			continue
		}
		// Some files align the parts with tabs.
		word, rest, _ := strings.Cut(strings.ReplaceAll(line, "\t", " "), " ")
		l := &Limit{line: n}
		seen := map[string]bool{}
		var kept []string
		for _, part := range rule.SplitGroup(rest) {
			key, arg, _ := strings.Cut(part, " ")
			arg, seen[key] = strings.TrimSpace(arg), true
			num, err := strconv.ParseUint(arg, 10, 32)
			switch {
			case (key == "gen_id" || key == "sig_id") && err != nil:
				return nil, fmt.Errorf("%s:%d: %s %q is not a number", name, n, key, arg)
			case key == "gen_id":
				l.GID = uint32(num)
			case key == "sig_id":
				l.SID = uint32(num)
			default:
				kept = append(kept, part)
			}
		}
		t, err := rule.ParseThreshold(strings.Join(kept, ", "))
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, n, err)
		}
		l.Threshold = *t
		if _, ok := limitParts[word]; !ok {
			return nil, fmt.Errorf("%s:%d: %q is not threshold, rate_filter or suppress", name, n, word)
		}
		if err := l.check(word, seen); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, n, err)
		}
		if word == "rate_filter" || word == "suppress" {
			l.Type = word
		}
		limits = append(limits, l)
	}
	if err := s.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return limits, nil
}

// suppresses reports whether an alert for o is suppressed.
func (l *Limit) suppresses(o *Occurrence) bool {
	switch {
	case l.at == nil:
		return true
	case l.Track == "by_dst":
		return l.at.Has(o.Dst.Addr(), !o.Client)
	case l.Track == "by_either", l.Track == "by_both":
		return l.at.Has(o.Src.Addr(), o.Client) || l.at.Has(o.Dst.Addr(), !o.Client)
	}
	return l.at.Has(o.Src.Addr(), o.Client)
}

// Limits are the lines of threshold.config, by the numbers of the rules to which they apply.
type Limits map[[2]uint32][]*Limit

// NewLimits prepares lines. vars are the address groups.
func NewLimits(lines []*Limit, vars map[string]string) (Limits, error) {
	all := Limits{}
	for _, l := range lines {
		if l.Addresses != "" {
			a, err := address.Parse(l.Addresses, vars)
			if err != nil {
				return nil, fmt.Errorf("suppress: %w", err)
			}
			l.at = a
		}
		k := [2]uint32{l.GID, l.SID}
		all[k] = append(all[k], l)
	}
	return all, nil
}

// ChangeActions reports whether a line changes the action of rules.
func (ls Limits) ChangeActions() bool {
	for _, list := range ls {
		for _, l := range list {
			if l.Type == "rate_filter" {
				return true
			}
		}
	}
	return false
}

// threshold returns the line that sets the threshold of a rule, nil if none does: the last one
// for its number, or else, if the rule has no threshold of its own, the first one for all rules.
func (ls Limits) threshold(o *Occurrence) (set *Limit) {
	for _, l := range ls[[2]uint32{o.GID, o.SID}] {
		if l.setsThreshold() {
			set = l
		}
	}
	if set != nil || len(o.Own) > 0 {
		return set
	}
	for _, gid := range [2]uint32{o.GID, 0} {
		for _, l := range ls[[2]uint32{gid, 0}] {
			if l.setsThreshold() && (set == nil || l.line < set.line) {
				set = l
			}
		}
	}
	return set
}

// An Occurrence is where and when a rule matched.
type Occurrence struct {
	*rule.Rule
	Own      []*rule.Threshold // of the rule
	Src, Dst netip.AddrPort
	Client   bool // src opened the connection
	Flow     *Flow
	Now      time.Time
}

// An Effect is what thresholds make of an alert.
type Effect struct {
	None    bool // there is no alert at all
	Silent  bool
	Changed bool // action takes the place of the rule's
	Action  rule.Action
}

// Limit applies the thresholds of a rule and of threshold.config where it matched.
func (s *State) Limit(ls Limits, o *Occurrence) (e Effect) {
	own := o.Own
	if l := ls.threshold(o); l != nil {
		own = nil
		alerts, acts := s.allow(&l.Threshold, o, 1)
		if e.Silent = !alerts; !acts {
			e.None = true
			return e
		}
	}
	for _, t := range own {
		alerts, acts := s.allow(t, o, 0)
		if !acts {
			e.None = true
			return e
		}
		e.Silent = e.Silent || !alerts
	}
	for _, key := range [][2]uint32{{o.GID, o.SID}, {o.GID, 0}, {0, 0}} {
		for i, l := range ls[key] {
			switch l.Type {
			case "suppress":
				e.Silent = e.Silent || l.suppresses(o)
			case "rate_filter":
				if over, _ := s.allow(&l.Threshold, o, byte(2+i)); over {
					e.change(l.NewAction)
				}
			}
		}
	}
	return e
}

// change sets the action of a rate_filter.
func (e *Effect) change(to string) {
	e.Changed = true
	switch to {
	case "drop":
		e.Action = rule.Drop
	case "reject":
		e.Action = rule.Reject
	case "pass":
		e.Action, e.Silent = rule.Pass, true
	case "alert", "log":
		e.Action = rule.Alert
	default:
		e.Changed = false
	}
}
