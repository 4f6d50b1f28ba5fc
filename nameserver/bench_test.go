package nameserver

import (
	"context"
	miekg "github.com/miekg/dns"
	"golang.org/x/net/ipv4"
	"net"
	"net/netip"
	"testing"
	"time"

	"shuultuur/nameserver/batch"
)

// BenchmarkLane measures the cost of a query between the two system calls:
// parse, limits, a trivial responder, reply, counters.
func BenchmarkLane(b *testing.B) {
	for _, x := range []struct {
		name string
		edns bool
	}{{"plain", false}, {"EDNS and cookie", true}} {
		b.Run(x.name, func(b *testing.B) {
			l := handlerAt(b, Config{})
			m := query("www.test.", miekg.TypeA)
			if x.edns {
				m.SetEdns0(1232, true)
				m.IsEdns0().Option = []miekg.EDNS0{&miekg.EDNS0_COOKIE{Code: miekg.EDNS0COOKIE, Cookie: "0102030405060708"}}
			}
			msg, err := m.Pack()
			if err != nil {
				b.Fatal(err)
			}
			buf := make([]byte, 0, batch.OutBytes)
			l.q.Client, l.q.At = netip.MustParseAddrPort("198.51.100.1:5353"), time.Now()
			for b.Loop() {
				l.proven = false
				l.answer(msg, buf)
				l.q.At = l.q.At.Add(10 * time.Millisecond) // below the rate
			}
		})
	}
}

// BenchmarkEngine is a batch of queries from the kernel and back, the
// client's system calls with it; BenchmarkFloor is the same without DNS.
func BenchmarkEngine(b *testing.B) {
	s := handlerAt(b, Config{}).s
	benchmarkBatch(b, func(c *batch.Conn) func(n int) {
		u, err := newSocket(s, c, s.shards[0])
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(u.poller.close)
		return u.answerAll
	})
}

func BenchmarkFloor(b *testing.B) {
	benchmarkBatch(b, func(c *batch.Conn) func(n int) {
		return func(n int) {
			for i := range n {
				msg, _ := c.Datagram(i)
				c.Reply(i, append(c.Buffer(i), msg...))
			}
		}
	})
}

func benchmarkBatch(b *testing.B, newSender func(*batch.Conn) func(n int)) {
	at := netip.MustParseAddrPort("127.0.0.1:0")
	server, err := batch.Listen(context.Background(), at, 1)
	if err != nil {
		b.Fatal(err)
	}
	defer server[0].Close()
	answer := newSender(server[0])
	c, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(server[0].LocalAddr()))
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	client := ipv4.NewPacketConn(c)
	msg, err := query("www.test.", miekg.TypeA).Pack()
	if err != nil {
		b.Fatal(err)
	}
	var out, in [batch.Size]ipv4.Message
	for i := range out {
		out[i].Buffers, in[i].Buffers = [][]byte{msg}, [][]byte{append([]byte(nil), msg...)}
	}
	for b.Loop() {
		for sent := 0; sent < batch.Size; {
			n, err := client.WriteBatch(out[sent:], 0)
			if err != nil {
				b.Fatal(err)
			}
			sent += n
		}
		for got := 0; got < batch.Size; {
			n, err := server[0].Read()
			if err != nil {
				b.Fatal(err)
			}
			answer(n)
			server[0].Flush()
			got += n
		}
		for got := 0; got < batch.Size; {
			n, err := client.ReadBatch(in[got:], 0)
			if err != nil {
				b.Fatal(err)
			}
			got += n
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/batch.Size, "ns/query")
}
