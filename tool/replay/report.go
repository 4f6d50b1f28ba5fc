package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"shuultuur/lib/platform"
	"shuultuur/tool/load"
	"shuultuur/whatif"
)

// SendReport has the measurements of a run through a gateway. It is also the JSON form, which
// is stable: keys may be added, but do not change their meaning. Times are in milliseconds
// unless the name says seconds.
type SendReport struct {
	Input whatif.Input `json:"input"`

	Started time.Time `json:"started"`
	Speed   float64   `json:"speed"`   // 0 for as fast as responses come
	Seconds float64   `json:"seconds"` // of wall clock
	Span    float64   `json:"span"`    // seconds of the log that were sent; only with a speed
	Ended   string    `json:"ended"`   // the reason why the run ended early: requests, seconds or interrupt; "" at the end of the log

	Sent        int64 `json:"sent"`
	Answered    int64 `json:"answered"` // completely
	Unfinished  int64 `json:"unfinished"`
	Tunnels     int64 `json:"tunnels"` // of those answered: CONNECT
	Plain       int64 `json:"plain"`   // of those answered: https URLs, requested as http
	FromOrigin  int64 `json:"from_origin"`
	Bytes       int64 `json:"bytes"`
	MaxParallel int64 `json:"max_parallel"`

	NotAllowed int64    `json:"not_allowed"` // not sent, because the host is not in -allow
	Refused    []string `json:"refused,omitempty"`
	Lookups    int64    `json:"lookups"` // not sent, because they are only names

	Codes    map[int]int64     `json:"codes"`
	Errors   map[string]int64  `json:"errors"`
	Examples map[string]string `json:"examples"` // first error of each kind

	Comparison
	Timing
}

// Comparison compares the status of responses with that in the log.
type Comparison struct {
	Compared int64    `json:"compared"` // responses with a known status in the log
	Same     int64    `json:"same"`
	Changes  []Change `json:"changes"` // most frequent first
}

// Timing measures how punctual the requests were and how long responses took.
type Timing struct {
	Late     int64        `json:"late"` // sent more than 10 ms after their time
	Lateness load.Latency `json:"lateness"`
	Total    load.Latency `json:"total"`    // from sending to the last byte
	Intended load.Latency `json:"intended"` // from the intended time of sending
}

// Change is a pair of a recorded status and a different new one.
type Change struct {
	Was      int      `json:"was"`
	Is       int      `json:"is"`
	Count    int64    `json:"count"`
	Examples []string `json:"examples"`
}

func (s *Sender) report(start time.Time, took time.Duration, d *dispatch) *SendReport {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &s.tally
	r := &SendReport{
		Started: start.UTC().Truncate(time.Second), Speed: s.cfg.Speed, Seconds: took.Seconds(), Span: d.span.Seconds(), Ended: d.ended,
		Sent: s.sent.Load(), Answered: t.answered, Unfinished: t.unfinished, Tunnels: t.tunnels, Plain: t.plain, FromOrigin: t.fromOrigin,
		Bytes: t.bytes, MaxParallel: t.most, NotAllowed: d.notAllowed, Lookups: d.lookups,
		Refused: slices.Sorted(maps.Keys(d.refused)), Codes: t.codes, Errors: t.errors, Examples: t.example,
		Comparison: Comparison{Compared: t.compared, Same: t.same},
		Timing:     Timing{Late: t.late, Lateness: t.lateness.Latency(), Total: t.total.Latency(), Intended: t.intended.Latency()},
	}
	for _, c := range t.changes {
		slices.Sort(c.Examples)
		r.Changes = append(r.Changes, *c)
	}
	slices.SortStableFunc(r.Changes, func(a, b Change) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Was, b.Was), cmp.Compare(a.Is, b.Is))
	})
	return r
}

// kindOf classifies the error of a request.
func kindOf(err error) string {
	var ne net.Error
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded), errors.As(err, &ne) && ne.Timeout():
		return "timeout"
	case errors.Is(err, platform.ECONNREFUSED):
		return "refused"
	case errors.Is(err, platform.ECONNRESET), errors.Is(err, platform.EPIPE):
		return "reset"
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return "closed early"
	case errors.Is(err, platform.EADDRNOTAVAIL), errors.Is(err, platform.EMFILE), errors.Is(err, syscall.ENFILE):
		return "local limit"
	}
	return "other"
}

// Text writes the report for people.
func (r *SendReport) Text(w io.Writer) error {
	p := whatif.Printer{W: w}
	r.Input.Text(&p)
	speed := "as fast as answers came"
	if r.Speed > 0 {
		speed = fmt.Sprintf("%s of the log at %g times its speed", seconds(r.Span), r.Speed)
	}
	p.F("%d requests sent in %.6g seconds, %s\n", r.Sent, r.Seconds, speed)
	switch r.Ended {
	case "requests", "seconds":
		p.F("the run ended before the log did; -%s raises the bound\n", r.Ended)
	case "interrupt":
		p.F("the run was interrupted\n")
	}
	p.F("%d answered, %d of them tunnels, %d by the origin; %.6g bytes; %d max parallel\n", r.Answered, r.Tunnels, r.FromOrigin, float64(r.Bytes), r.MaxParallel)
	if r.Seconds > 0.01 {
		p.F("%.6g requests/sec, %.6g bytes/sec\n", float64(r.Answered)/r.Seconds, float64(r.Bytes)/r.Seconds)
	}
	r.unsent(&p)
	p.F("\nstatus:")
	for _, code := range slices.Sorted(maps.Keys(r.Codes)) {
		p.F("  %03d %d", code, r.Codes[code])
	}
	p.F("\nas recorded: %d of %d\n", r.Same, r.Compared)
	for _, c := range r.Changes {
		p.F("  %03d -> %03d  %d\n", c.Was, c.Is, c.Count)
		for _, e := range c.Examples {
			p.F("    %s\n", whatif.Printable(e))
		}
	}
	r.latencies(&p)
	p.F("\nerrors:")
	if len(r.Errors) == 0 {
		p.F(" none")
	}
	for _, kind := range slices.Sorted(maps.Keys(r.Errors)) {
		p.F("\n  %d %s: %s", r.Errors[kind], kind, whatif.Printable(r.Examples[kind]))
	}
	p.F("\n")
	return p.Err
}

// unsent lists the requests that were omitted on purpose.
func (r *SendReport) unsent(p *whatif.Printer) {
	if r.Plain > 0 {
		p.F("asked for as http: %d https URLs\n", r.Plain)
	}
	if r.Unfinished > 0 {
		p.F("unfinished at the end: %d\n", r.Unfinished)
	}
	if r.Lookups > 0 {
		p.F("not sent: %d names that were only looked up\n", r.Lookups)
	}
	if r.NotAllowed > 0 {
		p.F("not sent: %d requests to hosts that are not allowed (%s); use -origin, or -allow HOST if you may ask them\n", r.NotAllowed, whatif.Printable(strings.Join(r.Refused, ", ")))
	}
}

func (r *SendReport) latencies(p *whatif.Printer) {
	p.F("\n%-28s%9s%10s%10s%10s%10s%10s%10s%10s\n", "msecs", "count", "mean", "min", "p50", "p90", "p99", "p99.9", "max")
	for _, row := range []struct {
		name string
		load.Latency
	}{{"total", r.Total}, {"total from intended send", r.Intended}, {"lateness", r.Lateness}} {
		l := row.Latency
		if l.Count == 0 {
			continue
		}
		p.F("%-28s%9d", row.name, l.Count)
		for _, v := range []float64{l.Mean, l.Min, l.P50, l.P90, l.P99, l.P999, l.Max} {
			p.F("%10.3f", v)
		}
		p.F("\n")
	}
	if r.Speed > 0 {
		p.F("late by more than 10 ms: %d\n", r.Late)
	}
}

// JSON writes the report for machines.
func (r *SendReport) JSON(w io.Writer) error { return whatif.WriteJSON(w, r) }

// seconds formats a time for people.
func seconds(s float64) string {
	if s < 60 {
		return fmt.Sprintf("%.3g s", s)
	}
	return time.Duration(s * float64(time.Second)).Round(time.Second).String()
}
