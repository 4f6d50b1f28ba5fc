package forward

import (
	"fmt"
	miekg "github.com/miekg/dns"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"shuultuur/lib/setting"
)

// TestAPortIsUsedForAFewQuestions: several queries share a port, and all have
// different IDs.
func TestAPortIsUsedForAFewQuestions(t *testing.T) {
	pc, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	const many = 200
	type from struct {
		port uint16
		id   uint16
	}
	ports, seen := map[uint16]int{}, map[from]bool{}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		var all [][]byte
		var to []*net.UDPAddr
		buf := make([]byte, 1500)
		for {
			n, addr, err := pc.ReadFromUDP(buf)
			if err != nil {
				return
			}
			var q miekg.Msg
			if q.Unpack(buf[:n]) != nil {
				continue
			}
			port := uint16(addr.Port)
			if ports[port]++; seen[from{port, q.Id}] {
				t.Errorf("port %d: ID %d was used twice", port, q.Id)
			}
			seen[from{port, q.Id}] = true
			out, _ := says(fmt.Sprintf("192.0.2.%d", len(q.Question[0].Name)))(&q, false).Pack()
			all, to = append(all, out), append(to, addr)
			if len(all) < 10 { // the last first, ten at a time
				continue
			}
			for i := len(all) - 1; i >= 0; i-- {
				pc.WriteToUDP(all[i], to[i])
			}
			all, to = nil, nil
		}
	}()
	f := start(t, Config{Upstreams: []string{pc.LocalAddr().String()}, Timeout: setting.Duration(5 * time.Second)})
	var wg sync.WaitGroup
	for i := range many {
		wg.Go(func() {
			host := fmt.Sprintf("%0*d.example", 1+i%50, i)
			if got, want := get(f, host), fmt.Sprintf("192.0.2.%d", len(host)+1); got != want {
				t.Errorf("%s: got address %s, want %s", host, got, want)
			}
		})
	}
	wg.Wait()
	pc.Close()
	<-ended
	if len(ports) < many/socketQueries {
		t.Errorf("%d ports for %d queries, want more", len(ports), many)
	}
	for port, n := range ports {
		if n > socketQueries {
			t.Errorf("port %d was used for %d queries, want at most socketQueries", port, n)
		}
	}
}

// TestALostQuestionIsAskedAgain: a lost query is sent again, also when all others have failed
// at the same time.
func TestALostQuestionIsAskedAgain(t *testing.T) {
	var cfg Config
	for range 5 {
		gone := serve(t, says("192.0.2.1"))
		gone.stop()
		cfg.Upstreams = append(cfg.Upstreams, gone.addr)
	}
	var first atomic.Bool
	s := serve(t, func(q *miekg.Msg, tcp bool) *miekg.Msg {
		if first.CompareAndSwap(false, true) {
			return nil
		}
		return says("192.0.2.2")(q, tcp)
	})
	cfg.Upstreams, cfg.Order = append(cfg.Upstreams, s.addr), Strict
	f := start(t, cfg)
	if got := get(f, "example.com"); got != "192.0.2.2" {
		t.Errorf("after a lost query: got %s, want 192.0.2.2", got)
	}
}
