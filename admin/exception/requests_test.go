package exception

import (
	"context"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"shuultuur/admin/web"
	"shuultuur/vote"
)

// TestARequestIsForWhoAskedUnlessSomebodyChoosesOtherwise: for one person, for the group of several, for
// everyone only where nothing narrower is known. Addresses have the names of their devices.
func TestARequestIsForWhoAskedUnlessSomebodyChoosesOtherwise(t *testing.T) {
	v := &Votes{Names: func(_ context.Context, addrs []netip.Addr) map[netip.Addr]string {
		names := map[netip.Addr]string{}
		for _, a := range addrs {
			if a == netip.MustParseAddr("10.0.0.1") {
				names[a] = "Anna’s iPad"
			}
		}
		return names
	}}
	everyone := web.Choice{Text: "for everyone"}
	only := func(value, name string) web.Choice { return web.Choice{Value: value, Text: "only for " + name} }
	for name, tt := range map[string]struct {
		c     vote.Case
		title string
		want  []web.Choice
	}{
		"a person": {vote.Case{Kind: "wrong", Host: "nasa.example", People: 1, Examples: []vote.Example{{Voter: "tuya", Groups: "5b"}}},
			"tuya asks to open nasa.example", []web.Choice{only("tuya", "tuya"), only("5b", "5b"), everyone}},
		"a device": {vote.Case{Kind: "wrong", Host: "nasa.example", People: 1, Examples: []vote.Example{{Voter: "10.0.0.1"}}},
			"Anna’s iPad asks to open nasa.example", []web.Choice{only("10.0.0.1", "Anna’s iPad"), everyone}},
		"a device without a name": {vote.Case{Kind: "wrong", Host: "nasa.example", People: 1, Examples: []vote.Example{{Voter: "10.0.0.9"}}},
			"10.0.0.9 asks to open nasa.example", []web.Choice{only("10.0.0.9", "10.0.0.9"), everyone}},
		"some of a group": {vote.Case{Kind: "wrong", Host: "nasa.example", People: 2, Examples: []vote.Example{{Voter: "tuya", Groups: "5b, chess"}, {Voter: "ali", Groups: "5b"}}},
			"tuya and others ask to open nasa.example", []web.Choice{only("5b", "5b"), everyone}},
		"some without a group": {vote.Case{Kind: "wrong", Host: "nasa.example", People: 2, Examples: []vote.Example{{Voter: "tuya", Groups: "5b"}, {Voter: "ali"}}},
			"tuya and others ask to open nasa.example", []web.Choice{everyone}},
		"to block": {vote.Case{Kind: "dangerous", Host: "bad.example", People: 1, Examples: []vote.Example{{Voter: "ali"}}},
			"ali asks to block bad.example", []web.Choice{only("ali", "ali"), everyone}},
		"more time": {vote.Case{Kind: "wrong", Host: "play.example", Check: "policy", Category: "quota", People: 1, Examples: []vote.Example{{Voter: "10.0.0.1", Groups: "5b"}}},
			"Anna’s iPad asks for 15 minutes more", []web.Choice{only("10.0.0.1", "Anna’s iPad"), only("5b", "5b")}},
		"more time at a site": {vote.Case{Kind: "wrong", Host: "play.example", Check: vote.Schedule, Category: "games", People: 1, Examples: []vote.Example{{Voter: "tuya"}}},
			"tuya asks for 15 minutes more", []web.Choice{only("tuya", "tuya"), everyone}},
		"without a vote": {vote.Case{Kind: "wrong", Host: "nasa.example"}, " asks to open nasa.example", []web.Choice{everyone}},
	} {
		q := v.requests(t.Context(), nil, []vote.Case{tt.c})[0]
		if diff := cmp.Diff(tt.want, q.Scopes); diff != "" || q.Title != tt.title {
			t.Errorf("%s: %q, scopes (-want +got):\n%s", name, q.Title, diff)
		}
	}
}
