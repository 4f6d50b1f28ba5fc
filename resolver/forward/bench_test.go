package forward

import (
	"context"
	"net"
	"testing"

	"shuultuur/lib/dns"
)

// echo answers every query with NXDOMAIN, at the least cost.
func echo(b *testing.B) string {
	b.Helper()
	c, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		b.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		buf := make([]byte, 1500)
		for {
			n, from, err := c.ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			buf[2] |= 0x80
			buf[3] |= dns.RcodeNXDomain
			c.WriteToUDPAddrPort(buf[:n], from)
		}
	}()
	b.Cleanup(func() { c.Close(); <-ended })
	return c.LocalAddr().String()
}

var asked = []byte("\x03www\x07example\x03com\x00")

// BenchmarkExchange measures a query to one upstream and its answer, including
// the upstream: compare it with BenchmarkFloor.
func BenchmarkExchange(b *testing.B) {
	f := start(b, Config{Upstreams: []string{echo(b)}})
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := f.Exchange(context.Background(), asked, 1, 1, Option{}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFloor sends the same datagrams over a plain socket.
func BenchmarkFloor(b *testing.B) {
	c, err := net.Dial("udp", echo(b))
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	q := &query{name: asked, qtype: 1, class: 1}
	buf := make([]byte, 4096)
	b.ReportAllocs()
	for b.Loop() {
		c.Write(q.append(buf[:0], form{id: 1, edns: true, name: asked}))
		if _, err := c.Read(buf); err != nil {
			b.Fatal(err)
		}
	}
}
