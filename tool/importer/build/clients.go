package build

import (
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"shuultuur/identity"
	"shuultuur/lib/setting"
	"shuultuur/policy"
	"shuultuur/tool/importer/input"
	"shuultuur/tool/importer/report"
)

// ClientNetwork returns the network that identifies a client of another program here, and what
// differs. If there is none, it returns "" and the reason.
func ClientNetwork(id string, leases map[string]string) (network, why string) {
	id = strings.TrimSpace(id)
	if a, err := netip.ParseAddr(id); err == nil {
		return a.Unmap().WithZone("").String(), ""
	}
	if p, err := netip.ParsePrefix(id); err == nil {
		return p.Masked().String(), ""
	}
	if mac, err := net.ParseMAC(id); err == nil {
		if a, err := netip.ParseAddr(leases[mac.String()]); err == nil {
			return a.Unmap().String(), "clients are identified by address; this is the one in its lease, which may change: reserve it"
		}
		return "", "clients are identified by address, and this MAC has no known lease"
	}
	return "", "clients are identified by address, not by a name that they send"
}

// LeaseNames gives devices the names in their leases.
func (w *Work) LeaseNames(at report.Place, leases map[string]string) {
	if len(leases) == 0 {
		return
	}
	name := "devices"
	for n := 2; input.IsFile(filepath.Join(w.To, "lists", name)); n++ {
		name = fmt.Sprintf("devices-%d", n)
	}
	path, err := w.Create(name, func(to io.Writer) error {
		for _, addr := range slices.Sorted(maps.Keys(leases)) {
			if _, err := fmt.Fprintf(to, "%s %s\n", addr, leases[addr]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		w.Report.Add(&report.Note{Kind: report.Lost, Place: at, What: "names of leases", Ours: "identity: names", Why: err.Error()})
		return
	}
	rel, err := filepath.Rel(w.To, path)
	if err != nil {
		rel = path
	}
	w.Set.Identity.Names = identity.NamesConfig{Hosts: append(w.Set.Identity.Names.Hosts, setting.Source(rel)), Leases: w.Set.Identity.Names.Leases}
	w.Report.Add(&report.Note{Kind: report.Carried, Place: at, What: fmt.Sprintf("names of %d leases", len(leases)), Ours: "identity: names: hosts"})
}

// PolicyNetworks reads the addresses and networks of a policy, which are from a place.
func PolicyNetworks(w *Work, at report.Place, texts []string) []policy.Network {
	if len(texts) > MaxNetworks {
		w.Report.Add(&report.Note{Kind: report.Lost, Place: at, What: "networks", Ours: "policies: networks", Why: fmt.Sprintf("the first %d are there: write the others as larger networks", MaxNetworks)})
		texts = texts[:MaxNetworks]
	}
	return AsNetworks(texts)
}

// AsNetworks reads addresses and networks. It leaves out those that cannot be read.
func AsNetworks(texts []string) (all []policy.Network) {
	for _, s := range texts {
		if n, err := input.Network(s); err == nil {
			all = append(all, policy.Network{Prefix: n})
		}
	}
	return all
}

// Without returns the parts of a network that are in none of others.
func Without(n netip.Prefix, others []netip.Prefix) (all []netip.Prefix) {
	inside := func(o netip.Prefix) bool { return o.Bits() > n.Bits() && n.Contains(o.Addr()) }
	around := func(o netip.Prefix) bool { return o.Bits() == n.Bits() && o.Contains(n.Addr()) }
	switch {
	case slices.ContainsFunc(others, around):
		return nil
	case n.Bits() == n.Addr().BitLen() || !slices.ContainsFunc(others, inside):
		return []netip.Prefix{n}
	}
	upper := n.Masked().Addr().AsSlice()
	upper[n.Bits()/8] |= 0x80 >> (n.Bits() % 8)
	second, _ := netip.AddrFromSlice(upper)
	return append(Without(netip.PrefixFrom(n.Masked().Addr(), n.Bits()+1), others), Without(netip.PrefixFrom(second, n.Bits()+1), others)...)
}

// AllNetworks returns the networks of all addresses.
func AllNetworks() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
}

// Clients are clients that every line of squid.conf treats alike: the same acls of type
// src and proxy_auth match them.
type Clients struct {
	Names    []string // names of these acls, sorted
	Networks []policy.Network
	Users    []string
	Groups   []string
}

// Is reports whether an acl matches these clients. Without particular clients (nil) every acl
// does.
func (k *Clients) Is(name string) bool { return k == nil || slices.Contains(k.Names, name) }

// Name returns the name of their policy.
func (k *Clients) Name() string {
	if len(k.Names) == 0 {
		return "everyone else"
	}
	return strings.Join(k.Names, "+")
}

// Covers reports whether one of the networks contains p.
func Covers(all []policy.Network, p netip.Prefix) bool {
	return slices.ContainsFunc(all, func(n policy.Network) bool { return n.Bits() <= p.Bits() && n.Contains(p.Addr()) })
}

// Join adds a network to the group with the same acls, unless a later group has a part
// of it, which would then not be reached.
func Join(groups []*Clients, p netip.Prefix, names []string) []*Clients {
	n := policy.Network{Prefix: p}
	for i := len(groups) - 1; i >= 0; i-- {
		if slices.Equal(groups[i].Names, names) {
			groups[i].Networks = append(groups[i].Networks, n)
			return groups
		}
		if slices.ContainsFunc(groups[i].Networks, func(x policy.Network) bool { return p.Contains(x.Addr()) }) {
			break
		}
	}
	return append(groups, &Clients{Names: names, Networks: []policy.Network{n}})
}
