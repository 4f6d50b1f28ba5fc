package exchange

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"sync"
	"time"

	"shuultuur/lib/message"
	"shuultuur/proxy/held"
)

// A feed reads a body into a hold. At first its owner reads. When the owner must not wait any
// longer, pump starts a goroutine that reads. The goroutine ends with the source, or by stop.
type feed struct {
	ctx context.Context
	src message.Body

	mu      sync.Mutex // guards the following fields while the pump runs
	hold    held.Body
	most    int64 // limit of held bytes
	left    int64 // bytes left in src, as in [message.Body.Remaining]
	done    bool  // src is at the end
	err     error // of src
	broken  error // of src, also if no pump has read it
	full    bool  // the pump waits for room
	stopped bool  // the pump must end
	passed  int64 // bytes that went directly to the reader, without the hold

	pumping bool          // the pump runs
	arrived []arrival     // what the pump has read and is held
	ended   chan struct{} // closed when the pump ends
	more    chan struct{} // signals that bytes were read, or that the pump is full or has ended
	space   chan struct{} // signals that there is room
	hand    [][]byte
}

func (f *feed) begin(i *Inspector, ctx context.Context, src message.Body, who netip.Addr) {
	f.ctx, f.src = ctx, src
	f.hold.Begin(i.budget, who)
	f.most, f.left, f.passed, f.arrived = i.held, src.Remaining(), 0, f.arrived[:0]
	f.done, f.err, f.broken, f.full, f.stopped, f.pumping = src.AtEnd(), nil, nil, false, false, false
	if f.more == nil {
		f.more, f.space = make(chan struct{}, 1), make(chan struct{}, 1)
	}
	for _, c := range [...]chan struct{}{f.more, f.space} {
		if len(c) > 0 { // nobody else receives now
			<-c
		}
	}
}

// An arrival is when the bytes before a position, and after the arrival before, were read.
type arrival struct {
	end int64
	at  time.Time
}

const (
	// arrivals is the number of arrivals that are told apart, and arrivalStep the least time between
	// two of them. Later bytes then count as older than they are.
	arrivals    = 64
	arrivalStep = 10 * time.Millisecond
)

// arrive notes that bytes have arrived. f.mu is held.
func (f *feed) arrive() {
	now := time.Now()
	if n := len(f.arrived); n > 0 && (n == arrivals || now.Sub(f.arrived[n-1].at) < arrivalStep) {
		f.arrived[n-1].end = f.hold.End
		return
	}
	f.arrived = append(f.arrived, arrival{f.hold.End, now})
}

// oldest returns when the first byte from a position on arrived. That is now if the pump has not read
// it.
func (f *feed) oldest(from int64) time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for n < len(f.arrived) && f.arrived[n].end <= from {
		n++
	}
	f.arrived = append(f.arrived[:0], f.arrived[n:]...)
	if len(f.arrived) == 0 {
		return time.Now()
	}
	return f.arrived[0].at
}

// atHand reports whether bytes can be read without waiting.
func (f *feed) atHand() bool {
	f.hand = f.src.Ready(f.hand[:0])
	defer clear(f.hand)
	return len(f.hand) > 0
}

// read reads once. It fails with errFull if there is no room.
func (f *feed) read() error {
	f.mu.Lock()
	var p []byte
	if room := f.most - (f.hold.End - f.hold.Base); room > 0 {
		p = f.hold.Room(f.left)
		p = p[:min(int64(len(p)), room)]
	}
	f.mu.Unlock()
	if len(p) == 0 {
		return errFull
	}
	n, err := f.src.Read(p)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hold.Wrote(n)
	if f.pumping && n > 0 {
		f.arrive()
	}
	f.done, f.left = f.src.AtEnd() || err == io.EOF, f.src.Remaining()
	if err == io.EOF {
		return nil
	}
	f.broken = err
	return err
}

// pump starts a goroutine that reads.
func (f *feed) pump() {
	if f.pumping {
		return
	}
	f.pumping, f.ended = true, make(chan struct{})
	if f.hold.End > 0 {
		f.arrive()
	}
	go func() {
		defer close(f.ended)
		defer func() {
			if r := recover(); r != nil { // a panic ends only this request
				f.mu.Lock()
				f.err = fmt.Errorf("internal error: %v", r)
				f.mu.Unlock()
				select {
				case f.more <- struct{}{}:
				default:
				}
			}
		}()
		for {
			err := f.read()
			f.mu.Lock()
			if f.full = err == errFull; !f.full {
				f.err = err
			}
			over := f.done || f.err != nil || f.stopped
			f.mu.Unlock()
			select {
			case f.more <- struct{}{}:
			default:
			}
			if over {
				return
			}
			if err == errFull {
				<-f.space
			}
		}
	}()
}

// state returns how far the source was read, whether it is at the end, and whether reading
// needs more room. The error is that of the source.
func (f *feed) state() (end int64, done, full bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hold.End, f.done, f.full, f.err
}

// received returns the number of bytes read from the source.
func (f *feed) received() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hold.End + f.passed
}

// drop releases the bytes before a position.
func (f *feed) drop(before int64) {
	f.mu.Lock()
	f.hold.Drop(before)
	f.full = false
	f.mu.Unlock()
	select {
	case f.space <- struct{}{}:
	default:
	}
}

// stop ends the pump, waits for it, and reports whether it has ended. interrupt ends a Read of
// src. Another goroutine than the owner's may call it.
func (f *feed) stop(interrupt func(), wait time.Duration) bool {
	if !f.pumping {
		return true
	}
	f.mu.Lock()
	over := f.stopped || f.done || f.err != nil
	f.stopped = true
	f.mu.Unlock()
	if !over {
		interrupt()
	}
	select {
	case f.space <- struct{}{}:
	default:
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-f.ended:
		return true
	case <-timer.C:
		return false
	}
}
