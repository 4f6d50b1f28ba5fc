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
	"time"
)

const messageType = "application/dns-message"

// https queries over HTTP/2 or HTTP/3, RFC 8484; HTTP/3 is in quic.go.
type https struct {
	stats *stats
	url   string
	rt    http.RoundTripper
	end   func()
}

// newHTTPS makes the transport for HTTP/2.
func newHTTPS(url string, cfg *tls.Config, st *stats, dial func(context.Context) (net.Conn, error)) *https {
	protocols := new(http.Protocols)
	protocols.SetHTTP2(true)
	rt := &http.Transport{
		TLSClientConfig:        cfg,
		Protocols:              protocols,
		DialContext:            func(ctx context.Context, _, _ string) (net.Conn, error) { st.dials.Add(1); return dial(ctx) },
		TLSHandshakeTimeout:    writeTime,
		IdleConnTimeout:        60 * time.Second,
		ResponseHeaderTimeout:  time.Minute,
		MaxResponseHeaderBytes: 64 << 10,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: 10 * time.Second, PingTimeout: 3 * time.Second},
	}
	return &https{stats: st, url: url, rt: rt, end: rt.CloseIdleConnections}
}

func (h *https) exchange(ctx context.Context, q *query) (answer, error) {
	f := form{edns: true, pad: true, name: q.name} // ID 0: RFC 8484 section 4.1
	body := q.append(make([]byte, 0, 512), f)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url, bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Content-Type", messageType)
	req.Header.Set("Accept", messageType)
	req.Header.Set("User-Agent", "") // none, for privacy
	resp, err := h.rt.RoundTrip(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return answer{}, fmt.Errorf("answered with HTTP status %d", resp.StatusCode)
	}
	if t := resp.Header.Get("Content-Type"); t != messageType {
		return answer{}, fmt.Errorf("answered with %q, not with a DNS message", t)
	}
	msg, err := io.ReadAll(io.LimitReader(resp.Body, maxMessage+1))
	if err != nil {
		return answer{}, err
	}
	if len(msg) > maxMessage {
		return answer{}, errors.New("the answer is longer than a DNS message can be")
	}
	return finish(q, f, msg, h.stats)
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
func (h *https) close()         { h.end() }
