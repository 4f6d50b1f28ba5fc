package gateway

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"shuultuur/admin/home"
	"shuultuur/admin/lists"
	"shuultuur/admin/setup"
	"shuultuur/admin/web"
	"shuultuur/event"
	"shuultuur/filter"
	"shuultuur/identity"
	"shuultuur/intercept"
	"shuultuur/lib/handover"
	"shuultuur/lib/lan"
	"shuultuur/lib/problem"
	"shuultuur/lib/shares"
)

// A SetupOffer has what the gateway needs to offer the first steps.
type SetupOffer struct {
	Topics []setup.Topic
	// Unchanged reports whether settings are those of the start, and Compose returns the settings for
	// the answers.
	Unchanged func(now []byte) bool
	Compose   func(start []byte, a setup.Answers) []byte
}

// Remark makes the start page show what look finds low on this machine, for the settings in a
// file.
func (g *Gateway) Remark(look func(file string) []home.Remark) {
	all := look(g.file)
	g.remarks.Store(&all)
}

const (
	// leftOpen is how long other machines reach the last step without TLS, if nobody goes home.
	leftOpen = time.Hour
	// setupConnections bounds the connections of the first steps.
	setupConnections = 64
)

// OfferSetup offers the first steps if nobody has an account and the settings are those of the start, and
// returns lines with the links to them, first those for other machines; "" otherwise. Until the steps are over,
// the pages of them alone are open to the network of this machine, without TLS, to whoever has the token.
func (g *Gateway) OfferSetup(ctx context.Context, o SetupOffer) (links string) {
	at, start := g.AdminAddr(), g.engine.Load().Settings.Text.Data()
	a := g.access.Load()
	if at == "" || a == nil || !o.Unchanged(start) {
		return ""
	}
	if some, err := a.book.Any(); err != nil || some {
		return ""
	}
	_, port, err := net.SplitHostPort(at)
	if err != nil {
		return ""
	}
	machine := lan.Machine{}
	var open []net.Listener
	s := &setup.Setup{Token: rand.Text(), Topics: o.Topics}
	for _, own := range machine.Addresses() {
		l, err := handover.Listen(g.sockets.With(ctx), &net.ListenConfig{}, "tcp", net.JoinHostPort(own.Addr.String(), port))
		if err != nil {
			g.log.Warn("the first steps are not open to the network", "address", own.Addr, "error", err)
			continue
		}
		open = append(open, l)
		s.Hosts = append(s.Hosts, l.Addr().String())
	}
	s.Hosts = append(s.Hosts, at)
	ctx, stop := context.WithCancel(ctx)
	s.Ended = stop
	f := &firstSteps{gateway: g, offer: o, start: start, machine: machine}
	s.Machine, s.Free, s.Places, s.First = f.look, f.free, f.places, f.first
	s.Arriving = f.arriving
	s.Write = func(ctx context.Context, a setup.Answers) error {
		if err := f.write(ctx, a); err != nil {
			return err
		}
		time.AfterFunc(leftOpen, stop)
		return nil
	}
	g.setup.Store(s)
	for _, l := range open {
		g.leaving.Go(func() { f.serve(ctx, l) })
	}
	for _, host := range s.Hosts {
		links += "Set it up: " + s.Link(host) + "\n"
	}
	return links
}

// firstSteps does what the pages of the first steps need.
type firstSteps struct {
	gateway *Gateway
	offer   SetupOffer
	start   []byte // the settings
	machine lan.Machine

	mu       sync.Mutex
	internet bool      // guarded by mu
	asked    time.Time // guarded by mu
}

// serve serves the pages of the first steps, and no others, without TLS.
func (f *firstSteps) serve(ctx context.Context, l net.Listener) {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !setup.Serves(r) {
			http.Error(w, "these pages are open on the machine of the gateway alone, and after the first steps at https", http.StatusForbidden)
			return
		}
		f.gateway.engine.Load().Servers.Site().ServeHTTP(w, r)
	})
	if err := web.ServePlain(ctx, shares.Listen(l, setupConnections), h); err != nil {
		f.gateway.log.Error("the first steps are not open to the network any more", "error", err)
	}
}

const (
	maxDevices = 20
	askEvery   = 10 * time.Second
)

// look says what is known of this machine and its network.
func (f *firstSteps) look(ctx context.Context) setup.Machine {
	m := setup.Machine{Addresses: f.machine.Addresses(), Upstreams: f.machine.NameServers(), Port53: f.machine.Holders(53)}
	_, m.Router = f.machine.Router()
	m.Devices = f.devices(ctx, &m)
	if len(m.Addresses) > 0 {
		m.NoRight = errors.Is(portFree(ctx, netip.AddrPortFrom(m.Addresses[0].Addr, 53).String()), fs.ErrPermission)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.asked) > askEvery {
		ctx, stop := context.WithTimeout(ctx, time.Second)
		defer stop()
		_, err := net.DefaultResolver.LookupHost(ctx, "example.com")
		f.internet, f.asked = err == nil, time.Now()
	}
	m.Internet = f.internet
	return m
}

// devices returns the other machines that have asked already, or that this one knows as neighbours.
func (f *firstSteps) devices(ctx context.Context, m *setup.Machine) (all []setup.Device) {
	var addrs []netip.Addr
	add := func(a netip.Addr) {
		own := slices.ContainsFunc(m.Addresses, func(x lan.Address) bool { return x.Addr == a })
		if a.IsValid() && a.Is4() && !a.IsLoopback() && a != m.Router && !own && !slices.Contains(addrs, a) && len(addrs) < maxDevices {
			addrs = append(addrs, a)
		}
	}
	if record := f.gateway.Store(); record != nil {
		n := 0
		for row, err := range record.Query(ctx, event.Filter{}, event.Page{Newest: true}) {
			if n++; err != nil || n > maxSeen {
				break
			}
			add(row.Client)
		}
	}
	near, _ := identity.Neighbours() // none where the system does not tell
	var others []netip.Addr
	for a := range near {
		if slices.ContainsFunc(m.Addresses, func(x lan.Address) bool { p, _ := x.Addr.Prefix(16); return p.Contains(a) }) {
			others = append(others, a)
		}
	}
	slices.SortFunc(others, netip.Addr.Compare)
	for _, a := range others {
		add(a)
	}
	names := (&pages{gateway: f.gateway}).clientNames(ctx, addrs)
	for _, a := range addrs {
		all = append(all, setup.Device{Addr: a, Name: names[a]})
	}
	return all
}

// portFree returns nil if a name server could listen at an address, by UDP and TCP.
func portFree(ctx context.Context, at string) error {
	var l net.ListenConfig
	c, err := l.ListenPacket(ctx, "udp", at)
	if err != nil {
		return err
	}
	defer c.Close()
	t, err := l.Listen(ctx, "tcp", at)
	if err != nil {
		return err
	}
	return t.Close()
}

// free moves aside what has port 53 of an address. It is put back if nobody could listen there then, or
// if this machine finds no names any more.
func (f *firstSteps) free(ctx context.Context, at netip.Addr) error {
	f.mu.Lock()
	internet := f.internet
	f.mu.Unlock()
	return FreePort53(ctx, f.machine, at, internet)
}

// FreePort53 moves aside what has port 53 of an address of a machine, and puts it back if nobody could
// listen there then, or if this machine, which found names before, finds none.
func FreePort53(ctx context.Context, m lan.Machine, at netip.Addr, internet bool) error {
	_, err := m.Free(ctx, at, func(ctx context.Context) error {
		if err := portFree(ctx, netip.AddrPortFrom(at, 53).String()); err != nil {
			return err
		}
		if !internet {
			return nil
		}
		ctx, stop := context.WithTimeout(ctx, 5*time.Second)
		defer stop()
		_, err := (&net.Resolver{PreferGo: true}).LookupHost(ctx, "example.com")
		return err
	})
	return err
}

// FreePort53Here is [FreePort53] for the address of this machine in its network.
func FreePort53Here(ctx context.Context) (said string, err error) {
	m := lan.Machine{}
	addrs := m.Addresses()
	if len(addrs) == 0 {
		return "", errors.New("freeing port 53: this machine has no address in a network of its own")
	}
	if err := FreePort53(ctx, m, addrs[0].Addr, len(m.NameServers()) > 0); err != nil {
		return "", fmt.Errorf("freeing port 53: %w", err)
	}
	return fmt.Sprintf("Port 53 of %s is free.\n", addrs[0].Addr), nil
}

// portalPorts are the ports of the pages for devices, in the order in which they are tried.
var portalPorts = []uint16{80, 8088}

// write writes the settings for the answers, and a root certificate for the network, and takes them into
// use. After an error, everything is as it was.
func (f *firstSteps) write(ctx context.Context, a setup.Answers) (err error) {
	now, err := os.ReadFile(f.gateway.file)
	if err != nil {
		return err
	}
	if !f.offer.Unchanged(now) {
		return web.ErrChanged
	}
	if a.At.IsValid() {
		for _, port := range portalPorts {
			if l, err := net.Listen("tcp", netip.AddrPortFrom(a.At, port).String()); err == nil {
				l.Close()
				a.Portal = port
				break
			}
		}
	}
	if a.Certificate || a.At.IsValid() {
		made, err := f.makeRoot(a)
		if err != nil {
			return err
		}
		defer func() {
			if err != nil {
				made()
			}
		}()
	}
	remarks, err := f.gateway.saveSettings(ctx, f.offer.Compose(f.start, a), web.Tag(now), a.Account, "first steps")
	for _, r := range remarks {
		f.gateway.log.Warn(r)
	}
	return explained(err)
}

// explained says what to do about an address that is in use.
func explained(err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("another program of this machine has an address that the filter needs; stop it, and press Next again: %w", err)
	}
	return err
}

// makeRoot makes a root certificate beside the settings, and its key in a file of its own, unless there
// is one. unmake takes it away.
func (f *firstSteps) makeRoot(a setup.Answers) (unmake func(), err error) {
	file := filepath.Join(filepath.Dir(f.gateway.file), "root.pem")
	cfg := intercept.RootConfig{Domains: a.Domains, Final: a.Final}
	if a.At.IsValid() {
		cfg.Addrs = []netip.Addr{a.At} // where its own pages are
	}
	root, err := intercept.MakeRoot(cfg)
	if err != nil {
		return nil, err
	}
	err = root.WriteApart(file, false)
	switch {
	case errors.Is(err, fs.ErrExist):
		return func() {}, nil
	case err != nil:
		return nil, fmt.Errorf("writing the root certificate of %q: %w", cmp.Or(a.Name, "Shuultuur"), err)
	}
	return func() {
		_ = os.Remove(file) // it is of no use
		_ = os.Remove(intercept.KeyFile(file))
	}, nil
}

// places returns where devices reach the gateway now.
func (f *firstSteps) places() (p setup.Places) {
	e := f.gateway.engine.Load()
	s := e.Settings
	outside := func(all []netip.AddrPort) netip.AddrPort {
		i := slices.IndexFunc(all, func(a netip.AddrPort) bool { return !a.Addr().IsLoopback() })
		if i >= 0 {
			return all[i]
		}
		if len(all) > 0 {
			return all[0]
		}
		return netip.AddrPort{}
	}
	of := func(key string) netip.AddrPort {
		var all []netip.AddrPort
		for _, d := range e.Servers.All {
			if d.Key == key {
				for _, a := range d.Addrs {
					all = append(all, a.AddrPort())
				}
			}
		}
		return outside(all)
	}
	if at := of("proxy"); at.IsValid() {
		p.Proxy = at.String()
	}
	if s.DNS != nil {
		if at := outside(s.DNS.Server.Addresses()); at.IsValid() {
			p.Addr, p.DNS = at.Addr().String(), at.Addr().String()
			if at.Port() != 53 {
				p.DNS = at.String()
			}
		}
	}
	if at := of("admin"); at.IsValid() && !at.Addr().IsLoopback() {
		p.Pages = "https://" + at.String() + "/"
	}
	if e.Welcome != nil {
		if url := s.PortalPlace().URL; url != "" {
			p.Portal = url + "/"
		}
	}
	if _, r := f.machine.Router(); r.IsValid() {
		p.Router = r.String()
	}
	p.Root = e.Intercept != nil
	return p
}

// maxSeen bounds the events that are searched for those of new devices.
const maxSeen = 1000

// first returns the first query and the first request of each device since a time.
func (f *firstSteps) first(ctx context.Context, since time.Time) (all []setup.First, err error) {
	record := f.gateway.Store()
	if record == nil {
		return nil, nil
	}
	seen, n := map[string]int{}, 0
	var addrs, of []netip.Addr
	for row, err := range record.Query(ctx, event.Filter{Since: since}, event.Page{}) {
		if err != nil {
			return nil, err
		}
		if n++; n > maxSeen || len(all) >= maxDevices {
			break
		}
		if !row.Client.IsValid() || row.Host == "" {
			continue
		}
		key := row.Client.String() + strconv.FormatBool(row.Proto == filter.DNS)
		decrypted := row.Proto == filter.HTTP && strings.HasPrefix(row.URL, "https://")
		if i, known := seen[key]; known {
			all[i].Decrypt = all[i].Decrypt || decrypted
			continue
		}
		seen[key] = len(all)
		addrs, of = append(addrs, row.Client), append(of, row.Client)
		all = append(all, setup.First{Device: row.User, Site: row.Host, Query: row.Proto == filter.DNS, Closed: row.Action == filter.Block || row.Action == filter.Warn, At: row.Time.Local(), Took: row.Duration, Decrypt: decrypted})
	}
	names := (&pages{gateway: f.gateway}).clientNames(ctx, addrs)
	for i := range all {
		all[i].Device = cmp.Or(all[i].Device, names[of[i]], of[i].String())
	}
	return all, nil
}

// arriving are the lists that are being fetched, and those that are missing.
func (f *firstSteps) arriving() (all []setup.Arrival) {
	for _, a := range f.gateway.refresher.Progress() {
		all = append(all, setup.Arrival{Name: a.Name, Fetching: lists.FetchProgress{Done: a.Done, Total: a.Total}})
	}
	for _, p := range problem.Texts(f.gateway.engine.Load().Lists.Problems()) {
		all = append(all, setup.Arrival{Name: p})
	}
	return all
}
