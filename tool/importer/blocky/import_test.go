package blocky

import (
	"path/filepath"
	"strings"
	"testing"

	"shuultuur/tool/importer/importertest"
)

func TestWhatIsMadeOfAConfiguration(t *testing.T) {
	importertest.Golden(t, "blocky", Import, Rules)
}

// TestAListOfOneLineIsAFile: Blocky's own example names its allow list "whitelist.txt". Such a name
// is no host, and a ban in such a file counts.
func TestAListOfOneLineIsAFile(t *testing.T) {
	const groups = "\n  clientGroupsBlock: {default: [ads]}\n"
	for name, c := range map[string]struct {
		config, want, lacks string
		closes              int
	}{
		"a file beside the settings":         {"blocking:\n  denylists: {ads: [deny.txt]}" + groups, "category/blocked-ads", "", 0},
		"a file by its address":              {"blocking:\n  denylists: {ads: [\"file://deny.txt\"]}" + groups, "category/blocked-ads", "", 0},
		"a file that is not there":           {"blocking:\n  denylists: {ads: [gone.txt]}" + groups, "name: blocked-ads\n          action: block\n", "category/blocked-ads", 1},
		"an allow list that is not there":    {"blocking:\n  denylists: {ads: [deny.txt]}\n  allowlists: {ads: [gone.txt]}" + groups, "category/blocked-ads", "category/allowed-ads", 1},
		"a text of one line":                 {"blocking:\n  denylists:\n    ads:\n      - |\n        bad.example\n" + groups, "category/blocked-ads", "", 0},
		"allow lists alone refuse the rest":  {"blocking:\n  allowlists: {ads: [allow.txt]}" + groups, "name: others than of ads\n          action: block\n", "", 0},
		"an empty deny list refuses nothing": {"blocking:\n  denylists: {ads: [empty.txt]}\n  allowlists: {ads: [allow.txt]}" + groups, "category/allowed-ads", "action: block", 0},
	} {
		t.Run(name, func(t *testing.T) {
			dir := importertest.Folder(t, map[string]string{"config.yml": c.config, "deny.txt": "bad.example\n", "allow.txt": "good.example\n", "empty.txt": "# nothing yet\n"})
			settings, r := importertest.Run(t, "blocky", Import, filepath.Join(dir, "config.yml"))
			if !strings.Contains(settings, c.want) || c.lacks != "" && strings.Contains(settings, c.lacks) {
				t.Errorf("the settings have to contain %q and not %q:\n%s", c.want, c.lacks, settings)
			}
			if opened, closed := r.Opened.Count, r.Closed.Count; opened != 0 || closed != c.closes {
				t.Errorf("the import opens %d and closes %d, want 0 and %d", opened, closed, c.closes)
			}
		})
	}
}
