package tunnel

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"shuultuur/lib/platform"
	"shuultuur/proxy/held"
)

// A rig is a tunnel with both of its ends, and its owner.
type rig struct {
	*Tunnel
	t              *testing.T
	k              Parking
	client, origin net.Conn
	aborted        atomic.Bool
	over           chan struct{} // closed when the tunnel has ended
}

func (r *rig) Aborted() bool { return r.aborted.Load() }

func (r *rig) Relay() {
	if !r.Tunnel.Relay() {
		r.End()
		r.Near.Close() // which belongs to the owner
		close(r.over)
	}
}

// pair returns the two ends of a connection.
func pair(t *testing.T) (a, b net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if a, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if b, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

// plain hides that a connection is of TCP, as TLS does.
type plain struct{ net.Conn }

func (c plain) CloseWrite() error { return c.Conn.(*net.TCPConn).CloseWrite() }

func begin(t *testing.T, cfg Config, wrap func(net.Conn) net.Conn, first [2]string) *rig {
	t.Helper()
	r := &rig{t: t, Tunnel: &Tunnel{}, over: make(chan struct{})}
	r.client, r.Near = pair(t)
	r.Far, r.origin = pair(t)
	if wrap != nil {
		r.Near, r.Far = wrap(r.Near), wrap(r.Far)
	}
	r.Up.First, r.Down.First = []byte(first[0]), []byte(first[1])
	cfg.Memory = held.New(1<<20, 1<<20)
	cfg.Panicked = func(reason any) { t.Errorf("panic: %v", reason) }
	r.client.SetDeadline(time.Now().Add(time.Minute))
	r.origin.SetDeadline(time.Now().Add(time.Minute))
	r.Begin(t.Context(), &cfg, &r.k, r)
	go r.Relay()
	t.Cleanup(func() {
		r.Close()
		<-r.over
		r.k.Close()
		if n := r.k.Len(); n != 0 {
			t.Errorf("%d directions are parked at the end", n)
		}
	})
	return r
}

// await waits until n directions are parked.
func (r *rig) await(n int) {
	r.t.Helper()
	for end := time.Now().Add(time.Minute); r.k.Len() != n; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("%d directions are parked, want %d", r.k.Len(), n)
		}
	}
}

func closeWrite(t *testing.T, c net.Conn) {
	t.Helper()
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
}

func TestBytesPassBothWaysAndEachEndByItself(t *testing.T) {
	large := strings.Repeat("0123456789", 300_000)
	for name, wrap := range map[string]func(net.Conn) net.Conn{"TCP": nil, "others": func(c net.Conn) net.Conn { return plain{c} }} {
		t.Run(name, func(t *testing.T) {
			r := begin(t, Config{Still: time.Minute}, wrap, [2]string{"up first ", "down first "})
			go func() {
				io.WriteString(r.client, large)
				r.client.(*net.TCPConn).CloseWrite()
			}()
			got, err := io.ReadAll(r.origin)
			if err != nil || string(got) != "up first "+large {
				t.Errorf("the origin got %d bytes, %v", len(got), err)
			}
			// The client has ended; the origin still answers.
			io.WriteString(r.origin, "answer")
			closeWrite(t, r.origin)
			if got, err = io.ReadAll(r.client); err != nil || string(got) != "down first answer" {
				t.Errorf("the client got %q, %v", got, err)
			}
			<-r.over
			if r.Up.N != int64(len(large)+9) || r.Down.N != 17 || r.Up.Err != nil || r.Down.Err != nil {
				t.Errorf("relayed %d and %d bytes, errors %v and %v", r.Up.N, r.Down.N, r.Up.Err, r.Down.Err)
			}
		})
	}
}

func TestASilentTunnelEnds(t *testing.T) {
	for name, still := range map[string]time.Duration{"waiting": time.Minute, "parked": 5 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			if name == "parked" {
				poller(t)
			}
			r := begin(t, Config{Silence: 60 * time.Millisecond, Still: still}, nil, [2]string{"", "hello"})
			if got, _ := io.ReadAll(r.client); string(got) != "hello" {
				t.Errorf("the client got %q, want hello", got)
			}
			<-r.over
			if err := errors.Join(r.Up.Err, r.Down.Err); !errors.Is(err, ErrSilent) {
				t.Errorf("it ended with %v, want ErrSilent", err)
			}
		})
	}
}

// poller skips the test on a system where nothing is parked.
func poller(t *testing.T) {
	k, err := platform.NewPoller()
	if err != nil {
		t.Skip(err)
	}
	k.Close()
	k.Wait(nil, -1)
}

func TestParkedDirectionsContinue(t *testing.T) {
	poller(t)
	r := begin(t, Config{Still: 2 * time.Millisecond}, nil, [2]string{})
	buf := make([]byte, 16)
	for i := range 5 {
		r.await(2)
		for _, c := range [][2]net.Conn{{r.client, r.origin}, {r.origin, r.client}} {
			want := fmt.Sprint("message ", i)
			io.WriteString(c[0], want)
			if n, err := io.ReadFull(c[1], buf[:len(want)]); err != nil || string(buf[:n]) != want {
				t.Fatalf("got %q, %v, want %q", buf[:n], err, want)
			}
		}
	}
	r.await(2)
	r.client.Close()
	if got, err := io.ReadAll(r.origin); err != nil || len(got) > 0 {
		t.Errorf("after the end of the client: got %q, %v", got, err)
	}
	r.origin.Close()
	<-r.over
}

func TestATunnelOfAConnectionThatWasCutIsNotParked(t *testing.T) {
	poller(t)
	r := begin(t, Config{Still: 2 * time.Millisecond}, nil, [2]string{})
	r.await(2)
	r.aborted.Store(true)
	r.Wake()
	r.await(0)
	r.Close()
	<-r.over
}

func TestAnAbandonedTunnelKeepsAReleasedClient(t *testing.T) {
	for _, released := range []bool{false, true} {
		r := &rig{t: t, Tunnel: &Tunnel{}}
		r.client, r.Near = pair(t)
		r.Far, r.origin = pair(t)
		r.client.SetDeadline(time.Now().Add(time.Minute))
		r.Begin(t.Context(), &Config{Memory: held.New(1<<20, 1<<20), Still: time.Minute, Panicked: func(any) {}}, &r.k, r)
		if err := r.Send([]byte("hello")); err != nil {
			t.Fatal(err)
		}
		if released {
			r.Release()
		}
		r.Abandon()
		r.End()
		if got, _ := io.ReadAll(r.origin); !bytes.Equal(got, []byte("hello")) || r.Up.N != 5 {
			t.Errorf("the origin got %q, want what was sent", got)
		}
		_, err := io.WriteString(r.Near, "x")
		if released != (err == nil) {
			t.Errorf("released %v: a write to the client returned %v", released, err)
		}
		r.k.Close()
	}
}

func TestDirectionIsParkedLaterWhileItsPausesAreShort(t *testing.T) {
	d := &Direction{t: &Tunnel{cfg: &Config{Still: time.Second, Silence: 10 * time.Second}}, still: time.Second}
	for i, tt := range []struct{ parked, want time.Duration }{
		{time.Second, 2 * time.Second},
		{time.Second, 4 * time.Second},
		{20 * time.Second, 8 * time.Second},
		{time.Second, 8 * time.Second}, // twice as much would exceed the longest silence of a tunnel
		{time.Minute + 10*time.Second, time.Second},
		{8 * time.Second, 2 * time.Second},
	} {
		now := time.Now()
		d.since = now.Add(-tt.parked).UnixNano()
		d.quiet.Store(true)
		if d.adaptPace(now); d.still != tt.want || d.quiet.Load() {
			t.Errorf("case %d: parked after %v, want %v; quiet %v", i, d.still, tt.want, d.quiet.Load())
		}
	}
}
