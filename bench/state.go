package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"shuultuur/lib/redis"
	"shuultuur/tool/load"
)

const stateAbout = "State in Redis against state in memory: learned verdicts and a limit"

// The targets: requests per second of processor time relative to a state in memory, and the
// additional time of 99 % of the requests when Redis is lost.
const (
	stateShare = 0.9
	stateAdded = 5 * time.Millisecond
)

// stateTurn is one round with one store.
type stateTurn struct {
	rate, cost float64 // pages/s, µs of the gateway's processor time per page
	p99        float64 // ms
	failed     int64
	asked      float64 // Redis commands per page
	served     float64 // µs of Redis' processor time per page
}

// stateLoads are the kinds of requests. New pages are each scored; a verdict is looked up and
// one is learned. Known pages have a verdict.
var stateLoads = []string{"known pages", "new pages"}

// shared compares a gateway with its state in Redis to one with its state in memory. Redis
// shares a core with the origin and the load generator.
func shared(ctx context.Context, opt options, out io.Writer) error {
	if _, err := find("redis-server"); err != nil {
		_, err = fmt.Fprintf(out, "### %s\n\n* left out, %v\n\n", stateAbout, err)
		return err
	}
	r, err := newRig(ctx, false)
	if err != nil {
		return err
	}
	defer r.close()
	addr, server, err := r.startRedis(loadCore, "")
	if err != nil {
		return err
	}
	client, err := redis.Connect(ctx, redis.Config{Addresses: []string{addr}}, redis.Options{})
	if err != nil {
		return err
	}
	defer client.Close()
	seen := &observedRedis{server, client}
	var peers []*peer
	for name, settings := range map[string]string{"memory": "{}", "redis": "{redis: {addresses: [\"" + addr + "\"]}}"} {
		p := &peer{name: name, state: settings, limits: "[{requests: 1000000000/1m}]"}
		if err := (&peerRig{r}).beginLearn(p); errors.Is(err, errMissing) {
			_, err = fmt.Fprintf(out, "### %s\n\n* %v\n\n", stateAbout, err)
			return err
		} else if err != nil {
			return err
		}
		peers = append(peers, p)
	}
	slices.SortFunc(peers, func(a, b *peer) int { return strings.Compare(a.name, b.name) })
	if err := r.pinSelf(loadCore); err != nil {
		return err
	}
	turns := map[string][]stateTurn{} // by load and peer
	turn := 0
	for round := range opt.rounds + 1 { // the first round warms up
		for _, what := range stateLoads {
			for i := range peers {
				turn++
				p := peers[(i+round)%2] // each is first in turn
				t, err := r.stateTurn(p, seen, what, turn, opt)
				if err != nil {
					return fmt.Errorf("round %d, %s, %s: %w", round, what, p.name, err)
				}
				if round > 0 {
					turns[what+p.name] = append(turns[what+p.name], t)
				}
			}
		}
		if round == 0 {
			continue
		}
		// The same again, with a Redis that hangs from the middle on.
		turn++
		stopped := make(chan error, 1)
		hang := time.AfterFunc(opt.duration()/4, func() { stopped <- server.cmd.Process.Signal(syscall.SIGSTOP) })
		t, err := r.stateTurn(peers[1], nil, stateLoads[1], turn, opt)
		if !hang.Stop() {
			err = errors.Join(err, <-stopped, server.cmd.Process.Signal(syscall.SIGCONT))
		}
		if err != nil {
			return fmt.Errorf("round %d, with Redis lost: %w", round, err)
		}
		turns["lost"] = append(turns["lost"], t)
		time.Sleep(3 * time.Second) // until it is found again
	}
	return r.printState(out, turns, opt)
}

// An observedRedis is the Redis of a run, observed from outside.
type observedRedis struct {
	*process
	client *redis.Client
}

// commands returns the number of commands that it has received.
func (s *observedRedis) commands(ctx context.Context) (int64, error) {
	var b redis.Batch
	b.Add("INFO", "stats")
	if err := s.client.Do(ctx, &b); err != nil {
		return 0, fmt.Errorf("asking Redis what it did: %w", err)
	}
	text, err := b.Reply(0).Text()
	if err != nil {
		return 0, fmt.Errorf("asking Redis what it did: %w", err)
	}
	_, text, _ = strings.Cut(text, "total_commands_processed:")
	text, _, _ = strings.Cut(text, "\r\n")
	return strconv.ParseInt(text, 10, 64)
}

// stateTurn runs one round; number makes its pages new. seen is nil if Redis cannot be
// observed.
func (r *rig) stateTurn(p *peer, seen *observedRedis, what string, number int, opt options) (t stateTurn, err error) {
	cfg := load.Config{URLs: r.pageURLs(), Parallel: 10, Order: "order", KeepAlive: true, Timeout: 20 * time.Second, Proxy: p.proxy, Duration: opt.duration()}
	if what == stateLoads[1] {
		known := cfg.URLs
		cfg.URLs = nil
		for i := range 100_000 {
			cfg.URLs = append(cfg.URLs, fmt.Sprintf("%s?%d-%d", known[i%len(known)], number, i))
		}
	}
	before := p.proc.cpu()
	var commands int64
	var served time.Duration
	if seen != nil {
		if commands, err = seen.commands(r.ctx); err != nil {
			return t, err
		}
		served = seen.cpu()
	}
	rep, err := r.load(cfg)
	if err != nil {
		return t, err
	}
	spent := p.proc.cpu() - before
	if seen != nil {
		after, err := seen.commands(r.ctx)
		if err != nil {
			return t, err
		}
		t.asked = float64(after-commands) / float64(rep.Fetches)
		t.served = float64((seen.cpu() - served).Microseconds()) / float64(rep.Fetches)
	}
	for _, n := range rep.Errors {
		t.failed += n
	}
	if rep.Fetches == 0 {
		return t, errors.New("nothing was fetched")
	}
	t.rate, t.cost, t.p99 = float64(rep.Fetches)/rep.Seconds, float64(spent.Microseconds())/float64(rep.Fetches), rep.Good.P99
	fmt.Fprintf(os.Stderr, "%-12s %-8s %8.0f pages/s, %6.1f µs, p99 %.2f ms, %d failed, Redis %.3f commands and %.1f µs\n", what, p.name, t.rate, t.cost, t.p99, t.failed, t.asked, t.served)
	p.proc.settle(r.ctx)
	return t, nil
}

func (r *rig) printState(w io.Writer, turns map[string][]stateTurn, opt options) error {
	program, err := find("redis-server")
	if err != nil {
		return err
	}
	rate := func(t stateTurn) float64 { return t.rate }
	cost := func(t stateTurn) float64 { return t.cost }
	p99 := func(t stateTurn) float64 { return t.p99 }
	failed := func(all []stateTurn) (n int64) {
		for _, t := range all {
			n += t.failed
		}
		return n
	}
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n%s. %s\n`go run -C bench . state -rounds %d -seconds %g`: the gateway on one core, redis-server %s, the origin and the load (10 connections) on the other, by turns, medians. \"lost\" is a round in which Redis hangs from its first quarter on. shuultuur %s.\n\n",
		stateAbout, time.Now().UTC().Format("2006-01-02 15:04 MST"), machine("at the end"), opt.rounds, opt.seconds, versionOf(program, []string{"--version"}), r.revision())
	b.WriteString("| load | state | pages/s | CPU µs per page | p99 ms | failed | commands to Redis per page | its CPU µs per page |\n|---|---|--:|--:|--:|--:|--:|--:|\n")
	row := func(what, name string, all []stateTurn) {
		fmt.Fprintf(&b, "| %s | %s | %s | %.1f | %.2f | %d | %.2f | %.1f |\n", what, name, figure(median(all, rate)), median(all, cost), median(all, p99), failed(all),
			median(all, func(t stateTurn) float64 { return t.asked }), median(all, func(t stateTurn) float64 { return t.served }))
	}
	for _, what := range stateLoads {
		for _, name := range []string{"memory", "redis"} {
			row(what, name, turns[what+name])
		}
	}
	row(stateLoads[1], "redis, lost", turns["lost"])
	b.WriteString("\n")
	for _, what := range stateLoads {
		got := median(turns[what+"memory"], cost) / median(turns[what+"redis"], cost)
		clock := median(turns[what+"redis"], rate) / median(turns[what+"memory"], rate)
		fmt.Fprintf(&b, "* target ≥ %g × memory's pages for each second of the processor, %s: %.2f× (by the clock %.2f×): **%s**\n", stateShare, what, got, clock, verdict(got >= stateShare))
	}
	added := median(turns["lost"], p99) - median(turns[stateLoads[1]+"redis"], p99)
	fmt.Fprintf(&b, "* target ≤ %v more at the 99th percentile when Redis is lost: %.2f ms, %d failed: **%s**\n\n", stateAdded, added, failed(turns["lost"]), verdict(added <= float64(stateAdded.Milliseconds()) && failed(turns["lost"]) == 0))
	_, err = io.WriteString(w, b.String())
	return err
}
