//go:build !small

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"shuultuur/test/redistest"
	"shuultuur/zone"
)

const exampleZone = `$TTL 300
@ SOA ns1 hostmaster 2026010101 7200 3600 1209600 300
@ NS ns1
ns1 A 192.0.2.53
www A 192.0.2.1
www A 192.0.2.2
*.wild TXT "a \"text\"" "in two"
_443._tcp.www TLSA 3 1 1 ABCD
old DNAME example.net.
www HTTPS 1 . alpn=h2
never 0 A 192.0.2.9
x TYPE65400 \# 2 abcd
`

func call(t *testing.T, args ...string) (status int, out, err string) {
	t.Helper()
	var stdout, stderr strings.Builder
	status = dispatch(t.Context(), env{stdin: strings.NewReader(""), stdout: &stdout, stderr: &stderr}, args)
	return status, stdout.String(), stderr.String()
}

func recordsOf(t *testing.T, file string) []string {
	t.Helper()
	z, err := zone.ReadFile(file, "")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, rr := range z.Records {
		all = append(all, rr.String())
	}
	slices.Sort(all)
	return all
}

func TestZonesGoToRedisAndComeBack(t *testing.T) {
	s := redistest.Start(t, "--requirepass", "secret")
	t.Setenv("REDISCLI_AUTH", "secret")
	dir := t.TempDir()
	file := filepath.Join(dir, "example.com.zone")
	if err := os.WriteFile(file, []byte("$ORIGIN example.com.\n"+exampleZone), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, schema := range []string{"redins", "z42"} {
		to := []string{"-redis", "redis://" + s.Addr + "/1", "-schema", schema, "-prefix", "p:"}
		status, out, errs := call(t, append(append([]string{"zone", "load"}, to...), file)...)
		if status != 0 || !strings.Contains(out, "example.com.: 11 records") || strings.Contains(out, " 0 values written") {
			t.Fatalf("zone load: status %d, %s%s", status, out, errs)
		}
		if status, out, errs := call(t, append(append([]string{"zone", "load"}, to...), file)...); status != 0 || !strings.Contains(out, " 0 values written, 0 deleted") {
			t.Errorf("zone load once more: status %d, %s%s; want no value written", status, out, errs)
		}
		folder := t.TempDir()
		status, out, errs = call(t, append(append([]string{"zone", "export"}, to...), "-to", folder)...)
		if status != 0 || out+errs != "" {
			t.Fatalf("zone export: status %d, %s%s", status, out, errs)
		}
		if got, want := recordsOf(t, filepath.Join(folder, "example.com.zone")), recordsOf(t, file); !slices.Equal(got, want) {
			t.Errorf("the exported zone is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if status, _, errs := call(t, append(append([]string{"zone", "export"}, to...), "example.org")...); status != 1 || !strings.Contains(errs, "example.org.") {
			t.Errorf("zone export of a missing zone: status %d, want 1: %s", status, errs)
		}
	}
}

func TestLoadKeepsChoicesThatAFileCannotHold(t *testing.T) {
	s := redistest.Start(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "example.com.zone")
	if err := os.WriteFile(file, []byte("@ 300 SOA a. b. 1 2 3 4 5\n@ 300 NS a.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Do(t, "HSET", "redins:zones:example.com.", "www", `{"aname":{"location":"cdn.example.net."}}`, "bad", "{")
	s.Do(t, "SADD", "redins:zones", "example.com.")
	status, out, errs := call(t, "zone", "export", "-redis", s.Addr)
	if status != 1 || !strings.Contains(out, "; www.example.com. ANAME cdn.example.net.") || !strings.Contains(errs, "bad: not JSON") {
		t.Errorf("zone export of bad values: status %d, want 1\n%s%s", status, out, errs)
	}
	if status, _, errs := call(t, "zone", "load", "-redis", s.Addr, file); status != 1 || !strings.Contains(errs, "-force") {
		t.Errorf("zone load over another zone: status %d, want 1 and a hint at -force: %s", status, errs)
	}
	if status, _, errs := call(t, "zone", "load", "-force", "-redis", s.Addr, file); status != 0 {
		t.Errorf("zone load -force: status %d, %s", status, errs)
	}
	if err := os.WriteFile(file, []byte("@ 300 NS a.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if status, _, errs := call(t, "zone", "load", "-redis", s.Addr, file); status != 1 || !strings.Contains(errs, "nothing was written") {
		t.Errorf("zone load of a file with errors: status %d, want 1 and nothing written: %s", status, errs)
	}
}

func TestImportOfRedinsSettings(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(file, []byte(`{"server":[{"ip":"127.0.0.1","port":1053}],"handler":{"redis":{"ip":"192.0.2.6","port":6379}},"odd":1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	status, out, errs := call(t, "zone", "import", file)
	if status != 0 || !strings.Contains(out, "192.0.2.6:6379") || !strings.Contains(errs, "odd: not carried over") {
		t.Errorf("zone import: status %d\n%s%s", status, out, errs)
	}
	if status, _, errs := call(t, "zone", "import", os.Args[0]); status != 1 || !strings.Contains(errs, "zone load") {
		t.Errorf("zone import of a file that is none of CoreDNS: status %d, %s", status, errs)
	}
}
