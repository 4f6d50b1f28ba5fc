package e2guardian

import (
	"strings"
	"testing"

	"shuultuur/tool/importer/importertest"
)

// configured imports a small configuration with more lines and files.
func configured(t *testing.T, global, group string, files map[string]string) (settings, report string) {
	t.Helper()
	all := map[string]string{
		"e2guardian.conf":   "filterip = 127.0.0.1\nfilterports = 18080\nfiltergroups = 1\n" + global,
		"e2guardianf1.conf": "groupmode = 1\ngroupname = 'pupils'\nsitelist = 'name=banned,messageno=500,path=bannedsitelist'\n" + group,
		"bannedsitelist":    "bad.example\n",
	}
	for name, text := range files {
		all[name] = text
	}
	settings, r := importertest.Run(t, "e2guardian", Import, importertest.Folder(t, all))
	var text strings.Builder
	if err := r.Text(&text); err != nil {
		t.Fatal(err)
	}
	return settings, text.String()
}

func TestStoryboardsAreComparedWithTheShippedOnes(t *testing.T) {
	for name, tt := range map[string]struct {
		story            string
		settings, report []string
	}{
		"empty functions":   {"function(checkrequest)\nend()\n", nil, []string{"storyboard = 'own.story' → the order of rules"}},
		"a blanket block":   {"function(checkblanketblock)\n# all\nif(true,,502) return setblock\nend()\n", []string{"name: blanket block"}, []string{`rule "blanket block"`}},
		"blocked addresses": {"function(checkblanketblock)\nif(siteisip,,502) return setblock\nend()\n", []string{"name: addresses"}, []string{`rule "addresses"`}},
		"all is allowed":    {"function(checkrequest)\nif(true) return setexception\nend()\n", nil, []string{"everything would be allowed"}},
		"something else":    {"function(checkrequest)\nif(sitein, banned) return setgrey\nend()\n", nil, []string{"storyboards are not run"}},
		"an edited part":    {".Include<site.story>\n", nil, []string{"it is not the one of e2guardian 5.3.5"}},
		"an unknown part":   {".Include<mine.story>\n", nil, []string{"this one is not one that is shipped"}},
	} {
		settings, report := configured(t, "", "storyboard = 'own.story'\n", map[string]string{"own.story": tt.story, "site.story": "function(x)\nend()\n"})
		for _, want := range tt.settings {
			if !strings.Contains(settings, want) {
				t.Errorf("%s: the settings lack %q:\n%s", name, want, settings)
			}
		}
		for _, want := range tt.report {
			if !strings.Contains(report, want) {
				t.Errorf("%s: the report lacks %q:\n%s", name, want, report)
			}
		}
		if strings.Contains(settings, "action: allow") {
			t.Errorf("%s: a storyboard opens something:\n%s", name, settings)
		}
	}
	for global, want := range map[string]string{
		"preauthstoryboard = 'none.story'\n": "the file is not there", "preauthstoryboard = 'own.story'\n": "write what it allows as a rule",
	} {
		if _, report := configured(t, global, "", map[string]string{"own.story": "x\n"}); !strings.Contains(report, want) {
			t.Errorf("%s: the report lacks %q:\n%s", global, want, report)
		}
	}
	if _, report := configured(t, "", "storyboard = 'none.story'\n", nil); !strings.Contains(report, "the file is not there") {
		t.Errorf("a storyboard that is not there is not reported:\n%s", report)
	}
}

func TestUploadsAndTenantsBecomeRulesAndPresets(t *testing.T) {
	for line, want := range map[string]string{"maxuploadsize = 0\n": "no uploads", "maxuploadsize = 512\n": "large uploads", "maxuploadsize = -1\n": ""} {
		settings, _ := configured(t, line, "", nil)
		if want != "" && !strings.Contains(settings, want) || want == "" && strings.Contains(settings, "uploads") {
			t.Errorf("%s: want %q in\n%s", line, want, settings)
		}
	}
	settings, report := configured(t, "", "regexpreplacelist = 'name=addheader,path=headers'\nregexpreplacelist = 'name=change,path=headers'\n",
		map[string]string{"headers": "\"^https://.*google\\.com\"->\"X-GoogApps-Allowed-Domains: school.example\"\n\"(google.*)\"->\"$1&safe=active\"\n\"x\"->\"y\"\n"})
	if !strings.Contains(settings, "school.example") || !strings.Contains(settings, "safesearch: true") || !strings.Contains(report, "not rewritten by expressions") {
		t.Errorf("settings\n%s\nreport\n%s", settings, report)
	}
}
