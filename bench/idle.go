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
	idleTarget      = 40 // KiB of each, at most
)

// idle opens connections through every peer that looks into TLS, fetches one
// page on each, and looks at what the peer's processes have grown by.
func idle(ctx context.Context, opt options, out io.Writer) error {
	r, err := newRig(ctx, true)
	if err != nil {
		return err
	}
	defer r.close()
	peers, missing, err := r.startPeers([]string{subject, "squid"})
	if err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n%s. %s\n`go run ./bench tls-idle`, resident memory of the process tree, a page fetched on each connection.\n\n| peer | version | before, MB | after, MB | KiB a connection |\n|---|---|--:|--:|--:|\n",
		idleAbout, time.Now().UTC().Format("2006-01-02 15:04 MST"), machine())
	each := map[string]float64{}
	for _, p := range peers {
		before, after, err := r.hold(p)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		each[p.name] = (after - before) / idleConnections / 1024
		fmt.Fprintf(&b, "| %s | %s | %.0f | %.0f | %.1f |\n", p.name, p.about, before/1e6, after/1e6, each[p.name])
	}
	verdict := map[bool]string{true: "reached", false: "missed"}
	if v, ok := each[subject]; ok {
		fmt.Fprintf(&b, "\n* target ≤ %d KiB a connection: %.1f: **%s**\n", idleTarget, v, verdict[v <= idleTarget])
	}
	for _, n := range missing {
		if !strings.HasSuffix(n, "not asked for") {
			fmt.Fprintf(&b, "* %s\n", n)
		}
	}
	_, err = io.WriteString(out, b.String())
	return err
}

// hold opens the connections and says what the peer's memory was before and
// with them, in bytes.
func (r *rig) hold(p *peer) (before, after float64, err error) {
	if err := r.warm(p); err != nil {
		return 0, 0, err
	}
	p.proc.settle(r.ctx)
	before = p.proc.residentMB() * 1e6
	conns := make([]net.Conn, idleConnections)
	defer func() {
		for _, c := range conns {
			if c != nil {
				c.Close()
			}
		}
	}()
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for w := range errs {
		wg.Go(func() {
			for i := w; i < len(conns) && errs[w] == nil && r.ctx.Err() == nil; i += len(errs) {
				conns[i], errs[w] = r.openTLS(p)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return 0, 0, err
	}
	p.proc.settle(r.ctx)
	return before, p.proc.residentMB() * 1e6, r.ctx.Err()
}

// warm fetches a few pages, so that what is allocated once is there.
func (r *rig) warm(p *peer) error {
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
func (r *rig) openTLS(p *peer) (net.Conn, error) {
	c, err := net.DialTimeout("tcp", p.proxy, 10*time.Second)
	if err != nil {
		return nil, err
	}
	_ = c.SetDeadline(time.Now().Add(30 * time.Second)) // it was just opened
	if err := r.fetchTLS(c); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func (r *rig) fetchTLS(c net.Conn) error {
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
