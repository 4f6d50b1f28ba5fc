package test

import (
	"encoding/json"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shuultuur/test/peer"
)

// TestOneRowForEachExtension adds one of each extension to a copy of the module, as CONTRIBUTING.md
// says, and expects everything else to follow.
func TestOneRowForEachExtension(t *testing.T) {
	t.Parallel()
	peer.NotQuick(t, "another build of the program")
	if testing.Short() {
		t.Skip("it builds the program")
	}
	dir := t.TempDir()
	module := filepath.Join(dir, "module")
	copyModule(t, module)
	archives, err := filepath.Glob("testdata/extensions/*.txt")
	if err != nil || len(archives) < 7 {
		t.Fatalf("found %v, %v", archives, err)
	}
	for _, file := range archives {
		extend(t, module, file)
	}

	// The tables of the manual are written, and the tests about settings and words pass.
	out := run(t, module, "go", "test", "-trimpath", ".", "-run", "TestTables|TestEverySetting|TestTheSchema|TestEveryTerm|TestImports", "-update")
	if !strings.Contains(out, "ok") {
		t.Fatal(out)
	}
	program := filepath.Join(dir, "shuultuur")
	run(t, module, "go", "build", "-trimpath", "-buildvcs=false", "-o", program, "./cmd/shuultuur")

	for file, want := range map[string]string{"docs/lists.md": "| `plus` | `+example.com` | a host after a plus |", "list/README.md": ", plus"} {
		text, err := os.ReadFile(filepath.Join(module, file))
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s has no %q (%v)", file, want, err)
		}
	}
	for _, x := range []struct{ command, want string }{
		{"help", "greet"}, {"completion bash", " greet"}, {"completion bash", "-loud"}, {"greet -loud world", "Hello, world!"},
		{"list -h", " plus"},
		{"import -h", "hostlist"}, {"completion fish", "hostlist"},
	} {
		if out := run(t, dir, program, strings.Fields(x.command)...); !strings.Contains(out, x.want) {
			t.Errorf("shuultuur %s does not print %q:\n%s", x.command, x.want, out)
		}
	}
	run(t, dir, program, "man", "man")
	if _, err := os.Stat(filepath.Join(dir, "man", "shuultuur-greet.1")); err != nil {
		t.Error(err)
	}
	checkSchema(t, []byte(run(t, dir, program, "settings", "schema")))
	tryExtensions(t, dir, program)
}

// copyModule copies the module without the benchmarks, which are another one.
func copyModule(t *testing.T, to string) {
	t.Helper()
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel("..", path)
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == "bench" || name != "." && strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, name), 0o755)
		case !d.Type().IsRegular():
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), data, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// extend changes the module as an archive says. "-- FILE --" begins a new file, and
// "-- FILE, before TEXT --" lines that are added before the first line with the text.
func extend(t *testing.T, module, archive string) {
	t.Helper()
	text, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	for part := range strings.SplitSeq(string(text), "\n-- ") {
		head, lines, ok := strings.Cut(part, " --\n")
		if !ok {
			continue // what the archive is
		}
		lines += "\n"
		file, before, row := strings.Cut(head, ", before ")
		file = filepath.Join(module, file)
		if row {
			old, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			at := strings.Index(string(old), before)
			if at < 0 {
				t.Fatalf("%s has no %q, before which %s adds a row", file, before, archive)
			}
			at = strings.LastIndexByte(string(old[:at]), '\n') + 1
			lines = string(old[:at]) + lines + string(old[at:])
		}
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(lines), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// run runs a command in a folder and returns what it prints.
func run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	c := exec.Command(name, args...)
	c.Dir, c.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", filepath.Base(name), strings.Join(args, " "), err, out)
	}
	return string(out)
}

// checkSchema expects the keys of the extensions, with what the manual says of them.
func checkSchema(t *testing.T, text []byte) {
	t.Helper()
	type key struct {
		Description string
		Enum        []string
		Properties  map[string]*key
	}
	var schema struct {
		Properties struct {
			Events, Checks, Reminder key
			Lists                    struct {
				AdditionalProperties key
			}
		}
	}
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	of := schema.Properties
	for name, k := range map[string]*key{"events.tsv": of.Events.Properties["tsv"], "checks.length": of.Checks.Properties["length"], "reminder.of": of.Reminder.Properties["of"], "lists.format": of.Lists.AdditionalProperties.Properties["format"]} {
		if k == nil {
			t.Fatalf("the schema has no %s", name)
		}
	}
	if d := of.Events.Properties["tsv"].Description; !strings.Contains(d, "times and hosts") {
		t.Errorf("the schema says of events.tsv %q", d)
	}
	if k := of.Checks.Properties["length"].Properties["most"]; k == nil || !strings.Contains(k.Description, "not reported") {
		t.Errorf("the schema says of checks.length.most %+v", k)
	}
	f := of.Lists.AdditionalProperties.Properties["format"]
	if !strings.Contains(strings.Join(f.Enum, " "), "plus") || !strings.Contains(f.Description, "plus") {
		t.Errorf("the schema says of lists.format %+v", f)
	}
}

// tryExtensions runs a gateway with the new store, check and list format, and the new importer.
func tryExtensions(t *testing.T, dir, program string) {
	t.Helper()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	write("plus.txt", "+bets.example\n+casino.example\n")
	proxy, admin := peer.Port(t), peer.Port(t)
	settings := write("shuultuur.yaml", `listen: {proxy: "127.0.0.1:`+proxy+`", admin: "127.0.0.1:`+admin+`"}
reminder: {of: the milk}
lists: {bets: {path: plus.txt}}
checks:
  category: {lists: [bets]}
  length: {most: 40}
events: {tsv: events.tsv}
policies:
  - name: everyone
    rules:
      - {name: bets, action: block, category: [bets]}
      - {name: long, action: block, category: [long]}
`)
	run(t, dir, program, "check", settings)
	for url, rule := range map[string]string{"http://casino.example/": "bets", "http://a.example/" + strings.Repeat("x", 50): "long"} {
		out, _ := exec.Command(program, "why", "-config", settings, url).CombinedOutput() // a block is status 1
		if !strings.Contains(string(out), rule) {
			t.Errorf("why does not name the rule %s: %s", rule, out)
		}
	}
	peer.Start(t, program, "run", settings)
	until := time.Now().Add(30 * time.Second)
	for {
		c, err := net.Dial("tcp", "127.0.0.1:"+proxy)
		if err == nil {
			c.Close()
			break
		}
		if time.Now().After(until) {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	for path, want := range map[string]string{
		"/greeting": "Hello from a page.", "/openapi.json": "a greeting of whoever asks", "/health": "remember: the milk",
		"/system": `href="/greeting"`,
	} {
		if got := page(t, "http://127.0.0.1:"+admin+path); !strings.Contains(got, want) {
			t.Errorf("%s does not say %q: %.3000s", path, want, got)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "data", "events.tsv")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "data", "events.db")); err == nil {
		t.Error("the new store alone also opened the default one")
	}
	run(t, dir, program, "import", "-to", "imported", "hostlist", write("hosts.list", "ads.example\n"))
	run(t, dir, program, "check", filepath.Join(dir, "imported", "shuultuur.yaml"))
}

// page fetches a page as a browser does.
func page(t *testing.T, url string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/html, application/json;q=0.9, */*;q=0.5")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
