package nameserver

import (
	"context"
	miekg "github.com/miekg/dns"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"shuultuur/lib/dns"
	"shuultuur/lib/setting"
)

func TestStoppingAnswersWhatIsUnderWayAndLeavesNothing(t *testing.T) {
	z := &zone{gate: make(chan struct{}), entered: make(chan struct{}, 4)}
	cert, key, _ := certificate(t)
	before := runtime.NumGoroutine()
	s, err := New(Config{Listen: []string{"127.0.0.1:0"}, TLS: []string{"127.0.0.1:0"}, HTTPS: []string{"127.0.0.1:0"}, QUIC: []string{"127.0.0.1:0"}, Cert: setting.File(cert), Key: setting.File(key)},
		slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	s.SetResponders(nil, z)
	if err := s.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	addr := s.at(dns.UDP)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	tcp := dial(t, s)
	tcp.Write(frame(t, query("later.test.", miekg.TypeA)))
	udp, err := net.Dial("udp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	udp.SetDeadline(time.Now().Add(time.Minute))
	udp.Write(frame(t, query("later.test.", miekg.TypeA))[2:])
	idle := dial(t, s)
	<-z.entered
	<-z.entered
	cancel()
	ended(t, idle) // at once, because there was no query in progress
	close(z.gate)
	if m := next(t, tcp); len(m.Answer) != 1 {
		t.Errorf("query in progress over TCP: got %v, want 1 record", m)
	}
	b := make([]byte, 512)
	if n, err := udp.Read(b); err != nil || n < 12 || b[7] != 1 {
		t.Errorf("query in progress over UDP: got % x, %v, want 1 record", b[:n], err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if c, err := net.Dial("tcp", addr); err == nil {
		c.Close()
		t.Error("the server still listens after Run returned")
	}
	// The goroutines of quic-go end a moment later.
	for deadline := time.Now().Add(time.Minute); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			b := make([]byte, 1<<16)
			t.Fatalf("%d goroutines more:\n%s", runtime.NumGoroutine()-before, b[:runtime.Stack(b, true)])
		}
	}
}

func TestStoppingDoesNotWaitForWhatNeverAnswers(t *testing.T) {
	z := &zone{gate: make(chan struct{}), entered: make(chan struct{}, 4)}
	s := start(t, Config{Wait: setting.Duration(time.Hour)}, nil, z) // the server must stop when the test ends
	udp, err := net.Dial("udp", s.at(dns.UDP))
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	udp.Write(frame(t, query("later.test.", miekg.TypeA))[2:])
	<-z.entered
}

func TestAnAddressThatIsTakenIsAnError(t *testing.T) {
	s := start(t, Config{}, nil)
	other, err := New(Config{Listen: []string{"127.0.0.1:0", s.at(dns.UDP)}}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Listen(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "listen: listen on tcp 127.0.0.1:") || !strings.Contains(err.Error(), "systemd-resolved") {
		t.Errorf("got %v", err)
	}
	if len(other.listeners)+len(other.sockets) != 0 {
		t.Error("the first address stays open")
	}
}
