package nameserver

import (
	"net"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

func TestAChangeWakesWaitersForTheNetwork(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	l, err := newPoller()
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	here, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer here.Close()
	there, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()

	const times = 20
	var read atomic.Int32
	done := make(chan error, 1)
	go func() {
		var b [1]byte
		for range times {
			if _, err := here.Read(b[:]); err != nil {
				done <- err
				return
			}
			read.Add(1)
		}
		done <- nil
	}()
	inTime := 0
	for i := range int32(times) {
		runtime.Gosched() // until it waits
		if _, err := there.Write([]byte{1}); err != nil {
			t.Fatal(err)
		}
		l.poll(time.Now().Add(time.Duration(i+1) * time.Hour))
		runtime.Gosched()
		if read.Load() == i+1 {
			inTime++
		}
		for read.Load() < i+1 {
			runtime.Gosched() // until the scheduler polls by itself
		}
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	// The system may have descheduled the reader's thread.
	if inTime < times*3/4 {
		t.Errorf("of %d bytes only %d were read at once, want three quarters", times, inTime)
	}
}

func TestALookoutLooksNowAndThen(t *testing.T) {
	l, err := newPoller()
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	now := time.Now()
	for _, c := range []struct {
		after time.Duration
		want  bool
	}{{0, true}, {pollEvery / 2, false}, {pollEvery, true}, {pollEvery + time.Microsecond, false}, {time.Hour, true}} {
		l.sent = false
		if l.poll(now.Add(c.after)); l.sent != c.want {
			t.Errorf("poll after %v: polled %v, want %v", c.after, l.sent, c.want)
		}
	}
}
