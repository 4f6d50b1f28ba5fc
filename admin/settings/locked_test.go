package settings

import (
	"strings"
	"testing"

	"shuultuur/admin/account"
	"shuultuur/check/picture"
	"shuultuur/policy"
)

func TestOnlyAnOwnerChangesWhatALockedListDoes(t *testing.T) {
	of := func(rules ...string) *LockedSettings {
		s := &LockedSettings{Policies: policy.Config{{Name: "first"}, {Name: "pupils"}}}
		s.Checks.Picture = &picture.Config{}
		for _, name := range rules {
			s.Policies[0].Rules = append(s.Policies[0].Rules, policy.Rule{Name: name})
		}
		return s
	}
	larger := of("a")
	larger.Inspected = 7
	gone := of("a")
	gone.Checks.Picture = nil
	for name, c := range map[string]struct {
		is   *LockedSettings
		says string
	}{
		"the same":          {of("a"), ""},
		"another rule":      {of("b"), ""}, // no rule names the list
		"less is inspected": {larger, "proxy.inspected"},
		"the list is gone":  {gone, "checks.picture.hashes.csam"},
	} {
		for _, who := range []account.Who{{Name: "x", Role: account.Operator}, {Name: "y", Role: account.Owner}} {
			err := of("a").Keeps(account.With(t.Context(), &who), c.is, []string{"csam"})
			if refused := err != nil; refused != (c.says != "" && who.Role != account.Owner) || refused && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s, by %v: %v", name, who.Role, err)
			}
		}
	}
}
