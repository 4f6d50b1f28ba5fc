// Package profile takes profiles of a running gateway and makes them readable: CPU use, the
// collector's share of it, lock contention, goroutines, and scheduler latency.
//
// Fetch fetches CPU, block and mutex profiles and allocations over the same seconds, then the execution trace,
// then heap and goroutines, from the admin address, and writes each to a folder, for go tool
// pprof and go tool trace. Reading (reading.go, trace.go) turns them into a page of text. Live
// (live.go) instead fetches /metrics every second and draws a screen; Watch (watch.go) fetches it
// to take profiles when a limit is exceeded. Compare (compare.go) sets two folders side by side.
//
// An admin address that is not loopback must be allowed by name, and needs a token.
package profile

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// maxSeconds is the longest duration that the admin address accepts for a profile.
	maxSeconds = 300
	// maxTrace bounds the execution trace, which grows by megabytes a second
	// under load.
	maxTrace = 5
	maxBytes = 512 << 20
)

// Config sets which gateway to ask, and for how long.
type Config struct {
	URL     string // of the admin address, with TLS; "": it is Admin
	TLS     *tls.Config
	Admin   string   // host:port of the admin address
	Token   string   // listen.token of its settings; needed when it is not on this machine
	Allow   []string // hosts that may be asked though they are not loopback
	Seconds int
	Dir     string // folder for the files, created if it does not exist
}

// A Client profiles one gateway.
type Client struct {
	cfg  Config
	base string
	http *http.Client
}

// New checks the settings and resolves the admin address.
func New(cfg Config) (*Client, error) {
	if cfg.Seconds < 1 || cfg.Seconds > maxSeconds {
		return nil, fmt.Errorf("seconds must be between 1 and %d", maxSeconds)
	}
	if cfg.URL != "" {
		return &Client{cfg: cfg, base: cfg.URL, http: client(cfg.TLS)}, nil
	}
	host, port, err := net.SplitHostPort(cfg.Admin)
	if err != nil {
		return nil, fmt.Errorf("admin address %q must be host:port", cfg.Admin)
	}
	addr, err := resolve(host)
	if err != nil {
		return nil, err
	}
	if !addr.IsLoopback() {
		if !slices.Contains(cfg.Allow, host) {
			return nil, fmt.Errorf("%q (%s) is not on this machine; if you may ask it, add -allow %s and its token", host, addr, host)
		}
		if cfg.Token == "" {
			return nil, fmt.Errorf("%q is not on this machine: give the token of listen.token in its settings", host)
		}
	}
	c := &Client{cfg: cfg, base: "http://" + net.JoinHostPort(addr.String(), port)}
	if !addr.IsLoopback() { // there it uses only TLS, and the name is in its certificate
		c.base = "https://" + cfg.Admin
	}
	c.http = client(nil)
	return c, nil
}

// client never sends the token to the target of a redirect.
func client(t *tls.Config) *http.Client {
	return &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{DisableCompression: true, TLSClientConfig: t}}
}

func resolve(host string) (netip.Addr, error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.Unmap(), nil
	}
	ips, err := net.LookupIP(host)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("resolve %q: %w", host, err)
	}
	for _, ip := range ips {
		if v4, ok := netip.AddrFromSlice(ip.To4()); ok {
			return v4, nil
		}
	}
	addr, ok := netip.AddrFromSlice(ips[0])
	if !ok {
		return addr, fmt.Errorf("resolve %q: no usable address", host)
	}
	return addr, nil
}

// get returns the response at a path of the admin address.
func (c *Client) get(ctx context.Context, path string, wait time.Duration, limit int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path, nil)
	if err != nil {
		return nil, err
	}
	if c.cfg.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.cfg.Token)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask the gateway: %w", err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, limit+1))
	if err != nil {
		return nil, fmt.Errorf("read %s of the gateway: %w", path, err)
	}
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s of the gateway: %s: %q", path, res.Status, firstLine(body))
	}
	if int64(len(body)) > limit {
		return nil, fmt.Errorf("%s of the gateway: more than %d bytes; take fewer seconds", path, limit)
	}
	return body, nil
}

func firstLine(b []byte) string {
	line, _, _ := bytes.Cut(b, []byte("\n"))
	return string(line[:min(len(line), 200)])
}

// kind is one profile: its file and where it comes from.
type kind struct {
	file, path string
	seconds    int // duration; 0: immediate
}

func (c *Client) kinds() (together, after []kind) {
	n := c.cfg.Seconds
	together = []kind{
		{"cpu.pprof", fmt.Sprintf("/debug/pprof/profile?seconds=%d", n), n},
		{"block.pprof", fmt.Sprintf("/debug/pprof/block?seconds=%d", n), n},
		{"mutex.pprof", fmt.Sprintf("/debug/pprof/mutex?seconds=%d", n), n},
		{"allocs.pprof", fmt.Sprintf("/debug/pprof/allocs?seconds=%d", n), n},
	}
	t := min(n, maxTrace)
	// Tracing itself uses CPU time, so the CPU profile comes first.
	return together, []kind{
		{"trace.out", fmt.Sprintf("/debug/pprof/trace?seconds=%d", t), t},
		{"heap.pprof", "/debug/pprof/heap", 0},
		{"goroutine.pprof", "/debug/pprof/goroutine", 0},
	}
}

// Fetch fetches all profiles, writes them and their reading into the folder, and returns the
// reading. The reading names profiles that failed; the error means that all failed.
func (c *Client) Fetch(ctx context.Context) (string, error) {
	if err := os.MkdirAll(c.cfg.Dir, 0o755); err != nil {
		return "", fmt.Errorf("make the folder: %w", err)
	}
	together, after := c.kinds()
	type result struct {
		kind
		data []byte
		err  error
	}
	results := make(chan result)
	for _, k := range together {
		go func() {
			data, err := c.fetch(ctx, k)
			results <- result{k, data, err}
		}()
	}
	var all []result
	for range together {
		all = append(all, <-results)
	}
	for _, k := range after {
		data, err := c.fetch(ctx, k)
		all = append(all, result{k, data, err})
	}
	files := map[string][]byte{}
	var errs []error
	for _, r := range all {
		if r.err == nil {
			r.err = os.WriteFile(filepath.Join(c.cfg.Dir, r.file), r.data, 0o644)
		}
		if r.err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", r.file, r.err))
			continue
		}
		files[r.file] = r.data
	}
	if len(files) == 0 {
		return "", errors.Join(errs...)
	}
	text := Reading(files)
	slices.SortStableFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	for _, err := range errs {
		text += fmt.Sprintf("\nnot taken: %v\n", err)
	}
	if err := os.WriteFile(filepath.Join(c.cfg.Dir, "reading.txt"), []byte(text), 0o644); err != nil {
		return "", fmt.Errorf("write the reading: %w", err)
	}
	return text, nil
}

func (c *Client) fetch(ctx context.Context, k kind) ([]byte, error) {
	return c.get(ctx, k.path, time.Duration(k.seconds)*time.Second+30*time.Second, maxBytes)
}
