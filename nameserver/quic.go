//go:build !small

package nameserver

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"shuultuur/lib/dns"
	"shuultuur/lib/handover"
)

// Error codes of DNS over QUIC, RFC 9250 section 8.4.
const (
	doqNoError       = 0x0
	doqProtocolError = 0x2
	doqExcessiveLoad = 0x4
)

// quicListener is QUIC on one UDP socket: DNS or HTTP/3.
type quicListener struct {
	transport dns.Transport
	udp       *quicSocket
	tr        *quic.Transport
	ln        *quic.Listener
}

func (q *quicListener) close() {
	q.ln.Close()
	q.tr.Close()
	q.udp.Close()
}

func (s *Server) listenQUIC(ctx context.Context, a netip.AddrPort, t dns.Transport) error {
	network := "udp6"
	if a.Addr().Is4() {
		network = "udp4"
	}
	p, err := handover.ListenPacket(ctx, new(net.ListenConfig), network, a.String())
	if err != nil {
		return fmt.Errorf("listen on %s (udp) %s: %w", t, a, hint(err))
	}
	udp := newQUICSocket(ctx, t.String()+" "+a.String(), p.(*net.UDPConn))
	tr := &quic.Transport{
		// When half of the connections are in use, an address must prove itself before
		// it costs us anything.
		VerifySourceAddress: func(net.Addr) bool { return s.conns.count() > s.limits.connections/2 },
	}
	udp.prepare(tr)
	cfg := s.tls.quic.Clone()
	if t == dns.HTTPS {
		cfg = http3.ConfigureTLSConfig(cfg)
	} else {
		cfg.NextProtos = []string{"doq"}
	}
	ln, err := tr.Listen(cfg, &quic.Config{
		MaxIdleTimeout: s.limits.idle, HandshakeIdleTimeout: s.limits.idle,
		MaxIncomingStreams: int64(s.limits.pipeline), MaxIncomingUniStreams: uniStreams(t),
		// A query and its reply, as far as the peer may make us hold them.
		InitialStreamReceiveWindow: 16 << 10, MaxStreamReceiveWindow: maxMessage + 2,
		InitialConnectionReceiveWindow: 64 << 10, MaxConnectionReceiveWindow: 256 << 10,
	})
	if err != nil {
		udp.Close()
		return fmt.Errorf("listen on %s %s: %w", t, a, err)
	}
	s.quics = append(s.quics, quicListener{t, udp, tr, ln})
	return nil
}

// uniStreams returns how many unidirectional streams a client may open: three
// for control in HTTP/3, none in DNS.
func uniStreams(t dns.Transport) int64 {
	if t == dns.HTTPS {
		return 8
	}
	return -1
}

// acceptQUIC serves the connections of a listener until it is closed.
func (s *Server) acceptQUIC(q quicListener, w *web) {
	var all sync.WaitGroup
	defer all.Wait()
	for {
		c, err := q.ln.Accept(context.Background())
		if err != nil {
			return // closed
		}
		a := c.RemoteAddr().(*net.UDPAddr).AddrPort()
		client := netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
		why, ok := s.conns.enter(client.Addr())
		if s.rules.Load().deny.contain(client.Addr()) {
			if ok {
				s.conns.leave(client.Addr())
			}
			why, ok = denied, false
		}
		if !ok {
			s.drop(why)
			_ = c.CloseWithError(doqExcessiveLoad, "")
			continue
		}
		all.Go(func() {
			defer s.conns.leave(client.Addr())
			if q.transport == dns.HTTPS {
				_ = w.http3.ServeQUICConn(c) // how the connection ended
				return
			}
			s.serveQUIC(c, client, w)
		})
	}
}

// leaveQUIC leaves the sockets to another server. This one answers its connections until their clients
// leave. Where it gets no datagrams any more, it ends them at once, and clients connect again.
func (s *Server) leaveQUIC(ctx context.Context, w *web) {
	if _, ok := handover.HurryFrom(ctx); !ok {
		return
	}
	for _, q := range s.quics {
		if !q.udp.handOver() {
			w.stop()
			q.close()
		}
	}
}

// serveQUIC answers the queries of a connection, a stream each.
func (s *Server) serveQUIC(c *quic.Conn, client netip.AddrPort, w *web) {
	var all sync.WaitGroup
	local, _ := c.LocalAddr().(*net.UDPAddr)
	named := s.rules.Load().clientIDIn(c.ConnectionState().TLS.ServerName)
	for {
		st, err := c.AcceptStream(w.ctx)
		if err != nil { // the client has left or was silent, or the server stops
			all.Wait()
			_ = c.CloseWithError(doqNoError, "")
			return
		}
		all.Go(func() {
			x := w.callers.Get().(*caller)
			defer w.callers.Put(x)
			q := &x.q
			q.Client, q.Local, q.Transport, q.ClientID = client, netip.Addr{}, dns.QUIC, named
			if local != nil {
				q.Local = local.AddrPort().Addr().Unmap()
			}
			x.serveStream(c, st)
		})
	}
}

// serveStream answers the one query of a stream.
func (x *caller) serveStream(c *quic.Conn, st *quic.Stream) {
	defer st.Close()
	st.SetReadDeadline(time.Now().Add(x.s.limits.idle))
	msg, err := appendAll(x.msg[:0], io.LimitReader(st, frameBytes+maxMessage+1))
	x.msg = msg
	if err != nil {
		st.CancelRead(doqProtocolError)
		return
	}
	// One message after its length, with nothing after it, and ID 0 (section 4.2).
	if len(msg) < frameBytes+12 || int(binary.BigEndian.Uint16(msg)) != len(msg)-frameBytes || msg[2] != 0 || msg[3] != 0 {
		x.drop(badFrame)
		_ = c.CloseWithError(doqProtocolError, "")
		return
	}
	x.msg = msg[frameBytes:]
	defer func() { x.msg = msg }()
	x.q.At = time.Now()
	frame := func(msg []byte) error {
		st.SetWriteDeadline(time.Now().Add(writeTime))
		b := binary.BigEndian.AppendUint16(make([]byte, 0, frameBytes+len(msg)), uint16(len(msg)))
		_, err := st.Write(append(b, msg...))
		return err
	}
	x.send = frame
	defer func() { x.send = nil }()
	reply, j := x.reply()
	if j != nil {
		defer x.s.queue.release(j)
	}
	if len(reply) > 0 {
		frame(reply)
	}
}
