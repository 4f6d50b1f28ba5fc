package gateway

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"shuultuur/admin/account"
	"shuultuur/lib/wait/waittest"
	"shuultuur/policy"
)

// TestWhatWasDecidedFollowsANewName, and the way back: sites, time and pauses, and for groups those who look
// after them.
func TestWhatWasDecidedFollowsANewName(t *testing.T) {
	t.Run("of a person", func(t *testing.T) { followsANewName(t, "anna", []string{"ben"}) })
	t.Run("of a group", func(t *testing.T) { followsANewName(t, "kids", []string{"ben"}) })
}

func followsANewName(t *testing.T, who string, others []string) {
	const text = `
listen: {proxy: 127.0.0.1:0, admin: 127.0.0.1:0}
identity: {addresses: {anna: [10.0.0.5], ben: [10.0.0.6]}, groups: {kids: [10.0.0.5, ben]}}
policies: [{name: everyone, quotas: [{time: 30m}]}]
`
	file := folder(t, map[string]string{"shuultuur.yaml": text})
	g := serving(t, file)
	waittest.Until(t, "the gateway serves", func() bool { return g.engine.Load() != nil })
	now := time.Now()
	e := g.engine.Load()
	book := g.access.Load().book
	if err := errors.Join(book.Add("olga", account.Owner, nil, "correct horse battery"), book.Add("hilda", account.Helper, []string{"kids", "7b"}, "correct horse battery")); err != nil {
		t.Fatal(err)
	}
	for _, who := range append(others, who) {
		if err := e.Decisions.Rule(policy.Decision{Who: who, Site: "bet.example", Block: true}, false, "test"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := e.Decisions.GiveTime(who, 20, now, "test"); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Pauses.Set(who, now.Add(time.Hour), now, "test"); err != nil {
		t.Fatal(err)
	}
	has := func() string {
		var all []string
		e := g.engine.Load()
		for _, d := range e.Decisions.Sites(now) {
			all = append(all, "site "+d.Who)
		}
		for _, b := range e.Decisions.Bonuses(now) {
			all = append(all, "time "+b.Who)
		}
		for _, p := range e.Pauses.At(now) {
			all = append(all, "pause "+p.Who)
		}
		return strings.Join(all, ", ")
	}
	for _, name := range []string{"zoe", who} {
		if err := os.WriteFile(file, []byte(strings.Replace(text, who, name, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := g.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := "site ben, site " + name + ", time " + name + ", pause " + name
		if got := has(); got != want {
			t.Errorf("with the name %s there are %s; want %s", name, got, want)
		}
		looksAfter := []string{"kids", "7b"}
		if who == "kids" {
			looksAfter[0] = name
		}
		if a, err := book.One("hilda"); err != nil || !slices.Equal(a.Groups, looksAfter) {
			t.Errorf("with the name %s, %s looks after %q, want %q; %v", name, a.Name, a.Groups, looksAfter, err)
		}
	}
}

func TestARenamedPersonKeepsAllDevices(t *testing.T) {
	for _, tt := range []struct {
		old, now map[string][]string
		want     string
	}{
		{map[string][]string{"anna": {"1", "2"}}, map[string][]string{"zoe": {"2", "1"}}, "zoe"},
		{map[string][]string{"anna": {"1", "2"}}, map[string][]string{"zoe": {"1"}}, ""},
		{map[string][]string{"anna": {"1"}, "zoe": {"2"}}, map[string][]string{"zoe": {"1"}}, ""},
		{map[string][]string{"anna": {"1"}, "ben": {"1"}}, map[string][]string{"zoe": {"1"}, "ben": {"1"}}, "zoe"},
		{map[string][]string{"anna": {"1"}, "ben": {"1"}}, map[string][]string{"zoe": {"1"}, "carl": {"1"}}, ""},
		{map[string][]string{"anna": {}}, map[string][]string{"zoe": {}}, ""},
		{map[string][]string{"anna": {"1"}}, map[string][]string{"anna": {"1"}, "zoe": {"1"}}, ""},
	} {
		if got := renamed(tt.old, tt.now)["anna"]; got != tt.want {
			t.Errorf("%v, then %v: anna is called %q, want %q", tt.old, tt.now, got, tt.want)
		}
	}
}
