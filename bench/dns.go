package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"

	"shuultuur/tool/load"
)

const dnsAbout = "load dns against dnsperf: nsd on one core, the generator on the other"

// The server has the first core; the generators use the second in turn.
const (
	dnsServerCore    = "0"
	dnsGeneratorCore = "1"
)

// dnsNames is the number of names in nsd's zone, which are queried in turn.
const dnsNames = 1000

const nsdSettings = `server:
  server-count: 1
  ip-address: 127.0.0.1@PORT
  zonesdir: "DIR"
  username: ""
  chroot: ""
  logfile: ""
  pidfile: "DIR/nsd.pid"
  database: ""
  xfrdfile: "DIR/xfrd.state"
  zonelistfile: "DIR/zone.list"
  rrl-ratelimit: 0
remote-control:
  control-enable: no
zone:
  name: example.com
  zonefile: example.com.zone
`

// volley is one round of one generator.
type volley struct {
	rate, perQuery float64 // answers/s, and µs of the generator's processor time per answer
	lost           int64   // without an answer, including those waiting at the end
}

func (v volley) perSecond() float64 { return v.rate }
func (v volley) cost() float64      { return v.perQuery }

// dnsVolleys are the rounds in their order. dnsperf has one socket by default; with as many as
// load dns it may be better.
type dnsVolleys struct{ ours, one, four []volley }

// newNameRig makes the rig of a benchmark of name servers. It returns nil if a program is
// missing, and then writes that to out, after the subject of the benchmark.
func newNameRig(ctx context.Context, out io.Writer, about string, needs ...string) (*dnsRig, error) {
	if runtime.GOOS != "linux" || runtime.NumCPU() < 2 {
		return nil, errors.New("it needs Linux (taskset) and two cores: one for the servers, one for the generator")
	}
	for _, need := range needs {
		if _, err := find(need); err != nil {
			_, err = fmt.Fprintf(out, "### %s\n\n* left out, %v\n\n", about, err)
			return nil, err
		}
	}
	root, err := repository()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "shuultuur-bench-")
	if err != nil {
		return nil, fmt.Errorf("make a temporary folder: %w", err)
	}
	r := &rig{ctx: ctx, root: root, dir: dir}
	// Daemons started by root change to other users.
	if err := os.Chmod(dir, 0o755); err != nil {
		r.close()
		return nil, err
	}
	return &dnsRig{r}, nil
}

// dnsGenerators compares load dns with dnsperf, both with 100 queries in flight.
func dnsGenerators(ctx context.Context, opt options, out io.Writer) error {
	r, err := newNameRig(ctx, out, dnsAbout, "nsd", "dnsperf", "taskset")
	if err != nil || r == nil {
		return err
	}
	defer r.close()
	server, queries, err := r.startNSD()
	if err != nil {
		return err
	}
	if err := r.pinSelf(dnsGeneratorCore); err != nil {
		return err
	}
	if err := r.answers(server, queries); err != nil {
		return err
	}
	var all dnsVolleys
	for round := range opt.rounds {
		for _, turn := range []struct {
			into  *[]volley
			shoot func() (volley, error)
		}{
			{&all.one, func() (volley, error) { return r.dnsperf(server, queries, 1, opt) }},
			{&all.four, func() (volley, error) { return r.dnsperf(server, queries, 4, opt) }},
			{&all.ours, func() (volley, error) { return r.loadDNS(server, queries, load.DNSConfig{Duration: opt.duration()}) }},
		} {
			v, err := turn.shoot()
			if err != nil {
				return fmt.Errorf("round %d: %w", round+1, err)
			}
			*turn.into = append(*turn.into, v)
		}
	}
	return r.printDNS(out, all, opt)
}

func (o options) duration() time.Duration { return time.Duration(o.seconds * float64(time.Second)) }

// startNSD starts a server of example.com and returns its address and a file of queries.
func (r *dnsRig) startNSD() (server, queries string, err error) {
	if server, err = freeAddr(); err != nil {
		return "", "", err
	}
	dir, err := r.folder("nsd")
	if err != nil {
		return "", "", err
	}
	var zone, questions strings.Builder
	zone.WriteString("$ORIGIN example.com.\n$TTL 300\n@ SOA ns hostmaster 1 3600 600 86400 300\n@ NS ns\nns A 127.0.0.1\n")
	for i := range dnsNames {
		fmt.Fprintf(&zone, "h%d A 192.0.2.%d\n", i, i%250)
		fmt.Fprintf(&questions, "h%d.example.com A\n", i)
	}
	queries = filepath.Join(dir, "queries")
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "example.com.zone"), []byte(zone.String()), 0o644),
		os.WriteFile(queries, []byte(questions.String()), 0o644)); err != nil {
		return "", "", err
	}
	_, port, _ := strings.Cut(server, ":")
	_, err = r.start(dnsServerCore, "nsd", server, []string{"nsd", "-d", "-c", "FILE"}, expand(nsdSettings, "PORT", port, "DIR", dir))
	return server, queries, err
}

// answers waits until nsd serves the zone, because it listens earlier.
func (r *dnsRig) answers(server, queries string) error {
	var err error
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline) && r.ctx.Err() == nil; {
		if _, err = r.loadDNS(server, queries, load.DNSConfig{Count: dnsNames, Timeout: 200 * time.Millisecond, Duration: time.Second}); err == nil {
			return nil
		}
	}
	return errors.Join(fmt.Errorf("nsd does not serve its zone:\n%s", r.procs[0].tail()), err, r.ctx.Err())
}

// loadDNS runs a round of load dns with the limits in cfg.
func (r *dnsRig) loadDNS(server, queries string, cfg load.DNSConfig) (volley, error) {
	f, err := os.Open(queries)
	if err != nil {
		return volley{}, err
	}
	defer f.Close()
	if cfg.Queries, err = load.ReadQueries(f, queries); err != nil {
		return volley{}, err
	}
	cfg.Server, cfg.Window = server, 100
	g, err := load.NewDNS(cfg)
	if err != nil {
		return volley{}, err
	}
	rep, err := g.Run(r.ctx)
	if err := errors.Join(err, r.ctx.Err()); err != nil {
		return volley{}, err
	}
	if rep.Completed == 0 || rep.Rcodes["NOERROR"] != rep.Completed {
		return volley{}, fmt.Errorf("load dns saw other answers than NOERROR: %v of %d, errors %v", rep.Rcodes, rep.Completed, rep.Errors)
	}
	n := float64(rep.Completed)
	return volley{n / rep.Seconds, rep.CPUSeconds * 1e6 / n, rep.Lost + rep.Unfinished}, nil
}

// dnsperf runs a round of dnsperf, with more arguments for other transports.
func (r *dnsRig) dnsperf(server, queries string, sockets int, opt options, more ...string) (volley, error) {
	program, err := find("dnsperf")
	if err != nil {
		return volley{}, err
	}
	host, port, _ := strings.Cut(server, ":")
	seconds := strconv.Itoa(max(1, int(opt.seconds+0.5)))
	args := append([]string{"-c", dnsGeneratorCore, program, "-s", host, "-p", port, "-d", queries, "-l", seconds, "-c", strconv.Itoa(sockets)}, more...)
	cmd := exec.CommandContext(r.ctx, "taskset", args...)
	out, err := cmd.Output()
	if err != nil {
		return volley{}, fmt.Errorf("run dnsperf: %w", err)
	}
	return readDNSPerf(string(out), cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
}

var (
	dnsperfCompleted = regexp.MustCompile(`Queries completed:\s+(\d+)`)
	dnsperfLost      = regexp.MustCompile(`Queries lost:\s+(\d+)`)
	dnsperfRate      = regexp.MustCompile(`Queries per second:\s+([\d.]+)`)
	dnsperfCodes     = regexp.MustCompile(`Response codes:\s+NOERROR (\d+)`)
)

// readDNSPerf parses dnsperf's report of a run that used cpu.
func readDNSPerf(report string, cpu time.Duration) (volley, error) {
	var v [4]float64
	for i, re := range []*regexp.Regexp{dnsperfCompleted, dnsperfLost, dnsperfRate, dnsperfCodes} {
		m := re.FindStringSubmatch(report)
		if m == nil {
			return volley{}, fmt.Errorf("dnsperf's report has no %q in it:\n%s", re, report)
		}
		var err error
		if v[i], err = strconv.ParseFloat(m[1], 64); err != nil {
			return volley{}, fmt.Errorf("read dnsperf's report: %w", err)
		}
	}
	if completed, good := v[0], v[3]; completed == 0 || good != completed {
		return volley{}, fmt.Errorf("dnsperf saw other answers than NOERROR:\n%s", report)
	}
	return volley{v[2], float64(cpu.Microseconds()) / v[0], int64(v[1])}, nil
}

func (r *dnsRig) printDNS(w io.Writer, all dnsVolleys, opt options) error {
	program, err := find("nsd")
	if err != nil {
		return err
	}
	versions := fmt.Sprintf("load dns %s, dnsperf %s, nsd %s", r.revision(), dnsperfVersion(), versionOf(program, []string{"-v"}))
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n%s. %s\n`go run -C bench . dns -rounds %d -seconds %g`, UDP, 100 queries under way, %d names, by turns, medians. %s.\n\n",
		dnsAbout, time.Now().UTC().Format("2006-01-02 15:04 MST"), machine("at the end"), opt.rounds, opt.seconds, dnsNames, versions)
	b.WriteString("| generator | answers/s | CPU µs per query | lost |\n|---|--:|--:|--:|\n")
	for _, row := range []struct {
		name string
		all  []volley
	}{{"load dns (4 sockets)", all.ours}, {"dnsperf (1 socket)", all.one}, {"dnsperf -c 4", all.four}} {
		lost := int64(0)
		for _, v := range row.all {
			lost += v.lost
		}
		fmt.Fprintf(&b, "| %s | %s | %.2f | %d |\n", row.name, figure(median(row.all, volley.perSecond)), median(row.all, volley.cost), lost)
	}
	rate, cost := all.ratios()
	fmt.Fprintf(&b, "\n* answers/s against the better dnsperf of each round: %.2f×\n* CPU per query, dnsperf's (the cheaper of each round) to ours: %.2f×\n\n", rate, cost)
	_, err = io.WriteString(w, b.String())
	return err
}

// ratios returns the medians over rounds of load dns relative to the better dnsperf, above 1
// if load dns is better: in answers per second, and in processor time.
func (d dnsVolleys) ratios() (rate, cost float64) {
	var rates, costs []float64
	for i, o := range d.ours {
		rates = append(rates, o.rate/max(d.one[i].rate, d.four[i].rate))
		costs = append(costs, min(d.one[i].perQuery, d.four[i].perQuery)/o.perQuery)
	}
	self := func(v float64) float64 { return v }
	return median(rates, self), median(costs, self)
}

// dnsperfVersion returns the version that dnsperf's help prints after its list of defaults,
// which contains addresses that look like versions.
func dnsperfVersion() string {
	program, err := find("dnsperf")
	if err != nil {
		return "version unknown"
	}
	// dnsperf exits with an error after its help.
	out, _ := exec.Command(program, "-h").CombinedOutput()
	if m := regexp.MustCompile(`Version (\d[\d.]*)`).FindSubmatch(out); m != nil {
		return string(m[1])
	}
	return "version unknown"
}
