//go:build !small

package booth_test

import (
	"context"
	"fmt"
	"io/fs"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"shuultuur/filter"
	"shuultuur/lib/message"
	"shuultuur/lib/wait/waittest"
	"shuultuur/vote/booth"
)

// answer sends a vote to a booth as the proxy does, and returns its status and where its state is.
func answer(t testing.TB, b *booth.Booth, n int) (status int, location string) {
	t.Helper()
	x := &filter.Transaction{ID: fmt.Sprintf("t%d", n), Host: "bet.example", URL: "http://bet.example/"}
	x.Client.Addr = netip.AddrFrom4([4]byte{10, 0, byte(n >> 8), byte(n)})
	form := url.Values{"token": {b.Token(x)}, "vote": {"wrong"}}.Encode()
	q := &message.Request{Method: "POST", Target: []byte("/")}
	q.Add("Content-Type", "application/x-www-form-urlencoded")
	q.Add("Accept", "application/json")
	status, _, _, fields := b.Answer(context.Background(), x, q, "/votes", []byte(form))
	if at := slices.Index(fields, "Location"); at >= 0 {
		location = fields[at+1]
	}
	return status, location
}

// TestVotesDuringAnUpgradeAreKept: a booth that has handed its log over acknowledges votes, before and
// after the other one runs, and each of them counts once, also after a crash in between.
func TestVotesDuringAnUpgradeAreKept(t *testing.T) {
	dir := t.TempDir()
	first, stop := start(t, dir, booth.Config{})
	sent := 0
	send := func(n int) {
		t.Helper()
		var all sync.WaitGroup
		for range n {
			sent++
			one := sent
			all.Go(func() {
				if status, _ := answer(t, first, one); status != 202 {
					t.Errorf("vote %d is answered %d", one, status)
				}
			})
		}
		all.Wait()
	}
	send(50)
	first.HandOver()
	send(50)
	stop()
	send(50)
	second, stop := start(t, dir, booth.Config{})
	send(50)
	status, location := answer(t, first, 1000)
	sent++
	if status != 202 || location == "" {
		t.Errorf("a vote is answered %d, its state at %q", status, location)
	}
	total(t, second, int64(sent))
	stop()
	send(10) // while nobody moves them
	second, _ = start(t, dir, booth.Config{})
	total(t, second, int64(sent))
	waittest.Until(t, "the logs of the old process are gone", func() bool {
		left := 0
		err := filepath.WalkDir(filepath.Join(dir, "votes"), func(path string, d fs.DirEntry, err error) error {
			if err == nil && strings.HasPrefix(d.Name(), "beside-") {
				left++
			}
			return nil //nolint:nilerr // a folder may go meanwhile
		})
		return err == nil && left == 0
	})
	total(t, second, int64(sent))
}
