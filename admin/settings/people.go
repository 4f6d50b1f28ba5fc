package settings

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"shuultuur/admin/web"
	"shuultuur/event"
	"shuultuur/lib/setting"
)

// Erase removes the former versions of the settings that name a person.
func (s *Settings) Erase(_ context.Context, who event.Person, dry bool) (int64, error) {
	text, err := s.Read()
	if err != nil {
		return 0, err
	}
	keys := s.naming()
	n, err := s.Versions.Erase(web.Tag(text), func(text string) bool { return len(placesOf(text, &who, keys)) > 0 }, who.In, dry)
	if places := placesOf(string(text), &who, keys); err == nil && len(places) > 0 {
		err = web.StillNamed{Err: fmt.Errorf("the settings in use name this person: %s; remove the name there, and erase again", strings.Join(places, ", "))}
	}
	return n, err
}

// naming returns the keys that name people; none where the types of the settings are not known.
func (s *Settings) naming() [][]string {
	if s.Empty == nil {
		return nil
	}
	return naming(setting.Keys(s.Empty()))
}

// namedIn returns where a text names a person or device.
func (s *Settings) namedIn(text []byte, name string) (places []string) {
	keys := s.naming()
	_ = setting.Walk(text, func(path []string, line int, value string, comment bool) { // the text could be read
		if comment || !strings.EqualFold(value, name) {
			return
		}
		if slices.ContainsFunc(keys, func(key []string) bool { return isUnder(path, key) }) {
			places = append(places, fmt.Sprintf("%s (line %d)", strings.Join(path, "."), line))
		}
	})
	return places
}

// These are the places where the settings name people, groups, and policies.
var (
	people = setting.Naming{
		Keys:   []string{"identity.addresses", "identity.client-ids"},
		Values: []string{"identity.groups", "policies.users", "policies.expect.as", "votes.automatic.who"},
	}
	groupNames = setting.Naming{
		Keys:   []string{"identity.groups"},
		Values: []string{"policies.groups", "policies.expect.as", "votes.automatic.who", "votes.automatic.groups", "portal.pac.groups", "alerts.to.groups", "reports.group"},
	}
	policyNames = setting.Naming{
		Keys:   []string{"dns.forward.policies"},
		Values: []string{"policies.base", "policies.expect.as", "pages.children", "portal.pac.policies"},
	}
)

// Rename returns the changes that give a person, or a group, another name wherever the settings name it. It
// is an error if they name it at a place that this does not know.
func (s *Settings) Rename(name, to string, group bool) ([]setting.Change, error) {
	text, err := s.Read()
	if err != nil {
		return nil, err
	}
	naming := &people
	if group {
		naming = &groupNames
	}
	changes, err := naming.Changes(text, name, to)
	if err != nil {
		return nil, err
	}
	after, err := setting.Edit(text, changes...)
	if err != nil {
		return nil, err
	}
	if places := s.namedIn(after, name); len(places) > 0 {
		return nil, fmt.Errorf("rules name %s, too: %s; write the new name there first", name, strings.Join(places, ", "))
	}
	return changes, nil
}

// renamePolicy returns the changes that give a policy another name, at its place among the policies and
// wherever the settings name it.
func renamePolicy(text []byte, place int, name, to string) ([]setting.Change, error) {
	changes, err := policyNames.Changes(text, name, to)
	return append(changes, setting.Change{Path: []any{"policies", place, "name"}, Value: to}), err
}

// naming returns the keys of settings under which people, devices and clients are named. An
// address elsewhere, such as under listen, or with a port, is that of a server.
func naming(all []setting.Key) (keys [][]string) {
	for i := range all {
		if all[i].People {
			keys = append(keys, strings.Split(all[i].Path, "."))
		}
	}
	return keys
}

// isUnder reports whether a path of keys and of names that somebody chose leads to a key or below
// it.
func isUnder(path, key []string) bool {
	for _, name := range path {
		if len(key) > 0 && name == key[0] {
			key = key[1:]
		}
	}
	return len(key) == 0
}

// placesOf returns where a text of settings names a person: in a comment, or in keys and values
// under the keys for people.
func placesOf(text string, who *event.Person, keys [][]string) (places []string) {
	err := setting.Walk([]byte(text), func(path []string, line int, value string, comment bool) {
		_, err := netip.ParseAddrPort(value)
		if err == nil || !who.In(value) || !comment && !slices.ContainsFunc(keys, func(key []string) bool { return isUnder(path, key) }) {
			return
		}
		if place := fmt.Sprintf("%s (line %d)", strings.Join(path, "."), line); !slices.Contains(places, place) {
			places = append(places, place)
		}
	})
	if err != nil && who.In(text) {
		places = append(places, "line 1")
	}
	return places
}
