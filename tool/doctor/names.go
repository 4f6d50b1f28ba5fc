package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"sync"

	"shuultuur/lib/platform"
)

// Names sets the parts of the name server to inspect.
type Names struct {
	Listen    []string // host:port, plain DNS; ":53" is every address
	Cert      string   // of DNS over TLS, HTTPS and QUIC, a PEM file
	Upstreams []string // as the settings name them
	// Ask asks one of Upstreams for the root's SOA record. secure reports that the
	// answer was validated (DNSSEC). It respects ctx.
	Ask      func(ctx context.Context, upstream string) (secure bool, err error)
	Validate bool // answers must be validated
	// Redis is the host:port of the server with zones, or "". RedisClosed means
	// that it requires a password or TLS, which doctor does not have; SetNotify,
	// that the gateway turns keyspace events on.
	Redis                  string
	RedisClosed, SetNotify bool
	DoH                    bool // a list has servers of encrypted DNS
}

// nameServer inspects the requirements of the name server.
func (p subject) nameServer(ctx context.Context) []Finding {
	n := p.cfg.Names
	if n == nil {
		return nil
	}
	var found []Finding
	for _, addr := range n.Listen {
		found = append(found, p.dnsPort(ctx, addr))
	}
	found = append(found, p.overIPv6(n)...)
	found = append(found, p.certificateOf("certificate of dns", n.Cert,
		"Clients that use DNS over TLS, HTTPS or QUIC refuse it outside these dates and cannot resolve any name.", "settings: dns: {cert: FILE, key: FILE}")...)
	found = append(found, p.upstreams(ctx)...)
	if n.Redis != "" {
		found = append(found, p.keyspace(ctx))
	}
	if n.DoH {
		return append(found, Finding{About: "encrypted DNS of browsers", Level: OK, Found: "a list has its servers"})
	}
	return append(found, Finding{About: "encrypted DNS of browsers", Level: Low, Found: "no list has its servers", Wanted: "a list of them, and a rule that blocks its category",
		Why:  "A browser that uses DNS over HTTPS bypasses the name server.",
		Mend: []string{"settings: lists: {doh: {source: ut1-doh}}, and doh under checks: category: lists and in a rule"}})
}

// The program in a line of ss(8), and in one of sockstat(1).
var (
	ssProgram       = regexp.MustCompile(`users:\(\("([^"]{1,64})"`)
	sockstatProgram = regexp.MustCompile(`^\S+\s+(\S{1,64})\s+\d+\s`)
)

// dnsPort inspects whether a DNS port is free, and which program uses it.
func (p subject) dnsPort(ctx context.Context, addr string) Finding {
	f := Finding{About: "port " + addr, Level: OK, Found: "free"}
	err := p.m.Bind(addr)
	switch {
	case err == nil:
		return f
	case errors.Is(err, fs.ErrPermission):
		f.Level, f.Found, f.Wanted = Low, "not for this user", "the right to listen there"
		f.Why = "Ports below 1024 need root; the service gets them from its service manager, but doctor may run as another user."
		f.Mend = []string{"systemd: AmbientCapabilities=CAP_NET_BIND_SERVICE under [Service]"}
		if p.bsd() {
			f.Mend = []string{"start it as root, or: sysctl net.inet.ip.portrange.reservedhigh=52"}
		}
		return f
	case errors.Is(err, platform.EADDRNOTAVAIL):
		f.Level, f.Found, f.Wanted = Bad, "this machine does not have the address", "an address of its own"
		f.Why, f.Mend = "Nobody is answered there until it has; outside Linux the gateway does not start without it.", []string{"settings: dns: {listen: [\":53\"]}"}
		return f
	case !errors.Is(err, platform.EADDRINUSE):
		return unknown(f.About, err)
	}
	who := p.owner(ctx, addr[strings.LastIndexByte(addr, ':')+1:])
	if who == "shuultuur" {
		f.Found = "served by shuultuur"
		return f
	}
	f.Level, f.Found, f.Wanted = Bad, "in use", "a free port"
	f.Why = "The gateway does not start while another name server uses the port."
	f.Mend = []string{"ss -lunp 'sport = :53'   (as root: says which program it is)"}
	if p.bsd() {
		f.Mend = []string{"sockstat -l -p 53"}
	}
	if who != "" {
		f.Found = "in use by " + who
		f.Mend = []string{"systemctl disable --now " + who}
	}
	switch {
	case who == "systemd-resolve", who == "systemd-resolved":
		f.Mend = []string{
			"mkdir -p /etc/systemd/resolved.conf.d",
			`printf '[Resolve]\nDNSStubListener=no\n' > /etc/systemd/resolved.conf.d/shuultuur.conf`,
			"ln -sf /run/systemd/resolve/resolv.conf /etc/resolv.conf",
			"systemctl restart systemd-resolved",
		}
	case who == "dnsmasq":
		f.Mend = []string{"echo port=0 > /etc/dnsmasq.d/shuultuur.conf   (leaves its DHCP; or: systemctl disable --now dnsmasq)", "systemctl restart dnsmasq"}
	case p.bsd() && who != "":
		f.Mend = []string{"service " + who + " stop; sysrc " + who + "_enable=NO"}
	}
	return f
}

// owner returns the program that listens on a port for UDP or TCP, or "" if
// that is unknown.
func (p subject) owner(ctx context.Context, port string) string {
	commands, program := [][]string{{"ss", "-Hlunp", "sport = :" + port}, {"ss", "-Hltnp", "sport = :" + port}}, ssProgram
	if p.bsd() {
		program = sockstatProgram
		commands = [][]string{{"sockstat", "-l", "-q", "-p", port}}
	}
	for _, c := range commands {
		out, err := p.m.Output(ctx, c[0], c[1:]...)
		if err != nil {
			continue
		}
		for line := range strings.Lines(out) {
			if m := program.FindStringSubmatch(line); m != nil {
				return m[1]
			}
		}
	}
	return ""
}

// overIPv6 inspects whether the name server answers over IPv6 if the machine
// has IPv6.
func (p subject) overIPv6(n *Names) []Finding {
	const about = "names over IPv6"
	if len(n.Listen) == 0 {
		return nil
	}
	outside := false
	for _, addr := range n.Listen {
		a, err := netip.ParseAddrPort(addr)
		outside = outside || err != nil || !a.Addr().IsLoopback()
		if strings.HasPrefix(addr, ":") || err == nil && a.Addr().Is6() {
			return one(Finding{About: about, Level: OK, Found: addr})
		}
	}
	if !outside {
		return one(Finding{About: about, Level: OK, Found: "only this machine can ask"})
	}
	all, err := p.m.Addresses()
	if err != nil {
		return one(unknown(about, err))
	}
	i := slices.IndexFunc(all, func(a netip.Addr) bool { return a.Is6() && !a.Is4In6() && a.IsGlobalUnicast() })
	if i < 0 {
		return one(Finding{About: about, Level: OK, Found: "this machine has no IPv6"})
	}
	return one(Finding{About: about, Level: Low, Found: "not answered, though this machine has " + all[i].String(), Wanted: "an address of both families",
		Why:  "Devices that learn a name server over IPv6 from the router ask that one and bypass this one.",
		Mend: []string{fmt.Sprintf("settings: dns: {listen: [\"[%s]:53\"]}, and have the router announce it (RDNSS, DHCPv6)", all[i])}})
}

// upstreams asks all upstreams at once.
func (p subject) upstreams(ctx context.Context) []Finding {
	n := p.cfg.Names
	if n.Ask == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	found := make([]Finding, len(n.Upstreams))
	var wg sync.WaitGroup
	for i, up := range n.Upstreams {
		wg.Go(func() {
			f := Finding{About: "upstream " + up, Level: OK, Found: "answers"}
			secure, err := n.Ask(ctx, up)
			switch {
			case err != nil:
				f.Level, f.Found, f.Wanted = Low, err.Error(), "an answer"
				f.Why = "Names are asked of the other upstreams, if there are any; each attempt here delays a client."
				f.Mend = []string{"look at the firewall, and at dns: forward: upstreams in the settings"}
				if len(n.Upstreams) == 1 {
					f.Level, f.Why = Bad, "It is the only one: no name that is not in the cache will be answered."
				}
			case n.Validate && !secure:
				f.Level, f.Found, f.Wanted = Bad, "answers without DNSSEC records", "records with their signatures"
				f.Why = "With dns: forward: validate, all names in signed zones become SERVFAIL."
				f.Mend = []string{"another upstream (most home routers omit the records; public resolvers return them)", "or settings: dns: {forward: {validate: false}}"}
			case n.Validate:
				f.Found = "answers, validated"
			}
			found[i] = f
		})
	}
	wg.Wait()
	return found
}

// keyspace inspects whether a Redis server reports changes in zones.
func (p subject) keyspace(ctx context.Context) Finding {
	n := p.cfg.Names
	const setting = "notify-keyspace-events"
	about := "redis " + n.Redis + " " + setting
	if n.SetNotify {
		return Finding{About: about, Level: OK, Found: "set by the gateway (set-notify)"}
	}
	cli := "redis-cli -u redis://" + n.Redis
	if n.RedisClosed {
		return unknown(about, errors.New("it wants a password or TLS; ask it: "+cli+" config get "+setting))
	}
	facts, err := askRedis(ctx, n.Redis, setting)
	if err != nil {
		return Finding{About: about, Level: Bad, Found: err.Error(), Wanted: "an answer", Why: "The zones are kept there.", Mend: []string{cli + " ping"}}
	}
	flags, ok := facts[setting]
	if !ok {
		return unknown(about, errors.New("it does not say (CONFIG may be disabled)"))
	}
	f := Finding{About: about, Level: OK, Found: fmt.Sprintf("%q", flags)}
	ordered := strings.Contains(flags, "A") || strings.Contains(flags, "g") && strings.Contains(flags, "$") && strings.Contains(flags, "h") && strings.Contains(flags, "s") && strings.Contains(flags, "x")
	if !ordered || !strings.Contains(flags, "K") {
		f.Level, f.Wanted = Low, `"KA", or "Kg$hsx"`
		f.Why = "Without these events a changed zone is served only after the next reload."
		f.Mend = []string{cli + " config set " + setting + " KA", cli + " config rewrite", "or settings: dns: {redis: {set-notify: true}}"}
	}
	return f
}
