package adguardhome

import (
	"path/filepath"
	"testing"

	"shuultuur/tool/importer/importertest"
)

func TestWhatIsMadeOfAConfiguration(t *testing.T) {
	importertest.Golden(t, "adguardhome", Import, Rules)
}

// TestAClientOfWhichAnIDIsLostIsNamedAsOpened: at that id it gets what everybody gets, which is no
// less only if it has no settings of its own.
func TestAClientOfWhichAnIDIsLostIsNamedAsOpened(t *testing.T) {
	for own, want := range map[string]int{
		"use_global_settings: true, use_global_blocked_services: true":                                      0,
		"use_global_settings: false, filtering_enabled: true, use_global_blocked_services: true":            3,
		"use_global_settings: true, use_global_blocked_services: false, blocked_services: {ids: [youtube]}": 3,
	} {
		dir := importertest.Folder(t, map[string]string{"AdGuardHome.yaml": "dns: {upstream_dns: [9.9.9.9]}\nclients: {persistent: [{name: kid, ids: [192.168.1.20, 'aa:bb:cc:dd:ee:ff'], " + own + "}]}\n"})
		if _, r := importertest.Run(t, "adguardhome", Import, filepath.Join(dir, "AdGuardHome.yaml")); r.Status() != want {
			t.Errorf("%s: the status is %d, want %d", own, r.Status(), want)
		}
	}
}
