package build

import (
	"fmt"
	"slices"
	"strings"

	"shuultuur/check/service"
	"shuultuur/policy"
	"shuultuur/tool/importer/report"
)

// Services returns our names of the services that another filter blocks, and a note about those that
// the catalogue does not have. The caller completes the note.
func Services(ids []string) (ours []string, note *report.Note) {
	var unknown []string
	for _, id := range ids {
		if s, ok := service.Find(id); !ok {
			unknown = append(unknown, id)
		} else if !slices.Contains(ours, s.ID) {
			ours = append(ours, s.ID)
		}
	}
	const rule = "a rule that blocks them by service"
	switch {
	case len(unknown) == 0:
		return ours, report.Same(rule)
	case len(ours) == 0:
		return nil, report.ByHand("lists", fmt.Sprintf("the names of %s are not known: write a list of them, and a rule that blocks it", strings.Join(unknown, ", "))).Opening()
	}
	return ours, report.Differs(rule, fmt.Sprintf("the names of %s are not known: write a list of them, and name its category in the rule", strings.Join(unknown, ", "))).Opening()
}

// ServiceRule blocks services except at the times when they are permitted.
func ServiceRule(services []string, when policy.Schedule) policy.Rule {
	return policy.Rule{Name: "services", Action: "block", Service: services, Schedule: when}
}
