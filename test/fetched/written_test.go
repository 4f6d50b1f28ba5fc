package fetched

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shuultuur/admin/backup"
	"shuultuur/lib/setting"
	"shuultuur/list"
	"shuultuur/tool/importer"
)

// archive returns a tar archive with members at a name: a file, links and what is no file.
func archive(t *testing.T, name, outside string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range []tar.Header{
		{Name: "ads/domains", Typeflag: tar.TypeReg},
		{Name: name, Typeflag: tar.TypeReg},
		{Name: "to", Typeflag: tar.TypeSymlink, Linkname: outside},
		{Name: "to/domains", Typeflag: tar.TypeReg},
		{Name: "files/to", Typeflag: tar.TypeSymlink, Linkname: outside},
		{Name: "files/to/kept", Typeflag: tar.TypeReg},
		{Name: "hard/domains", Typeflag: tar.TypeLink, Linkname: filepath.Join(outside, "kept")},
		{Name: "device/domains", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 5},
		{Name: "pipe/domains", Typeflag: tar.TypeFifo},
	} {
		text := "evil.example\n"
		if h.Typeflag != tar.TypeReg {
			text = ""
		}
		h.Size, h.Mode = int64(len(text)), 0o644
		if err := w.WriteHeader(&h); err != nil {
			continue // no archive can have such a name
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// writing are the ways in which content that has names of files comes to the disk. Each gets a hostile
// name and a folder of its own. That a way refuses the content is fine.
var writing = map[string]func(t *testing.T, name, own, outside string){
	"a list in a tar archive": func(t *testing.T, name, own, outside string) {
		compile(t, own, archive(t, name+"/domains", outside))
	},
	"a list in a zip archive": func(t *testing.T, name, own, outside string) {
		var b bytes.Buffer
		w := zip.NewWriter(&b)
		for _, n := range []string{"ads/domains", name, name + "/domains"} {
			f, err := w.Create(n)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.Write([]byte("evil.example\n")); err != nil {
				t.Fatal(err)
			}
		}
		link := zip.FileHeader{Name: "to"}
		link.SetMode(fs.ModeSymlink | 0o777)
		f, err := w.CreateHeader(&link)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte(outside)); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		compile(t, own, b.Bytes())
	},
	"a backup with links and devices": func(t *testing.T, name, _, outside string) {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		if _, err := z.Write(archive(t, name, outside)); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := backup.Read(&b); err == nil {
			t.Error("a backup with links and devices is read")
		}
	},
	"a backup, beside the settings":     func(t *testing.T, name, own, _ string) { restore(t, "files/"+name, own) },
	"a backup, in the data folder":      func(t *testing.T, name, own, _ string) { restore(t, "data/"+name, own) },
	"a backup, as the settings":         func(t *testing.T, name, own, _ string) { restore(t, name, own) },
	"a backup, in a folder that it may": func(t *testing.T, name, own, _ string) { restore(t, "data/accounts/"+name, own) },
	"an import of squidGuard": func(t *testing.T, name, own, _ string) {
		bring(t, own, "squidguard", "squidGuard.conf", "dest "+name+" { domainlist bad }\nacl { default { pass !"+name+" all } }\n")
	},
	"an import of AdGuard Home": func(t *testing.T, name, own, _ string) {
		bring(t, own, "adguardhome", "AdGuardHome.yaml", "filters:\n- enabled: true\n  url: "+name+"\n  name: "+name+"\n  id: 1\nwhitelist_filters:\n- enabled: true\n  url: https://192.0.2.1/a\n  name: "+name+"\n  id: 2\nuser_rules: ['||a.example^']\n")
	},
	"an import of e2guardian": func(t *testing.T, name, own, _ string) {
		bring(t, own, "e2guardian", "e2guardian.conf", "filtergroups = 1\nfilterports = 8080\nsitelist = 'name="+name+",path="+name+"'\n")
	},
	"an import of Technitium": func(t *testing.T, name, own, _ string) {
		bring(t, own, "technitium", "settings.json", `{"zones":[{"name":"`+name+`","type":"Primary"}],"blockListUrls":["`+name+`"]}`)
	},
}

func compile(t *testing.T, own string, content []byte) {
	t.Helper()
	file := filepath.Join(own, "content")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := list.Compile(t.Context(), "x", list.Config{Path: setting.Source(file), Fetched: true}, filepath.Join(own, "x.list"))
	t.Log(err)
}

func restore(t *testing.T, name, own string) {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, n := range []string{"settings.yaml", name} {
		if err := w.WriteHeader(&tar.Header{Name: n, Typeflag: tar.TypeReg, Size: 5, Mode: 0o644}); err != nil {
			return // no archive can have such a name
		}
		if _, err := w.Write([]byte("evil\n")); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := backup.Read(&b)
	if err != nil {
		t.Log(err)
		return
	}
	_, err = r.Restore(filepath.Join(own, "shuultuur.yaml"), backup.Place{Dir: own, Data: filepath.Join(own, "data")})
	t.Log(err, r.Unpack(filepath.Join(own, "look")))
}

func bring(t *testing.T, own, program, file, text string) {
	t.Helper()
	from := filepath.Join(own, "from")
	for name, text := range map[string]string{file: text, "bad": "bad.example\n"} {
		if err := os.MkdirAll(from, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(from, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, err := importer.Run(t.Context(), program, from, filepath.Join(own, "to"))
	t.Log(err)
}

// everything returns the files below a folder with their content.
func everything(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		all[path] = d.Type().String()
		if d.Type().IsRegular() {
			text, err := os.ReadFile(path)
			all[path] += " " + string(text)
			return err
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestContentWritesNothingOutside hands hostile names to all that writes files by names in content.
// Rules of signatures and bundles of a fleet are tested beside their code, in the same way.
func TestContentWritesNothingOutside(t *testing.T) {
	for what, write := range writing {
		for i, name := range []string{"../outside/kept", "../../outside/kept", "sub/../../outside/kept", "ABS", "/ABS", `..\outside\kept`, `C:\outside\kept`, "to/kept", "..", ".", "a\x00b",
			strings.Repeat("a", 5000), strings.Repeat("../", 40) + "tmp/kept", "/dev/shm/kept-by-nobody", "//outside/kept"} {
			machine := t.TempDir()
			own, outside := filepath.Join(machine, "a", "own"), filepath.Join(machine, "a", "outside")
			for _, dir := range []string{own, outside, filepath.Join(machine, "outside")} {
				if err := os.MkdirAll(dir, 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, "kept"), []byte("as it was"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			before := everything(t, machine)
			write(t, strings.Replace(name, "ABS", filepath.Join(outside, "kept"), 1), own, outside)
			after := everything(t, machine)
			for _, all := range []map[string]string{before, after} {
				maps.DeleteFunc(all, func(path, _ string) bool { return path == own || strings.HasPrefix(path, own+"/") })
			}
			if !maps.Equal(before, after) {
				t.Errorf("%s, name %d: outside of its folder there was\n%q, and is\n%q", what, i, before, after)
			}
			for _, far := range []string{"/dev/shm/kept-by-nobody", "/tmp/kept"} {
				if _, err := os.Lstat(far); err == nil {
					t.Errorf("%s, name %d: %s is there", what, i, far)
				}
			}
		}
	}
}
