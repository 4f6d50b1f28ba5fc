//go:build !small

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestZoneKeysAreMadeAndUsed(t *testing.T) {
	dir := t.TempDir()
	call := func(want int, args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		if got := dispatch(t.Context(), env{stdin: strings.NewReader(""), stdout: &out, stderr: &errs}, append([]string{"zone"}, args...)); got != want {
			t.Fatalf("zone %s: status %d, want %d\n%s", strings.Join(args, " "), got, want, &errs)
		}
		return out.String()
	}
	paths := strings.Fields(call(0, "keygen", "-dir", dir, "-algorithm", "ed25519", "example.com"))
	if len(paths) != 2 {
		t.Fatalf("the key folder has the files %v, want two", paths)
	}
	for _, p := range paths {
		info, err := os.Stat(strings.TrimSuffix(p, ".key") + ".private")
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("key file %s: %v, %v; want mode 0600", p, info, err)
		}
	}
	ds := call(0, append([]string{"ds"}, paths...)...)
	if strings.Count(ds, "\n") != 1 || !strings.Contains(ds, " IN DS ") || !strings.Contains(ds, " 15 2 ") {
		t.Errorf("zone ds prints %s, want one DS record of algorithm 15", ds)
	}
	file := filepath.Join(dir, "zone")
	if err := os.WriteFile(file, []byte("@ 300 SOA ns hostmaster 1 2 3 4 5\n@ 300 NS ns\nns 300 A 192.0.2.1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if signed := call(0, "sign", "-key", dir, "example.com", file); strings.Count(signed, "RRSIG") < 6 || !strings.Contains(signed, "DNSKEY") {
		t.Errorf("the signed zone lacks signatures or keys: %s", signed)
	}
	if text := call(0, "roll", "-dir", dir, "-status", "example.com"); !strings.Contains(text, "no key") {
		t.Errorf("roll -status: %s", text)
	}
	if text := call(0, "roll", "-dir", dir, "example.com"); !strings.Contains(text, " IN DS ") || !strings.Contains(text, "takes the place of") {
		t.Errorf("zone roll prints %s", text)
	}
	call(1, "roll", "-dir", dir, "example.com") // under way
	if text := call(0, "roll", "-dir", dir, "-status", "example.com"); !strings.Contains(text, "used when a gateway") {
		t.Errorf("zone roll -status after a roll prints %s", text)
	}
	call(1, "roll", "-dir", dir, "-ds-seen", "example.com") // the new key is not in the zone yet
	call(1, "roll", "-dir", dir, "example.net")
	call(2, "roll")
	call(2, "keygen")
	call(2, "ds")
	call(1, "ds", filepath.Join(dir, "none"))
	call(1, "keygen", "-dir", dir, "-algorithm", "rsasha1", "example.com")
	call(2, "sign", "-denial", "compact", "-key", dir, "example.com", file)
}
