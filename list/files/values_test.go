package files

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestShortListsOfE2guardianAreReadWithWhatTheyInclude(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "lists")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"ext":    "# archives\n.zip\nTAR.gz # and this\n.\n*.exe\n.Include<" + filepath.Join(dir, "more") + ">\n",
		"more":   ".msi\n.zip\n",
		"mime":   "application/x-msdownload\nimage/*\nimage\n*/*\n",
		"search": "girls+Naked\nwarez\n+++\na b c d e\n",
		"timed":  "#time: 8 0 16 0 01234\n.mp3\n",
		"out":    ".Include</etc/passwd>\n.mp4\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		file, kind string
		want       []string
		problems   []string
	}{
		{"ext", Extensions, []string{"zip", "tar.gz", "msi"}, []string{"ext:4", "ext:5"}},
		{"mime", MediaTypes, []string{"application/x-msdownload", "image/*"}, []string{"mime:3", "mime:4"}},
		{"search", Searches, []string{"girls naked", "naked girls", "warez"}, []string{"search:3", "search:4"}},
		{"timed", Extensions, []string{"mp3"}, []string{"timed:0"}},
		{"out", Extensions, []string{"mp4"}, []string{"out:1"}},
	} {
		v, err := ReadValues(filepath.Join(dir, tt.file), tt.kind)
		if err != nil {
			t.Fatal(err)
		}
		var problems []string
		for _, p := range v.Problems {
			problems = append(problems, fmt.Sprintf("%s:%d", filepath.Base(p.File), p.Line))
		}
		if d := cmp.Diff(tt.want, v.Values); d != "" {
			t.Errorf("%s: values differ (-want +got): %s", tt.file, d)
		}
		if d := cmp.Diff(tt.problems, problems); d != "" {
			t.Errorf("%s: problems differ (-want +got): %s%v", tt.file, d, v.Problems)
		}
	}
	if _, err := ReadValues(filepath.Join(dir, "none"), Extensions); err == nil {
		t.Error("ReadValues of a missing file returned no error")
	}
}
