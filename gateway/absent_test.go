package gateway

import (
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestAnAddressThatIsLateKeepsNobodyFromBeingServed: no machine has an address of the network
// for documentation.
func TestAnAddressThatIsLateKeepsNobodyFromBeingServed(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux lets a socket have an address that the machine does not have yet")
	}
	file := folder(t, map[string]string{"shuultuur.yaml": `
listen: {proxy: ["127.0.0.1:0", "192.0.2.77:0"], admin: "off"}
dns: {listen: ["127.0.0.1:0", "192.0.2.79:0"]}
policies: [{name: all, rules: []}]
`})
	g, err := New(t.Context(), file, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer g.close()
	c, err := net.Dial("tcp", g.ProxyAddr())
	if err != nil {
		t.Fatalf("the address that is there: %v", err)
	}
	c.Close()
	problems := strings.Join(g.health().Problems, "\n")
	for _, addr := range []string{"192.0.2.77:", "192.0.2.79:"} {
		if !strings.Contains(problems, "does not have the address of "+addr) {
			t.Errorf("/health does not say that %s is waited for:\n%s", addr, problems)
		}
	}
	if strings.Contains(problems, "127.0.0.1") {
		t.Errorf("/health names an address that is there:\n%s", problems)
	}
}

// TestASecretInAFileIsWatched: it is read again when its file changes, and a place that is gone is named.
func TestASecretInAFileIsWatched(t *testing.T) {
	file := folder(t, map[string]string{"shuultuur.yaml": "listen: {proxy: 127.0.0.1:0, admin: 127.0.0.1:0, token: secret-file:word}\npolicies: [{name: all}]\n", "word": "0123456789abcdef\n"})
	g, err := New(t.Context(), file, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	word := filepath.Join(filepath.Dir(file), "word")
	if _, ok := g.watched()[word]; !ok {
		t.Errorf("watched: %v, want %s, too", g.watched(), word)
	}
	if err := os.WriteFile(word, []byte("fedcba9876543210"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := g.Reload(t.Context()); err != nil || g.engine.Load().Settings.Listen.Token != "fedcba9876543210" {
		t.Errorf("after a change the token is %q: %v", g.engine.Load().Settings.Listen.Token, err)
	}
	if err := os.Remove(word); err != nil {
		t.Fatal(err)
	}
	if err := g.Reload(t.Context()); err == nil || !strings.Contains(err.Error(), "shuultuur.yaml:1: listen.token: reading the secret: open "+word) {
		t.Errorf("a secret that is gone: %v", err)
	}
}
