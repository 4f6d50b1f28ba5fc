package transfer_test

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"shuultuur/nameserver/transfer"
	"shuultuur/nameserver/wire"
	"shuultuur/nameserver/zone"
	"shuultuur/nameserver/zone/sign"
)

const keyName = "to-peer.example."

var secret = base64.StdEncoding.EncodeToString([]byte("a secret of thirty-two bytes, ok"))

// A server is ours, on a free port of the loopback, with UDP and TCP.
type server struct {
	*transfer.Server
	zones *zone.Responder
	addr  netip.AddrPort
}

func (s *server) port() string { return fmt.Sprint(s.addr.Port()) }

// start runs a server until the test ends.
func start(t testing.TB, c transfer.Config) *server {
	t.Helper()
	s := &server{zones: zone.NewResponder()}
	tcp, udp := listen(t)
	s.addr = netip.MustParseAddrPort(tcp.Addr().String())
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	var err error
	if s.Server, err = transfer.New(c, s.zones, log); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.Run(ctx) })
	wg.Go(func() { s.serveUDP(udp) })
	wg.Go(func() {
		for {
			conn, err := tcp.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
				defer stop()
				defer conn.Close()
				s.serveTCP(ctx, conn)
			})
		}
	})
	t.Cleanup(func() {
		cancel()
		_ = tcp.Close()
		_ = udp.Close()
		wg.Wait()
	})
	return s
}

// listen finds a port that is free for both transports.
func listen(t testing.TB) (net.Listener, *net.UDPConn) {
	t.Helper()
	for range 50 {
		tcp, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		udp, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort(tcp.Addr().String())))
		if err == nil {
			return tcp, udp
		}
		_ = tcp.Close()
	}
	t.Fatal("no port is free for UDP and TCP")
	return nil, nil
}

func (s *server) serveUDP(conn *net.UDPConn) {
	buf := make([]byte, 65535)
	for {
		n, from, err := conn.ReadFromUDPAddrPort(buf)
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			continue // a port of the client's that is closed
		}
		if reply := s.reply(buf[:n], from, wire.UDP); reply != nil {
			_, _ = conn.WriteToUDPAddrPort(reply, from)
		}
	}
}

func (s *server) serveTCP(ctx context.Context, conn net.Conn) {
	from := netip.MustParseAddrPort(conn.RemoteAddr().String())
	send := func(msg []byte) error {
		_, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(msg))), msg...))
		return err
	}
	for {
		var size [2]byte
		if _, err := io.ReadFull(conn, size[:]); err != nil {
			return
		}
		msg := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(conn, msg); err != nil {
			return
		}
		var q wire.Query
		q.Client, q.Transport, q.At = from, wire.TCP, time.Now()
		if q.Parse(msg) == wire.OK && (q.Type == dns.TypeAXFR || q.Type == dns.TypeIXFR) {
			if out, err := s.Transfer(ctx, &q, send); err != nil {
				return
			} else if out != wire.Declined {
				continue
			}
		}
		if reply := s.reply(msg, from, wire.TCP); reply == nil || send(reply) != nil {
			return
		}
	}
}

// reply does what a name server does with one message.
func (s *server) reply(msg []byte, from netip.AddrPort, by wire.Transport) []byte {
	var q wire.Query
	q.Client, q.Transport, q.At = from, by, time.Now()
	if q.Parse(msg) != wire.OK {
		return nil
	}
	limit := 65535
	if by == wire.UDP {
		limit = max(512, int(q.Size))
	}
	opts := wire.Options{Size: 1232, Max: limit}
	room := opts.Room(&q)
	if q.TSIG != 0 {
		room += 512
	}
	limit = max(limit, 1232) // a TSIG takes room that 512 bytes do not have
	var r wire.Reply
	start := func() { r.Start(&q, make([]byte, 0, 65535), limit-room) }
	start()
	out := wire.Declined
	switch {
	case q.TSIG != 0 && !s.Verify(&q):
		r.Rcode, out = dns.RcodeNotAuth, wire.Answered
	case q.Opcode() == wire.OpcodeNotify:
		out = s.Notify(&q, &r)
	default:
		for _, responder := range []wire.Responder{s.Server, s.zones} {
			if out = responder.Answer(&q, &r); out == wire.Later {
				start()
				ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
				out = responder.Wait(ctx, &q, &r)
				cancel()
			}
			if out != wire.Declined {
				break
			}
		}
	}
	switch out {
	case wire.Declined:
		r.Rcode = dns.RcodeRefused
	case wire.Dropped:
		return nil
	}
	done := r.Finish(&opts)
	if q.TSIG != 0 {
		done = s.Sign(&q, done)
	}
	return done
}

func read(t testing.TB, origin, text string) *zone.Zone {
	t.Helper()
	z, err := zone.Read(strings.NewReader(text), origin, "")
	if err != nil {
		t.Fatal(err)
	}
	return z
}

func publish(t testing.TB, s *server, z *zone.Zone, signer *sign.Signer) {
	t.Helper()
	if err := s.Publish(t.Context(), z, signer); err != nil {
		t.Fatal(err)
	}
}

// program finds another's server; what Debian keeps in sbin is not in
// everybody's path.
func program(t testing.TB, name string) string {
	t.Helper()
	for _, path := range []string{name, "/usr/sbin/" + name} {
		if found, err := exec.LookPath(path); err == nil {
			return found
		}
	}
	t.Fatalf("%s is not there: test/setup.sh installs it", name)
	return ""
}

// run starts another's server until the test ends.
func run(t testing.TB, name string, args ...string) *os.Process {
	t.Helper()
	cmd := exec.Command(program(t, name), args...)
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		done := make(chan struct{})
		go func() { _ = cmd.Wait(); close(done) }()
		select {
		case <-done:
		case <-time.After(5 * time.Second):
			_ = cmd.Process.Kill()
			<-done
		}
	})
	return cmd.Process
}

// freePort is one that another's server can have for UDP and TCP.
func freePort(t testing.TB) string {
	t.Helper()
	tcp, udp := listen(t)
	defer tcp.Close()
	defer udp.Close()
	return fmt.Sprint(netip.MustParseAddrPort(tcp.Addr().String()).Port())
}

func write(t testing.TB, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// query asks a server over UDP; nil when it does not answer.
func query(addr, name string, typ uint16) *dns.Msg {
	m := new(dns.Msg)
	m.SetQuestion(name, typ)
	m.SetEdns0(4096, false)
	m.AuthenticatedData = true // say whether it is secure
	c := dns.Client{Timeout: time.Second}
	reply, _, err := c.Exchange(m, addr)
	if err != nil {
		return nil
	}
	return reply
}

// until waits for something that another process does.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("not within 20 s: %s", what)
}

// serial is a server's serial of example.com., 0 when it has none.
func serial(addr string) uint32 {
	if m := query(addr, "example.com.", dns.TypeSOA); m != nil {
		for _, rr := range m.Answer {
			if soa, ok := rr.(*dns.SOA); ok {
				return soa.Serial
			}
		}
	}
	return 0
}

// zoneOf is a zone with a serial and n names.
func zoneOf(t testing.TB, serial, n int) *zone.Zone {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "$TTL 300\n@ SOA ns1 hostmaster %d 3600 600 86400 300\n@ NS ns1\nns1 A 192.0.2.1\n*.wild TXT \"x\"\n", serial)
	for i := range n {
		fmt.Fprintf(&b, "host%d A 198.51.100.%d\n", i, i%256)
	}
	return read(t, "example.com.", b.String())
}
