package vote_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"shuultuur/lib/ingest"
	"shuultuur/lib/wait/waittest"
	"shuultuur/vote"
	"shuultuur/vote/store"
	"shuultuur/vote/storetest"
)

var quiet = slog.New(slog.DiscardHandler)

// A desk of a test keeps what it carries out and answers.
type desk struct {
	*vote.Desk
	fails   error
	done    []string // the decisions that were carried out
	answers []string
}

func newDesk(t *testing.T, rules ...vote.AutomaticRule) *desk {
	t.Helper()
	db, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "votes.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	d := &desk{}
	d.Desk = vote.NewDesk(db, rules, func(_ context.Context, n *vote.Decision) error {
		if d.fails != nil {
			return d.fails
		}
		does := string(n.Action)
		if !n.Ended.IsZero() {
			does = "end " + does
		}
		d.done = append(d.done, does+" "+n.Site+" for "+n.Who)
		return nil
	}, func(n *vote.Decision, to []string) {
		d.answers = append(d.answers, n.Site+": "+strings.Join(to, " "))
	}, quiet)
	return d
}

func (d *desk) count(t *testing.T, votes ...vote.Vote) []vote.Vote {
	t.Helper()
	fresh, err := d.Store().Count(t.Context(), votes)
	if err != nil {
		t.Fatal(err)
	}
	return fresh
}

// expect compares what was carried out since the last call.
func (d *desk) expect(t *testing.T, when string, want ...string) {
	t.Helper()
	if strings.Join(d.done, ", ") != strings.Join(want, ", ") {
		t.Errorf("%s: carried out %q, want %q", when, d.done, want)
	}
	d.done = nil
}

const remedy = "category/video: list:0" // of votes 0, 5, 10 …

func TestADecisionIsCarriedOutKeptAndAnswered(t *testing.T) {
	d := newDesk(t)
	votes := storetest.Votes(0, 11)
	votes[0].Mail, votes[1].Mail = "a@example.org", "b@example.org"
	d.count(t, votes...)
	n := &vote.Decision{Remedy: remedy, Action: vote.Open, Who: "pupils", By: "head"}
	if err := d.Decide(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	d.expect(t, "a decision without a site", "open h0.example for pupils")
	if n.ID == 0 || n.Votes != 3 || strings.Join(d.answers, "; ") != "h0.example: a@example.org" {
		t.Errorf("%+v, answers %q", n, d.answers)
	}
	if err := d.Decide(t.Context(), &vote.Decision{Remedy: "category/video: list:1", Action: vote.Keep}); err != nil {
		t.Fatal(err)
	}
	d.expect(t, "nothing changes")

	var mistake *vote.DecisionError
	for what, bad := range map[string]vote.Decision{
		"no such case":        {Remedy: "nothing", Action: vote.Open},
		"no remedy":           {Site: "a.example", Action: vote.Open},
		"not an action":       {Remedy: remedy, Site: "a.example", Action: "shrug"},
		"not a host":          {Remedy: remedy, Site: "a b", Action: vote.Open},
		"over already":        {Remedy: remedy, Site: "a.example", Action: vote.Open, Until: time.Now().Add(-time.Second)},
		"too long a reason":   {Remedy: remedy, Site: "a.example", Action: vote.Open, Reason: strings.Repeat("x", 3000)},
		"too long a receiver": {Remedy: remedy, Site: "a.example", Action: vote.Open, Who: strings.Repeat("x", 3000)},
	} {
		if err := d.Decide(t.Context(), &bad); !errors.As(err, &mistake) {
			t.Errorf("%s: %v, want a mistake", what, err)
		}
	}
	d.expect(t, "mistakes")
	d.fails = errors.New("no disk")
	if err := d.Decide(t.Context(), &vote.Decision{Remedy: "category/video: list:2", Action: vote.Block}); !errors.Is(err, d.fails) || errors.As(err, &mistake) {
		t.Errorf("a decision that cannot be carried out: %v", err)
	}
	if all, err := d.Store().Decisions(t.Context(), 10); err != nil || len(all) != 2 {
		t.Errorf("%d decisions are kept, %v; want 2", len(all), err)
	}
}

// What holds after a withdrawal is what would hold without the decision.
func TestAWithdrawnDecisionLeavesWhatWasBefore(t *testing.T) {
	d := newDesk(t)
	d.count(t, storetest.Votes(0, 5)...)
	decide := func(action vote.Action, who string) int64 {
		t.Helper()
		n := &vote.Decision{Remedy: remedy, Site: "h0.example", Action: action, Who: who}
		if err := d.Decide(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		return n.ID
	}
	withdraw := func(id int64) {
		t.Helper()
		if _, err := d.Withdraw(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	first, others, second := decide(vote.Open, ""), decide(vote.Open, "teachers"), decide(vote.Block, "")
	d.done = nil
	if then, err := d.Withdrawing(t.Context(), second); err != nil || len(then) != 2 {
		t.Errorf("a withdrawal would change %+v, %v", then, err)
	}
	d.expect(t, "asked only")
	withdraw(second)
	d.expect(t, "the later one", "end block h0.example for ", "open h0.example for ")
	third := decide(vote.Block, "")
	d.done = nil
	withdraw(first)
	d.expect(t, "one that was replaced")
	withdraw(third)
	d.expect(t, "the last one", "end block h0.example for ")
	withdraw(others)
	d.expect(t, "that of other people", "end open h0.example for teachers")
	var mistake *vote.DecisionError
	for _, id := range []int64{first, 4711} {
		if _, err := d.Withdraw(t.Context(), id); !errors.As(err, &mistake) {
			t.Errorf("decision %d is withdrawn again: %v", id, err)
		}
	}
}

func TestErasingAPersonWithdrawsDecisionsForThem(t *testing.T) {
	d := newDesk(t)
	votes := storetest.Votes(0, 10)
	votes[0].Event.User, votes[5].Event.User = "anna", "anna"
	d.count(t, votes...)
	for _, who := range []string{"anna", "pupils", ""} {
		if err := d.Decide(t.Context(), &vote.Decision{Remedy: remedy, Site: "for-" + who + "x.example", Action: vote.Open, Who: who}); err != nil {
			t.Fatal(err)
		}
	}
	d.done = nil
	p := &vote.Person{Users: []string{"anna"}}
	if n, err := d.Erase(t.Context(), p, true); err != nil || n != 2 {
		t.Errorf("%d votes would be erased, %v; want 2", n, err)
	}
	d.expect(t, "asked only")
	if n, err := d.Erase(t.Context(), p, false); err != nil || n != 2 {
		t.Errorf("%d votes were erased, %v; want 2", n, err)
	}
	d.expect(t, "erased", "end open for-annax.example for anna")
}

func TestARuleDecidesWhenEnoughPeopleHaveVoted(t *testing.T) {
	d := newDesk(t,
		vote.AutomaticRule{Kind: vote.Wrong, Votes: 3, Groups: []string{"pupils"}, Within: 100 * 365 * 24 * time.Hour, Who: "pupils", For: time.Hour},
		vote.AutomaticRule{Kind: vote.Dangerous, Votes: 2, Within: 100 * 365 * 24 * time.Hour})
	vote2 := func(n int, change func(*vote.Vote)) vote.Vote {
		v := storetest.Vote(n)
		if change != nil {
			change(&v)
		}
		return v
	}
	bad := func(v *vote.Vote) { v.Kind = vote.Dangerous }
	for _, step := range []struct {
		what  string
		votes []vote.Vote
		want  []string
	}{
		{"two pupils", []vote.Vote{vote2(0, nil), vote2(5, nil)}, nil},
		{"the same pupil again", []vote.Vote{vote2(250, nil)}, nil}, // from the address of vote 0
		{"one of another group", []vote.Vote{vote2(10, func(v *vote.Vote) { v.Event.Groups = []string{"guests"} })}, nil},
		{"a third pupil", []vote.Vote{vote2(15, nil), vote2(20, nil)}, []string{"open h0.example for pupils"}},
		{"one warns", []vote.Vote{vote2(1, bad)}, nil},
		{"two warn", []vote.Vote{vote2(6, bad)}, []string{"block h1.example for "}},
	} {
		d.ApplyRules(t.Context(), d.count(t, step.votes...))
		d.expect(t, step.what, step.want...)
	}
	all, err := d.Store().Decisions(t.Context(), 10)
	if err != nil || len(all) != 2 || all[0].By != "automatic rule" || !all[0].Until.IsZero() || all[1].Until.IsZero() {
		t.Errorf("decisions %+v, %v", all, err)
	}
}

// running runs a part until the test ends.
func running(t *testing.T, run func(context.Context) error) {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// Votes reach the database over another node, once each, though either end fails on the way.
func TestVotesAreForwardedAndCountedOnce(t *testing.T) {
	open := func() *ingest.Log {
		t.Helper()
		l, err := ingest.Open(ingest.Config{Folder: t.TempDir()}, quiet)
		if err != nil {
			t.Fatal(err)
		}
		running(t, l.Run)
		return l
	}
	d := newDesk(t)
	first, second := open(), open()
	to := "http://" + serve(t, vote.Parts{Log: second, Sealer: sealer(t), Secret: "shared secret", Logger: quiet})
	const all = 300
	for _, v := range storetest.Votes(0, all) {
		if err := first.Append(t.Context(), v.Append(nil)); err != nil {
			t.Fatal(err)
		}
	}
	if err := second.Append(t.Context(), []byte("not a vote")); err != nil {
		t.Fatal(err)
	}
	fail := &failing{Sink: &vote.Forwarder{To: to, Secret: "shared secret", Client: http.DefaultClient}, first: errors.New("the other node is away"), twice: true}
	var mu sync.Mutex
	var problems []error
	drain := func(l *ingest.Log, s vote.Sink) *vote.Drain {
		x, err := vote.NewDrain(l, "drain", s, func(err error) { mu.Lock(); problems = append(problems, err); mu.Unlock() }, quiet)
		if err != nil {
			t.Fatal(err)
		}
		running(t, x.Run)
		return x
	}
	var fresh int
	a := drain(first, fail)
	b := drain(second, &vote.Counter{Store: d.Store(), Logger: quiet, After: func(_ context.Context, v []vote.Vote) { mu.Lock(); fresh += len(v); mu.Unlock() }})
	waittest.Until(t, "all votes are counted", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return fresh == all && a.Pending() == 0 && b.Pending() == 0
	})
	mu.Lock()
	if len(problems) != 2 || problems[0] == nil || problems[1] != nil {
		t.Errorf("problems %v, want one that ended", problems)
	}
	mu.Unlock()
	if err := a.Between(func() error { return fail.first }); err != fail.first {
		t.Errorf("Between returns %v", err)
	}
	bad := &vote.Forwarder{To: to, Secret: "another", Client: http.DefaultClient}
	v := storetest.Vote(1)
	if err := bad.Take(t.Context(), [][]byte{v.Append(nil)}); err == nil || !strings.Contains(err.Error(), "40") {
		t.Errorf("with another secret: %v, want a refusal", err)
	}
}

// A failing sink refuses the first batch, and takes the others twice.
type failing struct {
	vote.Sink
	first error
	tried bool
	twice bool
}

func (f *failing) Take(ctx context.Context, records [][]byte) error {
	if !f.tried {
		f.tried = true
		return f.first
	}
	if err := f.Sink.Take(ctx, records); err != nil || !f.twice {
		return err
	}
	return f.Sink.Take(ctx, records)
}

func TestAnExportNamesNobody(t *testing.T) {
	at := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	cases := func() []vote.Case {
		return []vote.Case{{Remedy: "category/video: list:0", Kind: vote.Wrong.String(), Host: "=h0.example", Category: "video", Votes: 3, People: 2, First: at, Last: at,
			Examples: []vote.Example{{URL: "http://h0.example/1", Comment: "it is\n\"good\"", Voter: "anna", Groups: "pupils", Policy: "p", At: at}}},
			{Remedy: "block h1.example", Kind: vote.Dangerous.String(), Host: "h1.example", First: at, Last: at}}
	}
	for format, want := range map[string][]string{
		"text": {"is blocked and should not be", "is not blocked and should be", "2 people, 3 votes", `"it is\n\"good\""`},
		"csv":  {"'=h0.example", "http://h0.example/1", "2026-11-29T12:00:00Z"},
		"json": {`"host": "=h0.example"`},
	} {
		var b bytes.Buffer
		if err := vote.Export(&b, format, cases()); err != nil {
			t.Fatal(err)
		}
		for _, w := range want {
			if !strings.Contains(b.String(), w) {
				t.Errorf("%s lacks %q:\n%s", format, w, b.String())
			}
		}
		if strings.Contains(b.String(), "anna") || strings.Contains(b.String(), "pupils") {
			t.Errorf("%s names a voter:\n%s", format, b.String())
		}
		switch format {
		case "csv":
			if rows, err := csv.NewReader(&b).ReadAll(); err != nil || len(rows) != 3 {
				t.Errorf("%d rows, %v", len(rows), err)
			}
		case "json":
			var back []vote.Case
			if err := json.Unmarshal(b.Bytes(), &back); err != nil || len(back) != 2 {
				t.Errorf("%d cases, %v", len(back), err)
			}
		}
	}
	if err := vote.Export(&bytes.Buffer{}, "xml", nil); err == nil {
		t.Error("xml is a format")
	}
}

func TestAnAddressKeepsItsLanguage(t *testing.T) {
	for _, to := range []string{"", "a@b.example", "a?language=x@b.example"} {
		if addr := vote.MailTo(to, nil); addr != to {
			t.Errorf("%q without a language became %q", to, addr)
		}
	}
	if addr, language := vote.MailOf("a@b.example?language=mn"); addr != "a@b.example" || language != "mn" {
		t.Errorf("%q, %q", addr, language)
	}
	if fmt.Sprint(vote.Dimensions()) == "[]" || vote.RemedyKey("a") == vote.RemedyKey("b") {
		t.Error("votes have no dimensions, or two remedies one number")
	}
}

// TestARequestForTimeIsAnsweredForWhoAsked: each person has a case of their own, and a decision that gives
// minutes is for somebody.
func TestARequestForTimeIsAnsweredForWhoAsked(t *testing.T) {
	quota := func(user string) vote.Vote {
		return vote.Vote{Kind: vote.Wrong, Event: vote.Event{User: user, Client: "10.0.0.7", Host: "play.example", Check: "policy", Category: "quota", Entry: "the 30m a day for games are used up"}}
	}
	anna, nobody := quota("anna"), quota("")
	if got := anna.Remedy() + ", " + nobody.Remedy(); got != "time for anna, time for 10.0.0.7" {
		t.Errorf("the remedies are %q", got)
	}
	listed := vote.Vote{Kind: vote.Wrong, Event: vote.Event{Host: "a.example", Check: "category", Category: "quota"}}
	if listed.ForTime() || !anna.ForTime() {
		t.Error("a category of this name is taken for a quota")
	}
	night := vote.Vote{Kind: vote.Wrong, Event: vote.Event{User: "anna", Host: "play.example", Check: vote.Schedule, Category: "games", Entry: "games.txt:1"}}
	if got := night.Remedy(); got != "time for anna at play.example" || !night.ForHours() || anna.ForHours() {
		t.Errorf("the remedy of a site that is closed at night is %q", got)
	}
	now := time.Now()
	for who, good := range map[string]bool{"anna": true, "": false} {
		d := vote.Decision{Remedy: "time for anna", Site: "play.example", Action: vote.More, Who: who}
		if err := d.Check(now); (err == nil) != good {
			t.Errorf("more time for %q: %v", who, err)
		}
	}
	d := vote.Decision{Site: "play.example", Action: vote.More, Who: "anna", Reason: "Then homework."}
	if said := d.Answer(nil); said != "There are 15 more minutes today. Then homework." {
		t.Errorf("the answer is %q", said)
	}
}
