//go:build !small

package nameserver

import (
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	dnstap "github.com/dnstap/golang-dnstap"
	miekg "github.com/miekg/dns"
	"google.golang.org/protobuf/proto"

	"shuultuur/lib/dns"
	"shuultuur/lib/setting"
	"shuultuur/lib/wait/waittest"
	"shuultuur/resolver/forward"
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
			m.RecursionDesired = true
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

// TestDnstapSaysWhatWeAreToTheOther asks as a client, as one that wants zones alone, as a stranger and
// with an update, and has a forwarder ask an upstream.
func TestDnstapSaysWhatWeAreToTheOther(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	got := receive(t, ln)
	next := func(what string, want dnstap.Message_Type) *dnstap.Message {
		t.Helper()
		select {
		case d := <-got:
			if x := d.GetMessage(); x.GetType() == want {
				return x
			}
			t.Fatalf("%s: got %v, want %s", what, d, want)
		case <-time.After(time.Minute):
			t.Fatalf("%s: no %s", what, want)
		}
		return nil
	}
	cfg := Config{Listen: []string{"127.0.0.1:0"}, Dnstap: "tcp://" + ln.Addr().String()}
	s := start(t, cfg, nil)
	only, whole := query("www.test.", miekg.TypeA), query("www.test.", miekg.TypeA)
	whole.RecursionDesired = true
	update := new(miekg.Msg).SetUpdate("test.")
	for _, x := range []struct {
		what string
		m    *miekg.Msg
		want dnstap.Message_Type
	}{
		{"a client", whole, dnstap.Message_CLIENT_QUERY},
		{"zones alone", only, dnstap.Message_AUTH_QUERY},
		{"an update", update, dnstap.Message_UPDATE_QUERY},
		{"a stranger", whole, dnstap.Message_AUTH_QUERY},
	} {
		if x.what == "a stranger" {
			strict := cfg
			strict.Recursion = setting.OneOrMore[netip.Prefix]{netip.MustParsePrefix("192.0.2.0/24")}
			if err := s.Reload(strict); err != nil {
				t.Fatal(err)
			}
		}
		for _, transport := range []string{"udp", "tcp"} {
			exchange(t, s, transport, x.m)
			next(x.what, x.want)
			next(x.what, x.want+1)
		}
	}

	upstream := start(t, Config{Listen: []string{"127.0.0.1:0"}}, nil)
	to := upstream.Addrs(dns.UDP)[0]
	for _, scheme := range []string{"udp", "tcp"} {
		f, err := forward.New(forward.Config{Upstreams: []string{scheme + "://" + to.String()}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		f.SetWatch(s.Watch())
		before := time.Now().Add(-time.Second)
		msg, _, err := f.Exchange(t.Context(), []byte("\x03www\x04test\x00"), miekg.TypeA, miekg.ClassINET, forward.Option{})
		if err != nil {
			t.Fatal(err)
		}
		q, r := next(scheme, dnstap.Message_FORWARDER_QUERY), next(scheme, dnstap.Message_FORWARDER_RESPONSE)
		var asked, answered miekg.Msg
		if asked.Unpack(q.QueryMessage) != nil || asked.Response || !strings.EqualFold(asked.Question[0].Name, "www.test.") || answered.Unpack(r.ResponseMessage) != nil || answered.Id != asked.Id || len(r.ResponseMessage) != len(msg) {
			t.Errorf("%s: asked %v, answered %v", scheme, &asked, &answered)
		}
		for _, x := range []*dnstap.Message{q, r} {
			if strings.ToLower(x.GetSocketProtocol().String()) != scheme || uint16(x.GetResponsePort()) != to.Port() || net.IP(x.ResponseAddress).String() != "127.0.0.1" || net.IP(x.QueryAddress).String() != "127.0.0.1" || x.GetQueryPort() == 0 {
				t.Errorf("%s: %v", scheme, x)
			}
		}
		if at := time.Unix(int64(q.GetQueryTimeSec()), 0); at.Before(before.Truncate(time.Second)) || r.GetResponseTimeSec() < q.GetQueryTimeSec() || r.QueryTimeSec != nil {
			t.Errorf("%s: times of %v and %v", scheme, q, r)
		}
		f.SetWatch(nil)
		if _, _, err := f.Exchange(t.Context(), []byte("\x05other\x04test\x00"), miekg.TypeA, miekg.ClassINET, forward.Option{}); err != nil || len(got) > 0 {
			t.Errorf("%s: without a watch: %v, and %d messages", scheme, err, len(got))
		}
	}
}
