package settings

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"shuultuur/admin/account"
	"shuultuur/check"
	"shuultuur/check/picture"
	"shuultuur/lib/setting"
	"shuultuur/policy"
)

// LockedSettings is the part of the settings that could undo a locked list: lists of
// pictures and policies.
type LockedSettings struct {
	Checks   check.Config
	Policies policy.Config
	// Inspected is the number of bytes of a body that checks see. A smaller number hides
	// pictures from them.
	Inspected setting.Size
}

// Keeps refuses settings that change the effect of a locked list of pictures,
// unless an owner makes the change: the list itself, the rules that name it and
// those before them, which clients the policies with such rules cover and how, and
// the policies before these, and how much of a body is inspected. Anything after them
// may change.
func (l *LockedSettings) Keeps(ctx context.Context, s *LockedSettings, lists []string) error {
	if who := account.Of(ctx); who == nil || who.Role >= account.Owner {
		return nil
	}
	var errs []error
	refuse := func(key, name string) {
		errs = append(errs, setting.At(key, fmt.Errorf("this changes what becomes of the locked list %q; only an owner may do that", name)))
	}
	for _, name := range slices.Sorted(slices.Values(lists)) {
		key := "checks.picture.hashes." + name
		if s.Checks.Picture == nil || s.Checks.Picture.Hashes[name] != l.Checks.Picture.Hashes[name] {
			refuse(key, name)
			continue
		}
		if s.Inspected != l.Inspected {
			refuse("proxy.inspected", name)
		}
		for i, was := range l.Policies[:lastWith(l.Policies, name)] {
			key := fmt.Sprintf("policies[%d]", i)
			if i >= len(s.Policies) {
				refuse("policies", name)
				break
			}
			is := s.Policies[i]
			n := lastNaming(was.Rules, name)
			if n == 0 { // such a policy must only exist for the same clients
				was.Rules, is.Rules = nil, nil
				if setting.Digest([]any{was.Name, was.Networks, was.Users, was.Groups, was.Schedule}) != setting.Digest([]any{is.Name, is.Networks, is.Users, is.Groups, is.Schedule}) {
					refuse(key, name)
				}
				continue
			}
			if len(is.Rules) < n || setting.Digest(was.Rules[:n]) != setting.Digest(is.Rules[:n]) {
				refuse(key+".rules", name)
				continue
			}
			was.Rules, is.Rules = nil, nil
			if setting.Digest(was) != setting.Digest(is) {
				refuse(key, name)
			}
		}
	}
	return errors.Join(errs...)
}

// lastWith returns the number of policies up to the last one that names a list.
func lastWith(all []policy.Policy, name string) int {
	for i := range slices.Backward(all) {
		if lastNaming(all[i].Rules, name) > 0 {
			return i + 1
		}
	}
	return 0
}

// lastNaming returns the number of rules up to the last one that names a list.
func lastNaming(rules []policy.Rule, name string) int {
	full := strings.ToLower(picture.Listed + name)
	names := func(c string) bool {
		return strings.TrimPrefix(strings.ToLower(c), "picture/picture/") == strings.TrimPrefix(full, "picture/") || strings.EqualFold(c, full)
	}
	for i := range slices.Backward(rules) {
		if slices.ContainsFunc(rules[i].Category, names) {
			return i + 1
		}
	}
	return 0
}
