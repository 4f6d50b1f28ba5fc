package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"syscall"
	"time"

	"shuultuur/tool/load"
)

const overloadAbout = "Ten times the measured capacity, open loop: goodput, latency, memory, recovery"

const (
	overloadTimes    = 10
	overloadTime     = 15 * time.Second // three times queue-time
	overloadP99      = 6000             // ms: queue-time plus a page
	overloadInFlight = 6000             // exceeds the number of connections of the proxy
	recoveryStep     = 250 * time.Millisecond
	recoveryLimit    = 10 * time.Second
)

// storm is one round: the state before, its effect, and the recovery.
type storm struct {
	capacity, goodput  float64 // filtered pages per second
	calmCost, wildCost float64 // µs of the proxy's processor time per page
	p99                float64 // ms, of admitted pages
	refused, failed    int64
	beforeMB, duringMB float64 // resident
	goroutines         int
	recovery           time.Duration // until a window reaches 0.9 of the capacity again
}

// overload loads the proxy with ten times its capacity.
func overload(ctx context.Context, opt options, out io.Writer) error {
	r, err := newRig(ctx, false)
	if err != nil {
		return err
	}
	defer r.close()
	peers, missing, err := (&peerRig{r}).startPeers([]string{"shuultuur"})
	if err != nil {
		return err
	}
	if len(peers) == 0 {
		_, err := fmt.Fprintf(out, "### %s\n\n* %s\n\n", overloadAbout, missing)
		return err
	}
	if err := r.pinSelf(loadCore); err != nil {
		return err
	}
	if err := yield(); err != nil {
		return err
	}
	p := peers[0]
	var storms []storm
	for range opt.rounds {
		s, err := r.storm(p)
		if err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "capacity %.0f, goodput %.0f, p99 %.0f ms, recovery %v\n", s.capacity, s.goodput, s.p99, s.recovery)
		storms = append(storms, s)
	}
	return printStorms(out, p, storms)
}

// yield gives the origin priority over the generator on their common core: starting requests
// must not displace answering them.
func yield() error {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	for _, t := range tasks {
		tid, err := strconv.Atoi(t.Name())
		if err != nil {
			return err
		}
		if err := syscall.Setpriority(syscall.PRIO_PROCESS, tid, 10); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("letting the origin go first: %w", err)
		}
	}
	return nil
}

func (r *rig) storm(p *peer) (s storm, err error) {
	pages := load.Config{URLs: r.pageURLs(), Order: "order", KeepAlive: true, Timeout: 20 * time.Second, Proxy: p.proxy}
	calm := pages
	calm.Parallel, calm.Duration = 10, time.Second
	if _, err := r.load(calm); err != nil { // warm-up
		return s, err
	}
	calm.Duration = 3 * time.Second
	spent := p.proc.cpu()
	rep, err := r.load(calm)
	if err != nil {
		return s, err
	}
	s.capacity = pagesPerSecond(rep)
	s.calmCost = float64((p.proc.cpu() - spent).Microseconds()) / float64(rep.Good.Count)
	s.beforeMB = p.proc.residentMB()

	wild := pages
	wild.Rate, wild.InFlight, wild.Duration = overloadTimes*s.capacity, overloadInFlight, overloadTime
	watched := make(chan time.Duration)
	go func() {
		// The proxy has to work to report its goroutines, so ask rarely.
		spent, over := p.proc.cpu(), time.After(overloadTime)
		for i := 0; ; i++ {
			s.duringMB = max(s.duringMB, p.proc.residentMB())
			if i%10 == 0 {
				s.goroutines = max(s.goroutines, p.goroutines())
			}
			select {
			case <-over:
				watched <- p.proc.cpu() - spent
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	rep, err = r.load(wild)
	spent = <-watched
	if err != nil {
		return s, err
	}
	s.wildCost = float64(spent.Microseconds()) / float64(max(1, rep.Good.Count))
	s.goodput, s.p99 = pagesPerSecond(rep), rep.Good.P99
	s.refused = rep.Codes[503]
	for class, n := range rep.Errors {
		if class != "status" {
			s.failed += n
		}
	}
	calm.Duration = recoveryStep
	for begun := time.Now(); ; {
		if rep, err = r.load(calm); err != nil {
			return s, err
		}
		if s.recovery = time.Since(begun) - recoveryStep; pagesPerSecond(rep) >= 0.9*s.capacity || s.recovery > recoveryLimit {
			break
		}
	}
	p.proc.settle(r.ctx)
	return s, nil
}

func pagesPerSecond(r *load.Report) float64 { return float64(r.Good.Count) / r.Seconds }

var goroutineLine = regexp.MustCompile(`(?m)^go_goroutines ([0-9]+)`)

// goroutines returns the number that the peer reports, 0 if it does not.
func (p *peer) goroutines() int {
	c := http.Client{Timeout: time.Second}
	res, err := c.Get("http://" + p.admin + "/metrics")
	if err != nil {
		return 0
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if m := goroutineLine.FindSubmatch(text); err == nil && m != nil {
		n, _ := strconv.Atoi(string(m[1]))
		return n
	}
	return 0
}

func printStorms(out io.Writer, p *peer, all []storm) error {
	mid := func(f func(storm) float64) float64 {
		vs := make([]float64, 0, len(all))
		for _, s := range all {
			vs = append(vs, f(s))
		}
		slices.Sort(vs)
		return middle(vs)
	}
	capacity, goodput := mid(func(s storm) float64 { return s.capacity }), mid(func(s storm) float64 { return s.goodput })
	ratio := mid(func(s storm) float64 { return s.calmCost / s.wildCost })
	recovery := mid(func(s storm) float64 { return s.recovery.Seconds() })
	slowest := slices.MaxFunc(all, func(a, b storm) int { return cmp.Compare(a.p99, b.p99) }).p99
	fmt.Fprintf(out, `### %s

%s. Filtered pages as in "pages"; capacity with 10 connections, then %d × that for %v, at most %d requests under way; medians of %d rounds.

| capacity pages/s | goodput pages/s | by the clock | CPU µs/page before | during | pages per CPU second, during ÷ before | p99 of those let in, ms | refused with 503 | other errors | RSS before → most, MB | goroutines at most | calm again after, s |
|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|
| %.0f | %.0f | %.2f | %.0f | %.0f | %.2f | %.0f | %.0f | %.0f | %.0f → %.0f | %.0f | %.2f |

`, overloadAbout, p.about, overloadTimes, overloadTime, overloadInFlight, len(all),
		capacity, goodput, mid(func(s storm) float64 { return s.goodput / s.capacity }), mid(func(s storm) float64 { return s.calmCost }), mid(func(s storm) float64 { return s.wildCost }),
		ratio, mid(func(s storm) float64 { return s.p99 }), mid(func(s storm) float64 { return float64(s.refused) }),
		mid(func(s storm) float64 { return float64(s.failed) }), mid(func(s storm) float64 { return s.beforeMB }), mid(func(s storm) float64 { return s.duringMB }),
		mid(func(s storm) float64 { return float64(s.goroutines) }), recovery)
	_, err := fmt.Fprintf(out, "The generator shares its core with the origin, which goes first there (nice). Processor time is that of the %v, from the first connection on; what is under way when they are over counts as work and not as pages.\n\n* goodput ≥ 0.9 × capacity, by processor time: %.2f: **%s**\n* calm again within 2 s: %.2f s: **%s**\n* p99 of those let in ≤ %d ms: %.0f ms: **%s**\n\n",
		overloadTime, ratio, verdict(ratio >= 0.9), recovery, verdict(recovery <= 2), overloadP99, slowest, verdict(slowest <= overloadP99))
	return err
}

func verdict(ok bool) string {
	if ok {
		return "reached"
	}
	return "missed"
}
