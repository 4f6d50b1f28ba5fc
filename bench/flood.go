package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"shuultuur/load"
)

const floodAbout = "A flood of random names for 8 seconds: 400,000 queries without an answer at all times"

const (
	floodWindow = 400_000
	floodTime   = 8 * time.Second
	floodGrowth = 1.1 // resident memory during it, to that before, at most
	floodGood   = 0.8 // answers for the server's processor time, to those at an ordinary window, at least
	floodCalm   = 200 * time.Millisecond
)

// floodRound is one flood on one server.
type floodRound struct {
	peak, goodput float64 // answers/s
	calmCost      float64 // µs of the server's processor time for an answer
	wildCost      float64 // the same during the flood
	lost          float64 // share of the flood's queries without an answer
	before, most  float64 // MB resident
	calm          time.Duration
}

// flood sets what a flood does to us beside what it does to NSD and Knot.
func flood(ctx context.Context, opt options, out io.Writer) error {
	r, err := newNameRig(ctx, out, floodAbout, "nsd", "knotd", "taskset")
	if err != nil || r == nil {
		return err
	}
	defer r.close()
	queries, err := r.writeZones()
	if err != nil {
		return err
	}
	if err := r.pinSelf(dnsGeneratorCore); err != nil {
		return err
	}
	var peers []*authPeer
	rounds := map[string][]floodRound{}
	for _, name := range []string{"shuultuur", "nsd", "knot"} {
		p, err := r.startAuth(name, queries)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		peers = append(peers, p)
	}
	for range opt.rounds {
		for _, p := range peers {
			f, err := r.floodRound(p)
			if err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			fmt.Fprintf(os.Stderr, "%-10s peak %.0f, goodput %.0f, %.1f → %.1f MB, calm after %v\n", p.name, f.peak, f.goodput, f.before, f.most, f.calm)
			rounds[p.name] = append(rounds[p.name], f)
		}
	}
	return printFlood(out, peers, rounds, opt)
}

// shoot asks p for random names.
func (r *rig) shoot(p *authPeer, cfg load.DNSConfig) (*load.DNSReport, error) {
	var err error
	if cfg.Queries, err = load.RandomQueries("zone0.example", "A"); err != nil {
		return nil, err
	}
	cfg.Random, cfg.Server, cfg.Seed = true, p.addr, uint64(time.Now().UnixNano())
	g, err := load.NewDNS(cfg)
	if err != nil {
		return nil, err
	}
	rep, err := g.Run(r.ctx)
	return rep, errors.Join(err, r.ctx.Err())
}

func (r *rig) floodRound(p *authPeer) (f floodRound, err error) {
	spent := p.p.cpu()
	rep, err := r.shoot(p, load.DNSConfig{Window: 1024, Sockets: 8, Duration: 3 * time.Second})
	if err != nil {
		return f, err
	}
	f.calmCost = float64((p.p.cpu() - spent).Microseconds()) / float64(rep.Completed)
	f.peak = float64(rep.Completed) / rep.Seconds
	f.before = p.p.residentMB()
	stop, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		for {
			f.most = max(f.most, p.p.residentMB())
			select {
			case <-stop:
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	spent = p.p.cpu()
	rep, err = r.shoot(p, load.DNSConfig{Window: floodWindow, Sockets: 16, Duration: floodTime, Timeout: 2 * time.Second})
	close(stop)
	<-watched
	if err != nil {
		return f, err
	}
	f.wildCost = float64((p.p.cpu() - spent).Microseconds()) / float64(rep.Completed)
	f.goodput = float64(rep.Completed) / rep.Seconds
	f.lost = 1 - float64(rep.Completed)/float64(rep.Sent)
	begun := time.Now()
	for {
		rep, err := r.shoot(p, load.DNSConfig{Window: 1, Sockets: 1, Count: 5, Timeout: 50 * time.Millisecond})
		if err != nil {
			return f, err
		}
		if rep.Completed == 5 {
			break
		}
		if f.calm = time.Since(begun); f.calm > 20*time.Second {
			break
		}
	}
	p.p.settle(r.ctx)
	return f, nil
}

func printFlood(w io.Writer, peers []*authPeer, rounds map[string][]floodRound, opt options) error {
	fmt.Fprintf(w, "### %s\n\n", floodAbout)
	fmt.Fprintf(w, "%s. %s\n", time.Now().UTC().Format("2006-01-02 15:04 MST"), machine())
	fmt.Fprintf(w, "`go run ./bench flood -rounds %d`, the zones of \"auth\", every name a new one that does not exist; medians; server on core %s, generator on core %s.\n\n",
		opt.rounds, dnsServerCore, dnsGeneratorCore)
	fmt.Fprintln(w, "| server | answers/s before | during | CPU µs/answer before | during | answers per CPU second, during ÷ before | unanswered | MB resident before | most | growth | calm again after |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
	var ours [3]float64
	for _, p := range peers {
		mid := func(of func(floodRound) float64) float64 {
			var all []float64
			for _, f := range rounds[p.name] {
				all = append(all, of(f))
			}
			slices.Sort(all)
			return middle(all)
		}
		good, growth := mid(func(f floodRound) float64 { return f.calmCost / f.wildCost }), mid(func(f floodRound) float64 { return f.most / f.before })
		calm := mid(func(f floodRound) float64 { return f.calm.Seconds() })
		fmt.Fprintf(w, "| %s | %.0f | %.0f | %.2f | %.2f | %.2f | %.1f %% | %.1f | %.1f | %.2f | %.2f s |\n", p.name,
			mid(func(f floodRound) float64 { return f.peak }), mid(func(f floodRound) float64 { return f.goodput }),
			mid(func(f floodRound) float64 { return f.calmCost }), mid(func(f floodRound) float64 { return f.wildCost }), good, mid(func(f floodRound) float64 { return 100 * f.lost }),
			mid(func(f floodRound) float64 { return f.before }), mid(func(f floodRound) float64 { return f.most }), growth, calm)
		if p.name == "shuultuur" {
			ours = [3]float64{good, growth, calm}
		}
	}
	_, err := fmt.Fprintf(w, "\nThe generator has one core, too: by the clock it is the limit where a server is faster than it. Hence the column by processor time.\n\n* goodput ≥ %g × that before, by processor time: %.2f: **%s**\n* resident memory ≤ %g ×: %.2f: **%s**\n* calm within %v: %.2f s: **%s**\n\n",
		floodGood, ours[0], verdict(ours[0] >= floodGood), floodGrowth, ours[1], verdict(ours[1] <= floodGrowth), floodCalm, ours[2], verdict(ours[2] <= floodCalm.Seconds()))
	return err
}
