package engine

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"shuultuur/lib/suricata/address"
	"shuultuur/lib/suricata/index"
	"shuultuur/lib/suricata/match"
	"shuultuur/lib/suricata/rule"
	"shuultuur/lib/suricata/state"
)

// A compiledRule is a compiled rule.
type compiledRule struct {
	index.Entry
	l4, app  rule.Proto
	v4, v6   bool
	flow     rule.Flow
	hook     rule.Progress
	priority int
	class    *Class

	*rareProperties
	cost     cost
	disabled atomic.Bool
}

// rareProperties are the properties that few rules have besides their buffers. Rules without
// any share one.
type rareProperties struct {
	gates  []*rule.Bit // of the connection; they are tested before buffers, because they cost least
	pre    []rule.Condition
	last   []rule.Condition // scripts, which are expensive
	post   []rule.Condition
	limits []*rule.Threshold
}

var noExtra rareProperties

// A builder compiles rules.
type builder struct {
	e      *Engine
	ends   *address.Parser
	chains map[string]int
	from   origin            // of the current rule
	loaded map[string]bool   // datasets, by name and file
	types  map[string]string // of datasets that settings or any rule define, by name

	compiled rule.Slab[compiledRule]
	groups   match.Compiler
}

// compile compiles a rule.
func (b *builder) compile(r *rule.Rule) (*compiledRule, error) {
	c := b.compiled.New()
	c.Rule, c.Fast, c.priority, c.rareProperties = r, -1, r.Priority, &rareProperties{}
	b.from = origin{r.File, r.Source}
	c.l4, c.app = rule.Protocols(r.Proto)
	c.v4 = !strings.HasSuffix(r.Proto, "6") || r.Proto == "icmpv6"
	c.v6 = !strings.HasSuffix(r.Proto, "4")
	var err error
	if c.Ends, err = b.ends.Ends(r.Header); err != nil {
		return nil, err
	}
	if k, ok := b.e.classes[strings.ToLower(r.Class)]; ok {
		c.class = k
		if c.priority == 0 {
			c.priority = k.Priority
		}
	}
	if c.priority == 0 {
		c.priority = 3
	}
	groups := r.Groups
	for _, cond := range r.Conditions {
		if err := b.condition(c, cond); err != nil {
			return nil, err
		}
		if x, ok := cond.(*rule.Lua); ok {
			groups = b.join(c, x, groups)
		}
	}
	c.Groups = b.groups.Groups(len(groups))
	for _, g := range groups {
		if err := b.group(c, g); err != nil {
			return nil, err
		}
	}
	if err := b.hook(c); err != nil {
		return nil, err
	}
	b.place(c)
	c.Choose()
	if x := c.rareProperties; len(x.gates)+len(x.pre)+len(x.last)+len(x.post)+len(x.limits) == 0 {
		c.rareProperties = &noExtra
	}
	return c, nil
}

// condition adds a condition to those tested early or late.
func (b *builder) condition(c *compiledRule, cond rule.Condition) error {
	switch x := cond.(type) {
	case *rule.Flow:
		c.flow = *x
	case *rule.Bit:
		if x.Sets() {
			c.post = append(c.post, x)
		} else {
			c.pre = append(c.pre, x)
			if x.Kind == "flow" {
				c.gates = append(c.gates, x)
			}
		}
	case *rule.Int:
		if x.Sets() {
			c.post = append(c.post, x)
		} else {
			c.pre = append(c.pre, x)
		}
	case *rule.Var:
		c.last = append(c.last, x)
	case *rule.Threshold:
		c.limits = append(c.limits, x)
	case *rule.Lua:
		if err := b.script(x); err != nil {
			return err
		}
		c.last = append(c.last, x)
	case *rule.Word:
		switch {
		case rule.Idle(x.Keyword):
		case x.Keyword == "filemd5", x.Keyword == "filesha1", x.Keyword == "filesha256":
			set, err := b.e.hashes(b.from, x)
			if err != nil {
				return err
			}
			c.pre = append(c.pre, &digestMatcher{x, set})
		default:
			c.pre = append(c.pre, x)
		}
	default:
		c.pre = append(c.pre, cond)
	}
	return nil
}

// group compiles the matches on one buffer.
func (b *builder) group(c *compiledRule, g *rule.Group) error {
	chain := 0
	if len(g.Transforms) > 0 {
		n, err := b.chain(g.Transforms)
		if err != nil {
			return err
		}
		chain = n
	}
	k, err := b.groups.Group(g, chain, b.prepare)
	if err != nil {
		return err
	}
	c.Groups = append(c.Groups, k)
	return nil
}

// prepare prepares a match that needs more than bytes.
func (b *builder) prepare(m rule.Match) error {
	switch m := m.(type) {
	case *rule.Dataset:
		return b.dataset(m)
	case *rule.Lua:
		return b.script(m)
	}
	return nil
}

// join adds a script to the group of the buffer that it asks for, if the rule has one: it then
// knows where the contents before it ended.
func (b *builder) join(c *compiledRule, x *rule.Lua, groups []*rule.Group) []*rule.Group {
	buffer, ok := b.e.scripts[x].Buffer()
	i := slices.IndexFunc(groups, func(g *rule.Group) bool { return g.Buffer == buffer && len(g.Transforms) == 0 })
	if !ok || i < 0 {
		return groups
	}
	joined := *groups[i]
	joined.Matches = append(slices.Clone(joined.Matches), x)
	groups = slices.Clone(groups)
	groups[i] = &joined
	c.last = slices.DeleteFunc(c.last, func(l rule.Condition) bool { return l == rule.Condition(x) })
	return groups
}

// script loads a script.
func (b *builder) script(x *rule.Lua) error {
	s, err := b.e.loadScript(b.from, x.File)
	if err != nil {
		return fmt.Errorf("lua: %w", err)
	}
	b.e.scripts[x] = s
	return nil
}

// types returns the types of datasets. A rule may give one that rules before it use.
func types(c Config) map[string]string {
	all := map[string]string{}
	for name, s := range c.Sets {
		all[name] = s.Type
	}
	for _, r := range c.Rules {
		for _, g := range r.Groups {
			for _, m := range g.Matches {
				if d, ok := m.(*rule.Dataset); ok && d.Type != "" && all[d.Name] == "" && r.Skip == "" {
					all[d.Name] = d.Type
				}
			}
		}
	}
	return all
}

// dataset makes the dataset of a rule and reads its file.
func (b *builder) dataset(d *rule.Dataset) (err error) {
	if d.Type == "" && b.types[d.Name] != "" {
		typed := *d
		typed.Type = b.types[d.Name]
		d = &typed
	}
	if s, ok := b.e.config.Sets[d.Name]; ok && d.Load == "" && s.Data != nil && !b.loaded[d.Name] {
		b.loaded[d.Name] = true
		from := *d
		from.Load, from.Save = "the settings", ""
		return b.e.state.Define(state.Definition{Dataset: &from, Source: b.from.key(), Read: func() ([]byte, error) { return s.Data, nil }})
	}
	def := state.Definition{Dataset: d, Source: b.from.key()}
	if d.Save != "" {
		if def.Saving, err = b.e.saves(b.from, d.Save); err != nil {
			return fmt.Errorf("dataset %q: %w", d.Name, err)
		}
	}
	if key := b.from.source + "\x00" + d.Name + "\x00" + d.Load; d.Load != "" && !b.loaded[key] {
		b.loaded[key] = true
		def.Read = func() ([]byte, error) { return b.e.read(b.from, d.Load) }
	}
	return b.e.state.Define(def)
}

// chain returns the number for a chain of transforms.
func (b *builder) chain(ts []rule.Transform) (int, error) {
	key := fmt.Sprintf("%q", ts)
	scripted := strings.Contains(key, "luaxform")
	if scripted {
		key += b.from.source + "\x00" + b.from.file
	}
	if n, ok := b.chains[key]; ok {
		return n, nil
	}
	var fs []match.Transform
	for _, t := range ts {
		f, err := match.NewTransform(t, func(arg string) (match.Transform, error) { return b.e.loadTransform(b.from, arg) })
		if err != nil {
			return 0, fmt.Errorf("%s: %w", t.Name, err)
		}
		fs = append(fs, f)
	}
	b.e.chains, b.e.scripted = append(b.e.chains, fs), append(b.e.scripted, scripted)
	b.chains[key] = len(b.e.chains)
	return len(b.e.chains), nil
}
