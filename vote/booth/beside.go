//go:build !small

package booth

import (
	"context"
	"crypto/rand"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"shuultuur/lib/handover"
	"shuultuur/lib/ingest"
)

// A process that has handed the log of votes over still takes votes on the connections that it serves to
// their end. It keeps them in small logs beside the log, a second's votes in each. The process that has
// the log moves them into it. A vote counts once, however often it is moved.
const (
	besideName = "beside-"
	besideFor  = time.Second // how long votes are written to one of the small logs
	besideLook = time.Second // how often they are looked for
	besideSize = 1 << 20
	besideMost = 1000 // votes that are moved at once

	departureTime = 80 * time.Second // longer than a connection may be idle
)

// A beside writes the small logs.
type beside struct {
	folder string // of the log of votes
	log    *slog.Logger

	mu  sync.RWMutex // held for reading while votes are written
	now *ingest.Log  // guarded by mu; nil before the next vote
}

// Append implements the log of an entrance.
func (s *beside) Append(ctx context.Context, records ...[]byte) error {
	for {
		s.mu.RLock()
		if s.now != nil {
			defer s.mu.RUnlock()
			return s.now.Append(ctx, records...)
		}
		s.mu.RUnlock()
		if err := s.begin(); err != nil {
			return err
		}
	}
}

// begin begins a small log, which ends by itself.
func (s *beside) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now != nil {
		return nil
	}
	var l *ingest.Log
	var err error
	for range 3 { // the other process may look into a new folder first
		folder := filepath.Join(s.folder, besideName+strings.ToLower(rand.Text()[:10]))
		if l, err = ingest.Open(ingest.Config{Folder: folder, Segment: besideSize}, s.log); err == nil {
			break
		}
	}
	if err != nil {
		return &ingest.Unavailable{Cause: err, Retry: time.Second}
	}
	s.now = l
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	time.AfterFunc(besideFor, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.now = nil
		stop()
		if err := <-ended; err != nil {
			s.log.Error("votes that came after the log was handed over may wait for the next start", "error", err)
		}
	})
	return nil
}

// HandOver prepares for another process that takes the log: votes that come from now on are kept for it.
func (b *Booth) HandOver() {
	b.entry.beside.Store(&beside{folder: b.folder(), log: b.parts.Log})
}

// Depart waits for the connections of this process after HandOver and the end of Run.
func (b *Booth) Depart(hurry <-chan struct{}) {
	if b.cut == nil {
		return
	}
	handover.Wait(&b.clients, hurry, departureTime)
	b.cut()
	b.clients.Wait()
}

// folder returns the folder of the log.
func (b *Booth) folder() string { return filepath.Join(b.parts.Data, "votes") }

// moveIn moves votes of processes that have handed over into the log, until ctx ends.
func (b *Booth) moveIn(ctx context.Context) error {
	for tick := time.NewTicker(besideLook); ; {
		all, err := filepath.Glob(filepath.Join(b.folder(), besideName+"*"))
		for _, folder := range all {
			if err = b.moveFrom(ctx, folder); err != nil && ctx.Err() == nil {
				b.parts.Log.Debug("votes are not moved into the log yet", "folder", folder, "error", err)
			}
		}
		select {
		case <-ctx.Done():
			tick.Stop()
			return nil
		case <-tick.C:
		}
	}
}

// moveFrom moves the votes of a small log, and removes it. It fails while the log is written to.
func (b *Booth) moveFrom(ctx context.Context, folder string) error {
	l, err := ingest.Open(ingest.Config{Folder: folder}, b.parts.Log)
	if err != nil {
		return err
	}
	defer l.Close()
	r, err := l.Reader("moved")
	if err != nil {
		return err
	}
	for l.Pending(r) > 0 {
		records, next, err := r.Next(ctx, besideMost, 0)
		if err == nil && len(records) > 0 {
			err = b.entry.Append(ctx, records...)
		}
		if err == nil {
			err = r.Done(next)
		}
		if err != nil {
			return err
		}
	}
	return os.RemoveAll(folder)
}
