package shuultuur

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

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
