package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"time"

	"shuultuur/load"
)

const generatorAbout = "The load generator itself against wrk: 1 KiB, nginx on the other core"

// The targets of the generator against wrk.
const (
	generatorCost  = 0.8 // requests per second of its own processor time, at least
	generatorAgree = 0.1 // difference in requests/s, at most
)

// shot is one round of one generator.
type shot struct {
	rate, perCPU, p50, p99 float64 // requests/s, requests per CPU second, ms
}

// generator sets load http beside wrk. Both run on the load's core, nginx on
// the other, so that neither disturbs the server.
func generator(ctx context.Context, opt options) error {
	wrk, err := find("wrk")
	if err != nil {
		return err
	}
	r, err := newRig(ctx)
	if err != nil {
		return err
	}
	defer r.close()
	if err := r.pinSelf(); err != nil {
		return err
	}
	origin := strconv.Itoa(r.procs[0].cmd.Process.Pid)
	if out, err := exec.Command("taskset", "-apc", proxyCore, origin).CombinedOutput(); err != nil {
		return fmt.Errorf("pin nginx: %w: %s", err, out)
	}
	var ours, theirs []shot
	for range opt.rounds {
		o, err := r.shootOurs(opt)
		if err != nil {
			return err
		}
		t, err := r.shootWrk(wrk, opt)
		if err != nil {
			return err
		}
		ours, theirs = append(ours, o), append(theirs, t)
	}
	printShots(ours, theirs, opt)
	return nil
}

func (r *rig) shootOurs(opt options) (shot, error) {
	rep, err := r.load(load.Config{URLs: r.smallURLs(), Parallel: 10, KeepAlive: true, Duration: time.Duration(opt.seconds * float64(time.Second))})
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

func (r *rig) shootWrk(wrk string, opt options) (shot, error) {
	seconds := strconv.Itoa(max(1, int(opt.seconds+0.5)))
	cmd := exec.CommandContext(r.ctx, wrk, "--latency", "-t1", "-c10", "-d"+seconds, r.smallURLs()[0])
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

func printShots(ours, theirs []shot, opt options) {
	mid := func(all []shot, of func(shot) float64) float64 { return median(all, of) }
	fmt.Printf("### %s\n\n%s. %s\n`go run ./bench generator -rounds %d -seconds %g`, 10 kept-alive connections, medians.\n\n",
		generatorAbout, time.Now().UTC().Format("2006-01-02 15:04 MST"), machine(), opt.rounds, opt.seconds)
	fmt.Println("| generator | requests/s | requests per CPU second | p50 ms | p99 ms |\n|---|--:|--:|--:|--:|")
	for _, row := range []struct {
		name  string
		shots []shot
	}{{"load http", ours}, {"wrk", theirs}} {
		fmt.Printf("| %s | %s | %s | %.3f | %.3f |\n", row.name,
			figure(mid(row.shots, func(s shot) float64 { return s.rate })), figure(mid(row.shots, func(s shot) float64 { return s.perCPU })),
			mid(row.shots, func(s shot) float64 { return s.p50 }), mid(row.shots, func(s shot) float64 { return s.p99 }))
	}
	ratio := func(of func(shot) float64) float64 { return mid(ours, of) / mid(theirs, of) }
	cost, rate := ratio(func(s shot) float64 { return s.perCPU }), ratio(func(s shot) float64 { return s.rate })
	verdict := map[bool]string{true: "reached", false: "missed"}
	fmt.Printf("\n* target ≥ %g × wrk's requests per CPU second: %.2f×: **%s**\n", generatorCost, cost, verdict[cost >= generatorCost])
	fmt.Printf("* target requests/s within %g %% of wrk's: %.2f×: **%s**\n", generatorAgree*100, rate, verdict[rate > 1-generatorAgree && rate < 1+generatorAgree])
	fmt.Fprintln(os.Stderr, "done")
}
