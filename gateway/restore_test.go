package gateway

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"mime/multipart"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shuultuur/admin/account"
	"shuultuur/engine"
	"shuultuur/engine/configuration"
)

// A restorable is a gateway into which backups are restored.
type restorable struct {
	t     *testing.T
	file  string
	g     *Gateway
	ended chan error
	stop  context.CancelFunc
	of    map[string]string // tokens by account
}

func (r *restorable) start() {
	r.t.Helper()
	g, err := New(r.t.Context(), r.file, slog.New(slog.DiscardHandler))
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	r.g, r.ended, r.stop = g, ended, stop
}

// startsAgain waits for the gateway to end because of a backup, and starts the next one.
func (r *restorable) startsAgain() {
	r.t.Helper()
	select {
	case err := <-r.ended:
		if err != nil || !r.g.StartsAgain() {
			r.t.Fatalf("the gateway ended: %v; it starts again: %v", err, r.g.StartsAgain())
		}
	case <-time.After(time.Minute):
		r.t.Fatal("the gateway does not end to start again")
	}
	r.start()
}

func (r *restorable) post(who, kind string, body []byte, query string) (int, string) {
	r.t.Helper()
	q, err := http.NewRequestWithContext(r.t.Context(), "POST", "http://"+r.g.AdminAddr()+"/system/restore"+query, bytes.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	q.Header.Set("Content-Type", kind)
	q.Header.Set("Authorization", "Bearer "+r.of[who])
	res, err := http.DefaultClient.Do(q)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	said, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(said)
}

func (r *restorable) settings() string {
	r.t.Helper()
	text, err := os.ReadFile(r.file)
	if err != nil {
		r.t.Fatal(err)
	}
	return string(text)
}

const restoredBase = "listen: {proxy: 127.0.0.1:0, admin: 127.0.0.1:0}\npages: {contact: the old one}\nlists: {own: {format: domains, path: own.txt}}\npolicies: [{name: all, rules: []}]\n"

func newRestorable(t *testing.T, settings string) *restorable {
	t.Helper()
	r := &restorable{t: t, file: folder(t, map[string]string{"shuultuur.yaml": settings, "own.txt": "bet.example\n"}), of: map[string]string{}}
	r.start()
	t.Cleanup(func() { r.stop(); <-r.ended })
	book, err := account.Open(account.Folder(filepath.Join(filepath.Dir(r.file), "data")), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range []struct {
		name string
		role account.Role
	}{{"olga", account.Owner}, {"odin", account.Owner}, {"oliver", account.Operator}, {"vera", account.Viewer}} {
		if err := book.Add(a.name, a.role, nil, ""); err != nil {
			t.Fatal(err)
		}
		if r.of[a.name], _, err = book.NewToken(a.name, "test", []string{"write"}, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// backup returns a backup of what is there, with other settings if text is not "".
func (r *restorable) backup(text string) []byte {
	r.t.Helper()
	now := r.settings()
	if text != "" {
		if err := os.WriteFile(r.file, []byte(text), 0o644); err != nil {
			r.t.Fatal(err)
		}
		defer func() {
			if err := os.WriteFile(r.file, []byte(now), 0o644); err != nil {
				r.t.Fatal(err)
			}
		}()
	}
	var b bytes.Buffer
	if _, err := configuration.Backup(&b, r.file); err != nil {
		r.t.Fatal(err)
	}
	return b.Bytes()
}

// TestABackupIsRestoredIntoAGatewayThatRuns: an owner sends it, by a program or in a form, the gateway
// starts again with it, and what was made since is gone. Nobody else may.
func TestABackupIsRestoredIntoAGatewayThatRuns(t *testing.T) {
	r := newRestorable(t, restoredBase)
	plain := r.backup("")
	changed := strings.Replace(restoredBase, "the old one", "the new one", 1)
	for way, form := range map[string]bool{"a program": false, "a form": true} {
		if err := os.WriteFile(r.file, []byte(changed), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(filepath.Dir(r.file), "own.txt"), []byte("bet.example\nother.example\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		body, kind := plain, "application/gzip"
		if form {
			var b bytes.Buffer
			w := multipart.NewWriter(&b)
			f, err := w.CreateFormFile("backup", "b.tar.gz")
			if err != nil {
				t.Fatal(err)
			}
			_, _ = f.Write(plain)
			_ = w.WriteField("passphrase", "")
			_ = w.Close()
			body, kind = b.Bytes(), w.FormDataContentType()
		}
		for who, want := range map[string]int{"oliver": 403, "vera": 403, "nobody": 401} {
			if status, said := r.post(who, kind, body, ""); status != want {
				t.Errorf("%s restores by %s: %d %s, want %d", who, way, status, said, want)
			}
		}
		if status, said := r.post("olga", kind, body, ""); status != 200 || !strings.Contains(said, "starts again") {
			t.Fatalf("an owner restores by %s: %d %s", way, status, said)
		}
		r.startsAgain()
		list, err := os.ReadFile(filepath.Join(filepath.Dir(r.file), "own.txt"))
		if got := r.settings(); got != restoredBase || string(list) != "bet.example\n" || err != nil {
			t.Errorf("restored by %s, the settings are\n%s\nand the list is %q, %v", way, got, list, err)
		}
		if h := r.g.health(); r.g.notRestored != "" {
			t.Errorf("restored by %s, /health says %q", way, h.Problems)
		}
	}
	log, err := os.ReadFile(filepath.Join(filepath.Dir(r.file), "data", "accounts", "audit.jsonl"))
	if err == nil && bytes.Contains(log, []byte("settings.yaml")) {
		t.Error("the audit log has the bytes of the backup")
	}
}

// TestABackupThatIsOfNoUseChangesNothing: one that is damaged or could not start is refused, and one with
// which the gateway cannot listen is taken back.
func TestABackupThatIsOfNoUseChangesNothing(t *testing.T) {
	r := newRestorable(t, restoredBase)
	good := r.backup("")
	for name, b := range map[string][]byte{
		"damaged":    good[:len(good)/2],
		"nothing":    nil,
		"a mistake":  r.backup(""), /* replaced below */
		"encryption": []byte("age-encryption.org/v1\n-> scrypt x 18\n"),
	} {
		if name == "a mistake" {
			b = withSettings(t, good, strings.Replace(restoredBase, "rules: []", "rules: [{name: x, action: block, category: [nothing-of-the-kind]}]", 1))
		}
		if status, said := r.post("olga", "application/gzip", b, ""); status != 400 {
			t.Errorf("%s: %d %s, want 400", name, status, said)
		}
		if r.settings() != restoredBase || r.g.StartsAgain() {
			t.Fatalf("%s: the settings are\n%s\nit starts again: %v", name, r.settings(), r.g.StartsAgain())
		}
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	busy := withSettings(t, good, strings.Replace(restoredBase, "proxy: 127.0.0.1:0", "proxy: "+taken.Addr().String(), 1))
	if status, said := r.post("olga", "application/gzip", busy, ""); status != 200 {
		t.Fatalf("a backup with a port that is taken: %d %s", status, said)
	}
	r.startsAgain()
	if r.settings() != restoredBase || !strings.Contains(strings.Join(r.g.health().Problems, "\n"), "not restored") {
		t.Errorf("a backup with which the gateway cannot listen leaves\n%s\nand /health says %q", r.settings(), r.g.health().Problems)
	}
	elsewhere := withSettings(t, good, strings.Replace(restoredBase, "proxy: 127.0.0.1", "proxy: 192.0.2.77", 1))
	if status, said := r.post("olga", "application/gzip", elsewhere, "?address=127.0.0.1"); status != 200 || strings.Contains(said, "192.0.2.77") {
		t.Fatalf("onto this machine's address: %d %s", status, said)
	}
	r.startsAgain()
	if r.settings() != restoredBase || r.g.notRestored != "" {
		t.Errorf("onto this machine's address: %s\n%s", r.g.notRestored, r.settings())
	}
	if status, said := r.post("olga", "application/gzip", elsewhere, ""); status != 200 || !strings.Contains(said, "192.0.2.77") {
		t.Fatalf("a backup of another machine: %d %s, want a remark about its address", status, said)
	}
	r.startsAgain() // it waits for the address
}

// withSettings returns a backup with other settings in it.
func withSettings(t *testing.T, b []byte, text string) []byte {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "shuultuur.yaml")
	if _, err := configuration.Restore(bytes.NewReader(b), file); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if _, err := configuration.Backup(&out, file); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestTwoPeopleRestoreWhereTwoAreNeeded: with a backup, one person could end that two are needed.
func TestTwoPeopleRestoreWhereTwoAreNeeded(t *testing.T) {
	r := newRestorable(t, restoredBase+"access: {two-people: true}\n")
	b := withSettings(t, r.backup(""), restoredBase)
	for i, c := range []struct {
		who  string
		want int
	}{{"olga", 403}, {"olga", 403}, {"odin", 200}} {
		if status, said := r.post(c.who, "application/gzip", b, ""); status != c.want {
			t.Fatalf("step %d, %s: %d %s, want %d", i, c.who, status, said, c.want)
		}
	}
	r.startsAgain()
	if r.settings() != restoredBase {
		t.Errorf("the settings are\n%s", r.settings())
	}
}

// TestARestoreChecksBeforeItWrites: beside a gateway that does not run, on an empty machine and on
// another address.
func TestARestoreChecksBeforeItWrites(t *testing.T) {
	from := folder(t, map[string]string{"shuultuur.yaml": strings.Replace(restoredBase, "proxy: 127.0.0.1:0", "proxy: 192.0.2.77:8080", 1), "own.txt": "bet.example\n"})
	var b bytes.Buffer
	if _, err := configuration.Backup(&b, from); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "shuultuur.yaml")
	bad := withSettings(t, b.Bytes(), strings.Replace(restoredBase, "own.txt", "/nowhere/own.txt", 1))
	if lines, err := engine.Restore(t.Context(), bytes.NewReader(bad), file, ""); err == nil || !strings.Contains(err.Error(), "/nowhere/own.txt") {
		t.Errorf("a backup whose list is not here: %v, %v", lines, err)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("it left %v", left)
	}
	lines, err := engine.Restore(t.Context(), bytes.NewReader(b.Bytes()), file, "")
	if err != nil || !strings.Contains(fmt.Sprint(lines), "192.0.2.77") {
		t.Errorf("as it is: %v, %v; want a remark about the address", lines, err)
	}
	if _, err := engine.Restore(t.Context(), bytes.NewReader(b.Bytes()), file, "127.0.0.1"); err != nil {
		t.Errorf("onto another address: %v", err)
	}
	if text, _ := os.ReadFile(file); !strings.Contains(string(text), "proxy: 127.0.0.1:8080") || strings.Contains(string(text), "192.0.2.77") {
		t.Errorf("onto another address, the settings are\n%s", text)
	}
}
