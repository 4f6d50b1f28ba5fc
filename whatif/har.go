package whatif

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// harEntry is the part of an entry in a HAR file (HTTP Archive 1.2) that is used.
type harEntry struct {
	Started string  `json:"startedDateTime"`
	Time    float64 `json:"time"` // milliseconds
	Request struct {
		Method   string      `json:"method"`
		URL      string      `json:"url"`
		Headers  []harHeader `json:"headers"`
		BodySize int64       `json:"bodySize"`
	} `json:"request"`
	Response struct {
		Status   int   `json:"status"`
		BodySize int64 `json:"bodySize"`
		Content  struct {
			Size     int64  `json:"size"`
			MimeType string `json:"mimeType"`
		} `json:"content"`
	} `json:"response"`
}

type harHeader struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

func (h *harEntry) entry() (Entry, error) {
	scheme, _, _ := strings.Cut(h.Request.URL, ":")
	if !strings.EqualFold(scheme, "http") && !strings.EqualFold(scheme, "https") {
		return Entry{}, errNoRequest // data:, blob:, ws: and URLs of extensions
	}
	if h.Response.Status < 0 || h.Response.Status > 999 {
		return Entry{}, fmt.Errorf("%d is not a status", h.Response.Status)
	}
	at, err := time.Parse(time.RFC3339, h.Started)
	if err != nil {
		return Entry{}, fmt.Errorf("%.40q is not a time like 2006-01-02T15:04:05Z", h.Started)
	}
	took := min(max(0, h.Time), maxMillis)
	e := Entry{
		Start: at.UTC(), Duration: time.Duration(took * float64(time.Millisecond)),
		Status: h.Response.Status, Sent: max(0, h.Request.BodySize), Bytes: max(0, h.Response.BodySize),
	}
	if e.Bytes == 0 {
		e.Bytes = max(0, h.Response.Content.Size)
	}
	kind, _, _ := strings.Cut(h.Response.Content.MimeType, ";")
	e.Type = strings.ToLower(strings.TrimSpace(kind))
	for _, f := range h.Request.Headers {
		switch {
		case strings.EqualFold(f.Name, "referer"):
			e.Referer = f.Value
		case strings.EqualFold(f.Name, "user-agent"):
			e.Agent = f.Value
		}
	}
	return e, e.request(h.Request.Method, h.Request.URL)
}

// looksLikeHAR distinguishes a HAR file from JSON lines: it is one object whose first key is
// "log".
func looksLikeHAR(head []byte) bool {
	rest, ok := bytes.CutPrefix(bytes.TrimSpace(head), []byte("{"))
	return ok && bytes.HasPrefix(bytes.TrimSpace(rest), []byte(`"log"`))
}

// maxHAREntry limits one entry, which contains the bodies.
const maxHAREntry = 64 << 20

// allowance reads at most so many bytes. The decoder holds a whole entry in memory, so each
// entry gets a new allowance.
type allowance struct {
	r          io.Reader
	most, left int
}

func (a *allowance) renew() { a.left = a.most }

func (a *allowance) Read(b []byte) (int, error) {
	if a.left <= 0 {
		return 0, fmt.Errorf("an entry is larger than %d bytes", a.most)
	}
	n, err := a.r.Read(b[:min(len(b), a.left)])
	a.left -= n
	return n, err
}

// harReader reads a HAR file entry by entry.
type harReader struct {
	dec *json.Decoder
	in  *allowance
}

// har yields the entries of a file. Reading ends at invalid JSON, because the beginning of the
// next entry is unknown.
func (s *Source) har(ctx context.Context, name string, in *allowance, yield func(Entry) bool) (bool, error) {
	in.renew()
	h := harReader{json.NewDecoder(in), in}
	first := s.in.Lines
	wanted := true
	err := h.inside("log", func() error {
		return h.inside("entries", func() error {
			return h.eachElement(func(e *harEntry, err error) error {
				s.in.Lines++
				if ctx.Err() != nil {
					return errStop
				}
				var entry Entry
				if err == nil {
					entry, err = e.entry()
				}
				if s.countLine(name, ": entry ", s.in.Lines-first, err) && !yield(entry) {
					wanted = false
					return errStop
				}
				return nil
			})
		})
	})
	if errors.Is(err, errStop) {
		return wanted, ctx.Err()
	}
	if err != nil {
		s.in.Lines++
		s.countLine(name, ": entry ", s.in.Lines-first, fmt.Errorf("the rest cannot be read: %w", err))
	}
	return true, nil
}

// errStop ends reading early.
var errStop = errors.New("stop")

// inside calls f at the value of key in the next object, and skips the rest.
func (h *harReader) inside(key string, f func() error) error {
	if err := h.open('{'); err != nil {
		return err
	}
	for h.dec.More() {
		h.in.renew()
		t, err := h.dec.Token()
		if err != nil {
			return err
		}
		if t != key {
			var skip json.RawMessage
			err = h.dec.Decode(&skip)
		} else {
			err = f()
		}
		if err != nil {
			return err
		}
	}
	_, err := h.dec.Token()
	return err
}

// eachElement calls f with every element of the next array. An element of another shape gives f an
// error, and reading continues.
func (h *harReader) eachElement(f func(*harEntry, error) error) error {
	if err := h.open('['); err != nil {
		return err
	}
	for h.dec.More() {
		h.in.renew()
		var e harEntry
		err := h.dec.Decode(&e)
		var shape *json.UnmarshalTypeError
		if err != nil && !errors.As(err, &shape) {
			return err
		}
		if err := f(&e, err); err != nil {
			return err
		}
	}
	_, err := h.dec.Token()
	return err
}

func (h *harReader) open(want json.Delim) error {
	t, err := h.dec.Token()
	if err == nil && t != want {
		err = fmt.Errorf("%v instead of %v", t, want)
	}
	return err
}
