package test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"shuultuur/gateway"
	"shuultuur/lib/wait/waittest"
	"shuultuur/test/peer"
)

// A loggedRequest is a request for an access log: the bytes sent to the proxy, with PORT
// for the origin's port and CLOSED for a port without listener.
type loggedRequest struct{ name, request string }

func get11(url, host string) string {
	return "GET " + url + " HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n\r\n"
}

func connectTo(host string) string {
	return "CONNECT " + host + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n"
}

// logOrigin answers with 100 bytes.
func logOrigin(t *testing.T) *httptest.Server {
	o := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", map[bool]string{true: "application/zip", false: "text/plain"}[strings.HasSuffix(r.URL.Path, ".zip")])
		if r.URL.Path == "/404" {
			w.WriteHeader(404)
		}
		_, _ = io.WriteString(w, strings.Repeat("x", 100))
	}))
	t.Cleanup(o.Close)
	return o
}

// exchange sends a request and returns the number of bytes of the response.
func (a loggedRequest) exchange(t *testing.T, proxy string, places *strings.Replacer) int {
	t.Helper()
	c, err := net.Dial("tcp", proxy)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(c, places.Replace(a.request)); err != nil {
		t.Fatal(err)
	}
	n := 0
	if strings.HasPrefix(a.request, "CONNECT") {
		b := make([]byte, 1024)
		if n, err = c.Read(b); err != nil {
			t.Fatalf("%s: %v", a.name, err)
		}
		if strings.Contains(string(b[:n]), " 200 ") {
			_, _ = io.WriteString(c, "no request that could be seen\r\n\r\n")
		} else {
			_ = c.(*net.TCPConn).CloseWrite()
		}
	}
	rest, _ := io.Copy(io.Discard, c)
	return n + int(rest)
}

// logLines waits for a line for each request.
func logLines(t *testing.T, file string, want int) []string {
	t.Helper()
	var lines []string
	waittest.Until(t, fmt.Sprintf("%d lines in %s", want, filepath.Base(file)), func() bool {
		b, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		lines = lines[:0]
		for line := range strings.Lines(string(b)) {
			// Squid also logs the connections that only tested whether it listens.
			if strings.HasSuffix(line, "\n") && !strings.Contains(line, "error:transaction-end-before-headers") {
				lines = append(lines, line)
			}
		}
		return len(lines) >= want
	})
	return lines
}

// runGateway starts a gateway with settings in dir.
func runGateway(t *testing.T, dir, settings string) *gateway.Gateway {
	t.Helper()
	file := filepath.Join(dir, "shuultuur.yaml")
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	g, err := gateway.New(ctx, file, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		stop()
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the gateway ended with: %v", err)
		}
	})
	return g
}

// startSquid starts Squid and returns its address and log.
func startSquid(t *testing.T, lines string) (addr, log string) {
	t.Helper()
	return startSquidAs(t, lines+"\ncache deny all\n")
}

// startSquidAs is startSquid without the settings that change what clients get.
func startSquidAs(t *testing.T, lines string) (addr, log string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil { // Squid gives up root
		t.Fatal(err)
	}
	for parent := filepath.Dir(dir); parent != os.TempDir() && len(parent) > len(os.TempDir()); parent = filepath.Dir(parent) {
		_ = os.Chmod(parent, 0o755)
	}
	addr, log = "127.0.0.1:"+peer.Port(t), filepath.Join(dir, "access.log")
	conf := filepath.Join(dir, "squid.conf")
	text := strings.NewReplacer("ADDR", addr, "DIR", dir).Replace(`http_port ADDR
visible_hostname ADDR
acl SSL_ports port 443
` + lines + `
strip_query_terms off
access_log stdio:DIR/access.log
cache_log DIR/cache.log
cache_store_log none
netdb_filename none
pinger_enable off
pid_filename DIR/squid.pid
coredump_dir DIR
shutdown_lifetime 0 seconds
`)
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	peer.Start(t, "squid", "-N", "-f", conf)
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Close()
			return addr, log
		}
		if time.Now().After(end) {
			b, _ := os.ReadFile(filepath.Join(dir, "cache.log"))
			t.Skipf("squid does not start here: %s", b)
		}
	}
}

// line returns the method and the target, which no two requests have in common.
func (a loggedRequest) line() string {
	line, _, _ := strings.Cut(a.request, " HTTP/1.1")
	return line
}

// squidLines returns the lines of the log by method and URL, without times and with ports
// replaced. It compares the sizes in them with the bytes that clients received.
func squidLines(t *testing.T, log string, received map[string]int, back *strings.Replacer) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, line := range logLines(t, log, len(received)) {
		f := strings.Fields(back.Replace(line))
		if len(f) != 10 {
			t.Fatalf("log line %q has %d fields, want 10", line, len(f))
		}
		key := f[5] + " " + f[6]
		if n, _ := strconv.Atoi(f[4]); n != received[key] {
			t.Errorf("log line %q has another size than the %d bytes that the client received", line, received[key])
		}
		all[key] = strings.Join(append([]string{f[2], f[3]}, f[7:]...), " ")
	}
	return all
}

// TestSquidsLogIsAsSquidWritesIt sends the same requests to Squid and to the
// gateway, each alone and behind a parent, and compares their logs.
func TestSquidsLogIsAsSquidWritesIt(t *testing.T) {
	t.Parallel()
	peer.Program(t, "squid")
	origin := logOrigin(t)
	_, port, _ := net.SplitHostPort(origin.Listener.Addr().String())
	closed := peer.Port(t)
	places, back := strings.NewReplacer("PORT", port, "CLOSED", closed), strings.NewReplacer(port, "PORT", closed, "CLOSED")
	all := []loggedRequest{
		{"page", get11("http://127.0.0.1:PORT/a?b=%20c", "127.0.0.1:PORT")},
		{"head", strings.Replace(get11("http://127.0.0.1:PORT/a", "127.0.0.1:PORT"), "GET", "HEAD", 1)},
		{"not found", get11("http://127.0.0.1:PORT/404", "127.0.0.1:PORT")},
		{"form", "POST http://127.0.0.1:PORT/p HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc"},
		{"refused", get11("http://127.0.0.1:PORT/denied", "127.0.0.1:PORT")},
		{"refused response", get11("http://127.0.0.1:PORT/f.zip", "127.0.0.1:PORT")},
		{"tunnel", connectTo("127.0.0.1:PORT")},
		{"refused tunnel", connectTo("127.0.0.9:PORT")},
	}
	alone := append([]loggedRequest{{"nobody listens", get11("http://127.0.0.1:CLOSED/", "127.0.0.1:CLOSED")}}, all...)
	const denied = "acl deny url_regex /denied\nacl denied dst 127.0.0.9\nhttp_access deny deny\nhttp_access deny denied\nhttp_access allow all\nacl zip rep_mime_type application/zip\nhttp_reply_access deny zip\n"
	const settings = `
listen: {proxy: 127.0.0.1:0, admin: off}
proxy: {private: [127.0.0.0/8], connect-ports: [any]%s}
policies:
  - name: all
    rules:
      - {name: path, action: block, url: [/denied]}
      - {name: host, action: block, host: [127.0.0.9]}
      - {name: archive, action: block, type: [application/zip]}
events: {squid: %s, every: 20ms}
`
	parent, _ := startSquid(t, "http_access allow all\n")
	parentHost, parentPort, _ := net.SplitHostPort(parent)
	for _, c := range []struct {
		name, squid, proxy string
		all                []loggedRequest
	}{
		{"alone", "", "", alone},
		{"with a parent", "cache_peer " + parentHost + " parent " + parentPort + " 0 no-query no-digest\nnever_direct allow all\nnonhierarchical_direct off\n", `, parent: "http://` + parent + `"`, all},
	} {
		t.Run(c.name, func(t *testing.T) {
			squid, squidLog := startSquid(t, denied+c.squid)
			dir := t.TempDir()
			g := runGateway(t, dir, fmt.Sprintf(settings, c.proxy, filepath.Join(dir, "access.log")))
			theirs, ours := map[string]int{}, map[string]int{}
			for _, a := range c.all {
				theirs[back.Replace(places.Replace(a.line()))] = a.exchange(t, squid, places)
				ours[back.Replace(places.Replace(a.line()))] = a.exchange(t, g.ProxyAddr(), places)
			}
			want := squidLines(t, squidLog, theirs, back)
			got := squidLines(t, filepath.Join(dir, "access.log"), ours, back)
			// We answer 502 for an unreachable server, and 503 only when overloaded.
			want["GET http://127.0.0.1:CLOSED/"] = strings.Replace(want["GET http://127.0.0.1:CLOSED/"], "/503", "/502", 1)
			if c.proxy != "" {
				delete(want, "GET http://127.0.0.1:CLOSED/")
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("the gateway's log differs from Squid's (-squid +shuultuur):\n%s", d)
			}
		})
	}
}

// startE2guardian starts e2guardian with lists in a separate folder and returns
// its address and log.
func startE2guardian(t *testing.T, lists map[string]string) (addr, log string) {
	t.Helper()
	peer.Program(t, "e2guardian")
	dir := t.TempDir()
	// copied copies one of Debian's settings files without its lists, and sets some keys.
	copied := func(name string, set map[string]string) {
		b, err := os.ReadFile(filepath.Join("/etc/e2guardian", name))
		if err != nil {
			t.Skipf("the settings files of this e2guardian are not Debian's: %v", err)
		}
		text, story := string(b), strings.HasSuffix(name, ".story")
		if story { // stories include each other
			text = strings.ReplaceAll(text, "/etc/e2guardian", dir)
		}
		var out strings.Builder
		for line := range strings.Lines(text) {
			key, _, _ := strings.Cut(line, "=")
			key = strings.TrimSpace(key)
			if _, ours := set[key]; !ours && (story || !strings.HasSuffix(key, "list")) {
				out.WriteString(line)
			}
		}
		for key, value := range set {
			fmt.Fprintf(&out, "\n%s = '%s'", key, value)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(out.String()+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	group := map[string]string{"naughtynesslimit": "50", "storyboard": filepath.Join(dir, "examplef1.story"), "groupname": "all"}
	for name, text := range lists {
		group[name] = filepath.Join(dir, name)
		if err := os.WriteFile(group[name], []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"examplef1.story", "common.story", "site.story", "preauth.story"} {
		copied(name, nil)
	}
	copied("e2guardianf1.conf", group)
	port := peer.Port(t)
	addr, log = "127.0.0.1:"+port, filepath.Join(dir, "access.log")
	copied("e2guardian.conf", map[string]string{
		"filterip": "127.0.0.1", "checkip": "127.0.0.1", "httpworkers": "20", "filterports": port, "transparenthttpsport": peer.Port(t),
		"loglocation": log, "pidfilename": dir + "/pid", "ipcfilename": dir + "/ipc", "urlipcfilename": dir + "/urlipc",
		"filtergroupsdir": dir, "statlocation": dir + "/stats", "logfileformat": "1", "loglevel": "3", "preauthstoryboard": dir + "/preauth.story",
		"daemonuser": "root", "daemongroup": "root",
	})
	cmd := peer.Command(t, "e2guardian", "-N", "-c", filepath.Join(dir, "e2guardian.conf"))
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	waittest.Until(t, "e2guardian", func() bool {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return addr, log
}

// guardianLines returns the lines of a log of format 1 by URL, without time and with ports
// replaced. It keeps only the mark of the reason, because reasons name rules, which differ.
func guardianLines(t *testing.T, log string, want int, back *strings.Replacer) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, line := range logLines(t, log, want) {
		f := strings.Split(strings.TrimSuffix(back.Replace(line), "\n"), " ")
		if len(f) < 20 {
			t.Fatalf("log line %q has %d fields, want at least 20", line, len(f))
		}
		if _, err := time.Parse("2006.1.2 15:04:05", f[0]+" "+f[1]); err != nil {
			t.Errorf("%q: %v", line, err)
		}
		mark := f[5]
		end := f[len(f)-14:] // from the method on
		if mark != "*DENIED*" {
			mark = "-"
		}
		// The lists of the test have no category for e2guardian, which leaves
		// out the media type as well.
		end[3], end[6] = "", ""
		all[f[4]] = strings.Join(append([]string{f[2], f[3], mark}, end...), " ")
	}
	return all
}

// TestDansGuardiansLogIsAsE2guardianWritesIt sends the same requests to both.
func TestDansGuardiansLogIsAsE2guardianWritesIt(t *testing.T) {
	pages := map[string]string{"/plain": "<html>nothing</html>", "/bad": "<html>casino poker</html>"}
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		if pages[r.URL.Path] == "" {
			w.WriteHeader(404)
		}
		_, _ = io.WriteString(w, pages[r.URL.Path])
	}))
	t.Cleanup(origin.Close)
	_, port, _ := net.SplitHostPort(origin.Listener.Addr().String())
	places, back := strings.NewReplacer("PORT", port), strings.NewReplacer(port, "PORT")
	theirs, theirLog := startE2guardian(t, map[string]string{"weightedphraselist": "<casino><80>\n", "bannedphraselist": "", "exceptionphraselist": ""})
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "weighted"), []byte("<casino><80>\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	g := runGateway(t, dir, fmt.Sprintf(`
listen: {proxy: 127.0.0.1:0, admin: off}
proxy: {private: [127.0.0.0/8]}
checks: {phrase: {weighted: [weighted], naughtynesslimit: 50}}
policies: [{name: all, rules: [{name: words, action: block, category: [phrase], over: 50}]}]
events: {dansguardian: %s, every: 20ms}
`, filepath.Join(dir, "dg.log")))
	all := []loggedRequest{
		{"plain", get11("http://127.0.0.1:PORT/plain", "127.0.0.1:PORT")},
		{"bad", get11("http://127.0.0.1:PORT/bad", "127.0.0.1:PORT")},
		{"not found", get11("http://127.0.0.1:PORT/nothing", "127.0.0.1:PORT")},
	}
	for _, a := range all {
		a.exchange(t, theirs, places)
		a.exchange(t, g.ProxyAddr(), places)
	}
	want := guardianLines(t, theirLog, len(all), back)
	got := guardianLines(t, filepath.Join(dir, "dg.log"), len(all), back)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("the gateway's log differs from e2guardian's (-e2guardian +shuultuur):\n%s", d)
	}
}
