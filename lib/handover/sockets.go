// Package handover passes the sockets of a running program to its successor, so
// that no connection is refused and no datagram is lost.
//
// Data moves as follows. Servers open listening sockets with [Listen] or
// [ListenPacket]. These first look among the [Sockets] in the context for an
// inherited socket, from a service manager or from the predecessor ([Inherit]).
// All sockets are kept there. [Sockets.Start] starts the next program with all of
// them and talks to it over a pair of pipes: the [Successor] reports that it can
// start, gets the data folder, and reports that it serves. Both processes have the
// same sockets, so either can read the queued bytes.
package handover

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// HandedOver is the cause ([context.Cause]) of the end of a server's context if its
// sockets live on in another process. The server stops accepting but need not
// hurry: clients with a connection may send one more request and get the answer.
// When Hurry is closed, it ends like any other server.
type HandedOver struct{ Hurry <-chan struct{} }

func (HandedOver) Error() string { return "another process has taken over the sockets" }

// HurryFrom returns the Hurry channel from the cause of the end of ctx. ok is
// false if the program ends without a successor.
func HurryFrom(ctx context.Context) (hurry <-chan struct{}, ok bool) {
	l, ok := errors.AsType[HandedOver](context.Cause(ctx))
	return l.Hurry, ok
}

// Wait waits for the connections of a server whose sockets live on in another
// process: until all have ended, until hurry is closed, or for at most most.
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

// An openSocket is a socket with the address it was opened for.
type openSocket struct {
	name string // network and address
	syscall.Conn
}

// An inheritedSocket is an inherited socket that is not in use yet.
type inheritedSocket struct {
	name string // network and address; "" if it is from a service manager
	file *os.File
}

// Sockets are the listening sockets of a process.
type Sockets struct {
	mu      sync.Mutex
	waiting []inheritedSocket
	open    []openSocket
}

type key struct{}

// With returns a context in which [Listen] and [ListenPacket] use s.
func (s *Sockets) With(ctx context.Context) context.Context { return context.WithValue(ctx, key{}, s) }

// FromContext returns the sockets in ctx, or new ones.
func FromContext(ctx context.Context) *Sockets {
	if s := fromContext(ctx); s != nil {
		return s
	}
	return &Sockets{}
}

func fromContext(ctx context.Context) *Sockets {
	s, _ := ctx.Value(key{}).(*Sockets)
	return s
}

type server struct{}

// For returns a context for the listeners of one server. Where the system chooses the port, the same
// address may stand for several servers, and each finds its own sockets again.
func For(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, server{}, name)
}

// nameOf returns the name of a socket.
func nameOf(ctx context.Context, network, addr string) string {
	if of, ok := ctx.Value(server{}).(string); ok && strings.HasSuffix(addr, ":0") {
		return network + " " + addr + " " + of
	}
	return network + " " + addr
}

// Listen is [net.ListenConfig.Listen] for TCP and stream sockets of Unix,
// unless there is an inherited socket. An address that the machine does not have yet is waited
// for, see [Sockets.Absent].
func Listen(ctx context.Context, lc *net.ListenConfig, network, addr string) (net.Listener, error) {
	s := fromContext(ctx)
	name := nameOf(ctx, network, addr)
	if f := s.take(name, network, addr); f != nil {
		defer f.Close()
		l, err := net.FileListener(f)
		if err != nil {
			return nil, fmt.Errorf("taking over the socket for %s %s: %w", network, addr, err)
		}
		s.hold(name, l)
		return l, nil
	}
	l, err := lc.Listen(ctx, network, addr)
	if lc := late(lc, addr, err); lc != nil {
		l, err = lc.Listen(ctx, network, addr)
	}
	if err == nil {
		s.hold(name, l)
	}
	return l, err
}

// ListenPacket is [net.ListenConfig.ListenPacket], unless there is an inherited
// socket. It waits for an address like [Listen].
func ListenPacket(ctx context.Context, lc *net.ListenConfig, network, addr string) (net.PacketConn, error) {
	s := fromContext(ctx)
	name := nameOf(ctx, network, addr)
	if f := s.take(name, network, addr); f != nil {
		defer f.Close()
		p, err := net.FilePacketConn(f)
		if err != nil {
			return nil, fmt.Errorf("taking over the socket for %s %s: %w", network, addr, err)
		}
		s.hold(name, p)
		return p, nil
	}
	p, err := lc.ListenPacket(ctx, network, addr)
	if lc := late(lc, addr, err); lc != nil {
		p, err = lc.ListenPacket(ctx, network, addr)
	}
	if err == nil {
		s.hold(name, p)
	}
	return p, err
}

// Inherits reports whether [Listen] will find an inherited socket for an address.
func Inherits(ctx context.Context, network, addr string) bool {
	s := fromContext(ctx)
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	name := nameOf(ctx, network, addr)
	return slices.ContainsFunc(s.waiting, func(w inheritedSocket) bool { return w.name == name })
}

// Inbox makes a pair of datagram sockets. This process reads from one; the programs after it find the
// other by its name ([Earlier]), and write to it while this process goes on with its clients.
func Inbox(ctx context.Context, name string) (*net.UnixConn, error) {
	s := fromContext(ctx)
	if s == nil {
		return nil, errors.New("nobody takes over the sockets")
	}
	in, out, err := pair()
	if err != nil {
		return nil, fmt.Errorf("making an inbox for %s: %w", name, err)
	}
	s.hold(name, out)
	return in, nil
}

// Earlier returns where to write to the inboxes of earlier processes whose names begin with prefix, by
// the rest of their names. Later programs get them, too, until their readers have closed them.
func Earlier(ctx context.Context, prefix string) map[string]*net.UnixConn {
	s := fromContext(ctx)
	if s == nil {
		return nil
	}
	s.mu.Lock()
	var found []inheritedSocket
	s.waiting = slices.DeleteFunc(s.waiting, func(w inheritedSocket) bool {
		if !strings.HasPrefix(w.name, prefix) {
			return false
		}
		found = append(found, w)
		return true
	})
	s.mu.Unlock()
	all := map[string]*net.UnixConn{}
	for _, w := range found {
		if c, err := net.FileConn(w.file); err == nil {
			if u, ok := c.(*net.UnixConn); ok && !abandoned(u) {
				s.hold(w.name, u)
				all[strings.TrimPrefix(w.name, prefix)] = u
			} else {
				c.Close()
			}
		}
		w.file.Close()
	}
	return all
}

// abandoned reports whether nobody reads what is written to an inbox.
func abandoned(u *net.UnixConn) bool {
	_, err := u.Write(nil)
	return err != nil
}

// take returns the inherited socket for an address, or nil.
func (s *Sockets) take(name, network, addr string) *os.File {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, w := range s.waiting {
		if w.name == name || w.name == "" && bound(w.file, network, addr) {
			s.waiting = append(s.waiting[:i], s.waiting[i+1:]...)
			return w.file
		}
	}
	return nil
}

// hold adds an open socket, and removes those that have been closed.
func (s *Sockets) hold(name string, v any) {
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
		s.open = append(s.open, openSocket{name, f})
	}
}

// Offer makes the next calls of [Listen] and [ListenPacket] find the open sockets of this process as
// if they were inherited: a server takes the place of another one that listens at some of the same
// addresses, and no connection is refused in between. Call [Sockets.Unused] when it listens. Where
// sockets have no second descriptor, nothing is offered.
func (s *Sockets) Offer() {
	fds, names := s.duplicates()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, fd := range fds {
		s.waiting = append(s.waiting, inheritedSocket{names[i], inherited(int(fd), names[i])})
	}
}

// Unused closes the inherited sockets that are not in use, because the settings
// no longer have them, and returns their names.
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

// bound reports whether a socket of a service manager has the requested
// address. A socket for both families also serves an unspecified IPv4 address.
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

// unspecified returns the short form of an address of all interfaces: ":53".
func unspecified(network, addr string) string {
	if !strings.HasPrefix(addr, ":") {
		return addr
	}
	if strings.HasSuffix(network, "4") {
		return "0.0.0.0" + addr
	}
	return "[::]" + addr
}

// first is the descriptor of the first inherited socket, see sd_listen_fds(3).
const first = 3

// environment is the variable with the names of the predecessor's sockets,
// separated by semicolons.
const environment = "SHUULTUUR_SOCKETS"

// Inherit returns the sockets that a service manager (LISTEN_FDS) or the
// predecessor has left for this process, and the Successor to report to the
// predecessor, or nil. Call it once, before anything is opened. It removes the
// variables that it has read from the environment.
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
				s.waiting = append(s.waiting, inheritedSocket{name, inherited(fd, name)})
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
		s.waiting = append(s.waiting, inheritedSocket{"", inherited(fd, fmt.Sprintf("descriptor %d", fd))})
	}
	return s, nil, nil
}
