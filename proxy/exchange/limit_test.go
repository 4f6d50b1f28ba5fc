package exchange

import (
	"context"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"shuultuur/content"
	"shuultuur/filter"
	"shuultuur/proxy/judging"
	"shuultuur/proxy/page"
)

// sluggish is a decider whose judgement of bodies is a function, unless the host is "other.test".
type sluggish func(ctx context.Context, t *filter.Transaction)

func (d sluggish) Wants(*filter.Transaction, filter.Stage) bool { return true }

func (d sluggish) Decide(ctx context.Context, t *filter.Transaction, s filter.Stage) {
	if s == filter.ResponseBody && t.Host != "other.test" {
		d(ctx, t)
		if ctx.Err() != nil {
			t.Verdict = filter.Verdict{Action: filter.Block, Reason: filter.Reason{Rule: "unread"}}
		}
	}
}

// oneTurn makes an inspector with one turn, and a way to judge a page of a host with it.
func oneTurn(t *testing.T, d filter.Decider) (i *Inspector, log *strings.Builder, judge func(host string, left func() bool) error) {
	t.Helper()
	log = new(strings.Builder)
	i, err := NewInspector(Config{Judges: 1, Log: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	pages, err := page.New("", "")
	if err != nil {
		t.Fatal(err)
	}
	return i, log, func(host string, left func() bool) error {
		x := new(Exchange)
		i.Exchange(x)
		x.Begin(&Engine{Decider: d, Pages: pages}, time.Now(), "id-of-"+host)
		defer x.End()
		x.T.Host, x.T.Client.Addr = host, netip.MustParseAddr("192.0.2.1")
		x.ClientLeft = left
		s := respond("text/html", "<p>a page")
		x.T.Response = s
		_, err := x.InspectResponse(t.Context(), s)
		if err == nil {
			all(t, s.Body)
		}
		if err == ErrRefused && x.T.Unread == "" {
			t.Errorf("the body of %s counts as read", host)
		}
		return err
	}
}

// outlast waits until a context ends, and says how long that took.
func outlast(took *time.Duration) func(context.Context, *filter.Transaction) {
	return func(ctx context.Context, _ *filter.Transaction) {
		start := time.Now()
		<-ctx.Done()
		*took = time.Since(start)
	}
}

func TestAJudgementThatTakesTooLongEnds(t *testing.T) {
	for name, work := range map[string]func(context.Context, *filter.Transaction){
		"a check that waits for its context": func(ctx context.Context, _ *filter.Transaction) { <-ctx.Done() },
		"a check that asks its context": func(ctx context.Context, _ *filter.Transaction) {
			for ctx.Err() == nil {
				time.Sleep(time.Millisecond)
			}
		},
		"a context made from its context": func(ctx context.Context, _ *filter.Transaction) {
			ctx, cancel := context.WithTimeout(ctx, time.Hour)
			defer cancel()
			<-ctx.Done()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				i, log, judge := oneTurn(t, sluggish(work))
				start := time.Now()
				if err := judge("slow.test", nil); err != ErrRefused {
					t.Errorf("the error is %v, want the refusal of what decides about unread bodies", err)
				}
				if took := time.Since(start); took < filter.JudgeTime(0) || took > filter.JudgeTime(0)+2*time.Second {
					t.Errorf("the judgement took %v, want its limit of %v", took, filter.JudgeTime(0))
				}
				if i.judges.Used() != 0 || i.unread[content.TookTooLong].Load() != 1 {
					t.Errorf("%d turns are in use and %d bodies took too long, want 0 and 1", i.judges.Used(), i.unread[content.TookTooLong].Load())
				}
				if err := judge("other.test", nil); err != nil {
					t.Errorf("another page is judged with %v afterwards, want it to pass", err)
				}
				if p := strings.Join(i.Problems(), ";"); !strings.Contains(p, "took too long to judge") || !strings.Contains(p, "id-of-slow.test") || !strings.Contains(log.String(), "host=slow.test") {
					t.Errorf("problems are %q, the log is %s; want both to say what took too long", p, log)
				}
				if time.Sleep(judging.TellFor); len(i.Problems()) != 0 {
					t.Errorf("problems are %q for ever", i.Problems())
				}
			})
		})
	}
}

func TestTheTimeOfAJudgementGrowsWithTheBodyAndLeavesOutWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var took time.Duration
		waited := 5 * time.Minute
		_, _, judge := oneTurn(t, sluggish(func(ctx context.Context, x *filter.Transaction) {
			filter.Waiting(ctx, true)
			time.Sleep(waited)
			filter.Waiting(ctx, false)
			outlast(&took)(ctx, x)
		}))
		_ = judge("slow.test", nil)
		if d := took - filter.JudgeTime(0); d < -2*time.Second || d > 2*time.Second {
			t.Errorf("after a wait of %v the judgement had %v, want %v", waited, took, filter.JudgeTime(0))
		}
	})
	if a, b := filter.JudgeTime(0), filter.JudgeTime(64<<20); b < a+30*time.Second {
		t.Errorf("a body of 64 MiB has %v and an empty one %v, want more for the larger", b, a)
	}
}

// TestWaitingForAnotherServerTakesNoTurn: pages that need no scanner are judged while others wait for
// one, and who has waited goes on in its turn.
func TestWaitingForAnotherServerTakesNoTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var working, most, waiting atomic.Int32
		i, _, judge := oneTurn(t, sluggish(func(ctx context.Context, x *filter.Transaction) {
			for range 2 { // scanners
				filter.Waiting(ctx, true)
				waiting.Add(1)
				time.Sleep(8 * time.Second)
				waiting.Add(-1)
				filter.Waiting(ctx, false)
			}
			most.Store(max(most.Load(), working.Add(1)))
			time.Sleep(time.Second)
			working.Add(-1)
		}))
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				if err := judge("slow.test", nil); err != nil {
					t.Errorf("a body that waits for a scanner is judged with %v, want it to pass", err)
				}
			})
		}
		for range 7 {
			time.Sleep(2 * time.Second)
			start := time.Now()
			if err := judge("other.test", nil); err != nil || time.Since(start) > 0 {
				t.Errorf("another page is judged with %v after %v, want it to pass at once; %d wait", err, time.Since(start), waiting.Load())
			}
		}
		all.Wait()
		if most.Load() != 1 || i.judges.Used() != 0 {
			t.Errorf("%d judged at a time and %d turns are in use afterwards, want 1 and 0", most.Load(), i.judges.Used())
		}
	})
}

// TestWhoWaitsForATurnAgainEndsWithItsClient: nobody judges for a client that has gone.
func TestWhoWaitsForATurnAgainEndsWithItsClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i, _, judge := oneTurn(t, sluggish(func(ctx context.Context, x *filter.Transaction) {
			filter.Waiting(ctx, true)
			time.Sleep(time.Second)
			filter.Waiting(ctx, false)
		}))
		ended := make(chan error, 1)
		go func() { ended <- judge("slow.test", func() bool { return true }) }()
		synctest.Wait()
		i.judges.Acquire(t.Context(), netip.MustParseAddr("192.0.2.2"), 1, 0)
		if err := <-ended; err != ErrGone {
			t.Errorf("the judgement ended with %v, want %v", err, ErrGone)
		}
		if i.judges.Release(1); i.judges.Used() != 0 {
			t.Errorf("%d turns are in use, want 0", i.judges.Used())
		}
	})
}

func TestAStuckJudgementGivesItsTurnToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		i, log, judge := oneTurn(t, sluggish(func(context.Context, *filter.Transaction) { <-release }))
		ended := make(chan error, 1)
		go func() { ended <- judge("stuck.test", nil) }()
		synctest.Wait()
		if err := judge("other.test", nil); err != errNoTurn {
			t.Errorf("another page is judged with %v at first, want no turn", err)
		}
		time.Sleep(filter.JudgeTime(0) + (judging.Grace+3)*time.Second)
		if err := judge("other.test", nil); err != nil {
			t.Errorf("another page is judged with %v later, want it to pass", err)
		}
		if p := strings.Join(i.Problems(), ";"); !strings.Contains(p, "do not end: 1 now") || i.counters[stuck].Load() != 1 || !strings.Contains(log.String(), "does not end") {
			t.Errorf("problems are %q, %d are counted, the log is %s; want the stuck judgement in all", p, i.counters[stuck].Load(), log)
		}
		close(release)
		if err := <-ended; err != ErrRefused {
			t.Errorf("the stuck judgement ended with %v, want a refusal", err)
		}
		if i.judges.Used() != 0 || strings.Contains(strings.Join(i.Problems(), ";"), "do not end") {
			t.Errorf("%d turns are in use and problems are %q after it has ended", i.judges.Used(), i.Problems())
		}
	})
}

func TestAJudgementEndsWhenItsClientHasLeftAndOthersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var took time.Duration
		i, _, judge := oneTurn(t, sluggish(outlast(&took)))
		ended := make(chan error, 1)
		go func() { ended <- judge("slow.test", func() bool { return true }) }()
		time.Sleep(5 * time.Second)
		if n := i.judges.Used(); n != 1 {
			t.Errorf("%d turns are in use while nobody waits, want 1: the client may have closed its side only", n)
		}
		if err := judge("other.test", nil); err != nil {
			t.Errorf("the page of another client is judged with %v, want it to pass", err)
		}
		if err := <-ended; err != ErrGone || i.counters[abandoned].Load() != 1 {
			t.Errorf("the judgement ended with %v, %d abandoned; want %v and 1", err, i.counters[abandoned].Load(), ErrGone)
		}
		if len(i.Problems()) != 0 {
			t.Errorf("problems are %q, want none", i.Problems())
		}
	})
}

// TestReadersEndWithTheJudgement: what extracts text asks for the limit, too.
func TestReadersEndWithTheJudgement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text int
		i, _, judge := oneTurn(t, sluggish(func(ctx context.Context, x *filter.Transaction) {
			<-ctx.Done()
			s, _ := x.Body.Text()
			text = len(s)
		}))
		_ = judge("slow.test", nil)
		if text > len(" ") || i.judges.Used() != 0 {
			t.Errorf("%d bytes of text were read after the end, want none", text)
		}
	})
}
