//go:build linux

package test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"shuultuur/test/peer"
)

const sinkholeSettings = `
listen: {proxy: "10.77.1.1:8080", admin: off, sinkhole: ["10.77.1.1:80", "10.77.1.1:443"]}
data: data
lists: {own: {format: domains, path: own.txt, category: gambling}}
checks: {category: {lists: [own]}}
intercept: {root: root.pem, trust: [origin.pem]}
pages: {contact: "the librarian, desk 3"}
policies:
  - name: readers
    decrypt: DECRYPT
    rules:
      - {name: betting, action: block, category: [gambling]}
      - {name: careful, action: warn, host: [warn.example]}
events: {sqlite: events.db, every: 100ms}
dns:
  listen: ["10.77.1.1:53"]
  block: {answer: sinkhole, sinkhole: [10.77.1.1]}
  private: ["*"]
  forward: {upstreams: ["10.77.2.2:53"]}
proxy: {private: [10.77.0.0/16], drain: 1s}
`

// TestABrowserIsSentToTheSinkhole uses a browser that has our name server and no proxy.
func TestABrowserIsSentToTheSinkhole(t *testing.T) {
	n := newNetwork(t)
	// The client has only our name server. The origin's names are in the gateway's hosts file.
	n.writeTo(filepath.Join("/etc/netns", n.client, "hosts"), "127.0.0.1 localhost\n")
	n.writeTo(filepath.Join("/etc/netns", n.client, "resolv.conf"), "nameserver 10.77.1.1\noptions timeout:2\n")
	for _, file := range []string{"hosts", "resolv.conf"} {
		if err := os.Chmod(filepath.Join("/etc/netns", n.client, file), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	n.serve()
	conn, err := within(n.origin, func() (net.PacketConn, error) { return net.ListenPacket("udp", "10.77.2.2:53") })
	if err != nil {
		t.Fatal(err)
	}
	defer upstreamOn(t, conn, "ferry.example. 300 IN A 10.77.2.2", "warn.example. 300 IN A 10.77.2.2", "bet4.example. 300 IN A 10.77.2.2")()

	n.makeRoot()
	n.writeTo(filepath.Join(n.dir, "own.txt"), "bet4.example\n")
	settings := filepath.Join(n.dir, "shuultuur.yaml")
	// start starts a gateway with the settings and returns a function that ends it.
	start := func(decrypt string) (end func()) {
		n.writeTo(settings, strings.Replace(sinkholeSettings, "DECRYPT", decrypt, 1))
		cmd := peer.Command(t, "ip", "netns", "exec", n.gate, filepath.Join(bin, "shuultuur"), "run", "-config", settings)
		cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
			if out, err := n.curl("-o", "/dev/null", "http://ferry.example/"); err == nil && out == " 200" {
				break
			}
			if time.Now().After(end) {
				t.Error("the gateway answers no name")
				break
			}
		}
		return func() { _ = cmd.Process.Signal(syscall.SIGTERM); _ = cmd.Wait() }
	}
	home := newHome(t, n.clientRoot)
	browse := func() *browser {
		return newBrowserBy(t, []string{"ip", "netns", "exec", n.client, "env", "HOME=" + home}, func(ctx context.Context, network, addr string) (net.Conn, error) {
			return within(n.client, func() (net.Conn, error) { return new(net.Dialer).DialContext(ctx, network, addr) })
		}, "--no-proxy-server")
	}

	end := start("true")
	b := browse()
	b.open("http://ferry.example/")
	b.shows("origin 10.77.2.2:80 for ferry.example")
	b.open("http://bet4.example/odds")
	b.shows("is closed here")
	b.unfold()
	for _, want := range []string{"bet4.example", "it is in the category gambling", "readers", "the librarian, desk 3"} {
		b.shows(want)
	}
	b.picture("sinkhole-http")
	b.open("https://bet4.example/odds")
	b.shows("it is in the category gambling")
	b.picture("sinkhole-https")
	if to := b.script("return location.href"); to != "https://bet4.example/odds" {
		t.Errorf("the block page has the address %s, want that of the blocked page", to)
	}
	// A warning is a page with a button, which leads to the requested page.
	b.open("http://warn.example/")
	b.shows("careful")
	b.click("a.button")
	b.shows("origin 10.77.2.2:80 for warn.example")
	b.open("https://warn.example/") // the click counts for the host
	b.shows("origin 10.77.2.2:443 for warn.example")
	end()

	// Without decryption the gateway cannot show a page over HTTPS.
	defer start("false")()
	b = browse()
	b.open("http://bet4.example/")
	b.shows("it is in the category gambling")
	err = b.visit("https://bet4.example/")
	if err == nil || !strings.Contains(err.Error(), "ERR_SSL_PROTOCOL_ERROR") && !strings.Contains(err.Error(), "ERR_CONNECTION_CLOSED") && !strings.Contains(err.Error(), "ERR_SSL_ACCESS_DENIED") {
		t.Errorf("HTTPS to a blocked host without decryption, in the browser: %v, want a TLS error", err)
	}
	if out, err := n.curl("https://bet4.example/"); err == nil || !strings.Contains(out, "alert") && !strings.Contains(out, "access denied") {
		t.Errorf("HTTPS to a blocked host without decryption, with curl: %v, %q, want a TLS alert", err, out)
	}
}
