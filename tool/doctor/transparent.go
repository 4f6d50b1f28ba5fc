package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

// redirect is a firewall rule that sends connections to local ports. Other
// conditions of the rule (interface, destination) are ignored.
type redirect struct {
	four, six   bool // IPv4, IPv6
	tproxy      bool // the rule preserves the destination
	first, last uint16
}

// ipVersion has the differences between inspecting IPv4 and IPv6.
type ipVersion struct {
	name, option          string // option of ip(8)
	tables, save          string // the firewall's programs
	forwarding            string
	bsdForwarding, bsdFwd string
	six                   bool
}

func ipVersions() []ipVersion {
	return []ipVersion{
		{name: "IPv4", option: "-4", tables: "iptables", save: "iptables-save", forwarding: "net.ipv4.ip_forward",
			bsdForwarding: "net.inet.ip.forwarding", bsdFwd: "ipfw add 100 fwd 127.0.0.1,%d tcp from any to any 80,443 in recv em1"},
		{name: "IPv6", option: "-6", tables: "ip6tables", save: "ip6tables-save", forwarding: "net.ipv6.conf.all.forwarding",
			bsdForwarding: "net.inet6.ip6.forwarding", bsdFwd: "ipfw add 101 fwd ::1,%d tcp from any to any 80,443 in recv em1", six: true},
	}
}

// transparent inspects the rules that bring clients without a configured proxy to
// listen.transparent and listen.tproxy: forwarding, firewall rules, and routes
// for TPROXY. IPv6 is not required if the kernel lacks it.
func (p subject) transparent(ctx context.Context) []Finding {
	if len(p.cfg.Transparent)+len(p.cfg.TPROXY) == 0 {
		return nil
	}
	rules, nftErr := p.commonRules(ctx)
	var found []Finding
	for _, v := range ipVersions() {
		name := v.forwarding
		if p.bsd() {
			name = v.bsdForwarding
		}
		forwards, err := p.number(name)
		if v.six && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		found = append(found, p.atLeast(name, 1, plain, "Without it only redirected traffic passes: the clients' DNS, mail and everything else stops here.")...)
		all, err := rules, nftErr
		if !p.bsd() {
			all, err = p.tableRules(ctx, v, rules, nftErr)
		}
		// IPv6 without a redirection is safe as long as it is not forwarded.
		level := Bad
		if v.six && forwards == 0 {
			level = Low
		}
		for _, addr := range p.cfg.Transparent {
			found = append(found, p.redirected(v, addr, false, level, all, err)...)
		}
		// Clients that arrive by REDIRECT are filtered, so TPROXY is optional.
		spare := err == nil && p.arrives(v, all)
		if spare {
			level = Low
		}
		tproxy := false
		for _, addr := range p.cfg.TPROXY {
			f := p.redirected(v, addr, true, level, all, err)
			tproxy = tproxy || len(f) > 0
			for i := range f {
				if spare && f[i].Level == Low {
					f[i].Why = "The gateway listens there for nothing. The clients' " + v.name + " connections arrive by REDIRECT and are filtered: add a rule, or remove listen.tproxy."
				}
			}
			found = append(found, f...)
		}
		if tproxy && !p.bsd() {
			found = append(found, p.localRoute(ctx, v, level))
		}
	}
	return found
}

// arrives reports whether a rule redirects clients to listen.transparent.
func (p subject) arrives(v ipVersion, all []redirect) bool {
	return slices.ContainsFunc(p.cfg.Transparent, func(addr string) bool {
		f := p.redirected(v, addr, false, Bad, all, nil)
		return len(f) > 0 && f[0].Level == OK
	})
}

// redirected judges whether a rule leads to the port of addr. It returns no
// finding if addr has another IP version.
func (p subject) redirected(v ipVersion, addr string, tproxy bool, level Level, all []redirect, asked error) []Finding {
	host, text, err := net.SplitHostPort(addr)
	if err != nil {
		return nil // reported with the mistakes of the settings
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return nil
	}
	if a, err := netip.ParseAddr(host); err == nil && (a.Is4() && v.six || a.Is6() && !a.IsUnspecified() && !v.six) {
		return nil
	}
	f := Finding{About: fmt.Sprintf("redirect to %d, %s", port, v.name), Level: OK, Found: "there is a rule"}
	if tproxy {
		f.About = fmt.Sprintf("TPROXY to %d, %s", port, v.name)
	}
	for _, r := range all {
		if r.tproxy == tproxy && r.first <= uint16(port) && uint16(port) <= r.last && (v.six && r.six || !v.six && r.four) {
			return one(f)
		}
	}
	f.Found, f.Wanted = "no rule", "a rule for the clients' ports 80 and 443"
	f.Why = "The gateway listens there, but no firewall rule redirects the clients' " + v.name + " connections to it: they bypass it unfiltered, or are dropped."
	f.Level, f.Mend = level, p.redirectLines(v, port, tproxy)
	if asked != nil {
		f.Level, f.Found = Unknown, asked.Error()
	}
	return one(f)
}

// redirectLines returns the commands of docs/transparent.md. The reader must
// fill in the clients' interface.
func (p subject) redirectLines(v ipVersion, port uint64, tproxy bool) []string {
	if p.bsd() {
		return []string{fmt.Sprintf(v.bsdFwd, port) + "   # em1: where the clients are", "ipfw add 102 reject udp from any to any 443 in recv em1   # HTTP/3 would bypass the filter"}
	}
	rule := fmt.Sprintf("%s -t nat -A PREROUTING -i eth1 -p tcp -m multiport --dports 80,443 -j REDIRECT --to-ports %d", v.tables, port)
	if tproxy {
		rule = fmt.Sprintf("%s -t mangle -A PREROUTING -i eth1 -p tcp -m multiport --dports 80,443 -j TPROXY --on-port %d --tproxy-mark 1", v.tables, port)
	}
	return []string{rule + "   # eth1: where the clients are", v.tables + " -A FORWARD -i eth1 -p udp --dport 443 -j REJECT   # HTTP/3 would bypass the filter"}
}

// localRoute judges whether packets marked by TPROXY are delivered locally.
// level is that of a missing route.
func (p subject) localRoute(ctx context.Context, v ipVersion, level Level) Finding {
	about := "routes for TPROXY, " + v.name
	rules, err := p.m.Output(ctx, "ip", v.option, "rule", "show")
	if err != nil {
		return unknown(about, err)
	}
	routes, err := p.m.Output(ctx, "ip", v.option, "route", "show", "table", "all", "type", "local")
	if err != nil {
		return unknown(about, err)
	}
	f := Finding{About: about, Level: OK, Found: "marked packets stay here"}
	tables := markedTables(rules)
	if hasLocalDefault(routes, tables) {
		return f
	}
	f.Level, f.Found, f.Wanted = level, "no rule for a mark", "a rule for the mark and a local route in its table"
	if len(tables) > 0 {
		f.Found = "no local default route in the table of a mark"
	}
	f.Why = "TPROXY only marks packets; without the route the kernel sends them on to the internet, or drops them, and the gateway sees none."
	f.Mend = []string{"ip " + v.option + " rule add fwmark 1 lookup 100", "ip " + v.option + " route add local default dev lo table 100"}
	return f
}

// commonRules returns the rules of programs that show IPv4 and IPv6 together:
// ipfw, nft.
func (p subject) commonRules(ctx context.Context) ([]redirect, error) {
	if p.bsd() {
		s, err := p.m.Output(ctx, "ipfw", "list")
		return ipfwRules(s), err
	}
	s, err := p.m.Output(ctx, "nft", "-j", "list", "ruleset")
	if err != nil {
		return nil, err
	}
	return nftRules(s)
}

// tableRules adds the rules that iptables-save shows: nft does not print the
// ports of rules that iptables made. A program that is not installed has no
// rules, unless none is installed.
func (p subject) tableRules(ctx context.Context, v ipVersion, nft []redirect, nftErr error) ([]redirect, error) {
	s, err := p.m.Output(ctx, v.save)
	all := append(tableRules(s, v.six), nft...)
	none, noNFT := errors.Is(err, exec.ErrNotFound), errors.Is(nftErr, exec.ErrNotFound)
	switch {
	case none && noNFT:
		return all, fmt.Errorf("neither nft nor %s is installed", v.save)
	case nftErr != nil && !noNFT:
		return all, nftErr
	case err != nil && !none:
		return all, err
	}
	return all, nil
}

// nftRules parses the output of nft -j list ruleset, see libnftables-json(5).
func nftRules(s string) ([]redirect, error) {
	var set struct {
		Objects []struct {
			Chain *struct{ Family, Table, Name, Hook string }
			Rule  *struct {
				Family, Table, Chain string
				Expr                 []json.RawMessage
			}
		} `json:"nftables"`
	}
	if err := json.Unmarshal([]byte(s), &set); err != nil {
		return nil, fmt.Errorf("read what nft prints: %w", err)
	}
	var all []redirect
	hooks := map[[3]string]string{}
	for _, o := range set.Objects {
		if c := o.Chain; c != nil {
			hooks[[3]string{c.Family, c.Table, c.Name}] = c.Hook
		}
		if o.Rule == nil {
			continue
		}
		// Other chains may jump to a chain without a hook.
		if hook := hooks[[3]string{o.Rule.Family, o.Rule.Table, o.Rule.Chain}]; hook != "" && hook != "prerouting" {
			continue
		}
		if r, ok := nftRule(o.Rule.Family, o.Rule.Expr); ok {
			all = append(all, r)
		}
	}
	return all, nil
}

// nftRule parses one rule; ok reports whether it leads to a port. It ignores
// unknown expressions.
func nftRule(family string, expr []json.RawMessage) (r redirect, ok bool) {
	type target struct {
		Family string
		Port   uint16
	}
	r.four, r.six = family != "ip6", family != "ip"
	only := func(version string) {
		r.four = r.four && version != "ip6" && version != "ipv6"
		r.six = r.six && version != "ip" && version != "ipv4"
	}
	for _, raw := range expr {
		var e struct {
			Redirect, DNAT, TPROXY *target
			Match                  *struct {
				Op   string
				Left struct {
					Meta    struct{ Key string }
					Payload struct{ Protocol string }
				}
				Right json.RawMessage
			}
		}
		// If only a part is unknown, the rest is read all the same.
		_ = json.Unmarshal(raw, &e)
		if m := e.Match; m != nil {
			only(m.Left.Payload.Protocol)
			var version string
			if m.Left.Meta.Key == "nfproto" && m.Op == "==" && json.Unmarshal(m.Right, &version) == nil {
				only(version)
			}
		}
		for _, t := range []*target{e.Redirect, e.DNAT, e.TPROXY} {
			if t != nil && t.Port != 0 {
				only(t.Family)
				r.first, r.last, r.tproxy, ok = t.Port, t.Port, t == e.TPROXY, true
			}
		}
	}
	return r, ok
}

// tableRules parses the output of iptables-save or, for IPv6, ip6tables-save.
func tableRules(s string, six bool) []redirect {
	var all []redirect
	for line := range strings.Lines(s) {
		words := strings.Fields(unquoted(line))
		if len(words) < 2 || words[0] != "-A" || words[1] == "OUTPUT" {
			continue
		}
		r := redirect{four: !six, six: six}
		for i := 2; i+1 < len(words); i++ {
			ports := words[i+1]
			switch words[i] {
			case "--on-port":
				r.tproxy = true
			case "--to-ports":
			case "--to-destination":
				ports = ports[strings.LastIndexByte(ports, ':')+1:]
			default:
				continue
			}
			var ok bool
			if r.first, r.last, ok = portsOf(ports); ok {
				all = append(all, r)
			}
		}
	}
	return all
}

// unquoted removes quoted text, such as comments.
func unquoted(line string) string {
	var b strings.Builder
	for i, part := range strings.Split(line, `"`) {
		if i%2 == 0 {
			b.WriteString(part)
		}
	}
	return b.String()
}

func portsOf(s string) (first, last uint16, ok bool) {
	from, to, isRange := strings.Cut(s, "-")
	if !isRange {
		to = from
	}
	a, err := strconv.ParseUint(from, 10, 16)
	if err != nil {
		return 0, 0, false
	}
	b, err := strconv.ParseUint(to, 10, 16)
	return uint16(a), uint16(b), err == nil
}

// ipfwRules parses the output of ipfw list.
func ipfwRules(s string) []redirect {
	var all []redirect
	for line := range strings.Lines(s) {
		words := strings.Fields(line)
		for i := 1; i+1 < len(words); i++ {
			if words[i] != "fwd" && words[i] != "forward" {
				continue
			}
			host, ports, _ := strings.Cut(words[i+1], ",")
			a, err := netip.ParseAddr(host)
			first, last, ok := portsOf(ports)
			if err == nil && ok {
				all = append(all, redirect{four: a.Is4(), six: a.Is6(), first: first, last: last})
			}
			break
		}
	}
	return all
}

// markedTables returns the routing tables for marked packets from the output of
// ip rule.
func markedTables(s string) map[string]bool {
	tables := map[string]bool{}
	for line := range strings.Lines(s) {
		words := strings.Fields(line)
		marked := false
		for i := 0; i+1 < len(words); i++ {
			marked = marked || words[i] == "fwmark"
			if marked && words[i] == "lookup" {
				tables[words[i+1]] = true
			}
		}
	}
	return tables
}

// hasLocalDefault reports whether one of the tables has a default route that
// ends here, by what ip route show table all type local prints.
func hasLocalDefault(s string, tables map[string]bool) bool {
	for line := range strings.Lines(s) {
		words := strings.Fields(line)
		if len(words) < 2 || words[0] != "local" || words[1] != "default" {
			continue
		}
		for i := 2; i+1 < len(words); i++ {
			if words[i] == "table" && tables[words[i+1]] {
				return true
			}
		}
	}
	return false
}
