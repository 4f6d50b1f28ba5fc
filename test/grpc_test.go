package test

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"shuultuur/intercept"
	"shuultuur/test/peer"
)

// The conformance client and server of gRPC.
const grpcInterop = "google.golang.org/grpc/interop/%s@v1.76.0"

// grpcCases are the cases of interop-test-descriptions.md that server and client both have and that
// need no account at a provider.
var grpcCases = []string{
	"empty_unary", "large_unary", "client_streaming", "server_streaming", "ping_pong", "empty_stream",
	"timeout_on_sleeping_server", "cancel_after_begin", "cancel_after_first_response", "status_code_and_message",
	"special_status_message", "custom_metadata", "unimplemented_method", "unimplemented_service", "rpc_soak", "channel_soak",
}

func TestTheConformanceSuiteOfGRPCHoldsWhenDecrypted(t *testing.T) {
	t.Parallel()
	peer.NotQuick(t, "gRPC's conformance suite")
	bin := t.TempDir()
	for _, name := range []string{"client", "server"} {
		install := exec.Command("go", "install", fmt.Sprintf(grpcInterop, name))
		install.Env = append(os.Environ(), "GOBIN="+bin, "CGO_ENABLED=0", "GOFLAGS=-trimpath")
		if out, err := install.CombinedOutput(); err != nil {
			t.Skipf("the conformance %s of gRPC cannot be built here: %v: %s", name, err, out)
		}
	}
	h := newHouse(t, nil)
	dir := filepath.Dir(h.file)
	cert := httptest.NewUnstartedServer(nil)
	cert.StartTLS()
	defer cert.Close()
	der, err := x509.MarshalPKCS8PrivateKey(cert.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	h.write("origin.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate().Raw})))
	h.write("origin-key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))

	port := peer.Port(t)
	peer.Start(t, filepath.Join(bin, "server"), "-use_tls", "-tls_cert_file", filepath.Join(dir, "origin.pem"), "-tls_key_file", filepath.Join(dir, "origin-key.pem"), "-port", port)
	origin := net.JoinHostPort("127.0.0.1", port)
	for {
		c, err := net.Dial("tcp", origin)
		if err == nil {
			c.Close()
			break
		}
		if t.Context().Err() != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}

	root, err := intercept.NewRoot(intercept.RootConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if err := root.Write(filepath.Join(dir, "root.pem"), false); err != nil {
		t.Fatal(err)
	}
	export, err := root.Export("pem", "")
	if err != nil {
		t.Fatal(err)
	}
	h.write("client-root.pem", string(export))
	h.write("shuultuur.yaml", fmt.Sprintf(httpsSettings, connector(t, origin, origin)))
	h.restart()

	for _, name := range grpcCases {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		client := exec.CommandContext(ctx, filepath.Join(bin, "client"), "-use_tls", "-use_test_ca", "-ca_file", filepath.Join(dir, "client-root.pem"),
			"-server_host", "www.example.com", "-server_port", "443", "-test_case", name, "-soak_per_iteration_max_acceptable_latency_ms", "10000", "-soak_overall_timeout_seconds", "30")
		client.Env = append(os.Environ(), "HTTPS_PROXY=http://"+h.g.ProxyAddr(), "NO_PROXY=")
		if out, err := client.CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", name, err, out)
		}
		cancel()
	}
}
