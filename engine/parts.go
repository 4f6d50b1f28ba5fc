package engine

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"shuultuur/admin/accounts"
	"shuultuur/admin/alert"
	"shuultuur/admin/mail"
	"shuultuur/admin/report"
	"shuultuur/cache"
	"shuultuur/check"
	"shuultuur/engine/configuration"
	"shuultuur/event/record"
	"shuultuur/filter"
	"shuultuur/fleet/bundle"
	"shuultuur/helper"
	"shuultuur/icap"
	"shuultuur/identity"
	"shuultuur/identity/accounting"
	"shuultuur/identity/session"
	"shuultuur/intercept"
	"shuultuur/lib/certificate"
	"shuultuur/lib/datadir"
	"shuultuur/lib/problem"
	"shuultuur/lib/release"
	"shuultuur/lib/release/notice"
	"shuultuur/lib/setting"
	"shuultuur/list"
	"shuultuur/list/collection"
	"shuultuur/list/files"
	"shuultuur/nameserver"
	"shuultuur/policy"
	"shuultuur/policy/decision"
	"shuultuur/policy/pause"
	"shuultuur/portal"
	"shuultuur/proxy"
	"shuultuur/proxy/page"
	"shuultuur/resolver"
	"shuultuur/resolver/forward"
	"shuultuur/state"
	"shuultuur/vote/booth"
	"shuultuur/zone/authority"
)

// An Engine is everything built from the settings and the files they name. It never changes.
type Engine struct {
	Settings *configuration.Settings
	settingsReading

	Data      *datadir.Folder
	State     state.Store
	Pauses    *pause.Keeper
	Decisions *decision.Keeper
	Bundles   *bundle.Member // what it takes and offers as a member of a fleet
	Votes     *booth.Booth
	Events    *record.Record
	Lists     *collection.Collection
	Checks    *check.Set
	Sessions  *session.Table
	Identity  *identity.Identity
	Clients   *identity.Names
	Devices   *identity.Devices
	alertParts
	Policies    *Policies
	Pages       *page.Set
	Ordered     *certificate.Keeper
	Authority   *intercept.Authority // makes certificates of the gateway's own pages; nil if they have another or need none
	Certificate *tls.Config
	Intercept   *proxy.Interception
	Stored      *cache.Cache
	Forward     *forward.Forwarder
	Cache       *resolver.Store
	Resolver    *resolver.Resolver
	Zones       *authority.Authority
	Names       *nameserver.Server
	entrances
}

// alertParts sends alerts and reports.
type alertParts struct {
	Mail    *mail.Sender
	Alerts  *alert.WatchSet
	Reports *report.Sending
	Updates *notice.Watch
}

// entrances are the servers that receive transactions, except the name server.
type entrances struct {
	Access     *accounts.Rules
	Proxy      *proxy.Proxy
	ICAP       *icap.Server
	Helpers    *helper.Server
	Accounting *accounting.Server
	Portal     *portal.Pages
	Welcome    *portal.Server
	Servers    *Servers
}

// A settingsReading describes one reading of the settings.
type settingsReading struct {
	basis    map[string]basis  // of each part, its basis
	Seen     map[string]string // stamp of each file that a part was built from
	Restart  []string          // changed keys that require a restart
	Revision string            // digest of everything
	Built    time.Time
}

// parts is the table of all parts. A part may use those in earlier rows.
func parts() []part {
	return append([]part{
		{name: "data", key: "data", kind: problem.Damaged, from: func(s *configuration.Settings) any { return s.Data }, fixed: func(s *configuration.Settings) any { return s.Data },
			slot: newSlot(func(e *Engine) **datadir.Folder { return &e.Data }, openData)},
		{name: "state", key: "state", kind: problem.Memory, above: []string{"data"}, from: func(s *configuration.Settings) any { return s.State }, fixed: func(s *configuration.Settings) any { return s.State },
			rereads: func(_ context.Context, b *builder) error { return b.Settings.State.Check() },
			slot:    newSlot(func(e *Engine) *state.Store { return &e.State }, openState)},
		{name: "pauses", key: "state", above: []string{"state"}, from: func(*configuration.Settings) any { return "of instructions" },
			slot: newSlot(func(e *Engine) **pause.Keeper { return &e.Pauses }, newPauses)},
		{name: "decisions", key: "state", kind: problem.Clock, above: []string{"state"}, from: func(*configuration.Settings) any { return "of instructions" },
			slot: newSlot(func(e *Engine) **decision.Keeper { return &e.Decisions }, newDecisions)},
		{name: "fleet", key: "fleet", kind: problem.Fleet, above: []string{"state"}, from: func(s *configuration.Settings) any { return s.Fleet },
			slot: newSlot(func(e *Engine) **bundle.Member { return &e.Bundles }, newMember)},
		{name: "events", key: "events", above: []string{"data"}, from: func(s *configuration.Settings) any { return s.Events }, fixed: func(s *configuration.Settings) any { return s.Events }, rereads: tryRecord,
			slot: newSlot(func(e *Engine) **record.Record { return &e.Events }, openRecord)},
		{name: "lists", key: "lists", above: []string{"data"}, from: func(s *configuration.Settings) any { return &s.Lists }, keeps: true,
			slot: newSlot(func(e *Engine) **collection.Collection { return &e.Lists }, openLists)},
		{name: "checks", key: "checks", kind: problem.Checks, above: []string{"data", "state", "lists"}, from: func(s *configuration.Settings) any { return s.Checks },
			slot: newSlot(func(e *Engine) **check.Set { return &e.Checks }, newChecks)},
		{name: "sessions", key: "state", kind: problem.Clock, above: []string{"state"}, from: func(*configuration.Settings) any { return "of instructions" },
			slot: newSlot(func(e *Engine) **session.Table { return &e.Sessions }, newSessions)},
		{name: "identity", key: "identity", above: []string{"data", "sessions"}, from: func(s *configuration.Settings) any {
			users, groups := othersName(s)
			return []any{s.Identity, s.PortalPlace().URL, users, groups}
		},
			slot: newSlot(func(e *Engine) **identity.Identity { return &e.Identity }, newIdentity)},
		{name: "client names", key: "identity.names", kind: problem.Devices, above: []string{"identity"}, from: func(s *configuration.Settings) any { return s.ClientNames() }, others: true,
			slot: newSlot(func(e *Engine) **identity.Names { return &e.Clients }, newClientNames)},
		{name: "devices", key: "identity.names", above: []string{"sessions"}, from: func(s *configuration.Settings) any { return []any{s.Identity.Names.Leases} }, others: true,
			slot: newSlot(func(e *Engine) **identity.Devices { return &e.Devices }, newDevices)},
		{name: "mail", key: "mail", from: func(s *configuration.Settings) any { return s.Mail },
			slot: newSlot(func(e *Engine) **mail.Sender { return &e.Mail }, newMail)},
		{name: "updates", key: "updates", from: func(s *configuration.Settings) any {
			if s.Updates == "" {
				return nil
			}
			return []any{s.Updates, s.Proxy.Upstream}
		}, slot: newSlot(func(e *Engine) **notice.Watch { return &e.Updates }, newUpdates)},
		{name: "alerts", key: "alerts", above: []string{"data", "checks", "mail"}, from: func(s *configuration.Settings) any { return s.Alerts },
			slot: newSlot(func(e *Engine) **alert.WatchSet { return &e.Alerts }, newAlerts)},
		{name: "policies", key: "policies", above: []string{"data", "state", "pauses", "decisions", "lists", "checks", "identity", "alerts"}, from: func(s *configuration.Settings) any { return []any{s.Policies, s.Intercept != nil, sinkholeOf(s)} },
			slot: newSlot(func(e *Engine) **Policies { return &e.Policies }, newPolicies)},
		{name: "reports", key: "reports", kind: problem.Messages, above: []string{"data", "mail"}, from: func(s *configuration.Settings) any { return s.Reports },
			slot: newSlot(func(e *Engine) **report.Sending { return &e.Reports }, newReports)},
		{name: "pages", key: "pages", from: pagesOf,
			without: builtInPages, slot: newSlot(func(e *Engine) **page.Set { return &e.Pages }, newPages)},
		{name: "acme", key: "acme", kind: problem.Certificate, above: []string{"data"}, from: acmeOf,
			slot: newSlot(func(e *Engine) **certificate.Keeper { return &e.Ordered }, newOrdered)},
		{name: "own certificates", key: "intercept.root", from: ownRootOf, slot: newSlot(func(e *Engine) **intercept.Authority { return &e.Authority }, newAuthorityOfRoot)},
		{name: "certificate", key: "listen.tls", above: []string{"acme", "own certificates"}, from: certificateOf,
			without: noCertificate, slot: newSlot(func(e *Engine) **tls.Config { return &e.Certificate }, newCertificate)},
		{name: "votes", key: "votes", above: []string{"data", "state", "decisions"}, from: votesOf, fixed: votesOf,
			rereads: func(_ context.Context, b *builder) error { return b.Settings.Votes.Check() },
			slot:    newSlot(func(e *Engine) **booth.Booth { return &e.Votes }, openVotes)},
		{name: "intercept", key: "intercept", kind: problem.Certificate, above: []string{"state", "policies"}, from: func(s *configuration.Settings) any { return s.Intercept },
			slot: newSlot(func(e *Engine) **proxy.Interception { return &e.Intercept }, newInterception)},
		{name: "cache", key: "cache", kind: problem.Fleet, above: []string{"data"}, from: func(s *configuration.Settings) any { return s.Cache }, fixed: func(s *configuration.Settings) any { return s.Cache.Fixed() },
			slot: newSlot(func(e *Engine) **cache.Cache { return &e.Stored }, newStored)},
		{name: "proxy", key: "proxy", kind: problem.Bodies, from: func(s *configuration.Settings) any { return s.Proxy }, fixed: func(s *configuration.Settings) any { return s.Proxy },
			slot: newSlot(func(e *Engine) **proxy.Proxy { return &e.Proxy }, newProxy)},
		{name: "icap", key: "icap", above: []string{"proxy"}, from: icapOf, fixed: func(s *configuration.Settings) any { return s.ICAP },
			slot: newSlot(func(e *Engine) **icap.Server { return &e.ICAP }, newICAP)},
		{name: "helpers", key: "listen.squid", above: []string{"proxy"}, from: squidOf, fixed: squidOf,
			slot: newSlot(func(e *Engine) **helper.Server { return &e.Helpers }, newHelpers)},
		{name: "access", key: "access", above: []string{"data"}, from: func(s *configuration.Settings) any { return s.Access },
			slot: newSlot(func(e *Engine) **accounts.Rules { return &e.Access }, newAccess)},
		{name: "portal", key: "portal", above: []string{"data"}, from: portalOf,
			slot: newSlot(func(e *Engine) **portal.Pages { return &e.Portal }, newPortal)},
		{name: "portal server", key: "listen.portal", from: portalDoorsOf,
			slot: newSlot(func(e *Engine) **portal.Server { return &e.Welcome }, newPortalServer)},
		{name: "accounting", key: "identity.accounting", above: []string{"sessions"}, from: accountingOf, fixed: accountingOf,
			slot: newSlot(func(e *Engine) **accounting.Server { return &e.Accounting }, newAccounting)},
	}, append(nameParts(),
		part{name: "servers", key: "listen", from: addressesOf, fixed: addressesOf, listens: doorsOf,
			slot: newSlot(func(e *Engine) **Servers { return &e.Servers }, newServers)},
	)...)
}

func openState(_ context.Context, b *builder) (state.Store, error) {
	cfg := b.Settings.State
	if !b.trial() {
		return state.Open(cfg, string(b.Settings.Data), b.log)
	}
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	cfg.File, cfg.Redis = "", nil // only for a running gateway
	return state.Open(cfg, "", b.log)
}

func newPauses(_ context.Context, b *builder) (*pause.Keeper, error) {
	return pause.New(b.State, b.log), nil
}

func openLists(ctx context.Context, b *builder) (*collection.Collection, error) {
	var previous *collection.Collection
	if b.old != nil {
		previous = b.old.Lists
	}
	var c *collection.Collection
	var err error
	if b.trial() {
		c, err = collection.Try(ctx, b.Settings.Lists, string(b.Settings.Data), b.alter, b.log)
	} else {
		c, err = collection.Open(ctx, b.Settings.Lists, string(b.Settings.Data), previous, b.log)
	}
	if err != nil {
		return nil, err
	}
	b.reads(c.Files()...)
	return c, nil
}

func newChecks(_ context.Context, b *builder) (*check.Set, error) {
	parts := check.Parts{Lists: b.Lists.Lists, Missing: b.Lists.Missing, Dir: b.Settings.Dir, Data: string(b.Settings.Data), Now: time.Now, Key: b.Data.Key, Trial: b.trial()}
	var previous, same *check.Set
	if b.old != nil {
		previous, same = b.old.Checks, b.old.Checks
	} else if b.base != nil {
		same = b.base.Checks
	}
	if !b.trial() {
		parts.Memory, parts.Gallery = b.State, b.host.Pictures
	}
	set, err := check.New(b.Settings.Checks, parts, previous, same, b.stamp)
	if err != nil {
		return nil, err
	}
	b.reads(set.Files...)
	if set.Signature != nil && !b.trial() && (previous == nil || set.Signature != previous.Signature) {
		for _, why := range set.Signature.Refused() {
			b.log.Warn("signature rule refused", "error", why)
		}
	}
	return set, nil
}

func newSessions(_ context.Context, b *builder) (*session.Table, error) {
	return session.New(b.State, b.log), nil
}

// newAccounting makes the server for RADIUS accounting.
func newAccounting(_ context.Context, b *builder) (*accounting.Server, error) {
	s, err := accounting.New(b.Settings.Identity.Accounting, b.Settings.Listen.RADIUS, b.Sessions, b.log)
	return s, err
}

// accountingOf returns the settings of RADIUS accounting, nil if it is not configured.
func accountingOf(s *configuration.Settings) any {
	if len(s.Listen.RADIUS) == 0 && s.Identity.Accounting == nil {
		return nil
	}
	return []any{s.Listen.RADIUS, s.Identity.Accounting}
}

// othersName reports whether anyone besides the settings names users and their groups.
func othersName(s *configuration.Settings) (users, groups bool) {
	groups = len(s.Listen.ICAP)+len(s.Listen.ICAPS) > 0
	return groups || s.Listen.Squid != "" || s.Listen.Token != "", groups
}

func newIdentity(_ context.Context, b *builder) (*identity.Identity, error) {
	if b.Settings.Identity.SignIn != nil && len(b.Settings.Listen.Portal)+len(b.Settings.Listen.PortalTLS) == 0 {
		return nil, setting.At("sign-in", errors.New("the page to sign in on has no address: name one under listen: portal or portal-tls"))
	}
	parts := identity.Parts{Sessions: b.Sessions, Key: b.Data.Key, Portal: b.Settings.PortalPlace().URL}
	parts.Others, parts.Groups = othersName(b.Settings)
	if b.old != nil {
		parts.Previous = b.old.Identity
	}
	if !b.trial() {
		parts.Tickets = filepath.Join(b.Data.Dir, "used-tickets")
		parts.Answers = filepath.Join(b.Data.Dir, "directory-answers.json")
	}
	return identity.New(b.Settings.Identity, parts)
}

// newDevices watches which devices have the addresses of sessions.
func newDevices(_ context.Context, b *builder) (*identity.Devices, error) {
	if b.trial() {
		return nil, nil
	}
	return identity.WatchDevices(b.Settings.Identity.Names.Leases, b.Sessions, b.log), nil
}

func newClientNames(_ context.Context, b *builder) (*identity.Names, error) {
	return identity.NewNames(b.Settings.ClientNames(), b.Identity)
}

// Policies is the deciding engine, and what is odd in the lists that its rules name.
type Policies struct {
	*policy.Engine
	odd []list.Problem
	// numbers in rules for which no signature rule exists
	awaited []string
}

func newPolicies(_ context.Context, b *builder) (*Policies, error) {
	if err := b.checkNames(); err != nil {
		return nil, err
	}
	p := &Policies{}
	cfg, err := b.Settings.Policies.Expand(p.readValues(b))
	if err != nil {
		return nil, err
	}
	parts := policy.Parts{Key: b.Data.Key, Revision: b.sum(b.now, setting.Digest(b.now.from(b.Settings)), b.read), Pauses: &b.Pauses.Pauses, Decisions: &b.Decisions.Decisions, Metrics: policy.NewMetrics(), Log: b.log}
	if b.Alerts != nil {
		parts.Watch = b.Alerts.Rules()
	}
	if b.old != nil && b.old.Policies != nil {
		parts.Metrics = b.old.Policies.Metrics()
	}
	if !b.trial() {
		parts.Memory, parts.Counter = b.State, b.State
		if b.Settings.Data != "" {
			parts.Samples = filepath.Join(string(b.Settings.Data), "samples")
		}
		if b.SharesState() {
			if parts.Revision, err = b.common(); err != nil {
				return nil, err
			}
		}
	}
	p.await(b)
	p.Engine, err = policy.New(cfg, b.Checks.Checks, parts)
	return p, err
}

// await notes which signature rules the policies name but do not exist.
func (p *Policies) await(b *builder) {
	if b.Checks.Signature == nil {
		return
	}
	for _, c := range b.Settings.Policies {
		for _, r := range c.Rules {
			if r.Off {
				continue
			}
			for _, sid := range r.Signature {
				if !b.Checks.Signature.HasRule(sid) {
					p.awaited = append(p.awaited, fmt.Sprintf("policy %s: rule %s names signature rule %d, which does not exist; the condition can hold once a fetched version has it", c.Name, r.Name, sid))
				}
			}
		}
	}
}

// checkNames finds names in policies that other settings do not define.
func (b *builder) checkNames() error {
	var errs []error
	for i, p := range b.Settings.Policies {
		at := func(key string, err error) { errs = append(errs, setting.At(fmt.Sprintf("[%d].%s", i, key), err)) }
		if p.Decrypt && b.Settings.Intercept == nil {
			at("decrypt", errors.New("decrypting TLS needs a root certificate; make one with \"shuultuur ca init\" and name it under intercept: root"))
		}
		for j, g := range p.Groups {
			if !b.Identity.HasGroup(g) {
				at(fmt.Sprintf("groups[%d]", j), fmt.Errorf("there is no group %q; name its members under identity: groups%s", g, setting.DidYouMean(g, maps.Keys(b.Settings.Identity.Groups))))
			}
		}
		if sinkholeOf(b.Settings) {
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

// sinkholeOf reports whether refused names can be answered with a sinkhole. Without a name
// server it returns true, because then there are no refused names.
func sinkholeOf(s *configuration.Settings) bool {
	return s.DNS == nil || len(s.DNS.Names.Block.Sinkhole) > 0
}

// Problems returns the number of odd lines in the lists that rules name, and the signature
// rules that are missing.
func (p *Policies) Problems() []problem.Problem {
	all := append(problem.Of(problem.Rules, p.awaited...), problem.Of(problem.Checks, p.Engine.Problems()...)...)
	if n := len(p.odd); n > 0 {
		return append(all, problem.Of(problem.Rules, fmt.Sprintf("lists of extensions, types and searches: %d odd lines; \"shuultuur check\" names them", n))...)
	}
	return all
}

func newMember(_ context.Context, b *builder) (*bundle.Member, error) {
	c := b.Settings.Fleet
	if err := c.Check(); err != nil {
		return nil, err
	}
	dir := bundle.Dir(filepath.Join(b.Data.Dir, bundle.KeptIn))
	if b.trial() {
		return &bundle.Member{Dir: dir}, nil
	}
	return bundle.NewMember(c, dir, bundle.Parts{Program: release.Version(), User: b.host.Bundles, State: b.State, Log: b.log})
}

func newUpdates(_ context.Context, b *builder) (*notice.Watch, error) {
	return notice.New(b.Settings.Updates, b.Settings.Fetcher(), release.Version(), b.log), nil
}

// readValues returns a function that reads a list named in a condition of a rule.
func (p *Policies) readValues(b *builder) func(file, key string) ([]string, error) {
	kinds := map[string]string{"extension": files.Extensions, "type": files.MediaTypes, "search": files.Searches}
	return func(file, key string) ([]string, error) {
		b.reads(file)
		v, err := files.ReadValues(file, kinds[key])
		if err != nil {
			return nil, err
		}
		b.reads(v.Files...)
		p.odd = append(p.odd, v.Problems...)
		return v.Values, nil
	}
}

// pagesOf returns the settings of pages, with the names of the policies that they may name.
func pagesOf(s *configuration.Settings) any {
	var names []string
	for i := range s.Policies {
		names = append(names, s.Policies[i].Name)
	}
	return []any{s.Pages, names}
}

func newPages(_ context.Context, b *builder) (*page.Set, error) {
	whose, err := whoseNetwork(b.Settings)
	if err != nil {
		return nil, err
	}
	p, err := page.NewFor(string(b.Settings.Pages.Templates), whose)
	return p, setting.At("templates", err)
}

func builtInPages(b *builder) error {
	whose, err := whoseNetwork(b.Settings)
	if err == nil {
		b.Pages, err = page.NewFor("", whose)
	}
	return err
}

func whoseNetwork(s *configuration.Settings) (page.Whose, error) {
	c := &s.Pages
	for i, name := range c.Children {
		if !slices.ContainsFunc(s.Policies, func(p policy.Policy) bool { return p.Name == name }) {
			return page.Whose{}, setting.At(fmt.Sprintf("children[%d]", i), fmt.Errorf("there is no policy %q", name))
		}
	}
	return page.Whose{Name: c.Name, Contact: c.Contact, Children: c.Children}, nil
}

// ownRootOf returns the root that signs certificates of the gateway's own pages: listen.tls names none,
// and they are open to other machines. nil if there is none.
func ownRootOf(s *configuration.Settings) any {
	l := &s.Listen
	open := len(l.PortalTLS) > 0 || slices.ContainsFunc(l.Admin, func(a setting.Address) bool { return !a.AddrPort().Addr().IsLoopback() })
	if l.TLS != nil || s.ACME != nil || s.Intercept == nil || s.Intercept.Root == "" || !open {
		return nil
	}
	return []any{s.Intercept.Root, s.Intercept.LeafDays}
}

func newAuthorityOfRoot(_ context.Context, b *builder) (*intercept.Authority, error) {
	return intercept.New(intercept.Config{Root: string(b.Settings.Intercept.Root), LeafDays: b.Settings.Intercept.LeafDays})
}

// certified makes certificates by the network's own root, for the names of the gateway, and for the
// address that a browser has asked.
func certified(a *intercept.Authority, names []string) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		if name := strings.ToLower(hello.ServerName); name != "" && slices.Contains(names, name) {
			return a.Certificate(name)
		}
		at, err := netip.ParseAddrPort(hello.Conn.LocalAddr().String())
		if err != nil {
			return nil, err
		}
		return a.Certificate(at.Addr().WithZone("").Unmap().String())
	}}
}

func newCertificate(_ context.Context, b *builder) (*tls.Config, error) {
	k := b.Settings.Listen.TLS
	if k == nil {
		if b.Ordered == nil {
			return certified(b.Authority, append([]string{b.Settings.Portal.Name}, b.Settings.Access.Names...)), nil
		}
		return orderedTLS(b.Ordered), nil
	}
	c, err := tls.LoadX509KeyPair(string(k.Cert), string(k.Key))
	if err != nil {
		return nil, fmt.Errorf("read the certificate %q with the key %q: %w", k.Cert, k.Key, err)
	}
	return &tls.Config{Certificates: []tls.Certificate{c}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}, nil
}

// noCertificate returns a source of certificates that fails every handshake.
func noCertificate(b *builder) error {
	if b.Settings.Listen.TLS == nil {
		b.Certificate = orderedTLS(b.Ordered)
		return nil
	}
	b.Certificate = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		return nil, errors.New("the certificate at listen.tls cannot be used; /health says why")
	}}
	return nil
}

// newInterception makes the part that decrypts TLS connections; nil if no policy decrypts.
func newInterception(_ context.Context, b *builder) (*proxy.Interception, error) {
	decider := b.Policies
	parts := proxy.InterceptParts{Dial: b.Settings.Proxy.Upstream.DialPublic, Wanted: func(t *filter.Transaction) bool { return decider.Decrypts(t) }}
	if b.old != nil {
		parts.Previous = b.old.Intercept
	}
	if !b.trial() {
		parts.Memory = b.State
	}
	in, err := proxy.NewInterception(*b.Settings.Intercept, parts)
	if err != nil || !slices.ContainsFunc(b.Settings.Policies, func(p policy.Policy) bool { return p.Decrypt }) {
		return nil, err
	}
	return in, nil
}

func newProxy(_ context.Context, b *builder) (*proxy.Proxy, error) {
	cfg := b.Settings.Proxy
	cfg.Exchange.Folder = filepath.Join(string(b.Settings.Data), "downloads")
	if b.trial() {
		return proxy.New(cfg, b.proxyEngine(), nil, b.log)
	}
	return proxy.New(cfg, b.proxyEngine(), b.host.Done, b.log)
}

// newStored makes the cache of responses. When a response arrives, the cache asks the engine in
// use then which changes the policies permit.
func newStored(_ context.Context, b *builder) (*cache.Cache, error) {
	parts := cache.Parts{Data: string(b.Settings.Data), Log: b.log, Trial: b.trial()}
	if b.old != nil {
		parts.Previous = b.old.Stored
	}
	if h := b.host; h != nil {
		parts.Stores = func(t *filter.Transaction) bool {
			e := h.InUse()
			return e != nil && e.Policies.Stores(t)
		}
	}
	return cache.New(*b.Settings.Cache, parts)
}

// origins returns the transport of requests: the proxy's, behind the cache if there is one.
func (e *Engine) origins() proxy.RoundTripper {
	if e.Stored == nil || e.Proxy == nil {
		return nil
	}
	return e.Stored.InFrontOf(e.Proxy.Upstream())
}

// proxyEngine returns the parts with which the proxy decides.
func (e *Engine) proxyEngine() *proxy.Engine {
	p := &proxy.Engine{Decider: e.Policies.Engine, Identify: e.Identity.Identify, Identifier: e.Identity, Accept: e.Policies.Accept, Balance: e.balance,
		Pages: e.Pages, TLS: e.Identity.TLS(e.Certificate), Tickets: e.Identity.HasTickets(), JA4: e.Policies.AsksJA4() || e.Checks.AsksTLS(), Handshakes: e.Checks.AsksTLS(), Tunnels: e.Policies.AsksTunnels(), Intercept: e.Intercept, Origins: e.origins()}
	if e.Votes != nil {
		p.Votes = e.Votes
	}
	if e.Welcome != nil && e.Portal != nil {
		p.Portal = e.Welcome
	}
	return p
}

// balance returns the remainders of a client's quotas in the policy that covers it.
func (e *Engine) balance(ctx context.Context, c *filter.Client, now time.Time) (string, []filter.Balance) {
	return e.Policies.Balance(ctx, "", c, now)
}

// Print writes a summary of the lists and phrases, with every line that needs attention.
func (e *Engine) Print(to io.Writer) {
	w := new(strings.Builder)
	defer func() { fmt.Fprint(to, escaped(w.String())) }()
	e.Lists.Print(w)
	for _, p := range e.Policies.odd {
		fmt.Fprintln(w, p)
	}
	for _, o := range e.Policies.Engine.Unheld(e.Settings.Policies) {
		fmt.Fprintf(w, "%s:%d: %v\n", e.Settings.Text.File, e.line(&filter.Reason{Policy: o.Policy, Rule: o.Later}), o)
	}
	for _, m := range e.Checks.Remarks {
		fmt.Fprintln(w, m)
	}
	if e.Ordered != nil {
		for _, remark := range e.Ordered.Remarks(context.Background(), lookUp) {
			fmt.Fprintln(w, remark)
		}
	}
	if e.Intercept != nil {
		if p := e.Intercept.Authority.Problem(); p != "" {
			fmt.Fprintln(w, p)
		}
	}
	if s := e.Checks.Signature; s != nil {
		for _, m := range s.Mistakes() {
			fmt.Fprintln(w, m)
		}
	}
	if e.Forward != nil {
		for _, p := range e.Forward.Problems() {
			fmt.Fprintln(w, p)
		}
	}
	if e.Resolver != nil {
		for _, p := range e.Resolver.Problems() {
			fmt.Fprintln(w, p)
		}
	}
	for _, p := range e.overlaps() {
		fmt.Fprintln(w, p)
	}
}

// escaped returns lines of text with escapes for bytes that are no UTF-8, and for characters that steer
// a terminal: lists may hold either.
func escaped(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case r == '\n' || unicode.IsPrint(r):
			b.WriteString(s[:n])
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		s = s[n:]
	}
	return b.String()
}

// SharesState reports whether a fleet shares the state.
func (e *Engine) SharesState() bool { return e.Settings.State.Redis != nil }

// verdictParts are the settings on which verdicts on bodies depend.
var verdictParts = []string{"lists", "checks", "policies"}

// common returns the revision under which nodes share verdicts: a digest of the settings of
// lists, checks and policies, and of the content of their files. Nodes that decide alike have
// the same revision, whatever the paths and times of their files.
func (b *builder) common() (string, error) {
	h := sha256.New()
	files := b.read
	for _, key := range verdictParts {
		v, err := b.Settings.Text.Value(key)
		if err != nil {
			return "", err // Content has read them
		}
		text, err := json.Marshal(v)
		if err != nil {
			return "", fmt.Errorf("reading the settings under %q: %w", key, err)
		}
		fmt.Fprintf(h, "%s %d\n%s", key, len(text), text)
		files = union(files, b.basis[key].files)
	}
	for _, name := range slices.Sorted(maps.Keys(b.Checks.Locked())) {
		fmt.Fprintf(h, "locked %q %x\n", name, b.Checks.Locked()[name])
		file := string(b.Settings.Checks.Picture.Hashes[name].File) // each node encrypts its own copy
		files = slices.DeleteFunc(slices.Clone(files), func(f string) bool { return f == file })
	}
	// They affect how much of a body checks see, or watch without deciding.
	fmt.Fprintf(h, "read %v %v %v\n", b.Settings.Proxy.Exchange.Inspected, b.Settings.Proxy.Exchange.Documents, b.Settings.Proxy.Exchange.Scripts)
	if b.Alerts != nil {
		fmt.Fprintln(h, setting.Digest(b.Alerts.Rules()))
	}
	sum, err := setting.Content(files)
	if err != nil {
		return "", fmt.Errorf("reading what verdicts depend on: %w", err)
	}
	fmt.Fprintln(h, sum)
	return hex.EncodeToString(h.Sum(nil)[:16]), nil
}
