package health

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"

	"shuultuur/lib/platform"
)

// A prober runs checks.
type prober struct {
	transport *http.Transport
}

// addrKey is the context key of the address to connect to: the URL has the name, for Host and
// the certificate.
type addrKey struct{}

func newProber(insecure bool) *prober {
	var dialer net.Dialer
	return &prober{&http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, ctx.Value(addrKey{}).(netip.AddrPort).String())
		},
		TLSClientConfig:        &tls.Config{InsecureSkipVerify: insecure}, //nolint:gosec // the operator asked for it
		DisableKeepAlives:      true,                                      // a check includes the connection, and one name has several addresses
		DisableCompression:     true,
		MaxResponseHeaderBytes: 64 << 10,
	}}
}

// probe returns nil when the address works.
func (p *prober) probe(ctx context.Context, c *Check) error {
	switch c.Protocol {
	case HTTP, HTTPS:
		return p.http(ctx, c)
	case TCP:
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", netip.AddrPortFrom(c.Addr, c.Port).String())
		if err != nil {
			return err
		}
		return conn.Close()
	case Ping:
		return ping(ctx, c.Addr)
	}
	return fmt.Errorf("protocol %q is not known", c.Protocol)
}

// http sends HEAD, or GET where HEAD is not supported. Status 200 to 399 is good; redirects
// are not followed.
func (p *prober) http(ctx context.Context, c *Check) error {
	err := p.request(ctx, c, http.MethodHead)
	var status statusError
	if errors.As(err, &status) && (status == http.StatusMethodNotAllowed || status == http.StatusNotImplemented) {
		return p.request(ctx, c, http.MethodGet)
	}
	return err
}

type statusError int

func (s statusError) Error() string { return "answered with status " + strconv.Itoa(int(s)) }

func (p *prober) request(ctx context.Context, c *Check, method string) error {
	ctx = context.WithValue(ctx, addrKey{}, netip.AddrPortFrom(c.Addr, c.Port))
	host := strings.TrimSuffix(strings.TrimPrefix(c.Host, "*."), ".")
	u := url.URL{Scheme: string(c.Protocol), Host: host}
	if c.Port != 80 && c.Protocol == HTTP || c.Port != 443 && c.Protocol == HTTPS {
		u.Host = net.JoinHostPort(host, strconv.Itoa(int(c.Port)))
	}
	req, err := http.NewRequestWithContext(ctx, method, u.String()+c.URI, nil)
	if err != nil {
		return err
	}
	req.Header.Set("User-Agent", "shuultuur-healthcheck")
	resp, err := p.transport.RoundTrip(req)
	if err != nil {
		return err
	}
	_ = resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 399 {
		return statusError(resp.StatusCode)
	}
	return nil
}

// ping sends one ICMP echo request and waits for its reply. A datagram socket needs no
// privileges where the system allows it (Linux: the sysctl net.ipv4.ping_group_range).
// Otherwise a raw socket is tried, which needs root or CAP_NET_RAW.
func ping(ctx context.Context, a netip.Addr) error {
	network, raw, wildcard := "udp4", "ip4:icmp", "0.0.0.0"
	if a.Is6() {
		network, raw, wildcard = "udp6", "ip6:ipv6-icmp", "::"
	}
	var to net.Addr = net.UDPAddrFromAddrPort(netip.AddrPortFrom(a, 0))
	conn, err := icmp.ListenPacket(network, wildcard)
	own := true // the kernel replaces the ID by the socket's number and delivers only our replies
	if err != nil {
		to, own = &net.IPAddr{IP: a.AsSlice(), Zone: a.Zone()}, false
		var err2 error
		if conn, err2 = icmp.ListenPacket(raw, wildcard); err2 != nil {
			if errors.Is(err2, os.ErrPermission) || errors.Is(err2, syscall.EPERM) || errors.Is(err2, platform.EACCES) {
				return fmt.Errorf("ping is not permitted: allow it with the sysctl net.ipv4.ping_group_range, or give CAP_NET_RAW (%w)", err2)
			}
			return fmt.Errorf("ping: %w", err2)
		}
	}
	defer conn.Close()
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(time.Second)
	}
	if err := conn.SetDeadline(deadline); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()

	payload := make([]byte, 24)
	if _, err := rand.Read(payload); err != nil {
		return err
	}
	id, seq := int(binary.BigEndian.Uint16(payload)), int(binary.BigEndian.Uint16(payload[2:]))
	ask, want, proto := icmp.Type(ipv4.ICMPTypeEcho), icmp.Type(ipv4.ICMPTypeEchoReply), 1
	if a.Is6() {
		ask, want, proto = ipv6.ICMPTypeEchoRequest, ipv6.ICMPTypeEchoReply, 58
	}
	m := icmp.Message{Type: ask, Body: &icmp.Echo{ID: id, Seq: seq, Data: payload}}
	b, err := m.Marshal(nil)
	if err != nil {
		return err
	}
	if _, err := conn.WriteTo(b, to); err != nil {
		return fmt.Errorf("ping: %w", err)
	}
	for buf := make([]byte, 1500); ; {
		n, from, err := conn.ReadFrom(buf)
		if err != nil {
			return fmt.Errorf("ping: no reply: %w", err)
		}
		if !sameHost(from, a) {
			continue
		}
		m, err := icmp.ParseMessage(proto, buf[:n])
		if err != nil || m.Type != want {
			continue
		}
		if echo, ok := m.Body.(*icmp.Echo); ok && (own || echo.ID == id) && echo.Seq == seq && string(echo.Data) == string(payload) {
			return nil
		}
	}
}

func sameHost(from net.Addr, a netip.Addr) bool {
	var ip net.IP
	switch f := from.(type) {
	case *net.UDPAddr:
		ip = f.IP
	case *net.IPAddr:
		ip = f.IP
	}
	got, ok := netip.AddrFromSlice(ip)
	return ok && got.Unmap() == a.WithZone("")
}
