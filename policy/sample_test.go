package policy

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shuultuur/content"
	"shuultuur/filter"
)

// TestABodyOnWhichACheckPanickedIsKept: once for each check, for its owner alone, and only if the
// settings have a folder.
func TestABodyOnWhichACheckPanickedIsKept(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "samples")
	for _, samples := range []string{"", folder} {
		var log strings.Builder
		e := newEngineOf(t, Config{{Name: "p", Rules: []Rule{{Name: "v", Action: "block", Category: cats("virus")}}}},
			Parts{Log: slog.New(slog.NewTextHandler(&log, nil)), Samples: samples},
			&fake{name: "virus", known: []filter.Category{{Name: "virus"}}, panics: true, wants: []filter.Stage{filter.ResponseBody}})
		for _, text := range []string{"the first " + strings.Repeat("x", 2*mostSample), "the second"} {
			tr := &filter.Transaction{Host: "a.example", Body: &content.Body{}}
			tr.Body.Reset(content.Describe("text/html", ""), content.Limits{})
			tr.Body.Append([]byte(text[:5]))
			tr.Body.Append([]byte(text[5:]))
			if f := e.failure(0, e.safeFind(t.Context(), tr, filter.ResponseBody, 0), tr, filter.ResponseBody); f.Category != "virus-error" {
				t.Errorf("the finding is %+v", f)
			}
			tr.Body.Release()
		}
		name := filepath.Join(folder, "virus")
		got, err := os.ReadFile(name)
		if samples == "" {
			if err == nil {
				t.Error("a body is kept without a folder")
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"check virus panicked: it broke", "engine_test.go", "text/html", "--- body, as received ---\nthe first xxx"} {
			if !strings.Contains(string(got), want) {
				t.Errorf("the sample lacks %q: %.300s", want, got)
			}
		}
		if len(got) > mostSample || strings.Contains(string(got), "the second") {
			t.Errorf("the sample has %d bytes, at most %d and the first body are wanted", len(got), mostSample)
		}
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the sample has the mode %v, want 0600 (%v)", info.Mode(), err)
		}
		if p := e.Problems(); len(p) != 1 || !strings.Contains(p[0], name) || !strings.Contains(log.String(), "sample="+name) {
			t.Errorf("neither problems nor log name the sample: %q, %s", p, log.String())
		}
	}
	// What has no body has no sample.
	e := newEngineOf(t, Config{{Name: "p", Rules: []Rule{{Name: "v", Action: "block", Category: cats("virus")}}}},
		Parts{Log: slog.New(slog.DiscardHandler), Samples: filepath.Join(folder, "none")}, &fake{name: "virus", known: []filter.Category{{Name: "virus"}}, panics: true, wants: []filter.Stage{filter.Name}})
	page{}.judge(t, e)
	if _, err := os.Stat(filepath.Join(folder, "none")); err == nil {
		t.Error("a folder was made although there is no body")
	}
}
