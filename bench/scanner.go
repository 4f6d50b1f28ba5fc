package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"shuultuur/tool/load"
)

const scannerAbout = "Pages that need no scanner, while others wait for one that takes 8 seconds"

const (
	scannerTime    = 8 * time.Second
	scannerClients = 16
	scannerShare   = 0.4     // of the rate at which pages come as fast as they can
	scannerFile    = 200_000 // bytes that each of the others loads
	scannerTarget  = 1.05    // p99 with the scanner, relative to that without
)

// A slowScanner is a clamd that thinks for a while about each file, and finds nothing.
type slowScanner struct {
	net.Listener
	asked atomic.Int64
}

func (s *slowScanner) serve() {
	for {
		c, err := s.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			s.talk(c)
		}()
	}
}

// talk answers the commands of one connection (clamd(8)).
func (s *slowScanner) talk(c net.Conn) {
	for r := bufio.NewReader(c); ; {
		command, err := r.ReadString(0)
		answer := "PONG\x00"
		switch {
		case err != nil:
			return
		case command == "zINSTREAM\x00":
			for size := uint32(1); size > 0; {
				if binary.Read(r, binary.BigEndian, &size) != nil {
					return
				}
				if _, err := io.CopyN(io.Discard, r, int64(size)); err != nil {
					return
				}
			}
			s.asked.Add(1)
			time.Sleep(scannerTime)
			answer = "stream: OK\x00"
		case command != "zPING\x00":
			continue
		}
		if _, err := io.WriteString(c, answer); err != nil {
			return
		}
	}
}

// scanning fetches pages at a fixed rate, by turns alone and while other clients load files that a
// slow scanner must see.
func scanning(ctx context.Context, opt options, out io.Writer) error {
	r, err := newRig(ctx, false)
	if err != nil {
		return err
	}
	defer r.close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close()
	s := &slowScanner{Listener: l}
	go s.serve()
	files, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	origin := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/octet-stream")
		_, _ = w.Write(make([]byte, scannerFile)) // the reader may have left
	})}
	defer origin.Close()
	go origin.Serve(files)
	p := &peer{name: subject, filters: true, scanner: l.Addr().String()}
	if err := (&peerRig{r}).beginShuultuur(p); err != nil {
		return err
	}
	if err := p.proc.ready(ctx, p.proxy); err != nil {
		return err
	}
	if err := r.pinSelf(loadCore); err != nil {
		return err
	}
	pages := scenario{name: "scanner", unit: "pages", connections: 10, urls: (*rig).pageURLs, timeout: 20 * time.Second, most: 60 * time.Second}
	if _, err := (&verifier{r}).verify([]*peer{p}, pages); err != nil {
		return err
	}
	fetches, err := r.calibrate(pages, opt, p)
	if err != nil {
		return err
	}
	cfg := pages.load(r, p)
	cfg.Parallel, cfg.Rate = 0, scannerShare*float64(fetches)/opt.seconds
	cfg.Duration = max(opt.duration(), 3*scannerTime)
	kinds := []string{"alone", "with the scanner"}
	found := map[string][][3]float64{}
	for round := range opt.rounds {
		for _, kind := range kinds {
			v, err := (&socketRig{r}).besideScanner(cfg, kind != "alone", p, s, "http://"+files.Addr().String()+"/")
			if err != nil {
				return fmt.Errorf("round %d %s: %w", round+1, kind, err)
			}
			fmt.Fprintf(os.Stderr, "round %d %-16s p50 %.2f ms, p99 %.2f ms, %.0f scans\n", round+1, kind, v[0], v[1], v[2])
			found[kind] = append(found[kind], v)
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n%s. %s\n`go run -C bench . scanner -rounds %d`: pages at a fixed rate of %.0f a second, which is %g of what comes at full speed, for %v a round; %d other clients load files of %d bytes, each of which clamd looks at for %v; by turns, medians with range, latency from when a page was to be asked for.\n\n| pages | p50 ms | p99 ms | scans a round |\n|---|--:|--:|--:|\n",
		scannerAbout, time.Now().UTC().Format("2006-01-02 15:04 MST"), machine("at the end"), opt.rounds, cfg.Rate, scannerShare, cfg.Duration, scannerClients, scannerFile, scannerTime)
	column := func(kind string, n int) (v []float64) {
		for _, f := range found[kind] {
			v = append(v, f[n])
		}
		return v
	}
	for _, kind := range kinds {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", kind, ranged(column(kind, 0), 2), ranged(column(kind, 1), 2), ranged(column(kind, 2), 0))
	}
	var ratios []float64
	for i, alone := range column(kinds[0], 1) {
		ratios = append(ratios, column(kinds[1], 1)[i]/alone)
	}
	ratio := middle(ratios)
	fmt.Fprintf(&b, "\n* target p99 ≤ %g × that alone: %s: **%s**\n\n", scannerTarget, ranged(ratios, 2), verdict(ratio <= scannerTarget))
	_, err = io.WriteString(out, b.String())
	return err
}

// besideScanner fetches pages once, and returns the median and the 99th percentile of their latency
// in milliseconds, and how often the scanner was asked.
func (r *socketRig) besideScanner(cfg load.Config, busy bool, p *peer, s *slowScanner, files string) ([3]float64, error) {
	ctx, cancel := context.WithCancel(r.ctx)
	var others sync.WaitGroup
	errs := make([]error, scannerClients)
	if busy {
		for i := range errs {
			others.Go(func() { errs[i] = loadFiles(ctx, p.proxy, files, fmt.Sprintf("127.0.1.%d", i+1)) })
		}
	}
	was := s.asked.Load()
	rep, err := r.load(cfg)
	cancel()
	others.Wait()
	if err = errors.Join(append(errs, err)...); err != nil {
		return [3]float64{}, err
	}
	if n := len(rep.Errors); n > 0 {
		return [3]float64{}, fmt.Errorf("pages failed: %v", rep.Errors)
	}
	asked := s.asked.Load() - was
	if busy && asked < scannerClients {
		return [3]float64{}, fmt.Errorf("the scanner was asked %d times, so the others did not wait for it", asked)
	}
	return [3]float64{rep.Intended.P50, rep.Intended.P99, float64(asked)}, nil
}

// loadFiles loads one file after another from an address of this machine until ctx ends.
func loadFiles(ctx context.Context, proxy, file, from string) error {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	tr := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: proxy}), DialContext: d.DialContext}
	defer tr.CloseIdleConnections()
	for n := 0; ctx.Err() == nil; n++ {
		q, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s%s-%d", file, from, n), nil)
		if err != nil {
			return err
		}
		res, err := tr.RoundTrip(q)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		size, err := io.Copy(io.Discard, res.Body)
		res.Body.Close()
		if ctx.Err() == nil && (err != nil || res.StatusCode != http.StatusOK || size != scannerFile) {
			return fmt.Errorf("a file that was scanned: status %d, %d bytes, %v", res.StatusCode, size, err)
		}
	}
	return nil
}
