package test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"shuultuur/test/peer"
	"shuultuur/test/race"
)

// serveTCP serves connections until the test ends.
func serveTCP(t *testing.T, serve func(net.Conn)) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				serve(c)
			}()
		}
	}()
	return ln
}

// scriptedClamd finds the word marmot. failing is its answer to every stream instead; "close" closes
// the connection.
func scriptedClamd(t *testing.T, failing string) (addr string) {
	return serveTCP(t, func(c net.Conn) {
		for r, n := bufio.NewReader(c), 1; ; {
			command, err := r.ReadString(0)
			switch {
			case err != nil:
				return
			case command == "zPING\x00":
				_, _ = io.WriteString(c, "PONG\x00")
				return
			case command != "zINSTREAM\x00":
				continue
			}
			var body bytes.Buffer
			for {
				var size uint32
				if binary.Read(r, binary.BigEndian, &size) != nil {
					return
				}
				if size == 0 {
					break
				}
				if _, err := io.CopyN(&body, r, int64(size)); err != nil {
					return
				}
			}
			answer := failing
			switch {
			case failing == "close":
				return
			case failing == "" && bytes.Contains(body.Bytes(), []byte("marmot")):
				answer = "Own.Marmots FOUND"
			case failing == "":
				answer = "OK"
			}
			fmt.Fprintf(c, "%d: stream: %s\x00", n, answer)
			n++
		}
	}).Addr().String()
}

// scriptedICAP is the scanner of the other tests. failing is its answer to every message instead,
// after which it closes the connection.
func scriptedICAP(t *testing.T, failing string) (addr string) {
	return serveTCP(t, func(c net.Conn) {
		r := bufio.NewReaderSize(c, 16<<10)
		for {
			var answer bytes.Buffer
			if answerICAP(&answer, r) != nil {
				return
			}
			if failing != "" && !bytes.Contains(answer.Bytes(), []byte("Methods:")) {
				_, _ = io.WriteString(c, strings.TrimPrefix(failing, "close"))
				return
			}
			if _, err := answer.WriteTo(c); err != nil {
				return
			}
		}
	}).Addr().String()
}

var infectedKinds = []struct{ name, ctype, begin string }{
	{"setup.exe", "application/x-msdownload", "MZ\x90\x00\x03\x00\x00\x00"},
	{"program", "application/x-executable", "\x7fELF\x02\x01\x01\x00"},
	{"picture", "image/png", "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"},
	{"data", "application/octet-stream", "\x00\x01\x02\x03\xfe\xff"},
	{"paper.pdf", "application/pdf", "%PDF-1.4\n%\xe2\xe3\xcf\xd3\n"},
	{"pack.zip", "application/zip", "PK\x03\x04\x14\x00\x00\x00\x08\x00"},
	{"text.txt", "text/plain", "some text "},
	{"page.html", "text/html", "<!doctype html><title>a</title>"},
	// What says that it is endless, and is a program.
	{"events", "text/event-stream", "\x7fELF\x02\x01\x01\x00"},
	{"pictures", "multipart/x-mixed-replace; boundary=b", "MZ\x90\x00\x03\x00\x00\x00"},
	{"lines", "application/x-ndjson", "\x7fELF\x02\x01\x01\x00"},
	{"call", "application/grpc-web", "MZ\x90\x00\x03\x00\x00\x00"},
	{"call2", "application/connect+json", "\x7fELF\x02\x01\x01\x00"},
	{"film", "video/mp4", "MZ\x90\x00\x03\x00\x00\x00"},
}

var infectedSizes = []int{300, 200_000, 2_000_000, 3_000_000}

func infectedBody(kind, size int, bad bool) []byte {
	b := bytes.Repeat([]byte("abcdefghijklmno\n"), size/16+1)[:size]
	copy(b, infectedKinds[kind].begin)
	if bad {
		copy(b[100:], "marmot")
	}
	return b
}

// infectedOrigin serves /KIND/SIZE/bad/chunked. Each body pauses in the middle.
func infectedOrigin(t *testing.T) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		part := strings.Split(r.URL.Path, "/")
		kind, _ := strconv.Atoi(part[1])
		size, _ := strconv.Atoi(part[2])
		b := infectedBody(kind, size, part[3] == "bad")
		w.Header().Set("Content-Type", infectedKinds[kind].ctype)
		if part[4] != "chunked" {
			w.Header().Set("Content-Length", strconv.Itoa(size))
		}
		_, _ = w.Write(b[:size/2])
		w.(http.Flusher).Flush()
		time.Sleep(20 * time.Millisecond) // longer than a short patience
		_, _ = w.Write(b[size/2:])
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// TestNothingInfectedArrives: whatever looks at the bytes, and whatever they are, a client gets
// nothing of an infected body, and all of a clean one. With the race detector, which takes long
// for each byte, only one kind has large bodies.
func TestNothingInfectedArrives(t *testing.T) {
	origin, large := infectedOrigin(t), !race.On
	var hashes strings.Builder
	for kind := range infectedKinds {
		for _, size := range infectedSizes {
			fmt.Fprintf(&hashes, "%x marmots\n", sha256.Sum256(infectedBody(kind, size, true)))
		}
	}
	list := filepath.Join(t.TempDir(), "hashes")
	if err := os.WriteFile(list, []byte(hashes.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	checks := map[string]string{"hashes": fmt.Sprintf("virus: {hashes: %s}", list)}
	for name, failing := range map[string]string{"": "", ", the first says an error": "Can't allocate memory ERROR", ", the first closes": "close"} {
		checks["clamd"+name] = fmt.Sprintf(`virus: {clamd: [%q, %q], skip: none/none, remember: "off"}`, scriptedClamd(t, failing), scriptedClamd(t, ""))
	}
	for name, failing := range map[string]string{"": "", ", the first fails": "ICAP/1.0 500 Server Error\r\n\r\n", ", the first closes": "close", ", the first breaks off": "ICAP/1.0 200 OK\r\nEncapsulated: res-hdr=0, res-body=40\r\n\r\nHTTP/1.1 200 OK"} {
		checks["icap"+name] = fmt.Sprintf(`icap: {servers: ["icap://%s/scan", "icap://%s/scan"]}`, scriptedICAP(t, failing), scriptedICAP(t, ""))
	}
	for name, check := range checks {
		for _, patience := range []string{"default", "hold", "5ms"} {
			if patience != "default" && strings.Contains(name, "first") {
				continue
			}
			t.Run(name+", patience "+patience, func(t *testing.T) { nothingInfectedArrives(t, origin, check, patience, large) })
		}
	}
}

func nothingInfectedArrives(t *testing.T, origin, check, patience string, large bool) {
	if patience = "patience: " + patience; strings.HasSuffix(patience, "default") {
		patience = "learn: off"
	}
	g := runGateway(t, t.TempDir(), fmt.Sprintf(`
listen: {proxy: 127.0.0.1:0, admin: off}
data: data
checks: {%s}
policies:
  - name: readers
    %s
    rules:
      - {name: infected, action: block, category: [%s]}
proxy: {private: [127.0.0.0/8]}
`, check, patience, map[bool]string{true: "icap/virus", false: "virus/virus"}[strings.HasPrefix(check, "icap")]))
	c := through(g.ProxyAddr())
	type ask struct {
		kind, size   int
		bad, chunked bool
		accept       string
	}
	asks := make(chan ask)
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			for a := range asks {
				how := map[bool]string{true: "bad", false: "good"}[a.bad] + "/" + map[bool]string{true: "chunked", false: "whole"}[a.chunked]
				q, _ := http.NewRequestWithContext(t.Context(), "GET", fmt.Sprintf("%s/%d/%d/%s/%s", origin, a.kind, a.size, how, infectedKinds[a.kind].name), nil)
				if a.accept != "" {
					q.Header.Set("Accept", a.accept)
				}
				what := fmt.Sprintf("%s of %d bytes, %s, accepted as %q", infectedKinds[a.kind].name, a.size, how, a.accept)
				res, err := c.Do(q)
				if err != nil {
					t.Errorf("%s: %v", what, err)
					continue
				}
				body, err := io.ReadAll(res.Body)
				res.Body.Close()
				want := infectedBody(a.kind, a.size, a.bad)
				if strings.HasPrefix(a.accept, "text/html") && bytes.Contains(body, []byte("<main")) && res.StatusCode == 200 {
					continue // a browser gets a page while a slow machine judges its download
				}
				switch {
				case a.bad && (bytes.HasPrefix(body, want[:1]) && body[0] != '<' || bytes.Contains(body, []byte("abcdefg"))):
					t.Errorf("%s: status %d, %d bytes arrived, %v", what, res.StatusCode, len(body), err)
				case a.bad && res.StatusCode != 403 && len(body) > 0:
					t.Errorf("%s: status %d, %.40q, %v; want 403", what, res.StatusCode, body, err)
				case !a.bad && (res.StatusCode != 200 || err != nil || !bytes.Equal(body, want)):
					t.Errorf("%s: status %d, %d of %d bytes arrived, %v", what, res.StatusCode, len(body), len(want), err)
				}
			}
		})
	}
	for kind := range infectedKinds {
		for _, size := range infectedSizes {
			if size == 3_000_000 && kind%3 > 0 || !large && size > 200_000 && kind > 0 {
				continue
			}
			for n, accept := range []string{"text/html,application/xhtml+xml,*/*;q=0.8", "*/*", ""} {
				asks <- ask{kind, size, true, n == 1, accept}
				if n == kind%3 {
					asks <- ask{kind, size, false, n == 1, accept}
				}
			}
		}
	}
	close(asks)
	clients.Wait()
}

// TestPagesDoNotWaitForAScanner: while a scanner takes its time with many bodies, pages that it does
// not see come as ever.
func TestPagesDoNotWaitForAScanner(t *testing.T) {
	release := make(chan struct{})
	asked := make(chan struct{}, 64)
	scanner := serveTCP(t, func(c net.Conn) {
		r := bufio.NewReader(c)
		for {
			command, err := r.ReadString(0)
			switch {
			case err != nil:
				return
			case command == "zPING\x00":
				_, _ = io.WriteString(c, "PONG\x00")
				return
			case command != "zINSTREAM\x00":
				continue
			}
			for size := uint32(1); size > 0; {
				if binary.Read(r, binary.BigEndian, &size) != nil {
					return
				}
				_, _ = io.CopyN(io.Discard, r, int64(size))
			}
			asked <- struct{}{}
			<-release
			_, _ = io.WriteString(c, "1: stream: OK\x00")
		}
	}).Addr().String()
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/page" {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, "<p>a page")
			return
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		_, _ = w.Write(infectedBody(0, 100_000, false))
	}))
	defer origin.Close()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "banned"), []byte("< marmots >\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	g := runGateway(t, dir, fmt.Sprintf(`
listen: {proxy: 127.0.0.1:0, admin: off}
data: data
checks: {virus: {clamd: %q, skip: [text/html], remember: "off"}, phrase: {banned: [banned]}}
policies:
  - name: readers
    rules:
      - {name: infected, action: block, category: [virus/virus]}
      - {name: words, action: block, category: [bannedphrase]}
proxy: {private: [127.0.0.0/8], judges: 2, queue-time: 1s}
`, scanner))
	c := through(g.ProxyAddr())
	status := func(path string) int {
		q, _ := http.NewRequestWithContext(t.Context(), "GET", origin.URL+path, nil)
		res, err := c.Do(q)
		if err != nil {
			return 0
		}
		defer res.Body.Close()
		_, _ = io.Copy(io.Discard, res.Body)
		return res.StatusCode
	}
	var downloads sync.WaitGroup
	for range 6 {
		downloads.Go(func() {
			if got := status("/file"); got != 200 {
				t.Errorf("a clean file ends with status %d", got)
			}
		})
	}
	for n := range 6 {
		select {
		case <-asked:
		case <-time.After(20 * time.Second):
			t.Errorf("the scanner is asked about %d of 6 files only", n)
		}
	}
	for range 10 {
		if got := status("/page"); got != 200 {
			t.Errorf("a page ends with status %d while a scanner takes its time", got)
		}
	}
	close(release)
	downloads.Wait()
}

// TestAProgramWithAVirusDoesNotReachAProgram asks a real clamd.
func TestAProgramWithAVirusDoesNotReachAProgram(t *testing.T) {
	peer.Program(t, "clamd")
	dir := t.TempDir()
	socket, conf := filepath.Join(dir, "c.sock"), filepath.Join(dir, "clamd.conf")
	if err := os.Mkdir(filepath.Join(dir, "db"), 0o755); err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{
		filepath.Join(dir, "db", "own.ndb"): fmt.Sprintf("Own.Marmots:0:*:%x\n", "marmot"),
		conf:                                fmt.Sprintf("Foreground yes\nDatabaseDirectory %s/db\nLocalSocket %s\nMaxThreads 4\n", dir, socket),
	} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	peer.Start(t, "clamd", "--config-file="+conf)
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if c, err := net.Dial("unix", socket); err == nil {
			c.Close()
			break
		}
		if time.Now().After(end) {
			t.Skip("clamd does not start on this machine")
		}
	}
	nothingInfectedArrives(t, infectedOrigin(t), fmt.Sprintf("virus: {clamd: %q, skip: none/none}", socket), "default", true)
}

// TestAProgramGetsAByteNowAndThen: where the policy says so, a client that is no browser gets the head
// and a byte of a large file while clamd scans it, and the rest only if the verdict is good.
func TestAProgramGetsAByteNowAndThen(t *testing.T) {
	scan := make(chan struct{})
	clamd := serveTCP(t, func(c net.Conn) {
		for r := bufio.NewReader(c); ; {
			command, err := r.ReadString(0)
			switch {
			case err != nil:
				return
			case command == "zPING\x00":
				_, _ = io.WriteString(c, "PONG\x00")
				return
			case command != "zINSTREAM\x00":
				continue
			}
			var body bytes.Buffer
			for size := uint32(1); size > 0; {
				if binary.Read(r, binary.BigEndian, &size) != nil {
					return
				}
				if _, err := io.CopyN(&body, r, int64(size)); err != nil {
					return
				}
			}
			<-scan
			answer := "OK"
			if bytes.Contains(body.Bytes(), []byte("marmot")) {
				answer = "Own.Marmots FOUND"
			}
			fmt.Fprintf(c, "1: stream: %s\x00", answer)
			return
		}
	}).Addr().String()
	g := runGateway(t, t.TempDir(), fmt.Sprintf(`
listen: {proxy: 127.0.0.1:0, admin: off}
data: data
checks: {virus: {clamd: %q, remember: "off"}}
policies:
  - name: readers
    trickle: 1s
    learn: off
    rules: [{name: infected, action: block, category: [virus, virus-error]}]
proxy: {private: [127.0.0.0/8]}
`, clamd))
	origin, c := infectedOrigin(t), through(g.ProxyAddr())
	for _, how := range []string{"good/whole", "good/chunked", "bad/whole", "bad/chunked"} {
		for kind, name := range map[int]string{0: "setup.exe", 3: "data"} {
			q, _ := http.NewRequestWithContext(t.Context(), "GET", fmt.Sprintf("%s/%d/200000/%s/%s", origin, kind, how, name), nil)
			res, err := c.Do(q)
			if err != nil {
				t.Errorf("%s, %s: nothing comes before the verdict: %v", name, how, err)
				continue
			}
			first := make([]byte, 1)
			_, err = io.ReadFull(res.Body, first)
			scan <- struct{}{}
			rest, end := io.ReadAll(res.Body)
			res.Body.Close()
			want, got := infectedBody(kind, 200000, strings.HasPrefix(how, "bad")), append(first, rest...)
			switch {
			case err != nil || res.StatusCode != 200 || first[0] != want[0]:
				t.Errorf("%s, %s: before the verdict come status %d, %q, %v; want 200 and the first byte", name, how, res.StatusCode, first, err)
			case strings.HasPrefix(how, "bad") && (end == nil || len(got) > 100):
				t.Errorf("%s, %s: %d bytes of an infected file arrive, %v; want few and an end that shows", name, how, len(got), end)
			case strings.HasPrefix(how, "good") && (end != nil || !bytes.Equal(got, want)):
				t.Errorf("%s, %s: %d of %d bytes arrive, %v", name, how, len(got), len(want), end)
			}
		}
	}
}
