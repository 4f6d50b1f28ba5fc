package exception_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"shuultuur/admin/account"
	"shuultuur/admin/admintest"
)

func TestAHelperPausesTheirOwnGroupsOnly(t *testing.T) {
	h := admintest.NewHouse(t)
	for who, want := range map[string]int{"7a": 200, "anna": 200, "10.0.0.1": 200, "": 403, "7b": 403, "ben": 403, "10.0.0.2": 403, "10.0.0.0/24": 403, "10.0.0.1/32": 403} {
		for _, long := range []string{"5m", "0s"} {
			h.Paused = nil
			w := h.Ask(account.Helper, "POST", "/pause", url.Values{"who": {who}, "for": {long}}.Encode())
			if w.Code != want || (len(h.Paused) == 1) != (want == 200) {
				t.Errorf("a helper pauses filtering for %q, %s: status %d, %s; paused %q", who, long, w.Code, w.Body, h.Paused)
			}
		}
	}
	if w := h.Ask(account.Operator, "POST", "/pause", "for=5m"); w.Code != 200 {
		t.Errorf("an operator pauses filtering for everybody: status %d, %s", w.Code, w.Body)
	}
	var seen []map[string]any
	for line := range strings.Lines(h.Ask(account.Helper, "GET", "/events", "").Body.String()) {
		var row map[string]any
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatal(err)
		}
		seen = append(seen, row)
	}
	if len(seen) != 1 || seen[0]["user"] != "anna" {
		t.Errorf("a helper sees the events %v, want only anna's", seen)
	}
	if got := h.Ask(account.Helper, "GET", "/statistics", "").Body.String(); strings.Contains(got, "b.example") || strings.Contains(got, "10.0.0.2") {
		t.Errorf("a helper sees the counts of others: %s", got)
	}
}
