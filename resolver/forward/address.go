package forward

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"shuultuur/lib/dns"
	"shuultuur/lib/release"
)

// An address is an upstream in the form of the settings.
type address struct {
	scheme string // udp, tcp, tls, https, h3, quic
	host   string // a name, or an address
	port   uint16
	fixed  []netip.Addr // addresses to connect to; none: look up host
	name   string       // in the server's certificate
	url    string       // of DNS over HTTPS
	pin    []byte       // SHA-256 of the server's public key, nil: no pin
}

var ports = map[string]uint16{"udp": 53, "tcp": 53, "tls": 853, "quic": 853, "https": 443, "h3": 443}

// parseAddress reads an upstream:
//
//	9.9.9.9  2620:fe::fe  [2620:fe::fe]:53  udp://9.9.9.9:53  tcp://9.9.9.9
//	tls://9.9.9.9#dns.quad9.net       the name in the certificate
//	tls://dns.quad9.net#9.9.9.9       the address to dial; more with commas
//	quic://dns.quad9.net              looked up through the bootstrap servers
//	https://dns.quad9.net/dns-query   h3://dns.quad9.net/dns-query
//	tls://192.0.2.1?pin=SHA256-OF-THE-PUBLIC-KEY-IN-HEX
func parseAddress(s string) (address, error) {
	if !strings.Contains(s, "://") {
		return plainAddress(s)
	}
	u, err := url.Parse(s)
	if err != nil {
		return address{}, fmt.Errorf("upstream %q cannot be read: %w", s, errors.Unwrap(err))
	}
	a := address{scheme: u.Scheme, host: strings.TrimSuffix(u.Hostname(), "."), port: ports[u.Scheme]}
	switch {
	case a.port == 0:
		return a, fmt.Errorf("upstream %q: %q is not one of udp, tcp, tls, https, h3, quic", s, u.Scheme)
	case release.Small && (a.scheme == "h3" || a.scheme == "quic"):
		return a, fmt.Errorf("upstream %q: %w", s, release.Lacks("QUIC; https and tls are encrypted too"))
	case a.host == "":
		return a, fmt.Errorf("upstream %q names no host", s)
	case u.User != nil:
		return a, fmt.Errorf("upstream %q: no user or password is sent", s)
	}
	if p := u.Port(); p != "" {
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil || n == 0 {
			return a, fmt.Errorf("upstream %q: %q is not a port", s, p)
		}
		a.port = uint16(n)
	}
	if err := a.readPlace(u.Fragment); err != nil {
		return a, fmt.Errorf("upstream %q: %w", s, err)
	}
	if err := a.path(u); err != nil {
		return a, fmt.Errorf("upstream %q: %w", s, err)
	}
	return a, nil
}

// plainAddress reads an IP address with or without a port.
func plainAddress(s string) (address, error) {
	a := address{scheme: "udp", port: 53}
	ip, err := netip.ParseAddr(strings.Trim(s, "[]"))
	if err != nil {
		ap, err := netip.ParseAddrPort(s)
		if err != nil || ap.Port() == 0 {
			return a, fmt.Errorf("upstream %q is neither an IP address nor like tls://dns.example", s)
		}
		ip, a.port = ap.Addr(), ap.Port()
	}
	a.host, a.fixed = ip.Unmap().String(), []netip.Addr{ip.Unmap()}
	return a, nil
}

// readPlace reads the part after "#": the name of an address, or the addresses of a name.
func (a *address) readPlace(fragment string) error {
	a.name = a.host
	if ip, err := netip.ParseAddr(a.host); err == nil {
		a.fixed = []netip.Addr{ip.Unmap()}
		if fragment == "" {
			return nil
		}
		if !a.encrypted() {
			return fmt.Errorf("#%s: %s has no certificate that could name it", fragment, a.scheme)
		}
		a.name = fragment
		return nil
	}
	if _, err := dns.Name(a.host); err != nil {
		return err
	}
	if fragment == "" {
		return nil
	}
	for s := range strings.SplitSeq(fragment, ",") {
		ip, err := netip.ParseAddr(s)
		if err != nil {
			return fmt.Errorf("#%s: %q is not an IP address", fragment, s)
		}
		a.fixed = append(a.fixed, ip.Unmap())
	}
	return nil
}

// path reads path and query.
func (a *address) path(u *url.URL) error {
	values := u.Query()
	if pin := values.Get("pin"); pin != "" {
		sum, err := hex.DecodeString(pin)
		if err != nil || len(sum) != sha256.Size {
			return fmt.Errorf("pin %q is not a SHA-256 sum: 64 hexadecimal digits", pin)
		}
		if !a.encrypted() {
			return fmt.Errorf("pin: %s has no key", a.scheme)
		}
		a.pin = sum
		values.Del("pin")
	}
	if a.scheme != "https" && a.scheme != "h3" {
		if u.Path != "" && u.Path != "/" || len(values) > 0 {
			return fmt.Errorf("%s has no path", a.scheme)
		}
		return nil
	}
	host := a.name
	if ip, err := netip.ParseAddr(host); err == nil && ip.Is6() {
		host = "[" + host + "]"
	}
	if a.port != 443 {
		host = net.JoinHostPort(a.name, strconv.Itoa(int(a.port)))
	}
	path := u.EscapedPath()
	if path == "" || path == "/" {
		path = "/dns-query"
	}
	a.url = "https://" + host + path
	if len(values) > 0 {
		a.url += "?" + values.Encode()
	}
	return nil
}

func (a *address) encrypted() bool { return a.scheme != "udp" && a.scheme != "tcp" }

// String returns the upstream in the form for people and metrics.
func (a *address) String() string {
	host := net.JoinHostPort(a.host, strconv.Itoa(int(a.port)))
	if a.url != "" {
		return a.scheme + strings.TrimPrefix(a.url, "https")
	}
	return a.scheme + "://" + host
}
