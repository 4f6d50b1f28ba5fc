//go:build !small

package signature

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"shuultuur/lib/setting"
)

func TestCostsAreShownBesideThoseBeforeAReload(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.rules")
	if err := os.WriteFile(file, []byte(`alert http any any -> any any (http.uri; content:"/x"; sid:1;)`), 0o600); err != nil {
		t.Fatal(err)
	}
	var c *Check
	for n := range 3 { // no rule is tried between the second and the third
		next, err := New(Config{Rules: []setting.File{setting.File(file)}}, Parts{Previous: c, Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		c = next
		if n == 0 {
			judge(t, c, nil, "a", conversation{request: "GET /x HTTP/1.1\nHost: a.example\n\n"})
		}
	}
	rules, _ := c.Engine().Profiles()
	if len(rules) != 1 || rules[0].SID != 1 || rules[0].Checks != 0 || rules[0].Before == nil || rules[0].Before.Checks != 1 || rules[0].Before.Matches != 1 {
		t.Errorf("after the reload the profiles are %+v", rules)
	}
}
