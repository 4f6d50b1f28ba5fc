package policy

import (
	"net/netip"
	"testing"
	"time"

	"shuultuur/filter"
)

// TestPolicyOfUnknownGroups: a client whose groups cannot be had gets the policy for such
// clients, else the strictest that may be its own, and never one that is laxer.
func TestPolicyOfUnknownGroups(t *testing.T) {
	block := func(hosts ...string) []Rule { return []Rule{{Name: "b", Action: "block", Host: hosts}} }
	pupils := Policy{Name: "pupils", Groups: []string{"pupils"}, Rules: block("games.example", "chat.example")}
	teachers := Policy{Name: "teachers", Groups: []string{"teachers"}}
	small := Policy{Name: "small", Groups: []string{"small"}, Rules: []Rule{{Name: "a", Action: "allow", Host: []string{"good.example"}}, {Name: "rest", Action: "block"}}}
	everyone := Policy{Name: "everyone"}
	strict := Policy{Name: "strict", Rules: block("games.example")}
	anna := Policy{Name: "anna", Users: []string{"anna"}}
	careful := Policy{Name: "careful", Unknown: true, Rules: []Rule{{Name: "all", Action: "block"}}}
	pupilsToo := pupils
	pupilsToo.Name, pupilsToo.Unknown = "pupils too", true
	for name, tt := range map[string]struct {
		policies Config
		groups   []string
		want     string // with unknown groups
		known    string // when they are known
	}{
		"no groups matter":        {Config{everyone}, nil, "everyone", "everyone"},
		"the stricter":            {Config{teachers, pupils, everyone}, nil, "pupils", "everyone"},
		"one refuses all":         {Config{teachers, pupils, small, everyone}, nil, "small", "everyone"},
		"everyone's is stricter":  {Config{teachers, strict}, nil, "strict", "strict"},
		"none covers for sure":    {Config{teachers}, nil, "teachers", ""},
		"a certain group first":   {Config{teachers, pupils, everyone}, []string{"teachers"}, "teachers", "teachers"},
		"a certain group later":   {Config{pupils, teachers, everyone}, []string{"teachers"}, "pupils", "teachers"},
		"by name":                 {Config{anna, pupils, everyone}, nil, "anna", "anna"},
		"by name, later":          {Config{pupils, anna, everyone}, nil, "pupils", "anna"},
		"a policy of its own":     {Config{teachers, pupils, everyone, careful}, nil, "careful", "everyone"},
		"the setting on a policy": {Config{small, pupilsToo, everyone}, nil, "pupils too", "everyone"},
		"only the setting":        {Config{careful}, nil, "careful", ""},
	} {
		e, err := New(tt.policies, nil, Parts{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		c := filter.Client{Addr: netip.MustParseAddr("192.0.2.1"), User: "anna", Groups: tt.groups, Unknown: true}
		if got := e.Covers(&c, time.Now()); got != tt.want {
			t.Errorf("%s: with unknown groups the policy is %q, want %q", name, got, tt.want)
		}
		c.Unknown = false
		if got := e.Covers(&c, time.Now()); got != tt.known {
			t.Errorf("%s: with known groups the policy is %q, want %q", name, got, tt.known)
		}
	}
}

// TestPolicyOfSomebody: who sends two names is not everyone, but may be anyone, also of those who have a
// policy by name.
func TestPolicyOfSomebody(t *testing.T) {
	named := Policy{Name: "named", Users: []string{"anna"}, Rules: []Rule{{Name: "all", Action: "block"}}}
	lax := Policy{Name: "lax", Users: []string{"otto"}}
	everyone := Policy{Name: "everyone", Rules: []Rule{{Name: "b", Action: "block", Host: []string{"games.example"}}}}
	for want, policies := range map[string]Config{
		"named":    {lax, named, everyone},
		"everyone": {lax, everyone},
	} {
		e, err := New(policies, nil, Parts{})
		if err != nil {
			t.Fatal(err)
		}
		c := filter.Client{Addr: netip.MustParseAddr("192.0.2.1"), Unknown: true}
		if got := e.Covers(&c, time.Now()); got != want {
			t.Errorf("somebody has the policy %q, want %q", got, want)
		}
		c.Unknown = false
		if got := e.Covers(&c, time.Now()); got != "everyone" {
			t.Errorf("nobody has the policy %q", got)
		}
	}
}
