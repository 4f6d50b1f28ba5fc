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
	tls         bool // the origin uses TLS and every peer decrypts it
	anew        bool // a new connection for each fetch
	urls        func(*rig) []string
	timeout     time.Duration // of one fetch, in total
	queues      bool          // requests wait for each other: a round lasts three times timeout, so that no timeout stays hidden
	least       int           // fetches in a round, however slow the peer
	most        time.Duration // for a round, however slow the peer
	targets     []target
}

// scenarios returns the benchmarks by their command line names.
func scenarios() []scenario {
	return []scenario{
		{
			name: "pages", about: "Filtered pages, identity", unit: "pages", connections: 10, urls: (*rig).pageURLs,
			timeout: 20 * time.Second, most: 60 * time.Second,
			targets: []target{{"e2guardian", perCore, 40}, {"haproxy", perCore, 0.5}},
		},
		{
			name: "gzip", about: "Filtered pages, compressed by the origin (client accepts gzip)", unit: "pages", connections: 10, urls: (*rig).pageURLs,
			header: []string{"Accept-Encoding: gzip"}, timeout: 20 * time.Second, most: 60 * time.Second,
			targets: []target{{"e2guardian", perCore, 40}, {"haproxy", perCore, 0.25}, {"squid", cpuPerFetch, 2.2}},
		},
		{
			name: "large", about: "A page of 2 MB, identity", unit: "pages", connections: 4, urls: (*rig).largeURLs,
			timeout: 60 * time.Second, least: 4, most: 60 * time.Second,
			targets: []target{{"e2guardian", perCore, 40}, {"haproxy", perCore, 0.5}},
		},
		{
			name: "large-gzip", about: "A page of 2 MB, compressed by the origin", unit: "pages", connections: 4, urls: (*rig).largeURLs,
			header: []string{"Accept-Encoding: gzip"}, timeout: 60 * time.Second, least: 4, most: 60 * time.Second,
			targets: []target{{"squid", cpuPerFetch, 2.2}},
		},
		{
			name: "larger", about: "A page of 20 MB, identity", unit: "pages", connections: 2, urls: (*rig).largerURLs,
			timeout: 120 * time.Second, least: 2, most: 120 * time.Second,
			targets: []target{{"haproxy", perCore, 0.5}},
		},
		{
			name: "larger-gzip", about: "A page of 20 MB, compressed by the origin", unit: "pages", connections: 2, urls: (*rig).largerURLs,
			header: []string{"Accept-Encoding: gzip"}, timeout: 120 * time.Second, least: 2, most: 120 * time.Second,
			targets: []target{{"squid", cpuPerFetch, 2.2}},
		},
		{
			name: "small", about: "1 KiB page, kept-alive connections", unit: "requests", connections: 10, urls: (*rig).smallURLs,
			timeout: 10 * time.Second, most: 20 * time.Second,
			targets: []target{{"squid", perCore, 1}},
		},
		{
			name: "connections", about: "Filtered pages, 500 connections, 10 s time-out", unit: "pages", connections: 500, urls: (*rig).pageURLs,
			timeout: 10 * time.Second, queues: true, least: 1000, most: 40 * time.Second,
			targets: []target{{"", noErrors, 0}, {"", p99, 1000}, {"", residentMB, 150}},
		},
		{
			name: "crowd", about: "1 KiB page, 5,000 connections of one client, 10 s time-out", unit: "requests", connections: 5000, urls: (*rig).smallURLs,
			timeout: 10 * time.Second, queues: true, least: 10_000, most: 40 * time.Second,
			targets: []target{{"", noErrors, 0}, {"", p99, 2500}, {"squid", perCore, 1}},
		},
		{
			name: "tunnel", about: "CONNECT tunnel, 100 MB file, 2 connections", unit: "files", connections: 2, urls: (*rig).bigURLs,
			tunnel: true, timeout: 20 * time.Second, least: 4, most: 30 * time.Second,
			targets: []target{{"squid", cpuPerFetch, 0.5}},
		},
		{
			name: "tls-new", about: "TLS looked into, a new connection for each 1 KiB page", unit: "connections", connections: 10, urls: (*rig).smallURLs,
			tls: true, anew: true, timeout: 10 * time.Second, most: 20 * time.Second,
			targets: []target{{"squid", perCore, 1.5}},
		},
		{
			name: "tls-small", about: "TLS looked into, 1 KiB page, kept-alive connections", unit: "requests", connections: 10, urls: (*rig).smallURLs,
			tls: true, timeout: 10 * time.Second, most: 20 * time.Second,
			targets: []target{{"squid", perCore, 1.2}},
		},
		{
			name: "tls-pages", about: "TLS looked into, filtered pages, identity", unit: "pages", connections: 10, urls: (*rig).pageURLs,
			tls: true, timeout: 20 * time.Second, most: 60 * time.Second,
			targets: []target{{"e2guardian", perCore, 40}},
		},
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
		for _, s := range scenarios() {
			fmt.Fprintf(fs.Output(), "  %-12s %s\n", s.name, s.about)
		}
		for _, b := range others() {
			fmt.Fprintf(fs.Output(), "  %-12s %s\n", b.name, b.about)
		}
		fmt.Fprintf(fs.Output(), "  %-12s %s\n\n", "all", "All of them, one after another")
		fs.PrintDefaults()
	}
	fs.IntVar(&opt.rounds, "rounds", 3, "measure each peer `N` times, by turns")
	fs.Float64Var(&opt.seconds, "seconds", 2, "make a round last about `N` seconds (at least once all pages; 30 s where requests queue)")
	output := fs.String("o", "", "write the tables to `file` as well, when all has gone well")
	fs.StringVar(&opt.peers, "peers", strings.Join(peerNames(), ","), "measure these, by `names` with commas")
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
	var tables bytes.Buffer
	out := io.MultiWriter(os.Stdout, &tables)
	names := []string{args[0]}
	if args[0] == "all" {
		names = nil
		for _, s := range scenarios() {
			names = append(names, s.name)
		}
		for _, b := range others() {
			names = append(names, b.name)
		}
		fmt.Fprint(out, preface)
	}
	for _, name := range names {
		if err := runNamed(ctx, name, opt, out); err != nil {
			return fmt.Errorf("benchmark %s: %w", name, err)
		}
	}
	if *output == "" {
		return nil
	}
	return os.WriteFile(*output, tables.Bytes(), 0o644)
}

// preface begins the page with all tables.
const preface = `# Benchmarks

Shuultuur side by side with Debian's e2guardian, squid, privoxy and haproxy, on one core each, in the same run: ` + "`make bench`" + ` writes this page. Trust the ratios within a table, not the figures across tables or machines. "shuultuur" judges every page anew; "shuultuur-learn" remembers verdicts (` + "`learn`" + ` in the policy) and asks the origin's validators whether the page is still the same; "shuultuur-rules" tries 16,024 public signature rules as well; "shuultuur-compat" reads the bytes of a page in two passes, as e2guardian 5.3 does, with the same scores. squid and haproxy only forward. All filters use the phrase lists that e2guardian ships and enables.

`

// A specialBenchmark is a benchmark that is not a scenario.
type specialBenchmark struct {
	name, about string
	run         func(ctx context.Context, opt options, out io.Writer) error
}

// others returns them in the order of the page with all tables.
func others() []specialBenchmark {
	return []specialBenchmark{
		{"tls-idle", idleAbout, idle},
		{"websocket", websocketAbout, websockets},
		{"slow", slowAbout, slow},
		{"scanner", scannerAbout, scanning},
		{"http2", http2About, clients2},
		{"generator", generatorAbout, generator},
		{"dns", dnsAbout, dnsGenerators},
		{"overload", overloadAbout, overload},
		{"starve", starveAbout, starve},
		{"adblock", adblockAbout, adblockers},
		{"auth", authAbout, auth},
		{"flood", floodAbout, flood},
		{"subdomains", subdomainsAbout, subdomains},
		{"silence", silenceAbout, silence},
		{"encrypted", encryptedAbout, encrypted},
		{"resolver", resolverAbout, resolver},
		{"redis-zone", redisZoneAbout, redisZones},
		{"cache", cacheAbout, caching},
		{"bloom", bloomAbout, bloomFilters},
		{"state", stateAbout, shared},
		{"record", recordAbout, record},
		{"record-postgres", recordPostgresAbout, recordPostgres},
		{"live", liveAbout, live},
		{"what-if", whatIfAbout, whatIf},
		{"edit", editAbout, editing},
		{"admin-pages", adminPagesAbout, adminPages},
		{"votes", votesAbout, votes},
		{"icap", icapAbout, icaps},
		{"signature", signatureAbout, signatures},
		{"matcher", matcherAbout, matchers},
		{"picture", pictureAbout, pictures},
		{"picture-page", picturePageAbout, picturePage},
	}
}

// runNamed runs the benchmark called name.
func runNamed(ctx context.Context, name string, opt options, out io.Writer) error {
	for _, b := range others() {
		if b.name == name {
			return b.run(ctx, opt, out)
		}
	}
	all := scenarios()
	i := slices.IndexFunc(all, func(s scenario) bool { return s.name == name })
	if i < 0 {
		return fmt.Errorf("benchmark %q is unknown; -h lists them", name)
	}
	return compare(ctx, all[i], opt, out)
}

// compare runs one scenario with all peers and prints its table to out.
func compare(ctx context.Context, s scenario, opt options, out io.Writer) error {
	r, err := newRig(ctx, s.tls)
	if err != nil {
		return err
	}
	defer r.close()
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
