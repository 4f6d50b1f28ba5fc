package list

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"shuultuur/test/race"

	"shuultuur/test/peer"
)

// TestAgreesWithE2guardian gives the same random site, URL and expression lists and the same
// URLs to e2guardian and to us, and requires a reason for every difference.
func TestAgreesWithE2guardian(t *testing.T) {
	race.Without(t)
	program := peer.Program(t, "e2guardian")
	if testing.Short() {
		t.Skip("starts e2guardian several times")
	}
	rnd := rand.New(rand.NewPCG(8, 15))
	x := randomTree(rnd)
	for _, u := range x.urls { // neighbours that mislead its search
		x.urls = append(x.urls, u+[]string{"-bar", ".html", "/aa", "/bb"}[rnd.IntN(4)])
	}
	x.expressions = []string{`(^|[/.])adult(/|$)`, `^bb\.net/foo`, `\.zip$`}
	ours, rep := compileText(t, Config{Format: E2guardian}, strings.Join(slices.Concat(x.domains, x.dotted, x.urls), "\n")+"\n")
	regexps, _ := compileText(t, Config{Format: E2guardianRegexp}, strings.Join(x.expressions, "\n")+"\n")
	if rep.Bad > 0 {
		t.Fatalf("compiling the list: got problems %v, want none", rep.Problems)
	}
	g := startGuardian(t, program, slices.Concat(x.domains, x.dotted), x.urls, x.expressions)
	explained := map[string]int{}
	hidden := map[string][]string{}
	blocked, asks := 0, 2500
	for range asks {
		u := x.url(rnd)
		entry := matchingEntry(t, ours, u)
		if entry == "" {
			entry = matchingEntry(t, regexps, u)
		}
		theirs := g.blocks(t, u)
		if theirs {
			blocked++
		}
		switch {
		case (entry != "") == theirs:
		case slices.Contains(x.dotted, "."+entry):
			explained["an entry with a dot in front, which e2guardian never matches"]++
		case entry != "" && !slices.Contains(x.expressions, entry):
			hidden[entry] = append(hidden[entry], u)
		default:
			t.Errorf("%s: we find %q, e2guardian blocks it: %v; sites %q, URLs %q", u, entry, theirs, x.domains, x.urls)
		}
	}
	g.stop(t)
	// A host that e2guardian does not find among others is tried alone.
	for len(hidden) > 0 {
		var sites, urls []string
		var batch []string
		for entry := range hidden {
			host, _, path := strings.Cut(entry, "/")
			if slices.ContainsFunc(batch, func(other string) bool {
				h, _, _ := strings.Cut(other, "/")
				return strings.HasSuffix("."+h, "."+host) || strings.HasSuffix("."+host, "."+h)
			}) {
				continue
			}
			batch = append(batch, entry)
			if path {
				urls = append(urls, entry)
			} else {
				sites = append(sites, entry)
			}
		}
		g := startGuardian(t, program, sites, urls, nil)
		for _, entry := range batch {
			for _, u := range hidden[entry] {
				if !g.blocks(t, u) {
					t.Errorf("%s: we find %q, e2guardian does not, even in a list of its own", u, entry)
					continue
				}
				explained["an entry that e2guardian finds only where it is alone: its search goes astray among neighbours"]++
			}
			delete(hidden, entry)
		}
		g.stop(t)
	}
	t.Logf("%d URLs, %d blocked by e2guardian; differences: %v", asks, blocked, explained)
	if blocked < asks/20 {
		t.Errorf("e2guardian blocked only %d of %d: the URLs do not match the lists", blocked, asks)
	}
}

// A guardian is a running e2guardian, with an origin as its parent proxy.
type guardian struct {
	addr string
	cmd  *exec.Cmd
}

func startGuardian(t testing.TB, program string, sites, urls, expressions []string) *guardian {
	t.Helper()
	dir := t.TempDir()
	for d := dir; len(d) > len(os.TempDir()); d = filepath.Dir(d) {
		os.Chmod(d, 0o755) // it reads the lists as a separate user
	}
	os.Mkdir(filepath.Join(dir, "log"), 0o777)
	os.Chmod(filepath.Join(dir, "log"), 0o777)
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Origin", "yes")
		io.WriteString(w, "hello")
	}))
	t.Cleanup(origin.Close)
	parent, parentPort, _ := net.SplitHostPort(origin.Listener.Addr().String())
	port, tlsPort := peer.Port(t), peer.Port(t)
	addr := "127.0.0.1:" + port
	q := func(name string) string { return "'" + filepath.Join(dir, name) + "'" }
	conf := shipped(t, "e2guardian.conf", func(key, line string) bool { return strings.HasSuffix(key, "list") }, map[string]string{
		"filterip": "127.0.0.1", "filterports": port, "checkip": "127.0.0.1", "transparenthttpsport": tlsPort,
		"proxyip": parent, "proxyport": parentPort, "nodaemon": "on", "httpworkers": "20",
		"loglocation": q("log/access.log"), "pidfilename": q("log/pid"), "ipcfilename": q("log/ipc"), "urlipcfilename": q("log/urlipc"),
		"filtergroupsdir": "'" + dir + "'", "statlocation": q("log/stats"),
	})
	group := shipped(t, "e2guardianf1.conf", func(key, line string) bool {
		return strings.HasSuffix(key, "list") && !strings.Contains(line, "regexpreplace")
	}, map[string]string{"weightedphrasemode": "0"})
	group += "sitelist = 'name=banned,messageno=500,path=" + filepath.Join(dir, "sites") + "'\n" +
		"urllist = 'name=banned,messageno=501,path=" + filepath.Join(dir, "urls") + "'\n" +
		"regexpboollist = 'name=banned,messageno=503,path=" + filepath.Join(dir, "expressions") + "'\n"
	write(t, dir, map[string]string{
		"e2guardian.conf": conf, "e2guardianf1.conf": group,
		"sites": strings.Join(sites, "\n") + "\n", "urls": strings.Join(urls, "\n") + "\n", "expressions": strings.Join(expressions, "\n") + "\n",
	})
	out, err := os.Create(filepath.Join(dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	g := &guardian{addr: addr, cmd: peer.Command(t, program, "-N", "-c", filepath.Join(dir, "e2guardian.conf"))}
	g.cmd.Stdout, g.cmd.Stderr = out, out
	if err := g.cmd.Start(); err != nil {
		t.Skipf("e2guardian does not run here: %v", err)
	}
	t.Cleanup(func() { g.stop(t) })
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Close()
			return g
		}
		if time.Now().After(deadline) {
			output, _ := os.ReadFile(filepath.Join(dir, "out"))
			t.Skipf("e2guardian does not listen: %s", output)
		}
	}
}

// shipped is a settings file of the package. It lacks the keys that leave names, and replaces
// some.
func shipped(t testing.TB, name string, leave func(key, line string) bool, set map[string]string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("/etc/e2guardian", name))
	if err != nil {
		t.Skipf("e2guardian is here without its settings: %v", err)
	}
	var out strings.Builder
	for line := range strings.Lines(string(data)) {
		key, _, _ := strings.Cut(line, "=")
		key = strings.TrimSpace(key)
		if _, ours := set[key]; !ours && !leave(key, line) {
			out.WriteString(line)
		}
	}
	for key, value := range set {
		fmt.Fprintf(&out, "\n%s = %s", key, value)
	}
	return out.String() + "\n"
}

func (g *guardian) stop(t testing.TB) {
	t.Helper()
	if g.cmd.ProcessState == nil {
		g.cmd.Process.Kill()
		g.cmd.Wait()
	}
}

// blocks reports whether e2guardian answers instead of the origin.
func (g *guardian) blocks(t testing.TB, raw string) bool {
	t.Helper()
	c, err := net.Dial("tcp", g.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	host, _, _ := strings.Cut(strings.TrimPrefix(raw, "http://"), "/")
	fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", raw, host)
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	defer resp.Body.Close()
	return resp.Header.Get("X-Origin") == ""
}
