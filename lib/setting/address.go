package setting

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
)

// An Address is where a server listens: "127.0.0.1:8080", "[::1]:8080", "localhost:8080", or
// ":8080" for all addresses of the machine. Port 0 means any free port.
type Address string

// UnmarshalText reads an address.
func (a *Address) UnmarshalText(text []byte) error {
	if _, err := parseAddress(string(text)); err != nil {
		return err
	}
	*a = Address(text)
	return nil
}

// AddrPort returns the address and port; the unspecified address means all addresses.
func (a Address) AddrPort() netip.AddrPort {
	at, _ := parseAddress(string(a)) // UnmarshalText has validated it
	return at
}

func parseAddress(s string) (at netip.AddrPort, err error) {
	const form = "write 127.0.0.1:8080, [::1]:8080 or :8080"
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return at, fmt.Errorf("%.80q is not an address with a port: %s", s, form)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return at, fmt.Errorf("%.80q has no port from 0 to 65535: %s", s, form)
	}
	ip := netip.IPv6Unspecified()
	switch host {
	case "":
	case "localhost":
		ip = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	default:
		if ip, err = netip.ParseAddr(host); err != nil {
			return at, fmt.Errorf("%.80q is not an IP address: %s", host, form)
		}
	}
	return netip.AddrPortFrom(ip, uint16(n)), nil
}
