//go:build !small

package icap

import (
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/setting"
	"shuultuur/test/peer"
)

// cicap starts c-icap with its echo service, and if a clamd is given with its virus scanner.
// again restarts it at the same address.
func cicap(t *testing.T, clamd string) (port string, server *exec.Cmd, again func() *exec.Cmd) {
	t.Helper()
	peer.Program(t, "c-icap")
	modules, _ := filepath.Glob("/usr/lib/*/c_icap")
	if len(modules) == 0 {
		t.Skip("the modules of c-icap are not where Debian keeps them")
	}
	dir := t.TempDir()
	port = peer.Port(t)
	conf := fmt.Sprintf(`PidFile %[1]s/pid
CommandsSocket %[1]s/ctl
TmpDir %[1]s
ServerLog %[1]s/server.log
AccessLog %[1]s/access.log
Port 127.0.0.1:%[2]s
StartServers 1
MaxServers 2
ThreadsPerChild 10
MaxRequestsPerChild 0
ModulesDir %[3]s
ServicesDir %[3]s
TemplateDir /usr/share/c_icap/templates/
LoadMagicFile /etc/c-icap/c-icap.magic
Service echo srv_echo.so
`, dir, port, modules[0])
	if clamd != "" {
		if _, err := os.Stat(filepath.Join(modules[0], "virus_scan.so")); err != nil {
			t.Skip(`the virus scanner of c-icap is not installed; "make test" installs it on Debian`)
		}
		conf += `Module common clamd_mod.so
clamd_mod.ClamdSocket ` + clamd + `
Service antivirus virus_scan.so
ServiceAlias avscan virus_scan?allow204=on&sizelimit=off&mode=simple
virus_scan.ScanFileTypes TEXT DATA EXECUTABLE ARCHIVE GIF JPEG MSOFFICE
virus_scan.DefaultEngine clamd
virus_scan.MaxObjectSize 50M
`
	}
	file := filepath.Join(dir, "c-icap.conf")
	if err := os.WriteFile(file, []byte(conf), 0o644); err != nil {
		t.Fatal(err)
	}
	again = func() *exec.Cmd {
		_ = os.Remove(filepath.Join(dir, "ctl"))
		cmd := peer.Start(t, "c-icap", "-N", "-f", file)
		t.Cleanup(func() { kill(cmd) }) // it ends slowly when asked
		waitFor(t, "tcp", "127.0.0.1:"+port)
		return cmd
	}
	return port, again(), again
}

func waitFor(t *testing.T, network, address string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if c, err := net.Dial(network, address); err == nil {
			c.Close()
			return
		}
		if time.Now().After(end) {
			t.Skipf("nothing listens on %s: the server does not start here", address)
		}
	}
}

// clamd starts a clamd with one signature of our own: the words "forty marmots".
func clamd(t *testing.T) (socket string) {
	t.Helper()
	peer.Program(t, "clamd")
	dir := t.TempDir()
	db := filepath.Join(dir, "db")
	if err := os.Mkdir(db, 0o755); err != nil {
		t.Fatal(err)
	}
	socket = filepath.Join(dir, "c.sock")
	for file, text := range map[string]string{
		filepath.Join(db, "own.ndb"):     "Own.Marmots:0:*:" + hex.EncodeToString([]byte("forty marmots")) + "\n",
		filepath.Join(dir, "clamd.conf"): fmt.Sprintf("Foreground yes\nDatabaseDirectory %s\nLocalSocket %s\nMaxThreads 4\n", db, socket),
	} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	peer.Start(t, "clamd", "--config-file="+filepath.Join(dir, "clamd.conf"))
	waitFor(t, "unix", socket)
	return socket
}

func TestCICAPsVirusScannerFindsASignature(t *testing.T) {
	port, _, _ := cicap(t, clamd(t))
	c := check(t, Config{Servers: setting.OneOrMore[string]{"icap://127.0.0.1:" + port + "/avscan"}, Page: "scanner"})
	for _, s := range []filter.Stage{filter.RequestBody, filter.ResponseBody} {
		for _, pieces := range []int{1, 5} {
			for range 2 {
				got, err := find(t.Context(), c, s, pieces, "there are forty marmots"+filler(100_000))
				if err != nil || len(got) == 0 || got[0].Category != virus || !contains(got[0].Evidence, "Own.Marmots") {
					t.Fatalf("%v in %d pieces: an infected body gave %+v, %v", s, pieces, got, err)
				}
				if p := got[0].Page; p == nil || p.Status != 403 || !contains(string(p.Body), "VIRUS") {
					t.Errorf("%v in %d pieces: the scanner's page is %+v", s, pieces, p)
				}
				if got, err := find(t.Context(), c, s, pieces, "there are three marmots"+filler(100_000)); err != nil || len(got) > 0 {
					t.Fatalf("%v in %d pieces: a clean body gave %+v, %v", s, pieces, got, err)
				}
			}
		}
	}
}

func TestCICAPsEchoPassesEverything(t *testing.T) {
	port, _, _ := cicap(t, "")
	c := check(t, Config{Servers: setting.OneOrMore[string]{"icap://127.0.0.1:" + port + "/echo"}, Requests: true})
	for _, s := range []filter.Stage{filter.Request, filter.RequestBody, filter.ResponseBody} {
		for _, size := range []int{1, 1023, 1024, 1025, 4096, 500_000} {
			for _, pieces := range []int{1, 3} {
				if got, err := find(t.Context(), c, s, pieces, filler(size)); err != nil || len(got) > 0 {
					t.Errorf("%v: a clean body of %d bytes in %d pieces gave %+v, %v", s, size, pieces, got, err)
				}
			}
		}
	}
	if n := c.counters[passed].Load(); n != 36 {
		t.Errorf("the counter of passed messages is %d, want 36", n)
	}
	o := c.servers[0].options.Load()
	if o.preview != 1024 || !o.reqmod || !o.respmod || o.tag == "" || o.transfer["*"] != "transfer-preview" {
		t.Errorf("OPTIONS are read as %+v", o)
	}
}

// kill kills a server and the processes that it has started, which would continue to answer.
func kill(server *exec.Cmd) {
	_ = server.Process.Signal(syscall.SIGSTOP) // or it starts new ones
	id := strconv.Itoa(server.Process.Pid)
	children, _ := os.ReadFile(filepath.Join("/proc", id, "task", id, "children"))
	for child := range strings.FieldsSeq(string(children)) {
		if n, err := strconv.Atoi(child); err == nil {
			_ = syscall.Kill(n, syscall.SIGKILL)
		}
	}
	_ = server.Process.Kill()
	_ = server.Wait()
}

// TestKilledUnderLoad: while c-icap is away, every message fails at once; when it is back, it
// answers again.
func TestKilledUnderLoad(t *testing.T) {
	port, server, again := cicap(t, "")
	c := check(t, Config{Servers: setting.OneOrMore[string]{"icap://127.0.0.1:" + port + "/echo"}})
	var clean, failing, slow atomic.Int64
	stop := make(chan struct{})
	var work sync.WaitGroup
	for n := range 4 {
		work.Go(func() {
			for body := filler(20_000); ; {
				select {
				case <-stop:
					return
				case <-time.After(time.Millisecond): // a query of a server that is away costs nothing
				}
				start := time.Now()
				got, err := find(t.Context(), c, filter.ResponseBody, 1+n%2*2, body)
				switch {
				case len(got) > 0:
					t.Errorf("a clean message gave %+v", got)
				case err == nil:
					clean.Add(1)
				default:
					failing.Add(1)
				}
				if time.Since(start) > c.timeout {
					slow.Add(1)
				}
			}
		})
	}
	next := func(what string, n *atomic.Int64) {
		t.Helper()
		for was, end := n.Load(), time.Now().Add(30*time.Second); n.Load() < was+20; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Errorf("%s: fewer than 20 messages were answered in 30 s", what)
				return
			}
		}
	}
	next("at first", &clean)
	kill(server)
	next("killed", &failing)
	again()
	back := time.Now()
	was := clean.Load()
	for clean.Load() == was && time.Since(back) < 30*time.Second {
		time.Sleep(time.Millisecond)
	}
	t.Logf("the scanner answered %v after its return", time.Since(back))
	if took := time.Since(back); took > 2*time.Second {
		t.Errorf("it took %v until a scanner that is back was asked", took)
	}
	next("back", &clean)
	close(stop)
	work.Wait()
	if n := slow.Load(); n > 0 {
		t.Errorf("%d messages waited longer than their limit", n)
	}
}
