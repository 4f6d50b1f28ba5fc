package filter

import (
	"context"
	"net/netip"
	"reflect"
	"testing"
)

// stub is a check that finds nothing.
type stub struct{ name string }

func (s *stub) Name() string                 { return s.name }
func (*stub) Cost() Cost                     { return Cheap }
func (*stub) Categories() []Category         { return nil }
func (*stub) Wants(*Transaction, Stage) bool { return true }
func (*stub) Find(_ context.Context, _ *Transaction, _ Stage, dst []Finding) ([]Finding, error) {
	return dst, nil
}

// contextual is one whose findings depend on more than the body.
type contextual struct{ stub }

func (*contextual) Contextual() {}

// TestAMemoRecallsForTheSameClientAndEarlierFindings, and for nothing else.
func TestAMemoRecallsForTheSameClientAndEarlierFindings(t *testing.T) {
	early, late := Finding{Check: "early", Category: "a"}, Finding{Check: "late", Category: "b"}
	check, other := &stub{"a"}, &stub{"b"}
	var memo Memo
	x := &Transaction{Client: Client{Addr: netip.MustParseAddr("10.0.0.1"), User: "anna", Groups: []string{"pupils"}}}
	x.Use(&memo)
	x.Findings = []Finding{early, late}
	x.Memorise(check, Request, 1)
	recalled := func(change func(*Transaction), c Check, s Stage) ([]Finding, bool) {
		y := &Transaction{Client: Client{Addr: netip.MustParseAddr("10.0.0.1"), User: "anna", Groups: []string{"pupils"}}}
		y.Use(&memo)
		y.Findings = []Finding{early}
		change(y)
		return y.Recall(c, s)
	}
	same := func(*Transaction) {}
	if found, ok := recalled(same, check, Request); !ok || !reflect.DeepEqual(found, []Finding{late}) {
		t.Errorf("the memo recalls %v, %v; want %v", found, ok, late)
	}
	for name, try := range map[string]func() ([]Finding, bool){
		"another check": func() ([]Finding, bool) { return recalled(same, other, Request) },
		"another stage": func() ([]Finding, bool) { return recalled(same, check, Response) },
		"another user": func() ([]Finding, bool) {
			return recalled(func(y *Transaction) { y.Client.User = "ben" }, check, Request)
		},
		"no group": func() ([]Finding, bool) {
			return recalled(func(y *Transaction) { y.Client.Groups = nil }, check, Request)
		},
		"another address": func() ([]Finding, bool) {
			return recalled(func(y *Transaction) { y.Client.Addr = netip.Addr{} }, check, Request)
		},
		"no earlier finding": func() ([]Finding, bool) { return recalled(func(y *Transaction) { y.Findings = nil }, check, Request) },
		"no memo":            func() ([]Finding, bool) { return new(Transaction).Recall(check, Request) },
	} {
		if found, ok := try(); ok {
			t.Errorf("%s: the memo recalls %v, want nothing", name, found)
		}
	}
	memo.Forget()
	if _, ok := recalled(same, check, Request); ok {
		t.Error("the memo recalls after Forget")
	}
}

// TestAContextualCheckIsAskedEachTime: it may find something else for the same body.
func TestAContextualCheckIsAskedEachTime(t *testing.T) {
	var memo Memo
	x := new(Transaction)
	x.Use(&memo)
	x.Findings = []Finding{{Check: "contextual"}}
	c := new(contextual)
	x.Memorise(c, Request, 0)
	x.Findings = nil
	if found, ok := x.Recall(c, Request); ok {
		t.Errorf("the memo recalls %v of a contextual check", found)
	}
	new(Transaction).Memorise(new(stub), Request, 0) // without a memo nothing happens
}
