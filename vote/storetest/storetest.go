// Package storetest is the conformance suite of databases of votes.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"shuultuur/vote"
)

// Vote makes the vote number n, which is always the same.
func Vote(n int) vote.Vote {
	v := vote.Vote{Kind: vote.Wrong, At: time.UnixMilli(1_770_000_000_000 + int64(n)), Comment: fmt.Sprint("because ", n), Node: "a",
		Event: vote.Event{Ref: fmt.Sprint("ref", n), Client: fmt.Sprintf("10.0.0.%d", n%250), Groups: []string{"pupils", fmt.Sprint("class", n%3)},
			Host: fmt.Sprintf("h%d.example", n%5), URL: fmt.Sprintf("http://h%d.example/%d", n%5, n%20), Policy: "p", Rule: "r", Check: "category", Category: "video", Entry: fmt.Sprintf("list:%d", n%5)}}
	copy(v.ID[:], fmt.Sprintf("%016d", n))
	return v
}

// Votes makes votes from a number up to another.
func Votes(from, to int) (all []vote.Vote) {
	for n := from; n < to; n++ {
		all = append(all, Vote(n))
	}
	return all
}

// Run runs the suite. open returns an empty store.
func Run(t *testing.T, open func(t *testing.T) vote.Store) {
	for name, test := range map[string]func(*testing.T, vote.Store){
		"each identifier counts once":             once,
		"one event has one vote that adds":        occasions,
		"tallies agree with the votes":            tallies,
		"cases are grouped by remedy":             queue,
		"a decision answers the votes before it":  decide,
		"voters in groups are counted for rules":  voters,
		"any text is kept":                        texts,
		"old votes are deleted":                   prune,
		"a batch whose context has ended is not":  canceled,
		"mail addresses wait for the next answer": mails,
		"the votes of a person are erased":        erase,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

func count(t *testing.T, s vote.Store, votes []vote.Vote, want int) {
	t.Helper()
	fresh, err := s.Count(context.Background(), votes)
	if err != nil {
		t.Fatal(err)
	}
	if len(fresh) != want {
		t.Errorf("%d votes are fresh, want %d", len(fresh), want)
	}
}

func total(t *testing.T, s vote.Store, want int64) {
	t.Helper()
	if n, err := s.Total(context.Background()); err != nil || n != want {
		t.Errorf("%d votes are counted, want %d: %v", n, want, err)
	}
}

func once(t *testing.T, s vote.Store) {
	count(t, s, Votes(0, 1000), 1000)
	count(t, s, Votes(500, 1500), 500)
	count(t, s, slices.Concat(Votes(2000, 2100), Votes(2000, 2100)), 100)
	total(t, s, 1600)
	v := Vote(3)
	st, err := s.State(context.Background(), v.ID)
	if err != nil || st.State != "counted" {
		t.Errorf("got %+v %v", st, err)
	}
	if _, err := s.State(context.Background(), vote.ID{9}); !errors.Is(err, vote.ErrUnknown) {
		t.Errorf("got %v, want ErrUnknown", err)
	}
}

// occasions sends several votes with one token: each has a row, as it was
// acknowledged, and one adds to tallies and case.
func occasions(t *testing.T, s vote.Store) {
	ctx := context.Background()
	again := func(n int, id byte) vote.Vote {
		v := Vote(n)
		v.ID[0] = id
		return v
	}
	count(t, s, []vote.Vote{Vote(0), again(0, 'a'), again(0, 'b')}, 1)
	count(t, s, []vote.Vote{again(0, 'c'), Vote(5), again(5, 'd')}, 1)
	other := again(0, 'e')
	other.Kind = vote.Dangerous
	count(t, s, []vote.Vote{other, again(0, 'a')}, 1)
	var free []vote.Vote
	for n := range byte(3) {
		v := again(0, 'f'+n)
		v.Event.Ref = "" // without a token
		free = append(free, v)
	}
	count(t, s, free, 3)
	total(t, s, 10)
	for id := range byte(5) {
		v := again(0, 'a'+id)
		if st, err := s.State(ctx, v.ID); err != nil && id != 3 || err == nil && st.State != "counted" {
			t.Errorf("%c: got %+v %v", 'a'+id, st, err)
		}
	}
	want := []vote.Tally{{Key: "h0.example", Kind: "wrong", N: 5}, {Key: "h0.example", Kind: "dangerous", N: 1}}
	if got, err := s.Tallies(ctx, "host", "h0.example", 10); err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v %v, want %v", got, err, want)
	}
	p := vote.Person{Clients: []string{"10.0.0.0"}}
	for _, dry := range []bool{true, false} {
		if n, err := s.Erase(ctx, &p, dry); err != nil || n != 8 {
			t.Errorf("%d votes were erased %v, want 8", n, err)
		}
	}
	if got, err := s.Tallies(ctx, "host", "h0.example", 10); err != nil || !slices.Equal(got, []vote.Tally{{Key: "h0.example", Kind: "wrong", N: 1}}) {
		t.Errorf("of the others there are %v %v", got, err)
	}
	count(t, s, []vote.Vote{again(0, 'z')}, 1) // nothing is left of the event
}

func tallies(t *testing.T, s vote.Store) {
	count(t, s, Votes(0, 1000), 1000)
	count(t, s, Votes(0, 1000), 0)
	for dim, want := range map[string][]vote.Tally{
		"host":     {{Key: "h0.example", Kind: "wrong", N: 200}, {Key: "h1.example", Kind: "wrong", N: 200}},
		"category": {{Key: "video", Kind: "wrong", N: 1000}},
		"entry":    {{Key: "list:0", Kind: "wrong", N: 200}, {Key: "list:1", Kind: "wrong", N: 200}},
		"group":    {{Key: "pupils", Kind: "wrong", N: 1000}, {Key: "class0", Kind: "wrong", N: 334}},
		"url":      {{Key: "http://h0.example/0", Kind: "wrong", N: 50}, {Key: "http://h0.example/10", Kind: "wrong", N: 50}},
	} {
		got, err := s.Tallies(context.Background(), dim, "", len(want))
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("by %s: got %v %v, want %v", dim, got, err, want)
		}
	}
	if got, err := s.Tallies(context.Background(), "host", "h3.example", 10); err != nil || len(got) != 1 || got[0].N != 200 {
		t.Errorf("of one name: got %v %v", got, err)
	}
	if _, err := s.Tallies(context.Background(), "colour", "", 1); err == nil {
		t.Error("tallies by colour")
	}
}

func queue(t *testing.T, s vote.Store) {
	count(t, s, Votes(0, 100), 100)
	more := Vote(1000)
	more.Event.Client, more.ID = "10.9.9.9", vote.ID{1}
	count(t, s, []vote.Vote{more}, 1)
	all, err := s.Queue(context.Background(), 10)
	if err != nil || len(all) != 5 {
		t.Fatalf("got %d cases %v, want 5", len(all), err)
	}
	c := all[0]
	if c.Remedy != "category/video: list:0" || c.Votes != 21 || c.People != 21 || len(c.Examples) != 3 || c.Kind != "wrong" || c.Host != "h0.example" {
		t.Errorf("got %+v", c)
	}
	c, err = s.Case(context.Background(), c.Remedy)
	if err != nil || len(c.Examples) != 21 || c.Examples[0].Groups != "pupils, class1" {
		t.Errorf("got %+v %v", c, err)
	}
}

func decide(t *testing.T, s vote.Store) {
	ctx := context.Background()
	count(t, s, Votes(0, 10), 10)
	d := vote.Decision{Remedy: "category/video: list:0", Site: "h0.example", Action: vote.Open, Who: "pupils", By: "anna", Reason: "a mistake", At: time.UnixMilli(1_770_000_001_000), Until: time.UnixMilli(1_770_000_009_000)}
	if err := s.Decide(ctx, &d); err != nil {
		t.Fatal(err)
	}
	if d.ID == 0 || d.Votes != 2 {
		t.Errorf("got %+v", d)
	}
	if all, err := s.Queue(ctx, 10); err != nil || len(all) != 4 {
		t.Errorf("%d cases wait %v, want 4", len(all), err)
	}
	st, err := s.State(ctx, Vote(5).ID)
	if err != nil || st.State != "decided" || st.Decision == nil || *st.Decision != d {
		t.Errorf("got %+v %v, want %+v", st, err, d)
	}
	late := Vote(5000) // after the decision
	count(t, s, []vote.Vote{late}, 1)
	if st, err := s.State(ctx, late.ID); err != nil || st.State != "counted" {
		t.Errorf("got %+v %v", st, err)
	}
	if c, err := s.Case(ctx, d.Remedy); err != nil || c.Votes != 1 || c.People != 1 {
		t.Errorf("got %+v %v", c, err)
	}
	gone, err := s.Withdraw(ctx, d.ID, time.UnixMilli(1_770_000_002_000))
	if err != nil || gone.Ended.IsZero() || gone.Site != d.Site {
		t.Errorf("got %+v %v", gone, err)
	}
	if _, err := s.Withdraw(ctx, d.ID, time.Now()); err == nil {
		t.Error("a decision was withdrawn twice")
	}
	all, err := s.Decisions(ctx, 10)
	if err != nil || len(all) != 1 || all[0].Ended.IsZero() {
		t.Errorf("got %+v %v", all, err)
	}
}

func voters(t *testing.T, s vote.Store) {
	count(t, s, Votes(0, 30), 30) // 0, 5, 10 … are for list:0, of class 0, 2, 1, 0, 2, 1
	remedy, begin := "category/video: list:0", time.UnixMilli(1_770_000_000_000)
	for _, tt := range []struct {
		since  time.Time
		groups []string
		want   int
	}{
		{begin, nil, 6}, {begin, []string{"class0"}, 2}, {begin, []string{"class0", "class1"}, 4}, {begin.Add(15 * time.Millisecond), []string{"class0"}, 1}, {begin, []string{"teachers"}, 0},
	} {
		if n, err := s.Voters(context.Background(), remedy, tt.since, tt.groups, 100); err != nil || n != tt.want {
			t.Errorf("since %v, %v: got %d %v, want %d", tt.since, tt.groups, n, err, tt.want)
		}
	}
}

func texts(t *testing.T, s vote.Store) {
	v := Vote(1)
	v.Comment = "a\x00b 'quoted' \U0001F600"
	v.Event.Groups = nil
	v.Event.Entry = "x\x00y"
	count(t, s, []vote.Vote{v}, 1)
	all, err := s.Queue(context.Background(), 1)
	if err != nil || len(all) != 1 || all[0].Examples[0].Comment != "ab 'quoted' \U0001F600" {
		t.Errorf("got %+v %v", all, err)
	}
	count(t, s, nil, 0)
}

func prune(t *testing.T, s vote.Store) {
	if at, err := s.Newest(context.Background()); err != nil || !at.IsZero() {
		t.Errorf("the newest of no votes is of %v, %v", at, err)
	}
	count(t, s, Votes(0, 100), 100)
	if at, err := s.Newest(context.Background()); err != nil || !at.Equal(Vote(99).At.Truncate(time.Millisecond)) {
		t.Errorf("the newest vote is of %v, %v, want %v", at, err, Vote(99).At)
	}
	n, err := s.Prune(context.Background(), Vote(40).At)
	if err != nil || n != 40 {
		t.Errorf("%d votes deleted %v, want 40", n, err)
	}
	total(t, s, 60)
}

func canceled(t *testing.T, s vote.Store) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := s.Count(ctx, Votes(0, 10)); err == nil {
		t.Error("votes were counted")
	}
	total(t, s, 0)
}

func mails(t *testing.T, s vote.Store) {
	votes := Votes(0, 15)
	votes[0].Mail, votes[5].Mail, votes[10].Mail, votes[1].Mail = "a@example.org", "a@example.org", "b@example.org", "c@example.org"
	count(t, s, votes, 15)
	got, err := s.Mails(context.Background(), "category/video: list:0", 10)
	slices.Sort(got)
	if err != nil || !slices.Equal(got, []string{"a@example.org", "b@example.org"}) {
		t.Errorf("got %q %v", got, err)
	}
}

func erase(t *testing.T, s vote.Store) {
	ctx := context.Background()
	votes := Votes(0, 100)
	for n := range votes {
		votes[n].Event.Client = fmt.Sprintf("10.9.0.%d", n)
	}
	votes[0].Event.User, votes[1].Event.User, votes[2].Event.Client = "anna", "anna", "10.1.2.3"
	votes[3].Comment = "anna told me"
	votes[4].Event = vote.Event{User: "anna", Host: "only.example", URL: "http://only.example/anna", Check: "category", Category: "rare", Entry: "list:only"}
	count(t, s, votes, 100)
	d := vote.Decision{Remedy: "category/video: list:3", Site: "h3.example", Action: vote.Keep, Who: "anna", By: "anna", Reason: "for anna", At: time.UnixMilli(1_770_000_001_000)}
	if err := s.Decide(ctx, &d); err != nil {
		t.Fatal(err)
	}
	p := vote.Person{Users: []string{"anna"}, Clients: []string{"10.1.2.3"}, Named: func(text string) bool { return strings.Contains(text, "anna") }}
	for _, dry := range []bool{true, false} {
		if n, err := s.Erase(ctx, &p, dry); err != nil || n != 4 {
			t.Fatalf("%d votes were erased %v, want 4", n, err)
		}
	}
	total(t, s, 96)
	for dim, want := range map[string]vote.Tally{
		"host": {Key: "h0.example", Kind: "wrong", N: 19}, "group": {Key: "pupils", Kind: "wrong", N: 96}, "category": {Key: "video", Kind: "wrong", N: 96}, "entry": {Key: "list:1", Kind: "wrong", N: 19},
	} {
		if got, err := s.Tallies(ctx, dim, want.Key, 10); err != nil || len(got) != 1 || got[0] != want {
			t.Errorf("by %s: got %v %v, want %v", dim, got, err, want)
		}
	}
	if got, err := s.Tallies(ctx, "url", "http://only.example/anna", 10); err != nil || len(got) != 0 {
		t.Errorf("the URL of the person is counted: %v %v", got, err)
	}
	all, err := s.Queue(ctx, 10)
	if err != nil || len(all) != 4 {
		t.Fatalf("%d cases wait %v, want 4", len(all), err)
	}
	for _, c := range all {
		if c.Votes != 19 || c.People != 19 { // of 20 each
			t.Errorf("%s has %d votes of %d people, want 19", c.Host, c.Votes, c.People)
		}
	}
	if c, err := s.Case(ctx, "category/video: list:3"); err != nil || len(c.Examples) == 0 || strings.Contains(fmt.Sprint(c), "anna") {
		t.Errorf("got %+v %v", c, err)
	}
	if n, err := s.Decision(ctx, d.ID); err != nil || strings.Contains(fmt.Sprint(n), "anna") {
		t.Errorf("the decision is %+v %v", n, err)
	}
	count(t, s, []vote.Vote{votes[0]}, 1) // the person may vote again
}
