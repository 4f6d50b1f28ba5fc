package gateway

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shuultuur/engine"
	"shuultuur/engine/configuration"
	"shuultuur/test/cert"
)

const everyFile = `
listen: {proxy: "127.0.0.1:0", admin: "127.0.0.1:0", tls: {cert: cert.pem, key: key.pem}}
lists: {own: {format: domains, path: own.txt}}
checks:
  category: {lists: [own]}
  phrase: {banned: [phrases/main]}
identity: {basic: {file: passwords}, addresses: {anna: [10.0.0.1]}}
policies:
  - name: all
    rules: [{name: own, action: block, category: [own]}, {name: ends, action: block, extension: ["@extensions"]}]
pages: {templates: pages}
dns:
  listen: ["127.0.0.1:0"]
  tls: ["127.0.0.1:0"]
  cert: cert.pem
  key: key.pem
  hosts-files: [hosts]
  forward: {upstreams: ["127.0.0.1:1"], ca: cert.pem}
  zones: {files: [{path: own.example.zone}]}
`

// everyFolder makes a folder with everyFile and the files it names.
func everyFolder(t *testing.T) (file string) {
	t.Helper()
	file = folder(t, map[string]string{
		"shuultuur.yaml":   everyFile,
		"own.txt":          "own.example\n",
		"phrases/main":     ".Include<more>\n<forbidden>\n",
		"phrases/more":     "<evil>\n",
		"passwords":        "anna:$2y$04$abcdefghijklmnopqrstuuH6nS6kLXFm3dUTRFJFzWfK5Fq9SWfZO\n",
		"extensions":       "exe\n",
		"pages/block.html": "<p>no",
		"hosts":            "192.0.2.1 host.example\n",
		"own.example.zone": strings.NewReplacer("%d", "1").Replace(zoneText),
	})
	cert.Files(t, filepath.Dir(file), "gateway.example")
	return file
}

// TestEveryChangedFileIsUsed: a reload takes the new content of each file that
// the settings name, or that such a file includes, in whatever folder the
// settings are.
func TestEveryChangedFileIsUsed(t *testing.T) {
	for _, relative := range []bool{false, true} {
		file := everyFolder(t)
		dir := filepath.Dir(file)
		if relative {
			t.Chdir(filepath.Dir(dir))
			file = filepath.Join(filepath.Base(dir), filepath.Base(file))
		}
		g, err := New(t.Context(), file, slog.New(slog.NewTextHandler(t.Output(), nil)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { g.close() })
		other, err := New(t.Context(), everyFolder(t), slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		named := other.engine.Load().Settings.Dir
		if err := other.close(); err != nil {
			t.Fatal(err)
		}
		changes := map[string]string{
			"own.txt":          "other.example\n",
			"phrases/main":     ".Include<more>\n<otherwise>\n",
			"phrases/more":     "<wicked>\n",
			"passwords":        "bolor:$2y$04$abcdefghijklmnopqrstuuH6nS6kLXFm3dUTRFJFzWfK5Fq9SWfZO\n",
			"extensions":       "msi\n",
			"pages/block.html": "<p>refused",
			"hosts":            "192.0.2.2 host.example\n",
			"own.example.zone": strings.NewReplacer("%d", "2").Replace(zoneText),
		}
		for _, name := range []string{"cert.pem", "key.pem"} {
			text, err := os.ReadFile(filepath.Join(named, name))
			if err != nil {
				t.Fatal(err)
			}
			changes[name] = string(text)
		}
		for name, text := range changes {
			before := g.engine.Load().Revision
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := g.Reload(t.Context()); err != nil {
				t.Errorf("reloading after %s changed: %v", name, err)
			}
			if g.engine.Load().Revision == before && name != "own.example.zone" { // zones follow their files by themselves
				t.Errorf("nothing was rebuilt after %s changed (settings name it relatively: %v)", name, relative)
			}
		}
		if all := g.engine.Load().Faults(); all != nil {
			t.Errorf("faults after all files changed: %v", all)
		}
		if err := g.Reload(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// TestABrokenFileDoesNotStopAStart: each file in turn is broken after a good
// start. The next start uses the last good copy and says so.
func TestABrokenFileDoesNotStopAStart(t *testing.T) {
	file := everyFolder(t)
	dir := filepath.Dir(file)
	start := func() ([]error, error) {
		g, err := New(t.Context(), file, slog.New(slog.NewTextHandler(t.Output(), nil)))
		if err != nil {
			return nil, err
		}
		all := g.engine.Load().Faults()
		return all, g.close()
	}
	if all, err := start(); err != nil || all != nil {
		t.Fatalf("starting with whole files: got faults %v, %v, want none", all, err)
	}
	for _, tt := range []struct{ file, text, want string }{
		{"own.example.zone", "@ SOA nothing\n", "own.example.zone"},
		{"own.txt", "", "own.txt"},
		{"phrases/main", "", "phrase"},
		{"passwords", "anna", "passwords"},
		{"extensions", "", "extensions"},
		{"pages/block.html", "{{.Nothing", "block.html"},
		{"hosts", strings.Repeat("x", 1<<20), "hosts"},
		{"cert.pem", "no certificate", "cert.pem"},
		{"key.pem", "", "key.pem"},
	} {
		path := filepath.Join(dir, tt.file)
		was, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if tt.text != "" {
			if err := os.WriteFile(path, []byte(tt.text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		all, err := start()
		if err != nil {
			t.Errorf("the gateway does not start with a broken %s: %v", tt.file, err)
		} else if len(all) == 0 {
			t.Errorf("the gateway reports no fault although %s is broken", tt.file)
		}
		for _, err := range all {
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("the fault about a broken %s does not name it: %q", tt.file, err)
			}
		}
		if err := os.WriteFile(path, was, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if all, err := start(); err != nil || all != nil {
		t.Error("after the repair, faults and error:", all, err)
	}
}

// TestAFileThatWasNeverValid: at a first start without a good copy, the gateway serves if it
// can still filter, reports what is broken, and uses the file when it is repaired. It refuses
// to start if it would let everything pass. check refuses all of these settings.
func TestAFileThatWasNeverValid(t *testing.T) {
	for _, tt := range []struct {
		file, text string
		serves     bool
	}{
		{"cert.pem", "no certificate", true},
		{"key.pem", "no key", true},
		{"key.pem", "", false}, // the settings name a file that does not exist
		{"pages/block.html", "{{.Nothing", true},
		{"own.example.zone", "@ SOA nothing\n", true},
		{"own.txt", "", false},
		{"phrases/main", "", false},
		{"extensions", "", false},
		{"passwords", "anna", false},
	} {
		t.Run(tt.file+" "+tt.text, func(t *testing.T) {
			file := everyFolder(t)
			path := filepath.Join(filepath.Dir(file), tt.file)
			was, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if tt.text == "" {
				err = os.Remove(path)
			} else {
				err = os.WriteFile(path, []byte(tt.text), 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
			s, err := configuration.Read(file)
			if err != nil {
				t.Fatal(err)
			}
			if e, err := engine.Build(t.Context(), s, nil, nil, slog.New(slog.DiscardHandler)); err == nil {
				e.Drop(nil, slog.New(slog.DiscardHandler))
				t.Error("check accepts settings with a broken file")
			}
			g, err := New(t.Context(), file, slog.New(slog.NewTextHandler(t.Output(), nil)))
			if (err == nil) != tt.serves {
				t.Fatalf("the gateway starts: %v, want %v: %v", err == nil, tt.serves, err)
			}
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = g.close() })
			all := g.engine.Load().Faults()
			if len(all) == 0 || !strings.Contains(all[0].Error(), filepath.Base(tt.file)) {
				t.Errorf("the faults do not name the broken file: %v", all)
			}
			if err := os.WriteFile(path, was, 0o644); err != nil {
				t.Fatal(err)
			}
			if err := g.Reload(t.Context()); err != nil {
				t.Fatal(err)
			}
			if all := g.engine.Load().Faults(); all != nil && tt.file != "own.example.zone" { // zones follow their files by themselves
				t.Errorf("faults after the repair: %v", all)
			}
		})
	}
}

// TestADamagedFileOpensNothing: a file that can be read, but was emptied, cut in a line or overwritten
// with zeros, keeps its part as it was, at a reload and at a start, until it is whole again.
func TestADamagedFileOpensNothing(t *testing.T) {
	file := everyFolder(t)
	dir := filepath.Dir(file)
	start := func() *Gateway {
		t.Helper()
		g, err := New(t.Context(), file, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	g := start()
	for _, name := range []string{"own.txt", "phrases/main", "phrases/more", "passwords", "extensions", "pages/block.html", "hosts", "own.example.zone", "cert.pem"} {
		path := filepath.Join(dir, name)
		was, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for how, is := range map[string][]byte{"emptied": {}, "cut": was[:len(was)/2-1], "zeros": make([]byte, len(was))} {
			if how == "cut" && name == "own.txt" {
				continue // a shorter entry is an entry
			}
			faults := func(when string, want bool) {
				t.Helper()
				all := g.engine.Load().Faults()
				if (len(all) > 0) != want {
					t.Errorf("%s %s, %s: faults %v", name, how, when, all)
				}
				for _, err := range all {
					if !strings.Contains(err.Error(), name) {
						t.Errorf("%s %s, %s: the fault does not name it: %v", name, how, when, err)
					}
				}
			}
			write := func(data []byte) {
				if err := os.WriteFile(path, data, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			write(is)
			if name != "own.example.zone" { // zones follow their files by themselves
				if err := g.Reload(t.Context()); err != nil {
					t.Errorf("%s %s: %v", name, how, err)
				}
				faults("after a reload", true)
			}
			if err := g.close(); err != nil {
				t.Fatal(err)
			}
			g = start()
			faults("after a start", true)
			write(was)
			if name == "own.example.zone" {
				if err := g.close(); err != nil {
					t.Fatal(err)
				}
				g = start()
			} else if err := g.Reload(t.Context()); err != nil {
				t.Error(err)
			}
			faults("when it is whole again", false)
		}
	}
	if err := g.close(); err != nil {
		t.Error(err)
	}
}
