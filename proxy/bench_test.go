package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"

	"shuultuur/filter"
)

// BenchmarkRequest is a request on a kept-alive connection, with everything on
// this machine: client and origin cost about as much as the proxy.
func BenchmarkRequest(b *testing.B) {
	for _, held := range []bool{false, true} {
		for _, size := range []int{1 << 10, 200_000} {
			b.Run(fmt.Sprintf("held=%v/%d", held, size), func(b *testing.B) { benchmarkRequest(b, held, size) })
		}
	}
}

func benchmarkRequest(b *testing.B, held bool, size int) {
	origin := benchServe(b)
	answer := []byte(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n%s", size, strings.Repeat("x", size)))
	go func() {
		for {
			c, err := origin.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				br := bufio.NewReader(c)
				for readHead(br) != "" {
					c.Write(answer)
				}
			}()
		}
	}()
	p, err := New(Config{Private: loopback}, &Engine{
		Identify: func(_ context.Context, a netip.Addr, _ []byte) (filter.Client, error) {
			return filter.Client{Addr: a}, nil
		},
		Decider: judge{wants: func(*filter.Transaction, filter.Stage) bool { return held }},
	}, nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	ln := benchServe(b)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		p.Serve(ctx, ln)
		close(done)
	}()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	br := bufio.NewReaderSize(c, 64<<10)
	request := []byte("GET http://" + origin.Addr().String() + "/ HTTP/1.1\r\nHost: x\r\nUser-Agent: y\r\nAccept: */*\r\n\r\n")
	b.ReportAllocs()
	b.SetBytes(int64(size))
	for b.Loop() {
		c.Write(request)
		readHead(br)
		if _, err := io.CopyN(io.Discard, br, int64(size)); err != nil {
			b.Fatal(err)
		}
	}
	c.Close()
	cancel()
	<-done
}

func benchServe(b *testing.B) net.Listener {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { ln.Close() })
	return ln
}
