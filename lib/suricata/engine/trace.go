package engine

import (
	"fmt"
	"strings"
	"sync"

	"shuultuur/lib/suricata/match"
	"shuultuur/lib/suricata/rule"
)

// traces record how far rules got.
type traces struct {
	sync.Mutex
	of map[*compiledRule]*Trace
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
	if e.counters.OverMessage.Load() > 0 {
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

// failed records which match of a group failed.
func (w *work) failed(i int, g *match.Group) {
	if !w.e.config.Trace {
		return
	}
	n := len(g.Matches) - w.in.Left
	if n < 0 || n >= len(g.Matches) {
		w.recordReach(2+i*1000, g.Buffer.String()+" is not there")
		return
	}
	w.recordReach(3+i*1000+n, g.Buffer.String()+": "+describe(g.Matches[n]))
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
	case *match.Expression:
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
	case *rule.Lua:
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
