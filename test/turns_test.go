package test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"shuultuur/test/peer"
)

var (
	turns    = flag.Int("turns", 12, "kills and upgrades of the program under load")
	turnSeed = flag.Uint64("turnseed", 0, "replay the kills and upgrades of this seed")
)

// A stormed is the program between kills, with clients that give it votes and entries of a list.
type stormed struct {
	*shipped
	ended   atomic.Pointer[chan struct{}] // of the process that runs, or ran last
	asked   atomic.Int64                  // requests for what is blocked that were answered
	voted   atomic.Int64                  // votes that were acknowledged
	tried   atomic.Int64                  // votes that were sent
	mu      sync.Mutex
	entries []string // of the list, acknowledged
	opened  []string // answers that should have been a block page
}

// TestKillsAndUpgradesInTurnsLoseNothing kills the program and upgrades it in turns, and kills one of two
// processes during an upgrade, while clients ask, vote, and block sites. What is blocked is never answered in
// another way; each vote and each site that was acknowledged is there in the end, and the chain of the
// audit log holds.
func TestKillsAndUpgradesInTurnsLoseNothing(t *testing.T) {
	peer.NotQuick(t, "a minute of kills")
	seed := rand.Uint64()
	if *turnSeed != 0 {
		seed = *turnSeed
	}
	r := rand.New(rand.NewPCG(seed, 1))
	s := &stormed{shipped: ship(t)}
	s.write("own.txt", "first.example\n")
	settings := strings.Replace(s.read("shuultuur.yaml"), "policies:\n", "lists: {own: {format: domains, path: own.txt, category: own}}\nchecks: {category: {lists: [own]}}\npolicies:\n", 1)
	s.write("shuultuur.yaml", strings.Replace(settings, "host: [bet.example]}", "host: [bet.example]}, {name: listed, action: block, category: [own]}", 1))
	s.run()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() { s.ask(ctx, "bet.example") })
	}
	all.Go(func() { s.ask(ctx, "first.example") })
	all.Go(func() { s.vote(ctx) })
	all.Go(func() { s.block(ctx) })
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("to see it again: go test ./test -run TestKillsAndUpgrades -turns %d -turnseed %d", *turns, seed)
		}
	})
	kills, upgrades := 0, 0
	for turn := range *turns {
		s.served()
		time.Sleep(time.Duration(r.IntN(300)) * time.Millisecond) // a random moment of the load
		before := s.holder()
		switch kind := r.IntN(3); kind {
		case 0:
			s.kill(before)
			kills++
		default:
			s.replace()
			upgraded := make(chan struct{})
			go func() {
				defer close(upgraded)
				if out, err := s.upgrade(); err != nil && kind == 1 {
					t.Errorf("turn %d: shuultuur upgrade: %s %v", turn, out, err)
				}
			}()
			if kind == 2 { // whichever has the data folder then
				time.Sleep(time.Duration(r.IntN(800)) * time.Millisecond)
				s.kill(s.holder())
				kills++
			}
			<-upgraded
			upgrades++
		}
		if t.Failed() {
			break
		}
	}
	s.served()
	stop()
	all.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.opened {
		t.Errorf("what is blocked was answered with %s", o)
	}
	c := through(s.proxy)
	defer c.CloseIdleConnections()
	for _, e := range s.entries {
		if status, _, err := get(c, "http://"+e+"/"); status != 403 {
			t.Errorf("%s was blocked, and this was acknowledged: status %d, %v", e, status, err)
		}
	}
	voted := s.voted.Load()
	s.wait("each acknowledged vote is counted", func() bool { return s.counted() >= voted })
	if n, most := s.counted(), s.tried.Load(); n > most {
		t.Errorf("%d votes are counted, and only %d were sent", n, most)
	}
	if out, err := exec.Command(s.program, "account", "audit", "-config", s.settings).CombinedOutput(); err != nil {
		t.Errorf("the audit log: %s %v", out, err)
	}
	if s.asked.Load() == 0 || voted == 0 || len(s.entries) == 0 {
		t.Errorf("%d requests, %d votes, %d entries: the test shows nothing", s.asked.Load(), voted, len(s.entries))
	}
	t.Logf("%d kills and %d upgrades: %d requests for what is blocked, %d votes and %d entries of a list were acknowledged", kills, upgrades, s.asked.Load(), voted, len(s.entries))
}

// run starts the program.
func (s *stormed) run() { s.start(exec.Command(s.program, "run", s.settings)) }

// kill kills a process and waits for its end.
func (s *stormed) kill(pid int) {
	if pid <= 0 || syscall.Kill(pid, syscall.SIGKILL) != nil {
		return
	}
	s.wait("the end of a killed process", func() bool { return syscall.Kill(pid, 0) != nil })
}

// served waits until a process serves, and starts one if there is none.
func (s *stormed) served() {
	s.t.Helper()
	alive := func() bool { pid := s.holder(); return pid > 0 && syscall.Kill(pid, 0) == nil }
	// A successor may still be on its way when the process before it is killed: it has the sockets, and
	// another one could not start beside it.
	s.wait("a process, or none", func() bool { return alive() || !s.runs() })
	if !alive() {
		s.run()
	}
	asked, voted := s.asked.Load(), s.voted.Load()
	s.wait("answers", func() bool { return s.asked.Load() > asked+4 && s.voted.Load() > voted })
}

// runs reports whether any process of the program runs.
func (s *stormed) runs() bool {
	all, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, link := range all {
		if to, err := os.Readlink(link); err == nil && strings.TrimSuffix(to, " (deleted)") == s.program {
			return true
		}
	}
	return false
}

// ask asks for what is blocked until ctx ends. A connection that ends is none that opens.
func (s *stormed) ask(ctx context.Context, host string) {
	c := through(s.proxy)
	defer c.CloseIdleConnections()
	for n := 0; ctx.Err() == nil; n++ {
		status, body, err := get(c, fmt.Sprintf("http://%s/%d", host, n))
		if err == nil {
			s.asked.Add(1)
			if status != 403 {
				s.mu.Lock()
				s.opened = append(s.opened, fmt.Sprintf("%s: %d %.100q", host, status, body))
				s.mu.Unlock()
			}
		}
		pause(ctx)
	}
}

var voteToken = regexp.MustCompile(`name="token" value="([^"]+)"`)

// vote votes until ctx ends.
func (s *stormed) vote(ctx context.Context) {
	c := through(s.proxy)
	defer c.CloseIdleConnections()
	for ctx.Err() == nil {
		pause(ctx)
		page, err := askedFor(c, "GET", "http://bet.example/", nil)
		token := voteToken.FindStringSubmatch(page)
		if err != nil || token == nil {
			continue
		}
		s.tried.Add(1)
		answer, err := askedFor(c, "POST", "http://bet.example/.well-known/shuultuur/votes", url.Values{"token": {token[1]}, "vote": {"wrong"}})
		if err == nil && strings.Contains(answer, "Your request has been sent") {
			s.voted.Add(1)
		}
	}
}

// block adds entries to the list until ctx ends.
func (s *stormed) block(ctx context.Context) {
	c := &http.Client{Timeout: time.Minute}
	defer c.CloseIdleConnections()
	for n := 0; ctx.Err() == nil; n++ {
		pause(ctx)
		entry := fmt.Sprintf("site%d.example", n)
		res, err := c.Post("http://"+s.admin+"/lists/own", "application/json", strings.NewReader(`["`+entry+`"]`))
		if err != nil {
			continue
		}
		b, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err == nil && res.StatusCode < 300 {
			s.mu.Lock()
			s.entries = append(s.entries, entry)
			s.mu.Unlock()
		} else if n < 3 {
			s.t.Logf("adding an entry: %s %s", res.Status, b)
		}
	}
}
