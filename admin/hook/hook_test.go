package hook

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"shuultuur/test/peer"
)

func TestTheProgramBesideTheSettingsRunsAfterASave(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "shuultuur.yaml")
	if err := Run(t.Context(), file, "olga", "why"); err != nil {
		t.Errorf("Saved without a program: %v", err)
	}
	write := func(mode os.FileMode, script string) {
		t.Helper()
		if err := os.WriteFile(Path(file), []byte("#!/bin/sh\n"+script), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(Path(file), mode); err != nil {
			t.Fatal(err)
		}
	}
	write(0o755, `printf '%s|%s|%s' "$1" "$SHUULTUUR_BY" "$SHUULTUUR_REASON" > told`)
	if err := Run(t.Context(), file, "olga at 10.0.0.1", "more; touch evil\n$(touch evil)\x00"); err != nil {
		t.Fatal(err)
	}
	if written, err := os.ReadFile(filepath.Join(dir, "told")); err != nil || string(written) != "shuultuur.yaml|olga at 10.0.0.1|more; touch evil $(touch evil)" {
		t.Errorf("the program got %q, %v", written, err)
	}
	for name, c := range map[string]struct {
		mode         os.FileMode
		script, want string
	}{
		"one that fails":       {0o755, "echo no room >&2; exit 3", "no room"},
		"one that says a lot":  {0o755, "yes | head -c 100000; exit 1", "exit status 1"},
		"one that is no file":  {0o644, "", "chmod 755"},
		"one others may write": {0o777, "", "others may write"},
	} {
		write(c.mode, c.script)
		if err := Run(t.Context(), file, "", ""); err == nil || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 3000 {
			t.Errorf("a program that %s: %v", name, err)
		}
	}
}

// TestGitKeepsEachVersion runs the program that the manual shows.
func TestGitKeepsEachVersion(t *testing.T) {
	peer.Program(t, "git")
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	file := filepath.Join(dir, "shuultuur.yaml")
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %s: %v: %s", args, err, out)
		}
		return string(out)
	}
	git("init", "-q")
	script := "#!/bin/sh\ngit add \"$1\" && git -c user.name=shuultuur -c user.email=filter@school.example \\\n\tcommit -q -m \"${SHUULTUUR_REASON:-saved}\" -m \"by $SHUULTUUR_BY\"\n"
	if err := os.WriteFile(Path(file), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, reason := range []string{"open the library", ""} {
		if err := os.WriteFile(file, []byte("# "+reason+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := Run(t.Context(), file, "olga", reason); err != nil {
			t.Fatal(err)
		}
	}
	if log := git("log", "--format=%s|%b"); log != "saved|by olga\n\nopen the library|by olga\n\n" {
		t.Errorf("git log prints %q", log)
	}
}
