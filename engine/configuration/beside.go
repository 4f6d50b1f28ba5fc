package configuration

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"shuultuur/admin/account"
	"shuultuur/admin/remote"
	"shuultuur/admin/web"
	"shuultuur/event"
	"shuultuur/event/record"
	"shuultuur/identity"
	"shuultuur/lib/certificate"
	"shuultuur/lib/datadir"
	"shuultuur/lib/setting"
	"shuultuur/list"
	"shuultuur/list/collection"
	"shuultuur/list/source"
)

// ProxyURL returns the proxy address, on this machine, of the gateway with these settings.
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

// Fetcher returns the client that fetches lists: like the proxy, through its parent and not
// from private networks.
func (s *Settings) Fetcher() *http.Client {
	var parent *url.URL
	if s.Proxy.Upstream.Parent != "" {
		if u, err := url.Parse(s.Proxy.Upstream.Parent); err == nil { // validated when the proxy was made
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

// ReadRules returns the signature rules that the settings in file fetch, and the store they
// are kept in.
func ReadRules(file string) (*source.Store, source.Items, error) {
	s, err := Read(file)
	if err != nil {
		return nil, nil, err
	}
	items, err := s.Checks.Fetches()
	if err != nil {
		return nil, nil, s.Text.Mistakes(setting.At("checks", err))
	}
	return source.In(string(s.Data), s.Fetcher()), items, nil
}

// ReadLists returns the lists of the settings in file.
func ReadLists(file string) (*collection.View, error) {
	s, err := Read(file)
	if err != nil {
		return nil, err
	}
	v, err := collection.Look(s.Lists, string(s.Data), s.Fetcher())
	if err != nil {
		return nil, s.Text.Mistakes(setting.At("lists", err))
	}
	return v, nil
}

// OpenLists opens the lists of the settings in file as they would be in force, beside a running
// gateway and without writing in its data folder.
func OpenLists(ctx context.Context, file string) (map[string]*list.File, error) {
	s, err := Read(file)
	if err != nil {
		return nil, err
	}
	c, err := collection.Try(ctx, s.Lists, string(s.Data), nil, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, s.Text.Mistakes(setting.At("lists", err))
	}
	return c.Lists, nil
}

// ClientNames returns a function for the names of devices, by the settings in file, beside a
// running gateway. It does not query the DNS.
func ClientNames(file string) (func(context.Context, []netip.Addr) map[netip.Addr]string, error) {
	s, err := Read(file)
	if err != nil {
		return nil, err
	}
	cfg := s.Identity
	cfg.Basic, cfg.Groups = nil, nil
	id, err := identity.New(cfg, identity.Parts{})
	if err != nil {
		return nil, s.Text.Mistakes(setting.At("identity", err))
	}
	n, err := identity.NewNames(s.ClientNames(), id)
	if err != nil {
		return nil, s.Text.Mistakes(setting.At("identity.names", err))
	}
	return func(ctx context.Context, addrs []netip.Addr) map[netip.Addr]string { return n.Of(ctx, addrs, nil) }, nil
}

// Client returns a client of the gateway that runs with the settings in file.
func Client(file string) (c remote.Client, err error) {
	s, err := Read(file)
	if err != nil {
		return c, err
	}
	return s.Client(), nil
}

// Client returns a client of the gateway that runs with these settings.
func (s *Settings) Client() remote.Client {
	c := remote.Client{URL: s.AdminURL(), Token: s.Listen.Token}
	if key := account.LocalKey(string(s.Data)); key != "" && c.Token == "" {
		c.Token = key
	}
	if t := s.Listen.TLS; t != nil && s.AdminTLS() {
		c.Cert = string(t.Cert)
	} else if s.ACME != nil && s.AdminTLS() {
		c.Cert = certificate.File(string(s.Data))
	}
	return c
}

// HolderOf returns the process that uses the data folder of the settings in file.
func HolderOf(file string) (h datadir.Holder, err error) {
	s, err := Read(file)
	if err != nil {
		return h, err
	}
	return datadir.HolderOf(string(s.Data))
}

// Events opens the events of the settings in file, for queries beside a running gateway.
func Events(file string) (event.Reader, func() error, error) {
	s, err := Read(file)
	if err != nil {
		return nil, nil, err
	}
	r, done, err := record.Look(s.Events, string(s.Data))
	if err != nil {
		return nil, nil, s.Text.Mistakes(setting.At("events", err))
	}
	if s.Events.Every <= time.Second || s.AdminURL() == "" {
		return r, done, nil
	}
	return event.Fresh(r, s.haveWritten), done, nil
}

// askTime is how long a question to the record waits for a gateway that has not written all yet.
const askTime = 2 * time.Second

// haveWritten asks the gateway for its newest event, so that it writes those that wait. If it does not run,
// or does not answer whoever asks, the record is as it is.
func (s *Settings) haveWritten(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	for range s.Client().Events(ctx, "", 1, false) {
		return
	}
}

// SquidSocket returns the socket where a gateway with the settings in file answers Squid's
// helpers, "" if there is none.
func SquidSocket(file string) (string, error) {
	s, err := Read(file)
	if err != nil {
		return "", err
	}
	return string(s.Listen.Squid), nil
}

// Versions returns the history of the settings.
func (s *Settings) Versions() web.Versions {
	return web.Versions{Dir: filepath.Join(string(s.Data), "versions")}
}
