package wait

import (
	"context"
	"sync"
	"time"
)

// A Group owns goroutines, so that nothing works on for somebody who has ended. Unlike with a
// sync.WaitGroup, one may be started while another goroutine waits. The zero value is ready.
type Group struct {
	mu     sync.Mutex
	n      int           // running
	idle   chan struct{} // closed when none runs
	ctx    context.Context
	cancel context.CancelFunc
}

// Go runs f in a goroutine. Its context ends when [Group.End] loses patience.
func (g *Group) Go(f func(ctx context.Context)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.n == 0 {
		g.idle = make(chan struct{})
		g.ctx, g.cancel = context.WithCancel(context.Background())
	}
	g.n++
	ctx := g.ctx
	go func() {
		defer g.done()
		f(ctx)
	}()
}

func (g *Group) done() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.n--; g.n == 0 {
		g.cancel()
		close(g.idle)
	}
}

// End waits until no goroutine runs. It ends their context after the patience.
func (g *Group) End(patience time.Duration) {
	g.mu.Lock()
	n, idle, cancel := g.n, g.idle, g.cancel
	g.mu.Unlock()
	if n == 0 {
		return
	}
	t := time.AfterFunc(patience, cancel)
	defer t.Stop()
	<-idle
}
