package system_test

import (
	"strings"
	"testing"
	"time"

	"shuultuur/admin"
	"shuultuur/admin/admintest"
	"shuultuur/admin/system"
)

func TestTheSystemPageNamesTheStateInWords(t *testing.T) {
	p := admintest.Nobody()
	p.System = &system.System{State: func() map[string]any { return nil }}
	for state, want := range map[string]string{"alone": "of this node alone", "shared": "shared with other nodes", "degraded": "Redis is lost"} {
		p.Health = func() system.Health { return system.Health{State: state, Started: "2026-03-04T05:06:07Z"} }
		page := admintest.Ask(admin.New(p), "GET", "/system", "text/html", "").Body.String()
		at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC).Local().Format("2006-01-02 15:04:05")
		if !strings.Contains(page, "<dd>"+want+"</dd>") || !strings.Contains(page, "<dd>"+at+"</dd>") {
			t.Errorf("%s: the page lacks %q or %s", state, want, at)
		}
	}
}
