package policy

import (
	"context"
	"sync"
	"testing"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/redis"
	"shuultuur/lib/setting"
	"shuultuur/state"
	"shuultuur/test/redistest"
)

// As docs/state.md describes for quotas in a fleet: requests in progress may
// finish, and none begins 0.3 s after the quota is used up.
func TestAFleetRunsOverAQuotaByLittle(t *testing.T) {
	const (
		quota, size = 200_000, 500
		hear        = 300 * time.Millisecond
		busy        = 200 * time.Millisecond // a machine with much other work
	)
	at := state.Redis{Config: redis.Config{Addresses: []string{redistest.Start(t).Addr}}, Wait: setting.Duration(time.Second)}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var running, clients sync.WaitGroup
	defer running.Wait()
	defer stop()
	var mu sync.Mutex
	var used int64
	var usedUp, last time.Time
	begin := time.Now()
	y, m, d := begin.Date()
	if midnight := time.Date(y, m, d+1, 0, 0, 0, 0, begin.Location()); midnight.Sub(begin) < time.Minute {
		begin = midnight // a quota of two days counts as two
	}
	for range 2 {
		s, err := state.Open(state.Config{Redis: &at}, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		running.Go(func() {
			if err := s.Run(ctx); err != nil {
				t.Error(err)
			}
			s.Close()
		})
		e := newEngineOf(t, Config{{Name: "p", Quotas: []Quota{{Category: Names{"grey"}, Bytes: quota, By: "policy"}}}}, Parts{Counter: s},
			list(map[filter.Stage][]string{filter.Name: {"grey"}}))
		for range 4 {
			clients.Go(func() {
				for {
					began := time.Now()
					tr, _ := page{start: begin}.judge(t, e)
					pass := tr.Verdict.Action == filter.Pass
					time.Sleep(2 * time.Millisecond) // it is fetched
					tr.BytesOut = size
					e.Done(ctx, tr)
					mu.Lock()
					if pass {
						used += size
						last = began
					}
					if used >= quota && usedUp.IsZero() {
						usedUp = time.Now()
					}
					over := !usedUp.IsZero() && time.Since(usedUp) > time.Second
					mu.Unlock()
					if over || time.Since(began) > 20*time.Second {
						return
					}
				}
			})
		}
	}
	clients.Wait()
	if usedUp.IsZero() {
		t.Fatalf("only %d of %d bytes were used, the quota is not exhausted", used, quota)
	}
	if late := last.Sub(usedUp); late > hear+busy {
		t.Errorf("a page passed %v after the quota was used up, %d bytes over it", late, used-quota)
	}
	t.Logf("%d bytes over a quota of %d, the last begun %v after it was used up", used-quota, quota, last.Sub(usedUp))
}
