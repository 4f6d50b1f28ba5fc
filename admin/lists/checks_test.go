package lists_test

import (
	"encoding/json"
	"strings"
	"testing"

	"shuultuur/admin"
	"shuultuur/admin/admintest"
	"shuultuur/check"
	"shuultuur/check/phrase"
)

func TestOddLinesOfPhraseListsAreShown(t *testing.T) {
	p := admintest.Nobody()
	p.Checks = func() *check.Set {
		return &check.Set{Remarks: []phrase.Remark{{File: "lists/weighted", Line: 7, Text: "is <odd>", Mend: "<a><10>"}}}
	}
	h := admin.New(p)
	if w := admintest.Ask(h, "GET", "/checks", "text/html", ""); w.Code != 200 || !strings.Contains(w.Body.String(), "lists/weighted:7") || !strings.Contains(w.Body.String(), "is &lt;odd&gt;") {
		t.Errorf("the page of checks: status %d, %s", w.Code, w.Body)
	}
	var d struct{ Remarks []phrase.Remark }
	w := admintest.Ask(h, "GET", "/checks", "application/json", "")
	if err := json.Unmarshal(w.Body.Bytes(), &d); err != nil || len(d.Remarks) != 1 || d.Remarks[0].Line != 7 {
		t.Errorf("GET /checks as JSON: %v, %s", err, w.Body)
	}
}
