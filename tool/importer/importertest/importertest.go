// Package importertest imports configurations in tests of the packages that read them.
package importertest

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/message"
	"shuultuur/tool/importer/build"
	"shuultuur/tool/importer/original"
	"shuultuur/tool/importer/report"
)

// Folder writes files into a new folder.
func Folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Run imports what is at a path, and returns the settings and the report.
func Run(t *testing.T, program string, read func(*build.Work, string) error, path string) (settings string, r *report.Report) {
	t.Helper()
	to := t.TempDir()
	abs, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	w := build.New(t.Context(), program, abs, to)
	if err := read(w, abs); err != nil {
		t.Fatal(err)
	}
	if err := w.Write(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(to, build.SettingsFile))
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(text), abs, "FROM"), w.Report
}

// Settings returns the settings alone.
func Settings(t *testing.T, program string, read func(*build.Work, string) error, path string) string {
	t.Helper()
	text, _ := Run(t, program, read, path)
	return text
}

// Golden imports the configuration in testdata, and compares the settings, the report and the
// decisions of the program's own rules with files in testdata/golden. With UPDATE_GOLDEN in the
// environment, it writes them.
func Golden(t *testing.T, program string, read func(*build.Work, string) error, rules func(*original.Source, string) (original.Rules, error)) {
	t.Helper()
	from := t.TempDir()
	if err := os.CopyFS(from, os.DirFS("testdata")); err != nil {
		t.Fatal(err)
	}
	settings, r := Run(t, program, read, from)
	var text strings.Builder
	if err := r.Text(&text); err != nil {
		t.Fatal(err)
	}
	compare(t, build.SettingsFile, settings)
	compare(t, "report.txt", clean(text.String(), from))
	if rules != nil {
		compare(t, "decisions.txt", clean(decisions(t, from, rules), from))
	}
}

// temporary matches folders of tests, which differ each time.
var temporary = regexp.MustCompile(`/[^ ":,]*/Test[A-Za-z]+[0-9]*/[0-9]{3}`)

func clean(text, from string) string {
	return temporary.ReplaceAllString(strings.ReplaceAll(text, from, "FROM"), "TO")
}

func compare(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", "golden", name)
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, now := strings.Split(string(want), "\n"), strings.Split(got, "\n")
	for i := range max(len(before), len(now)) {
		if i >= len(before) || i >= len(now) || before[i] != now[i] {
			t.Errorf("%s:%d differs: want %q, got %q", file, i+1, before[min(i, len(before)-1)], now[min(i, len(now)-1)])
			return
		}
	}
}

// decisions asks the rules about some names for some clients.
func decisions(t *testing.T, from string, rules func(*original.Source, string) (original.Rules, error)) string {
	t.Helper()
	s, err := original.Read(t.Context(), from, rules)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var b strings.Builder
	for _, u := range s.Unknown {
		fmt.Fprintln(&b, "unknown:", u)
	}
	for _, host := range []string{"www.ads.example", "good.ads.example", "games.example", "films.example", "tracker.example", "other.example", "192.0.2.9"} {
		for _, client := range []string{"192.168.1.9", "10.1.2.3", "192.168.2.200"} {
			x := &filter.Transaction{Start: time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC), Client: filter.Client{Addr: netip.MustParseAddr(client), User: "anna"}, URL: "http://" + host + "/play/?x=1", Host: host, Port: 80, Last: filter.Request}
			s.Decide(t.Context(), x, filter.Name)
			name := x.Verdict
			x.Verdict = filter.Verdict{}
			x.Request = &message.Request{Method: "GET", Path: []byte("/play/?x=1"), Scheme: "http"}
			s.Decide(t.Context(), x, filter.Request)
			fmt.Fprintf(&b, "%s %s: %v by %q, %v by %q\n", client, host, name.Action, name.Reason.Rule, x.Verdict.Action, x.Verdict.Reason.Rule)
		}
	}
	return b.String()
}
