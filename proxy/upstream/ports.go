package upstream

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// ports are the local ends of recent connections: a client connection from one of them is a
// loop. Unlike a request, a TLS hello carries no mark.
type ports struct {
	on atomic.Bool // RememberPorts was called
	mu sync.Mutex
	at map[netip.AddrPort]time.Time
}

const (
	maxPorts = 4096
	portTime = 10 * time.Second
)

// RememberPorts makes t remember the local ends of its connections, for Dialed.
func (t *Transport) RememberPorts() { t.ports.on.Store(true) }

// Dialed reports whether t has recently made the connection that comes from a.
func (t *Transport) Dialed(a netip.AddrPort) bool { return t.ports.holds(a) }

func (s *ports) add(c net.Conn) {
	a, ok := c.LocalAddr().(*net.TCPAddr)
	if !ok || !s.on.Load() {
		return
	}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at == nil {
		s.at = map[netip.AddrPort]time.Time{}
	}
	if len(s.at) >= maxPorts {
		for k, t := range s.at {
			if now.Sub(t) > portTime || len(s.at) >= maxPorts {
				delete(s.at, k)
			}
		}
	}
	s.at[unmapped(a.AddrPort())] = now
}

func (s *ports) holds(a netip.AddrPort) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.at[unmapped(a)]
	return ok && time.Since(t) < portTime
}

func unmapped(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}
