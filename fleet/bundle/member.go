package bundle

import (
	"context"
	"io"
	"io/fs"
	"log/slog"
	"sync"

	"shuultuur/state"
)

// A Member is this gateway as a member of a fleet that takes bundles, as its desk, or as both.
type Member struct {
	Taker *Taker // nil: it takes no bundles
	Desk  *Desk  // nil: it is no desk
	Dir   Dir
}

// Parts are what a member needs from its gateway.
type Parts struct {
	Program string // version of the program
	User    User
	State   state.Store
	Log     *slog.Logger
}

// NewMember makes the member of the settings c, which keeps what it holds in dir.
func NewMember(c *Config, dir Dir, p Parts) (*Member, error) {
	m := &Member{Dir: dir}
	send := func(i state.Instruction, err error) {
		if err == nil {
			err = p.State.Issue(i)
		}
		if err != nil {
			p.Log.Error("the other nodes do not hear of bundles", "error", err)
		}
	}
	var err error
	if c.Bundles != nil {
		if m.Taker, err = NewTaker(c, dir, p.Program, p.User, func(r Report) { send(r.Instruction()) }, p.Log); err != nil {
			return nil, err
		}
	}
	if c.Desk != nil {
		m.Desk, err = NewDesk(c, dir, func() []Report { return Reports(p.State.InForce(Topic)) }, func(serial uint64) {
			send(offeredInstruction(serial), nil)
			m.Wake()
		}, p.Log)
	}
	return m, err
}

// Offered opens what other nodes may take from this one: what its desk offers, if that is here, else
// the bundle that it runs.
func (m *Member) Offered(ctx context.Context, name string) (io.ReadCloser, error) {
	if m == nil {
		return nil, fs.ErrNotExist
	}
	if m.Desk != nil {
		if f, ok := m.Desk.cfg.to.(Folder); ok {
			return Dir(f).Offered(ctx, name)
		}
	}
	return m.Dir.Offered(ctx, name)
}

// Wake says that a bundle is offered somewhere.
func (m *Member) Wake() {
	if m != nil && m.Taker != nil {
		m.Taker.Wake()
	}
}

// Run takes and offers bundles until ctx ends.
func (m *Member) Run(ctx context.Context) error {
	var work sync.WaitGroup
	if m.Taker != nil {
		work.Go(func() { m.Taker.Run(ctx) })
	}
	if m.Desk != nil {
		work.Go(func() { m.Desk.Run(ctx) })
	}
	<-ctx.Done()
	work.Wait()
	return nil
}

// Problems says why this node lacks a bundle.
func (m *Member) Problems() []string {
	if m.Taker == nil {
		return nil
	}
	return m.Taker.Problems()
}
