package configuration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shuultuur/lib/setting"
)

// secretText returns settings in which the secret key at path has a value, and nothing else.
func secretText(path, value string) string {
	keys := strings.Split(path, ".")
	var b strings.Builder
	at := ""
	for i, k := range keys {
		indent := strings.Repeat("    ", i)
		at = strings.TrimPrefix(at+"."+k, ".")
		switch {
		case i < len(keys)-1 && inList[at]:
			fmt.Fprintf(&b, "%s%s:\n%s  -\n", indent, k, indent)
		case i < len(keys)-1 && named[at]:
			fmt.Fprintf(&b, "%s%s:\n%s  one:\n", indent, k, indent)
		case i < len(keys)-1:
			fmt.Fprintf(&b, "%s%s:\n", indent, k)
		case named[at]:
			fmt.Fprintf(&b, "%s%s: {one: %q}\n", indent, k, value)
		default:
			fmt.Fprintf(&b, "%s%s: %q\n", indent, k, value)
		}
	}
	return b.String()
}

// inList and named are the groups with secrets of which there may be many.
var (
	inList = map[string]bool{"alerts.to": true, "dns.zones.tsig": true, "identity.radius": true, "proxy.upstreams": true}
	named  = map[string]bool{"lists": true, "lists.headers": true, "events.otlp.headers": true, "checks.signature.sources": true, "checks.signature.sources.headers": true}
)

// TestEverySecretMayBeElsewhere: each key that is a secret takes it from a file, from a credential of
// systemd and from the environment, and a place that has none is named with its line.
func TestEverySecretMayBeElsewhere(t *testing.T) {
	dir, credentials := t.TempDir(), t.TempDir()
	const url = "https://anna:geheim@store.example/x"
	write := func(folder, name string) {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(url+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(dir, "word")
	write(credentials, "word")
	t.Setenv("CREDENTIALS_DIRECTORY", credentials)
	t.Setenv("SHUULTUUR_TEST_WORD", url)
	file := filepath.Join(dir, "shuultuur.yaml")
	tried := 0
	for _, k := range setting.Keys(&Settings{}) {
		if k.Group || k.Secret == "" {
			continue
		}
		tried++
		plain := &Settings{}
		if _, err := setting.Read(file, []byte(secretText(k.Path, url)), plain); err != nil {
			t.Errorf("%s: the test cannot set it: %v\n%s", k.Path, err, secretText(k.Path, url))
			continue
		}
		for _, value := range []string{"secret-file:word", "secret-file:" + filepath.Join(dir, "word"), "secret-credential:word", "secret-env:SHUULTUUR_TEST_WORD"} {
			s := &Settings{}
			if _, err := setting.Read(file, []byte(secretText(k.Path, value)), s); err != nil || setting.Digest(s) != setting.Digest(plain) {
				t.Errorf("%s: %s is not read as the secret: %v", k.Path, value, err)
			}
		}
		for _, value := range []string{"secret-file:gone", "secret-credential:gone", "secret-env:SHUULTUUR_TEST_GONE", "secret-credential:../word"} {
			_, err := setting.Read(file, []byte("pages: {name: x}\n"+secretText(k.Path, value)), &Settings{})
			lines := strings.Count(strings.SplitAfter(secretText(k.Path, value), "secret-")[0], "\n") + 2
			if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("shuultuur.yaml:%d:", lines)) {
				t.Errorf("%s: %s: %v, want a mistake in line %d", k.Path, value, err, lines)
			}
		}
	}
	if tried < 30 {
		t.Errorf("%d secrets were tried", tried)
	}
}
