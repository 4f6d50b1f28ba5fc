package load

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"sort"
	"strings"
	"sync/atomic"
)

// endpoint is the destination of a connection. Targets with the same endpoint can share a
// connection.
type endpoint struct {
	addr    string // ip:port to dial
	connect string // CONNECT request to send first, "" for none
	tls     string // server name for TLS, "" without TLS
}

// target is one URL with its encoded request.
type target struct {
	url     string
	end     endpoint
	request []byte        // HTTP/1.1
	h2      *http.Request // HTTP/2

	// The first good body. Later ones that differ are counted.
	body atomic.Pointer[body]
}

// body describes a body: its length and, if cfg.Checksum, its hash.
type body struct {
	length int64
	sum    uint64
}

const (
	// maxURLs limits the memory of a file of URLs.
	maxURLs     = 5_000_000
	maxURLBytes = 64 << 10
)

// ReadURLs reads a file with one URL per line, skipping blank lines. name is for error
// messages.
func ReadURLs(r io.Reader, name string) ([]string, error) {
	var urls []string
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 0, 4096), maxURLBytes)
	for line := 1; s.Scan(); line++ {
		text := strings.TrimSpace(s.Text())
		if text == "" {
			continue
		}
		if err := checkURL(text); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, line, err)
		}
		if len(urls) == maxURLs {
			return nil, fmt.Errorf("%s:%d: more than %d URLs", name, line, maxURLs)
		}
		urls = append(urls, text)
	}
	if err := s.Err(); err != nil {
		return nil, fmt.Errorf("reading URLs from %q: %w", name, err)
	}
	if len(urls) == 0 {
		return nil, fmt.Errorf("%s: no URLs in it", name)
	}
	return urls, nil
}

func checkURL(s string) error {
	u, err := url.Parse(s)
	if err != nil {
		return fmt.Errorf("%q is not a URL: %w", s, errors.Unwrap(err))
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("%q: unknown protocol, http:// and https:// are known", s)
	}
	if u.Hostname() == "" {
		return fmt.Errorf("%q has no host", s)
	}
	return nil
}

func allHTTPS(urls []string) bool {
	return !slices.ContainsFunc(urls, func(u string) bool { return !strings.HasPrefix(u, "https://") })
}

// resolve makes targets from cfg.URLs.
func (g *Generator) resolve() error {
	hosts := guard{allow: g.cfg.Allow, known: map[string]netip.Addr{}}
	proxy := ""
	if g.cfg.Proxy != "" {
		host, port, err := net.SplitHostPort(g.cfg.Proxy)
		if err != nil {
			host, port = strings.Trim(g.cfg.Proxy, "[]"), "80"
		}
		addr, err := hosts.admit(host)
		if err != nil {
			return fmt.Errorf("proxy %q: %w", g.cfg.Proxy, err)
		}
		proxy = net.JoinHostPort(addr.String(), port)
	}
	extra, err := headerLines(g.cfg.Header)
	if err != nil {
		return err
	}
	for _, raw := range g.cfg.URLs {
		if err := checkURL(raw); err != nil {
			return err
		}
		u, _ := url.Parse(raw)
		// Through a proxy the load still reaches the target, but the proxy resolves its name,
		// which it alone may know.
		var addr netip.Addr
		if proxy == "" || !slices.Contains(g.cfg.Allow, u.Hostname()) {
			if addr, err = hosts.admit(u.Hostname()); err != nil {
				return err
			}
		}
		t, err := g.target(u, addr, proxy, extra)
		if err != nil {
			return err
		}
		g.targets = append(g.targets, t)
	}
	return nil
}

func (g *Generator) target(u *url.URL, addr netip.Addr, proxy, extra string) (*target, error) {
	t := &target{url: u.String()}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	authority := net.JoinHostPort(u.Hostname(), port)
	if u.Scheme == "https" {
		t.end.tls = u.Hostname()
	}
	tunnel := proxy != "" && (u.Scheme == "https" || g.cfg.Tunnel)
	t.end.addr = net.JoinHostPort(addr.String(), port)
	if proxy != "" {
		t.end.addr = proxy
	}
	if tunnel {
		t.end.connect = "CONNECT " + authority + " HTTP/1.1\r\nHost: " + authority + "\r\n\r\n"
	}
	form := u.RequestURI()
	if proxy != "" && !tunnel {
		form = u.Scheme + "://" + u.Host + form
	}
	req := "GET " + form + " HTTP/1.1\r\nHost: " + u.Host + "\r\nUser-Agent: shuultuur-load\r\n" + extra
	if !g.cfg.KeepAlive {
		req += "Connection: close\r\n"
	}
	t.request = []byte(req + "\r\n")
	if !g.cfg.HTTP2 {
		return t, nil
	}
	h2, err := http.NewRequest(http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("request for %q: %w", u, err)
	}
	h2.Header.Set("User-Agent", "shuultuur-load")
	for _, h := range g.cfg.Header {
		name, value, _ := strings.Cut(h, ":")
		h2.Header.Add(name, strings.TrimSpace(value))
	}
	t.h2 = h2
	return t, nil
}

// headerLines validates and encodes extra header fields.
func headerLines(fields []string) (string, error) {
	var b strings.Builder
	for _, f := range fields {
		name, value, ok := strings.Cut(f, ":")
		if !ok || name == "" || strings.ContainsAny(name, " \t\r\n") || strings.ContainsAny(value, "\r\n") {
			return "", fmt.Errorf("header %q must look like \"Name: value\"", f)
		}
		b.WriteString(name + ": " + strings.TrimSpace(value) + "\r\n")
	}
	return b.String(), nil
}

// guard decides which hosts may be loaded. It resolves each once, so that the validated
// address is the one dialed.
type guard struct {
	allow []string
	known map[string]netip.Addr
}

func (g *guard) admit(host string) (netip.Addr, error) {
	if addr, ok := g.known[host]; ok {
		return addr, nil
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		if addr, err = lookup(host); err != nil {
			return netip.Addr{}, err
		}
	}
	if !addr.Unmap().IsLoopback() && !slices.Contains(g.allow, host) {
		return netip.Addr{}, fmt.Errorf("%q (%s) is not on this machine; if you may load it, add -allow %s", host, addr, host)
	}
	g.known[host] = addr
	return addr, nil
}

// lookup resolves a name, preferring IPv4, because test servers often listen only there.
func lookup(host string) (netip.Addr, error) {
	ips, err := net.LookupIP(host)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("resolving %q: %w", host, err)
	}
	slices.SortStableFunc(ips, func(a, b net.IP) int { return len(a.To4()) - len(b.To4()) })
	slices.Reverse(ips)
	addr, ok := netip.AddrFromSlice(ips[0])
	if !ok {
		return netip.Addr{}, fmt.Errorf("resolving %q: no usable address", host)
	}
	return addr.Unmap(), nil
}

// chooser chooses the URL of the n-th fetch. It depends only on seed and n, so that the
// sequence does not depend on the interleaving of workers.
type chooser struct {
	n          uint64
	seed       uint64
	ordered    bool
	cumulative []float64 // zipf only: cumulative weights; the last is 1
}

func newChooser(order string, exponent float64, seed uint64, n int) (chooser, error) {
	c := chooser{n: uint64(n), seed: seed}
	switch order {
	case "", "random":
	case "order":
		c.ordered = true
	case "zipf":
		if exponent == 0 {
			exponent = 1
		}
		if exponent < 0 || exponent > 10 {
			return c, fmt.Errorf("zipf exponent %g must be between 0 and 10", exponent)
		}
		sum := 0.0
		for i := range n {
			sum += math.Pow(float64(i+1), -exponent)
			c.cumulative = append(c.cumulative, sum)
		}
		for i := range c.cumulative {
			c.cumulative[i] /= sum
		}
	default:
		return c, fmt.Errorf("order %q is not one of random, order, zipf", order)
	}
	return c, nil
}

func (c *chooser) pick(n uint64) int {
	if c.n == 1 {
		return 0
	}
	if c.ordered {
		return int(n % c.n)
	}
	if c.cumulative != nil {
		u := unit(mix(c.seed, n))
		return min(sort.SearchFloat64s(c.cumulative, u), int(c.n)-1)
	}
	return int(mix(c.seed, n) % c.n)
}

// jitterSalt makes the gaps independent of the choice of URLs.
const jitterSalt = 0x6a09e667f3bcc908

// mix returns the n-th output of SplitMix64 (Steele, Lea, Flood 2014) for a seed.
func mix(seed, n uint64) uint64 {
	z := seed + (n+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// unit maps a hash to [0, 1).
func unit(h uint64) float64 { return float64(h>>11) / (1 << 53) }
