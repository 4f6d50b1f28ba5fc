package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/dns"
	"shuultuur/tool/load"
)

const (
	subdomainsAbout = "A flood of random names of somebody else's domain for 8 seconds: the upstream denies each"
	silenceAbout    = "The same, and the upstream does not answer for that domain"
)

const (
	subdomainsRate = 100_000 // queries/s of the flood, sent on schedule
	goodNames      = 1000    // names of good clients, of each kind
	goodRate       = 200     // queries/s of good clients, of each kind
	goodTime       = 500 * time.Millisecond
)

// goodKinds are the queries of good clients during the flood: names in the cache, names of our
// own zone, refused names, and new names whose servers work.
var goodKinds = []struct {
	name, zone string
	random     bool
}{{"cached", "example.com", false}, {"own", "own.example", false}, {"refused", "refused.example", false}, {"new", "fresh.example", true}}

// subdomainsRound is one flood on one server.
type subdomainsRound struct {
	peak, goodput  float64            // answers/s to random names: 400 at a time, and in the flood
	cost, wild     float64            // µs of the server's processor time per answer
	before, most   float64            // resident MB after the peak, and maximum in the flood
	answered, slow map[string]float64 // share in time, and p99 in ms, by kind
	calm, calmNew  time.Duration
}

// A subdomainsRig is a rig with an upstream and servers that query it.
type subdomainsRig struct {
	*resolverRig
	scenario, about string
	domain          string // domain of the queried names
}

// silent reports that the upstream does not answer for the domain.
func (r *subdomainsRig) silent() bool { return r.domain == "gone.example" }

// subdomains floods resolvers with queries for new names that do not exist.
func subdomains(ctx context.Context, opt options, out io.Writer) error {
	return floodOthers(ctx, opt, out, "subdomains", subdomainsAbout, "flood.example")
}

// silence floods resolvers with queries for names whose servers do not answer.
func silence(ctx context.Context, opt options, out io.Writer) error {
	return floodOthers(ctx, opt, out, "silence", silenceAbout, "gone.example")
}

func floodOthers(ctx context.Context, opt options, out io.Writer, name, about, domain string) error {
	base, err := newNameRig(ctx, out, about, "taskset")
	if err != nil || base == nil {
		return err
	}
	r := &subdomainsRig{&resolverRig{rig: base.rig}, name, about, domain}
	defer r.close()
	if err := r.layOut(); err != nil {
		return err
	}
	if err := r.pinSelf(dnsGeneratorCore); err != nil {
		return err
	}
	var t subdomainsTable
	for range opt.rounds {
		for _, s := range []*nameServer{
			{name: "shuultuur", start: (*resolverRig).beginFlooded},
			{name: "unbound", start: (*resolverRig).beginFloodedUnbound},
			{name: "dnsmasq", start: (*resolverRig).beginFloodedDnsmasq},
		} {
			f, err := r.subdomainsRound(s)
			if errors.Is(err, errMissing) {
				t.missing(err.Error())
				continue
			}
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			t.add(s.name, f)
		}
	}
	return t.print(out, r, opt)
}

// A subdomainsTable has the rounds by server.
type subdomainsTable struct {
	rows    []*subdomainsRow
	without []string
}

type subdomainsRow struct {
	server string
	rounds []subdomainsRound
}

func (t *subdomainsTable) missing(what string) {
	if !slices.Contains(t.without, what) {
		t.without = append(t.without, what)
	}
}

func (t *subdomainsTable) add(server string, f subdomainsRound) {
	for _, row := range t.rows {
		if row.server == server {
			row.rounds = append(row.rounds, f)
			return
		}
	}
	t.rows = append(t.rows, &subdomainsRow{server, []subdomainsRound{f}})
}

// mid returns the median of a figure.
func (w *subdomainsRow) mid(of func(*subdomainsRound) float64) float64 {
	var all []float64
	for i := range w.rounds {
		all = append(all, of(&w.rounds[i]))
	}
	slices.Sort(all)
	return middle(all)
}

// print writes what the rounds measured.
func (t *subdomainsTable) print(w io.Writer, r *subdomainsRig, opt options) error {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n%s. %s\n", r.about, time.Now().UTC().Format("2006-01-02 15:04 MST"), machine("at the end"))
	fmt.Fprintf(&b, "`go run -C bench . %s -rounds %d`: %d queries a second, sent on schedule, every name a new one. At the same time good clients ask for %d names a second of each kind: in the cache, of a zone of one's own, refused, and new ones of another domain; good is an answer within %v. Capacity is random names answered with 100 under way. Medians; the server on core %s, all others on core %s.\n\n",
		r.scenario, opt.rounds, subdomainsRate, goodRate, goodTime, dnsServerCore, dnsGeneratorCore)
	b.WriteString("| server | capacity/s | CPU µs each | of the flood answered/s | per CPU second, to capacity |")
	for _, k := range goodKinds {
		fmt.Fprintf(&b, " good %s | p99 ms |", k.name)
	}
	b.WriteString(" MB before | most | growth | calm after s | for new names |\n|---|--:|--:|--:|--:|" + strings.Repeat("--:|--:|", len(goodKinds)) + "--:|--:|--:|--:|--:|\n")
	verdicts := strings.Builder{}
	for _, row := range t.rows {
		good := row.mid(func(f *subdomainsRound) float64 { return f.cost / f.wild })
		ratio := fmt.Sprintf("%.2f", good)
		if r.silent() {
			ratio = "–"
		}
		fmt.Fprintf(&b, "| %s | %.0f | %.1f | %.0f | %s |", row.server, row.mid(func(f *subdomainsRound) float64 { return f.peak }),
			row.mid(func(f *subdomainsRound) float64 { return f.cost }), row.mid(func(f *subdomainsRound) float64 { return f.goodput }), ratio)
		least := 1.0
		for _, k := range goodKinds {
			share := row.mid(func(f *subdomainsRound) float64 { return f.answered[k.name] })
			least = min(least, share)
			fmt.Fprintf(&b, " %.1f %% | %.1f |", 100*share, row.mid(func(f *subdomainsRound) float64 { return f.slow[k.name] }))
		}
		growth := row.mid(func(f *subdomainsRound) float64 { return f.most / f.before })
		calm, calmNew := row.mid(func(f *subdomainsRound) float64 { return f.calm.Seconds() }), row.mid(func(f *subdomainsRound) float64 { return f.calmNew.Seconds() })
		fmt.Fprintf(&b, " %.1f | %.1f | %.2f | %.2f | %.2f |\n", row.mid(func(f *subdomainsRound) float64 { return f.before }),
			row.mid(func(f *subdomainsRound) float64 { return f.most }), growth, calm, calmNew)
		if row.server != "shuultuur" {
			continue
		}
		if !r.silent() {
			fmt.Fprintf(&verdicts, "* answers to random names for the processor time ≥ %g × capacity: %.2f: **%s**\n", floodGood, good, verdict(good >= floodGood))
		}
		fmt.Fprintf(&verdicts, "* of the good clients' queries, of every kind, ≥ %g answered: %.2f: **%s**\n", floodGood, least, verdict(least >= floodGood))
		fmt.Fprintf(&verdicts, "* resident memory ≤ %g ×: %.2f: **%s**; calm within %v: %.2f s: **%s**\n", floodGrowth, growth, verdict(growth <= floodGrowth),
			floodCalm, max(calm, calmNew), verdict(max(calm, calmNew) <= floodCalm.Seconds()))
	}
	b.WriteString("\n" + verdicts.String())
	for _, m := range t.without {
		fmt.Fprintf(&b, "* left out, %s\n", m)
	}
	b.WriteString("\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// layOut builds the program, writes our own zone and the queries, and starts the upstream.
func (r *subdomainsRig) layOut() error {
	dir, err := r.folder("names")
	if err != nil {
		return err
	}
	r.folderP = dir
	var zone strings.Builder
	zone.WriteString("$ORIGIN own.example.\n$TTL 300\n@ SOA ns hostmaster 1 3600 600 86400 300\n@ NS ns\nns A 127.0.0.1\n")
	for i := range goodNames {
		fmt.Fprintf(&zone, "h%d A 192.0.2.%d\n", i, i%250+1)
	}
	if err := os.WriteFile(filepath.Join(dir, "own.example.zone"), []byte(zone.String()), 0o644); err != nil {
		return err
	}
	if r.program, err = r.build(dir); err != nil {
		return err
	}
	if r.upstream, err = freeAddr(); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	_, err = r.start(dnsGeneratorCore, "upstream", r.upstream, []string{self, serveUpstream, r.upstream}, "")
	return err
}

const floodedSettings = `listen: {proxy: "127.0.0.1:0", admin: "ADMIN"}
data: DIR/data
policies:
  - name: everyone
    rules: [{name: refused, action: block, host: [refused.example], answer: nxdomain}]
dns:
  listen: ["ADDR"]
  zones: {files: [{path: "ZONE"}]}
  forward: {upstreams: ["UPSTREAM"]}
`

func (r *resolverRig) beginFlooded(s *nameServer) error {
	dir, err := r.folder(s.name)
	if err != nil {
		return err
	}
	if r.admin, err = freeAddr(); err != nil {
		return err
	}
	settings := expand(floodedSettings, "ADMIN", r.admin, "DIR", dir, "ADDR", s.addr, "ZONE", filepath.Join(r.folderP, "own.example.zone"), "UPSTREAM", r.upstream)
	return r.begin(s, []string{r.program, "run", "-config", "FILE"}, settings)
}

// beginFloodedUnbound starts unbound with its default limits, and a cache like ours.
func (r *resolverRig) beginFloodedUnbound(s *nameServer) error {
	if _, err := find("unbound"); err != nil {
		return fmt.Errorf("%w: unbound", errMissing)
	}
	zones := filepath.Join(r.folderP, "zones")
	if err := os.WriteFile(zones, []byte("local-zone: \"refused.example\" always_nxdomain\n"), 0o644); err != nil {
		return err
	}
	host, port, _ := strings.Cut(s.addr, ":")
	upHost, upPort, _ := strings.Cut(r.upstream, ":")
	settings := expand(unboundSettings, "HOST", host, "UPPORT", upPort, "PORT", port, "ZONES", zones, "UPHOST", upHost, "64m", "8m")
	settings += fmt.Sprintf("auth-zone:\n  name: own.example\n  zonefile: %q\n  for-upstream: no\n  for-downstream: yes\n", filepath.Join(r.folderP, "own.example.zone"))
	return r.begin(s, []string{"unbound", "-d", "-c", "FILE"}, settings)
}

func (r *resolverRig) beginFloodedDnsmasq(s *nameServer) error {
	if _, err := find("dnsmasq"); err != nil {
		return fmt.Errorf("%w: dnsmasq", errMissing)
	}
	host, port, _ := strings.Cut(s.addr, ":")
	upHost, upPort, _ := strings.Cut(r.upstream, ":")
	return r.begin(s, []string{"dnsmasq", "-k", "-C", "FILE"},
		fmt.Sprintf("no-resolv\nno-hosts\nno-poll\nuser=root\npid-file=\nlisten-address=%s\nbind-interfaces\nport=%s\nserver=%s#%s\ncache-size=20000\ndns-forward-max=2000\nlocal=/refused.example/\naddress=/own.example/192.0.2.1\n",
			host, port, upHost, upPort))
}

// volleyOf queries s for names below a zone.
func (r *subdomainsRig) volleyOf(s *nameServer, zone string, random bool, cfg load.DNSConfig) (*load.DNSReport, error) {
	var err error
	if random {
		if cfg.Queries, err = load.RandomQueries(zone, "A"); err != nil {
			return nil, err
		}
		cfg.Random, cfg.Seed = true, uint64(time.Now().UnixNano())
	} else {
		cfg.Queries = new(load.Queries)
		for i := range goodNames {
			if err := cfg.Queries.Add(fmt.Sprintf("h%d.%s", i, zone), "A"); err != nil {
				return nil, err
			}
		}
	}
	cfg.Server = s.addr
	g, err := load.NewDNS(cfg)
	if err != nil {
		return nil, err
	}
	rep, err := g.Run(r.ctx)
	return rep, errors.Join(err, r.ctx.Err())
}

// subdomainsRound starts a server, floods it with names of a domain, and ends it.
func (r *subdomainsRig) subdomainsRound(s *nameServer) (f subdomainsRound, err error) {
	if s.addr, err = freeAddr(); err != nil {
		return f, err
	}
	if err := s.start(r.resolverRig, s); err != nil {
		return f, err
	}
	defer func() {
		s.proc.stop(processTree(s.proc.cmd.Process.Pid))
	}()
	for _, k := range goodKinds {
		if _, err := r.volleyOf(s, k.zone, k.random, load.DNSConfig{Window: 50, Count: goodNames, Timeout: 2 * time.Second}); err != nil {
			return f, err
		}
	}
	s.proc.settle(r.ctx)
	spent := s.proc.cpu()
	rep, err := r.volleyOf(s, "flood.example", true, load.DNSConfig{Window: 100, Sockets: 8, Duration: 3 * time.Second, Timeout: 2 * time.Second})
	if err != nil {
		return f, err
	}
	f.cost = float64((s.proc.cpu() - spent).Microseconds()) / float64(rep.Completed)
	f.peak = float64(rep.Completed) / rep.Seconds
	f.before = s.proc.residentMB()

	var all sync.WaitGroup
	stop := make(chan struct{})
	all.Go(func() {
		for {
			f.most = max(f.most, s.proc.residentMB())
			select {
			case <-stop:
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	})
	f.answered, f.slow = map[string]float64{}, map[string]float64{}
	var mu sync.Mutex
	var failed error
	for _, k := range goodKinds {
		all.Go(func() {
			rep, err := r.volleyOf(s, k.zone, k.random, load.DNSConfig{Rate: goodRate, Sockets: 2, Duration: floodTime, Timeout: goodTime})
			mu.Lock()
			defer mu.Unlock()
			if failed = errors.Join(failed, err); err == nil {
				good := rep.Completed - rep.Rcodes["SERVFAIL"] - rep.Rcodes["REFUSED"]
				f.answered[k.name], f.slow[k.name] = float64(good)/float64(rep.Sent+rep.Unsent), rep.Intended.P99
			}
		})
	}
	spent = s.proc.cpu()
	rep, err = r.volleyOf(s, r.domain, true, load.DNSConfig{Rate: subdomainsRate, Sockets: 16, Duration: floodTime, Timeout: 2 * time.Second})
	spent = s.proc.cpu() - spent
	if err == nil {
		err = r.untilCalm(s, &f)
	}
	close(stop)
	all.Wait()
	if err := errors.Join(err, failed); err != nil {
		return f, err
	}
	good := rep.Completed - rep.Rcodes["SERVFAIL"] - rep.Rcodes["REFUSED"]
	f.wild = float64(spent.Microseconds()) / float64(good)
	f.goodput = float64(good) / floodTime.Seconds()
	fmt.Fprintf(os.Stderr, "%s: capacity %.0f/s at %.1f µs; of %d (%d unsent) answered %v at %.1f µs, good %.3v, p99 %.3v ms, %.1f → %.1f MB, calm after %v, %v\n", s.name,
		f.peak, f.cost, rep.Sent, rep.Unsent, rep.Rcodes, f.wild, f.answered, f.slow, f.before, f.most, f.calm, f.calmNew)
	return f, nil
}

// untilCalm measures how long after a flood the server takes to answer known and new names
// again, at most 20 s each.
func (r *subdomainsRig) untilCalm(s *nameServer, f *subdomainsRound) error {
	begun := time.Now()
	for _, x := range []struct {
		calm *time.Duration
		zone string
		any  bool
	}{{&f.calm, "example.com", false}, {&f.calmNew, "fresh.example", true}} {
		for {
			rep, err := r.volleyOf(s, x.zone, x.any, load.DNSConfig{Window: 1, Sockets: 1, Count: 5, Timeout: 50 * time.Millisecond})
			if err != nil {
				return err
			}
			if rep.Rcodes["NOERROR"] == 5 {
				break
			}
			if *x.calm = time.Since(begun); *x.calm > 20*time.Second {
				break
			}
		}
	}
	return nil
}

// serveUpstream is the argument with which this program is the upstream of a benchmark.
const serveUpstream = "-serve-upstream"

// A source is an upstream: no name below flood.example exists, queries for names below
// gone.example get no answer, and all other names have an address.
type source struct{ flood, gone, soa []byte }

func newSource() (*source, error) {
	o := new(source)
	var err error
	for _, x := range []struct {
		to   *[]byte
		name string
	}{{&o.flood, "flood.example"}, {&o.gone, "gone.example"}, {&o.soa, "ns.flood.example"}} {
		var e error
		*x.to, e = dns.Name(x.name)
		err = errors.Join(err, e)
	}
	o.soa = append(bytes.Clone(o.soa), o.soa...)
	for _, n := range []uint32{1, 3600, 600, 86400, 300} {
		o.soa = binary.BigEndian.AppendUint32(o.soa, n)
	}
	return o, err
}

// Answer implements nameserver.Responder.
func (o *source) Answer(q *dns.Query, a *dns.Reply, _ *filter.Transaction) dns.Outcome {
	switch {
	case bytes.HasSuffix(q.Name, o.gone):
		return dns.Dropped
	case bytes.HasSuffix(q.Name, o.flood):
		a.Rcode = 3
		a.Record(o.flood, 6, 1, 300, o.soa)
		a.Authorities++
	default:
		a.Record(nil, 1, 1, 86400, []byte{192, 0, 2, 1})
		a.Answers++
	}
	a.AA, a.RA = true, true
	return dns.Answered
}

// Wait implements nameserver.Responder.
func (o *source) Wait(_ context.Context, q *dns.Query, a *dns.Reply, t *filter.Transaction) dns.Outcome {
	return o.Answer(q, a, t)
}

func upstream(ctx context.Context, addr string) error {
	o, err := newSource()
	if err != nil {
		return err
	}
	return answerBy(ctx, addr, o, slog.New(slog.NewTextHandler(os.Stderr, nil)))
}
