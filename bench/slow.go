package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

const slowAbout = "A page of 200 KB that takes 8 seconds to come: when its first byte and its last one are there"

const (
	slowSize    = 200_000
	slowPieces  = 80
	slowPause   = 100 * time.Millisecond
	slowClients = 10
	slowTarget  = 500 // ms to the first byte of the page
)

// arrivals are milliseconds since the request, in all rounds.
type arrivals struct{ first, last []float64 }

// slow fetches a page that arrives slowly, with ten concurrent clients, through each peer in
// turn.
func slow(ctx context.Context, opt options, out io.Writer) error {
	r, err := newRig(ctx, false)
	if err != nil {
		return err
	}
	defer r.close()
	page, err := os.ReadFile(filepath.Join(r.dir, "www", "large.html"))
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	origin := &http.Server{Handler: dripping(page[:slowSize])}
	defer origin.Close()
	go origin.Serve(l)
	peers, missing, err := (&peerRig{r}).startPeers([]string{"direct", subject, "e2guardian", "squid", "privoxy"})
	if err != nil {
		return err
	}
	if err := r.pinSelf(loadCore); err != nil {
		return err
	}
	of := map[string]*arrivals{}
	for round := range opt.rounds {
		for _, p := range peers {
			w := of[p.name]
			if w == nil {
				w = &arrivals{}
				of[p.name] = w
			}
			if err := (&socketRig{r}).wait(p, "http://"+l.Addr().String()+"/slow.html", w); err != nil {
				return fmt.Errorf("round %d of %s: %w", round+1, p.name, err)
			}
			fmt.Fprintf(os.Stderr, "round %d %-12s first byte %.0f ms, last %.0f ms\n", round+1, p.name, w.first[len(w.first)-1], w.last[len(w.last)-1])
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n%s. %s\n`go run -C bench . slow -rounds %d`: %d pieces, %s apart, to %d clients at once, by turns, medians with range.\n\n| peer | version | first byte ms | last byte ms |\n|---|---|--:|--:|\n",
		slowAbout, time.Now().UTC().Format("2006-01-02 15:04 MST"), machine("at the end"), opt.rounds, slowPieces, slowPause, slowClients)
	for _, p := range peers {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", p.name, p.about, ranged(of[p.name].first, 0), ranged(of[p.name].last, 0))
	}
	b.WriteString("\n")
	if w := of[subject]; w != nil {
		worst := 0.0
		for _, ms := range w.first {
			worst = max(worst, ms)
		}
		fmt.Fprintf(&b, "* target ≤ %d ms to the first byte, of each client: %.0f ms: **%s**\n", slowTarget, worst, verdict(worst <= slowTarget))
	}
	b.WriteString(leftOut(missing))
	_, err = io.WriteString(out, b.String()+"\n")
	return err
}

// dripping serves page in pieces.
func dripping(page []byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		size := len(page) / slowPieces
		for i := range slowPieces {
			piece := page[i*size:]
			if i < slowPieces-1 {
				piece = piece[:size]
			}
			if _, err := w.Write(piece); err != nil {
				return
			}
			_ = http.NewResponseController(w).Flush() // the next write reports errors
			select {
			case <-time.After(slowPause):
			case <-q.Context().Done():
				return
			}
		}
	})
}

// wait fetches url with all clients concurrently through p.
func (r *socketRig) wait(p *peer, url string, w *arrivals) error {
	var mu sync.Mutex
	var wg sync.WaitGroup
	errs := make([]error, slowClients)
	for i := range errs {
		wg.Go(func() {
			first, last, err := r.fetchSlowly(p, url)
			mu.Lock()
			defer mu.Unlock()
			errs[i] = err
			w.first, w.last = append(w.first, first), append(w.last, last)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (r *socketRig) fetchSlowly(p *peer, url string) (first, last float64, err error) {
	c := (&verifier{r.rig}).client(p)
	defer c.CloseIdleConnections()
	req, err := http.NewRequestWithContext(r.ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, 0, err
	}
	start := time.Now()
	resp, err := c.Do(req)
	if err != nil {
		return 0, 0, err
	}
	defer resp.Body.Close()
	var one [1]byte
	if _, err := io.ReadFull(resp.Body, one[:]); err != nil {
		return 0, 0, err
	}
	first = float64(time.Since(start).Microseconds()) / 1000
	n, err := io.Copy(io.Discard, resp.Body)
	if err == nil && (resp.StatusCode != http.StatusOK || n+1 < slowSize) {
		err = fmt.Errorf("%s, %d bytes", resp.Status, n+1)
	}
	return first, float64(time.Since(start).Microseconds()) / 1000, err
}
