package load

import (
	"errors"
	"io"
	"time"

	"golang.org/x/net/http2"
)

// open2 starts HTTP/2 on a new connection.
func (w *worker) open2() error {
	tr := &http2.Transport{DisableCompression: true, AllowHTTP: true}
	cc, err := tr.NewClientConn(w.nc)
	if err != nil {
		return fail(protocol, "start HTTP/2: %w", err)
	}
	w.h2 = cc
	return nil
}

// roundTrip2 uses HTTP/2 (RFC 9113).
func (w *worker) roundTrip2(t *target, s *sample) error {
	w.extend(w.begun)
	if !s.fresh && !w.h2.CanTakeNewRequest() {
		return errClosed
	}
	resp, err := w.h2.RoundTrip(t.h2.Clone(w.ctx))
	if err != nil {
		return streamError(err)
	}
	defer resp.Body.Close()
	w.firstByte = time.Now()
	s.code = resp.StatusCode
	for {
		n, err := resp.Body.Read(w.buf)
		if w.sum != nil {
			_, _ = w.sum.Write(w.buf[:n])
		}
		w.count += int64(n)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return streamError(err)
		}
		w.extend(time.Now())
	}
}

// streamError returns the class that an error of HTTP/2 would have in HTTP/1.
func streamError(err error) error {
	var away http2.GoAwayError
	var stream http2.StreamError
	switch {
	case errors.As(err, &stream):
		return fail(reset, "%w", err)
	case errors.As(err, &away):
		return fail(closed, "%w", err)
	}
	return err
}
