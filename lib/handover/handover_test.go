package handover

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// role is the role of this test's program when it is started as the next one.
const role = "HANDOVER_TEST_ROLE"

func TestMain(m *testing.M) {
	if r := os.Getenv(role); r != "" {
		os.Exit(successor(r))
	}
	os.Exit(m.Run())
}

// successor takes over, or refuses to, by its role.
func successor(role string) int {
	s, before, err := Inherit()
	if err != nil || before == nil {
		fmt.Fprintln(os.Stderr, "nobody hands over:", err)
		return 3
	}
	switch role {
	case "silent":
		return 3
	case "refuses":
		before.Refuse(fmt.Errorf("line 3: no such\nsetting"))
		return 1
	case "waits":
		select {}
	}
	if err := before.ReportReady(); err != nil {
		return 4
	}
	if role == "halfway" {
		return 5
	}
	ctx := s.With(context.Background())
	l, err := Listen(ctx, &net.ListenConfig{}, "tcp", os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 6
	}
	p, err := ListenPacket(ctx, &net.ListenConfig{}, "udp", os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 7
	}
	if unused := s.Unused(); len(unused) != 1 {
		fmt.Fprintln(os.Stderr, "not asked for:", unused)
		return 8
	}
	if err := before.ReportServing(); err != nil {
		return 9
	}
	c, err := l.Accept()
	if err != nil {
		return 10
	}
	fmt.Fprint(c, "next")
	c.Close()
	b := make([]byte, 64)
	n, from, err := p.ReadFrom(b)
	if err == nil {
		_, err = p.WriteTo(append([]byte("next "), b[:n]...), from)
	}
	if err != nil {
		return 11
	}
	return 0
}

// sockets opens one of each kind, and one that the next program does not use.
func sockets(t *testing.T) (s *Sockets, l net.Listener, p net.PacketConn) {
	t.Helper()
	s = &Sockets{}
	ctx := s.With(t.Context())
	l, err := Listen(ctx, &net.ListenConfig{}, "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p, err = ListenPacket(ctx, &net.ListenConfig{}, "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	other, err := Listen(ctx, &net.ListenConfig{}, "tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close(); p.Close(); other.Close() })
	return s, l, p
}

func TestTheNextProgramServesTheSameSockets(t *testing.T) {
	s, l, p := sockets(t)
	t.Setenv(role, "serves")
	released := false
	pid, _, err := s.Start(t.Context(), os.Args[0], []string{"127.0.0.1:0", "127.0.0.1:0"}, func() { released = true })
	if err != nil || pid == 0 || !released {
		t.Fatalf("Start: process %d, released: %t, %v", pid, released, err)
	}
	// This process accepts no connections; the next program does.
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	q, err := net.Dial("udp", p.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	b := make([]byte, 64)
	for _, x := range []struct {
		conn net.Conn
		want string
	}{{c, "next"}, {q, "next hello"}} {
		_ = x.conn.SetDeadline(time.Now().Add(time.Minute))
		if _, err := x.conn.Write([]byte("hello")); err != nil {
			t.Fatal(err)
		}
		if n, err := x.conn.Read(b); err != nil || string(b[:n]) != x.want {
			t.Errorf("answer of the next program: got %q, %v, want %q", b[:n], err, x.want)
		}
	}
}

func TestAProgramThatDoesNotTakeOverSaysWhy(t *testing.T) {
	for _, tt := range []struct {
		program, role, want string
		released            bool
	}{
		{os.Args[0], "refuses", "line 3: no such setting", false},
		{os.Args[0], "silent", "ended without a reply", false},
		{os.Args[0], "halfway", "ended without a reply", true},
		{"/no/such/program", "", "starting /no/such/program", false},
	} {
		s, _, _ := sockets(t)
		t.Setenv(role, tt.role)
		asked := false
		_, released, err := s.Start(t.Context(), tt.program, nil, func() { asked = true })
		if err == nil || !strings.Contains(err.Error(), tt.want) || released != tt.released || asked != tt.released {
			t.Errorf("%s: got error %v, released %t (release called: %t), want %q, %t", tt.role, err, released, asked, tt.want, tt.released)
		}
	}
}

func TestAnEndedContextEndsTheWait(t *testing.T) {
	s, _, _ := sockets(t)
	t.Setenv(role, "waits")
	ctx, stop := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, stop)
	if _, released, err := s.Start(ctx, os.Args[0], nil, func() {}); err == nil || released {
		t.Errorf("Start with a canceled context: got error %v, released %t", err, released)
	}
}

// TestSocketsStayAsTheyAreForThisProcess: after a failed upgrade, sockets accept, time out and
// close as before.
func TestSocketsStayAsTheyAreForThisProcess(t *testing.T) {
	s, l, p := sockets(t)
	t.Setenv(role, "refuses")
	if _, _, err := s.Start(t.Context(), os.Args[0], nil, func() {}); err == nil {
		t.Fatal("Start succeeded, want the next program to refuse")
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("Read returned no error before its deadline")
	}
	l.Close()
	_ = p.SetReadDeadline(time.Now())
	read := make(chan error, 1)
	go func() {
		_, _, err := p.ReadFrom(make([]byte, 1))
		read <- err
	}()
	for range 2 {
		select {
		case <-ended:
			ended = nil
		case err := <-read:
			if err == nil {
				t.Error("Accept returned no error after Close")
			}
		case <-time.After(time.Minute):
			t.Fatal("a socket blocks: it neither closes nor times out")
		}
	}
}

func TestSocketsOfAServiceManager(t *testing.T) {
	for _, tt := range []struct{ count, pid, want string }{
		{"x", fmt.Sprint(os.Getpid()), "LISTEN_FDS"},
		{"-1", fmt.Sprint(os.Getpid()), "LISTEN_FDS"},
		{"1", "1", ""}, // of another process
		{"", "", ""},
	} {
		t.Setenv("LISTEN_FDS", tt.count)
		t.Setenv("LISTEN_PID", tt.pid)
		s, before, err := Inherit()
		if before != nil || (err != nil) != (tt.want != "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("LISTEN_FDS=%q: got predecessor %v, error %v", tt.count, before, err)
		}
		if err == nil && len(s.waiting) != 0 {
			t.Errorf("LISTEN_FDS=%q LISTEN_PID=%q: %d sockets inherited, want none", tt.count, tt.pid, len(s.waiting))
		}
		if v, ok := os.LookupEnv("LISTEN_FDS"); ok {
			t.Errorf("LISTEN_FDS=%q is left in the environment of other programs", v)
		}
	}
}
