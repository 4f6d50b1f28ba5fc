package gateway

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"shuultuur/admin"
	"shuultuur/admin/account"
	"shuultuur/cache"
	"shuultuur/check"
	"shuultuur/filter"
	"shuultuur/identity"
	"shuultuur/list"
	"shuultuur/list/collection"
	"shuultuur/list/source"
	"shuultuur/policy"
	"shuultuur/setting"
	"shuultuur/text"
	"shuultuur/zone/authority"
)

// texts are those of the pages in use, in the language for the value of an
// Accept-Language field.
func (g *Gateway) texts(accept string) *text.Texts {
	if g == nil { // settings on trial
		return nil
	}
	if e := g.engine.Load(); e != nil {
		return e.pages.Texts(accept)
	}
	return nil
}

// newAdmin makes what answers on the admin address.
func (b *builder) newAdmin() (*admin.Server, error) {
	access, err := b.g.openAccess(b)
	if err != nil {
		return nil, err
	}
	g := b.g
	parts := admin.Parts{Metrics: g.metrics.handler, Health: g.health, Token: b.settings.Listen.Token,
		Lists:    &admin.Lists{All: g.allLists, Search: g.searchLists, Change: g.changeLists},
		Pause:    &admin.Pause{All: func() []policy.Pause { return g.engine.Load().pauses.At(time.Now()) }, Set: g.pause},
		Root:     g.root,
		Refusals: func() any { return g.engine.Load().proxy.Refusals() },
		Quotas:   g.quotas,
		Access:   access,
		Sessions: &admin.Sessions{All: b.sessions.All, Start: b.sessions.Start, End: b.sessions.End},
		Live:     &g.metrics.live,
		Texts:    g.texts,
		Rulings:  &admin.Rulings{All: func() []policy.Decision { return g.engine.Load().rulings.Sites(time.Now()) }, Set: g.rule, Groups: access.Groups},
		Explain:  g.explain,
		Settings: g.settingsParts(b.settings),
		Setup:    g.setup.Load,
		Clients:  g.clientsParts(),
		System:   g.systemParts(),
		Watching: g.watching(b),
	}
	if b.votes != nil && b.votes.Desk() != nil {
		parts.Votes = &admin.Votes{Desk: b.votes.Desk()}
	}
	parts.Checks = func() *check.Set { return g.engine.Load().checks }
	if b.zones != nil {
		parts.Zones = func() *authority.Authority { return g.engine.Load().zones }
	}
	if b.forward != nil {
		parts.NameServer = g.namesParts()
	}
	if b.stored != nil {
		parts.Cache = g.cacheParts()
	}
	if r := b.events.Reader(); r != nil {
		parts.Events = &admin.Events{Reader: r, Names: g.clientNames}
	}
	for _, n := range b.settings.Listen.Monitors {
		parts.Monitors = append(parts.Monitors, n.Prefix)
	}
	return admin.New(parts), nil
}

// cacheParts are what the admin address shows of the cache in use.
func (g *Gateway) cacheParts() *admin.Cache {
	return &admin.Cache{
		Stats: func() any {
			if c := g.engine.Load().stored; c != nil {
				return c.Stats()
			}
			return cache.Stats{}
		},
		Look: func(url string, fields [][2]string) (any, error) {
			c := g.engine.Load().stored
			if c == nil {
				return nil, errNoCache
			}
			return c.Look(url, fields, time.Now())
		},
		Purge: g.purge,
	}
}

var errNoCache = errors.New("the settings have no cache")

// ProxyURL returns where the gateway with these settings listens for clients of
// the proxy on this machine.
func ProxyURL(file string) (*url.URL, error) {
	s, err := Read(file)
	if err != nil {
		return nil, err
	}
	for _, a := range s.Listen.Proxy {
		at := a.AddrPort()
		if at.Addr().IsUnspecified() {
			at = netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), at.Port())
		}
		return &url.URL{Scheme: "http", Host: at.String()}, nil
	}
	return nil, errors.New("the settings name no address under listen: proxy")
}

func (g *Gateway) allLists() []admin.List {
	e := g.engine.Load()
	var all []admin.List
	for _, r := range e.lists.Reports() {
		all = append(all, admin.List{
			Name: r.Name, Entries: r.Entries, Networks: r.Networks, Exprs: r.Exprs, Rules: r.Rules, Refused: r.Bad,
			Categories: r.Categories, Missing: e.lists.Missing(r.Name),
		})
	}
	return all
}

func (g *Gateway) searchLists(name string) (hits []admin.Hit, err error) {
	found, err := g.engine.Load().lists.Search(name)
	for _, f := range found {
		hits = append(hits, admin.Hit{List: f.List, Found: f.Found})
	}
	return hits, err
}

// changeLists makes changes to lists and takes them into use before it returns.
func (g *Gateway) changeLists(ctx context.Context, changes map[string][]list.Change) error {
	g.changing.Lock()
	defer g.changing.Unlock()
	err := g.engine.Load().lists.Change(ctx, changes, func() error { return g.Reload(context.WithoutCancel(ctx)) })
	var bad *collection.BadChange
	switch {
	case errors.Is(err, collection.ErrNoList):
		return admin.ErrNoList
	case errors.As(err, &bad):
		return &admin.BadChange{Err: bad.Err}
	case err != nil:
		return err
	}
	if err := g.share(changes); err != nil {
		return fmt.Errorf("the lists are changed on this node only: %w", err)
	}
	for name, made := range changes {
		g.log.Info("list changed", "list", name, "entries", len(made))
	}
	return nil
}

// lists are the lists in use, and the client that fetches them.
func (g *Gateway) lists() (*collection.Collection, *http.Client) {
	e := g.engine.Load()
	return e.lists, e.settings.fetcher()
}

// fetcher is the client that lists are fetched with: as the proxy would, by its
// parent and not from private networks.
func (s *Settings) fetcher() *http.Client {
	var parent *url.URL
	if s.Proxy.Upstream.Parent != "" {
		if u, err := url.Parse(s.Proxy.Upstream.Parent); err == nil { // the proxy has checked it
			if u.Port() == "" {
				u.Host = net.JoinHostPort(u.Hostname(), "3128")
			}
			parent = u
		}
	}
	direct := func(host string) bool {
		return slices.ContainsFunc(s.Proxy.Upstream.NoParent, func(no string) bool {
			no = strings.ToLower(strings.TrimPrefix(no, "."))
			return host == no || strings.HasSuffix(host, "."+no)
		})
	}
	return source.NewClient(parent, direct, s.Proxy.Upstream.DialPublic)
}

// ReadLists reads which lists the settings in file have.
func ReadLists(file string) (*collection.View, error) {
	s, err := Read(file)
	if err != nil {
		return nil, err
	}
	v, err := collection.Look(s.Lists, string(s.Data), s.fetcher())
	if err != nil {
		return nil, s.text.Mistakes(setting.At("lists", err))
	}
	return v, nil
}

// pause pauses filtering for who (see [policy.Pause]) until a time, or resumes
// it when that is not in the future; for "", it resumes for all. by is the
// address that asked for it.
func (g *Gateway) pause(who string, until time.Time, by netip.Addr) error {
	e, now := g.engine.Load(), time.Now()
	if who = strings.TrimSpace(who); who != "" {
		var err error
		if who, err = e.whom(who); err != nil {
			return err
		}
	}
	said, err := e.pauses.Set(who, until, now, by.String())
	if err != nil {
		return &admin.BadChange{Err: err}
	}
	if said == "" {
		return nil
	}
	g.note(by, "pause", said)
	return nil
}

// whom is an address, network, user or group as rows of settings have it.
func (e *Engine) whom(who string) (string, error) {
	if n := (policy.Network{}); n.UnmarshalText([]byte(who)) == nil {
		if n.IsSingleIP() {
			return n.Addr().String(), nil
		}
		return n.String(), nil
	}
	if !e.identity.Knows(who) {
		return "", &admin.BadChange{Err: fmt.Errorf("%q is neither an address, a network nor a user or group of the settings", who)}
	}
	return who, nil
}

// quotas says what somebody has left.
func (g *Gateway) quotas(ctx context.Context, policy string, addr netip.Addr, user string) admin.Quotas {
	e := g.engine.Load()
	c := filter.Client{Addr: addr, User: user}
	if user == "" {
		if who, err := e.Identify(ctx, addr); err == nil {
			c = who
		}
	}
	q := admin.Quotas{User: c.User}
	q.Policy, q.Quotas = e.policies.Balance(ctx, policy, &c, time.Now())
	return q
}

// clientNames says what devices are called. The DNS is asked where a route of
// the settings says who knows their names.
func (g *Gateway) clientNames(ctx context.Context, addrs []netip.Addr) map[netip.Addr]string {
	e := g.engine.Load()
	var pointer func(context.Context, netip.Addr) string
	if f := e.forward; f != nil {
		pointer = func(ctx context.Context, addr netip.Addr) string {
			if !f.RoutesPointer(addr) {
				return ""
			}
			name, _ := f.Pointer(ctx, addr) // without an answer it has no name
			return name
		}
	}
	return e.clients.Of(ctx, addrs, pointer)
}

// ClientNames returns what says how the devices of the settings in file are
// called, beside a running gateway. The DNS is not asked.
func ClientNames(file string) (func(context.Context, []netip.Addr) map[netip.Addr]string, error) {
	s, err := Read(file)
	if err != nil {
		return nil, err
	}
	cfg := s.Identity
	cfg.Basic, cfg.Groups = nil, nil
	id, err := identity.New(cfg, identity.Parts{})
	if err != nil {
		return nil, s.text.Mistakes(setting.At("identity", err))
	}
	n, err := identity.NewNames(s.clientNames(), id)
	if err != nil {
		return nil, s.text.Mistakes(setting.At("identity.names", err))
	}
	return func(ctx context.Context, addrs []netip.Addr) map[netip.Addr]string { return n.Of(ctx, addrs, nil) }, nil
}

// Client returns what asks the gateway that runs with the settings in file.
func Client(file string) (c admin.Client, err error) {
	s, err := Read(file)
	if err != nil {
		return c, err
	}
	return s.client(), nil
}

func (s *Settings) client() admin.Client {
	c := admin.Client{URL: s.AdminURL(), Token: s.Listen.Token}
	if key := account.LocalKey(string(s.Data)); key != "" && c.Token == "" {
		c.Token = key
	}
	if t := s.Listen.TLS; t != nil && s.adminTLS() {
		c.Cert = string(t.Cert)
	}
	return c
}

// adminTLS returns how the admin address speaks TLS, with the certificate in
// use at each handshake; nil without one.
func (g *Gateway) adminTLS() *tls.Config {
	if e := g.engine.Load(); e == nil || e.certificate == nil {
		return nil
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return g.engine.Load().certificate, nil
	}}
}

// shared says whether what is remembered is a fleet's.
func (e *Engine) shared() bool { return e.settings.State.Redis != nil }

// verdictParts are those that verdicts on bodies depend on.
var verdictParts = []string{"lists", "checks", "policies"}

// common is the revision under which verdicts are shared: a digest of what the
// settings say of lists, checks and policies, and of the content of their
// files. It is the same on every node that decides the same, wherever its
// files are and whenever they were written.
func (b *builder) common() (string, error) {
	h := sha256.New()
	files := b.read
	for _, key := range verdictParts {
		v, err := b.settings.text.Value(key)
		if err != nil {
			return "", err // it was read before
		}
		text, err := json.Marshal(v)
		if err != nil {
			return "", fmt.Errorf("settings under %q: %w", key, err)
		}
		fmt.Fprintf(h, "%s %d\n%s", key, len(text), text)
		files = union(files, b.made[key].files)
	}
	for _, name := range slices.Sorted(maps.Keys(b.checks.Locked())) {
		fmt.Fprintf(h, "locked %q %x\n", name, b.checks.Locked()[name])
		file := string(b.settings.Checks.Picture.Hashes[name].File) // which each node has encrypted for itself
		files = slices.DeleteFunc(slices.Clone(files), func(f string) bool { return f == file })
	}
	sum, err := setting.Content(files)
	if err != nil {
		return "", fmt.Errorf("reading what verdicts depend on: %w", err)
	}
	fmt.Fprintln(h, sum)
	return hex.EncodeToString(h.Sum(nil)[:16]), nil
}

func sorted(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
