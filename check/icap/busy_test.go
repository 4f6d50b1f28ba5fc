//go:build !small

package icap

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"shuultuur/content"
	"shuultuur/filter"
	"shuultuur/lib/setting"
)

// crowded is a scanner that finds marmots and has few places for connections: it answers one too many
// with 503, as RFC 3507 says.
func crowded(t *testing.T, places int64) (s *scanner, refused *atomic.Int64) {
	t.Helper()
	var open atomic.Int64
	refused = new(atomic.Int64)
	inner := scan(t, "", "Methods: RESPMOD\r\n", func(_, _, body string) string {
		time.Sleep(time.Millisecond)
		if strings.Contains(body, "marmot") {
			return "ICAP/1.0 204 No Content\r\nX-Infection-Found: Type=0; Resolution=2; Threat=Marmots;\r\n\r\n"
		}
		return "ICAP/1.0 204 No Content\r\n\r\n"
	})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				defer open.Add(-1)
				if open.Add(1) > places {
					refused.Add(1)
					_, _ = bufio.NewReader(c).ReadString('\n')
					_, _ = io.WriteString(c, "ICAP/1.0 503 Service Overloaded\r\nConnection: close\r\n\r\n")
					return
				}
				to, err := net.Dial("tcp", inner.Addr().String())
				if err != nil {
					return
				}
				defer to.Close()
				go func() {
					_, _ = io.Copy(to, c)
					to.Close()
				}()
				_, _ = io.Copy(c, to)
			}()
		}
	}()
	return &scanner{Listener: ln}, refused
}

// keptIn is find for a client, of a body that the server keeps and of which all arrives at once if
// pieces is 1.
func keptIn(ctx context.Context, c *Check, client string, pieces int, body string) ([]filter.Finding, error) {
	x := transaction()
	x.Client.Addr = netip.MustParseAddr(client)
	var b content.Body
	b.Reset(&content.Head{}, content.Limits{})
	defer b.Release()
	x.Body = &b
	rest := body
	b.Wait.Keep(func(yield func([]byte, error) bool) { yield([]byte(body[:len(body)-len(rest)]), nil) })
	for n := pieces; n > 0; n-- {
		k := len(rest) / n
		b.Append([]byte(rest[:k]))
		if rest = rest[k:]; n == 1 {
			b.Finish()
		}
		if got, err := c.Find(ctx, x, filter.ResponseBody, nil); err != nil || len(got) > 0 || n == 1 {
			return got, err
		}
		b.Forget()
	}
	return nil, nil
}

func TestABusyScannerIsAskedAgain(t *testing.T) {
	for name, both := range map[string]bool{"alone": false, "with another": true} {
		t.Run(name, func(t *testing.T) {
			s, refused := crowded(t, 3)
			servers := setting.OneOrMore[string]{s.url()}
			if both {
				other, _ := crowded(t, 2)
				servers = append(servers, other.url())
			}
			c := check(t, Config{Servers: servers, Timeout: setting.Duration(20 * time.Second)})
			var work sync.WaitGroup
			for client := range 6 {
				work.Go(func() {
					for n := range 20 {
						got, err := keptIn(t.Context(), c, "192.0.2."+string(rune('1'+client)), 1+n%3, "here are forty marmots")
						if err != nil || len(got) != 1 || got[0].Category != virus {
							t.Errorf("message %d of client %d: %+v, %v; want the virus", n, client, got, err)
						}
					}
				})
			}
			work.Wait()
			if refused.Load() == 0 {
				t.Error("the scanner was never busy")
			}
			for _, s := range c.servers {
				if s.down.Load() != nil {
					t.Errorf("%s is left out: %v", s.url, s.down.Load())
				}
			}
		})
	}
}
