package policy

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/message"
)

// following is what a server does for a transaction that goes on: at the turn of each minute it says
// whether something has moved in the last one. It reports after how many minutes the transaction was
// ended, and why.
func following(t *testing.T, e *Engine, p page, moves func(minute int) bool, most int) (minutes int, ends string) {
	t.Helper()
	p.start = time.Now()
	tr, _ := p.judge(t, e)
	if tr.Verdict.Final() {
		t.Fatalf("refused at once: %+v", tr.Verdict)
	}
	var known filter.Transaction
	tr.Follow(&known)
	tr.Minutes.Add(filter.MinuteOf(tr.Start))
	defer func() {
		tr.Duration, tr.Charged, tr.Followed = time.Since(tr.Start), known.Charged, known.Followed
		e.Done(t.Context(), tr)
	}()
	for ; minutes < most; minutes++ {
		last := filter.MinuteOf(time.Now())
		time.Sleep(time.Until(filter.MinuteTime(last + 1)))
		used := filter.Use{Minute: last, Moved: moves(minutes)}
		if used.Moved {
			used.Bytes = 10
			tr.BytesOut += 10
			tr.Minutes.Add(last)
		}
		if ends = e.Follow(&known, used, time.Now()); ends != "" {
			return minutes + 1, ends
		}
		known.Charged += used.Bytes
	}
	return minutes, ""
}

func always(int) bool { return true }

func TestWhatGoesOnIsJudgedEachMinute(t *testing.T) {
	games := Names{"grey"}
	bedtime := Rule{Name: "bedtime", Action: "block", Schedule: Schedule{{Hours: "12:03-13:00"}}}
	for name, tt := range map[string]struct {
		policy  Policy
		page    page
		before  func(e *Engine, now time.Time)
		moves   func(int) bool
		minutes int
		ends    string // "": it goes on
	}{
		"nothing to say":         {Policy{}, page{}, nil, always, 10, ""},
		"a schedule begins":      {Policy{Rules: []Rule{bedtime}}, page{}, nil, always, 3, `rule "bedtime" of policy "p" applies now`},
		"for a tunnel":           {Policy{Rules: []Rule{bedtime}}, page{tunnel: true}, nil, always, 3, `rule "bedtime"`},
		"in which nothing moves": {Policy{Rules: []Rule{bedtime}}, page{tunnel: true}, nil, func(int) bool { return false }, 3, `rule "bedtime"`},
		"of another category":    {Policy{Rules: []Rule{{Name: "b", Action: "block", Category: []string{"adult"}, Schedule: bedtime.Schedule}}}, page{}, nil, always, 10, ""},
		"of its category":        {Policy{Rules: []Rule{{Name: "b", Action: "block", Category: []string{"grey"}, Schedule: bedtime.Schedule}}}, page{}, nil, always, 3, `rule "b"`},
		"what is always allowed": {Policy{Rules: []Rule{{Name: "a", Action: "allow"}, bedtime}}, page{}, nil, always, 10, ""},
		"a permission ends":      {Policy{Rules: []Rule{{Name: "a", Action: "allow", Schedule: Schedule{{Hours: "11:00-12:05"}}}, {Name: "all", Action: "block"}}}, page{}, nil, always, 5, `rule "all"`},
		"a warning ends nothing": {Policy{Rules: []Rule{{Name: "w", Action: "warn", Schedule: bedtime.Schedule}}}, page{}, nil, always, 10, ""},
		"a quota is used up":     {Policy{Quotas: []Quota{{Category: games, Time: Duration(4 * time.Minute)}}}, page{}, nil, always, 4, "quota 4m of grey by user"},
		"a quota of a tunnel":    {Policy{Quotas: []Quota{{Category: games, Time: Duration(4 * time.Minute)}}}, page{tunnel: true}, nil, always, 4, "quota 4m"},
		"every other minute":     {Policy{Quotas: []Quota{{Time: Duration(4 * time.Minute)}}}, page{}, nil, func(i int) bool { return i%2 == 0 }, 7, "quota 4m"},
		"silence costs nothing":  {Policy{Quotas: []Quota{{Time: Duration(4 * time.Minute)}}}, page{}, nil, func(i int) bool { return i < 3 }, 100, ""},
		"a quota of bytes":       {Policy{Quotas: []Quota{{Bytes: 50}}}, page{}, nil, always, 5, "quota 50 bytes"},
		"of another quota":       {Policy{Quotas: []Quota{{Category: Names{"adult"}, Time: Duration(time.Minute)}}}, page{}, nil, always, 10, ""},
		"a bonus": {Policy{Quotas: []Quota{{Time: Duration(4 * time.Minute)}}}, page{}, func(e *Engine, now time.Time) {
			e.decided.SetBonuses([]Bonus{{Who: "10.0.0.1", Minutes: 3, Until: now.Add(time.Hour)}})
		}, always, 7, "quota 4m"},
		"a pause ends": {Policy{Rules: []Rule{{Name: "all", Action: "block"}}}, page{}, func(e *Engine, now time.Time) { e.pauses.Set([]Pause{{Until: now.Add(2 * time.Minute)}}) }, always, 2, `rule "all"`},
		"somebody blocks it": {Policy{}, page{}, func(e *Engine, now time.Time) {
			time.AfterFunc(150*time.Second, func() { e.decided.Set([]Decision{{Site: "example.com", Block: true}}) })
		}, always, 3, "a person has blocked the site"},
		"the policy covers no more": {Policy{Schedule: Schedule{{Hours: "11:00-12:06"}}}, page{}, nil, always, 6, "no policy covers the client any more"},
	} {
		t.Run(name, func(t *testing.T) {
			counted(t, tt.policy, func(t *testing.T, e *Engine) {
				e.decided, e.pauses = &Decisions{}, &Pauses{}
				tt.page.client = filter.Client{Addr: netip.MustParseAddr("10.0.0.1")}
				if tt.before != nil {
					tt.before(e, time.Now())
				}
				minutes, ends := following(t, e, tt.page, tt.moves, max(10, tt.minutes))
				if minutes != tt.minutes || !strings.HasPrefix(ends, tt.ends) || (ends == "") != (tt.ends == "") {
					t.Errorf("ended after %d minutes (%q), want %d (%q)", minutes, ends, tt.minutes, tt.ends)
				}
			})
		})
	}
}

// TestWhatTheBodyMayStillSayEndsNothing: a rule that waits for the page waits while the page goes on, too.
func TestWhatTheBodyMayStillSayEndsNothing(t *testing.T) {
	counted(t, Policy{Rules: []Rule{{Name: "b", Action: "block", Category: []string{"grey"}, Unless: []string{"phrase/exception"}}}}, func(t *testing.T, e *Engine) {
		for last, want := range map[filter.Stage]bool{filter.ResponseBody: false, filter.Response: true} {
			tr := &filter.Transaction{Host: "example.com", Last: last, Findings: []filter.Finding{{Check: "category", Category: "grey"}}}
			tr.Request = &message.Request{Method: "GET", Path: []byte("/")}
			tr.Response = &message.Response{Status: 200, Fields: fields([]string{"Content-Type", "text/html"})}
			if ends := e.Follow(tr, filter.Use{}, time.Now()); (ends != "") != want {
				t.Errorf("if its last stage is %v, it ends because of %q", last, ends)
			}
		}
	})
}

// TestUseIsCountedOnce: what was counted while it went on is not counted again at its end, and what the
// page turned out to be about counts from its beginning.
func TestUseIsCountedOnce(t *testing.T) {
	anna := filter.Client{User: "anna"}
	quotas := []Quota{{Time: Duration(time.Hour), Bytes: 1000}, {Category: Names{"phrase/banned"}, Time: Duration(time.Hour), Bytes: 1000}}
	countedWith(t, Policy{Quotas: quotas}, phrases(1, "banned"), func(t *testing.T, e *Engine) {
		following(t, e, page{client: anna}, always, 5)
		_, left := e.Balance(t.Context(), "", &anna, time.Now())
		for i, want := range []int64{5, 50, 5, 50} {
			if left[i].Used != want {
				t.Errorf("%s of %s: %d used, want %d", left[i].Unit, left[i].Of, left[i].Used, want)
			}
		}
	})
}

// TestUseCountsOnWithAnotherAmount: also when the quota has moved in the settings.
func TestUseCountsOnWithAnotherAmount(t *testing.T) {
	anna := filter.Client{User: "anna"}
	counted(t, Policy{Quotas: []Quota{{Time: Duration(time.Hour), Bytes: 1000}, {Category: Names{"grey"}, Bytes: 500}, {Category: Names{"grey"}, Bytes: 700}}}, func(t *testing.T, e *Engine) {
		refused(t, e, page{client: anna}, 10*time.Minute, 100)
		after := newEngineOf(t, Config{{Name: "p", Quotas: []Quota{{Category: Names{"grey"}, Bytes: 600}, {Time: Duration(2 * time.Hour), Bytes: 2000}}}}, Parts{Counter: e.counter}, e.checks...)
		_, left := after.Balance(t.Context(), "", &anna, time.Now())
		for i, want := range []int64{100, 10, 100} {
			if left[i].Used != want {
				t.Errorf("%s of %s: %d used, want %d", left[i].Unit, left[i].Of, left[i].Used, want)
			}
		}
	})
}

// TestMidnightSplitsUse: each minute counts for its day.
func TestMidnightSplitsUse(t *testing.T) {
	anna := filter.Client{User: "anna"}
	counted(t, Policy{Quotas: []Quota{{Time: Duration(time.Hour)}}}, func(t *testing.T, e *Engine) {
		time.Sleep(11*time.Hour + 50*time.Minute)
		if minutes, ends := following(t, e, page{client: anna, tunnel: true}, always, 30); minutes != 30 {
			t.Errorf("ended after %d minutes: %s", minutes, ends)
		}
		if _, left := e.Balance(t.Context(), "", &anna, time.Now()); left[0].Used != 20 {
			t.Errorf("%d minutes of the new day are used, want 20", left[0].Used)
		}
	})
}

func TestAConversationCountsItsBytesOnce(t *testing.T) {
	anna := filter.Client{User: "anna"}
	counted(t, Policy{Quotas: []Quota{{Bytes: 1000}}}, func(t *testing.T, e *Engine) {
		for _, of := range []string{"", "id1"} {
			e.Done(t.Context(), &filter.Transaction{Start: time.Now(), Client: anna, Record: filter.Record{BytesIn: 100, Conversation: of}})
		}
		if _, left := e.Balance(t.Context(), "", &anna, time.Now()); left[0].Used != 100 {
			t.Errorf("%d bytes are used, want 100", left[0].Used)
		}
	})
}
