package engine

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"shuultuur/check/signature/rule"
)

// A Limit is a line of threshold.config: threshold, rate_filter or suppress.
type Limit struct {
	GID, SID uint32 // 0 for all
	rule.Threshold
	line int // in its file
	at   *addresses
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

func (l *Limit) prepare(vars map[string]string) error {
	if l.Addresses == "" {
		return nil
	}
	a, err := parseAddresses(l.Addresses, vars, 0)
	if err != nil {
		return fmt.Errorf("suppress: %w", err)
	}
	l.at = a.pack()
	return nil
}

// ReadLimits reads a threshold.config.
func ReadLimits(name string, r io.Reader) (limits []*Limit, err error) {
	s := bufio.NewScanner(r)
	text := ""
	for n := 1; s.Scan(); n++ {
		line := strings.TrimSpace(s.Text())
		if cont, ok := strings.CutSuffix(line, "\\"); ok {
			text += cont + " "
			continue
		}
		line, text = text+line, ""
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

// ReadClasses reads a classification.config.
func ReadClasses(name string, r io.Reader) (map[string]*Class, error) {
	classes := map[string]*Class{}
	s := bufio.NewScanner(r)
	for n := 1; s.Scan(); n++ {
		line := strings.TrimSpace(s.Text())
		rest, ok := strings.CutPrefix(line, "config classification:")
		if !ok {
			continue
		}
		f := strings.SplitN(rest, ",", 3)
		if len(f) != 3 {
			return nil, fmt.Errorf("%s:%d: %q is not name,text,priority", name, n, rest)
		}
		p, err := strconv.Atoi(strings.TrimSpace(f[2]))
		if err != nil {
			return nil, fmt.Errorf("%s:%d: priority %q is not a number", name, n, f[2])
		}
		k := strings.TrimSpace(f[0])
		classes[strings.ToLower(k)] = &Class{Name: k, Text: strings.TrimSpace(f[1]), Priority: p}
	}
	return classes, s.Err()
}

// An occurrence is where and when a rule matched, for thresholds.
type occurrence struct {
	rule     *compiledRule
	src, dst netip.AddrPort
	client   bool // src opened the connection
	flow     *Flow
	now      time.Time
}

// limit applies the thresholds of a rule and of threshold.config to its alert. It returns
// false if there is no alert at all.
func (e *Engine) limit(a *Alert, o *occurrence) bool {
	limits := o.rule.limits
	if l := e.threshold(o.rule); l != nil {
		limits = nil
		if !e.state.allow(&l.Threshold, track(a.GID, a.SID, l.Track, 1, o.src.Addr(), o.dst.Addr(), o.flow), o.now, 0) {
			a.Silent = true
		}
	}
	for _, t := range limits {
		if !e.state.allow(t, track(a.GID, a.SID, t.Track, 0, o.src.Addr(), o.dst.Addr(), o.flow), o.now, o.src.Port()) {
			if t.Type == "detection_filter" {
				return false
			}
			a.Silent = true
		}
	}
	for _, key := range [][2]uint32{{a.GID, a.SID}, {a.GID, 0}, {0, 0}} {
		for i, l := range e.limits[key] {
			switch l.Type {
			case "suppress":
				if l.suppresses(o) {
					a.Silent = true
				}
			case "rate_filter":
				k := track(a.GID, a.SID, l.Track, byte(2+i), o.src.Addr(), o.dst.Addr(), o.flow)
				if e.state.allow(&l.Threshold, k, o.now, 0) {
					a.change(l.NewAction)
				}
			}
		}
	}
	return true
}

// threshold returns the line of threshold.config that sets the threshold of a rule, nil if none
// does: the last one for its number, or else, if the rule has no threshold of its own, the first
// one for all rules.
func (e *Engine) threshold(k *compiledRule) (set *Limit) {
	for _, l := range e.limits[[2]uint32{k.GID, k.SID}] {
		if l.setsThreshold() {
			set = l
		}
	}
	if set != nil || len(k.limits) > 0 {
		return set
	}
	for _, gid := range [2]uint32{k.GID, 0} {
		for _, l := range e.limits[[2]uint32{gid, 0}] {
			if l.setsThreshold() && (set == nil || l.line < set.line) {
				set = l
			}
		}
	}
	return set
}

// Settle applies thresholds to an alert of a Tx that is Unsettled.
func (e *Engine) Settle(a *Alert) {
	if o := a.due; o != nil {
		a.due = nil
		a.Silent = !e.limit(a, o) || a.Silent
	}
}

// Serial reports whether thresholds must be applied at once: those that change the action of a
// rule, or decide about a connection.
func (e *Engine) Serial() bool {
	for _, ls := range e.limits {
		for _, l := range ls {
			if l.Type == "rate_filter" {
				return true
			}
		}
	}
	for _, k := range e.rules {
		if k.Action == rule.Pass && len(k.limits) > 0 {
			return true
		}
	}
	return e.config.Prevent
}

// change sets the action of a rate_filter.
func (a *Alert) change(to string) {
	switch to {
	case "drop":
		a.Action = rule.Drop
	case "reject":
		a.Action = rule.Reject
	case "pass":
		a.Action, a.Silent = rule.Pass, true
	case "alert", "log":
		a.Action = rule.Alert
	}
}

// suppresses reports whether an alert for o is suppressed.
func (l *Limit) suppresses(o *occurrence) bool {
	switch {
	case l.at == nil:
		return true
	case l.Track == "by_dst":
		return l.at.has(o.dst.Addr(), !o.client)
	case l.Track == "by_either", l.Track == "by_both":
		return l.at.has(o.src.Addr(), o.client) || l.at.has(o.dst.Addr(), !o.client)
	}
	return l.at.has(o.src.Addr(), o.client)
}

// A counter is safe for concurrent use.
type counter struct{ n atomic.Int64 }

func (c *counter) add(n int64) {
	if n != 0 {
		c.n.Add(n)
	}
}

// Value returns the count.
func (c *counter) Value() int64 { return c.n.Load() }

// Counters count the work of an engine.
type Counters struct {
	Checks, Regexps, Alerts counter
	OverRule                counter // rules that exceeded the limit of a rule
	OverMessage             counter // messages that exceeded the limit of a message
	Disabled                counter // rules disabled because they exceeded their limit too often
}

// Counters returns the counters of the engine.
func (e *Engine) Counters() *Counters { return &e.counters }
