package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"shuultuur/tool/load"
)

// window is one round of one peer.
type window struct {
	report *load.Report
	cpu    time.Duration // of the peer's process tree
	peakMB float64       // since the peer was started
}

// turns returns those to measure in their order for a round: there and back, because the first of a
// round has the machine as the last of the round before has left it.
func turns[T any](all []T, round int) []T {
	all = slices.Clone(all)
	if round%2 == 1 {
		slices.Reverse(all)
	}
	return all
}

// measure runs the rounds in turn.
func (r *rig) measure(s scenario, opt options, all []*peer, t *table) error {
	fetches := map[string]int64{}
	for _, p := range all {
		n, err := r.calibrate(s, opt, p)
		if err != nil {
			return fmt.Errorf("warm up %s: %w", p.name, err)
		}
		fetches[p.name] = n
	}
	for round := range opt.rounds {
		for _, p := range turns(all, round) {
			w, err := r.round(s, opt, p, fetches[p.name])
			if err != nil {
				return fmt.Errorf("round %d of %s: %w", round+1, p.name, err)
			}
			fmt.Fprintf(os.Stderr, "round %d %-12s %9.1f %s/s, %.1f µs of processor time each, errors %v\n", round+1, p.name, w.rate(), s.unit, w.perFetch(), w.report.Errors)
			t.add(p, w)
		}
	}
	return nil
}

// calibrate warms a peer up, verifies that it filters under load, and returns the number of
// fetches per round: whole passes over the URLs, so that slow and fast peers carry the same
// mixture.
func (r *rig) calibrate(s scenario, opt options, p *peer) (int64, error) {
	const warm = 700 * time.Millisecond
	cfg := s.load(r, p)
	cfg.Duration = warm
	over := make(chan struct{})
	probed := make(chan error, 1)
	go func() {
		if !p.filters {
			probed <- nil
			return
		}
		probed <- (&verifier{r}).probe(p, over)
	}()
	rep, err := r.load(cfg)
	close(over)
	if err := errors.Join(err, <-probed); err != nil {
		return 0, err
	}
	if p.proc != nil {
		p.proc.settle(r.ctx)
	}
	urls := float64(len(cfg.URLs))
	passes := math.Ceil(float64(rep.Fetches) / rep.Seconds * s.seconds(opt) / urls)
	return max(int64(max(passes, 1)*urls), int64(s.least)), nil
}

// seconds returns the length of a round.
func (s scenario) seconds(opt options) float64 {
	if s.queues {
		return max(opt.seconds, 3*s.timeout.Seconds())
	}
	return opt.seconds
}

// load returns the load for a peer.
func (s scenario) load(r *rig, p *peer) load.Config {
	cfg := load.Config{
		URLs: s.urls(r), Parallel: s.connections, Order: "order", KeepAlive: !s.anew,
		Timeout: s.timeout, Header: s.header, Proxy: p.proxy, Tunnel: s.tunnel && p.proxy != "",
	}
	if r.certs != nil {
		cfg.Roots = r.certs.roots
	}
	if s.anew { // the same work for all: most peers know no ML-KEM
		cfg.Groups = []tls.CurveID{tls.X25519}
	}
	switch {
	case s.tunnel && p.relay != "":
		cfg.Proxy, cfg.Tunnel = "", false
		for i, u := range cfg.URLs {
			cfg.URLs[i] = strings.Replace(u, r.origin, p.relay, 1)
		}
	case p.bridge != "":
		cfg.Proxy = ""
		for i, u := range cfg.URLs {
			cfg.URLs[i] = strings.Replace(u, r.base(), p.bridge, 1)
		}
	}
	return cfg
}

func (r *rig) load(cfg load.Config) (*load.Report, error) {
	g, err := load.New(cfg)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	rep, err := g.Run(ctx)
	if err == nil {
		err = r.ctx.Err()
	}
	return rep, err
}

func (r *rig) round(s scenario, opt options, p *peer, fetches int64) (window, error) {
	cfg := s.load(r, p)
	cfg.Fetches, cfg.Duration = fetches, s.most
	for s.first && int64(len(cfg.URLs)) < fetches {
		cfg.URLs = append(cfg.URLs, s.load(r, p).URLs...)
	}
	if s.queues { // a fixed number would end a round early if it is faster than the warm-up
		cfg.Fetches, cfg.Duration = 0, time.Duration(s.seconds(opt)*float64(time.Second))
	}
	var before time.Duration
	if p.proc != nil {
		before = p.proc.cpu()
	}
	profiled := make(chan error, 1)
	if opt.profile != "" && p.admin != "" {
		go func() {
			profiled <- profile(r.ctx, "http://"+p.admin, s.seconds(opt), filepath.Join(opt.profile, s.name+"-"+p.name+".pprof"))
		}()
	} else {
		profiled <- nil
	}
	rep, err := r.load(cfg)
	if err := errors.Join(err, <-profiled); err != nil {
		return window{}, err
	}
	w := window{report: rep}
	if p.proc == nil {
		return w, nil
	}
	w.cpu, w.peakMB = p.proc.cpu()-before, p.proc.peakMB()
	select {
	case <-p.proc.done:
		return w, fmt.Errorf("the peer has ended:\n%s", p.proc.tail())
	default:
	}
	p.proc.settle(r.ctx)
	return w, nil
}

// profile writes the gateway's CPU profile of some seconds to a file.
func profile(ctx context.Context, admin string, seconds float64, file string) error {
	get, err := http.NewRequestWithContext(ctx, "GET", fmt.Sprintf("%s/debug/pprof/profile?seconds=%.0f", admin, math.Ceil(seconds)), nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(get)
	if err != nil {
		return fmt.Errorf("asking for a CPU profile: %w", err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %.200s", res.Status, b)
	}
	if err != nil {
		return fmt.Errorf("asking for a CPU profile: %w", err)
	}
	return os.WriteFile(file, b, 0o644)
}

func (w window) rate() float64 { return float64(w.report.Fetches) / w.report.Seconds }

// perFetch returns the processor time per fetch in microseconds.
func (w window) perFetch() float64 {
	if w.report.Fetches == 0 {
		return math.NaN()
	}
	return float64(w.cpu.Microseconds()) / float64(w.report.Fetches)
}
