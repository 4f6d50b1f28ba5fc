package handover

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"
)

// An interface may get its address after the program has started: from DHCP, when its cable is
// plugged in, or when IPv6 has made sure that nobody else has it. Where the system allows it, a
// listener has such an address before the machine does, so that the others serve meanwhile.

// late returns a copy of lc for an address that the machine does not have, or nil if err is
// another error, the address is of all interfaces, or the system does not allow it.
func late(lc *net.ListenConfig, addr string, err error) *net.ListenConfig {
	if !bindsFree || !errors.Is(err, syscall.EADDRNOTAVAIL) || !specific(addr).IsValid() {
		return nil
	}
	c, control := *lc, lc.Control
	c.Control = func(network, address string, raw syscall.RawConn) error {
		if err := freeBind(network, raw); err != nil || control == nil {
			return err
		}
		return control(network, address, raw)
	}
	return &c
}

// specific returns the address in addr, which has a port, unless it is one of all interfaces.
func specific(addr string) netip.Addr {
	a, err := netip.ParseAddrPort(addr)
	if err != nil || a.Addr().IsUnspecified() {
		return netip.Addr{}
	}
	return a.Addr()
}

// Here reports whether the machine has the address in addr now.
func Here(addr string) bool {
	a := specific(addr)
	if !a.IsValid() || a.IsLoopback() {
		return true
	}
	c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(a, 0)))
	if err != nil {
		return !errors.Is(err, syscall.EADDRNOTAVAIL)
	}
	c.Close()
	return true
}

// Absent returns the addresses of open sockets that the machine does not have now.
func (s *Sockets) Absent() (addrs []string) {
	s.mu.Lock()
	for _, h := range s.open {
		_, addr, _ := strings.Cut(h.name, " ")
		if at, _, named := strings.Cut(addr, ":0 "); named { // see nameOf
			addr = at + ":0"
		}
		addrs = append(addrs, addr)
	}
	s.mu.Unlock()
	slices.Sort(addrs)
	return slices.DeleteFunc(slices.Compact(addrs), Here)
}

// Accepts reports whether a connection to addr can be made; "" stands for no address. An address that
// the machine has lost is no reason to restart the program, which serves at the others, and there
// when it is back.
func Accepts(ctx context.Context, addr string) bool {
	if addr == "" || !Here(addr) {
		return true
	}
	d := net.Dialer{Timeout: 5 * time.Second}
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return false
	}
	c.Close()
	return true
}
