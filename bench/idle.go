package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

const idleAbout = "Memory of 5,000 intercepted TLS connections that wait for a request"

const (
	idleConnections = 5000
	idleTarget      = 40 // KiB per connection, at most
)

// idle opens connections through every peer that decrypts TLS, fetches one page on each, and
// measures the growth of the peer's processes.
func idle(ctx context.Context, opt options, out io.Writer) error {
	r, err := newRig(ctx, true)
	if err != nil {
		return err
	}
	defer r.close()
	peers, missing, err := (&peerRig{r}).startPeers([]string{subject, "squid"})
	if err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n%s. %s\n`go run -C bench . tls-idle`, resident memory of the process tree, a page fetched on each connection.\n\n| peer | version | before, MB | after, MB | KiB a connection |\n|---|---|--:|--:|--:|\n",
		idleAbout, time.Now().UTC().Format("2006-01-02 15:04 MST"), machine("at the end"))
	each := map[string]float64{}
	for _, p := range peers {
		before, after, err := (&socketRig{r}).hold(p)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		each[p.name] = (after - before) / idleConnections / 1024
		fmt.Fprintf(&b, "| %s | %s | %.0f | %.0f | %.1f |\n", p.name, p.about, before/1e6, after/1e6, each[p.name])
	}
	if v, ok := each[subject]; ok {
		fmt.Fprintf(&b, "\n* target ≤ %d KiB a connection: %.1f: **%s**\n", idleTarget, v, verdict(v <= idleTarget))
	}
	b.WriteString(leftOut(missing))
	_, err = io.WriteString(out, b.String())
	return err
}

// hold opens the connections, and returns the peer's memory before and with them, in bytes.
func (r *socketRig) hold(p *peer) (before, after float64, err error) {
	if err := r.warm(p); err != nil {
		return 0, 0, err
	}
	p.proc.settle(r.ctx)
	before = p.proc.residentMB() * 1e6
	conns, err := openAll(r.rig, idleConnections, func() (net.Conn, error) { return r.openTLS(p) })
	defer closeAll(conns)
	if err != nil {
		return 0, 0, err
	}
	p.proc.settle(r.ctx)
	return before, p.proc.residentMB() * 1e6, r.ctx.Err()
}

// openAll opens n connections, eight at a time.
func openAll[C any](r *rig, n int, open func() (C, error)) (all []C, err error) {
	all = make([]C, n)
	errs := make([]error, 8)
	var wg sync.WaitGroup
	for w := range errs {
		wg.Go(func() {
			for i := w; i < n && errs[w] == nil && r.ctx.Err() == nil; i += len(errs) {
				all[i], errs[w] = open()
			}
		})
	}
	wg.Wait()
	return all, errors.Join(errs...)
}

// closeAll closes the connections that were opened.
func closeAll[C interface {
	comparable
	io.Closer
}](all []C) {
	var none C
	for _, c := range all {
		if c != none {
			c.Close()
		}
	}
}

// warm fetches a few pages, so that one-time allocations are done.
func (r *socketRig) warm(p *peer) error {
	for range 20 {
		c, err := r.openTLS(p)
		if err != nil {
			return err
		}
		c.Close()
	}
	return nil
}

// openTLS opens a connection through p and fetches the small page on it.
func (r *socketRig) openTLS(p *peer) (net.Conn, error) {
	c, err := net.DialTimeout("tcp", p.proxy, 10*time.Second)
	if err != nil {
		return nil, err
	}
	_ = c.SetDeadline(time.Now().Add(30 * time.Second)) // cannot fail on a new connection
	if err := r.fetchTLS(c); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func (r *socketRig) fetchTLS(c net.Conn) error {
	fmt.Fprint(c, "CONNECT localhost:443 HTTP/1.1\r\nHost: localhost:443\r\n\r\n")
	br := bufio.NewReaderSize(c, 512)
	res, err := http.ReadResponse(br, &http.Request{Method: http.MethodConnect})
	if err != nil {
		return err
	}
	res.Body.Close()
	if res.StatusCode != http.StatusOK || br.Buffered() > 0 {
		return fmt.Errorf("CONNECT: %s, %d bytes behind it", res.Status, br.Buffered())
	}
	tc := tls.Client(c, &tls.Config{ServerName: "localhost", RootCAs: r.certs.roots})
	fmt.Fprint(tc, "GET /small.html HTTP/1.1\r\nHost: localhost\r\n\r\n")
	page, err := http.ReadResponse(bufio.NewReader(tc), nil)
	if err != nil {
		return err
	}
	defer page.Body.Close()
	n, err := io.Copy(io.Discard, page.Body)
	if err == nil && (page.StatusCode != http.StatusOK || n != smallSize) {
		err = fmt.Errorf("the page: %s, %d bytes", page.Status, n)
	}
	return err
}
