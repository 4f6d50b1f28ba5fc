package zone

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReadsFilesWithIncludes(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{
		"a.zone":     "$ORIGIN example.com.\n$TTL 60\n@ SOA ns host 1 2 3 4 5\n@ NS ns\n$INCLUDE sub/b.zone\nlast (\n A\n 192.0.2.2 )\n",
		"sub/b.zone": "; nothing\nns A 192.0.2.1\n",
	}
	os.Mkdir(filepath.Join(dir, "sub"), 0o755)
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	z, err := ReadFile(filepath.Join(dir, "a.zone"), "")
	if err != nil {
		t.Fatal(err)
	}
	if z.Origin != "example.com." || len(z.Records) != 4 {
		t.Fatalf("Read: origin %q with %d records, want example.com. with 4", z.Origin, len(z.Records))
	}
	want := []string{"a.zone:3", "a.zone:4", "sub/b.zone:2", "a.zone:8"}
	for i, w := range want {
		if got := z.places[i].String(); got != filepath.Join(dir, w) {
			t.Errorf("record %d (%v) was read at %s, want %s", i, z.Records[i], got, w)
		}
	}
}

func TestReadNamesTheLine(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct{ text, want string }{
		{"@ SOA a b 1 2 3 4 5\nwww A 192.0.2.300\n", "z:2: bad A A"},
		{"@ SOA a b 1 2 3 4 5\n\n\nwww BOGUS x\n", "z:4: "},
		{"@ SOA a b 1 2 3 4 5\n$INCLUDE ../../etc/passwd\n", "z:2: failed to open"},
		{"@ SOA a b 1 2 3 4 5\n$INCLUDE z\n", "z:2: too deeply nested"},
	} {
		file := filepath.Join(dir, "z")
		if err := os.WriteFile(file, []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := ReadFile(file, "example.com.")
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Read(%q): got error %v, want %q", c.text, err, c.want)
		}
	}
	if _, err := Read(strings.NewReader("www 60 IN A 192.0.2.1\n"), "", "x"); err == nil {
		t.Error("Read accepted a zone without an origin")
	}
	if _, err := Read(strings.NewReader("$INCLUDE /etc/passwd\n"), "example.", ""); err == nil {
		t.Error("Read followed $INCLUDE in a text without a file name")
	}
}
