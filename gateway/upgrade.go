package gateway

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"shuultuur/engine"
	"shuultuur/lib/datadir"
	"shuultuur/lib/handover"
)

// A departure hands a gateway's sockets and data folder to the next program.
type departure struct {
	left     chan struct{}                   // closed when the next program serves
	hurry    atomic.Pointer[<-chan struct{}] // closed when the program must end
	halfway  atomic.Pointer[string]          // remains of an upgrade that failed late
	failures atomic.Int64                    // failed upgrades
}

// ErrLeft reports that another process has replaced this gateway.
var ErrLeft = errors.New("another process has replaced this gateway")

// cause returns why parts are stopped: the program ends, or another one has taken over the
// sockets.
func (g *Gateway) cause() error {
	select {
	case <-g.left:
		return handover.HandedOver{Hurry: *g.hurry.Load()}
	default:
		return context.Canceled
	}
}

// Upgrade starts program with args as the next gateway, and hands it all sockets and the data
// folder. Run continues to serve connected clients until they leave. The next program first
// verifies that it can start; if not, nothing changes here, and the error says why.
func (g *Gateway) Upgrade(ctx context.Context, program string, args []string) (process int, err error) {
	select {
	case <-g.left:
		return 0, ErrLeft
	default:
	}
	process, released, err := g.sockets.Start(ctx, program, args, g.release)
	if err != nil {
		err = fmt.Errorf("upgrading to %s: %w", program, err)
		if released {
			g.takeBack(err)
		}
		g.refusal(err)
		return 0, err
	}
	close(g.left)
	return process, nil
}

// release gives up everything that only one process can use: the log of votes, the cache
// on disk, the state, spools, the lock of the data folder. Clients are still served.
func (g *Gateway) release() {
	g.reloading.Lock()
	defer g.reloading.Unlock()
	g.closed = true
	e := g.engine.Load()
	for _, p := range e.Parts() {
		// They stay in running, ended: what has been handed over is not started again if the next program fails.
		if r := g.running[p.Name]; r != nil && (p.Name == "votes" || p.Name == "cache") {
			if v, ok := p.Value.(interface{ HandOver() }); ok {
				v.HandOver()
			}
			r.stop(g.cause())
			<-r.ended
			engine.ClosePart(p.Value, g.log)
			if v, ok := p.Value.(interface{ Depart(<-chan struct{}) }); ok {
				g.leaving.Go(func() { v.Depart(*g.hurry.Load()) })
			}
		}
	}
	errs := []error{e.Events.HandOver()}
	if s, ok := e.State.(interface{ HandOver() error }); ok {
		errs = append(errs, s.HandOver())
	}
	if err := errors.Join(append(errs, e.Data.Close())...); err != nil {
		g.log.Error("part of the state could not be written for the next program", "error", err)
	}
}

// takeBack resumes after the next program has failed while it held the data folder.
func (g *Gateway) takeBack(why error) {
	g.reloading.Lock()
	defer g.reloading.Unlock()
	e := g.engine.Load()
	var err error
	if err = e.Data.Take(); err == nil {
		g.closed = false
	}
	g.halfway.Store(new(fmt.Sprintf("an upgrade failed halfway, and what is remembered, votes and the cache on the disk are not kept until a restart: %v", why)))
}

// refusal notes why an upgrade failed, for the command that requested it.
func (g *Gateway) refusal(why error) {
	h := datadir.Holder{Process: os.Getpid(), Serving: true, Refused: g.failures.Add(1), Why: why.Error()}
	g.recordHolder(h)
}

// recordHolder records who uses the data folder, for the command that requests an upgrade.
func (g *Gateway) recordHolder(h datadir.Holder) {
	if err := g.engine.Load().Data.RecordHolder(h); err != nil {
		g.log.Warn("the lock of the data folder does not name its process; upgrades work by signal only", "error", err)
	}
}
