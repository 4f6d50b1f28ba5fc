package forward

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// An upstream is one server that is asked, with its connections, its measured
// speed and its health.
type upstream struct {
	addr  address
	to    string // as it is named in metrics and events: no pins
	slots chan struct{}
	transport
	stats

	exploring atomic.Bool // it is being asked to learn how fast it is

	mu       sync.Mutex
	srtt     float64 // seconds, smoothed as RFC 6298 does; 0 before the first answer
	rttvar   float64
	failures int           // since the last answer
	down     bool          // asked by probes only, while another is there
	backoff  time.Duration // before the next probe
	probe    time.Time
}

// A transport carries a query to one server and its answer back. It retries
// nothing that the caller could give to another server.
type transport interface {
	exchange(ctx context.Context, q *query) (answer, error)
	idle(now time.Time) // closes what has not been used for long
	close()
}

// Bounds of health.
const (
	failuresDown = 3 // in a row, until an upstream is left alone
	firstBackoff = 500 * time.Millisecond
	lastBackoff  = 30 * time.Second
	fewestWait   = 40 * time.Millisecond  // before a second upstream is asked too
	unknownWait  = 400 * time.Millisecond // the same, when nothing is known of the first
	strictFactor = 4                      // longer, where order matters more than time
)

var (
	errFull   = errors.New("too many queries wait for it already")
	errClosed = errors.New("the forwarder is closed")
)

// enter counts a query that is about to be sent, unless too many wait.
func (u *upstream) enter() bool {
	select {
	case u.slots <- struct{}{}:
		u.requests.Add(1)
		return true
	default:
		u.full.Add(1)
		return false
	}
}

// leave keeps the books of a query that has entered. While the forwarder is
// closing, an error says nothing about the server.
func (u *upstream) leave(a answer, err error, took time.Duration, closing bool, wake func()) {
	<-u.slots
	switch {
	case err == nil:
		u.observe(a.rcode, took)
		u.answered(took)
	case !closing:
		u.failed(err, wake)
	}
}

// answered takes note of an answer.
func (u *upstream) answered(took time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.failures, u.down, u.backoff = 0, false, 0
	u.sample(took.Seconds())
}

func (u *upstream) sample(rtt float64) {
	if u.srtt == 0 {
		u.srtt, u.rttvar = rtt, rtt/2
		return
	}
	u.rttvar += (math.Abs(u.srtt-rtt) - u.rttvar) / 4
	u.srtt += (rtt - u.srtt) / 8
}

// failed counts a failure; enough of them in a row take the upstream out.
func (u *upstream) failed(err error, wake func()) {
	u.errors.Add(1)
	if isTimeout(err) {
		u.timeouts.Add(1)
	}
	u.mu.Lock()
	u.failures++
	fell := !u.down && u.failures >= failuresDown
	if fell {
		u.down, u.backoff = true, firstBackoff
		u.probe = time.Now().Add(u.backoff)
	}
	u.mu.Unlock()
	if fell {
		wake()
	}
}

// probed takes note of a probe and doubles the time to the next one.
func (u *upstream) probed(err error, took time.Duration) {
	if err == nil {
		u.answered(took)
		return
	}
	u.probeFailures.Add(1)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.backoff = min(2*max(u.backoff, firstBackoff), lastBackoff)
	u.probe = time.Now().Add(u.backoff)
}

// health returns whether the upstream is left alone, and when it is probed.
func (u *upstream) health() (down bool, probe time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.down, u.probe
}

// speed returns the smoothed time to an answer in seconds, 0 if unknown.
func (u *upstream) speed() float64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.srtt
}

// patience is how long to wait for an answer before another server is asked
// too.
func (u *upstream) patience() time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.srtt == 0 {
		return unknownWait
	}
	return max(fewestWait, time.Duration((u.srtt+4*u.rttvar)*float64(time.Second)))
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &t) && t.Timeout()
}
