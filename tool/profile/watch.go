package profile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"shuultuur/lib/setting"
	"shuultuur/lib/wait"
)

const (
	watched = 5 * time.Second // between two looks; limits are compared with what happened meanwhile
	rest    = time.Minute     // after a profile, so that a long trouble does not fill the folder
	kept    = 10              // profiles of the last troubles
	named   = "20060102-150405"
)

// Limits are what a gateway may use before Watch profiles it; 0 is no limit.
type Limits struct {
	Cores  float64       // of processor time in a second
	Memory float64       // bytes, resident
	P99    time.Duration // from the first byte of a request to the last one of its response
}

// ParseLimits reads limits as in "cpu=0.9,memory=400MB,p99=250ms".
func ParseLimits(text string) (l Limits, err error) {
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch name {
		case "cpu":
			if l.Cores, err = strconv.ParseFloat(value, 64); err == nil && !(l.Cores > 0) {
				err = errors.New("it must be more than 0")
			}
		case "memory":
			var size setting.Size
			if err = size.UnmarshalText([]byte(value)); err == nil && size <= 0 {
				err = errors.New("it must be more than 0")
			}
			l.Memory = float64(size)
		case "p99":
			if l.P99, err = time.ParseDuration(value); err == nil && l.P99 <= 0 {
				err = errors.New("it must be more than 0")
			}
		default:
			return l, fmt.Errorf("limit %q is none of cpu=CORES, memory=SIZE and p99=TIME", part)
		}
		if err != nil {
			return l, fmt.Errorf("limit %q: %w", part, err)
		}
	}
	return l, nil
}

// exceeded says which limit was exceeded between two looks, or nothing.
func (l Limits) exceeded(now, before *scrape) string {
	gap := max(now.at.Sub(before.at).Seconds(), 1e-3)
	cores := (now.values["process_cpu_seconds_total"] - before.values["process_cpu_seconds_total"]) / gap
	memory := now.values["process_resident_memory_bytes"]
	switch {
	case l.Cores > 0 && cores > l.Cores:
		return fmt.Sprintf("it uses %.2f cores", cores)
	case l.Memory > 0 && memory > l.Memory:
		return fmt.Sprintf("it has %s resident", bytesOf(memory))
	case l.P99 > 0:
		if slow := slowest(since(now, before, "shuultuur_transaction_seconds"), 0.01); slow > l.P99.Seconds() {
			return fmt.Sprintf("one response in a hundred takes more than %s", formatDuration(time.Duration(slow*1e9)))
		}
	}
	return ""
}

// slowest returns the beginning of the bucket that holds the first of the slowest share of the
// values: they are at least that large. Few values have no such share.
func slowest(h []bucket, share float64) float64 {
	if len(h) == 0 || h[len(h)-1].count < 1/share {
		return 0
	}
	low, n := 0.0, h[len(h)-1].count
	for _, b := range h {
		if b.count > math.Floor(n*(1-share)) || math.IsInf(b.end, 1) {
			break
		}
		low = b.end
	}
	return low
}

// Watch looks at the gateway every few seconds and takes its profiles when it exceeds a limit,
// each time into a folder of its own below that of the settings, named after the time. It keeps
// those of the last ten times, and goes on while the gateway does not answer.
func (c *Client) Watch(ctx context.Context, l Limits, w io.Writer) error {
	var before *scrape
	silent := ""
	for {
		now, err := c.scrape(ctx)
		why := ""
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			if err.Error() != silent { // once for each reason
				silent = err.Error()
				fmt.Fprintf(w, "%s  not watched: %v\n", time.Now().Format(time.DateTime), err)
			}
		case before != nil:
			why = l.exceeded(now, before)
		}
		if err == nil {
			silent = ""
		}
		pause := watched
		if before = now; why != "" {
			if err := c.keep(ctx, why, w); err != nil && ctx.Err() == nil {
				return err
			}
			before, pause = nil, rest
		}
		if wait.For(ctx, pause) != nil {
			return nil
		}
	}
}

// keep takes profiles and removes the oldest beyond those that are kept.
func (c *Client) keep(ctx context.Context, why string, w io.Writer) error {
	at := time.Now()
	one := *c
	one.cfg.Dir = filepath.Join(c.cfg.Dir, at.Format(named))
	if _, err := one.Fetch(ctx); err != nil {
		fmt.Fprintf(w, "%s  %s; no profile: %v\n", at.Format(time.DateTime), why, err)
		return nil
	}
	if err := os.WriteFile(filepath.Join(one.cfg.Dir, "why.txt"), []byte(why+"\n"), 0o644); err != nil {
		return err
	}
	fmt.Fprintf(w, "%s  %s: %s\n", at.Format(time.DateTime), why, one.cfg.Dir)
	entries, err := os.ReadDir(c.cfg.Dir)
	if err != nil {
		return err
	}
	var ours []string
	for _, e := range entries {
		if _, err := time.Parse(named, e.Name()); err == nil && e.IsDir() {
			ours = append(ours, e.Name())
		}
	}
	slices.Sort(ours)
	for _, name := range ours[:max(0, len(ours)-kept)] {
		if err := os.RemoveAll(filepath.Join(c.cfg.Dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// scrape returns what /metrics says now.
func (c *Client) scrape(ctx context.Context) (*scrape, error) {
	data, err := c.get(ctx, "/metrics", 5*time.Second, maxMetrics)
	if err != nil {
		return nil, err
	}
	s, err := readMetrics(data)
	if err != nil {
		return nil, err
	}
	s.at = time.Now()
	return s, nil
}
