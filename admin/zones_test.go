package admin

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shuultuur/check"
	"shuultuur/check/phrase"
	"shuultuur/setting"
	"shuultuur/zone"
	"shuultuur/zone/authority"
)

const firstZone = "$TTL 300\n@ SOA ns hostmaster 1 3600 600 86400 300\n@ NS ns\nns A 192.0.2.1\nwww A 192.0.2.2\n"

// zoneOf serves a zone from a file.
func zoneOf(t *testing.T, origin, text string) func() *authority.Authority {
	t.Helper()
	file := filepath.Join(t.TempDir(), "a.zone")
	if err := os.WriteFile(file, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
	a, err := authority.New(authority.Config{Files: zone.Config{Files: []zone.File{{Path: setting.Source(file), Origin: origin}}}}, nil,
		func() authority.Upstream { return nil }, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return func() *authority.Authority { return a }
}

func TestOddLinesOfPhraseListsAreShown(t *testing.T) {
	p := nobody()
	p.Checks = func() *check.Set {
		return &check.Set{Remarks: []phrase.Remark{{File: "lists/weighted", Line: 7, Text: "is <odd>", Mend: "<a><10>"}}}
	}
	h := New(p)
	if w := ask(h, "GET", "/checks", "text/html", ""); w.Code != 200 || !strings.Contains(w.Body.String(), "lists/weighted:7") || !strings.Contains(w.Body.String(), "is &lt;odd&gt;") {
		t.Errorf("the page of checks: status %d, %s", w.Code, w.Body)
	}
	var d checksData
	w := ask(h, "GET", "/checks", "application/json", "")
	if err := json.Unmarshal(w.Body.Bytes(), &d); err != nil || len(d.Remarks) != 1 || d.Remarks[0].Line != 7 {
		t.Errorf("GET /checks as JSON: %v, %s", err, w.Body)
	}
}
