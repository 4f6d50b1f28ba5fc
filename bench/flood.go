package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"shuultuur/tool/load"
)

const floodAbout = "A flood of random names for 8 seconds: 400,000 queries without an answer at all times"

const (
	floodWindow  = 400_000
	floodSockets = 16 // also before the flood
	floodTime    = 8 * time.Second
	floodGrowth  = 1.1 // resident memory during the flood relative to that before, at most
	floodGood    = 0.8 // answers per processor time of the server, relative to ordinary load, at least
	floodCalm    = 200 * time.Millisecond
)

// floodRound is one flood on one server.
type floodRound struct {
	peak, goodput float64 // answers/s
	calmCost      float64 // µs of the server's processor time per answer
	wildCost      float64 // the same during the flood
	lost          float64 // share of the flood's queries without an answer
	before, most  float64 // MB resident
	calm          time.Duration
	offered       float64    // queries/s of the flood
	tcp           [2]float64 // ms per query by TCP during the flood: median, p99
}

// flood compares the effect of a flood on us with that on NSD and Knot.
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

// shoot queries p for random names.
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
	rep, err := r.shoot(p, load.DNSConfig{Window: 1024, Sockets: floodSockets, Duration: 3 * time.Second})
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
	byTCP := r.probeTCP(p)
	spent = p.p.cpu()
	rep, err = r.shoot(p, load.DNSConfig{Window: floodWindow, Sockets: floodSockets, Duration: floodTime, Timeout: 2 * time.Second})
	close(stop)
	<-watched
	tcp := <-byTCP
	if err := errors.Join(err, tcp.err); err != nil {
		return f, err
	}
	f.tcp = [2]float64{tcp.Total.P50, tcp.Total.P99}
	f.wildCost = float64((p.p.cpu() - spent).Microseconds()) / float64(rep.Completed)
	f.goodput = float64(rep.Completed) / rep.Seconds
	f.offered = float64(rep.Sent) / rep.Seconds
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

// A probeResult is the result of a probe.
type probeResult struct {
	load.DNSReport
	err error
}

// probeTCP queries p by TCP during a flood, in a separate process, because this one is busy.
func (r *rig) probeTCP(p *authPeer) <-chan probeResult {
	done := make(chan probeResult, 1)
	go func() {
		var got probeResult
		self, err := os.Executable()
		if err == nil {
			var text []byte
			text, err = exec.CommandContext(r.ctx, self, probeTCP, p.addr).Output()
			err = errors.Join(err, json.Unmarshal(text, &got.DNSReport))
		}
		switch n := got.Completed; {
		case err != nil:
			got.err = fmt.Errorf("ask by TCP: %w", err)
		case n == 0 || got.Rcodes["NOERROR"] != n:
			got.err = fmt.Errorf("ask by TCP: %d of %d answered, %v, errors %v", n, got.Sent, got.Rcodes, got.Errors)
		}
		done <- got
	}()
	return done
}

// probe queries a server of zones by TCP 100 times a second, and writes a report.
func probe(ctx context.Context, server string) error {
	runtime.GOMAXPROCS(2) // the schedule blocks one of Go's processors while it sleeps
	q, err := load.ReadQueries(strings.NewReader("h00001.zone0.example A\n"), "probe")
	if err != nil {
		return err
	}
	g, err := load.NewDNS(load.DNSConfig{Server: "tcp://" + server, Queries: q, Rate: 100, Sockets: 1, Duration: floodTime - time.Second, Timeout: 2 * time.Second})
	if err != nil {
		return err
	}
	rep, err := g.Run(ctx)
	if err != nil {
		return err
	}
	return rep.JSON(os.Stdout)
}

func printFlood(w io.Writer, peers []*authPeer, rounds map[string][]floodRound, opt options) error {
	fmt.Fprintf(w, "### %s\n\n", floodAbout)
	fmt.Fprintf(w, "%s. %s\n", time.Now().UTC().Format("2006-01-02 15:04 MST"), machine("at the end"))
	fmt.Fprintf(w, "`go run -C bench . flood -rounds %d`, the zones of \"auth\", every name a new one that does not exist; before it 1024 queries without an answer, in both %d sockets; a query without an answer is given up after 2 s. What has come is read before more is sent: answers that lie unread would be memory that a server on the same machine pays for. At the same time somebody asks by TCP, 100 times a second. Medians; server on core %s, generator on core %s.\n\n",
		opt.rounds, floodSockets, dnsServerCore, dnsGeneratorCore)
	fmt.Fprintln(w, "| server | answers/s before | flood, queries/s | answers/s | unanswered | CPU µs/answer before | during | answers per CPU second, during ÷ before | TCP ms during | p99 | MB resident before | most | growth | calm again after |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
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
		fmt.Fprintf(w, "| %s | %.0f | %.0f | %.0f | %.1f %% | %.2f | %.2f | %.2f | %.1f | %.1f | %.1f | %.1f | %.2f | %.2f s |\n", p.name,
			mid(func(f floodRound) float64 { return f.peak }), mid(func(f floodRound) float64 { return f.offered }), mid(func(f floodRound) float64 { return f.goodput }),
			mid(func(f floodRound) float64 { return 100 * f.lost }), mid(func(f floodRound) float64 { return f.calmCost }), mid(func(f floodRound) float64 { return f.wildCost }), good,
			mid(func(f floodRound) float64 { return f.tcp[0] }), mid(func(f floodRound) float64 { return f.tcp[1] }),
			mid(func(f floodRound) float64 { return f.before }), mid(func(f floodRound) float64 { return f.most }), growth, calm)
		if p.name == "shuultuur" {
			ours = [3]float64{good, growth, calm}
		}
	}
	_, err := fmt.Fprintf(w, "\nThe generator has one core, too: by the clock it is the limit where a server is faster than it. Hence the column by processor time.\n\n* goodput ≥ %g × that before, by processor time: %.2f: **%s**\n* resident memory ≤ %g ×: %.2f: **%s**\n* calm within %v: %.2f s: **%s**\n\n",
		floodGood, ours[0], verdict(ours[0] >= floodGood), floodGrowth, ours[1], verdict(ours[1] <= floodGrowth), floodCalm, ours[2], verdict(ours[2] <= floodCalm.Seconds()))
	return err
}
