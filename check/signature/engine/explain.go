package engine

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"shuultuur/arrange"
	"shuultuur/check/signature/rule"
)

// Explain describes which data a rule inspects and why it may be slow. ok is false if no
// rule has the number.
func (e *Engine) Explain(sid uint32) (text string, ok bool) {
	var b strings.Builder
	for _, c := range e.rules {
		if c.SID == sid {
			c.explain(&b)
			ok = true
		}
	}
	return b.String(), ok
}

func (c *compiledRule) explain(b *strings.Builder) {
	line := func(format string, args ...any) { fmt.Fprintf(b, format+"\n", args...) }
	line("%s:%d: sid %d rev %d: %s", c.File, c.Line, c.SID, c.Rev, c.Msg)
	class := c.Rule.Class
	if class == "" {
		class = "none"
	}
	line("  action %s, class %s, priority %d", c.Action, class, c.priority)
	on := []string{}
	for k, name := range map[kind]string{onMessage: "messages", onStream: "streams", onPacket: "packets"} {
		if c.kinds&k != 0 {
			on = append(on, name)
		}
	}
	slices.Sort(on)
	dirs := map[rule.Direction]string{rule.ToServer: "the client sends", rule.ToClient: "the server sends", rule.Both: "either side sends"}
	line("  is tried on %s of %s that %s", strings.Join(on, " and "), c.Proto, dirs[c.dirs])
	if c.fast >= 0 {
		line("  waits for %q in %s", c.pattern(), c.groups[c.fast].Buffer)
	} else {
		line("  waits for no pattern")
	}
	for i := range c.groups {
		g := &c.groups[i]
		var chain []string
		for _, t := range g.Transforms {
			chain = append(chain, t.Name)
		}
		with := ""
		if len(chain) > 0 {
			with = " after " + strings.Join(chain, ", ")
		}
		line("  looks at %s%s with %d matches", g.Buffer, with, len(g.matches))
		for _, m := range g.matches {
			line("    %s", describe(m))
		}
		if g.Absent {
			line("    absent")
		}
	}
	for _, x := range slices.Concat(c.pre, c.last) {
		line("  asks %s", describe(x))
	}
	for _, why := range c.slow() {
		line("  slow: %s", why)
	}
}

// slow returns reasons why a rule may be expensive.
func (c *compiledRule) slow() (why []string) {
	switch {
	case c.fast < 0:
		why = append(why, "no content that must occur: the rule is tried on everything; add one")
	case len(c.pattern()) < 4:
		why = append(why, fmt.Sprintf("the pattern %q is short and occurs often; put fast_pattern on a longer content", c.pattern()))
	case c.groups[c.fast].Buffer.Info().Priority > 2:
		why = append(why, "the pattern is in "+c.groups[c.fast].Buffer.String()+", where few values occur often")
	}
	for i := range c.groups {
		for _, m := range c.groups[i].matches {
			if x, ok := m.(*expression); ok && x.re.Looking() {
				why = append(why, "an expression looks around or back, so that its time is bounded by a clock only")
			}
		}
	}
	return why
}

// describe formats a match or a condition as its keyword.
func describe(m any) string {
	switch x := m.(type) {
	case *rule.Content:
		not := ""
		if x.Negated {
			not = "!"
		}
		return fmt.Sprintf("content:%s%q", not, x.Pattern)
	case *expression:
		return "pcre:/" + x.Expr + "/" + x.Flags
	case *rule.DataAt:
		return "isdataat"
	case *rule.ByteTest:
		return "byte_test"
	case *rule.ByteJump:
		return "byte_jump"
	case *rule.ByteExtract:
		return "byte_extract"
	case *rule.ByteMath:
		return "byte_math"
	case *rule.Size:
		return fmt.Sprintf("bsize:%s%d", x.Op, x.A)
	case *rule.Base64:
		return "base64_decode"
	case *rule.Entropy:
		return "entropy"
	case *rule.Dataset:
		return fmt.Sprintf("dataset:%s,%s", x.Command, x.Name)
	case *script:
		return "lua:" + x.File
	case *rule.Bit:
		return fmt.Sprintf("%sbits:%s,%s", x.Kind, x.Command, strings.Join(x.Names, "|"))
	case *rule.Int:
		return fmt.Sprintf("flowint:%s,%s", x.Name, x.Op)
	case *rule.Integer:
		return x.Keyword
	case *rule.Word:
		return x.Keyword + ":" + x.Value
	case *digestMatcher:
		return x.Keyword + ":" + x.Value
	case *rule.Event:
		return x.Kind + ":" + x.Name
	case *rule.Var:
		return x.Scope + "var:" + x.Name
	}
	return fmt.Sprintf("%T", m)
}

// A Trace is how far a rule got at best.
type Trace struct {
	Rule    *rule.Rule
	Matched int
	Tried   int
	Reached int    // higher means farther
	Failed  string // the keyword that did not match there
}

// recordReach records how far the current rule got.
func (w *work) recordReach(far int, failed string) {
	if !w.e.config.Trace {
		return
	}
	w.e.traces.Lock()
	defer w.e.traces.Unlock()
	t := w.e.traces.of[w.rule]
	if t == nil {
		t = &Trace{Rule: w.rule.Rule}
		w.e.traces.of[w.rule] = t
	}
	if far > t.Reached || t.Failed == "" {
		t.Reached, t.Failed = far, failed
	}
}

// Traces returns how far each rule got, if Config.Trace was set.
func (e *Engine) Traces() (all []Trace) {
	e.traces.Lock()
	defer e.traces.Unlock()
	unseen := "nothing of its protocol and direction was seen"
	if e.counters.OverMessage.Value() > 0 {
		unseen += " before the rules had used up a message's time"
	}
	for _, c := range e.rules {
		t := e.traces.of[c]
		if t == nil {
			t = &Trace{Rule: c.Rule, Failed: unseen}
		}
		t.Tried, t.Matched = int(c.cost.checks.Load()), int(c.cost.matches.Load())
		all = append(all, *t)
	}
	return all
}

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
	arrange.By(rules, func(a, b Profile) int { return cmp.Or(cmp.Compare(b.Total, a.Total), cmp.Compare(a.SID, b.SID)) })
	for d, dir := range []string{"to server", "to client"} {
		for _, ts := range [][]*table{e.tables[d], e.streams[d], e.packets[d]} {
			for _, t := range ts {
				name := t.buffer.String()
				if t.chain > 0 {
					name += " (transformed)"
				}
				buffers = append(buffers, BufferProfile{name, dir, t.pf.n, t.bytes.Value(), t.found.Value()})
			}
		}
	}
	arrange.By(buffers, func(a, b BufferProfile) int { return cmp.Compare(b.Bytes, a.Bytes) })
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
