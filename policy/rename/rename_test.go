package rename

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"shuultuur/filter"
	"shuultuur/policy"
	"shuultuur/state"
)

// TestUseCountsOnWithAnotherName: a policy has another name, and what was used counts on, after a restart
// too. What another policy has used does not become anybody's.
func TestUseCountsOnWithAnotherName(t *testing.T) {
	of := func(name, user string) policy.Policy {
		p := policy.Policy{Name: name, Quotas: []policy.Quota{{Time: policy.Duration(time.Hour), Bytes: 1000}}}
		if user != "" {
			p.Users = []string{user}
		}
		return p
	}
	more := of("kids", "anna")
	more.Quotas[0].Time = policy.Duration(2 * time.Hour)
	evening := of("kids", "anna")
	evening.Schedule = policy.Schedule{{Hours: "08:00-20:00"}}
	for name, tt := range map[string]struct {
		steps []policy.Config // the first is used for five minutes by anna
		want  int64
	}{
		"the same name":              {[]policy.Config{{of("pupils", "anna")}, {of("pupils", "anna")}}, 5},
		"another name":               {[]policy.Config{{of("pupils", "anna")}, {of("kids", "anna")}}, 5},
		"for everybody":              {[]policy.Config{{of("pupils", "")}, {of("kids", "")}}, 5},
		"another amount as well":     {[]policy.Config{{of("pupils", "anna")}, {more}}, 5},
		"twice":                      {[]policy.Config{{of("pupils", "anna")}, {of("kids", "anna")}, {of("children", "anna")}}, 5},
		"and back":                   {[]policy.Config{{of("pupils", "anna")}, {of("kids", "anna")}, {of("pupils", "anna")}}, 5},
		"back after two":             {[]policy.Config{{of("pupils", "anna")}, {of("kids", "anna")}, {of("children", "anna")}, {of("pupils", "anna")}}, 5},
		"at another place":           {[]policy.Config{{of("pupils", "anna"), of("all", "")}, {of("first", "ben"), of("kids", "anna"), of("all", "")}}, 5},
		"beside others":              {[]policy.Config{{of("pupils", "anna"), of("big", "ben")}, {of("kids", "anna"), of("bigger", "ben")}}, 5},
		"the name is somebody's now": {[]policy.Config{{of("pupils", "anna")}, {of("kids", "anna")}, {of("pupils", "ben"), of("kids", "anna")}}, 5},
		"a policy of that name":      {[]policy.Config{{of("pupils", "anna")}, {of("kids", "anna")}, {of("pupils", ""), of("kids", "ben")}}, 0},
		"for others":                 {[]policy.Config{{of("pupils", "anna")}, {of("kids", "ben"), of("all", "")}}, 0},
		"at other times":             {[]policy.Config{{of("pupils", "anna")}, {evening}}, 0},
		"nobody can tell which":      {[]policy.Config{{of("pupils", "anna")}, {of("kids", "anna"), of("children", "anna")}}, 0},
	} {
		test := func(t *testing.T) {
			y, m, d := time.Now().Date()
			time.Sleep(time.Until(time.Date(y, m, d+1, 12, 0, 0, 0, time.Local)))
			mem, err := state.New(state.Config{})
			if err != nil {
				t.Fatal(err)
			}
			defer mem.Close()
			file, anna, now := filepath.Join(t.TempDir(), "quotas.json"), filter.Client{User: "anna"}, time.Now()
			var e *policy.Engine
			for i, cfg := range tt.steps {
				names, err := Open(file) // as after a restart
				if err != nil {
					t.Fatal(err)
				}
				var decided policy.Decisions
				if e, err = policy.New(cfg, nil, policy.Parts{Counter: mem, Decisions: &decided}); err != nil {
					t.Fatal(err)
				}
				if err := names.Use(cfg, now, &decided); err != nil {
					t.Fatal(err)
				}
				if i > 0 {
					continue
				}
				used := &filter.Transaction{Start: now, Client: anna}
				used.BytesIn = 100
				for m := range int64(5) {
					used.Minutes.Add(filter.MinuteOf(now) + m)
				}
				e.Done(t.Context(), used)
			}
			_, left := e.Balance(t.Context(), "", &anna, now)
			if len(left) != 2 || left[0].Used != tt.want || left[1].Used != 20*tt.want {
				t.Errorf("used is %+v, want %d minutes", left, tt.want)
			}
		}
		t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
	}
}

// TestNamesOfTheDayEndWithIt: on the next day a renamed policy counts under its own name, with or without a
// restart.
func TestNamesOfTheDayEndWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem, err := state.New(state.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer mem.Close()
		names, err := Open("")
		if err != nil {
			t.Fatal(err)
		}
		var decided policy.Decisions
		anna := filter.Client{User: "anna"}
		engine := func(name string) (e *policy.Engine) {
			cfg := policy.Config{{Name: name, Quotas: []policy.Quota{{Time: policy.Duration(time.Hour)}}}}
			if e, err = policy.New(cfg, nil, policy.Parts{Counter: mem, Decisions: &decided}); err == nil {
				err = names.Use(cfg, time.Now(), &decided)
			}
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
		engine("pupils")
		e := engine("kids")
		time.Sleep(24 * time.Hour)
		e.Done(t.Context(), &filter.Transaction{Start: time.Now(), Client: anna})
		for range 2 {
			if _, left := e.Balance(t.Context(), "", &anna, time.Now()); left[0].Used != 1 {
				t.Errorf("%d minutes are used, want 1", left[0].Used)
			}
			e = engine("kids")
		}
	})
}

func TestADamagedFileIsAsGoodAsNone(t *testing.T) {
	file := filepath.Join(t.TempDir(), "quotas.json")
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	n, err := Open(file)
	if err == nil {
		t.Error("nothing says that the file is damaged")
	}
	if err := n.Use(policy.Config{{Name: "all", Quotas: []policy.Quota{{Bytes: 1}}}}, time.Now(), &policy.Decisions{}); err != nil {
		t.Error(err)
	}
	if n, err = Open(file); err != nil || len(n.kept.Covers) != 1 {
		t.Errorf("afterwards it has %+v, %v", n.kept, err)
	}
}
