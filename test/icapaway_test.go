package test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"shuultuur/test/peer"
)

// A bystander looks at pages behind Squid while something happens to the gateway that Squid asks.
type bystander struct {
	flood
	away atomic.Bool // the gateway may not answer now
	lost atomic.Int64
}

// look opens pages until ctx ends: good ones arrive, and bad ones never do.
func (b *bystander) look(ctx context.Context, squid, origin, who string) {
	c := through(squid)
	for n := 0; ctx.Err() == nil; n++ {
		for path, want := range map[string]int{"/good": 200, "/bad": 403, "/long": 200, "/longbad": 0} {
			away := b.away.Load()
			status, body, err := get(c, fmt.Sprintf("%s%s?%s-%d", origin, path, who, n))
			away = away || b.away.Load()
			if path == "/long" && errors.Is(err, io.ErrUnexpectedEOF) && strings.HasSuffix(body, "a quiet line. ") {
				err = nil // Squid's bug 5550
			}
			switch {
			case strings.Contains(body, "blimey and crikey"):
				b.fail("%s %s: the bad page came, status %d", who, path, status)
			case want == 0: // it is refused, or ends early
			case err == nil && status == want:
			case away:
				b.lost.Add(1)
			default:
				b.fail("%s %s: status %d, %d bytes, %v, want %d", who, path, status, len(body), err, want)
			}
			b.requests.Add(1)
		}
		pause(ctx)
	}
}

// icapProgram returns the program with settings of an ICAP server, and its address.
func icapProgram(t *testing.T) (s *shipped, at string) {
	t.Helper()
	dir := t.TempDir()
	at = "127.0.0.1:" + peer.Port(t)
	s = &shipped{t: t, dir: dir, program: filepath.Join(dir, "shuultuur"), settings: filepath.Join(dir, "shuultuur.yaml"), proxy: "127.0.0.1:" + peer.Port(t)}
	s.write("shuultuur.yaml", strings.Replace(icapSettings, "proxy: 127.0.0.1:0, admin: off, icap: 127.0.0.1:0", `proxy: "`+s.proxy+`", admin: off, icap: "`+at+`"`, 1))
	s.write("own.txt", "bet.example\n")
	s.write("weighted", "#listcategory: \"Swearing\"\n<blimey><60>\n<crikey><60>\n")
	s.replace()
	return s, at
}

// end stops the process that serves, and waits for its end.
func (s *shipped) end() {
	s.t.Helper()
	pid := s.holder()
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		s.t.Fatal(err)
	}
	s.wait("the end of the process", func() bool { return syscall.Kill(pid, 0) != nil })
}

// TestBystandersBehindSquidLoseNothing: while one client's bodies are cut without an end, and the
// program is replaced again and again, the pages of others arrive, and bad ones do not. While the
// gateway is stopped Squid refuses; when it is back, everything is as before within seconds.
func TestBystandersBehindSquidLoseNothing(t *testing.T) {
	peer.Program(t, "squid")
	s, at := icapProgram(t)
	squid, _ := startSquidAs(t, icapLines(t, at))
	s.start(exec.Command(s.program, "run", s.settings))
	pages := httptest.NewServer(newHoldingOrigin(t).Config.Handler)
	defer pages.Close()
	late := newHoldingOrigin(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var b bystander
	var all sync.WaitGroup
	for i := range 3 {
		all.Go(func() { b.look(ctx, squid, pages.URL, fmt.Sprintf("client %d", i)) })
	}
	begin := func(what string) func() {
		was, lost := b.requests.Load(), b.lost.Load()
		return func() {
			t.Helper()
			t.Logf("%s: %d requests of bystanders, %d lost", what, b.requests.Load()-was, b.lost.Load()-lost)
		}
	}

	end := begin("30 bodies that are cut")
	bold := through(squid)
	for n := range 30 {
		body, err := late.late(bold, fmt.Sprintf("/late/%s/%d", []string{"text", "page", "length"}[n%3], n))
		if strings.Contains(body, "crikey") || !strings.Contains(body, "a quiet line") {
			t.Errorf("body %d: %d bytes, %v; want the beginning alone", n, len(body), err)
		}
	}
	end()

	end = begin("3 upgrades")
	for range 3 {
		first := s.holder()
		s.replace()
		if out, err := s.upgrade(); err != nil {
			t.Fatalf("shuultuur upgrade: %s %v", out, err)
		}
		if s.holder() == first {
			t.Fatal("the old process still holds the data folder")
		}
		was := b.requests.Load()
		s.wait("requests after an upgrade", func() bool { return b.requests.Load() > was+30 })
	}
	end()

	end = begin("a stop of a second and a start")
	b.away.Store(true)
	s.end()
	was := b.requests.Load()
	s.wait("requests without a gateway", func() bool { return b.requests.Load() > was+20 })
	began := time.Now()
	s.start(exec.Command(s.program, "run", s.settings))
	c := through(squid)
	s.wait("a page after the start", func() bool {
		status, _, err := get(c, pages.URL+"/good?back")
		return err == nil && status == 200
	})
	t.Logf("the first page comes %v after the start", time.Since(began).Round(time.Millisecond))
	b.away.Store(false)
	was = b.requests.Load()
	s.wait("requests after the start", func() bool { return b.requests.Load() > was+60 })
	end()

	stop()
	all.Wait()
	for _, f := range b.failures {
		t.Error(f)
	}
}
