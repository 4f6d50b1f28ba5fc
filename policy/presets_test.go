package policy

import (
	"fmt"
	"strings"
	"testing"

	"shuultuur/filter"
	"shuultuur/lib/message"
	"shuultuur/policy/preset"
	"shuultuur/test/race"
)

func TestPresets(t *testing.T) {
	safe := Policy{SafeSearch: true}
	strict, moderate := Policy{YouTube: "strict"}, Policy{YouTube: "moderate"}
	tenants := Policy{Tenants: preset.Tenants{
		Microsoft: &preset.Microsoft{Allow: []string{"contoso.com", "fabrikam.com"}, Context: "id-1"},
		Google:    []string{"school.test"},
		Slack:     &preset.Slack{Allow: []string{"T1", "T2"}, Requester: "T1"},
		Dropbox:   []string{"7"},
	}}
	both := tenants
	both.SafeSearch = true
	tests := map[string]struct {
		policy     Policy
		host, path string
		want       string
	}{
		"nothing asked for":             {Policy{}, "www.google.com", "/search?q=x", ""},
		"another host":                  {safe, "example.com", "/search?q=x", ""},
		"Google":                        {safe, "www.google.com", "/search?q=x", "dial forcesafesearch.google.com; query safe=active"},
		"Google, another path":          {safe, "www.google.com", "/", "dial forcesafesearch.google.com"},
		"Google elsewhere":              {safe, "google.co.uk", "/search?q=x", "dial forcesafesearch.google.com; query safe=active"},
		"Google's mail":                 {safe, "mail.google.com", "/", ""},
		"a name like Google's":          {safe, "www.google.evil.com", "/search", ""},
		"Google in a tunnel":            {safe, "www.google.de", "", "dial forcesafesearch.google.com"},
		"Bing":                          {safe, "www.bing.com", "/images/search?q=x", "dial strict.bing.com; query adlt=strict"},
		"Bing below":                    {safe, "cn.bing.com", "/search?q=x", "query adlt=strict"},
		"DuckDuckGo":                    {safe, "duckduckgo.com", "/?q=x", "dial safe.duckduckgo.com; query kp=1"},
		"DuckDuckGo below":              {safe, "html.duckduckgo.com", "/html/?q=x", "query kp=1"},
		"Yahoo":                         {safe, "de.search.yahoo.com", "/search?p=x", "query vm=r"},
		"Yandex":                        {safe, "yandex.com.tr", "/search/?text=x", "dial familysearch.yandex.ru; query family=yes"},
		"Brave":                         {safe, "search.brave.com", "/search?q=x", "dial forcesafe.search.brave.com; query safesearch=strict"},
		"Ecosia":                        {safe, "www.ecosia.org", "/search?q=x", "dial strict-safe-search.ecosia.org"},
		"Startpage":                     {safe, "www.startpage.com", "/sp/search?query=x", "dial safe.startpage.com; query qadf=heavy"},
		"Pixabay":                       {safe, "pixabay.com", "/images/", "dial safesearch.pixabay.com"},
		"YouTube strict":                {strict, "www.youtube.com", "/", "dial restrict.youtube.com; set YouTube-Restrict: Strict"},
		"YouTube moderate":              {moderate, "youtubei.googleapis.com", "/", "dial restrictmoderate.youtube.com; set YouTube-Restrict: Moderate"},
		"YouTube off":                   {Policy{YouTube: "off"}, "www.youtube.com", "/", ""},
		"Microsoft":                     {tenants, "login.microsoftonline.com", "/", "set Restrict-Access-To-Tenants: contoso.com,fabrikam.com; set Restrict-Access-Context: id-1"},
		"Google's tenants":              {tenants, "mail.google.com", "/", "set X-GoogApps-Allowed-Domains: school.test"},
		"not in another country":        {tenants, "www.google.de", "/", ""},
		"Slack":                         {tenants, "app.slack.com", "/", "set X-Slack-Allowed-Workspaces-Requester: T1; set X-Slack-Allowed-Workspaces: T1,T2"},
		"Dropbox":                       {tenants, "www.dropbox.com", "/", "set X-Dropbox-allowed-Team-Ids: 7"},
		"tenants and SafeSearch":        {both, "www.google.com", "/search?q=x", "dial forcesafesearch.google.com; query safe=active; set X-GoogApps-Allowed-Domains: school.test"},
		"tenants and SafeSearch, alone": {both, "www.google.de", "/search?q=x", "dial forcesafesearch.google.com; query safe=active"},
		"tenants and SafeSearch, mail":  {both, "mail.google.com", "/", "set X-GoogApps-Allowed-Domains: school.test"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.policy.Name = "p"
			e := newEngineOf(t, Config{test.policy}, Parts{})
			tr := &filter.Transaction{Host: test.host}
			s := filter.Name
			if test.path != "" {
				tr.Request, tr.Last, s = &message.Request{Method: "GET", Path: []byte(test.path)}, filter.Response, filter.Request
			}
			e.Decide(t.Context(), tr, s)
			v := tr.Verdict
			var got []string
			for _, ed := range v.Edits {
				switch ed.Kind {
				case filter.DialHost:
					got = append(got, "dial "+ed.Value)
				case filter.SetQuery:
					got = append(got, fmt.Sprintf("query %s=%s", ed.Name, ed.Value))
				case filter.SetHeader:
					got = append(got, fmt.Sprintf("set %s: %s", ed.Name, ed.Value))
				}
			}
			if g := strings.Join(got, "; "); g != test.want {
				t.Errorf("edits are %q, want %q", g, test.want)
			}
			if n := testing.AllocsPerRun(100, func() {
				tr.Verdict = filter.Verdict{}
				e.Decide(t.Context(), tr, s)
			}); n != 0 && !race.On {
				t.Errorf("%v allocations per decision, want 0", n)
			}
		})
	}
}

func TestPresetsHoldForWhatIsAllowed(t *testing.T) {
	e := newEngineOf(t, Config{{Name: "p", SafeSearch: true, Rules: []Rule{{Name: "a", Action: "allow", Host: []string{"google.com"}}}}}, Parts{})
	tr, _ := page{host: "www.google.com", path: "/search?q=x"}.judge(t, e)
	if tr.Verdict.Action != filter.Allow || len(tr.Verdict.Edits) != 2 {
		t.Errorf("verdict %+v, want an allow with two edits", tr.Verdict)
	}
}

func TestParametersThatListsTakeOutBecomeEdits(t *testing.T) {
	tracked := &fake{name: "category", known: []filter.Category{{Name: "ads"}, {Name: "removeparam"}}, finds: map[filter.Stage][]filter.Finding{
		filter.Request: {{Check: "category", Category: "removeparam", Modifier: "removeparam=utm_source&fbclid"}},
	}}
	cfg := Config{{Name: "p", SafeSearch: true, Rules: []Rule{{Name: "ads", Action: "block", Category: cats("ads")}}}}
	e := newEngineOf(t, cfg, Parts{}, tracked)
	for range 2 { // additions to the policy's edits must not be there the next time
		tr, _ := page{host: "www.google.com", path: "/search?q=x&utm_source=y"}.judge(t, e)
		var dropped []string
		for _, d := range tr.Verdict.Edits {
			if d.Kind == filter.DropQuery {
				dropped = append(dropped, d.Name)
			}
		}
		if got := strings.Join(dropped, " "); got != "utm_source fbclid" || len(tr.Verdict.Edits) != 4 {
			t.Errorf("dropped parameters are %q in edits %+v", got, tr.Verdict.Edits)
		}
	}
}
