package policy

import (
	"net/netip"
	"strings"
	"testing"

	"shuultuur/filter"
)

func TestARuleLeavesHostsAlone(t *testing.T) {
	for name, test := range map[string]struct {
		rule Rule
		host string
		want filter.Action
	}{
		"none":                      {Rule{}, "a.example", filter.Block},
		"the host":                  {Rule{Except: []string{"a.example"}}, "a.example", filter.Pass},
		"in other letters":          {Rule{Except: []string{"A.Example"}}, "a.example", filter.Pass},
		"one below it":              {Rule{Except: []string{"a.example"}}, "www.a.example", filter.Pass},
		"another":                   {Rule{Except: []string{"a.example"}}, "ba.example", filter.Block},
		"one of several":            {Rule{Except: []string{"b.example", "a.example"}}, "a.example", filter.Pass},
		"below a host that it asks": {Rule{Host: []string{"example"}, Except: []string{"a.example"}}, "a.example", filter.Pass},
		"others of that host":       {Rule{Host: []string{"example"}, Except: []string{"a.example"}}, "b.example", filter.Block},
		"a host that it never asks": {Rule{Host: []string{"other.example"}, Except: []string{"b.example"}}, "a.example", filter.Pass},
	} {
		test.rule.Name, test.rule.Action = "r", "block"
		e := newEngine(t, []Rule{test.rule, {Name: "last", Action: "allow", Host: []string{"never.example"}}})
		x := &filter.Transaction{Client: filter.Client{Addr: netip.MustParseAddr("10.0.0.1")}, Host: test.host, URL: "http://" + test.host + "/", Last: filter.Name}
		if e.Decide(t.Context(), x, filter.Name); x.Verdict.Action != test.want {
			t.Errorf("%s: %v, want %v", name, x.Verdict.Action, test.want)
		}
	}
	for host, want := range map[string]string{"*": "never match", "a b": "is not a host"} {
		_, err := New(Config{{Name: "p", Rules: []Rule{{Name: "r", Action: "block", Except: []string{host}}}}}, nil, Parts{})
		if err == nil || !strings.HasPrefix(err.Error(), "[0].rules[0].except") || !strings.Contains(err.Error(), want) {
			t.Errorf("except %q: %v", host, err)
		}
	}
}

// TestARuleSaysWhatPeopleRead: only where it refuses or warns.
func TestARuleSaysWhatPeopleRead(t *testing.T) {
	for action, want := range map[string]string{"block": "No games now.", "warn": "No games now.", "allow": "", "monitor": ""} {
		e := newEngine(t, []Rule{{Name: "r", Action: action, Text: " No games now.\n"}})
		x := &filter.Transaction{Client: filter.Client{Addr: netip.MustParseAddr("10.0.0.1")}, Host: "a.example", URL: "http://a.example/", Last: filter.Name}
		if e.Decide(t.Context(), x, filter.Name); x.Verdict.Text != want {
			t.Errorf("%s: it says %q, want %q", action, x.Verdict.Text, want)
		}
	}
	_, err := New(Config{{Name: "p", Rules: []Rule{{Name: "r", Action: "block", Text: strings.Repeat("x", 1001)}}}}, nil, Parts{})
	if err == nil || !strings.HasPrefix(err.Error(), "[0].rules[0].text: ") {
		t.Errorf("a long text: %v", err)
	}
}
