package policy

import (
	"errors"
	"testing"

	"shuultuur/filter"
)

// A contextual check may find something else each time.
type contextual struct{ *fake }

func (contextual) Contextual() {}

func TestASecondDeciderRecallsWhatItsChecksFound(t *testing.T) {
	rules := []Rule{{Name: "no", Action: "block", Category: cats("adult")}}
	asked := new([]string)
	same := list(map[filter.Stage][]string{filter.Name: {"adult"}})
	same.asked = asked
	failing := list(nil)
	failing.asked, failing.err = asked, map[filter.Stage]error{filter.Name: errors.New("it broke")}
	anna := filter.Client{User: "anna", Groups: []string{"pupils"}}
	for name, x := range map[string]struct {
		checks  [2]filter.Check
		clients [2]filter.Client
		asked   int
		blocked bool
	}{
		"the same check":             {[2]filter.Check{same, same}, [2]filter.Client{anna, anna}, 1, true},
		"for a client in no group":   {[2]filter.Check{same, same}, [2]filter.Client{anna, {User: "anna"}}, 2, true},
		"for another user":           {[2]filter.Check{same, same}, [2]filter.Client{anna, {User: "ben", Groups: anna.Groups}}, 2, true},
		"another check":              {[2]filter.Check{same, func() *fake { c := *same; return &c }()}, [2]filter.Client{anna, anna}, 2, true},
		"a check that knows more":    {[2]filter.Check{contextual{same}, contextual{same}}, [2]filter.Client{anna, anna}, 2, true},
		"a check that failed before": {[2]filter.Check{failing, failing}, [2]filter.Client{anna, anna}, 2, true},
	} {
		var memo filter.Memo
		for range 2 { // as for a further transaction
			*asked = nil
			memo.Forget()
			for i, c := range x.checks {
				tr := &filter.Transaction{Client: x.clients[i], Host: "www.example.com", Last: filter.Name}
				tr.Use(&memo)
				newEngine(t, rules, c).Decide(t.Context(), tr, filter.Name)
				if v := tr.Verdict; (v.Action == filter.Block) != x.blocked || len(tr.Findings) != 1 {
					t.Errorf("%s: decider %d says %v after %v", name, i, v.Action, tr.Findings)
				}
			}
			if len(*asked) != x.asked {
				t.Errorf("%s: checks were asked %v, want %d times", name, *asked, x.asked)
			}
		}
	}
}
