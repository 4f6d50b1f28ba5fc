package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	released "shuultuur/lib/release"
	"shuultuur/test/peer"
)

// callAs runs a command and returns its status and output.
func callAs(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	status = dispatch(t.Context(), env{stdin: strings.NewReader(""), stdout: &out, stderr: &errs, program: "./filter"}, args)
	return status, out.String(), errs.String()
}

func TestFlagsStandAnywhereAndStrayArgumentsAreRefused(t *testing.T) {
	for _, tt := range []struct {
		args   string
		status int
		want   string // part of the output
	}{
		{"version -json", 0, `"version"`},
		{"--version", 0, "shuultuur "},
		{"-version -json", 0, `"version"`},
		{"--help", 0, "Usage: ./filter COMMAND"},
		{"help check", 0, "Usage: ./filter check"},
		{"version now", 2, `"now" is one argument too many; usage: ./filter version [-json]`},
		{"why", 2, "name a URL"},
		{"why -dns -config a.yaml", 2, `alone, not for "a.yaml"`},
		{"ca init -days -3", 2, "-days is negative"},
		{"list lint -format hosts", 2, "name one"},
		{"list export redis -layout 33 ads", 2, "-layout is 32 or 64"},
		{"zone check -origin a.example x y", 2, "-origin is for one file"},
		{"ca install x", 2, `"x" is one argument too many`},
		{"passwd", 2, "an argument is missing"},
		{"chekc", 2, `did you mean "check"?`},
		{"zone chek", 2, `did you mean "check"?`},
		{"list loook a b", 2, `there is no command "list loook"; did you mean "look"?`},
		{"list updat", 2, `did you mean "update"?`},
		{"list look own.list", 2, "an argument is missing; usage: ./filter list look FILE NAME..."},
		{"list -category x add own.list", 2, "usage: ./filter list add [-category CATEGORY] FILE ENTRY..."},
		{"list compile a b c", 2, `"c" is one argument too many`},
		{"check --hepl", 2, "did you mean -help?"},
		{"import piholee /etc/pihole", 2, `did you mean "pihole"?`},
		{"import SquidGuard /etc/squidguard", 2, `did you mean "squidguard"?`},
		{"why http://a.example/ -confg b.yaml", 2, "did you mean -config?"},
		{"version -jsno=true", 2, "did you mean -json?"},
		{"cache lok http://a.example/", 2, `did you mean "look"?`},
		{"cache simulate -szies 1GiB x", 2, "did you mean -sizes?"},
		{"zone", 2, "write zone files to Redis"},
		{"rules keywords tls.sni -h", 0, "Usage: ./filter rules keywords"},
		{"completion ksh", 1, "bash, zsh, fish and PowerShell"},
		{"check a.yaml -config b.yaml", 1, "name one"},
		{"list catalogue -- -x", 1, `nothing with "-x"`},
	} {
		if word, _, _ := strings.Cut(tt.args, " "); released.Small && (word == "zone" || word == "rules" || word == "completion" || strings.HasPrefix(tt.args, "cache simulate")) {
			continue // the small build lacks them
		}
		status, out, errs := callAs(t, strings.Fields(tt.args)...)
		if status != tt.status || !strings.Contains(out+errs, tt.want) {
			t.Errorf("%s: status %d, want %d; the output is %q, want %q in it", tt.args, status, tt.status, out+errs, tt.want)
		}
	}
}

func TestEveryCommandSaysWhatItIs(t *testing.T) {
	for _, p := range pages(t.Context(), commands(), "") {
		if p.Flags == nil && p.Name != "load" {
			t.Errorf("%s parses no flags when its description is collected", p.Name)
		}
		if strings.TrimSpace(p.What) == "" {
			t.Errorf("%s has no help text", p.Name)
		}
	}
}

func TestCompletionKnowsCommandsAndFlags(t *testing.T) {
	for shell, line := range map[string]string{"bash": "bash -n", "zsh": "zsh -n", "fish": "fish -n"} {
		status, out, errs := callAs(t, "completion", shell)
		if status != 0 || !strings.Contains(out, "catalogue") || !strings.Contains(out, "keylog") {
			t.Errorf("completion for %s: status %d, %s, %.200s", shell, status, errs, out)
		}
		words := strings.Fields(line)
		if _, err := exec.LookPath(words[0]); err != nil {
			continue
		}
		c := exec.Command(words[0], words[1:]...)
		c.Stdin = strings.NewReader(out)
		if text, err := c.CombinedOutput(); err != nil {
			t.Errorf("running %q: %v, %s", line, err, text)
		}
	}
	bash := peer.Program(t, "bash")
	_, script, _ := callAs(t, "completion", "bash")
	got, err := exec.Command(bash, "-c", script+`
for line in "shuultuur ch" "shuultuur list ca" "shuultuur list lint -f" "shuultuur why -cl" "shuultuur import piho" "shuultuur import -lint ad"; do
	read -ra COMP_WORDS <<< "$line"; COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _shuultuur; echo "${COMPREPLY[*]}"
done`).CombinedOutput()
	if want := "check\ncatalogue\n-format\n-client\npihole\nadguardhome\n"; err != nil || string(got) != want {
		t.Errorf("bash completes %q, %v, want %q", got, err, want)
	}
}

func TestManualPages(t *testing.T) {
	dir := t.TempDir()
	if status, _, errs := callAs(t, "man", dir); status != 0 {
		t.Fatalf("writing manual pages: status %d: %s", status, errs)
	}
	for _, name := range []string{"shuultuur.1", "shuultuur-run.1", "shuultuur-ca-init.1"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !bytes.Contains(text, []byte(".SH NAME")) {
			t.Errorf("%s: %v", name, err)
		}
	}
	mandoc := peer.Program(t, "mandoc")
	files, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil || len(files) < 50 {
		t.Fatalf("%d manual pages, %v; want at least 50", len(files), err)
	}
	if out, err := exec.Command(mandoc, append([]string{"-Tlint", "-Wwarning"}, files...)...).CombinedOutput(); err != nil {
		t.Errorf("mandoc: %v\n%.3000s", err, out)
	}
}

// settingsIn writes settings into the folder that the test then works in.
func settingsIn(t *testing.T, text string) {
	t.Helper()
	t.Chdir(t.TempDir())
	if err := os.WriteFile("shuultuur.yaml", []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestWhyAnswersForTheSettingsOfThisFolder(t *testing.T) {
	settingsIn(t, `
listen: {proxy: "127.0.0.1:8080", admin: off}
data: data
policies: [{name: mine, rules: [{name: no, action: block, host: [blocked.example]}]}]
`)
	for _, tt := range []struct {
		url    string
		status int
		want   string
	}{
		{"http://blocked.example/", 1, "BLOCK"},
		{"http://other.example/", 0, "policy  mine"},
		{"http://10.1.2.3/", 1, "10.1.2.3 is in a private network"},
		{"https://other.example:22/", 1, "tunnels to port 22 are not allowed"},
		{"http://other.example:8081/", 0, "by      shuultuur.yaml"},
	} {
		status, out, errs := callAs(t, "why", tt.url)
		if status != tt.status || !strings.Contains(out, tt.want) {
			t.Errorf("%s: status %d, want %d; %s%s, want %q in it", tt.url, status, tt.status, out, errs, tt.want)
		}
	}
	if status, out, errs := callAs(t, "check", "shuultuur.yaml"); status != 0 || !strings.Contains(out, "good") {
		t.Errorf("check FILE: status %d, %s%s", status, out, errs)
	}
}

// TestCheckOfACopyElsewhere: tools check a copy in a folder of theirs before they put it into place.
func TestCheckOfACopyElsewhere(t *testing.T) {
	const text = "listen: {proxy: 127.0.0.1:8080, admin: off}\ndata: data\nlists: {own: {path: own.txt, format: domains, category: own}}\npolicies: [{name: mine}]\n"
	settingsIn(t, text)
	if err := os.WriteFile("own.txt", []byte("blocked.example\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	elsewhere := t.TempDir()
	good, bad := filepath.Join(elsewhere, "good"), filepath.Join(elsewhere, "bad")
	for file, text := range map[string]string{good: text, bad: text + "nonsense: 1\n"} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{good}, 1, "own.txt"}, // beside the copy there is no list
		{[]string{"-as", "shuultuur.yaml", good}, 0, "good"},
		{[]string{"-as", "shuultuur.yaml", bad}, 1, "shuultuur.yaml:5"},
		{[]string{"-as", "shuultuur.yaml", bad + "x"}, 1, "cannot read the settings"},
		{[]string{"-as", "new.yaml", good}, 0, "good"}, // it need not be there yet
	} {
		status, out, errs := callAs(t, append([]string{"check"}, tt.args...)...)
		if status != tt.status || !strings.Contains(out+errs, tt.want) {
			t.Errorf("check %q: status %d, want %d; %s%s, want %q in it", tt.args, status, tt.status, out, errs, tt.want)
		}
	}
}

func TestWhyAndHealthCheckAskTheGatewayThatRuns(t *testing.T) {
	asked := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/pause" {
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `[{"who":"","until":%q}]`, time.Now().Add(time.Hour).Format(time.RFC3339))
		}
	}))
	defer asked.Close()
	settingsIn(t, `
listen: {proxy: "127.0.0.1:8080", admin: "`+strings.TrimPrefix(asked.URL, "http://")+`"}
data: data
policies: [{name: mine, rules: [{name: no, action: block, host: [blocked.example]}]}]
`)
	if status, out, errs := callAs(t, "why", "http://blocked.example/"); status != 0 || !strings.Contains(out, "paused  until 2") {
		t.Errorf("why in a pause: status %d, %s%s", status, out, errs)
	}
	if status, out, errs := callAs(t, "why", "-dns", "blocked.example"); status != 0 || !strings.Contains(out, "policy/paused") {
		t.Errorf("why -dns in a pause: status %d, %s%s", status, out, errs)
	}
	if status, out, errs := callAs(t, "check", "-running"); status != 0 {
		t.Errorf("check -running with a gateway: status %d, %s%s", status, out, errs)
	}
	asked.Close()
	if status, _, _ := callAs(t, "check", "-running"); status != 1 {
		t.Errorf("check -running without a gateway: status %d, want 1", status)
	}
}
