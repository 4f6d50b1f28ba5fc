package shares

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// Serve serves the connections of l until ctx ends. Then it answers what has been accepted, also on
// connections on which nothing was read yet, whose requests [http.Server.Shutdown] would drop, and gives
// up the rest after grace. It closes l and s.
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
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	err := s.Serve(l)
	if ctx.Err() == nil {
		return err
	}
	s.SetKeepAlivesEnabled(false) // which ends idle connections, and the others with their answer
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		open.Wait()
	}()
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-answered:
	case <-timer.C:
	}
	_ = s.Close() // which gives up what is still open
	return nil
}
