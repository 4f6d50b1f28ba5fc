package nextdns

import (
	"errors"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"shuultuur/tool/importer/importertest"
	"shuultuur/tool/importer/original"
)

func TestWhatIsMadeOfAConfiguration(t *testing.T) {
	importertest.Golden(t, "nextdns", Import, Rules)
}

// TestEntriesThatAreNamesAloneAreTaken: a profile whose lists hold text means the same as one whose
// lists hold objects.
func TestEntriesThatAreNamesAloneAreTaken(t *testing.T) {
	const objects = `{"security": {"tlds": [{"id": "zip"}]}, "privacy": {"blocklists": [{"id": "oisd"}], "natives": [{"id": "apple"}]},
		"parentalControl": {"services": [{"id": "tiktok"}], "categories": [{"id": "gambling"}]},
		"denylist": [{"id": "ads.example"}, {"id": "off.example", "active": false}], "allowlist": [{"id": "good.ads.example"}]}`
	read := func(text string) (settings, report string, rules original.Rules) {
		t.Helper()
		file := filepath.Join(importertest.Folder(t, map[string]string{"nextdns.json": text}), "nextdns.json")
		settings, r := importertest.Run(t, "nextdns", Import, file)
		var b strings.Builder
		rules, err := Rules(&original.Source{}, file)
		if err := errors.Join(err, r.Text(&b)); err != nil {
			t.Fatal(err)
		}
		return settings, b.String(), rules
	}
	names := regexp.MustCompile(`\{"id": ("[^"]*")\}`).ReplaceAllString(objects, "$1")
	want, _, wantRules := read(objects)
	got, report, rules := read(names)
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if !reflect.DeepEqual(rules, wantRules) {
		t.Errorf("the rules are %v, want %v", rules, wantRules)
	}
	if strings.Contains(report, "no counterpart") {
		t.Errorf("entries are lost:\n%s", report)
	}
}
