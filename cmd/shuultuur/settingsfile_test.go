package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCommandsAskAboutTheSettingsOfTheService: if the folder has no settings, commands use
// those of the service, and write no starter settings there.
func TestCommandsAskAboutTheSettingsOfTheService(t *testing.T) {
	service := filepath.Join(t.TempDir(), "shuultuur.yaml")
	was := installed
	installed = []string{service}
	t.Cleanup(func() { installed = was })
	const settings = `
listen: {proxy: "127.0.0.1:2", admin: "127.0.0.1:1"}
data: data
policies: [{name: ours, rules: [{name: no, action: block, host: [blocked.example]}]}]
`
	put := func(file string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(t.TempDir())
	if status, out, errs := callAs(t, "pause"); status != 1 || !strings.Contains(errs, "cannot read the settings") {
		t.Errorf("without any settings: status %d, %s%s", status, out, errs)
	}
	put(service)
	for _, tt := range []struct {
		args   string
		status int
		want   string
	}{
		{"why http://blocked.example/", 1, "by      " + service},
		{"why -dns blocked.example", 1, "policy  ours"},
		{"check", 0, service + ": good"},
		{"check -running", 1, "127.0.0.1:1"},
		{"pause 5m", 1, "127.0.0.1:1"},
		{"cache look http://a.example/", 1, "127.0.0.1:1"},
		{"list stats", 0, ""},
		{"upgrade", 1, service},
	} {
		status, out, errs := callAs(t, strings.Fields(tt.args)...)
		if status != tt.status || !strings.Contains(out+errs, tt.want) {
			t.Errorf("%s: status %d, want %d; %s%s, want %q in it", tt.args, status, tt.status, out, errs, tt.want)
		}
	}
	if left, err := os.ReadDir("."); err != nil || len(left) > 0 {
		t.Errorf("commands that only ask wrote %v, %v", left, err)
	}
	put("shuultuur.yaml")
	if _, out, errs := callAs(t, "why", "http://blocked.example/"); !strings.Contains(out, "by      shuultuur.yaml") {
		t.Errorf("the settings in this folder do not take precedence: %s%s", out, errs)
	}
}
