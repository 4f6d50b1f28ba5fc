//go:build !darwin && !freebsd && !linux && !small

package nameserver

import (
	"context"
	"net"

	"github.com/quic-go/quic-go"
)

// A quicSocket is the UDP socket of a QUIC listener. No later server takes it over here.
type quicSocket struct{ *net.UDPConn }

func newQUICSocket(_ context.Context, _ string, udp *net.UDPConn) *quicSocket {
	return &quicSocket{udp}
}

func (s *quicSocket) prepare(tr *quic.Transport) { tr.Conn = s.UDPConn }

func (*quicSocket) handOver() bool { return false }
