//go:build !small

package nameserver

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	dnstap "github.com/dnstap/golang-dnstap"
	miekg "github.com/miekg/dns"
	"google.golang.org/protobuf/proto"

	"shuultuur/lib/dns"
	"shuultuur/lib/wait/waittest"
)

// receive takes the messages that arrive at a listener.
func receive(t *testing.T, ln net.Listener) <-chan *dnstap.Dnstap {
	t.Helper()
	frames, all := make(chan []byte, 100), make(chan *dnstap.Dnstap, 10_000)
	in := dnstap.NewFrameStreamSockInput(ln)
	go in.ReadInto(frames)
	done := make(chan struct{})
	t.Cleanup(func() { close(done); ln.Close() })
	go func() {
		for {
			select {
			case b := <-frames:
				d := new(dnstap.Dnstap)
				if err := proto.Unmarshal(b, d); err != nil {
					t.Error(err)
				}
				all <- d
			case <-done:
				return
			}
		}
	}()
	return all
}

func TestDnstapGetsQueriesAndReplies(t *testing.T) {
	for _, network := range []string{"unix", "tcp"} {
		place, at := filepath.Join(t.TempDir(), "tap"), ""
		if at = place; network == "tcp" {
			at = "127.0.0.1:0"
		}
		ln, err := net.Listen(network, at)
		if err != nil {
			t.Fatal(err)
		}
		if network == "tcp" {
			place = "tcp://" + ln.Addr().String()
		}
		got := receive(t, ln)
		s := start(t, Config{Listen: []string{"127.0.0.1:0"}, Dnstap: place, NSID: "here"}, nil)
		for _, transport := range []string{"udp", "tcp"} {
			m := query("www.test.", miekg.TypeA)
			before := time.Now().Add(-time.Second)
			r := exchange(t, s, transport, m)
			for _, want := range []dnstap.Message_Type{dnstap.Message_CLIENT_QUERY, dnstap.Message_CLIENT_RESPONSE} {
				var d *dnstap.Dnstap
				select {
				case d = <-got:
				case <-time.After(time.Minute):
					t.Fatalf("%s, %s: no %s", network, transport, want)
				}
				x := d.GetMessage()
				if x.GetType() != want || strings.ToLower(x.GetSocketProtocol().String()) != transport || string(d.Identity) != "here" || net.IP(x.QueryAddress).String() != "127.0.0.1" || x.GetQueryPort() == 0 ||
					time.Unix(int64(x.GetQueryTimeSec()), 0).Before(before.Truncate(time.Second)) {
					t.Errorf("%s, %s: %v", network, transport, d)
				}
				var inside miekg.Msg
				if msg := append(x.QueryMessage, x.ResponseMessage...); inside.Unpack(msg) != nil || inside.Id != r.Id || inside.Response != (want == dnstap.Message_CLIENT_RESPONSE) || inside.Response && len(inside.Answer) != len(r.Answer) {
					t.Errorf("%s, %s: the message in %s is %v", network, transport, want, &inside)
				}
			}
		}
	}
}

// TestAnAbsentReceiverOfDnstapDelaysNobody: the queue fills, what does not fit is counted, and the
// receiver gets the rest when it is there.
func TestAnAbsentReceiverOfDnstapDelaysNobody(t *testing.T) {
	place := filepath.Join(t.TempDir(), "tap")
	s := start(t, Config{Listen: []string{"127.0.0.1:0"}, Dnstap: place}, nil)
	exchange(t, s, "udp", query("www.test.", miekg.TypeA))
	waittest.Until(t, "the fault is shown", func() bool { p := s.Problems(); return len(p) == 1 && strings.Contains(p[0], place) })
	var q dns.Query
	b, err := query("more.test.", miekg.TypeA).Pack()
	if err != nil || q.Parse(b) != dns.OK {
		t.Fatal(err)
	}
	for range 5000 {
		s.tap.Query(&q)
	}
	if _, dropped := s.tap.Counts(); dropped == 0 || dropped > 1000 {
		t.Errorf("%d messages were dropped", dropped)
	}
	exchange(t, s, "udp", query("www.test.", miekg.TypeA))
	ln, err := net.Listen("unix", place)
	if err != nil {
		t.Fatal(err)
	}
	got := receive(t, ln)
	waittest.Until(t, "all that waited arrives", func() bool { return len(got) >= 4000 })
	waittest.Until(t, "the fault is gone", func() bool { return len(s.Problems()) == 0 })
	if sent, _ := s.tap.Counts(); sent < 4000 {
		t.Errorf("%d messages count as sent", sent)
	}
}

func TestAPlaceOfDnstapThatIsNoneIsAMistake(t *testing.T) {
	for place, good := range map[string]bool{"/run/tap": true, "unix:///run/tap": true, "tcp://192.0.2.1:6000": true, "tcp://[2001:db8::1]:6000": true, "tap": false, "tcp://192.0.2.1": false, "udp://192.0.2.1:6000": false} {
		_, err := New(Config{Listen: []string{"127.0.0.1:0"}, Dnstap: place}, nil, nil)
		if (err == nil) != good || err != nil && !strings.Contains(err.Error(), "dnstap") {
			t.Errorf("%s: %v", place, err)
		}
	}
}

// A mortal is a listener that can be killed with its connections.
type mortal struct {
	net.Listener
	accepted chan net.Conn
}

func (m *mortal) Accept() (net.Conn, error) {
	c, err := m.Listener.Accept()
	if err == nil {
		m.accepted <- c
	}
	return c, err
}

func TestTheReceiverOfDnstapIsKilledAndReturns(t *testing.T) {
	place := filepath.Join(t.TempDir(), "tap")
	ln, err := net.Listen("unix", place)
	if err != nil {
		t.Fatal(err)
	}
	first := &mortal{ln, make(chan net.Conn, 10)}
	got := receive(t, first)
	s := start(t, Config{Listen: []string{"127.0.0.1:0"}, Dnstap: place}, nil)
	exchange(t, s, "udp", query("www.test.", miekg.TypeA))
	waittest.Until(t, "query and reply arrive", func() bool { return len(got) == 2 })
	ln.Close()
	(<-first.accepted).Close()
	waittest.Until(t, "the loss is noticed", func() bool {
		exchange(t, s, "udp", query("www.test.", miekg.TypeA))
		return len(s.Problems()) == 1
	})
	if ln, err = net.Listen("unix", place); err != nil {
		t.Fatal(err)
	}
	again := receive(t, ln)
	exchange(t, s, "udp", query("www.test.", miekg.TypeA))
	waittest.Until(t, "messages arrive again", func() bool { return len(again) >= 2 && len(s.Problems()) == 0 })
}
