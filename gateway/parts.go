package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	"shuultuur/admin"
	"shuultuur/admin/alert"
	"shuultuur/admin/mail"
	"shuultuur/admin/report"
	"shuultuur/cache"
	"shuultuur/check"
	"shuultuur/datadir"
	"shuultuur/event/record"
	"shuultuur/filter"
	"shuultuur/helper"
	"shuultuur/icap"
	"shuultuur/identity"
	"shuultuur/identity/accounting"
	"shuultuur/identity/session"
	"shuultuur/list"
	"shuultuur/list/collection"
	"shuultuur/nameserver"
	"shuultuur/policy"
	"shuultuur/policy/pause"
	"shuultuur/policy/ruling"
	"shuultuur/portal"
	"shuultuur/proxy"
	"shuultuur/proxy/page"
	"shuultuur/resolver"
	"shuultuur/resolver/forward"
	"shuultuur/setting"
	"shuultuur/state"
	"shuultuur/vote/booth"
	"shuultuur/zone/authority"
)

// An Engine is everything built from one reading of the settings and of the
// files they name. It never changes.
type Engine struct {
	settings *Settings
	reading

	data     *datadir.Folder
	state    state.Store
	pauses   *pause.Keeper
	rulings  *ruling.Keeper
	votes    *booth.Booth
	events   *record.Record
	lists    *collection.Collection
	checks   *check.Set
	sessions *session.Table
	identity *identity.Identity
	clients  *identity.Names
	watching
	policies    *policies
	pages       *page.Set
	certificate *tls.Config
	intercept   *proxy.Interception
	stored      *cache.Cache
	forward     *forward.Forwarder
	cache       *resolver.Store
	resolver    *resolver.Resolver
	zones       *authority.Authority
	names       *nameserver.Server
	entrances
}

// watching is who is told of what.
type watching struct {
	mail    *mail.Sender
	alerts  *alert.Watching
	reports *report.Sending
}

// entrances are the servers by which transactions come in, but for names.
type entrances struct {
	access     *admin.Rules
	proxy      *proxy.Proxy
	icap       *icap.Server
	helpers    *helper.Server
	accounting *accounting.Server
	portal     *portal.Pages
	welcome    *portal.Server
	servers    *servers
}

// A reading is what is known about one reading of the settings.
type reading struct {
	made     map[string]made   // of each part, what it was built from
	seen     map[string]string // stamp of each file that a part was built from
	restart  []string          // keys that have changed and that only a restart changes
	revision string            // a digest of it all
	built    time.Time
}

// parts is the table of all parts. A part is built after those above it.
func parts() []part {
	return append([]part{
		{name: "data", key: "data", from: func(s *Settings) any { return s.Data }, fixed: func(s *Settings) any { return s.Data },
			slot: in(func(e *Engine) **datadir.Folder { return &e.data }, openData)},
		{name: "state", key: "state", above: []string{"data"}, from: func(s *Settings) any { return s.State }, fixed: func(s *Settings) any { return s.State },
			slot: in(func(e *Engine) *state.Store { return &e.state }, openState)},
		{name: "pauses", key: "state", above: []string{"state"}, from: func(*Settings) any { return "of instructions" },
			slot: in(func(e *Engine) **pause.Keeper { return &e.pauses }, newPauses)},
		{name: "decisions", key: "state", above: []string{"state"}, from: func(*Settings) any { return "of instructions" },
			slot: in(func(e *Engine) **ruling.Keeper { return &e.rulings }, newRulings)},
		{name: "events", key: "events", above: []string{"data"}, from: func(s *Settings) any { return s.Events }, fixed: func(s *Settings) any { return s.Events },
			slot: in(func(e *Engine) **record.Record { return &e.events }, openRecord)},
		{name: "lists", key: "lists", above: []string{"data"}, from: func(s *Settings) any { return &s.Lists }, keeps: true,
			slot: in(func(e *Engine) **collection.Collection { return &e.lists }, openLists)},
		{name: "checks", key: "checks", above: []string{"data", "state", "lists"}, from: func(s *Settings) any { return s.Checks },
			slot: in(func(e *Engine) **check.Set { return &e.checks }, newChecks)},
		{name: "sessions", key: "state", above: []string{"state"}, from: func(*Settings) any { return "of instructions" },
			slot: in(func(e *Engine) **session.Table { return &e.sessions }, newSessions)},
		{name: "identity", key: "identity", above: []string{"data", "sessions"}, from: func(s *Settings) any { return []any{s.Identity, s.portalPlace().URL} },
			slot: in(func(e *Engine) **identity.Identity { return &e.identity }, newIdentity)},
		{name: "client names", key: "identity.names", above: []string{"identity"}, from: func(s *Settings) any { return s.clientNames() },
			slot: in(func(e *Engine) **identity.Names { return &e.clients }, newClientNames)},
		{name: "mail", key: "mail", from: func(s *Settings) any { return s.Mail },
			slot: in(func(e *Engine) **mail.Sender { return &e.mail }, newMail)},
		{name: "alerts", key: "alerts", above: []string{"data", "checks", "mail"}, from: func(s *Settings) any { return s.Alerts },
			slot: in(func(e *Engine) **alert.Watching { return &e.alerts }, newAlerts)},
		{name: "policies", key: "policies", above: []string{"data", "state", "pauses", "decisions", "lists", "checks", "identity", "alerts"}, from: func(s *Settings) any { return []any{s.Policies, s.Intercept != nil, s.sinkhole()} },
			slot: in(func(e *Engine) **policies { return &e.policies }, newPolicies)},
		{name: "reports", key: "reports", above: []string{"data", "mail"}, from: func(s *Settings) any { return s.Reports },
			slot: in(func(e *Engine) **report.Sending { return &e.reports }, newReports)},
		{name: "pages", key: "pages", from: func(s *Settings) any { return s.Pages },
			without: builtInPages, slot: in(func(e *Engine) **page.Set { return &e.pages }, newPages)},
		{name: "certificate", key: "listen.tls", from: func(s *Settings) any { return s.Listen.TLS },
			without: noCertificate, slot: in(func(e *Engine) **tls.Config { return &e.certificate }, newCertificate)},
		{name: "votes", key: "votes", above: []string{"data", "state", "decisions"}, from: func(s *Settings) any { return s.votes() }, fixed: func(s *Settings) any { return s.votes() },
			slot: in(func(e *Engine) **booth.Booth { return &e.votes }, openVotes)},
		{name: "intercept", key: "intercept", above: []string{"state", "policies"}, from: func(s *Settings) any { return s.Intercept },
			slot: in(func(e *Engine) **proxy.Interception { return &e.intercept }, newInterception)},
		{name: "cache", key: "cache", above: []string{"data"}, from: func(s *Settings) any { return s.Cache }, fixed: func(s *Settings) any { return s.Cache.Fixed() },
			slot: in(func(e *Engine) **cache.Cache { return &e.stored }, newStored)},
		{name: "proxy", key: "proxy", from: func(s *Settings) any { return s.Proxy }, fixed: func(s *Settings) any { return s.Proxy },
			slot: in(func(e *Engine) **proxy.Proxy { return &e.proxy }, newProxy)},
		{name: "icap", key: "icap", above: []string{"proxy"}, from: func(s *Settings) any { return s.icap() }, fixed: func(s *Settings) any { return s.ICAP },
			slot: in(func(e *Engine) **icap.Server { return &e.icap }, newICAP)},
		{name: "helpers", key: "listen.squid", above: []string{"proxy"}, from: func(s *Settings) any { return s.squid() }, fixed: func(s *Settings) any { return s.squid() },
			slot: in(func(e *Engine) **helper.Server { return &e.helpers }, newHelpers)},
		{name: "access", key: "access", above: []string{"data"}, from: func(s *Settings) any { return s.Access },
			slot: in(func(e *Engine) **admin.Rules { return &e.access }, newAccess)},
		{name: "portal", key: "portal", above: []string{"data"}, from: func(s *Settings) any { return s.portal() },
			slot: in(func(e *Engine) **portal.Pages { return &e.portal }, newPortal)},
		{name: "portal server", key: "listen.portal", from: func(s *Settings) any { return s.portalDoors() }, fixed: func(s *Settings) any { return s.portalDoors() },
			slot: in(func(e *Engine) **portal.Server { return &e.welcome }, newPortalServer)},
		{name: "accounting", key: "identity.accounting", above: []string{"sessions"}, from: func(s *Settings) any { return s.accounting() }, fixed: func(s *Settings) any { return s.accounting() },
			slot: in(func(e *Engine) **accounting.Server { return &e.accounting }, newAccounting)},
	}, append(nameParts(),
		part{name: "servers", key: "listen", from: func(s *Settings) any { return s.addresses() }, fixed: func(s *Settings) any { return s.addresses() },
			slot: in(func(e *Engine) **servers { return &e.servers }, newServers)},
	)...)
}

func openState(_ context.Context, b *builder) (state.Store, error) {
	cfg := b.settings.State
	if !b.trial() {
		return state.Open(cfg, string(b.settings.Data), b.log)
	}
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	cfg.File, cfg.Redis = "", nil // those of a running gateway
	return state.Open(cfg, "", b.log)
}

func newPauses(_ context.Context, b *builder) (*pause.Keeper, error) {
	return pause.New(b.state, b.log), nil
}

func openLists(ctx context.Context, b *builder) (*collection.Collection, error) {
	var previous *collection.Collection
	if b.old != nil {
		previous = b.old.lists
	}
	c, err := collection.Open(ctx, b.settings.Lists, string(b.settings.Data), previous, b.log)
	if err != nil {
		return nil, err
	}
	b.reads(c.Files()...)
	return c, nil
}

func newChecks(_ context.Context, b *builder) (*check.Set, error) {
	parts := check.Parts{Lists: b.lists.Lists, Dir: b.settings.dir, Now: time.Now, Key: b.data.Key, Trial: b.trial()}
	if b.old != nil {
		parts.Previous = b.old.checks
	}
	if !b.trial() {
		parts.Memory, parts.Gallery = b.state, &b.g.pictures
	}
	set, err := check.New(b.settings.Checks, parts)
	if err != nil {
		return nil, err
	}
	b.reads(set.Files...)
	return set, nil
}

func newSessions(_ context.Context, b *builder) (*session.Table, error) {
	return session.New(b.state, b.log), nil
}

// newAccounting makes what takes RADIUS accounting.
func newAccounting(_ context.Context, b *builder) (*accounting.Server, error) {
	s, err := accounting.New(b.settings.Identity.Accounting, b.settings.Listen.RADIUS, b.sessions, b.log)
	return s, err
}

// accounting are the settings of RADIUS accounting, nil when nobody asks for it.
func (s *Settings) accounting() any {
	if len(s.Listen.RADIUS) == 0 && s.Identity.Accounting == nil {
		return nil
	}
	return []any{s.Listen.RADIUS, s.Identity.Accounting}
}

func newIdentity(_ context.Context, b *builder) (*identity.Identity, error) {
	if b.settings.Identity.SignIn != nil && len(b.settings.Listen.Portal)+len(b.settings.Listen.PortalTLS) == 0 {
		return nil, setting.At("sign-in", errors.New("the page to sign in on has no address: name one under listen: portal or portal-tls"))
	}
	parts := identity.Parts{Sessions: b.sessions, Key: b.data.Key, Portal: b.settings.portalPlace().URL}
	if b.old != nil {
		parts.Previous = b.old.identity
	}
	return identity.New(b.settings.Identity, parts)
}

func newClientNames(_ context.Context, b *builder) (*identity.Names, error) {
	return identity.NewNames(b.settings.clientNames(), b.identity)
}

// policies are the engine that decides, and what is odd in the lists that its
// rules name.
type policies struct {
	*policy.Engine
	odd []list.Problem
}

func newPolicies(_ context.Context, b *builder) (*policies, error) {
	if err := b.missing(); err != nil {
		return nil, err
	}
	p := &policies{}
	cfg, err := b.settings.Policies.Expand(p.readValues(b))
	if err != nil {
		return nil, err
	}
	parts := policy.Parts{Key: b.data.Key, Revision: b.sum(b.now, "", b.read), Pauses: &b.pauses.Pauses, Decisions: &b.rulings.Decisions, Metrics: policy.NewMetrics(), Log: b.log}
	if b.alerts != nil {
		parts.Watch = b.alerts.Rules()
	}
	if b.old != nil && b.old.policies != nil {
		parts.Metrics = b.old.policies.Metrics()
	}
	if !b.trial() {
		parts.Memory, parts.Counter = b.state, b.state
		if b.shared() {
			if parts.Revision, err = b.common(); err != nil {
				return nil, err
			}
		}
	}
	p.Engine, err = policy.New(cfg, b.checks.Checks, parts)
	return p, err
}

// missing finds what policies need and other settings do not give.
func (b *builder) missing() error {
	var errs []error
	for i, p := range b.settings.Policies {
		at := func(key string, err error) { errs = append(errs, setting.At(fmt.Sprintf("[%d].%s", i, key), err)) }
		if p.Decrypt && b.settings.Intercept == nil {
			at("decrypt", errors.New("to decrypt TLS a root certificate is needed; make one with \"shuultuur ca init\" and name it under intercept: root"))
		}
		for j, g := range p.Groups {
			if !b.identity.HasGroup(g) {
				at(fmt.Sprintf("groups[%d]", j), fmt.Errorf("there is no group %q; name its members under identity: groups", g))
			}
		}
		if b.settings.sinkhole() {
			continue
		}
		noSinkhole := errors.New("there is no sinkhole; name its addresses under dns: block: sinkhole")
		if p.DNS.Answer == filter.Sinkhole {
			at("dns.answer", noSinkhole)
		}
		for j := range p.Rules {
			if p.Rules[j].Answer == filter.Sinkhole {
				at(fmt.Sprintf("rules[%d].answer", j), noSinkhole)
			}
		}
	}
	return errors.Join(errs...)
}

// sinkhole says whether names can be answered with a sinkhole, or no name
// server asks for one.
func (s *Settings) sinkhole() bool { return s.DNS == nil || len(s.DNS.Names.Block.Sinkhole) > 0 }

// Problems count the odd lines in the lists that rules name.
func (p *policies) Problems() []string {
	if n := len(p.odd); n > 0 {
		return []string{fmt.Sprintf("lists of extensions, types and searches: %d odd lines; \"shuultuur check\" names them", n)}
	}
	return nil
}

// readValues reads a list that a condition of a rule names.
func (p *policies) readValues(b *builder) func(file, key string) ([]string, error) {
	kinds := map[string]string{"extension": list.Extensions, "type": list.MediaTypes, "search": list.Searches}
	return func(file, key string) ([]string, error) {
		b.reads(file)
		v, err := list.ReadValues(file, kinds[key])
		if err != nil {
			return nil, err
		}
		b.reads(v.Files...)
		p.odd = append(p.odd, v.Problems...)
		return v.Values, nil
	}
}

func newPages(_ context.Context, b *builder) (*page.Set, error) {
	p, err := page.New(string(b.settings.Pages.Templates), b.settings.Pages.Contact)
	return p, setting.At("templates", err)
}

func builtInPages(b *builder) (err error) {
	b.pages, err = page.New("", b.settings.Pages.Contact)
	return err
}

func newCertificate(_ context.Context, b *builder) (*tls.Config, error) {
	k := b.settings.Listen.TLS
	c, err := tls.LoadX509KeyPair(string(k.Cert), string(k.Key))
	if err != nil {
		return nil, fmt.Errorf("read the certificate %q with the key %q: %w", k.Cert, k.Key, err)
	}
	return &tls.Config{Certificates: []tls.Certificate{c}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}, nil
}

// noCertificate lets every handshake fail.
func noCertificate(b *builder) error {
	b.certificate = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		return nil, errors.New("the certificate at listen.tls cannot be used; /health says why")
	}}
	return nil
}

// newInterception makes what decrypts TLS connections, nil when no policy wants
// that.
func newInterception(_ context.Context, b *builder) (*proxy.Interception, error) {
	decider := b.policies
	parts := proxy.InterceptParts{Dial: b.settings.Proxy.Upstream.DialPublic, Wanted: func(t *filter.Transaction) bool { return decider.Decrypts(t) }}
	if b.old != nil {
		parts.Previous = b.old.intercept
	}
	if !b.trial() {
		parts.Memory = b.state
	}
	in, err := proxy.NewInterception(*b.settings.Intercept, parts)
	if err != nil || !slices.ContainsFunc(b.settings.Policies, func(p policy.Policy) bool { return p.Decrypt }) {
		return nil, err
	}
	return in, nil
}

func newProxy(_ context.Context, b *builder) (*proxy.Proxy, error) {
	cfg := b.settings.Proxy
	cfg.Exchange.Folder = filepath.Join(string(b.settings.Data), "downloads")
	if b.trial() {
		return proxy.New(cfg, b.proxyEngine(), nil, b.log)
	}
	return proxy.New(cfg, b.proxyEngine(), b.g.done, b.log)
}

// newStored makes the cache of responses. What policies permit is asked of the engine that
// serves when a response comes.
func newStored(_ context.Context, b *builder) (*cache.Cache, error) {
	parts := cache.Parts{Data: string(b.settings.Data), Log: b.log, Trial: b.trial()}
	if b.old != nil {
		parts.Previous = b.old.stored
	}
	if g := b.g; g != nil {
		parts.Stores = func(t *filter.Transaction) bool {
			e := g.engine.Load()
			return e != nil && e.policies.Stores(t)
		}
	}
	return cache.New(*b.settings.Cache, parts)
}

// origins is what carries requests: the proxy's transport, behind the cache
// where there is one.
func (e *Engine) origins() proxy.RoundTripper {
	if e.stored == nil || e.proxy == nil {
		return nil
	}
	return e.stored.Over(e.proxy.Upstream())
}

// proxyEngine is what the proxy decides with.
func (e *Engine) proxyEngine() *proxy.Engine {
	p := &proxy.Engine{Decider: e.policies.Engine, Identify: e.identity.Identify, Known: e.identity, Accept: e.policies.Accept, Balance: e.balance,
		Pages: e.pages, TLS: e.identity.TLS(e.certificate), JA4: e.policies.AsksJA4() || e.checks.AsksTLS(), Handshakes: e.checks.AsksTLS(), Intercept: e.intercept, Origins: e.origins()}
	if e.votes != nil {
		p.Votes = e.votes
	}
	return p
}

// balance says what a client has left by the policy that covers it.
func (e *Engine) balance(ctx context.Context, c *filter.Client, now time.Time) (string, []filter.Balance) {
	return e.policies.Balance(ctx, "", c, now)
}

// Print writes what became of the lists and phrases, with every line that is
// worth a look.
func (e *Engine) Print(w io.Writer) {
	e.lists.Print(w)
	for _, p := range e.policies.odd {
		fmt.Fprintln(w, p)
	}
	for _, m := range e.checks.Remarks {
		fmt.Fprintln(w, m)
	}
}
