package gateway

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"shuultuur/intercept"
)

// TestPagesOfOtherMachinesHaveACertificateOfOurs: with a root and without listen.tls, the gateway makes
// the certificates of its pages itself, for the address that a browser asks, and for its names alone.
func TestPagesOfOtherMachinesHaveACertificateOfOurs(t *testing.T) {
	const settings = "listen: {proxy: 127.0.0.1:0, admin: \"0.0.0.0:0\"}\ndata: data\naccess: {names: [filter.example]}\nintercept: {root: root.pem}\npolicies: [{name: everyone}]\n"
	file := folder(t, map[string]string{"shuultuur.yaml": settings})
	root, err := intercept.NewRoot(intercept.RootConfig{})
	if err == nil {
		err = root.Write(filepath.Join(filepath.Dir(file), "root.pem"), false)
	}
	if err != nil {
		t.Fatal(err)
	}
	g := serving(t, file)
	if g.host.Root() == nil {
		t.Error("nobody can install the root")
	}
	_, port, err := net.SplitHostPort(g.AdminAddr())
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(root.Certificate)
	for name, good := range map[string]bool{"127.0.0.1": true, "filter.example": true, "bank.example": false} {
		c, err := tls.Dial("tcp", "127.0.0.1:"+port, &tls.Config{RootCAs: pool, ServerName: name})
		if (err == nil) != good {
			t.Errorf("as %s: %v, want it good: %v", name, err, good)
		}
		if err == nil {
			c.Close()
		}
	}
	if err := explain(t, folder(t, map[string]string{"shuultuur.yaml": strings.Replace(settings, "intercept: {root: root.pem}\n", "", 1)})); err == nil || !strings.Contains(err.Error(), "needs a certificate") {
		t.Errorf("without a root: %v, want that it needs a certificate", err)
	}
}
