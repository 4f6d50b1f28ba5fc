package engine

import (
	"fmt"
	"slices"
	"strings"

	"shuultuur/lib/suricata/index"
	"shuultuur/lib/suricata/match"
	"shuultuur/lib/suricata/rule"
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
	for k, name := range map[index.Kind]string{index.OnMessage: "messages", index.OnStream: "streams", index.OnPacket: "packets", index.OnFrame: "frames"} {
		if c.Kinds&k != 0 {
			on = append(on, name)
		}
	}
	slices.Sort(on)
	dirs := map[rule.Direction]string{rule.ToServer: "the client sends", rule.ToClient: "the server sends", rule.Both: "either side sends"}
	line("  is tried on %s of %s that %s", strings.Join(on, " and "), c.Proto, dirs[c.Dirs])
	if c.Fast >= 0 {
		line("  waits for %q in %s", c.Pattern(), c.Groups[c.Fast].Buffer)
	} else {
		line("  waits for no pattern")
	}
	for i := range c.Groups {
		g := &c.Groups[i]
		var chain []string
		for _, t := range g.Transforms {
			chain = append(chain, t.Name)
		}
		with := ""
		if len(chain) > 0 {
			with = " after " + strings.Join(chain, ", ")
		}
		line("  looks at %s%s with %d matches", g.Buffer, with, len(g.Matches))
		for _, m := range g.Matches {
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
	case c.Fast < 0:
		why = append(why, "no content that must occur: the rule is tried on everything; add one")
	case len(c.Pattern()) < 4:
		why = append(why, fmt.Sprintf("the pattern %q is short and occurs often; put fast_pattern on a longer content", c.Pattern()))
	case c.Groups[c.Fast].Buffer.Info().Priority > 2:
		why = append(why, "the pattern is in "+c.Groups[c.Fast].Buffer.String()+", where few values occur often")
	}
	for i := range c.Groups {
		for _, m := range c.Groups[i].Matches {
			if x, ok := m.(*match.Expression); ok && x.Re.Looking() {
				why = append(why, "an expression looks around or back, so that its time is bounded by a clock only")
			}
		}
	}
	return why
}
