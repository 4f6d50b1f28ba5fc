package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	"shuultuur/tool/load"
)

const generatorAbout = "The load generator itself against wrk: 1 KiB, nginx on the other core"

// The targets of the generator against wrk.
const (
	generatorCost  = 0.8 // requests per second of its own processor time relative to wrk's, at least
	generatorAgree = 0.1 // difference in requests/s, at most
)

// shot is one round of one generator.
type shot struct {
	rate, perCPU, p50, p99 float64 // requests/s, requests per CPU second, ms
}

// generator compares load http with wrk. Both run on the load's core and nginx on the other,
// so that neither disturbs the server.
func generator(ctx context.Context, opt options, out io.Writer) error {
	wrk, err := find("wrk")
	if err != nil {
		return err
	}
	r, err := newRig(ctx, false)
	if err != nil {
		return err
	}
	defer r.close()
	if err := r.pinSelf(loadCore); err != nil {
		return err
	}
	origin := strconv.Itoa(r.procs[0].cmd.Process.Pid)
	if out, err := exec.Command("taskset", "-apc", proxyCore, origin).CombinedOutput(); err != nil {
		return fmt.Errorf("pin nginx: %w: %s", err, out)
	}
	fast, err := r.duel(wrk, r.smallURLs()[0], opt)
	if err != nil {
		return err
	}
	slow, stop, err := waitingOrigin(ctx)
	if err != nil {
		return err
	}
	waits, err := r.duel(wrk, slow, opt)
	if err := errors.Join(err, stop()); err != nil {
		return err
	}
	return printDuels(out, fast, waits, opt)
}

// waits is the delay of the slow origin before each response. It is long compared with delays
// of a busy machine, so that the rate is known beforehand.
const waits = 20 * time.Millisecond

// waitingOrigin starts an origin that waits before each response.
func waitingOrigin(ctx context.Context) (url string, stop func() error, err error) {
	o, err := load.NewOrigin(load.OriginConfig{Delay: waits})
	if err != nil {
		return "", nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("listen for the slow origin: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- o.Serve(ctx, l, nil) }()
	return "http://" + l.Addr().String() + "/size/1024", func() error { cancel(); return <-ended }, nil
}

// duel has the rounds of both generators against one URL.
type duel struct{ ours, theirs []shot }

func (r *rig) duel(wrk, url string, opt options) (duel, error) {
	var d duel
	for range opt.rounds {
		o, err := r.shootOurs(url, opt)
		if err != nil {
			return d, err
		}
		t, err := r.shootWrk(wrk, url, opt)
		if err != nil {
			return d, err
		}
		d.ours, d.theirs = append(d.ours, o), append(d.theirs, t)
	}
	return d, nil
}

func (r *rig) shootOurs(url string, opt options) (shot, error) {
	rep, err := r.load(load.Config{URLs: []string{url}, Parallel: 10, KeepAlive: true, Duration: opt.duration()})
	if err != nil {
		return shot{}, err
	}
	if len(rep.Errors) > 0 {
		return shot{}, fmt.Errorf("load http saw errors: %v", rep.Errors)
	}
	n := float64(rep.Fetches)
	return shot{n / rep.Seconds, n / rep.CPUSeconds, rep.Total.P50, rep.Total.P99}, nil
}

var (
	wrkRequests = regexp.MustCompile(`(\d+) requests in`)
	wrkRate     = regexp.MustCompile(`Requests/sec:\s+([\d.]+)`)
	wrkQuantile = regexp.MustCompile(`(50|99)%\s+([\d.]+)(us|ms|s)`)
	wrkErrors   = regexp.MustCompile(`Socket errors:.*|Non-2xx.*`)
)

func (r *rig) shootWrk(wrk, url string, opt options) (shot, error) {
	seconds := strconv.Itoa(max(1, int(opt.seconds+0.5)))
	cmd := exec.CommandContext(r.ctx, wrk, "--latency", "-t1", "-c10", "-d"+seconds, url)
	out, err := cmd.Output()
	if err != nil {
		return shot{}, fmt.Errorf("run wrk: %w", err)
	}
	if bad := wrkErrors.Find(out); bad != nil {
		return shot{}, fmt.Errorf("wrk saw errors: %s", bad)
	}
	n, rate := wrkRequests.FindSubmatch(out), wrkRate.FindSubmatch(out)
	if n == nil || rate == nil {
		return shot{}, errors.New("wrk's report has no rate in it:\n" + string(out))
	}
	var s shot
	count, _ := strconv.ParseFloat(string(n[1]), 64)
	s.rate, _ = strconv.ParseFloat(string(rate[1]), 64)
	s.perCPU = count / (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	for _, m := range wrkQuantile.FindAllSubmatch(out, -1) {
		v, _ := strconv.ParseFloat(string(m[2]), 64)
		v *= map[string]float64{"us": 0.001, "ms": 1, "s": 1000}[string(m[3])]
		if string(m[1]) == "50" {
			s.p50 = v
		} else {
			s.p99 = v
		}
	}
	return s, nil
}

func printDuels(w io.Writer, fast, slow duel, opt options) error {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n%s. %s\n`go run -C bench . generator -rounds %d -seconds %g`, 10 kept-alive connections, medians; best: the fastest, least disturbed round.\n\n",
		generatorAbout, time.Now().UTC().Format("2006-01-02 15:04 MST"), machine("at the end"), opt.rounds, opt.seconds)
	b.WriteString("| origin | generator | requests/s | best | requests per CPU second | p50 ms | p99 ms |\n|---|---|--:|--:|--:|--:|--:|\n")
	for _, d := range []struct {
		name string
		duel
	}{{"nginx", fast}, {"waits " + waits.String(), slow}} {
		for _, row := range []struct {
			name  string
			shots []shot
		}{{"load http", d.ours}, {"wrk", d.theirs}} {
			cpu := figure(median(row.shots, shot.perCore))
			if d.name != "nginx" {
				cpu = "-" // that origin runs in this process
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %.3f | %.3f |\n", d.name, row.name,
				figure(median(row.shots, shot.perSecond)), figure(best(row.shots)), cpu,
				median(row.shots, func(s shot) float64 { return s.p50 }), median(row.shots, func(s shot) float64 { return s.p99 }))
		}
	}
	cost := median(fast.ours, shot.perCore) / median(fast.theirs, shot.perCore)
	fmt.Fprintf(&b, "\n* target ≥ %g × wrk's requests per CPU second: %.2f×: **%s**\n", generatorCost, cost, verdict(cost >= generatorCost))
	for _, d := range []struct {
		name string
		duel
	}{{"nginx (needs a quiet machine)", fast}, {"the origin that waits", slow}} {
		rate := best(d.ours) / best(d.theirs)
		fmt.Fprintf(&b, "* target best requests/s from %s within %g %% of wrk's: %.2f×: **%s**\n", d.name, generatorAgree*100, rate, verdict(math.Abs(rate-1) < generatorAgree))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (s shot) perSecond() float64 { return s.rate }
func (s shot) perCore() float64   { return s.perCPU }

func best(shots []shot) float64 {
	top := 0.0
	for _, s := range shots {
		top = max(top, s.rate)
	}
	return top
}
