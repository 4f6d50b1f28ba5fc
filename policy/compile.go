package policy

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"math/bits"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"shuultuur/content/media"
	"shuultuur/filter"
	"shuultuur/lib/dns"
	"shuultuur/lib/setting"
	"shuultuur/policy/pattern"
	"shuultuur/policy/preset"
	"shuultuur/policy/schedule"
	"shuultuur/policy/search"
)

// New makes an engine. It asks checks in the order given, heavy ones last. Mistakes in cfg are
// returned as a [setting.Error] whose key begins with the index of the policy.
func New(cfg Config, checks []filter.Check, parts Parts) (*Engine, error) {
	if len(cfg) == 0 {
		return nil, errNoPolicies
	}
	if len(checks) > maxChecks {
		return nil, fmt.Errorf("%d checks are given; at most %d are possible", len(checks), maxChecks)
	}
	e := &Engine{
		checks:     checks,
		engines:    search.NewEngines(),
		key:        parts.Key,
		memory:     parts.Memory,
		counter:    parts.Counter,
		revision:   parts.Revision,
		pauses:     parts.Pauses,
		decided:    parts.Decisions,
		metrics:    parts.Metrics,
		log:        cmp.Or(parts.Log, slog.Default()),
		samples:    parts.Samples,
		conditions: make([]condition, len(checks)),
		flights:    &flights{under: map[[16]byte]chan struct{}{}},
		today:      new(atomic.Pointer[day]),
		schedules:  new(schedule.Set),
		pool:       &sync.Pool{New: func() any { return new(scratch) }},
	}
	if len(e.key) == 0 {
		e.key = make([]byte, 32)
		rand.Read(e.key) // never fails
	}
	e.revision = cmp.Or(e.revision, rand.Text())
	v := vocabularyOf(checks)
	v.renamed = parts.Decisions
	for i, c := range checks {
		if c.Cost() == filter.Heavy {
			e.heavy |= 1 << i
		}
		if c.Name() == filter.Tunnel {
			e.tunnel |= 1 << i
		}
		_, e.conditions[i].away = c.(filter.Changing)
		if parts.Metrics != nil {
			e.failures = append(e.failures, parts.Metrics.failures.With(c.Name()))
		}
	}
	names := map[string]bool{}
	order, err := cfg.basesFirst()
	if err != nil {
		return nil, err
	}
	e.policies = make([]*policy, len(cfg))
	for _, i := range order { // a mistake in a base is reported there
		if e.policies[i], err = compilePolicy(&cfg[i], parts.Watch, v); err != nil {
			return nil, setting.At(fmt.Sprintf("[%d]", i), err)
		}
	}
	for i, p := range e.policies {
		if names[p.name] {
			return nil, setting.At(fmt.Sprintf("[%d].name", i), fmt.Errorf("there is already a policy %q", p.name))
		}
		names[p.name] = true
		if p.when != nil {
			e.schedules.Add(p.when)
		}
		for _, r := range p.rules {
			if r.when != nil {
				e.schedules.Add(r.when)
			}
			if r.monitors && parts.Metrics != nil {
				r.count = parts.Metrics.monitored.With(p.name, r.name)
			}
		}
		e.metered = e.metered || e.counter != nil && len(p.queries)+len(p.quotas) > 0
	}
	e.coverNetworks(cfg)
	e.coverNames()
	return e, nil
}

// covers finds mistakes in the clients that a policy covers.
func (s *Policy) covers() error {
	for key, names := range map[string][]string{"users": s.Users, "groups": s.Groups} {
		if i := slices.Index(names, ""); i >= 0 {
			return setting.At(fmt.Sprintf("%s[%d]", key, i), errors.New("an empty name covers nobody; remove it"))
		}
	}
	for i, n := range s.Networks {
		if !n.IsValid() {
			return setting.At(fmt.Sprintf("networks[%d]", i), errors.New("an empty network covers nobody; remove it"))
		}
	}
	return nil
}

func compilePolicy(s *Policy, watch []Rule, v *vocabulary) (*policy, error) {
	if s.Name == "" {
		return nil, setting.At("name", errors.New("a policy needs a name, for the record and the block page"))
	}
	if len(s.Rules)+len(watch) > maxRules {
		return nil, setting.At("rules", fmt.Errorf("there are %d rules; a policy has at most %d", len(s.Rules)+len(watch), maxRules))
	}
	if err := s.covers(); err != nil {
		return nil, err
	}
	p := &policy{
		name:     s.Name,
		users:    foldedSet(s.Users),
		groups:   foldedSet(s.Groups),
		unknown:  s.Unknown,
		severity: severityOf(s),
		meanings: meanings{refs: map[category][]ref{}, failures: map[category][]failureRef{}},
		hosts:    map[string]*ruleSet{},
		excepts:  map[string]*ruleSet{},
		learn:    s.Learn.For.Or(0),
		decrypt:  s.Decrypt, store: s.Store, hide: s.Hide,
		readingMode: readingMode{patience: s.Patience.duration(), trickle: s.Trickle.Or(0), disguised: s.Disguised, packages: s.Archives == "text"},
	}
	switch {
	case s.Archives != "" && s.Archives != "text":
		return nil, setting.At("archives", fmt.Errorf("%q is not text; leave it out to pass over the words in software packages", s.Archives))
	case p.trickle > 0 && p.trickle < time.Second:
		return nil, setting.At("trickle", fmt.Errorf("%v: write 1s or more", p.trickle))
	case p.trickle > 0 && s.Patience == Hold:
		return nil, setting.At("trickle", errors.New("patience: hold lets nothing pass before the verdict; leave one of the two out"))
	}
	var err error
	if p.when, err = compileSchedule(s.Schedule); err != nil {
		return nil, err
	}
	if p.warnClosed, err = s.WarnOnLoss.closed("warn-on-loss"); err != nil {
		return nil, err
	}
	if _, err = s.OnError.passes(false); err != nil {
		return nil, err
	}
	if p.unloaded.blocks, err = s.UntilLoaded.blocks(); err != nil {
		return nil, err
	}
	if p.presets, err = preset.New(s.SafeSearch, s.YouTube, &s.Tenants); err != nil {
		return nil, err
	}
	if p.names, err = compileDNS(&s.DNS); err != nil {
		return nil, setting.At("dns", err)
	}
	if err := checkExpectations(s.Expect); err != nil {
		return nil, setting.At("expect", err)
	}
	for i := range watch {
		if err := p.add(&watch[i], s, v); err != nil {
			return nil, fmt.Errorf("alerts: %w", err)
		}
	}
	p.markWatchRules()
	names := map[string]bool{}
	for i := range s.Rules {
		if s.Rules[i].Off {
			continue
		}
		key := fmt.Sprintf("rules[%d]", i)
		if err := p.add(&s.Rules[i], s, v); err != nil {
			return nil, setting.At(key, err)
		}
		if name := s.Rules[i].Name; names[name] {
			return nil, setting.At(key+".name", fmt.Errorf("there is already a rule %q in this policy", name))
		}
		names[s.Rules[i].Name] = true
	}
	if s.Decrypt {
		if err := p.addImplied(s, v); err != nil {
			return nil, setting.At("decrypt", err)
		}
	}
	if err := p.compileLimits(s, v); err != nil {
		return nil, err
	}
	var counts uint64
	for _, r := range p.rules {
		counts |= r.finds | r.unless
	}
	for _, r := range p.rations {
		counts |= 1 << r.check
	}
	for _, cost := range []filter.Cost{filter.Cheap, filter.Heavy} {
		for i, c := range v.checks {
			if counts>>i&1 != 0 && c.Cost() == cost {
				p.checks = append(p.checks, i)
			}
		}
	}
	return p, nil
}

// addImplied adds the rule that blocks the certificate faults that no other rule names.
func (p *policy) addImplied(s *Policy, v *vocabulary) error {
	r := Rule{Name: "certificate", Action: "block"}
	for _, c := range v.checks {
		if c.Name() != r.Name {
			continue
		}
		for _, k := range c.Categories() {
			r.Category = append(r.Category, r.Name+"/"+k.Name)
		}
	}
	if r.Category == nil || len(p.rules) == maxRules {
		return nil
	}
	if err := p.add(&r, s, v); err != nil {
		return err
	}
	p.rules[len(p.rules)-1].implied = true
	return nil
}

func compileSchedule(s schedule.Schedule) (schedule.Hours, error) {
	hs, bad, err := s.Parse()
	switch {
	case err == nil:
		return hs, nil
	case len(s) > 1:
		return nil, setting.At(fmt.Sprintf("schedule[%d]", bad), err)
	default:
		return nil, setting.At("schedule", err)
	}
}

// add compiles a rule and appends it.
func (p *policy) add(s *Rule, ps *Policy, v *vocabulary) error {
	if s.Name == "" {
		return setting.At("name", errors.New("a rule needs a name, for the record and the block page"))
	}
	r := &rule{name: s.Name, answer: s.Answer, wrapped: s.Wrapped, text: strings.TrimSpace(s.Text)}
	var err error
	if len(r.text) > maxText {
		return setting.At("text", fmt.Errorf("it has %d bytes; the page of a refusal has room for %d", len(r.text), maxText))
	}
	if r.action, r.show, r.monitors, err = parseAction(s.Action); err != nil {
		return setting.At("action", err)
	}
	r.warnFor = cmp.Or(s.WarnFor, ps.WarnFor).Or(30 * time.Minute)
	if r.to, err = compileTarget(s.To, r.action); err != nil {
		return setting.At("to", err)
	}
	if err := p.categories(r, s, v); err != nil {
		return err
	}
	if err := p.referFailures(r, s, ps, v); err != nil {
		return err
	}
	if err := p.host(s); err != nil {
		return err
	}
	if err := r.compile(s); err != nil {
		return err
	}
	if err := p.compileSent(r, s); err != nil {
		return err
	}
	switch s.Conversation {
	case "", "close":
	case "replace":
		r.replace = true
	default:
		return setting.At("conversation", fmt.Errorf("%q is neither close nor replace", s.Conversation))
	}
	if !r.found {
		p.always.add(len(p.rules))
	}
	if r.monitors {
		p.monitors.add(len(p.rules))
	}
	if r.varies {
		p.varies = append(p.varies, len(p.rules))
	}
	p.rules = append(p.rules, r)
	return nil
}

// parseAction reads the action of a rule. Servers treat monitor as pass, blur as a block that
// shows something else, and placeholder as a warning.
func parseAction(s string) (a filter.Action, show filter.Show, monitors bool, err error) {
	switch s {
	case "monitor":
		return filter.Pass, filter.Nothing, true, nil
	case "blur":
		return filter.Block, filter.Blurred, false, nil
	case "placeholder":
		return filter.Warn, filter.Placeholder, false, nil
	}
	for _, a := range []filter.Action{filter.Allow, filter.Warn, filter.Block, filter.Redirect} {
		if s == a.String() {
			return a, filter.Nothing, false, nil
		}
	}
	return 0, filter.Nothing, false, fmt.Errorf("%.80q is not one of allow, monitor, warn, block and redirect, or blur and placeholder for pictures", s)
}

// threshold is the limit that over says for scored categories, 0 without one.
func threshold(over *int) (int, error) {
	switch {
	case over == nil:
		return 0, nil
	case *over < 0:
		return 0, setting.At("over", fmt.Errorf("%d is below 0: write the highest score that may pass, such as 50", *over))
	}
	return *over, nil
}

// categories compiles category, over and unless.
func (p *policy) categories(r *rule, s *Rule, v *vocabulary) error {
	var err error
	if r.over, err = threshold(s.Over); err != nil {
		return err
	}
	scored := false
	signatures, err := s.signatures()
	if err != nil {
		return err
	}
	services, err := v.services(s.Service)
	if err != nil {
		return err
	}
	named := slices.Concat(s.Category, services, signatures)
	for i, name := range named {
		es, err := v.categoriesNamed(name, s.Over != nil)
		switch {
		case err != nil && i >= len(s.Category)+len(services):
			return setting.At("signature", fmt.Errorf("no rule of check signature: %w", err))
		case err != nil:
			return setting.At(fmt.Sprintf("category[%d]", i), err)
		}
		for _, e := range es {
			scored = scored || e.scored
			r.finds |= e.bit()
			r.certificate = r.certificate || e.checkName == "certificate"
			if e.locked {
				r.locked = append(r.locked, e.name)
			}
			p.refer(e, ref{rule: len(p.rules), scored: e.scored})
			p.unloaded.refer(len(p.rules), r, e, false)
		}
	}
	if s.Over != nil && !scored {
		return setting.At("over", errors.New("none of the rule's categories is scored, so the limit has no effect; remove it"))
	}
	r.found = len(named) > 0
	switch {
	case s.Wrapped == nil:
	case !r.found:
		return setting.At("wrapped", errors.New("it says which findings the categories of the rule mean, and the rule has no category; write one or remove it"))
	case *s.Wrapped && r.action == filter.Allow:
		return setting.At("wrapped", errors.New("what an address contains is no reason to let it pass; name its host or its own category"))
	}
	for i, name := range s.Unless {
		es, err := v.find(name)
		if err == nil {
			if es = unscored(es); len(es) == 0 {
				err = fmt.Errorf("%q is scored, and a score without a limit cannot exclude a rule; write an allow rule with over: N before it", name)
			}
		}
		if err != nil {
			return setting.At(fmt.Sprintf("unless[%d]", i), err)
		}
		for _, e := range es {
			r.unless |= e.bit()
			p.refer(e, ref{rule: len(p.rules), unless: true})
			p.unloaded.refer(len(p.rules), r, e, true)
		}
	}
	return nil
}

// refer registers the meaning of a finding, under the category as the check writes it and in
// lower case.
func (p *policy) refer(e entry, r ref) {
	c := category{e.checkName, e.name}
	p.refs[c] = append(p.refs[c], r)
	if low := strings.ToLower(e.name); low != e.name {
		c.name = low
		p.refs[c] = append(p.refs[c], r)
	}
}

// host registers which hosts the rule asks for, and which it leaves alone.
func (p *policy) host(s *Rule) error {
	hosts, err := pattern.CompileHosts(s.Host, "host")
	if err != nil {
		return err
	}
	excepts, err := pattern.CompileHosts(s.Except, "except")
	if err != nil {
		return err
	}
	if _, any := excepts["*"]; any {
		return setting.At("except", errors.New(`"*" is every host, so that the rule would never match; switch it off instead`))
	}
	p.register(p.excepts, excepts)
	if _, any := hosts["*"]; any || hosts == nil {
		p.any.add(len(p.rules))
		return nil
	}
	p.register(p.hosts, hosts)
	return nil
}

// register adds the rule that is being compiled to hosts.
func (p *policy) register(to map[string]*ruleSet, hosts pattern.Hosts) {
	for h := range hosts {
		if to[h] == nil {
			to[h] = new(ruleSet)
		}
		to[h].add(len(p.rules))
	}
}

// ja4Form matches the JA4 fingerprint of a client on TCP.
var ja4Form = regexp.MustCompile(`^t[0-9a-z]{9}_[0-9a-f]{12}_[0-9a-f]{12}$`)

// compile compiles the conditions.
func (r *conditions) compile(s *Rule) (err error) {
	if r.referer, err = pattern.CompileHosts(s.Referer, "referer"); err != nil {
		return err
	}
	if r.when, err = compileSchedule(s.Schedule); err != nil {
		return err
	}
	if r.methods, err = pattern.CompileMethods(s.Method); err != nil {
		return err
	}
	for i, x := range s.Scheme {
		low := strings.ToLower(x)
		if low == "" || strings.Trim(low, "abcdefghijklmnopqrstuvwxyz0123456789+-.") != "" {
			return setting.At(fmt.Sprintf("scheme[%d]", i), fmt.Errorf(`%q is not a scheme; write one without "://", like "http"`, x))
		}
		r.schemes = append(r.schemes, low)
	}
	if r.ports, err = compilePorts(s.Port); err != nil {
		return err
	}
	for i, x := range s.Extension {
		x, err := filter.Extension(x)
		if err != nil {
			return setting.At(fmt.Sprintf("extension[%d]", i), err)
		}
		r.exts = append(r.exts, "."+x)
		r.extTypes = append(r.extTypes, media.TypesOf(x)...)
	}
	for i, t := range s.Type {
		t, err := filter.MediaType(t)
		if err != nil {
			return setting.At(fmt.Sprintf("type[%d]", i), err)
		}
		r.types = append(r.types, strings.TrimSuffix(t, "*"))
	}
	for i, f := range s.JA4 {
		if !ja4Form.MatchString(f) && f != filter.NoHello {
			return setting.At(fmt.Sprintf("ja4[%d]", i), fmt.Errorf(`%q is not a JA4 fingerprint; write it like "t13d1516h2_8daaf6152771_e5627efa2ab1", or "none" for connections without TLS`, f))
		}
	}
	r.ja4 = s.JA4
	for i, words := range s.Search {
		if strings.Contains(words, "{") && !search.IsJoined(words) {
			if r.forms == nil {
				r.forms = search.NewForms()
			}
			if err := r.forms.Add(words); err != nil {
				return setting.At(fmt.Sprintf("search[%d]", i), err)
			}
			continue
		}
		term := search.Phrase(words)
		if term == nil {
			return setting.At(fmt.Sprintf("search[%d]", i), fmt.Errorf("%q has no letter or digit to search for", words))
		}
		r.search = append(r.search, term)
	}
	for i, name := range s.Query {
		t, err := dns.Type(name)
		if err != nil {
			return setting.At(fmt.Sprintf("query[%d]", i), err)
		}
		r.queries = append(r.queries, t)
	}
	if r.urls, err = pattern.CompileAll(s.URL, "url"); err != nil {
		return err
	}
	if r.agents, err = pattern.CompileAll(s.Agent, "agent"); err != nil {
		return err
	}
	for name, text := range s.Header {
		p, err := pattern.Compile(text)
		if err != nil {
			return setting.At("header."+name, err)
		}
		r.headers = append(r.headers, headerPattern{strings.ToLower(name), p})
	}
	slices.SortStableFunc(r.headers, func(a, b headerPattern) int { return strings.Compare(a.name, b.name) })
	if r.full, err = compileFullURLs(s.FullURL); err != nil {
		return err
	}
	others := r.schemes != nil || r.referer != nil || r.agents != nil || r.headers != nil || r.search != nil || r.forms != nil || r.urls != nil
	r.needsRequest = r.methods.Any() || others || r.full.any()
	r.tunnels = !others && r.methods.Has("CONNECT") && (r.methods.Any() || r.full.any())
	r.onlyTunnels = r.methods.Only("CONNECT")
	r.varies = r.when != nil || r.ja4 != nil || r.referer != nil || r.agents != nil || r.headers != nil
	return nil
}

// A vocabulary holds every category that a check can report.
type vocabulary struct {
	checks  []filter.Check
	words   map[string][]entry // keys are "adult" and "phrase/adult", in lower case
	renamed *Decisions         // for quotas
}

type entry struct {
	check     int // -1 for findings of servers, which precede all checks
	checkName string
	name      string // as the check writes it
	scored    bool
	locked    bool
	missing   string // the list that it is of and that is not there yet
}

// bit returns the check as a set, empty for servers.
func (e *entry) bit() uint64 {
	if e.check < 0 {
		return 0
	}
	return 1 << e.check
}

func vocabularyOf(checks []filter.Check) *vocabulary {
	v := &vocabulary{checks: checks, words: map[string][]entry{}}
	put := func(i int, check string, cat filter.Category) {
		name := cat.Name
		e := entry{i, check, name, cat.Scored, cat.Locked, cat.Missing}
		bare := strings.ToLower(name)
		full := strings.ToLower(check) + "/" + bare
		if slices.Contains(v.words[full], e) {
			return
		}
		if check != filter.Service { // a list of somebody's own may have the name of a service
			v.words[bare] = append(v.words[bare], e)
		}
		v.words[full] = append(v.words[full], e)
	}
	add := func(i int, check, name string) { put(i, check, filter.Category{Name: name}) }
	alias := func(word string, i int, check, name string) {
		for _, w := range [...]string{word, strings.ToLower(check) + "/" + word} {
			v.words[w] = append(v.words[w], entry{check: i, checkName: check, name: name})
		}
	}
	addUnread := func(i int, check string) {
		add(i, check, filter.Unread)
		add(i, check, filter.UnreadArchive)
		alias(filter.UnreadOther, i, check, filter.Unread)
		for _, reason := range filter.UnreadReasons {
			add(i, check, reason)
			alias(filter.Unread, i, check, reason)
		}
	}
	addUnread(-1, filter.Content)
	for i, c := range checks {
		for _, cat := range c.Categories() {
			put(i, c.Name(), cat)
		}
		if c.Cost() == filter.Heavy {
			addUnread(i, c.Name())
		}
		add(i, c.Name(), c.Name()+"-error")
	}
	return v
}

// An awaitingCheck works with fetched data. Rules may name a category that it will report
// once it has a version that knows it.
type awaitingCheck interface{ Awaits(category string) bool }

func (v *vocabulary) find(name string) ([]entry, error) {
	es := v.words[strings.ToLower(name)]
	if len(es) == 0 {
		for i, c := range v.checks {
			bare, own := strings.CutPrefix(strings.ToLower(name), strings.ToLower(c.Name())+"/")
			if a, ok := c.(awaitingCheck); own && ok && a.Awaits(bare) {
				return []entry{{check: i, checkName: c.Name(), name: bare, missing: c.Categories()[0].Missing}}, nil
			}
		}
		var known []string
		for w := range v.words {
			known = append(known, w)
		}
		near := nearest(strings.ToLower(name), known)
		if bare, own := strings.CutPrefix(strings.ToLower(name), "category/"); own && setting.Distance(bare, strings.TrimPrefix(near, "category/")) > len(bare)/2 {
			return nil, fmt.Errorf("no check reports the category %q; is a list with it named under checks: category: lists?", name)
		}
		return nil, fmt.Errorf("no check reports the category %q; did you mean %q?", name, near)
	}
	return es, nil
}

// services returns the categories of services.
func (v *vocabulary) services(names []string) (categories []string, err error) {
	for i, name := range names {
		category := filter.Service + "/" + strings.ToLower(name)
		if v.words[category] == nil {
			known := func(yield func(string) bool) {
				for w := range v.words {
					if id, own := strings.CutPrefix(w, filter.Service+"/"); own && !yield(id) {
						return
					}
				}
			}
			return nil, setting.At(fmt.Sprintf("service[%d]", i), fmt.Errorf("there is no service %q; docs/services.md has their names%s", name, setting.DidYouMean(name, known)))
		}
		categories = append(categories, category)
	}
	return categories, nil
}

// categoriesNamed finds the categories called name; with a limit only scored ones.
func (v *vocabulary) categoriesNamed(name string, limit bool) ([]entry, error) {
	es, err := v.find(name)
	if err != nil || limit {
		return es, err
	}
	if es = unscored(es); len(es) == 0 {
		return nil, fmt.Errorf("%q is scored, and a score needs a limit; add over: N", name)
	}
	return es, nil
}

func unscored(es []entry) []entry {
	return slices.DeleteFunc(slices.Clone(es), func(e entry) bool { return e.scored })
}

var places = []string{"url", "host", "category", "policy", "client", "login", "id"}

func compileTarget(to string, action filter.Action) (target, error) {
	switch {
	case action != filter.Redirect && to != "":
		return target{}, fmt.Errorf("only a redirect has a target; this rule's action is %v", action)
	case action != filter.Redirect:
		return target{}, nil
	case to == "":
		return target{}, errors.New("a redirect needs a target URL")
	}
	filled := to
	for _, p := range places {
		filled = strings.ReplaceAll(filled, "{"+p+"}", "x")
	}
	if i := strings.IndexAny(filled, "{}"); i >= 0 {
		return target{}, fmt.Errorf("%q holds a place that is none of {%s}", to, strings.Join(places, "}, {"))
	}
	u, err := url.Parse(filled)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return target{}, fmt.Errorf(`%q is not a URL to send a browser to; write it like "https://intranet.example/blocked?url={url}"`, to)
	}
	if authority, _, _ := strings.Cut(strings.SplitN(to, "://", 2)[1], "/"); strings.Contains(authority, "{") {
		return target{}, fmt.Errorf("%q: the host may not depend on the request", to)
	}
	return target{to, strings.ToLower(u.Hostname())}, nil
}

// referFailures registers the meaning of failures for a rule, the next one of the policy.
func (p *policy) referFailures(r *rule, s *Rule, ps *Policy, v *vocabulary) error {
	pass, err := ps.OnError.passes(false)
	if err != nil {
		return err // compilePolicy has reported it with its key
	}
	if pass, err = s.OnError.passes(pass); err != nil || pass || r.monitors {
		return err
	}
	checks := r.finds
	if r.action < filter.Warn {
		checks = r.unless
	}
	for b := checks; b != 0; b &= b - 1 {
		i := bits.TrailingZeros64(b)
		name := v.checks[i].Name()
		_, away := v.checks[i].(filter.Changing)
		of := category{name, name + "-error"}
		p.failures[of] = append(p.failures[of], failureRef{rule: len(p.rules), unless: r.action < filter.Warn, away: away})
	}
	return nil
}
