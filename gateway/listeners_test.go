package gateway

import (
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"shuultuur/lib/wait/waittest"
)

// TestAReloadMovesListeners: addresses that are new are opened, those that are gone are closed, and
// the others never refuse a client.
func TestAReloadMovesListeners(t *testing.T) {
	file := folder(t, map[string]string{"shuultuur.yaml": "listen: {proxy: 127.0.0.1:0, admin: 127.0.0.1:0}\ndata: data\npolicies: [{name: everyone}]\n"})
	g := serving(t, file)
	admin, proxy := g.AdminAddr(), g.ProxyAddr()
	ask := func(url string) string {
		res, err := http.Get(url)
		if err != nil {
			return err.Error()
		}
		defer res.Body.Close()
		text, _ := io.ReadAll(res.Body)
		return res.Status + " " + string(text)
	}
	change := func(text string) (problems []string) {
		t.Helper()
		text = strings.Replace(text, "dns: {", "dns: {forward: {upstreams: [192.0.2.1]}, ", 1)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := g.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, p := range g.health().Problems {
			if strings.Contains(p, "restart") {
				problems = append(problems, p)
			}
		}
		return problems
	}
	if p := change("listen: {proxy: 127.0.0.1:0, admin: 127.0.0.1:0, portal: 127.0.0.1:0}\ndata: data\npolicies: [{name: everyone}]\ndns: {listen: [\"127.0.0.1:0\"]}\n"); p != nil {
		t.Fatalf("new addresses: %q", p)
	}
	if g.AdminAddr() != admin || g.ProxyAddr() != proxy {
		t.Errorf("the addresses became %s and %s, want %s and %s as before", g.AdminAddr(), g.ProxyAddr(), admin, proxy)
	}
	portal := g.PortalAddr()
	if got := ask("http://" + portal + "/"); !strings.HasPrefix(got, "200") {
		t.Errorf("the new portal: %s", got)
	}
	if got := ask("http://" + admin + "/names"); !strings.HasPrefix(got, "200") {
		t.Errorf("the pages of the new name server: %s", got)
	}
	names := g.DNSAddr()
	if p := change("listen: {proxy: 127.0.0.1:0, admin: 127.0.0.1:0}\ndata: data\npolicies: [{name: everyone}]\ndns: {listen: [\"127.0.0.1:0\", \"127.0.0.2:0\"]}\n"); p != nil {
		t.Fatalf("one more address of the name server: %q", p)
	}
	if g.DNSAddr() != names {
		t.Errorf("the name server is at %s, want %s as before", g.DNSAddr(), names)
	}
	waittest.Until(t, "the portal is gone", func() bool {
		c, err := net.Dial("tcp", portal)
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	if got := ask("http://" + admin + "/health"); !strings.HasPrefix(got, "200") {
		t.Errorf("the admin address: %s", got)
	}
}
