package gateway

import (
	"os"
	"strings"
	"testing"
	"time"

	"shuultuur/lib/wait/waittest"
	"shuultuur/policy"
)

// TestWhatWasDecidedFollowsANewName, and the way back: sites, time and pauses.
func TestWhatWasDecidedFollowsANewName(t *testing.T) {
	const text = `
listen: {proxy: 127.0.0.1:0, admin: 127.0.0.1:0}
identity: {addresses: {anna: [10.0.0.5], ben: [10.0.0.6]}}
policies: [{name: everyone, quotas: [{time: 30m}]}]
`
	file := folder(t, map[string]string{"shuultuur.yaml": text})
	g := serving(t, file)
	waittest.Until(t, "the gateway serves", func() bool { return g.engine.Load() != nil })
	now := time.Now()
	e := g.engine.Load()
	for _, who := range []string{"anna", "ben"} {
		if err := e.Decisions.Rule(policy.Decision{Who: who, Site: "bet.example", Block: true}, false, "test"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := e.Decisions.GiveTime("anna", 20, now, "test"); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Pauses.Set("anna", now.Add(time.Hour), now, "test"); err != nil {
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
	for _, name := range []string{"zoe", "anna"} {
		if err := os.WriteFile(file, []byte(strings.Replace(text, "anna", name, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := g.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := "site ben, site " + name + ", time " + name + ", pause " + name
		if got := has(); got != want {
			t.Errorf("with the name %s there are %s; want %s", name, got, want)
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
		{map[string][]string{"anna": {}}, map[string][]string{"zoe": {}}, ""},
		{map[string][]string{"anna": {"1"}}, map[string][]string{"anna": {"1"}, "zoe": {"1"}}, ""},
	} {
		if got := renamed(tt.old, tt.now)["anna"]; got != tt.want {
			t.Errorf("%v, then %v: anna is called %q, want %q", tt.old, tt.now, got, tt.want)
		}
	}
}
