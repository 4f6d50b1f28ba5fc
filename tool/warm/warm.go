// Package warm fetches URLs through a gateway, so that its cache has them. Policies judge these
// requests like any other.
package warm

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// Counts say what became of the URLs.
type Counts struct {
	Stored, Had, Not, Failed int // Not cannot be stored
}

// A Warmer fetches URLs.
type Warmer struct {
	Proxy  *url.URL                    // of the gateway
	Failed func(url string, err error) // is told of each failure, one at a time

	client *http.Client
	mu     sync.Mutex
	counts Counts
}

// Run fetches the URLs of in, one on a line, at most workers at once.
func (w *Warmer) Run(ctx context.Context, in io.Reader, workers int) (Counts, error) {
	w.client = &http.Client{Timeout: 10 * time.Minute, Transport: &http.Transport{
		Proxy: http.ProxyURL(w.Proxy), DisableCompression: true,
		// The gateway verifies the origin's certificate, and its own certificate is for
		// this machine. The answers are not used.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}}
	defer w.client.CloseIdleConnections()
	urls := make(chan string)
	var work sync.WaitGroup
	for range workers {
		work.Go(func() {
			for u := range urls {
				w.fetch(ctx, u)
			}
		})
	}
	s := bufio.NewScanner(in)
	s.Buffer(nil, 1<<20)
	for s.Scan() && ctx.Err() == nil {
		if u := strings.TrimSpace(s.Text()); u != "" && u[0] != '#' {
			urls <- u
		}
	}
	close(urls)
	work.Wait()
	return w.counts, errors.Join(s.Err(), ctx.Err())
}

func (w *Warmer) fetch(ctx context.Context, u string) {
	status, err := w.get(ctx, u)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err != nil:
		w.counts.Failed++
		w.Failed(u, err)
	case strings.Contains(status, "; hit"), strings.Contains(status, "; collapsed"), strings.Contains(status, "; fwd-status=304"):
		w.counts.Had++
	case strings.Contains(status, "; stored"):
		w.counts.Stored++
	default:
		w.counts.Not++
	}
}

func (w *Warmer) get(ctx context.Context, u string) (status string, err error) {
	if p, err := url.Parse(u); err != nil || p.Scheme != "http" && p.Scheme != "https" {
		return "", errors.New("not a URL with http or https")
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, u, nil)
	if err != nil {
		return "", err
	}
	q.Header.Set("Accept-Encoding", "gzip, deflate, br, zstd")
	r, err := w.client.Do(q)
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return "", err
	}
	if r.StatusCode >= 400 {
		return "", fmt.Errorf("status %s", r.Status)
	}
	return r.Header.Get("Cache-Status"), nil
}
