package forward

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// An upstream is one server, with its connections, its measured speed and its health.
type upstream struct {
	addr  address
	to    string // its name in metrics and events, without pins
	slots chan struct{}
	transport
	stats

	exploring atomic.Bool // a query to measure its speed is in progress

	mu       sync.Mutex
	srtt     float64 // seconds, smoothed as RFC 6298 does; 0 before the first answer
	rttvar   float64
	failures int           // since the last answer
	down     bool          // gets only probes while another upstream is available
	why      error         // of the last failure
	backoff  time.Duration // before the next probe
	probe    time.Time
}

// A transport carries a query to one server and its answer back. It does not retry a query
// that the caller could send to another server.
type transport interface {
	exchange(ctx context.Context, q *query) (answer, error)
	idle(now time.Time) // closes connections that were unused for long
	close()
}

// Limits of health.
const (
	failuresDown = 3 // successive failures before an upstream is down
	firstBackoff = 500 * time.Millisecond
	lastBackoff  = 30 * time.Second
	fewestWait   = 40 * time.Millisecond  // before a second upstream is queried too
	unknownWait  = 400 * time.Millisecond // the same, when the speed of the first is unknown
	strictFactor = 4                      // longer, when order matters more than time
)

var (
	errFull   = errors.New("too many queries already wait for it")
	errClosed = errors.New("the forwarder is closed")
)

// enter counts a query before it is sent, unless too many are waiting.
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

// leave records the result of a query. While the forwarder is closing, an error says nothing
// about the server.
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

// answered records an answer.
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

// failed counts a failure; enough in succession mark the upstream as down.
func (u *upstream) failed(err error, wake func()) {
	u.errors.Add(1)
	if isTimeout(err) {
		u.timeouts.Add(1)
	}
	u.mu.Lock()
	u.failures++
	u.why = err
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

// probed records a probe and doubles the time to the next one.
func (u *upstream) probed(err error, took time.Duration) {
	if err == nil {
		u.answered(took)
		return
	}
	u.probeFailures.Add(1)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.why = err
	u.backoff = min(2*max(u.backoff, firstBackoff), lastBackoff)
	u.probe = time.Now().Add(u.backoff)
}

// health returns whether the upstream is down, and when its next probe is due.
func (u *upstream) health() (down bool, probe time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.down, u.probe
}

// speed returns the smoothed response time in seconds, 0 if unknown.
func (u *upstream) speed() float64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.srtt
}

// patience is how long to wait for an answer before another server is queried too.
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
