package datadir

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shuultuur/lib/atomicfile"
)

// A file that was set aside is a problem until somebody has deleted it.
func TestFilesThatWereSetAsideAreProblems(t *testing.T) {
	f := &Folder{Dir: t.TempDir()}
	for _, name := range []string{"accounts/sessions.json", "votes/counter.position", "events.db", "certificate/account.json", "cache/1.segment"} {
		file := filepath.Join(f.Dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		for _, ending := range []string{"", "-wal"} {
			if err := os.WriteFile(file+ending, []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if all := f.Problems(); len(all) > 0 {
			t.Errorf("problems before: %q", all)
		}
		if err := atomicfile.SetAside(file, "-wal", "-shm"); err != nil {
			t.Fatal(err)
		}
		for _, ending := range []string{"", "-wal"} {
			if _, err := os.Stat(file + ending); err == nil {
				t.Errorf("%s%s is still there", name, ending)
			}
		}
		all := f.Problems()
		if want := !strings.HasPrefix(name, "cache"); len(all) != 1 && want || len(all) > 0 && !strings.Contains(all[0], file) {
			t.Errorf("problems %q, want one about %s", all, name)
		}
		aside, err := filepath.Glob(file + ".damaged-*")
		if err != nil || len(aside) != 2 {
			t.Fatalf("set aside: %q, %v", aside, err)
		}
		for _, a := range aside {
			if err := os.Remove(a); err != nil {
				t.Fatal(err)
			}
		}
		if all := f.Problems(); len(all) > 0 {
			t.Errorf("problems when it is deleted: %q", all)
		}
	}
}
