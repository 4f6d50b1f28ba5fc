//go:build !small

package booth_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"shuultuur/lib/problem"
	"shuultuur/test/peer"
	"shuultuur/tool/load"
	"shuultuur/vote"
	"shuultuur/vote/booth"
	"shuultuur/vote/store"
)

// smallDisk mounts a file system of 2 MiB, or skips the test where that is
// not allowed.
func smallDisk(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=2m"); err != nil {
		t.Skip("a small file system cannot be mounted: ", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fill uses up the free space of a file system.
func fill(t testing.TB, dir string) (free func()) {
	t.Helper()
	name := filepath.Join(dir, "filler")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	for size := 4096; size > 0; {
		if _, err = f.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk is not full but fails: %v", err)
	}
	f.Close()
	return func() {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
}

// TestADiskThatIsFull: votes are refused with the reason, nothing that was
// acknowledged is lost, and votes are taken again when there is room.
func TestADiskThatIsFull(t *testing.T) {
	dir := smallDisk(t)
	config := booth.Config{Listen: listen("127.0.0.1:0"), Store: filepath.Join(t.TempDir(), "votes.db")}
	b, stop := start(t, dir, config)
	n := 0
	var acknowledged []string
	one := func() (status int, retry, text string) {
		t.Helper()
		n++
		id := fmt.Sprintf("018f0000-0000-7000-8000-%012d", n)
		body := fmt.Sprintf(`{"id":%q,"vote":"dangerous","url":"bad.example","comment":%q}`, id, strings.Repeat("x", 1000))
		res, err := http.Post("http://"+b.Addrs()[0].String()+"/votes", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		if res.StatusCode == 202 {
			acknowledged = append(acknowledged, id)
		}
		return res.StatusCode, res.Header.Get("Retry-After"), string(b)
	}
	for round := range 3 {
		for range 5 {
			if status, _, text := one(); status != 202 {
				t.Fatalf("round %d, with room on the disk: a vote got status %d (%s), want 202", round, status, text)
			}
		}
		free := fill(t, dir)
		status, retry, text := 202, "", ""
		for end := time.Now().Add(time.Minute); status == 202 && time.Now().Before(end); {
			status, retry, text = one() // the file has room for some
		}
		if status != 503 || retry == "" || !strings.Contains(text, "no space left") {
			t.Fatalf("round %d, on a full disk: a vote got status %d, Retry-After %q (%s)", round, status, retry, text)
		}
		if all := problem.Texts(b.Problems()); len(all) == 0 || !strings.Contains(all[0], "no space left") {
			t.Errorf("round %d, on a full disk: Problems returned %q", round, all)
		}
		if round == 2 { // a crash on a full disk, and a start
			stop()
			b, _ = start(t, dir, config)
		}
		free()
		for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
			if status, _, text = one(); status == 202 {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("round %d, with room again: a vote got status %d (%s), want 202", round, status, text)
			}
		}
	}
	total(t, b, int64(len(acknowledged)))
	counted(t, b.Desk().Store(), acknowledged)
	if all := problem.Texts(b.Problems()); len(all) > 0 {
		t.Errorf("Problems returned %q, want none", all)
	}
}

// TestPostgresIsKilledUnderLoad: the log grows while the database is away, and
// drains. No answer waits for it.
func TestPostgresIsKilledUnderLoad(t *testing.T) {
	p := peer.NewPostgres(t)
	place, err := p.Database("votes")
	if err != nil {
		t.Fatal(err)
	}
	b, _ := start(t, t.TempDir(), booth.Config{Listen: listen("127.0.0.1:0"), Store: place})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	type result struct {
		report *load.VotesReport
		ids    []string
	}
	done := make(chan result, 1)
	go func() {
		report, ids, _ := load.Votes(ctx, load.VotesConfig{URL: "http://" + b.Addrs()[0].String(), Parallel: 4, Duration: time.Hour}) // queries each vote by its identifier at the end
		done <- result{report, ids}
	}()
	wait := func(what string, is func() bool) {
		t.Helper()
		for end := time.Now().Add(60 * time.Second); !is(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("not within a minute: ", what)
			}
		}
	}
	for range 2 {
		before, _ := b.Desk().Store().Total(ctx)
		wait("votes are counted", func() bool {
			n, err := b.Desk().Store().Total(ctx)
			return err == nil && n > before
		})
		p.Kill()
		waiting := b.Pending()
		wait("the log grows and says why", func() bool { return b.Pending() > waiting+200 && len(b.Problems()) > 0 })
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		wait("the database takes votes again", func() bool { return len(b.Problems()) == 0 })
	}
	cancel()
	r := <-done
	if len(r.ids) < 400 || r.report.Refused > 0 {
		t.Errorf("%d votes were acknowledged and %d refused, want at least 400 and none", len(r.ids), r.report.Refused)
	}
	wait("the log is drained", func() bool { return b.Pending() == 0 })
	counted(t, b.Desk().Store(), r.ids)
	n, err := b.Desk().Store().Total(context.Background())
	if err != nil || n < int64(len(r.ids)) || n > r.report.Sent {
		t.Errorf("%d votes are counted %v, want between %d acknowledged and %d sent", n, err, len(r.ids), r.report.Sent)
	}
}

// TestVotesOnTheirWayAreErasedToo: a person votes while being erased, and again
// after that. Only votes after the erasure count.
func TestVotesOnTheirWayAreErasedToo(t *testing.T) {
	place := filepath.Join(t.TempDir(), "votes.db")
	b, _ := start(t, t.TempDir(), booth.Config{Listen: listen("127.0.0.1:0"), Store: place})
	ended := make(chan *load.VotesReport, 1)
	go func() {
		r, _, _ := load.Votes(t.Context(), load.VotesConfig{URL: "http://" + b.Addrs()[0].String(), Parallel: 32, Count: 20_000})
		ended <- r
	}()
	var begun time.Time
	var report *load.VotesReport
	erased := int64(0)
	for report == nil {
		begun = time.Now()
		n, err := b.Erase(t.Context(), &vote.Person{Clients: []string{"127.0.0.1"}}, false)
		if err != nil {
			t.Fatal(err)
		}
		erased += n
		select {
		case report = <-ended:
		case <-time.After(20 * time.Millisecond):
		}
	}
	if erased == 0 || report.Acknowledged != 20_000 {
		t.Errorf("%d votes were erased, %d acknowledged; the test shows little", erased, report.Acknowledged)
	}
	forwarded(t, b)
	db, err := sql.Open("sqlite", place)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var early int
	if err := db.QueryRow("SELECT count(*) FROM vote WHERE at < ?", begun.UnixMilli()).Scan(&early); err != nil || early > 0 {
		t.Errorf("%d votes from before the erasure are counted, %v", early, err)
	}
}

// TestVotesThatArriveLateAreErasedToo lets votes wait on another node while the
// node that counts erases their voter and restarts.
func TestVotesThatArriveLateAreErasedToo(t *testing.T) {
	const secret = "a secret of both"
	at := "127.0.0.1:" + peer.Port(t)
	forward := booth.Config{Listen: listen("127.0.0.1:0"), Forward: "http://" + at, Secret: secret}
	away, home := t.TempDir(), t.TempDir()
	a, stopA := start(t, away, forward)
	send(t, a, 50)
	stopA()
	main := booth.Config{Listen: listen(at), Secret: secret}
	b, stopB := start(t, home, main)
	if _, err := b.Erase(t.Context(), &vote.Person{Users: []string{"nobody"}, Clients: []string{"127.0.0.1"}}, false); err != nil {
		t.Fatal(err)
	}
	stopB()
	b, _ = start(t, home, main)
	a, _ = start(t, away, forward)
	ids := send(t, a, 30) // after the erasure
	forwarded(t, a)
	total(t, b, 30)
	counted(t, b.Desk().Store(), ids)
	text, err := os.ReadFile(filepath.Join(home, "votes", "erased.json"))
	if err != nil || strings.Contains(string(text), "127.0.0.1") {
		t.Errorf("whose votes were erased is kept as %q, %v", text, err)
	}
}

// TestWithdrawing: the decision before holds again, and a later one goes on to
// hold. A decision that cannot be taken back is not noted as taken back.
func TestWithdrawing(t *testing.T) {
	db, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "votes.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	now := "" // the valid one
	var fails error
	desk := vote.NewDesk(db, nil, func(_ context.Context, d *vote.Decision) error {
		if fails != nil {
			return fails
		}
		if now = string(d.Action); !d.Ended.IsZero() {
			now = ""
		}
		return nil
	}, nil, slog.New(slog.DiscardHandler))
	decide := func(a vote.Action, who string) int64 {
		t.Helper()
		d := vote.Decision{Remedy: "r", Site: "x.example", Action: a, Who: who}
		if err := desk.Decide(t.Context(), &d); err != nil {
			t.Fatal(err)
		}
		return d.ID
	}
	first, second, third := decide(vote.Open, ""), decide(vote.Block, ""), decide(vote.Open, "")
	for _, step := range []struct {
		id   int64
		want string
	}{{second, "open"}, {third, "open"}, {first, ""}} {
		fails = errors.New("the other nodes are away")
		if _, err := desk.Withdraw(t.Context(), step.id); err == nil && step.id != second {
			t.Errorf("withdrawing decision %d succeeded, although it could not be carried out", step.id)
		}
		fails = nil
		if _, err := desk.Withdraw(t.Context(), step.id); err != nil && step.id != second {
			t.Error(err)
		}
		if now != step.want {
			t.Errorf("after decision %d was withdrawn %q holds, want %q", step.id, now, step.want)
		}
	}
	if _, err := desk.Withdraw(t.Context(), first); err == nil {
		t.Error("withdrawing a decision again succeeded")
	}
}
