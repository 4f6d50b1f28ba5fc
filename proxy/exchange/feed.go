package exchange

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"sync"
	"time"

	"shuultuur/message"
)

// A feed reads a body into a hold. While nobody has to wait for anything else,
// its owner reads; pump starts a goroutine that does. The goroutine ends with
// the source, or by stop.
type feed struct {
	ctx context.Context
	src message.Body

	mu      sync.Mutex // guards what follows, while there is a pump
	hold    hold
	most    int64 // bytes held
	left    int64 // still to be read of src, as [message.Body.Left] says
	done    bool  // src has ended
	err     error // of src
	full    bool  // the pump waits for room
	stopped bool  // it is to end
	passed  int64 // bytes that went straight to the reader, past the hold

	pumping bool          // there is one
	ended   chan struct{} // closed at its end
	more    chan struct{} // something was read, or the pump is full or has ended
	space   chan struct{} // there is room again
	hand    [][]byte
}

func (f *feed) begin(i *Inspector, ctx context.Context, src message.Body, who netip.Addr) {
	f.ctx, f.src = ctx, src
	f.hold.b, f.hold.who = i.budget, who
	f.most, f.left, f.passed = i.held, src.Left(), 0
	f.done, f.err, f.full, f.stopped, f.pumping = src.Done(), nil, false, false, false
	if f.more == nil {
		f.more, f.space = make(chan struct{}, 1), make(chan struct{}, 1)
	}
	for _, c := range [...]chan struct{}{f.more, f.space} {
		select {
		case <-c:
		default:
		}
	}
}

// atHand says whether bytes can be read without waiting.
func (f *feed) atHand() bool {
	f.hand = f.src.Ready(f.hand[:0])
	defer clear(f.hand)
	return len(f.hand) > 0
}

// read reads once. It fails with errFull when there is no room.
func (f *feed) read() error {
	f.mu.Lock()
	var p []byte
	if room := f.most - (f.hold.end - f.hold.base); room > 0 {
		p = f.hold.room(f.left)
		p = p[:min(int64(len(p)), room)]
	}
	f.mu.Unlock()
	if len(p) == 0 {
		return errFull
	}
	n, err := f.src.Read(p)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hold.wrote(n)
	f.done, f.left = f.src.Done() || err == io.EOF, f.src.Left()
	if err == io.EOF {
		return nil
	}
	return err
}

// pump reads on in a goroutine of its own.
func (f *feed) pump() {
	if f.pumping {
		return
	}
	f.pumping, f.ended = true, make(chan struct{})
	go func() {
		defer close(f.ended)
		defer func() {
			if r := recover(); r != nil { // it ends this request only
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

// state says how far the source was read, and whether it has ended, or cannot
// be read on without giving back room. The error is the source's.
func (f *feed) state() (end int64, done, full bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hold.end, f.done, f.full, f.err
}

// received is how much has come of the source.
func (f *feed) received() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hold.end + f.passed
}

// drop gives back what comes before a place.
func (f *feed) drop(before int64) {
	f.mu.Lock()
	f.hold.drop(before)
	f.full = false
	f.mu.Unlock()
	select {
	case f.space <- struct{}{}:
	default:
	}
}

// stop ends the pump, and says whether it has ended, for which it waits.
// interrupt makes a Read of src under way end.
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
		f.pumping = false
	case <-timer.C:
	}
	return !f.pumping
}
