// Package handover passes the sockets of a running program to the program that
// takes its place, so that no connection is refused and no datagram is lost
// meanwhile.
//
// Data moves as follows. Whoever opens a listening socket does it with [Listen] or
// [ListenPacket], which first look for one among the [Sockets] in the context:
// those that a service manager or the program before left for us ([Inherit]).
// Every socket is kept there. [Sockets.Start] starts the next program with all of
// them and speaks with it over a pair of pipes: the [Successor] says that it is
// able to start, gets the data folder, and says that it serves. The sockets are
// the same in both processes, so that what waits in their queues is read by one
// of them.
package handover

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Left is why a server ends whose sockets live on in another process. It is the
// cause of the end of the server's context ([context.Cause]). The server accepts
// no more, but does not hurry: clients that hold a connection may send one more
// request, and get the answer. Once Hurry is closed, it ends like any other.
type Left struct{ Hurry <-chan struct{} }

func (Left) Error() string { return "another process has taken over the sockets" }

// Leaving returns what the cause of the end of ctx says about a hurry: nil and
// false when the program ends, and nobody takes its place.
func Leaving(ctx context.Context) (hurry <-chan struct{}, ok bool) {
	l, ok := errors.AsType[Left](context.Cause(ctx))
	return l.Hurry, ok
}

// Wait waits for the connections of a server whose sockets live on in another
// process: until all are done, there is a hurry, or a time is over.
func Wait(all *sync.WaitGroup, hurry <-chan struct{}, most time.Duration) {
	done := make(chan struct{})
	go func() {
		all.Wait()
		close(done)
	}()
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-done:
	case <-hurry:
	case <-timer.C:
	}
}

// held is a socket and what it was asked for as.
type held struct {
	name string // network and address
	syscall.Conn
}

// waiting is an inherited socket that nobody has asked for yet.
type waiting struct {
	name string // network and address; "" for one of a service manager
	file *os.File
}

// Sockets are the listening sockets of a process.
type Sockets struct {
	mu      sync.Mutex
	waiting []waiting
	open    []held
}

type key struct{}

// With returns a context in which [Listen] and [ListenPacket] use s.
func (s *Sockets) With(ctx context.Context) context.Context { return context.WithValue(ctx, key{}, s) }

// From returns the sockets that ctx was made with, or new ones.
func From(ctx context.Context) *Sockets {
	if s := of(ctx); s != nil {
		return s
	}
	return &Sockets{}
}

func of(ctx context.Context) *Sockets {
	s, _ := ctx.Value(key{}).(*Sockets)
	return s
}

// Listen is [net.ListenConfig.Listen] for TCP and stream sockets of Unix,
// unless there is such a socket already.
func Listen(ctx context.Context, lc *net.ListenConfig, network, addr string) (net.Listener, error) {
	s := of(ctx)
	if f := s.take(network, addr); f != nil {
		defer f.Close()
		l, err := net.FileListener(f)
		if err != nil {
			return nil, fmt.Errorf("taking over the socket for %s %s: %w", network, addr, err)
		}
		s.hold(network, addr, l)
		return l, nil
	}
	l, err := lc.Listen(ctx, network, addr)
	if err == nil {
		s.hold(network, addr, l)
	}
	return l, err
}

// ListenPacket is [net.ListenConfig.ListenPacket], unless there is such a
// socket already.
func ListenPacket(ctx context.Context, lc *net.ListenConfig, network, addr string) (net.PacketConn, error) {
	s := of(ctx)
	if f := s.take(network, addr); f != nil {
		defer f.Close()
		p, err := net.FilePacketConn(f)
		if err != nil {
			return nil, fmt.Errorf("taking over the socket for %s %s: %w", network, addr, err)
		}
		s.hold(network, addr, p)
		return p, nil
	}
	p, err := lc.ListenPacket(ctx, network, addr)
	if err == nil {
		s.hold(network, addr, p)
	}
	return p, err
}

// take returns the inherited socket for an address, nil if there is none.
func (s *Sockets) take(network, addr string) *os.File {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, w := range s.waiting {
		if w.name == network+" "+addr || w.name == "" && bound(w.file, network, addr) {
			s.waiting = append(s.waiting[:i], s.waiting[i+1:]...)
			return w.file
		}
	}
	return nil
}

// hold remembers an open socket, and forgets those that have been closed.
func (s *Sockets) hold(network, addr string, v any) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	open := s.open[:0]
	for _, h := range s.open {
		if raw, err := h.SyscallConn(); err == nil && raw.Control(func(uintptr) {}) == nil {
			open = append(open, h)
		}
	}
	s.open = open
	if f, ok := v.(syscall.Conn); ok {
		s.open = append(s.open, held{network + " " + addr, f})
	}
}

// Unused closes the inherited sockets that nobody has asked for, and returns
// their names: the settings no longer have them.
func (s *Sockets) Unused() (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.waiting {
		names = append(names, w.file.Name())
		w.file.Close()
	}
	s.waiting = nil
	return names
}

// bound reports whether a socket of a service manager is the one asked for. An
// unspecified IPv4 address is also met by that of both families.
func bound(f *os.File, network, addr string) bool {
	want, err := netip.ParseAddrPort(unspecified(network, addr))
	if err != nil {
		return false
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return false
	}
	fits := false
	_ = raw.Control(func(fd uintptr) {
		stream, has, err := describe(fd)
		if err != nil || stream != strings.HasPrefix(network, "tcp") {
			return
		}
		both := network == "tcp" || network == "udp"
		fits = has == want || both && has.Port() == want.Port() && has.Addr().IsUnspecified() && want.Addr().IsUnspecified()
	})
	return fits
}

// unspecified writes the address of every interface out: ":53".
func unspecified(network, addr string) string {
	if !strings.HasPrefix(addr, ":") {
		return addr
	}
	if strings.HasSuffix(network, "4") {
		return "0.0.0.0" + addr
	}
	return "[::]" + addr
}

// first is the descriptor of the first inherited socket, as sd_listen_fds(3)
// has it.
const first = 3

// environment is what the program before tells us: the names of the sockets,
// separated by semicolons.
const environment = "SHUULTUUR_SOCKETS"

// Inherit returns the sockets that a service manager (LISTEN_FDS) or the program
// before has left for this process, and what the latter waits to hear; nil when
// nobody waits. It is called once, before anything is opened, and removes what
// it has read from the environment.
func Inherit() (*Sockets, *Successor, error) {
	s := &Sockets{}
	names, taking := os.LookupEnv(environment)
	count, pid := os.Getenv("LISTEN_FDS"), os.Getenv("LISTEN_PID")
	for _, name := range []string{environment, "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES"} {
		os.Unsetenv(name)
	}
	if taking {
		fd := first
		for name := range strings.SplitSeq(names, ";") {
			if name != "" {
				s.waiting = append(s.waiting, waiting{name, inherited(fd, name)})
				fd++
			}
		}
		return s, &Successor{in: inherited(fd, "from the program before"), out: inherited(fd+1, "to the program before")}, nil
	}
	if count == "" || pid != strconv.Itoa(os.Getpid()) {
		return s, nil, nil
	}
	n, err := strconv.Atoi(count)
	if err != nil || n < 0 || n > 4096 {
		return nil, nil, fmt.Errorf("reading the sockets of the service manager: LISTEN_FDS is %q", count)
	}
	for fd := first; fd < first+n; fd++ {
		s.waiting = append(s.waiting, waiting{"", inherited(fd, fmt.Sprintf("descriptor %d", fd))})
	}
	return s, nil, nil
}
