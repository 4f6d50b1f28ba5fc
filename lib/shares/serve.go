package shares

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"shuultuur/lib/handover"
)

// Serve serves the connections of l until ctx ends. Then it answers what has been accepted, also on
// connections on which nothing was read yet, whose requests [http.Server.Shutdown] would drop, and gives
// up the rest after grace. Where another process has taken over the socket ([handover.HandedOver]), a
// kept connection may send one more request, whose answer says that the connection ends: closing it
// between two requests may lose the second. It closes l and s.
func Serve(ctx context.Context, s *http.Server, l net.Listener, grace time.Duration) error {
	var open sync.WaitGroup // connections
	s.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed, http.StateHijacked:
			open.Done()
		}
	}
	var leaving atomic.Bool
	h := s.Handler
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if leaving.Load() {
			w.Header().Set("Connection", "close")
		}
		h.ServeHTTP(w, r)
	})
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	err := s.Serve(l)
	if ctx.Err() == nil {
		return err
	}
	if hurry, ok := handover.HurryFrom(ctx); ok {
		leaving.Store(true)
		handover.Wait(&open, hurry, s.IdleTimeout+grace) // those that are idle end by themselves
	}
	s.SetKeepAlivesEnabled(false) // which ends idle connections, and the others with their answer
	handover.Wait(&open, nil, grace)
	_ = s.Close() // which gives up what is still open
	return nil
}
