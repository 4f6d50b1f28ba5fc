package certificate

import (
	"cmp"
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"shuultuur/lib/metric"
)

// A Status says how the certificate is.
type Status struct {
	Names     []string  `json:"names"`
	Authority string    `json:"authority"`        // host of the directory
	Issuer    string    `json:"issuer,omitempty"` // "" until the first one arrives
	Until     time.Time `json:"until,omitzero"`   // zero until the first one arrives
	Renewal   time.Time `json:"renewal,omitzero"` // when it is renewed
	Failed    int       `json:"failed,omitempty"` // how many orders have failed since the last one that did not
	Error     string    `json:"error,omitempty"`  // why the last one failed, in the authority's words
	Next      time.Time `json:"next,omitzero"`    // when the next one is tried
}

// Status returns how the certificate is.
func (k *Keeper) Status() Status {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := Status{Names: k.cfg.Names, Authority: k.cfg.authority()}
	if k.pair != nil && !provisional(k.pair.Leaf) {
		s.Issuer, s.Until, s.Renewal = issuer(k.pair.Leaf), k.pair.Leaf.NotAfter, due(k.pair.Leaf, k.cfg.Names)
		if s.Renewal.IsZero() {
			s.Renewal = k.parts.Now()
		}
	}
	if f := &k.account.failure; f.Times > 0 {
		s.Failed, s.Error, s.Next = f.Times, f.Why, f.Next
	}
	return s
}

func (c *Config) authority() string {
	u, err := url.Parse(c.Directory)
	if err != nil {
		return c.Directory
	}
	return u.Host
}

// issuer returns whom a certificate names as its issuer.
func issuer(leaf *x509.Certificate) string {
	return cmp.Or(strings.Join(leaf.Issuer.Organization, ", "), leaf.Issuer.CommonName)
}

// Problems says what stands between browsers and a certificate that they trust.
func (k *Keeper) Problems() (all []string) {
	s, now := k.Status(), k.parts.Now()
	names := strings.Join(s.Names, ", ")
	day := func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }
	switch late := s.Renewal.Add(s.Until.Sub(s.Renewal) / 2); {
	case s.Until.IsZero():
	case now.After(s.Until):
		all = append(all, fmt.Sprintf("acme: the certificate of %s ended on %s: browsers refuse it", names, day(s.Until)))
	case now.After(late):
		all = append(all, fmt.Sprintf("acme: the certificate of %s ends on %s and could not be renewed since %s", names, day(s.Until), day(s.Renewal)))
	}
	if s.Failed > 0 {
		all = append(all, fmt.Sprintf("acme: %s gives no certificate for %s: %s; it is asked again at %s", s.Authority, names, s.Error, day(s.Next)))
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.unsaved != nil {
		all = append(all, fmt.Sprintf("acme: the certificate is lost with a restart: %v", k.unsaved))
	}
	return all
}

var (
	descUntil    = metric.NewDesc("shuultuur_certificate_until_seconds", "When the certificate of the listeners ends that an authority gave, in seconds since 1970.")
	descFailures = metric.NewDesc("shuultuur_certificate_failures", "Orders of a certificate that have failed since the last one that did not.")
)

// Collect implements [metric.Collector].
func (k *Keeper) Collect(ch chan<- metric.Metric) {
	s := k.Status()
	if !s.Until.IsZero() {
		ch <- metric.New(descUntil, metric.Gauge, float64(s.Until.Unix()))
	}
	ch <- metric.New(descFailures, metric.Gauge, float64(s.Failed))
}

// lookTime is how long names are looked up for remarks.
const lookTime = 3 * time.Second

// Remarks says what an authority will stumble over: names that lead elsewhere, and challenges that
// nothing answers.
func (k *Keeper) Remarks(ctx context.Context, look func(ctx context.Context, name string) ([]netip.Addr, error)) (all []string) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	own := ownAddresses()
	for _, name := range k.cfg.Names {
		kinds, err := k.kinds(name)
		if err != nil {
			all = append(all, fmt.Sprintf("acme: %v", err))
			continue
		}
		if _, err := netip.ParseAddr(name); err == nil || kinds[0] == byDNS {
			continue
		}
		addrs, err := look(ctx, name)
		switch {
		case err != nil || len(addrs) == 0:
			all = append(all, fmt.Sprintf("acme: %s has no address here: %s finds this gateway by it, so give it one in the DNS", name, k.cfg.authority()))
		case !slices.ContainsFunc(addrs, func(a netip.Addr) bool { return slices.Contains(own, a.Unmap()) }):
			all = append(all, fmt.Sprintf("acme: %s leads to %s, which is no address of this machine; that is right if a router sends port %s of it here", name, addrs[0].Unmap(), portOf(kinds[0])))
		}
	}
	return all
}

func portOf(kind string) string {
	if kind == byHTTP {
		return "80"
	}
	return "443"
}

// ownAddresses returns the addresses of this machine.
func ownAddresses() (all []netip.Addr) {
	own, _ := net.InterfaceAddrs() // without them names lead elsewhere, which is a remark
	for _, n := range own {
		if p, err := netip.ParsePrefix(n.String()); err == nil {
			all = append(all, p.Addr().Unmap().WithZone(""))
		}
	}
	return all
}
