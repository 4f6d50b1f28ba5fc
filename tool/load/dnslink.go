package load

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// burst is the number of queries or answers per system call.
const burst = 64

// link carries queries to the server and answers back. One goroutine sends,
// one receives.
type link interface {
	// send sends at most burst queries, and returns how many of them, counted from the first,
	// were sent.
	send(queries [][]byte) (int, error)
	// receive returns available answers, at most burst; they are valid until the next call. If
	// there are none, it waits for one until the deadline, when the error is
	// os.ErrDeadlineExceeded; without wait it returns none.
	receive(wait bool) ([][]byte, error)
	deadline(at time.Time) error
	close()
}

// datagrams is UDP with one system call per packet, for systems without a better
// implementation.
type datagrams struct {
	c   net.Conn
	buf []byte
	got [1][]byte
}

func newDatagrams(c net.Conn) *datagrams { return &datagrams{c: c, buf: make([]byte, answerSize)} }

// answerSize limits an answer over UDP. Queries have no EDNS, so servers send at most 512
// bytes; a longer answer is truncated and parsed as far as possible.
const answerSize = 2048

func (d *datagrams) send(queries [][]byte) (int, error) {
	for i, q := range queries {
		if _, err := d.c.Write(q); err != nil {
			return i, err
		}
	}
	return len(queries), nil
}

func (d *datagrams) receive(wait bool) ([][]byte, error) {
	if !wait { // there is no way not to wait
		return nil, nil
	}
	n, err := d.c.Read(d.buf)
	if err != nil {
		return nil, err
	}
	d.got[0] = d.buf[:n]
	return d.got[:], nil
}

func (d *datagrams) deadline(at time.Time) error { return d.c.SetReadDeadline(at) }
func (d *datagrams) close()                      { d.c.Close() }

// streamLink is DNS over TCP (RFC 7766) or TLS (RFC 7858): two bytes of length before each
// message, and many messages in flight.
type streamLink struct {
	c        net.Conn
	out      []byte
	in       []byte // [from, to) was read and not yet returned
	from, to int
	got      [][]byte
}

const streamWrite = 10 * time.Second

func newStream(c net.Conn) *streamLink {
	// Room for a burst of usual answers, and for the largest possible answer.
	return &streamLink{c: c, in: make([]byte, 2+65535)}
}

func (s *streamLink) send(queries [][]byte) (int, error) {
	s.out = s.out[:0]
	for _, q := range queries {
		s.out = binary.BigEndian.AppendUint16(s.out, uint16(len(q)))
		s.out = append(s.out, q...)
	}
	if err := s.c.SetWriteDeadline(time.Now().Add(streamWrite)); err != nil {
		return 0, err
	}
	if _, err := s.c.Write(s.out); err != nil {
		return 0, err
	}
	return len(queries), nil
}

func (s *streamLink) receive(wait bool) ([][]byte, error) {
	s.got = s.got[:0]
	for {
		for len(s.got) < burst && s.to-s.from >= 2 {
			n := 2 + int(binary.BigEndian.Uint16(s.in[s.from:]))
			if s.to-s.from < n {
				break
			}
			s.got = append(s.got, s.in[s.from+2:s.from+n])
			s.from += n
		}
		if len(s.got) > 0 || !wait { // unread bytes wait in the system
			return s.got, nil
		}
		s.to = copy(s.in, s.in[s.from:s.to])
		s.from = 0
		n, err := s.c.Read(s.in[s.to:])
		s.to += n
		if err != nil && n == 0 {
			return nil, err
		}
	}
}

func (s *streamLink) deadline(at time.Time) error { return s.c.SetReadDeadline(at) }
func (s *streamLink) close()                      { s.c.Close() }

// overHTTP is DNS over HTTPS (RFC 8484): a POST over HTTP/2 for each query.
type overHTTP struct {
	ctx    context.Context
	cancel context.CancelFunc
	client *http.Client
	url    string
	fail   func(id uint16, err error) // called when a query fails
	wait   time.Duration
	back   chan []byte
	asking sync.WaitGroup
	at     time.Time
	got    [][]byte
}

func (h *overHTTP) send(queries [][]byte) (int, error) {
	for _, q := range queries {
		q, id := bytes.Clone(q), binary.BigEndian.Uint16(q)
		h.asking.Go(func() {
			b, err := h.ask(q)
			if err != nil {
				if h.ctx.Err() == nil {
					h.fail(id, err)
				}
				return
			}
			select {
			case h.back <- b:
			case <-h.ctx.Done():
			}
		})
	}
	return len(queries), nil
}

// ask sends one query. Its ID is sent as 0, so that caches recognise it, and is restored in
// the answer.
func (h *overHTTP) ask(q []byte) ([]byte, error) {
	id := [2]byte(q)
	q[0], q[1] = 0, 0
	ctx, cancel := context.WithTimeout(h.ctx, h.wait)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url, bytes.NewReader(q))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/dns-message")
	req.Header.Set("Accept", "application/dns-message")
	res, err := h.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, 65535))
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		return nil, fail(status, "status %s", res.Status)
	}
	if len(b) < dnsHeader {
		return nil, fail(protocol, "an answer of %d bytes", len(b))
	}
	copy(b, id[:])
	return b, nil
}

func (h *overHTTP) receive(wait bool) ([][]byte, error) {
	h.got = h.got[:0]
	if wait {
		t := time.NewTimer(time.Until(h.at))
		defer t.Stop()
		select {
		case b := <-h.back:
			h.got = append(h.got, b)
		case <-t.C:
			return nil, os.ErrDeadlineExceeded
		}
	}
	for len(h.got) < burst {
		select {
		case b := <-h.back:
			h.got = append(h.got, b)
		default:
			return h.got, nil
		}
	}
	return h.got, nil
}

func (h *overHTTP) deadline(at time.Time) error { h.at = at; return nil }

func (h *overHTTP) close() {
	h.cancel()
	h.asking.Wait()
	h.client.CloseIdleConnections()
}

// noRedirect prevents load on another server.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
