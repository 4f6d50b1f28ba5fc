package forward

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"shuultuur/lib/dns"
)

const messageType = "application/dns-message"

// https queries over HTTP/2 or HTTP/3, RFC 8484; HTTP/3 is in quic.go.
type https struct {
	stats *stats
	url   string
	wait  time.Duration // for one query
	carry func() *carrier

	mu     sync.Mutex
	now    *carrier // nil: none yet
	closed bool
}

// A carrier is a pool with the connection that queries use. A dead connection cannot be removed
// from its pool, so the pool is left.
type carrier struct {
	rt  http.RoundTripper
	end func() // closes connections without queries
	pulse

	using atomic.Int32 // queries
	left  atomic.Bool  // it gets no more
}

// newHTTPS makes the transport for HTTP/2.
func newHTTPS(url string, cfg *tls.Config, st *stats, wait time.Duration, dial func(context.Context) (net.Conn, error)) *https {
	return &https{stats: st, url: url, wait: wait, carry: func() *carrier {
		protocols := new(http.Protocols)
		protocols.SetHTTP2(true)
		rt := &http.Transport{
			TLSClientConfig:        cfg.Clone(), // the transport changes it, while another one uses it
			Protocols:              protocols,
			DialContext:            func(ctx context.Context, _, _ string) (net.Conn, error) { st.dials.Add(1); return dial(ctx) },
			TLSHandshakeTimeout:    writeTime,
			IdleConnTimeout:        60 * time.Second,
			ResponseHeaderTimeout:  time.Minute,
			MaxResponseHeaderBytes: 64 << 10,
			HTTP2:                  &http.HTTP2Config{SendPingTimeout: 10 * time.Second, PingTimeout: 3 * time.Second},
		}
		return &carrier{rt: rt, end: rt.CloseIdleConnections}
	}}
}

// exchange sends q, on another connection too when the first is silent, and once more when that
// has ended.
func (h *https) exchange(ctx context.Context, q *query) (answer, error) {
	a, err := h.hedge(ctx, q)
	if errors.Is(err, errStale) && ctx.Err() == nil {
		return h.hedge(ctx, q)
	}
	return a, err
}

func (h *https) hedge(ctx context.Context, q *query) (answer, error) {
	began := time.Now()
	c, err := h.carrier()
	if err != nil {
		return answer{}, err
	}
	suspect := func() bool {
		if !c.silentSince(began) {
			return false
		}
		c.giveUp(h.stats)
		return true
	}
	return hedged(ctx, patienceWith(h.wait), suspect,
		func(ctx context.Context) (answer, error) { return h.post(ctx, c, q) },
		func(ctx context.Context) (answer, error) {
			other, err := h.carrier()
			if err != nil {
				return answer{}, err
			}
			return h.post(ctx, other, q)
		})
}

// carrier returns the one for the next query, and counts the query, which post counts out.
func (h *https) carrier() (*carrier, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, errClosed
	}
	if h.now != nil && h.now.suspect.Load() {
		h.now.leave()
		h.now = nil
	}
	if h.now == nil {
		h.now = h.carry()
	}
	h.now.using.Add(1)
	return h.now, nil
}

// leave gives a carrier no more queries. It ends with its last.
func (c *carrier) leave() {
	c.left.Store(true)
	if c.using.Load() == 0 {
		c.end()
	}
}

// post sends q on a carrier.
func (h *https) post(ctx context.Context, c *carrier, q *query) (answer, error) {
	defer func() {
		if c.using.Add(-1) == 0 && c.left.Load() {
			c.end()
		}
	}()
	f := form{edns: true, pad: true, name: q.name, way: way{transport: dns.HTTPS}} // ID 0: RFC 8484 section 4.1
	body := q.append(make([]byte, 0, 512), f)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url, bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Content-Type", messageType)
	req.Header.Set("Accept", messageType)
	req.Header.Set("User-Agent", "") // none, for privacy
	resp, err := c.rt.RoundTrip(req)
	if err != nil {
		return answer{}, h.broken(ctx, c, err)
	}
	defer resp.Body.Close()
	c.beat()
	if resp.StatusCode != http.StatusOK {
		return answer{}, fmt.Errorf("answered with HTTP status %d", resp.StatusCode)
	}
	if t := resp.Header.Get("Content-Type"); t != messageType {
		return answer{}, fmt.Errorf("answered with %q, not with a DNS message", t)
	}
	msg, err := io.ReadAll(io.LimitReader(resp.Body, maxMessage+1))
	if err != nil {
		return answer{}, h.broken(ctx, c, err)
	}
	if len(msg) > maxMessage {
		return answer{}, errors.New("the answer is longer than a DNS message can be")
	}
	return finish(q, f, msg, h.stats)
}

// broken leaves a carrier whose connection has ended. That of one which answered earlier queries
// says nothing about the server, so the query is sent again.
func (h *https) broken(ctx context.Context, c *carrier, err error) error {
	if ctx.Err() != nil || c.heard.Load() == 0 {
		return err
	}
	c.giveUp(h.stats)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.now == c {
		h.now = nil
		c.leave()
	}
	return fmt.Errorf("%w: %w", errStale, err)
}

// finish checks an answer that came by itself.
func finish(q *query, f form, msg []byte, st *stats) (answer, error) {
	a, err := q.check(msg, f)
	switch {
	case err == errForged:
		st.forged.Add(1)
		return a, err
	case err != nil:
		st.malformed.Add(1)
		return a, err
	}
	copy(msg[headerSize:], q.name)
	return a, nil
}

func (h *https) idle(time.Time) {}

func (h *https) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	if h.now != nil {
		h.now.end()
	}
}
