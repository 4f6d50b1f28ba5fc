package identity

import (
	"net/netip"
	"strings"
	"testing"
)

// TestAFieldOfTheClientDoesNotCount: what comes twice may be the client's own. For users it
// names nobody, and groups are unknown then, not those of both.
func TestAFieldOfTheClientDoesNotCount(t *testing.T) {
	id, err := New(Config{Headers: Headers{User: []string{"X-User", "X-Login"}, Groups: []string{"X-Groups", "X-Roles"}}}, Parts{})
	if err != nil {
		t.Fatal(err)
	}
	type fields map[string][]string
	for name, tt := range map[string]struct {
		fields  fields
		user    string
		groups  string
		unknown bool
		note    string
	}{
		"none":                {fields{}, "", "", false, ""},
		"groups of nobody":    {fields{"X-Groups": {"staff"}}, "", "", false, ""},
		"user":                {fields{"X-User": {"anna"}}, "anna", "", false, ""},
		"the other field":     {fields{"X-Login": {"anna"}}, "anna", "", false, ""},
		"nobody and a user":   {fields{"X-User": {"-"}, "X-Login": {"anna"}}, "anna", "", false, ""},
		"both the same":       {fields{"X-User": {"anna"}, "X-Login": {"anna"}}, "anna", "", false, ""},
		"user twice":          {fields{"X-User": {"anna", "otto"}}, "", "", false, "X-User is there 2 times"},
		"same user twice":     {fields{"X-User": {"anna", "anna"}}, "", "", false, "X-User is there 2 times"},
		"twice and another":   {fields{"X-User": {"anna", "otto"}, "X-Login": {"otto"}}, "", "", false, "X-User is there 2 times"},
		"one of two twice":    {fields{"X-User": {"anna"}, "X-Login": {"otto", "otto"}}, "", "", false, "X-Login is there 2 times"},
		"users differ":        {fields{"X-User": {"anna"}, "X-Login": {"otto"}}, "", "", false, "X-Login differs"},
		"groups":              {fields{"X-User": {"anna"}, "X-Groups": {"pupils, choir"}}, "anna", "choir pupils", false, ""},
		"empty groups":        {fields{"X-User": {"anna"}, "X-Groups": {""}}, "anna", "", false, ""},
		"groups twice":        {fields{"X-User": {"anna"}, "X-Groups": {"staff", "pupils"}}, "anna", "", true, "X-Groups is there 2 times"},
		"empty, then groups":  {fields{"X-User": {"anna"}, "X-Groups": {"", "pupils"}}, "anna", "", true, "X-Groups is there 2 times"},
		"groups differ":       {fields{"X-User": {"anna"}, "X-Groups": {"pupils"}, "X-Roles": {"staff"}}, "anna", "", true, "X-Roles differs"},
		"groups in the other": {fields{"X-User": {"anna"}, "X-Roles": {"pupils"}}, "anna", "pupils", false, ""},
	} {
		c, note, ok := id.ForwardedClient(t.Context(), netip.MustParseAddr("10.0.0.1"), func(name string) []string { return tt.fields[name] })
		if ok != (tt.user != "") || c.User != tt.user || strings.Join(c.Groups, " ") != tt.groups || c.Unknown != tt.unknown {
			t.Errorf("%s: got %+v, %v", name, c, ok)
		}
		if got := note + c.Note; !strings.Contains(got, tt.note) || tt.note == "" && got != "" {
			t.Errorf("%s: the note is %q, want %q", name, got, tt.note)
		}
	}
}
