package engine

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"shuultuur/lib/suricata/index"
)

// A Profile is the cost of one rule since the last reload.
type Profile struct {
	SID uint32 `json:"signature_id"`
	GID uint32 `json:"gid"`
	Rev uint32 `json:"rev"`
	Msg string `json:"msg,omitempty"`
	Cost
	Disabled bool  `json:"disabled"`         // because it exceeded its limit too often
	Before   *Cost `json:"before,omitempty"` // cost before the last reload; nil if it was not tried
}

// A Cost is the cost of trying a rule. Times are in nanoseconds.
type Cost struct {
	Checks     int64 `json:"checks"`
	Matches    int64 `json:"matches"`
	Total      int64 `json:"ns_total"`
	Max        int64 `json:"ns_max"`
	Avg        int64 `json:"ns_avg"`
	AvgMatch   int64 `json:"ns_avg_match"`
	AvgNoMatch int64 `json:"ns_avg_nomatch"`
	Over       int64 `json:"over_budget"` // how often it was given up, at 1 ms of work or 3,000 steps
}

// A cost is the cost of trying a rule.
type cost struct{ checks, matches, nanos, worst, nanosMatch, over atomic.Int64 }

// sum returns the current counts.
func (c *cost) sum() Cost {
	x := Cost{Checks: c.checks.Load(), Matches: c.matches.Load(), Total: c.nanos.Load(), Max: c.worst.Load(), Over: c.over.Load()}
	if x.Checks > 0 {
		x.Avg = x.Total / x.Checks
	}
	if x.Matches > 0 {
		x.AvgMatch = c.nanosMatch.Load() / x.Matches
	}
	if x.Checks > x.Matches {
		x.AvgNoMatch = (x.Total - c.nanosMatch.Load()) / (x.Checks - x.Matches)
	}
	return x
}

// costs returns the costs of rules that were tried, or those before the reload if none was.
func (e *Engine) costs() map[[2]uint32]Cost {
	all := map[[2]uint32]Cost{}
	for _, c := range e.rules {
		if x := c.cost.sum(); x.Checks > 0 {
			all[[2]uint32{c.GID, c.SID}] = x
		}
	}
	if len(all) == 0 {
		return e.before
	}
	return all
}

// A BufferProfile is the work of the prefilter of one buffer.
type BufferProfile struct {
	Buffer     string `json:"buffer"`
	Direction  string `json:"direction"`
	Patterns   int    `json:"patterns"`
	Bytes      int64  `json:"bytes"`
	Candidates int64  `json:"candidates"`
}

// Profiles returns the costs of rules that were tried since the last reload or before it, most
// expensive first, and the work of the prefilters.
func (e *Engine) Profiles() (rules []Profile, buffers []BufferProfile) {
	for _, c := range e.rules {
		p := Profile{SID: c.SID, GID: c.GID, Rev: c.Rev, Msg: c.Msg, Cost: c.cost.sum(), Disabled: c.disabled.Load()}
		if x, ok := e.before[[2]uint32{c.GID, c.SID}]; ok {
			p.Before = &x
		}
		if p.Checks > 0 || p.Before != nil {
			rules = append(rules, p)
		}
	}
	slices.SortStableFunc(rules, func(a, b Profile) int { return cmp.Or(cmp.Compare(b.Total, a.Total), cmp.Compare(a.SID, b.SID)) })
	for d, dir := range []string{"to server", "to client"} {
		for _, ts := range [][]*index.Table{e.index[d].Messages, e.index[d].Streams, e.index[d].Packets} {
			for _, t := range ts {
				name := t.Buffer.String()
				if t.Chain > 0 {
					name += " (transformed)"
				}
				buffers = append(buffers, BufferProfile{name, dir, len(t.Patterns()), t.Searched.Load(), t.Candidates.Load()})
			}
		}
	}
	slices.SortStableFunc(buffers, func(a, b BufferProfile) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return rules, buffers
}

// WriteProfile writes the most expensive rules and the buffers as text or JSON.
func (e *Engine) WriteProfile(w io.Writer, most int, asJSON bool) error {
	rules, buffers := e.Profiles()
	return WriteProfiles(w, rules, buffers, most, asJSON)
}

// WriteProfiles writes profiles of rules and buffers as text or JSON. It lists at most the
// given number of rules; 0 lists all.
func WriteProfiles(w io.Writer, rules []Profile, buffers []BufferProfile, most int, asJSON bool) error {
	if most > 0 && len(rules) > most {
		rules = rules[:most]
	}
	if asJSON {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(map[string]any{"sort": "total", "rules": rules, "buffers": buffers})
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%10s %9s %9s %12s %12s %12s %12s %12s %9s  %s\n", "SID", "CHECKS", "MATCHES", "TOTAL", "MAX", "AVG", "AVG MATCH", "AVG NO MATCH", "GIVEN UP", "BEFORE")
	d := func(ns int64) time.Duration { return time.Duration(ns) }
	for _, p := range rules {
		before := ""
		if p.Before != nil {
			before = fmt.Sprintf("%d checks, %v on average", p.Before.Checks, d(p.Before.Avg))
		}
		if p.Disabled {
			before = "disabled  " + before
		}
		fmt.Fprintf(&b, "%10d %9d %9d %12v %12v %12v %12v %12v %9d  %s\n", p.SID, p.Checks, p.Matches, d(p.Total), d(p.Max), d(p.Avg), d(p.AvgMatch), d(p.AvgNoMatch), p.Over, before)
	}
	fmt.Fprintf(&b, "\n%-32s %-10s %9s %14s %12s\n", "BUFFER", "DIRECTION", "PATTERNS", "BYTES", "CANDIDATES")
	for _, p := range buffers {
		if p.Bytes > 0 {
			fmt.Fprintf(&b, "%-32s %-10s %9d %14d %12d\n", p.Buffer, p.Direction, p.Patterns, p.Bytes, p.Candidates)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Counters count the work of an engine.
type Counters struct {
	Checks, Regexps, Alerts atomic.Int64
	OverRule                atomic.Int64 // rules that exceeded the limit of a rule
	OverMessage             atomic.Int64 // messages that exceeded the limit of a message
	Disabled                atomic.Int64 // rules disabled because they exceeded their limit too often
}

// Counters returns the counters of the engine.
func (e *Engine) Counters() *Counters { return &e.counters }
