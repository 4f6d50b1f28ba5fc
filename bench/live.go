package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"shuultuur/event/sqlite"
)

const liveAbout = "200 live pages of the record beside filtered pages, with 5 million events"

const (
	livePages  = 200
	liveTarget = 0.95 // relative to the pages per core without them, at least
)

// live measures filtered pages in turn: alone, and while people watch the live page of the
// record.
func live(ctx context.Context, opt options, out io.Writer) error {
	r, err := newRig(ctx, false)
	if err != nil {
		return err
	}
	defer r.close()
	dir, err := r.folder(subject)
	if err != nil {
		return err
	}
	if err := longRecord(ctx, filepath.Join(dir, "events.db"), recordRows, recordSpan); err != nil {
		return err
	}
	peers, missing, err := (&peerRig{r}).startPeers([]string{subject})
	if err != nil {
		return err
	}
	if len(peers) == 0 {
		return fmt.Errorf("nothing to measure: %v", missing)
	}
	if err := r.pinSelf(loadCore); err != nil {
		return err
	}
	pages := scenarios()[slices.IndexFunc(scenarios(), func(s scenario) bool { return s.name == "pages" })]
	if _, err := (&verifier{r}).verify(peers, pages); err != nil {
		return err
	}
	p := peers[0]
	fetches, err := r.calibrate(pages, opt, p)
	if err != nil {
		return err
	}
	var alone, withPages []window
	var cost, rate []float64
	var shown, skipped int64
	for range opt.rounds {
		a, err := r.round(pages, opt, p, fetches)
		if err != nil {
			return err
		}
		v, err := r.view(p)
		if err != nil {
			return err
		}
		b, err := r.round(pages, opt, p, fetches)
		v.close()
		if err == nil {
			err = v.failed()
		}
		if err != nil {
			return err
		}
		p.proc.settle(ctx)
		shown, skipped = shown+v.rows.Load(), skipped+v.skips.Load()
		alone, withPages = append(alone, a), append(withPages, b)
		cost, rate = append(cost, a.perFetch()/b.perFetch()), append(rate, b.rate()/a.rate())
	}
	slices.Sort(cost)
	slices.Sort(rate)
	if shown == 0 {
		return errors.New("the live pages were shown nothing")
	}
	fmt.Fprintf(out, "### %s\n\n%s. %s\n`go run -C bench . live -rounds %d -seconds %g`, 10 connections, medians, by turns; load, origin and viewers on core %s, gateway on core %s. The viewers were shown %d rows, and told %d times that some were skipped.\n\n",
		liveAbout, time.Now().UTC().Format("2006-01-02 15:04 MST"), machine("at the end"), opt.rounds, opt.seconds, loadCore, proxyCore, shown, skipped)
	fmt.Fprintln(out, "| live pages | pages/s | CPU µs/page | pages/s per full core | RSS MB peak | errors |\n|--:|--:|--:|--:|--:|--:|")
	for i, w := range [][]window{alone, withPages} {
		cpu, errs := median(w, window.perFetch), int64(0)
		for _, x := range w {
			for _, n := range x.report.Errors {
				errs += n
			}
		}
		fmt.Fprintf(out, "| %d | %s | %.0f | %s | %.0f | %d |\n", i*livePages, figure(median(w, window.rate)), cpu, figure(1e6/cpu), slices.MaxFunc(w, func(a, b window) int { return int(a.peakMB - b.peakMB) }).peakMB, errs)
	}
	ok := verdict(middle(cost) >= liveTarget)
	_, err = fmt.Fprintf(out, "\n* target ≥ %.2f of the pages of a core without them: %.3f%s (by the clock %.3f%s): **%s**\n\n", liveTarget, middle(cost), spread(cost, 3), middle(rate), spread(rate, 3), ok)
	return err
}

// longRecord writes the record that the pages show.
func longRecord(ctx context.Context, file string, rows int, span time.Duration) error {
	s, err := sqlite.Open(file, 365*24*time.Hour)
	if err != nil {
		return err
	}
	_, err = fillRecord(ctx, s, time.Now().UTC().Truncate(time.Microsecond), rows, span)
	return errors.Join(err, s.Close())
}

// viewers are open live pages.
type viewers struct {
	stop  context.CancelFunc
	ended sync.WaitGroup
	early atomic.Int64
	rows  atomic.Int64
	skips atomic.Int64
	done  atomic.Bool
}

// view opens the live pages of a gateway, and returns when all have begun.
func (r *rig) view(p *peer) (*viewers, error) {
	ctx, stop := context.WithCancel(r.ctx)
	v := &viewers{stop: stop}
	client := &http.Client{Transport: &http.Transport{}}
	for range livePages {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.admin+"/events/live", nil)
		if err != nil {
			v.close()
			return nil, err
		}
		res, err := client.Do(req)
		if err == nil && res.StatusCode != http.StatusOK {
			res.Body.Close()
			err = fmt.Errorf("a live page: %s", res.Status)
		}
		if err != nil {
			v.close()
			return nil, err
		}
		v.ended.Go(func() {
			defer res.Body.Close()
			v.read(res.Body)
		})
	}
	return v, nil
}

// read counts the received rows with as little work as possible: the viewers share a core with
// the load.
func (v *viewers) read(from io.Reader) {
	buf := make([]byte, 64<<10)
	begins := true // of a line
	for {
		n, err := from.Read(buf)
		for _, c := range buf[:n] {
			if begins {
				switch c {
				case 'i': // id: of a row
					v.rows.Add(1)
				case 'e': // event: skipped
					v.skips.Add(1)
				}
			}
			begins = c == '\n'
		}
		if err != nil {
			if !v.done.Load() {
				v.early.Add(1)
			}
			return
		}
	}
}

func (v *viewers) close() {
	v.done.Store(true)
	v.stop()
	v.ended.Wait()
}

func (v *viewers) failed() error {
	if n := v.early.Load(); n > 0 {
		return fmt.Errorf("%d live pages ended by themselves", n)
	}
	return nil
}
