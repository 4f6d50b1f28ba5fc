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
	keys := naming(s.Keys)
	n, err := s.Versions.Erase(web.Tag(text), func(text string) bool { return len(placesOf(text, &who, keys)) > 0 }, who.In, dry)
	if places := placesOf(string(text), &who, keys); err == nil && len(places) > 0 {
		err = web.StillNamed{Err: fmt.Errorf("the settings in use name this person: %s; remove the name there, and erase again", strings.Join(places, ", "))}
	}
	return n, err
}

// NamedByRules returns where the settings name a person or device, other than in its addresses and
// groups.
func (s *Settings) NamedByRules(name string) (places []string) {
	text, err := s.Read()
	if err != nil {
		return nil // whoever changes the settings hears of it
	}
	keys := naming(s.Keys)
	_ = setting.Walk(text, func(path []string, line int, value string, comment bool) {
		if comment || !strings.EqualFold(value, name) || len(path) > 1 && path[0] == "identity" && (path[1] == "addresses" || path[1] == "groups") {
			return
		}
		if slices.ContainsFunc(keys, func(key []string) bool { return isUnder(path, key) }) {
			places = append(places, fmt.Sprintf("%s (line %d)", strings.Join(path, "."), line))
		}
	})
	return places
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
