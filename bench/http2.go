package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"shuultuur/tool/load"
)

const http2About = "HTTP/2 towards clients beside HTTP/1, TLS looked into, 1 KiB page"

const (
	http2Target = 1.2 // relative to HTTP/1's processor time per request, at most
	http2Growth = 1.1 // relative to the memory after the first rounds, at most
)

// An http2Round is the cost of requests in one round, and the peer's memory after it.
type http2Round struct{ cost, rate, memory float64 }

// An http2Row is one peer, and what its rounds with HTTP/1 and with HTTP/2 cost.
type http2Row struct {
	*peer
	rounds [2][]http2Round
}

// clients2 requests the same page from the gateway, and from haproxy as a bridge, with both
// versions in turn. It has many short rounds, so that other work on the machine affects all.
func clients2(ctx context.Context, opt options, out io.Writer) error {
	r, err := newRig(ctx, true)
	if err != nil {
		return err
	}
	defer r.close()
	found, missing, err := (&peerRig{r}).startPeers([]string{subject, "haproxy"})
	if err != nil {
		return err
	}
	if len(found) == 0 || found[0].name != subject {
		_, err = fmt.Fprintf(out, "### %s\n\n%s\n\n", http2About, leftOut(missing))
		return err
	}
	if err := r.pinSelf(loadCore); err != nil {
		return err
	}
	var all []*http2Row
	for _, p := range found {
		all = append(all, &http2Row{peer: p})
	}
	for round := range opt.rounds + 1 { // the first round fills the pools, and is not counted
		for v := range 2 {
			for _, row := range turns(all, round) {
				got, err := (&socketRig{r}).roundOf2(row.peer, v == 1, opt)
				if err != nil {
					return fmt.Errorf("%s, HTTP/%d: %w", row.name, v+1, err)
				}
				if round > 0 {
					row.rounds[v] = append(row.rounds[v], got)
				}
			}
		}
	}
	return (&socketRig{r}).printClients2(out, all, missing, opt)
}

// roundOf2 requests the page from one peer for one round.
func (r *socketRig) roundOf2(p *peer, two bool, opt options) (http2Round, error) {
	cfg := load.Config{
		URLs: r.smallURLs(), Parallel: 10, Order: "order", KeepAlive: true, HTTP2: two, Proxy: p.proxy,
		Roots: r.certs.roots, Timeout: 10 * time.Second, Duration: opt.duration(),
	}
	if p.bridge != "" {
		cfg.Proxy, cfg.URLs = "", []string{strings.Replace(cfg.URLs[0], r.base(), p.bridge, 1)}
	}
	before := p.proc.cpu()
	rep, err := r.load(cfg)
	if err != nil {
		return http2Round{}, err
	}
	if len(rep.Errors) > 0 || rep.Fetches == 0 {
		return http2Round{}, fmt.Errorf("%d fetches, errors %v", rep.Fetches, rep.Errors)
	}
	spent := p.proc.cpu() - before
	p.proc.settle(r.ctx)
	return http2Round{float64(spent.Microseconds()) / float64(rep.Fetches), float64(rep.Fetches) / rep.Seconds, p.proc.residentMB()}, nil
}

func (r *socketRig) printClients2(out io.Writer, all []*http2Row, missing []string, opt options) error {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n%s. %s\n`go run -C bench . http2 -rounds %d -seconds %g`: 10 connections with one request at a time each, the peer on one core, load and nginx on the other, by turns, medians and the range over the rounds. haproxy is a bridge, which decrypts and encrypts again. shuultuur %s.\n\n| towards the client | requests/s | CPU µs per request | range | MB resident after the first round | after the last |\n|---|--:|--:|--:|--:|--:|\n",
		http2About, time.Now().UTC().Format("2006-01-02 15:04 MST"), machine("at the end"), opt.rounds, opt.seconds, r.revision())
	for v := range 2 {
		for _, row := range all {
			rounds := row.rounds[v]
			low, high := math.Inf(1), 0.0
			for _, x := range rounds {
				low, high = min(low, x.cost), max(high, x.cost)
			}
			fmt.Fprintf(&b, "| HTTP/%d, %s | %s | %.1f | %.1f to %.1f | %.0f | %.0f |\n", v+1, row.name, figure(median(rounds, func(x http2Round) float64 { return x.rate })),
				median(rounds, func(x http2Round) float64 { return x.cost }), low, high, rounds[0].memory, rounds[len(rounds)-1].memory)
		}
	}
	ours := all[0].rounds
	relative := func(of, to []http2Round) string {
		var each []float64
		for i := range of {
			each = append(each, of[i].cost/to[i].cost)
		}
		slices.Sort(each)
		return fmt.Sprintf("%.2f×%s", middle(each), spread(each, 2))
	}
	cost := func(x http2Round) float64 { return x.cost }
	growth := ours[1][opt.rounds-1].memory / ours[1][0].memory
	fmt.Fprintf(&b, "\n* target ≤ %g × HTTP/1's processor time for a request: %s: **%s**\n", http2Target, relative(ours[1], ours[0]), verdict(median(ours[1], cost) <= http2Target*median(ours[0], cost)))
	fmt.Fprintf(&b, "* memory after the last round ≤ %g × that after the first: %.2f×: **%s**\n", http2Growth, growth, verdict(growth <= http2Growth))
	for _, row := range all[1:] {
		fmt.Fprintf(&b, "* relative to %s, HTTP/1: %s, HTTP/2: %s\n", row.name, relative(ours[0], row.rounds[0]), relative(ours[1], row.rounds[1]))
	}
	fmt.Fprintf(&b, "%s\n", leftOut(missing))
	_, err := io.WriteString(out, b.String())
	return err
}
