//go:build linux

package test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"
	"golang.org/x/sys/unix"

	"shuultuur/intercept"
	"shuultuur/lib/wait/waittest"
	"shuultuur/test/peer"
)

// A network has three hosts in separate namespaces: the client reaches the origin through a
// gateway of which it knows nothing.
type network struct {
	t                      *testing.T
	client, gate, origin   string // names of the namespaces
	dir                    string
	testOrigin, clientRoot string // files
}

// networks counts those of this process, which have different names.
var networks atomic.Int32

func newNetwork(t *testing.T) *network {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	for _, p := range []string{"ip", "iptables", "ip6tables", "curl", "sysctl"} {
		peer.Program(t, p)
	}
	id := fmt.Sprint("shu", os.Getpid(), "-", networks.Add(1))
	n := &network{t: t, client: id + "c", gate: id + "g", origin: id + "o", dir: t.TempDir()}
	for _, ns := range []string{n.client, n.gate, n.origin} {
		if out, err := exec.Command("ip", "netns", "add", ns).CombinedOutput(); err != nil {
			t.Skipf("no network namespaces here: %s", out)
		}
		t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", ns).Run() })
		hosts := filepath.Join("/etc/netns", ns)
		if err := os.MkdirAll(hosts, 0o755); err != nil {
			t.Skipf("no folder for the host names of namespaces: %v", err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(hosts) })
		n.writeTo(filepath.Join(hosts, "hosts"), "10.77.2.2 good.test bet.example v4.test bet4.example aia.test loop.test missing-intermediate.test ferry.example warn.example\n"+
			"fd77:2::2 good.test bet.example v6.test bet6.example\n127.0.0.1 localhost\n")
		n.run("ip -n %s link set lo up", ns)
	}
	n.run("ip link add vc netns %s type veth peer name vg netns %s", n.client, n.gate)
	n.run("ip link add vo netns %s type veth peer name vg2 netns %s", n.origin, n.gate)
	for _, a := range []struct{ ns, dev, addrs string }{
		{n.client, "vc", "10.77.1.2/24 fd77:1::2/64"}, {n.gate, "vg", "10.77.1.1/24 fd77:1::1/64"},
		{n.gate, "vg2", "10.77.2.1/24 fd77:2::1/64"}, {n.origin, "vo", "10.77.2.2/24 10.77.2.3/24 fd77:2::2/64"},
	} {
		for addr := range strings.FieldsSeq(a.addrs) {
			nodad := ""
			if strings.Contains(addr, ":") {
				nodad = " nodad"
			}
			n.run("ip -n %s addr add %s dev %s%s", a.ns, addr, a.dev, nodad)
		}
		n.run("ip -n %s link set %s up", a.ns, a.dev)
	}
	n.run("ip -n %s route add default via 10.77.1.1", n.client)
	n.run("ip -n %s route add default via fd77:1::1", n.client)
	n.run("ip -n %s route add default via 10.77.2.1", n.origin)
	n.run("ip netns exec %s sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1", n.gate)
	return n
}

func (n *network) run(format string, args ...any) {
	n.t.Helper()
	line := fmt.Sprintf(format, args...)
	if out, err := exec.Command("sh", "-c", line).CombinedOutput(); err != nil {
		n.t.Skipf("this machine cannot do %q: %v: %s", line, err, out)
	}
}

func (n *network) writeTo(file, text string) {
	n.t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		n.t.Fatal(err)
	}
}

// listen opens a port in a namespace.
func (n *network) listen(ns, addr string) net.Listener {
	n.t.Helper()
	l, err := within(ns, func() (net.Listener, error) { return net.Listen("tcp", addr) })
	if err != nil {
		n.t.Fatalf("listen on %s in %s: %v", addr, ns, err)
	}
	n.t.Cleanup(func() { l.Close() })
	return l
}

// within runs a function in a namespace.
func within[T any](ns string, do func() (T, error)) (T, error) {
	type result struct {
		v   T
		err error
	}
	done := make(chan result)
	go func() {
		// The thread returns to its own network. If it ended, so would the programs that it
		// started.
		runtime.LockOSThread()
		own, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			done <- result{err: err}
			return
		}
		defer own.Close()
		f, err := os.Open("/var/run/netns/" + ns)
		if err != nil {
			done <- result{err: err}
			return
		}
		defer f.Close()
		if err := unix.Setns(int(f.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- result{err: err}
			return
		}
		v, err := do()
		if back := unix.Setns(int(own.Fd()), unix.CLONE_NEWNET); back == nil {
			runtime.UnlockOSThread()
		}
		done <- result{v, err}
	}()
	r := <-done
	return r.v, r.err
}

// serve starts the origin: plain HTTP on 80 and 81, TLS on 443.
func (n *network) serve() {
	root := (*issuer)(nil).issue(n.t, "Root of the test", authority)
	middle := root.issue(n.t, "Middle of the test", authority)
	good := root.issue(n.t, "good.test", func(c *x509.Certificate) {
		c.DNSNames = []string{"good.test", "bet.example", "v4.test", "v6.test", "bet4.example", "bet6.example", "ferry.example", "warn.example"}
	}).present()
	chainless := middle.issue(n.t, "missing-intermediate.test", func(c *x509.Certificate) {
		c.IssuingCertificateURL = []string{"http://aia.test/middle"}
	}).present()
	n.testOrigin = filepath.Join(n.dir, "origin.pem")
	n.writeTo(n.testOrigin, root.pem())
	answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host == "aia.test" {
			_, _ = w.Write(middle.cert.Raw)
			return
		}
		fmt.Fprintf(w, "origin %s for %s", r.Context().Value(http.LocalAddrContextKey), r.Host)
	})
	for _, port := range []string{":80", ":81", ":443"} {
		s := &http.Server{ErrorLog: log.New(io.Discard, "", 0), Handler: answer}
		l := n.listen(n.origin, port)
		n.t.Cleanup(func() { s.Close() })
		if port == ":443" {
			s.TLSConfig = &tls.Config{GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
				if h.ServerName == "missing-intermediate.test" {
					return chainless, nil
				}
				return good, nil
			}}
			go s.ServeTLS(l, "", "")
		} else {
			go s.Serve(l)
		}
	}
}

const networkSettings = `
listen: {proxy: "10.77.1.1:8080", portal: "10.77.1.1:8088", admin: off, transparent: "[::]:3129", tproxy: "[::]:3130"}
data: data
lists: {own: {format: domains, path: own.txt, category: gambling}}
checks: {category: {lists: [own]}}
intercept: {root: root.pem, trust: [origin.pem]}
policies:
  - {name: closed, networks: [10.77.1.3], rules: [{name: betting, action: block, category: [gambling]}]}
  - {name: open, decrypt: true, rules: [{name: betting, action: block, category: [gambling]}]}
events: {jsonl: events.jsonl, every: 100ms}
proxy: {private: [10.77.0.0/16, "fd77::/16"], drain: 1s, safe-ports: any}
`

// makeRoot makes a root certificate for the gateway, and gives it to the clients.
func (n *network) makeRoot() {
	t := n.t
	root, err := intercept.NewRoot(intercept.RootConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if err := root.Write(filepath.Join(n.dir, "root.pem"), false); err != nil {
		t.Fatal(err)
	}
	export, err := root.Export("pem", "")
	if err != nil {
		t.Fatal(err)
	}
	n.clientRoot = filepath.Join(n.dir, "client-root.pem")
	n.writeTo(n.clientRoot, string(export))
}

// gateway starts the program in its namespace.
func (n *network) gateway() { n.gatewayWith(networkSettings) }

func (n *network) gatewayWith(settings string) {
	t := n.t
	n.makeRoot()
	n.writeTo(filepath.Join(n.dir, "own.txt"), "bet.example\nbet4.example\nbet6.example\n")
	n.writeTo(filepath.Join(n.dir, "shuultuur.yaml"), settings)
	cmd := peer.Command(t, "ip", "netns", "exec", n.gate, filepath.Join(bin, "shuultuur"), "run", "-config", filepath.Join(n.dir, "shuultuur.yaml"))
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Signal(syscall.SIGTERM); _ = cmd.Wait() })
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if exec.Command("ip", "netns", "exec", n.client, "curl", "-s", "-o", "/dev/null", "--max-time", "2", "http://10.77.1.1:8080/").Run() == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatal("the gateway does not answer")
		}
	}
}

func (n *network) curl(args ...string) (string, error) {
	cmd := exec.Command("ip", append([]string{"netns", "exec", n.client, "curl", "-sS", "--max-time", "60", "--cacert", n.clientRoot, "-w", " %{http_code}"}, args...)...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// redirect sends the connections that cross the gateway's host to the gateway.
func (n *network) redirect() {
	for _, ipt := range []string{"iptables", "ip6tables"} {
		n.run("ip netns exec %s %s -t nat -A PREROUTING -i vg -p tcp -m multiport --dports 80,443 -j REDIRECT --to-ports 3129", n.gate, ipt)
		n.run("ip netns exec %s %s -t mangle -A PREROUTING -i vg -p tcp --dport 81 -j TPROXY --on-port 3130 --tproxy-mark 1", n.gate, ipt)
	}
	n.run("ip -n %s -4 rule add fwmark 1 lookup 100 && ip -n %s -4 route add local default dev lo table 100", n.gate, n.gate)
	n.run("ip -n %s -6 rule add fwmark 1 lookup 100 && ip -n %s -6 route add local default dev lo table 100", n.gate, n.gate)
}

func TestClientsThatKnowOfNoProxyAreFiltered(t *testing.T) {
	n := newNetwork(t)
	n.serve()
	n.gateway()
	n.redirect()
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"http, v4", []string{"-4", "http://good.test/"}, "origin 10.77.2.2:80 for good.test 200"},
		{"http, v6", []string{"-6", "http://good.test/"}, "origin [fd77:2::2]:80 for good.test 200"},
		{"http blocked, v4", []string{"-4", "http://bet.example/"}, " 403"},
		{"http blocked, v6", []string{"-6", "http://bet.example/"}, " 403"},
		{"https, v4", []string{"-4", "https://good.test/"}, "origin 10.77.2.2:443 for good.test 200"},
		{"https, v6", []string{"-6", "https://good.test/"}, "origin [fd77:2::2]:443 for good.test 200"},
		{"https blocked, v4", []string{"-4", "https://bet.example/"}, " 403"},
		{"https blocked, v6", []string{"-6", "https://bet.example/"}, " 403"},
		{"tproxy, v4", []string{"-4", "http://good.test:81/"}, "origin 10.77.2.2:81 for good.test:81 200"},
		{"tproxy, v6", []string{"-6", "http://good.test:81/"}, "origin [fd77:2::2]:81 for good.test:81 200"},
		{"tproxy blocked", []string{"-4", "http://bet.example:81/"}, " 403"},
		{"an intermediate that is missing is fetched", []string{"https://missing-intermediate.test/"}, "for missing-intermediate.test 200"},
		{"a Host that lies goes to the host's own address", []string{"-4", "--resolve", "good.test:80:10.77.2.3", "http://good.test/"}, "for good.test 200"},
	} {
		if out, err := n.curl(tt.args...); err != nil || !strings.HasSuffix(out, tt.want) {
			t.Errorf("%s: %v, %q", tt.name, err, out)
		}
	}
	// A client hello with a false name is filtered, too.
	if out, err := n.curl("-4", "--resolve", "good.test:443:10.77.2.3", "https://good.test/"); err != nil || strings.Contains(out, "10.77.2.3") {
		t.Errorf("a client hello with a false name: %v, %q; want the real host's page", err, out)
	}
	// The gateway's own port cannot be used directly.
	if out, err := n.curl("http://10.77.1.1:3129/"); err == nil {
		t.Errorf("a request to the gateway's own port succeeds: %q", out)
	}
	// Without decryption a blocked name ends in an alert, and an allowed one passes untouched.
	n.run("ip -n %s addr add 10.77.1.3/24 dev vc", n.client)
	if out, err := n.curl("--interface", "10.77.1.3", "--cacert", n.testOrigin, "https://good.test/"); err != nil || !strings.HasSuffix(out, "for good.test 200") {
		t.Errorf("an allowed host without decryption: %v, %q; want the page", err, out)
	}
	if out, err := n.curl("--interface", "10.77.1.3", "--cacert", n.testOrigin, "https://bet.example/"); err == nil || !strings.Contains(out, "alert") && !strings.Contains(out, "access denied") {
		t.Errorf("a blocked host without decryption: %v, %q; want a TLS alert", err, out)
	}
	// A firewall that also redirects the gateway's own connections to the gateway.
	for _, ipt := range []string{"iptables", "ip6tables"} {
		n.run("ip netns exec %s %s -t nat -A OUTPUT -p tcp -m multiport --dports 80,443 -j REDIRECT --to-ports 3129", n.gate, ipt)
	}
	// The first connections fail, so that a browser may take http; who wants https gets a page.
	waittest.Until(t, "a loop is 502", func() bool {
		out, err := n.curl("-4", "https://loop.test/")
		return err == nil && strings.HasSuffix(out, " 502")
	})
}

// TestStrangersAreLedToThePageToSignIn: a client that has no proxy configured and has not
// signed in is redirected to the sign-in page, even from TLS if it trusts the root. It can
// reach the hosts that the page needs, and no others.
func TestStrangersAreLedToThePageToSignIn(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	n.serve()
	hash, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	n.writeTo(filepath.Join(n.dir, "users"), "pupil:"+string(hash)+"\n")
	n.gatewayWith(networkSettings + `
identity:
  basic: {file: users, networks: [192.0.2.1]}
  sign-in: {networks: [10.77.1.0/24], open: [v4.test]}
portal: {name: 10.77.1.1}
`)
	n.redirect()
	const page = "http://10.77.1.1:8088/sign-in?to="
	where := []string{"-4", "-o", "/dev/null", "-w", "%{http_code} %{redirect_url}"}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{append(where, "http://good.test/a"), "302 " + page + "http%3A%2F%2Fgood.test%2Fa"},
		{append(where, "https://good.test/a?b"), "302 " + page + "https%3A%2F%2Fgood.test%2Fa%3Fb"},
		{[]string{"-4", "https://v4.test/"}, "origin 10.77.2.2:443 for v4.test 200"},
		{[]string{"http://10.77.1.1:8088/captive-portal"}, `{"captive":true,"user-portal-url":"http://10.77.1.1:8088/sign-in"}` + "\n 200"},
		{[]string{"-o", "/dev/null", "-d", "name=pupil&password=secret", "http://10.77.1.1:8088/sign-in"}, " 303"},
		{[]string{"http://10.77.1.1:8088/captive-portal"}, `{"captive":false,"user-portal-url":"http://10.77.1.1:8088/sign-in"}` + "\n 200"},
		{[]string{"-4", "https://good.test/"}, "origin 10.77.2.2:443 for good.test 200"},
	} {
		if out, err := n.curl(tt.args...); err != nil || out != tt.want {
			t.Errorf("%q: %v, %q, want %q", tt.args, err, out, tt.want)
		}
	}
	// Without decryption the client gets no certificate from us, so we cannot show it a page.
	n.run("ip -n %s addr add 10.77.1.3/24 dev vc", n.client)
	if out, err := n.curl("-4", "--interface", "10.77.1.3", "https://good.test/"); err == nil {
		t.Errorf("a client that has not signed in, without decryption, gets %q; want an error", out)
	}
}

func TestBrowsersThatKnowOfNoProxyAreFiltered(t *testing.T) {
	n := newNetwork(t)
	chromium := peer.Program(t, "chromium")
	n.serve()
	n.gateway()
	n.redirect()
	home := newHome(t, n.clientRoot)
	for _, tt := range []struct{ url, want string }{
		{"http://v4.test/", "origin 10.77.2.2:80 for v4.test"},
		{"http://v6.test/", "origin [fd77:2::2]:80 for v6.test"},
		{"https://v4.test/", "origin 10.77.2.2:443 for v4.test"},
		{"https://v6.test/", "origin [fd77:2::2]:443 for v6.test"},
		{"http://bet4.example/", "it is in the category gambling"},
		{"https://bet4.example/", "it is in the category gambling"},
		{"https://bet6.example/", "it is in the category gambling"},
	} {
		load := func() (page, status string, err error) {
			cmd := peer.Command(t, "ip", "netns", "exec", n.client, "env", "HOME="+home, chromium,
				"--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update",
				"--disable-dev-shm-usage", "--disable-features=HttpsUpgrades,HttpsFirstBalancedModeAutoEnable", "--no-proxy-server",
				"--user-data-dir="+t.TempDir(), "--dump-dom", tt.url)
			var errs bytes.Buffer
			cmd.Stderr = &errs
			out, err := cmd.Output()
			return string(out), errs.String(), err
		}
		page, status, err := load()
		// The client's network exists only since a moment ago.
		for try := 1; try < 5 && strings.Contains(status, "ERR_NETWORK_CHANGED"); try++ {
			page, status, err = load()
		}
		if err != nil || !strings.Contains(page, tt.want) {
			t.Errorf("%s: %v, %q\n%s", tt.url, err, page, status)
		}
	}
	// A current browser's client hello is larger than a segment.
	for _, to := range []string{"10.77.2.2:443", "[fd77:2::2]:443"} {
		c, err := within(n.client, func() (net.Conn, error) { return net.Dial("tcp", to) })
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(n.clientRoot)
		if err != nil {
			t.Fatal(err)
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(text)
		tc := tls.Client(&halves{Conn: c}, &tls.Config{ServerName: "good.test", RootCAs: roots, CurvePreferences: []tls.CurveID{tls.X25519MLKEM768}})
		fmt.Fprint(tc, "GET / HTTP/1.1\r\nHost: good.test\r\nConnection: close\r\n\r\n")
		b, err := io.ReadAll(tc)
		if err != nil || !strings.HasSuffix(string(b), "origin "+to+" for good.test") || tc.ConnectionState().CurveID != tls.X25519MLKEM768 {
			t.Errorf("a post-quantum client hello to %s: %v, %q", to, err, b)
		}
		c.Close()
	}
}

// halves sends the first bytes in two segments.
type halves struct {
	net.Conn
	begun bool
}

func (h *halves) Write(p []byte) (int, error) {
	if h.begun {
		return h.Conn.Write(p)
	}
	h.begun = true
	n, err := h.Conn.Write(p[:len(p)/2])
	if err != nil {
		return n, err
	}
	m, err := h.Conn.Write(p[len(p)/2:])
	return n + m, err
}
