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
	http2Target = 1.5 // relative to HTTP/1's processor time per request, at most
	http2Growth = 1.1 // relative to the memory after the first rounds, at most
)

// An http2Round is the cost of requests in one round, and the gateway's memory after it.
type http2Round struct{ cost, rate, memory float64 }

// clients2 requests the same page from the gateway with both versions in turn. It has many
// short rounds, so that other work on the machine affects both.
func clients2(ctx context.Context, opt options, out io.Writer) error {
	r, err := newRig(ctx, true)
	if err != nil {
		return err
	}
	defer r.close()
	found, missing, err := (&peerRig{r}).startPeers([]string{subject})
	if err != nil {
		return err
	}
	if len(found) == 0 {
		_, err = fmt.Fprintf(out, "### %s\n\n%s\n\n", http2About, strings.Join(missing, "; "))
		return err
	}
	p := found[0]
	if err := r.pinSelf(loadCore); err != nil {
		return err
	}
	var all [2][]http2Round
	for round := range opt.rounds + 1 { // the first round fills the pools, and is not counted
		for v := range all {
			before := p.proc.cpu()
			rep, err := r.load(load.Config{
				URLs: r.smallURLs(), Parallel: 10, Order: "order", KeepAlive: true, HTTP2: v == 1, Proxy: p.proxy,
				Roots: r.certs.roots, Timeout: 10 * time.Second, Duration: opt.duration(),
			})
			if err != nil {
				return err
			}
			if len(rep.Errors) > 0 || rep.Fetches == 0 {
				return fmt.Errorf("HTTP/%d: %d fetches, errors %v", v+1, rep.Fetches, rep.Errors)
			}
			spent := p.proc.cpu() - before
			p.proc.settle(r.ctx)
			if round > 0 {
				all[v] = append(all[v], http2Round{float64(spent.Microseconds()) / float64(rep.Fetches), float64(rep.Fetches) / rep.Seconds, p.proc.residentMB()})
			}
		}
	}
	return r.printClients2(out, all, opt)
}

func (r *rig) printClients2(out io.Writer, all [2][]http2Round, opt options) error {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n%s. %s\n`go run -C bench . http2 -rounds %d -seconds %g`: 10 connections with one request at a time each, the gateway on one core, load and nginx on the other, by turns, medians and the range over the rounds. shuultuur %s.\n\n| towards the client | requests/s | CPU µs per request | range | MB resident after the first round | after the last |\n|---|--:|--:|--:|--:|--:|\n",
		http2About, time.Now().UTC().Format("2006-01-02 15:04 MST"), machine(), opt.rounds, opt.seconds, r.revision())
	for v, rounds := range all {
		low, high := math.Inf(1), 0.0
		for _, x := range rounds {
			low, high = min(low, x.cost), max(high, x.cost)
		}
		fmt.Fprintf(&b, "| HTTP/%d | %s | %.1f | %.1f to %.1f | %.0f | %.0f |\n", v+1, figure(median(rounds, func(x http2Round) float64 { return x.rate })),
			median(rounds, func(x http2Round) float64 { return x.cost }), low, high, rounds[0].memory, rounds[len(rounds)-1].memory)
	}
	var each []float64
	for i := range all[0] {
		each = append(each, all[1][i].cost/all[0][i].cost)
	}
	slices.Sort(each)
	growth := all[1][len(each)-1].memory / all[1][0].memory
	fmt.Fprintf(&b, "\n* target ≤ %g × HTTP/1's processor time for a request: %.2f× (%.2f to %.2f over the rounds): **%s**\n", http2Target, middle(each), each[0], each[len(each)-1], verdict(middle(each) <= http2Target))
	fmt.Fprintf(&b, "* memory after the last round ≤ %g × that after the first: %.2f×: **%s**\n\n", http2Growth, growth, verdict(growth <= http2Growth))
	_, err := io.WriteString(out, b.String())
	return err
}
