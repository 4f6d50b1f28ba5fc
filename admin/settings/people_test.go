package settings

import (
	"net/netip"
	"slices"
	"testing"

	"shuultuur/event"
	"shuultuur/lib/setting"
)

// An address of ours is not the person's who uses this machine; a comment may say who somebody is.
func TestSettingsNamePeopleWhereTheKeysSaySo(t *testing.T) {
	const text = `listen: {proxy: 127.0.0.1:8080, admin: 10.0.0.1:8081} # the machine of anna
dns: {forward: {upstreams: [127.0.0.1]}, zones: {files: [{path: home.zone, clients: [10.0.0.1]}]}}
mail: {server: "smtp://127.0.0.1:25", from: anna@school.example}
identity:
  addresses: {anna: [10.0.0.1, 10.0.0.7]}
  groups:
    class: [ben, 10.0.0.7]
policies:
  - name: block
    users: [ben]
    rules: [{name: a rule, action: block}]
reports: [{every: week, mail: [anna@school.example]}]
state: {redis: {addresses: ["127.0.0.1:6379"]}}
`
	var known []setting.Key
	for _, path := range []string{"dns.zones.files.clients", "identity.addresses", "identity.groups", "policies.users", "reports.mail"} {
		known = append(known, setting.Key{Path: path, People: true})
	}
	keys := naming(append(known, setting.Key{Path: "policies.name"}))
	for _, c := range []struct {
		user, client string
		want         []string
	}{
		{"anna", "", []string{"identity.addresses.anna (line 5)", "listen (line 1)", "reports.mail (line 12)"}},
		{"ben", "", []string{"identity.groups.class (line 7)", "policies.users (line 10)"}},
		{"block", "", nil},
		{"", "127.0.0.1", nil},
		{"", "10.0.0.1", []string{"dns.zones.files.clients (line 2)", "identity.addresses.anna (line 5)"}},
		{"", "10.0.0.7", []string{"identity.addresses.anna (line 5)", "identity.groups.class (line 7)"}},
		{"carl", "10.0.0.9", nil},
	} {
		who := event.Person{Users: []string{c.user}}
		if a, err := netip.ParseAddr(c.client); err == nil {
			who.Clients = append(who.Clients, a)
		}
		got := placesOf(text, &who, keys)
		slices.Sort(got)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s%s: %q, want %q", c.user, c.client, got, c.want)
		}
	}
	if got := placesOf("{ anna", &event.Person{Users: []string{"anna"}}, keys); len(got) != 1 {
		t.Errorf("a text that cannot be read: %q", got)
	}
}
