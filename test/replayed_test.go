package test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shuultuur/event"
	"shuultuur/test/peer"
)

// TestReplayByTheSameSettingsChangesNothing: what a record does not have (words, what is inside a
// tunnel, certificates, whether a tunnel was decrypted) is no change.
func TestReplayByTheSameSettingsChangesNothing(t *testing.T) {
	t.Parallel()
	curl := peer.Program(t, "curl")
	for name, rules := range map[string]string{
		"exceptions by words, lists and certificates": `
      - {name: excused, action: allow, category: [exceptionphrase]}
      - {name: betting, action: block, category: [gambling]}
      - {name: certificates, action: block, category: [certificate-error]}
      - {name: bad words, action: block, category: [phrase], over: 100}
      - {name: some words, action: warn, category: [phrase], over: 50}`,
		"only what is listed": `
      - {name: lesson, action: allow, category: [lesson]}
      - {name: rest, action: block}`,
		"a fingerprint": `
      - {name: lesson, action: allow, category: [lesson]}
      - {name: programs, action: block, ja4: [none]}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHTTPSHouse(t, map[string]string{"/": "The ferry sails at nine.", "/rude": "blimey crikey", "/salt": "blimey", "/excused": "blimey crikey lighthouse"})
			text, err := os.ReadFile(h.file)
			if err != nil {
				t.Fatal(err)
			}
			begin, rest, _ := strings.Cut(string(text), "    rules:\n")
			_, end, _ := strings.Cut(rest, "\nevents:")
			begin = strings.Replace(begin, "naughtynesslimit: 50", "naughtynesslimit: 50, exception: [excused]", 1)
			begin = strings.Replace(begin, "lists:\n", "lists:\n  lesson: {format: auto, path: lesson.txt, category: lesson}\n", 1)
			begin = strings.Replace(begin, "lists: [own]", "lists: [own, lesson]", 1)
			h.write("excused", "<lighthouse>\n")
			h.write("lesson.txt", "www.example.com/salt\n")
			h.write("shuultuur.yaml", begin+"    rules:"+rules+"\nevents:"+end)
			h.restart()
			root := filepath.Join(filepath.Dir(h.file), "client-root.pem")
			for _, host := range []string{"www.example.com", "bet.example", "elsewhere.test"} {
				for _, path := range []string{"/", "/rude", "/salt", "/excused"} {
					for _, scheme := range []string{"http", "https"} {
						_ = exec.Command(curl, "-sS", "--max-time", "60", "--cacert", root, "-x", "http://"+h.g.ProxyAddr(), scheme+"://"+host+path).Run()
					}
				}
				// A tunnel in which no TLS is spoken.
				c, err := net.Dial("tcp", h.g.ProxyAddr())
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprintf(c, "CONNECT %s:443 HTTP/1.1\r\nHost: %s:443\r\n\r\nSSH-2.0-x\r\n", host, host)
				_ = c.SetDeadline(time.Now().Add(2 * time.Second)) // the origin waits for a hello
				_, _ = io.Copy(io.Discard, c)
				c.Close()
			}
			h.status("http://last.example/")
			h.recorded("host:last.example")
			out, err := exec.Command(filepath.Join(bin, "shuultuur"), "replay", "-offline", "-config", h.file, "-json").Output()
			var r struct {
				Judged, Bodies, Changed int64
				Changes                 json.RawMessage
			}
			if err != nil || json.Unmarshal(out, &r) != nil {
				t.Fatalf("replay: %v, %s", err, out)
			}
			if r.Changed != 0 || r.Judged < 20 {
				t.Errorf("judged %d, bodies %d, changed %d, want no change:\n%s", r.Judged, r.Bodies, r.Changed, r.Changes)
				for row, err := range h.g.Store().Query(t.Context(), event.Filter{}, event.Page{}) {
					if err != nil {
						t.Fatal(err)
					}
					t.Logf("%s %s %s %s: %v by %q, category %q, looked at %d, note %q, findings %s", row.Proto, row.Method, row.Host, row.URL, row.Action, row.Rule, row.Category, row.Looked, row.Note, row.Findings)
				}
			}
		})
	}
}
