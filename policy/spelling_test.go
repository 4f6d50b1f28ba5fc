package policy

import (
	"net/netip"
	"testing"
	"time"

	"shuultuur/filter"
)

// TestNamesAreComparedWithoutCase: neither a user nor a group escapes a policy or a counter by
// another spelling.
func TestNamesAreComparedWithoutCase(t *testing.T) {
	e, err := New(Config{
		{Name: "anna", Users: []string{"Anna"}},
		{Name: "class", Groups: []string{"L3", "École"}},
		{Name: "everyone"},
	}, nil, Parts{})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ user, group, want string }{
		{"anna", "", "anna"}, {"ANNA", "", "anna"}, {"Anna", "", "anna"}, {"ann", "", "everyone"}, {"", "", "everyone"},
		{"ben", "l3", "class"}, {"ben", "L3", "class"}, {"ben", "école", "class"}, {"ben", "ÉCOLE", "class"}, {"ben", "l33", "everyone"}, {"ben", "", "everyone"},
	} {
		c := filter.Client{Addr: netip.MustParseAddr("192.0.2.1"), User: tt.user, Groups: []string{tt.group}}
		if got := e.Covers(&c, time.Now()); got != tt.want {
			t.Errorf("%q in %q has the policy %q, want %q", tt.user, tt.group, got, tt.want)
		}
	}
	l := limit{by: "user"}
	lower, upper := filter.Transaction{Client: filter.Client{User: "ben"}}, filter.Transaction{Client: filter.Client{User: "BEN"}}
	if l.counter(&lower, "") != l.counter(&upper, "") {
		t.Error("another spelling has a counter of its own")
	}
}
