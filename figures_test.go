package shuultuur

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// measured returns how many times a peer's work the gateway does, as the section of docs/benchmarks.md
// says it in the sentence that the pattern finds.
func measured(t *testing.T, page, section, pattern string) string {
	t.Helper()
	_, rest, ok := strings.Cut(page, "\n### "+section)
	text, _, _ := strings.Cut(rest, "\n### ")
	found := regexp.MustCompile(pattern + ` ([\d.]+)×`).FindStringSubmatch(text)
	if !ok || found == nil {
		t.Fatalf("docs/benchmarks.md: the section %q does not say %q", section, pattern)
	}
	times, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	if times >= 10 {
		return fmt.Sprintf("%.0f ×", times)
	}
	return fmt.Sprintf("%.1f ×", times)
}

// TestTablesOfTheREADMEHaveTheFiguresOfTheBenchmarks: the README promises what the last run of all
// benchmarks measured, and says when and on what.
func TestTablesOfTheREADMEHaveTheFiguresOfTheBenchmarks(t *testing.T) {
	text, err := os.ReadFile("docs/benchmarks.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	run := regexp.MustCompile(`(?m)^Commit [0-9a-f]{7,40}, (\d{4}-\d\d-\d\d) [\d:]+ UTC\. ([^,]+),`).FindStringSubmatch(page)
	if run == nil {
		t.Fatal("docs/benchmarks.md does not begin with its commit, day and processor")
	}
	var rows strings.Builder
	fmt.Fprintf(&rows, "On one core, side by side in one run, medians (%s, %s); [docs/benchmarks.md](docs/benchmarks.md) has all tables, the commands that repeat them, and what we lose:\n\n| work | against | ratio |\n|--|--|--:|\n", run[1], run[2])
	row := func(work, against string, ratio ...string) {
		fmt.Fprintf(&rows, "| %s | %s | %s |\n", work, against, strings.Join(ratio, " · "))
	}
	row("pages per CPU second, every word judged with e2guardian's own lists", "e2guardian 5.3.5",
		measured(t, page, "Filtered pages, identity", `e2guardian's pages/s per core:`))
	names := "names refused, cached and asked for upstream"
	row("refused names per CPU second, with a list of a million domains", "Unbound · dnsmasq",
		measured(t, page, names, `unbound for each second of the server's processor, refused:`), measured(t, page, names, `dnsmasq for each second of the server's processor, refused:`))
	row("responses per CPU second behind a proxy that asks by ICAP", "e2guardian's ICAP server",
		measured(t, page, "ICAP: responses", `e2guardian for pages a core \(by processor time, within a round\):`))
	follows(t, "README.md", "## Three figures\n\n", "\n## ", rows.String())
}

// TestAReleaseNeedsFiguresOfItsOwn: a page of figures that is old, or of a commit since which what
// it measures was changed, ends a release; a preview goes on.
func TestAReleaseNeedsFiguresOfItsOwn(t *testing.T) {
	script, err := filepath.Abs("dist/figures.sh")
	if err != nil {
		t.Fatal(err)
	}
	tree := t.TempDir()
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir = tree
		cmd.Env = append(os.Environ(), "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v: %s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	write := func(name, text string) {
		t.Helper()
		file := filepath.Join(tree, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	commit := func() string {
		t.Helper()
		run("git", "add", "-A")
		run("git", "commit", "-qm", "state")
		return run("git", "rev-parse", "--short", "HEAD")
	}
	run("git", "init", "-q")
	write("content/a.go", "package content\n")
	first := commit()
	write("content/a_test.go", "package content\n")
	write("admin/b.go", "package admin\n")
	beside := commit()
	write("content/a.go", "package content // changed\n")
	changed := commit()
	today := run("date", "-u", "+%Y-%m-%d")
	long := run("date", "-u", "-d", "-31 days", "+%Y-%m-%d")
	for _, c := range []struct {
		name, at, page, version string
		refused                 string
	}{
		{"of this commit", changed, "Commit " + changed + ", " + today + " 01:00 UTC. P, 2 cores", "1.2.3", ""},
		{"of a commit since which tests and other rooms changed", beside, "Commit " + first + ", " + today + " 01:00 UTC. P, 2 cores", "1.2.3", ""},
		{"of a commit since which what it measures changed", changed, "Commit " + first + ", " + today + " 01:00 UTC. P, 2 cores", "1.2.3", "content/a.go"},
		{"the same for a preview", changed, "Commit " + first + ", " + today + " 01:00 UTC. P, 2 cores", "1.2.3-rc.1", ""},
		{"the same past a tag", changed, "Commit " + first + ", " + today + " 01:00 UTC. P, 2 cores", "1.2.3-4-gabcdef0", ""},
		{"of another month", changed, "Commit " + changed + ", " + long + " 01:00 UTC. P, 2 cores", "1.2.3", "older than 30 days"},
		{"of a tree with changes", changed, "Commit " + changed + "-dirty, " + today + " 01:00 UTC. P, 2 cores", "1.2.3", "no commit"},
		{"of an unknown commit", changed, "Commit 0123456789ab, " + today + " 01:00 UTC. P, 2 cores", "1.2.3", "0123456789ab"},
		{"without a commit", changed, "# Benchmarks", "1.2.3", "no commit"},
		{"missing", changed, "", "1.2.3", "no commit"},
	} {
		run("git", "checkout", "-q", c.at)
		if write("docs/benchmarks.md", c.page+"\n"); c.page == "" {
			run("rm", "docs/benchmarks.md")
		}
		cmd := exec.Command("sh", script, c.version)
		cmd.Dir = tree
		out, err := cmd.CombinedOutput()
		if refused := err != nil; refused != (c.refused != "") || !strings.Contains(string(out), c.refused) {
			t.Errorf("%s: %v: %s, want a refusal with %q", c.name, err, out, c.refused)
		}
	}
}
