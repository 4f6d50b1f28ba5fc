package settings_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"shuultuur/admin/admintest"
	"shuultuur/admin/settings"
	"shuultuur/admin/web"
)

const withServices = `policies:
  - name: pupils
    base: everyone
    quotas: [{service: roblox, time: 30m}]
    rules:
      - {name: library, action: allow, host: [library.example]}
      - {name: lessons, action: block, service: [discord], schedule: {hours: "08:00-15:00"}}
      - {name: maps, action: allow, service: [vimeo]}
  - name: everyone
    rules:
      - {name: services, action: block, service: [tiktok, snapchat]} # always
      - {name: counted, action: monitor, service: [youtube]}
`

func TestWhatAPolicyMakesOfServices(t *testing.T) {
	_, s := livePaper(t, withServices)
	for name, want := range map[string]map[string]string{
		"":       {"tiktok": "closed", "snapchat": "closed", "youtube": "open", "roblox": "open"},
		"pupils": {"tiktok": "closed from everyone", "discord": "partly", "roblox": "partly 30m", "vimeo": "allowed", "youtube": "open"},
	} {
		w := admintest.Ask(s, "GET", "/services?"+url.Values{"name": {name}}.Encode(), "", "")
		var all []settings.ServiceView
		if err := json.Unmarshal(w.Body.Bytes(), &all); err != nil || len(all) < 80 {
			t.Fatalf("status %d, %d services, %v", w.Code, len(all), err)
		}
		for _, v := range all {
			got := strings.TrimSpace(v.State + " " + v.Daily)
			if v.From != "" {
				got += " from " + v.From
			}
			if is, asked := want[v.ID]; asked && got != is {
				t.Errorf("policy %q makes %s %q, want %q", name, v.ID, got, is)
			}
		}
	}
	page := admintest.Ask(s, "GET", "/services?name=pupils", "text/html", "").Body.String()
	for _, want := range []string{`name="close" value="youtube" aria-pressed="false"`, `name="close" value="discord" aria-pressed="mixed"`, "closed by everyone", "30m a day", "always open"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if strings.Contains(page, `value="tiktok"`) {
		t.Error("the page offers to open what the base closes")
	}
	if w := admintest.Ask(s, "GET", "/services?name=nobody", "", ""); w.Code != 400 {
		t.Errorf("a policy that is not there: status %d, want 400", w.Code)
	}
}

func TestServicesAreClosedAndOpened(t *testing.T) {
	for name, c := range map[string]struct{ form, old, with string }{
		"one more":                 {"policy=1&close=youtube", "[tiktok, snapchat]", "[tiktok, snapchat, youtube]"},
		"two, one of them already": {"policy=1&close=tiktok&close=twitch", "[tiktok, snapchat]", "[tiktok, snapchat, twitch]"},
		"the first":                {"policy=0&close=youtube&close=twitch", "      - {name: library,", "      - {name: \"services of pupils\", action: block, service: [youtube, twitch]}\n      - {name: library,"},
		"all of a kind":            {"policy=1&close=kind/adult&close=twitch", "[tiktok, snapchat]", "[tiktok, snapchat, onlyfans, twitch]"},
		"open":                     {"policy=1&open=tiktok", "[tiktok, snapchat]", "[snapchat]"},
		"open all":                 {"policy=1&open=tiktok&open=snapchat", "      - {name: services, action: block, service: [tiktok, snapchat]} # always\n", ""},
	} {
		p, s := livePaper(t, withServices)
		if w := admintest.Ask(s, "POST", "/services", "", c.form+"&tag="+web.Tag([]byte(p.Text))); w.Code != 200 {
			t.Errorf("%s: status %d, %s", name, w.Code, w.Body)
		}
		if want := strings.Replace(withServices, c.old, c.with, 1); p.Text != want {
			t.Errorf("%s: the settings are\n%s\nwant\n%s", name, p.Text, want)
		}
	}
	p, s := livePaper(t, withServices)
	for bad, want := range map[string]string{
		"policy=1&close=tiktok":              "they are so already",
		"policy=1&open=youtube":              "they are so already",
		"policy=0&open=tiktok":               "TikTok is closed by the rules of everyone, on which pupils builds",
		"policy=1&close=tictoc":              "there is no service",
		"policy=1&close=kind/nothing":        "give names of services",
		"policy=1":                           "give names of services",
		"policy=1&close=youtube&open=tiktok": "give names of services",
		"policy=2&close=youtube":             "give 0 to 1",
		"close=youtube":                      "give 0 to 1",
	} {
		if w := admintest.Ask(s, "POST", "/services", "", bad+"&tag="+web.Tag([]byte(p.Text))); w.Code != 400 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: status %d, %s, want 400 and %s", bad, w.Code, w.Body, want)
		}
	}
	if w := admintest.Ask(s, "POST", "/services", "", "policy=1&close=youtube&tag=old"); w.Code != 412 || p.Text != withServices {
		t.Errorf("a change with the tag of an older text: status %d, want 412", w.Code)
	}
}
