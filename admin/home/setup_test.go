package home_test

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"shuultuur/admin"
	"shuultuur/admin/admintest"
	"shuultuur/admin/home"
	"shuultuur/admin/lists"
	"shuultuur/admin/web"
)

func TestFirstStepsAreOfferedOnce(t *testing.T) {
	var got []home.Answers
	var offered *home.Setup
	p := admintest.Nobody()
	p.Setup = func() *home.Setup { return offered }
	h := admin.New(p)
	if w := admintest.Ask(h, "GET", "/setup?token=", "text/html", ""); w.Code != 403 {
		t.Errorf("the first steps when they are not offered: status %d, want 403", w.Code)
	}
	offered = &home.Setup{Token: "secret", Topics: []home.Topic{{Name: "ads", What: "Ads", Lists: []home.TopicList{{"easylist", "ads", "2 MB", "GPL-3.0"}}}},
		Write: func(_ context.Context, a home.Answers) (*home.SetUp, error) {
			if a.Contact == "nobody" {
				return nil, &web.BadChange{Err: errors.New("nobody cannot be asked")}
			}
			got = append(got, a)
			return &home.SetUp{File: "shuultuur.yaml", Steps: []string{"Open a page."}, Look: func(context.Context, netip.Addr) []home.SetupTest {
				return []home.SetupTest{{Text: "Port 53 is taken.", Bad: true}, {Text: "It is fetched.", Wait: true, Fetching: lists.FetchProgress{Done: 3 << 20, Total: 12 << 20}}}
			}}, nil
		}}
	const good = "token=secret&who=school&topic=ads&way=proxy&network=yes"
	for _, c := range []struct {
		method, path, form string
		status             int
		says               string
	}{
		{"GET", "/setup", "", 403, "not good"},
		{"GET", "/setup?token=guess", "", 403, "not good"},
		{"GET", "/setup?token=secret", "", 200, "GPL-3.0"},
		{"POST", "/setup", "who=school&way=both", 403, "not good"},
		{"POST", "/setup", "token=secret&who=zoo&way=both", 400, "who the network is for"},
		{"POST", "/setup", "token=secret&who=home&way=pigeon", 400, "how devices reach"},
		{"POST", "/setup", good + "&contact=nobody", 400, "nobody cannot be asked"},
		{"GET", "/setup/done", "", 404, "not found"},
		{"POST", "/setup", good, 303, ""},
		{"GET", "/setup/done", "", 200, "Port 53 is taken."},
		{"GET", "/setup/done", "", 200, `not yet</span> It is fetched. <span class="tag pass">3.0 MiB / 12.0 MiB, 25 %</span>`},
		{"POST", "/setup", good, 403, "used already"},
		{"GET", "/setup?token=secret", "", 403, "used already"},
	} {
		if w := admintest.Ask(h, c.method, c.path, "text/html", c.form); w.Code != c.status || !strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%s %s %s: status %d, want %d with %q: %s", c.method, c.path, c.form, w.Code, c.status, c.says, w.Body)
		}
	}
	if len(got) != 1 || got[0].Who != "school" || !got[0].Proxy || got[0].DNS || !got[0].Network || got[0].Certificate || !slices.Equal(got[0].Topics, []string{"ads"}) {
		t.Errorf("the answers are %+v", got)
	}
}
