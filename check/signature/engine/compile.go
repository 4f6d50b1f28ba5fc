package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"shuultuur/arrange"
	"shuultuur/check/signature/rule"
)

// A Proto is a set of protocols.
type Proto uint16

// The protocols that rules distinguish.
const (
	TCP Proto = 1 << iota
	UDP
	ICMP
	OtherIP
	HTTP1
	HTTP2
	TLS
	DNS
	OtherApp
	WebSocket
	transport = TCP | UDP | ICMP | OtherIP
)

// protos returns the protocols for the word after the action.
func protos(name string) (l4, app Proto) {
	switch name {
	case "tcp", "tcp-pkt", "tcp-stream", "tcp4", "tcp6":
		return TCP, 0
	case "udp":
		return UDP, 0
	case "icmp", "icmpv4", "icmpv6":
		return ICMP, 0
	case "ip", "ip4", "ip6", "ipv4", "ipv6", "pkthdr":
		return transport, 0
	case "http":
		return transport, HTTP1 | HTTP2
	case "http1":
		return transport, HTTP1
	case "http2":
		return transport, HTTP2
	case "tls", "ssl":
		return transport, TLS
	case "dns", "doh2":
		return transport, DNS
	case "websocket":
		return transport, WebSocket
	}
	return transport, OtherApp
}

// A compiledRule is a compiled rule.
type compiledRule struct {
	*rule.Rule
	dirs     rule.Direction
	l4, app  Proto
	v4, v6   bool
	kinds    kind
	groups   []group
	flow     rule.Flow
	ends     endpoints
	hook     rule.Progress
	priority int
	class    *Class
	single   bool // alerts once per direction of a connection
	fast     int  // group of the fast pattern, -1 for none
	text     *rule.Content

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

// endpoints are the addresses and ports of a rule; nil means any.
type endpoints struct {
	src, dst *addresses
	sp, dp   *ports
}

// A cost is the cost of trying a rule.
type cost struct{ checks, matches, nanos, worst, nanosMatch, over atomic.Int64 }

// A kind is the kind of data on which a rule is tried.
type kind uint8

const (
	onMessage kind = 1 << iota
	onPacket
	onStream
)

// A group is all matches on one buffer.
type group struct {
	*rule.Group
	chain   int // of the transforms, 0 for none
	dir     rule.Direction
	matches []rule.Match
	atEnd   bool                  // can only be decided once the buffer is complete
	pure    bool                  // the result of the matches from a position on depends on nothing else
	sought  *[2][]searchedContent // by direction: contents that the prefilter of bodies searches for
}

// needsPacket reports whether a condition can only be tested on a packet.
func needsPacket(c rule.Condition, packets []string) bool {
	switch c := c.(type) {
	case *rule.Integer:
		return slices.Contains(packets, strings.TrimSuffix(c.Keyword, ".raw"))
	case *rule.Word:
		return slices.Contains(packets, c.Keyword)
	case *rule.Event:
		return c.Kind != "app-layer-event"
	}
	return false
}

// needsMessage reports whether a condition is tested on a message.
func needsMessage(c rule.Condition) bool {
	switch c := c.(type) {
	case *rule.Integer:
		return !strings.HasPrefix(c.Keyword, "flow.") && c.Keyword != "dsize"
	case *rule.Event:
		return c.Kind == "app-layer-event"
	case *rule.Word:
		return c.Keyword != "app-layer-protocol"
	case *digestMatcher:
		return true
	}
	return false
}

// A builder compiles rules.
type builder struct {
	e      *Engine
	vars   map[string]string
	ports  map[string]string
	addrs  map[string]*addresses
	psets  map[string]*ports
	chains map[string]int
	from   string          // the current rule file
	loaded map[string]bool // datasets, by name and file

	compiled rule.Slab[compiledRule]
	groups   rule.Slab[group]
	lists    rule.Slab[rule.Match]
}

// compile compiles a rule.
func (b *builder) compile(r *rule.Rule) (*compiledRule, error) {
	c := b.compiled.New()
	c.Rule, c.fast, c.priority, c.rareProperties = r, -1, r.Priority, &rareProperties{}
	b.from = r.File
	c.l4, c.app = protos(r.Proto)
	c.v4 = !strings.HasSuffix(r.Proto, "6") || r.Proto == "icmpv6"
	c.v6 = !strings.HasSuffix(r.Proto, "4")
	if err := b.header(c); err != nil {
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
	for _, cond := range r.Conditions {
		if err := b.condition(c, cond); err != nil {
			return nil, err
		}
	}
	c.groups = b.groups.Slice(len(r.Groups))[:0]
	for _, g := range r.Groups {
		if err := b.group(c, g); err != nil {
			return nil, err
		}
	}
	if err := b.hook(c); err != nil {
		return nil, err
	}
	b.place(c)
	b.choose(c)
	if x := c.rareProperties; len(x.gates)+len(x.pre)+len(x.last)+len(x.post)+len(x.limits) == 0 {
		c.rareProperties = &noExtra
	}
	return c, nil
}

func (b *builder) header(c *compiledRule) error {
	addr := func(s string) (*addresses, error) {
		if a, ok := b.addrs[s]; ok {
			return a, nil
		}
		a, err := parseAddresses(s, b.vars, 0)
		if err != nil {
			return nil, err
		}
		if a.any && len(a.without) == 0 {
			a = nil
		} else {
			a.pack()
		}
		b.addrs[s] = a
		return a, nil
	}
	port := func(s string) (*ports, error) {
		if p, ok := b.psets[s]; ok {
			return p, nil
		}
		p, err := parsePorts(s, b.ports, 0)
		if err != nil {
			return nil, err
		}
		if p.any && len(p.without) == 0 {
			p = nil
		}
		b.psets[s] = p
		return p, nil
	}
	var errs [4]error
	c.ends.src, errs[0] = addr(c.Src)
	c.ends.dst, errs[1] = addr(c.Dst)
	c.ends.sp, errs[2] = port(c.SrcPort)
	c.ends.dp, errs[3] = port(c.DstPort)
	return errors.Join(errs[:]...)
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
		s, err := b.e.loadScript(b.from, x.File)
		if err != nil {
			return fmt.Errorf("lua: %w", err)
		}
		c.last = append(c.last, &script{x, s})
	case *rule.Word:
		switch x.Keyword {
		case "filemd5", "filesha1", "filesha256":
			set, err := b.e.hashes(b.from, x)
			if err != nil {
				return err
			}
			c.pre = append(c.pre, &digestMatcher{x, set})
		case "tag", "filestore", "tls.store", "tls_store", "config", "mark", "nfq_set_mark":
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
	k := group{Group: g, dir: g.Buffer.Info().Direction}
	if len(g.Transforms) > 0 && g.Buffer != rule.Frame {
		n, err := b.chain(g.Transforms)
		if err != nil {
			return err
		}
		k.chain = n
	}
	var err error
	if k.matches, err = b.matches(g.Matches); err != nil {
		return err
	}
	k.atEnd = k.chain != 0 || g.Absent || waits(k.matches)
	k.pure = pure(k.matches)
	c.groups = append(c.groups, k)
	return nil
}

// matches copies matches and compiles expressions. It folds patterns in place: a copy would
// double their memory.
func (b *builder) matches(ms []rule.Match) ([]rule.Match, error) {
	out := b.lists.Slice(len(ms))[:0]
	for _, m := range ms {
		switch x := m.(type) {
		case *rule.PCRE:
			re, err := rule.Compile(x)
			if err != nil {
				return nil, err
			}
			m = &expression{x, re}
		case *rule.Content:
			if x.NoCase {
				for i, c := range x.Pattern {
					if lower[c] != c { // another engine may be reading it
						x.Pattern[i] = lower[c]
					}
				}
			}
		case *rule.Base64:
			y := *x
			var err error
			if y.Inner, err = b.matches(x.Inner); err != nil {
				return nil, err
			}
			m = &y
		case *rule.Dataset:
			if err := b.dataset(x); err != nil {
				return nil, err
			}
		case *rule.Lua:
			s, err := b.e.loadScript(b.from, x.File)
			if err != nil {
				return nil, fmt.Errorf("lua: %w", err)
			}
			m = &script{x, s}
		}
		out = append(out, m)
	}
	return out, nil
}

// dataset makes the dataset of a rule and reads its file.
func (b *builder) dataset(d *rule.Dataset) error {
	key := d.Name + "\x00" + d.Load
	if b.loaded[key] {
		d := *d
		d.Load = ""
		return b.e.state.define(&d, b.from, nil)
	}
	b.loaded[key] = true
	return b.e.state.define(d, b.from, b.e.read)
}

// waits reports whether more bytes could change the result from true to false.
func waits(ms []rule.Match) bool {
	for _, m := range ms {
		switch m := m.(type) {
		case *rule.Content:
			if m.Negated || m.Ends {
				return true
			}
		case *expression:
			if m.Negated || strings.Contains(m.Expr, "$") || strings.Contains(m.Expr, `\z`) {
				return true
			}
		case *rule.DataAt:
			if m.Negated {
				return true
			}
		case *rule.ByteJump:
			if m.End {
				return true
			}
		case *rule.Size, *rule.Entropy, *rule.Dataset, *script:
			return true
		}
	}
	return false
}

// pure reports whether matches only compare bytes: none stores or changes anything.
func pure(ms []rule.Match) bool {
	for _, m := range ms {
		switch m := m.(type) {
		case *rule.Content, *rule.DataAt, *rule.ByteTest, *rule.ByteJump, *rule.Size:
		case *expression:
			if len(m.Captures) > 0 {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// chain returns the number for a chain of transforms.
func (b *builder) chain(ts []rule.Transform) (int, error) {
	key := fmt.Sprintf("%q", ts)
	scripted := strings.Contains(key, "luaxform")
	if scripted {
		key += b.from
	}
	if n, ok := b.chains[key]; ok {
		return n, nil
	}
	var fs []transform
	for _, t := range ts {
		f, err := newTransform(t, func(arg string) (transform, error) { return b.e.loadTransform(b.from, arg) })
		if err != nil {
			return 0, fmt.Errorf("%s: %w", t.Name, err)
		}
		fs = append(fs, f)
	}
	b.e.chains, b.e.scripted = append(b.e.chains, fs), append(b.e.scripted, scripted)
	b.chains[key] = len(b.e.chains)
	return len(b.e.chains), nil
}

// hooks are rule hooks by name.
var hooks = map[string]struct {
	dir rule.Direction
	at  rule.Progress
}{
	"request_started": {rule.ToServer, rule.NotStarted}, "request_line": {rule.ToServer, rule.Line},
	"request_headers": {rule.ToServer, rule.Headers}, "request_body": {rule.ToServer, rule.Body},
	"request_trailer": {rule.ToServer, rule.Trailer}, "request_complete": {rule.ToServer, rule.Complete},
	"response_started": {rule.ToClient, rule.NotStarted}, "response_line": {rule.ToClient, rule.Line},
	"response_headers": {rule.ToClient, rule.Headers}, "response_body": {rule.ToClient, rule.Body},
	"response_trailer": {rule.ToClient, rule.Trailer}, "response_complete": {rule.ToClient, rule.Complete},
	"client_in_progress": {rule.ToServer, rule.NotStarted}, "client_hello_done": {rule.ToServer, rule.Line},
	"client_cert_done": {rule.ToServer, rule.Headers}, "client_handshake_done": {rule.ToServer, rule.Headers},
	"client_finished": {rule.ToServer, rule.Complete}, "server_in_progress": {rule.ToClient, rule.NotStarted},
	"server_hello": {rule.ToClient, rule.Line}, "server_cert_done": {rule.ToClient, rule.Headers},
	"server_hello_done": {rule.ToClient, rule.Headers}, "server_handshake_done": {rule.ToClient, rule.Headers},
	"server_finished": {rule.ToClient, rule.Complete}, "all": {rule.Both, rule.NotStarted}, "flow_start": {rule.Both, rule.NotStarted},
}

func (b *builder) hook(c *compiledRule) error {
	if c.Hook == "" {
		return nil
	}
	h, ok := hooks[c.Hook]
	if !ok {
		return fmt.Errorf("there is no hook %q; use request_line, request_headers, request_body, request_complete, or response_line and so on", c.Hook)
	}
	if h.dir != rule.Both {
		c.flow.Direction = h.dir
	}
	c.hook = h.at
	return nil
}

// place determines the kinds of data and the directions in which the rule is tried.
func (b *builder) place(c *compiledRule) {
	c.dirs = c.flow.Direction
	if c.dirs == 0 {
		c.dirs = rule.Both
	}
	payload, message, packet := false, c.Hook != "" && c.app != 0, false
	for i := range c.groups {
		g := &c.groups[i]
		info := g.Buffer.Info()
		switch {
		case g.Buffer == rule.Payload:
			payload = true
		case info.Packet:
			packet = true
		case g.Buffer == rule.IPSrc || g.Buffer == rule.IPDst:
		default:
			message = true
		}
		if !c.Exchange && info.Direction != rule.Both && c.flow.Direction == 0 {
			c.dirs &= info.Direction
		}
	}
	needs := append(slices.Clone(c.pre), c.last...)
	for _, x := range needs {
		switch {
		case needsPacket(x, c.Packet):
			packet = true
		case needsMessage(x):
			message = true
			if i, ok := x.(*rule.Integer); ok && c.flow.Direction == 0 && strings.HasPrefix(i.Keyword, "urilen") {
				c.dirs &= rule.ToServer
			}
		}
		if s, ok := x.(*script); ok && s.code != nil && s.code.Message() && c.app != 0 {
			message = true
			if !c.Exchange && c.flow.Direction == 0 {
				c.dirs &= s.code.Directions()
			}
		}
	}
	switch {
	case message:
		c.kinds = onMessage
	case payload && !packet && c.Proto != "tcp-pkt" && !c.flow.NoStream:
		c.kinds = onStream
		if c.Proto != "tcp-stream" && !c.flow.OnlyStream {
			c.kinds |= onPacket
		}
	default:
		c.kinds = onPacket
	}
	c.single = c.app == 0 && c.kinds == onPacket && !payload && !packet && len(c.pre) == 0 && len(c.last) == 0 && c.flow == (rule.Flow{})
	if c.Exchange {
		c.dirs = rule.Both
	}
	arrange.By(c.groups, func(a, b group) int { return int(a.Buffer.Info().Progress) - int(b.Buffer.Info().Progress) })
}

// choose selects the fast pattern as Suricata does: the one that the rule marks, or else the
// longest in the buffer of best priority, and of those the strongest. If it has at most four
// bytes, choose prefers a rarer text that the rule needs in the same bytes, which may be part of
// an expression. If it has less, choose prefers a longer pattern that is not in every page. Short
// patterns occur everywhere, and the choice changes no alert.
func (b *builder) choose(c *compiledRule) {
	if c.fast, c.text = c.best(func(*group, *rule.Content) bool { return true }); c.fast < 0 || len(c.pattern()) > gram {
		return
	}
	in := &c.groups[c.fast]
	if g, text := c.rarest(); text != nil && len(text.Pattern) >= gram && rareness(text.Pattern) >= rareness(c.pattern())+rarer {
		c.fast, c.text = g, text
	}
	if len(c.pattern()) >= gram {
		return
	}
	fast, text := c.best(func(g *group, x *rule.Content) bool {
		return len(x.Pattern) >= gram && (len(c.pattern()) < gram-1 || !everyday(fold(x.Pattern))) && (x.FastLen == 0 || x.FastLen >= gram) && g.dir&c.dirs == in.dir&c.dirs && (g.Buffer != rule.Payload || in.Buffer == rule.Payload)
	})
	if fast >= 0 {
		c.fast, c.text = fast, text
	}
}

// rarest returns the content that is rarest in pages among those that the rule needs beside its
// fast pattern in the same bytes, and its group. It returns nil if there is none, if the fast
// pattern is rare itself or has a fixed place, and for other bytes than bodies and content
// outside any buffer.
func (c *compiledRule) rarest() (best int, text *rule.Content) {
	in := &c.groups[c.fast]
	if _, fixed := c.anchor(); fixed || rareness(c.pattern()) >= rare || !inBody(in, 0) && !inBody(in, 1) && !in.outside() {
		return 0, nil
	}
	for i := range c.groups {
		g := &c.groups[i]
		if g.Absent || g.Buffer != in.Buffer || g.chain != in.chain || g.dir != in.dir {
			continue
		}
		for _, m := range g.matches {
			if x := required(m); x != nil && x != c.text && (text == nil || rareness(x.Pattern) > rareness(text.Pattern)) {
				best, text = i, x
			}
		}
	}
	return best, text
}

// best returns the best content for which fits returns true.
func (c *compiledRule) best(fits func(*group, *rule.Content) bool) (best int, text *rule.Content) {
	best = -1
	bestLen, bestStrength, bestPriority := 0, 0, 0
	for i := range c.groups {
		g := &c.groups[i]
		if g.Absent || g.Buffer == rule.OtherBuffer || g.Buffer == rule.Frame || g.Buffer.Info().Packet {
			continue
		}
		for _, m := range g.matches {
			x, ok := m.(*rule.Content)
			if !ok || x.Negated || !fits(g, x) {
				continue
			}
			if x.Fast {
				return i, x
			}
			p, n, s := g.Buffer.Info().Priority, len(x.Pattern), strength(x.Pattern)
			if best < 0 || p < bestPriority || p == bestPriority && (n > bestLen || n == bestLen && s > bestStrength) {
				best, bestLen, bestStrength, bestPriority, text = i, n, s, p, x
			}
		}
	}
	return best, text
}

// pattern returns the bytes that the prefilter searches for.
func (c *compiledRule) pattern() []byte {
	p := c.text.Pattern
	if c.text.FastLen > 0 {
		p = p[c.text.FastOff : c.text.FastOff+c.text.FastLen]
	}
	return p
}
