package engine

import (
	"bufio"
	"fmt"
	"io"
	"net/netip"
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
	at *addresses
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
		l := &Limit{}
		var kept []string
		for _, part := range rule.SplitGroup(rest) {
			key, arg, _ := strings.Cut(part, " ")
			arg = strings.TrimSpace(arg)
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
		switch word {
		case "threshold", "event_filter":
		case "rate_filter", "suppress":
			l.Type = word
		default:
			return nil, fmt.Errorf("%s:%d: %q is not threshold, rate_filter or suppress", name, n, word)
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
	rule     *compiled
	src, dst netip.AddrPort
	client   bool // src opened the connection
	flow     *Flow
	now      time.Time
}

// limit applies the thresholds of a rule and of threshold.config to its alert. It returns
// false if there is no alert at all.
func (e *Engine) limit(a *Alert, o *occurrence) bool {
	for _, t := range o.rule.limits {
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
			default:
				if len(o.rule.limits) > 0 && key[1] == 0 {
					continue // the threshold of the rule applies
				}
				k := track(a.GID, a.SID, l.Track, 1, o.src.Addr(), o.dst.Addr(), o.flow)
				if !e.state.allow(&l.Threshold, k, o.now, 0) {
					a.Silent = true
				}
			}
		}
	}
	return true
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
