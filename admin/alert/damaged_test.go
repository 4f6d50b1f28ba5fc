package alert

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
)

func TestDamagedAlertsBeginAnew(t *testing.T) {
	for name, text := range map[string]string{"emptied": "", "halved": `[{"id":"x","the`, "nothing in it": "[null]", "an object": "{}"} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "alerts.json")
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			d, err := OpenDesk(file, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			if all := d.All(); len(all) > 0 {
				t.Errorf("alerts: %v", all)
			}
			if set, _ := filepath.Glob(file + ".damaged-*"); len(set) != 1 {
				t.Errorf("set aside: %q", set)
			}
		})
	}
}
