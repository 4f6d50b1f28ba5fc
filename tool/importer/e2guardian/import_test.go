package e2guardian

import (
	"strings"
	"testing"

	"shuultuur/tool/importer/importertest"
)

func TestWhatIsMadeOfAConfiguration(t *testing.T) {
	importertest.Golden(t, "e2guardian", Import, nil)
}

// TestSizesAboveOurTotalsRaiseTheTotals: the settings of an import are good, and hold what the source
// held.
func TestSizesAboveOurTotalsRaiseTheTotals(t *testing.T) {
	for size, want := range map[string]string{"256": "held: 256KiB", "65536": "held: 64MiB", "200000": "held-total: 200000KiB", "1048576": "held-total: 1GiB"} {
		dir := importertest.Folder(t, map[string]string{
			"e2guardian.conf":   "filterip =\nfilterports = 8080\nmaxcontentfiltersize = " + size + "\nmaxcontentramcachescansize = 2000\n",
			"e2guardianf1.conf": "groupmode = 1\n",
		})
		got := importertest.Settings(t, "e2guardian", Import, dir)
		if size == "256" {
			want = "held: 2000KiB"
		}
		if !strings.Contains(got, want) || strings.Contains(want, "total") != strings.Contains(got, "held-total") {
			t.Errorf("%s KB: want %q in\n%s", size, want, got)
		}
	}
}
