// Command bench compares Shuultuur with widely used proxies on the machine on which it runs:
// go run -C bench . NAME.
//
// A rig (rig.go) is a temporary folder with an nginx that serves the pages and one process per
// peer (peers.go, shuultuur.go). The load generator (this process) and nginx share core 0, the
// proxies core 1. Before any measurement every peer is verified: the pages must arrive
// complete, and filtering peers must block a page of bad words (verify.go); a subject that
// does not do the work ends the run. Then rounds are interleaved, A B C C B A, each with a
// fixed number of fetches, so that all peers carry the same pages. Medians go into a table
// (table.go) with the processor time of each peer's process tree, which is the more reliable
// figure on a busy machine.
//
// It needs Linux (/proc), taskset and nginx. Peers that are not installed are listed as
// missing. Pages come from the folder pages in $SHUULTUUR_DATA.
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// scenario is one benchmark: requests and their kind.
type scenario struct {
	name, about string
	unit        string // name of one fetch, in the plural
	connections int
	header      []string
	tunnel      bool
	tls         bool   // the origin uses TLS and every peer decrypts it
	signIn      string // how ours knows the client, as [signedIn] has it; "" for not at all
	anew        bool   // a new connection for each fetch
	urls        func(*rig) []string
	timeout     time.Duration // of one fetch, in total
	first       bool          // each fetch of a page is the first: urls makes new addresses each time
	short       bool          // part of the short run
	queues      bool          // requests wait for each other: a round lasts three times timeout, so that no timeout stays hidden
	peers       string        // measured unless others are asked for; "" for all
	least       int           // fetches in a round, however slow the peer
	most        time.Duration // for a round, however slow the peer
	targets     []target
}

const (
	few  = "direct,shuultuur,squid,haproxy"
	long = "direct,shuultuur,e2guardian,squid,haproxy" // privoxy passes long pages unread
)

// scenarios returns the benchmarks by their command line names.
func scenarios() []scenario {
	return []scenario{
		{
			name: "pages", about: "Filtered pages, identity", unit: "pages", connections: 10, urls: (*rig).pageURLs,
			timeout: 20 * time.Second, most: 60 * time.Second,
			targets: []target{{"e2guardian", perCore, 40}, {"haproxy", perCore, 0.35}}, short: true,
		},
		{
			name: "browsing", about: "Browsing: 20 people, each on a site of 30 pages, first visits", unit: "pages", connections: sites, urls: (*rig).visitURLs,
			timeout: 20 * time.Second, most: 60 * time.Second, first: true,
			targets: []target{{"e2guardian", perCore, 40}, {"haproxy", perCore, 0.45}}, short: true,
		},
		{
			name: "gzip", about: "Filtered pages, compressed by the origin (client accepts gzip)", unit: "pages", connections: 10, urls: (*rig).pageURLs,
			header: []string{"Accept-Encoding: gzip"}, timeout: 20 * time.Second, most: 60 * time.Second,
			targets: []target{{"e2guardian", perCore, 40}, {"haproxy", perCore, 0.25}, {"squid", cpuPerFetch, 1}}, short: true,
		},
		{
			name: "large", about: "A page of 2 MB, identity", unit: "pages", connections: 4, urls: (*rig).largeURLs,
			peers: long, timeout: 60 * time.Second, least: 4, most: 60 * time.Second,
			targets: []target{{"e2guardian", perCore, 40}, {"haproxy", perCore, 0.5}},
		},
		{
			name: "large-gzip", about: "A page of 2 MB, compressed by the origin", unit: "pages", connections: 4, urls: (*rig).largeURLs,
			header: []string{"Accept-Encoding: gzip"}, peers: long, timeout: 60 * time.Second, least: 4, most: 60 * time.Second,
			targets: []target{{"squid", cpuPerFetch, 2.2}},
		},
		{
			name: "larger", about: "A page of 20 MB, identity", unit: "pages", connections: 2, urls: (*rig).largerURLs,
			peers: long, timeout: 120 * time.Second, least: 2, most: 120 * time.Second,
			targets: []target{{"haproxy", perCore, 0.5}},
		},
		{
			name: "larger-gzip", about: "A page of 20 MB, compressed by the origin", unit: "pages", connections: 2, urls: (*rig).largerURLs,
			header: []string{"Accept-Encoding: gzip"}, peers: long, timeout: 120 * time.Second, least: 2, most: 120 * time.Second,
			targets: []target{{"squid", cpuPerFetch, 2.2}},
		},
		{
			name: "small", about: "1 KiB page, kept-alive connections", unit: "requests", connections: 10, urls: (*rig).smallURLs,
			timeout: 10 * time.Second, most: 20 * time.Second,
			targets: []target{{"squid", perCore, 1}, {"haproxy", perCore, 0.7}}, short: true,
		},
		{
			name: "connections", about: "Filtered pages, 500 connections, 10 s time-out", unit: "pages", connections: 500, urls: (*rig).pageURLs,
			timeout: 10 * time.Second, queues: true, peers: few, least: 1000, most: 40 * time.Second,
			targets: []target{{"", noErrors, 0}, {"", p99, 1000}, {"", residentMB, 150}},
		},
		{
			name: "crowd", about: "1 KiB page, 5,000 connections of one client, 10 s time-out", unit: "requests", connections: 5000, urls: (*rig).smallURLs,
			timeout: 10 * time.Second, queues: true, peers: few, least: 10_000, most: 40 * time.Second,
			targets: []target{{"", noErrors, 0}, {"", p99, 2500}, {"squid", perCore, 1}},
		},
		{
			name: "tunnel", about: "CONNECT tunnel, 100 MB file, 2 connections", unit: "files", connections: 2, urls: (*rig).bigURLs,
			tunnel: true, timeout: 20 * time.Second, least: 4, most: 30 * time.Second,
			targets: []target{{"squid", cpuPerFetch, 0.5}},
		},
		{
			name: "tls-new", about: "TLS looked into, a new connection with X25519 for each 1 KiB page", unit: "connections", connections: 10, urls: (*rig).smallURLs,
			tls: true, anew: true, timeout: 10 * time.Second, most: 20 * time.Second,
			targets: []target{{"squid", perCore, 1.5}, {"haproxy", cpuPerFetch, 1}}, short: true,
		},
		{
			name: "tls-small", about: "TLS looked into, 1 KiB page, kept-alive connections", unit: "requests", connections: 10, urls: (*rig).smallURLs,
			tls: true, timeout: 10 * time.Second, most: 20 * time.Second,
			targets: []target{{"squid", perCore, 1.2}}, short: true,
		},
		{
			name: "tls-pages", about: "TLS looked into, filtered pages, identity", unit: "pages", connections: 10, urls: (*rig).pageURLs,
			tls: true, timeout: 20 * time.Second, most: 60 * time.Second,
			targets: []target{{"e2guardian", perCore, 40}},
		},
		signedIn("password-pages", "Filtered pages, name and password with each request", byPassword, (*rig).pageURLs),
		signedIn("password-small", "1 KiB page, name and password with each request", byPassword, (*rig).smallURLs),
		signedIn("session-pages", "Filtered pages, signed in on the portal", bySession, (*rig).pageURLs),
		signedIn("session-small", "1 KiB page, signed in on the portal", bySession, (*rig).smallURLs),
		signedIn("ticket-pages", "Filtered pages, a ticket with the first request of each connection", byTicket, (*rig).pageURLs),
		signedIn("ticket-small", "1 KiB page, a ticket with the first request of each connection", byTicket, (*rig).smallURLs),
		signedIn("certificate-pages", "Filtered pages, a certificate in TLS to the proxy", byCertificate, (*rig).pageURLs),
		signedIn("certificate-small", "1 KiB page, a certificate in TLS to the proxy", byCertificate, (*rig).smallURLs),
	}
}

// options are the command line flags.
type options struct {
	rounds  int
	seconds float64
	peers   string
	profile string // folder for CPU profiles of ours, "" for none
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	var opt options
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.Usage = func() {
		fmt.Fprintln(fs.Output(), "usage: go run -C bench . NAME [flags]\n\nNAME is one of:")
		for _, b := range benchmarks() {
			fmt.Fprintf(fs.Output(), "  %-16s %s\n", b.name, b.about)
		}
		fmt.Fprintf(fs.Output(), "  %-16s %s\n  %-16s %s\n  %-16s %s\n\n", "all", "All of them, one after another: docs/benchmarks.md", "short", "Those that show most, with short rounds",
			"compare COMMIT", "This tree and that of another commit, by turns; more arguments name benchmarks")
		fs.PrintDefaults()
	}
	fs.IntVar(&opt.rounds, "rounds", 3, "measure each peer `N` times, by turns")
	fs.Float64Var(&opt.seconds, "seconds", 2, "make a round last about `N` seconds (at least once all pages; 30 s where requests queue)")
	output := fs.String("o", "", "write the tables to `file` as well, when all has gone well")
	fs.StringVar(&opt.peers, "peers", "", "measure these, by `names` with commas: "+strings.Join(peerNames(), ","))
	fs.StringVar(&opt.profile, "profile", "", "keep CPU profiles of ours, one for each benchmark with pages or requests, in this `folder`")
	if len(args) > 1 && slices.Contains([]string{serveZones, serveFloor, serveRedis, serveUpstream, probeTCP, serveVotes}, args[0]) {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		return serve(ctx, args)
	}
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		fs.Usage()
		return errors.New("which benchmark?")
	}
	if err := fs.Parse(args[1:]); err != nil {
		return err
	}
	if opt.rounds < 1 || opt.rounds > 100 || opt.seconds <= 0 || opt.seconds > 600 {
		return errors.New("rounds must be 1 to 100, seconds more than 0 and at most 600")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	switch name := args[0]; name {
	case "all":
		return writePageOfFigures(ctx, benchmarks(), opt, *output)
	case "short":
		return writePageOfFigures(ctx, slices.DeleteFunc(benchmarks(), func(b benchmark) bool { return !b.short }), opt, *output)
	case "compare":
		return compareCommits(ctx, fs.Args(), opt)
	default:
		all := benchmarks()
		i := slices.IndexFunc(all, func(b benchmark) bool { return b.name == name })
		if i < 0 {
			return fmt.Errorf("benchmark %q is unknown; -h lists them", name)
		}
		var tables bytes.Buffer
		if err := all[i].run(ctx, opt, io.MultiWriter(os.Stdout, &tables)); err != nil {
			return fmt.Errorf("benchmark %s: %w", name, err)
		}
		if *output == "" {
			return nil
		}
		return os.WriteFile(*output, tables.Bytes(), 0o644)
	}
}

// compare runs one scenario with all peers and prints its table to out.
func compare(ctx context.Context, s scenario, opt options, out io.Writer) error {
	opt.peers = cmp.Or(opt.peers, s.peers, strings.Join(usualPeers(), ","))
	r, err := newRig(ctx, s.tls)
	if err != nil {
		return err
	}
	defer r.close()
	r.signIn = s.signIn
	if s.first {
		if err := (&peerRig{r}).layOutSites(); err != nil {
			return err
		}
	}
	peers, missing, err := (&peerRig{r}).startPeers(strings.Split(opt.peers, ","))
	if err != nil {
		return err
	}
	if err := r.pinSelf(loadCore); err != nil {
		return err
	}
	notes, err := (&verifier{r}).verify(peers, s)
	if err != nil {
		return err
	}
	t := newTable(s, opt, peers)
	t.notes = slices.Concat(missing, notes)
	if err := r.measure(s, opt, peers, t); err != nil {
		return err
	}
	return t.print(out)
}
