package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"shuultuur/filter"
	"shuultuur/proxy/upstream"
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
	p, err := New(Config{Upstream: upstream.Config{Private: loopback}}, &Engine{
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

// BenchmarkDecrypt measures decrypted connections: new ones with one request each (including
// the work of client and origin), and requests of 1 KiB on a kept one.
func BenchmarkDecrypt(b *testing.B) {
	w := newWorld(&testing.T{})
	o := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, q *http.Request) { rw.Write(make([]byte, 1024)) }))
	o.TLS = &tls.Config{Certificates: []tls.Certificate{w.leaf(&testing.T{}, nil)}}
	o.StartTLS()
	defer o.Close()
	p, err := New(Config{ConnectPorts: []string{"any"}, Upstream: upstream.Config{Private: loopback}}, &Engine{Identify: anybody, Decider: judge{}, Intercept: w.in}, nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan struct{})
	go func() { defer close(done); p.Serve(ctx, ln) }()
	defer func() { cancel(); <-done }()
	host := strings.Replace(strings.TrimPrefix(o.URL, "https://"), "127.0.0.1", "localhost", 1)
	for _, kept := range []bool{false, true} {
		b.Run(fmt.Sprintf("kept=%v", kept), func(b *testing.B) {
			tr := &http.Transport{
				Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: ln.Addr().String()}), DisableKeepAlives: !kept,
				TLSClientConfig: &tls.Config{RootCAs: w.ours},
			}
			defer tr.CloseIdleConnections()
			c := &http.Client{Transport: tr}
			b.ReportAllocs()
			for b.Loop() {
				res, err := c.Get("https://" + host + "/")
				if err != nil {
					b.Fatal(err)
				}
				io.Copy(io.Discard, res.Body)
				res.Body.Close()
			}
		})
	}
}
