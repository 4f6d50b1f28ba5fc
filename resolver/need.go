package resolver

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"shuultuur/filter"
	"shuultuur/resolver/validate"
)

// This file lets the gateway find what it needs itself, where its own machine asks this resolver: a
// list that blocks the server it comes from would otherwise never be mended.

// needs are the names that the gateway asks for itself.
type needs struct {
	names map[string]struct{}
	own   map[netip.Addr]struct{} // addresses of this machine

	mu  sync.Mutex
	cut map[string]string // by name, what would have refused it
}

func newNeeds(names []string) *needs {
	n := &needs{names: map[string]struct{}{}, own: map[netip.Addr]struct{}{}, cut: map[string]string{}}
	for _, name := range names {
		n.names[strings.ToLower(strings.TrimSuffix(name, "."))] = struct{}{}
	}
	all, _ := net.InterfaceAddrs() // without them the loopback is this machine
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			n.own[p.Addr().Unmap()] = struct{}{}
		}
	}
	return n
}

// has reports whether a query is one of the gateway's own.
func (n *needs) has(t *filter.Transaction, from netip.Addr) bool {
	if from = from.Unmap(); !from.IsLoopback() {
		if _, ours := n.own[from]; !ours {
			return false
		}
	}
	if _, found := n.names[t.Host]; found {
		return true
	}
	return validate.IsTimeServer(t.Host) // without the time, nothing else works
}

// allow lets a query pass that a policy has refused.
func (n *needs) allow(t *filter.Transaction) {
	r := &t.Verdict.Reason
	why := r.Policy
	if r.Rule != "" {
		why += "/" + r.Rule
	}
	if r.Finding.Evidence != "" {
		why += " (" + r.Finding.Evidence + ")"
	}
	n.mu.Lock()
	if _, known := n.cut[t.Host]; !known {
		n.cut[strings.Clone(t.Host)] = strings.Clone(why)
	}
	n.mu.Unlock()
	t.Verdict = filter.Verdict{Action: filter.Allow, Reason: filter.Reason{Policy: r.Policy, Finding: filter.Finding{
		Check: checkName, Category: "need", Evidence: "the gateway needs this name; it would be refused by " + why}}}
	t.Findings = append(t.Findings[:0], t.Verdict.Reason.Finding)
}

// problems names what policies would cut the gateway off from.
func (n *needs) problems() (all []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(n.cut)) {
		all = append(all, fmt.Sprintf("dns: %s would be refused by %s, but the gateway needs it: queries of this machine pass", name, n.cut[name]))
	}
	return all
}
