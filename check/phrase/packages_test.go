package phrase

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"testing"

	"shuultuur/content"
	"shuultuur/filter"
)

// zipOf returns an archive in which each member says the word.
func zipOf(t *testing.T, names ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, name := range names {
		w, err := z.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte("def quayle(): pass")); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// tarOf does the same as a compressed tar.
func tarOf(t *testing.T, names ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	g := gzip.NewWriter(&b)
	w := tar.NewWriter(g)
	const text = "def quayle(): pass"
	for _, name := range names {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestWordsInSoftwarePackagesCountWhereAPolicyAsks(t *testing.T) {
	c := newCheck(t, testLists{weighted: "<quayle><50>"}, Config{})
	for _, x := range []struct {
		name, path string
		body       []byte
		free       bool
	}{
		{"wheel", "/six-1.16.0-py3-none-any.whl", zipOf(t, "six.py", "six-1.16.0.dist-info/METADATA", "six-1.16.0.dist-info/RECORD"), true},
		{"wheel under another name", "/download", zipOf(t, "six.py", "six-1.16.0.dist-info/METADATA"), true},
		{"egg", "/a.egg", zipOf(t, "a.py", "EGG-INFO/PKG-INFO"), true},
		{"jar", "/a.jar", zipOf(t, "META-INF/MANIFEST.MF", "a/B.java"), true},
		{"module of Go", "/golang.org/x/text/@v/v0.20.0.zip", zipOf(t, "golang.org/x/text@v0.20.0/LICENSE", "golang.org/x/text@v0.20.0/a/b.go"), true},
		{"crate", "/api/v1/crates/a/1.0.0/download", tarOf(t, "a-1.0.0/.cargo_vcs_info.json", "a-1.0.0/Cargo.toml", "a-1.0.0/src/lib.rs"), true},
		{"npm", "/a/-/a-1.0.0.tgz", tarOf(t, "package/index.js", "package/package.json"), true},
		{"source of Python", "/a-1.0.tar.gz", tarOf(t, "a-1.0/a.py", "a-1.0/PKG-INFO"), true},
		{"NuGet", "/a.nupkg", zipOf(t, "a.nuspec", "lib/a.cs"), true},
		{"stories", "/stories.zip", zipOf(t, "one.txt", "two.html"), false},
		{"stories called a wheel", "/stories.whl", zipOf(t, "one.txt", "two.html"), false},
		{"stories beside a package", "/all.zip", zipOf(t, "one.txt", "b/c/package.json"), false},
		{"an address in a name", "/mail.zip", zipOf(t, "anna@vienna.example/letter.txt"), false},
		{"a package among stories", "/all.tar.gz", tarOf(t, "one.txt", "deep/down/Cargo.toml"), false},
	} {
		for _, wanted := range []bool{false, true} {
			tr := transaction("application/octet-stream", "", x.body)
			tr.Request.Path = []byte(x.path + "?a=b")
			tr.Verdict.Packages = wanted
			found, err := c.Find(context.Background(), tr, filter.ResponseBody, nil)
			if err != nil {
				t.Fatal(err)
			}
			want := "phrase 50"
			if x.free && !wanted {
				want = ""
			}
			if got := brief(found); got != want {
				t.Errorf("%s, archives: text %v: found %q, want %q", x.name, wanted, got, want)
			}
			tr.Body.Release()
		}
	}
}

func TestAPackageThatArrivesIsNotRefusedBeforeItSaysWhatItIs(t *testing.T) {
	c := newCheck(t, testLists{weighted: "<quayle><50>"}, Config{})
	for _, x := range []struct {
		path string
		body []byte
		want string
	}{
		{"/a-1.whl", zipOf(t, "a.py", "b.py", "a-1.dist-info/METADATA"), ""},
		{"/b-1.whl", zipOf(t, "a.txt", "b.txt", "c.txt"), "phrase 50"},
	} {
		tr := transaction("application/octet-stream", "", nil)
		tr.Request.Path = []byte(x.path)
		tr.Body.Reset(tr.Content(), content.Limits{})
		var found []filter.Finding
		for rest := x.body; len(rest) > 0; {
			n := min(30, len(rest))
			tr.Body.Append(rest[:n])
			rest = rest[n:]
			if len(rest) == 0 {
				tr.Body.Finish()
			}
			var err error
			if found, err = c.Find(context.Background(), tr, filter.ResponseBody, nil); err != nil {
				t.Fatal(err)
			}
			if got := brief(found); len(rest) > 0 && got != "" {
				t.Errorf("%s: %q before its end", x.path, got)
			}
		}
		if got := brief(found); got != x.want {
			t.Errorf("%s: found %q, want %q", x.path, got, x.want)
		}
		tr.Body.Release()
	}
}
