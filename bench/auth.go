package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"shuultuur/lib/setting"
	"shuultuur/nameserver"
	"shuultuur/nameserver/batch"
	"shuultuur/tool/load"
	"shuultuur/zone"
)

const authAbout = "Zones of our own: 100,000 names in 10 zones, UDP"

// The targets of the zones.
const (
	authPeers  = 1.0 // answers per processor time of the server, relative to NSD's and Knot's, at least
	authFloor  = 0.6 // the same, relative to a server that looks nothing up
	authMemory = 40  // MB with the zones loaded
)

const (
	authZones = 10
	authNames = 10_000 // per zone
)

// An authPeer is a server of the zones.
type authPeer struct {
	name    string
	addr    string
	p       *process
	ready   time.Duration // from its start to its first answer
	memory  float64       // MB, with the zones loaded and after the rounds
	after   float64
	volleys struct{ ours, theirs []authVolley }
}

// An authVolley is a round against one server.
type authVolley struct {
	rate, cost float64 // answers/s, and µs of the server's processor time per answer
	lost       int64
}

// auth compares our server of zones with NSD and Knot.
func auth(ctx context.Context, opt options, out io.Writer) error {
	r, err := newNameRig(ctx, out, authAbout, "nsd", "knotd", "dnsperf", "taskset")
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
	for _, name := range []string{"shuultuur", "nsd", "knot", "floor"} {
		p, err := r.startAuth(name, queries)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		peers = append(peers, p)
	}
	for round := range opt.rounds {
		for _, p := range peers {
			if err := r.authRound(p, queries, opt); err != nil {
				return fmt.Errorf("round %d, %s: %w", round+1, p.name, err)
			}
		}
	}
	for _, p := range peers {
		p.after = p.p.pssMB()
	}
	return r.printAuth(out, peers, opt)
}

// zoneFile returns the path of a zone file.
func (r *dnsRig) zoneFile(i int) string {
	return filepath.Join(r.dir, fmt.Sprintf("zone%d.example.zone", i))
}

// writeZones writes the zones and a file of 100,000 queries: 80 % A, 10 % names that do not
// exist, 6 % AAAA, 2 % names of a wildcard, 2 % MX.
func (r *dnsRig) writeZones() (queries string, err error) {
	for i := range authZones {
		var b strings.Builder
		b.WriteString("$TTL 300\n@ SOA ns1 hostmaster 1 3600 600 86400 300\n@ NS ns1\n@ NS ns2\n@ MX 10 mail\nns1 A 192.0.2.1\nns2 A 192.0.2.2\nmail A 192.0.2.4\n*.wild A 192.0.2.3\n")
		for j := range authNames {
			fmt.Fprintf(&b, "h%05d A 192.0.2.%d\n", j, j%250)
			if j%10 == 0 {
				fmt.Fprintf(&b, "h%05d AAAA 2001:db8::%x\nh%05d MX 10 mail\n", j, j, j)
			}
		}
		if err := os.WriteFile(r.zoneFile(i), []byte(b.String()), 0o644); err != nil {
			return "", err
		}
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	for range 100_000 {
		j, origin := rnd.IntN(authNames), fmt.Sprintf("zone%d.example", rnd.IntN(authZones))
		switch p := rnd.IntN(100); {
		case p < 80:
			fmt.Fprintf(&b, "h%05d.%s A\n", j, origin)
		case p < 90:
			fmt.Fprintf(&b, "n%05d.%s A\n", j, origin)
		case p < 96:
			fmt.Fprintf(&b, "h%05d.%s AAAA\n", j/10*10, origin)
		case p < 98:
			fmt.Fprintf(&b, "w%05d.wild.%s A\n", j, origin)
		default:
			fmt.Fprintf(&b, "h%05d.%s MX\n", j/10*10, origin)
		}
	}
	queries = filepath.Join(r.dir, "queries")
	return queries, os.WriteFile(queries, []byte(b.String()), 0o644)
}

// startAuth starts a server and waits for its first answer.
func (r *dnsRig) startAuth(name, queries string) (*authPeer, error) {
	p := &authPeer{name: name}
	var err error
	if p.addr, err = freeAddr(); err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir, err := r.folder(name)
	if err != nil {
		return nil, err
	}
	_, port, _ := strings.Cut(p.addr, ":")
	var args []string
	var settings strings.Builder
	switch name {
	case "shuultuur":
		args = []string{self, serveZones, p.addr}
		for i := range authZones {
			args = append(args, r.zoneFile(i))
		}
	case "floor":
		args = []string{self, serveFloor, p.addr}
	case "nsd":
		args = []string{"nsd", "-d", "-c", "FILE"}
		before, _, _ := strings.Cut(nsdSettings, "remote-control:")
		settings.WriteString(expand(before, "PORT", port, "DIR", dir) + "  minimal-responses: yes\nremote-control:\n  control-enable: no\n")
		for i := range authZones {
			fmt.Fprintf(&settings, "zone:\n  name: zone%d.example\n  zonefile: %q\n", i, r.zoneFile(i))
		}
	case "knot":
		args = []string{"knotd", "-c", "FILE"}
		fmt.Fprintf(&settings, "server:\n  listen: 127.0.0.1@%s\n  rundir: %q\n  udp-workers: 1\n  tcp-workers: 1\n  background-workers: 1\ndatabase:\n  storage: %q\ntemplate:\n  - id: default\n    journal-content: none\n    zonefile-load: whole\n    semantic-checks: off\nzone:\n", port, dir, dir)
		for i := range authZones {
			fmt.Fprintf(&settings, "  - domain: zone%d.example\n    file: %q\n", i, r.zoneFile(i))
		}
	}
	began := time.Now()
	if p.p, err = r.start(dnsServerCore, name, p.addr, args, settings.String()); err != nil {
		return nil, err
	}
	for { // it may listen before it has loaded all zones
		if _, err = r.shootAuth(p, queries, load.DNSConfig{Count: 1000, Window: 10, Timeout: 200 * time.Millisecond, Duration: time.Second}); err == nil {
			break
		}
		if time.Since(began) > 20*time.Second || r.ctx.Err() != nil {
			return nil, fmt.Errorf("the server does not serve its zones: %w\n%s", err, p.p.tail())
		}
	}
	p.ready = time.Since(began)
	p.p.settle(r.ctx)
	p.memory = p.p.pssMB()
	return p, nil
}

// shootAuth runs a round of load dns.
func (r *dnsRig) shootAuth(p *authPeer, queries string, cfg load.DNSConfig) (authVolley, error) {
	f, err := os.Open(queries)
	if err != nil {
		return authVolley{}, err
	}
	defer f.Close()
	if cfg.Queries, err = load.ReadQueries(f, queries); err != nil {
		return authVolley{}, err
	}
	cfg.Server, cfg.Sockets = p.addr, 8
	g, err := load.NewDNS(cfg)
	if err != nil {
		return authVolley{}, err
	}
	before := p.p.cpu()
	rep, err := g.Run(r.ctx)
	spent := p.p.cpu() - before
	if err := errors.Join(err, r.ctx.Err()); err != nil {
		return authVolley{}, err
	}
	// About a tenth of the names do not exist; the floor server has no such names.
	n := rep.Completed
	if missing := float64(rep.Rcodes["NXDOMAIN"]) / float64(max(n, 1)); n == 0 || rep.Rcodes["NOERROR"]+rep.Rcodes["NXDOMAIN"] != n || p.name != "floor" && (missing < 0.05 || missing > 0.15) {
		return authVolley{}, fmt.Errorf("load dns saw other answers: %v of %d, errors %v", rep.Rcodes, n, rep.Errors)
	}
	return authVolley{float64(n) / rep.Seconds, float64(spent.Microseconds()) / float64(n), rep.Lost + rep.Unfinished}, nil
}

var dnsperfAll = regexp.MustCompile(`Response codes:\s+NOERROR (\d+)(?: \([\d.]+%\), NXDOMAIN (\d+))?`)

// authRound runs both generators against a server.
func (r *dnsRig) authRound(p *authPeer, queries string, opt options) error {
	v, err := r.shootAuth(p, queries, load.DNSConfig{Duration: opt.duration(), Window: 1024})
	if err != nil {
		return err
	}
	p.volleys.ours = append(p.volleys.ours, v)
	program, err := find("dnsperf")
	if err != nil {
		return err
	}
	_, port, _ := strings.Cut(p.addr, ":")
	before := p.p.cpu()
	out, err := exec.CommandContext(r.ctx, "taskset", "-c", dnsGeneratorCore, program, "-s", "127.0.0.1", "-p", port, "-d", queries,
		"-l", strconv.Itoa(max(1, int(opt.seconds+0.5))), "-c", "8", "-q", "256").Output()
	if err != nil {
		return fmt.Errorf("run dnsperf: %w", err)
	}
	spent := p.p.cpu() - before
	var f [3]float64
	for i, re := range []*regexp.Regexp{dnsperfCompleted, dnsperfLost, dnsperfRate} {
		m := re.FindSubmatch(out)
		if m == nil {
			return fmt.Errorf("dnsperf's report has no %q in it:\n%s", re, out)
		}
		if f[i], err = strconv.ParseFloat(string(m[1]), 64); err != nil {
			return err
		}
	}
	if f[0] == 0 || !dnsperfAll.Match(out) {
		return fmt.Errorf("dnsperf saw no answers:\n%s", out)
	}
	p.volleys.theirs = append(p.volleys.theirs, authVolley{f[2], float64(spent.Microseconds()) / f[0], int64(f[1])})
	return nil
}

func (v authVolley) perSecond() float64 { return v.rate }
func (v authVolley) perQuery() float64  { return v.cost }

func (r *dnsRig) printAuth(w io.Writer, peers []*authPeer, opt options) error {
	var versions []string
	for _, name := range []string{"nsd", "knotd"} {
		program, err := find(name)
		if err != nil {
			return err
		}
		flag := map[string]string{"nsd": "-v", "knotd": "-V"}[name]
		versions = append(versions, name+" "+versionOf(program, []string{flag}))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n%s. %s\n`go run -C bench . auth -rounds %d -seconds %g`: 80 %% A, 10 %% NXDOMAIN, 6 %% AAAA, 2 %% wildcard, 2 %% MX; the server on one core, the load on the other, by turns, medians. shuultuur %s, %s, minimal responses. \"floor\" answers everything with one address, through the same system calls. CPU is the server's.\n\n",
		authAbout, time.Now().UTC().Format("2006-01-02 15:04 MST"), machine("at the end"), opt.rounds, opt.seconds, r.revision(), strings.Join(versions, ", "))
	b.WriteString("| server | load dns: answers/s | CPU µs per answer | lost | dnsperf: answers/s | CPU µs per answer | lost | first answer after s | memory MB | after the rounds |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	for _, p := range peers {
		fmt.Fprintf(&b, "| %s |", p.name)
		for _, all := range [][]authVolley{p.volleys.ours, p.volleys.theirs} {
			lost := int64(0)
			for _, v := range all {
				lost += v.lost
			}
			fmt.Fprintf(&b, " %s | %.2f | %d |", figure(median(all, authVolley.perSecond)), median(all, authVolley.perQuery), lost)
		}
		fmt.Fprintf(&b, " %.2f | %.1f | %.1f |\n", p.ready.Seconds(), p.memory, p.after)
	}
	b.WriteString("\n")
	ours := peers[0]
	for _, p := range peers[1:] {
		least := authPeers
		if p.name == "floor" {
			least = authFloor
		}
		cost := ratios(ours.volleys.ours, p.volleys.ours, func(a, b authVolley) float64 { return b.cost / a.cost })
		rate := ratios(ours.volleys.ours, p.volleys.ours, func(a, b authVolley) float64 { return a.rate / b.rate })
		theirs := ratios(ours.volleys.theirs, p.volleys.theirs, func(a, b authVolley) float64 { return b.cost / a.cost })
		fmt.Fprintf(&b, "* target ≥ %g × %s for each second of the server's processor, load dns: %.2f× (answers/s %.2f×, processor with dnsperf %.2f×): **%s**\n", least, p.name, cost, rate, theirs, verdict(cost >= least))
	}
	fmt.Fprintf(&b, "* target ≤ %d MB: %.1f, %.1f after the rounds: **%s**\n\n", authMemory, ours.memory, ours.after, verdict(max(ours.memory, ours.after) <= authMemory))
	_, err := io.WriteString(w, b.String())
	return err
}

// ratios returns the median over rounds of a figure that compares two servers' rounds.
func ratios(a, b []authVolley, of func(a, b authVolley) float64) float64 {
	var all []float64
	for i := range a {
		all = append(all, of(a[i], b[i]))
	}
	slices.Sort(all)
	return middle(all)
}

// Arguments with which this program is a server instead of measuring.
const (
	serveZones = "-serve-zones"
	serveFloor = "-serve-floor"
	probeTCP   = "-probe-tcp"
)

// serve is the server in a separate process: args are its kind, the address to listen on, and
// zone files.
func serve(ctx context.Context, args []string) error {
	switch args[0] {
	case serveFloor:
		return floor(ctx, netip.MustParseAddrPort(args[1]))
	case probeTCP:
		return probe(ctx, args[1])
	case serveUpstream:
		return upstream(ctx, args[1])
	case serveVotes:
		return voteServer(ctx, args[1:])
	case serveRedis:
		return serveRedisZones(ctx, args[1:])
	}
	zones := zone.NewResponder()
	var cfg zone.Config
	for _, file := range args[2:] {
		cfg.Files = append(cfg.Files, zone.File{Path: setting.Source(file)})
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	if _, err := zone.NewFiles(cfg, "", zones, nil, log); err != nil {
		return err
	}
	debug.FreeOSMemory() // garbage of reading the zones
	return answerBy(ctx, args[1], zones, log)
}

// answerBy runs a name server with one responder until ctx ends.
func answerBy(ctx context.Context, addr string, by nameserver.Responder, log *slog.Logger) error {
	s, err := nameserver.New(nameserver.Config{Listen: []string{addr}}, log, nil)
	if err != nil {
		return err
	}
	s.SetResponders(nil, by)
	return s.Run(ctx)
}

// floor answers every datagram with one address, to measure the cost of receiving and sending.
func floor(ctx context.Context, addr netip.AddrPort) error {
	conns, err := batch.Listen(ctx, addr, 1)
	if err != nil {
		return err
	}
	c := conns[0]
	defer c.Close()
	stop := context.AfterFunc(ctx, c.Stop)
	defer stop()
	l, err := net.Listen("tcp", addr.String()) // shows that it has started
	if err != nil {
		return err
	}
	defer l.Close()
	for {
		n, err := c.Read()
		if err != nil || ctx.Err() != nil {
			return err
		}
		for i := range n {
			msg, _ := c.Datagram(i)
			if len(msg) < 12 {
				continue
			}
			out := append(append(c.Buffer(i)[:0], msg...), 0xc0, 12, 0, 1, 0, 1, 0, 0, 1, 44, 0, 4, 192, 0, 2, 1)
			binary.BigEndian.PutUint16(out[2:], 0x8400)
			out[7] = 1
			c.Reply(i, out)
		}
		c.Flush()
	}
}
