package export

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"

	"shuultuur/lib/setting"
	"shuultuur/list"
	"shuultuur/test/redistest"
)

func TestXXH32(t *testing.T) {
	for s, want := range map[string]uint32{
		"":    0x02cc5d05,
		"a":   0x550d7456,
		"abc": 0x32d153ff,
		"Nobody inspects the spammish repetition": 0xe2293b2f,
	} {
		if got := xxh32(s); got != want {
			t.Errorf("xxh32(%q) = %08x, want %08x", s, got, want)
		}
	}
}

// TestExportToRedis loads both layouts into a Redis and looks names up as their readers do.
func TestExportToRedis(t *testing.T) {
	r := redistest.Start(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "games.txt")
	if err := os.WriteFile(file, []byte("play.example\nsub.play.example\nother.example/path\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	compiled := filepath.Join(dir, "games.list")
	if _, err := list.Compile(t.Context(), "games", list.Config{Format: "domains", Path: setting.Source(file)}, compiled); err != nil {
		t.Fatal(err)
	}
	games, err := list.Open(compiled)
	if err != nil {
		t.Fatal(err)
	}
	defer games.Close()
	for _, layout := range []int{32, 64} {
		r.Do(t, "FLUSHALL")
		var out, report bytes.Buffer
		x := NewRedis(&out, layout)
		if err := errors.Join(x.Add(t.Context(), games), x.Flush()); err != nil {
			t.Fatalf("exporting in layout %d: %v", layout, err)
		}
		x.Report(&report)
		c, err := net.Dial("tcp", r.Addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Write(append(out.Bytes(), "PING\r\n"...)); err != nil {
			t.Fatal(err)
		}
		c.SetReadDeadline(time.Now().Add(time.Minute))
		var answer []byte
		for b := make([]byte, 100); !bytes.HasSuffix(answer, []byte("+PONG\r\n")); {
			n, err := c.Read(b)
			if err != nil && err != io.EOF {
				t.Fatalf("reading the reply of Redis: %q, %v", answer, err)
			}
			answer = append(answer, b[:n]...)
		}
		if bytes.Contains(answer, []byte("-ERR")) {
			t.Fatalf("Redis refuses a command: %q", answer)
		}
		digits, want := fmt.Sprintf("%08x", xxh32("other.example/path")), "games"
		if layout == 64 {
			digits, want = fmt.Sprintf("%016x", xxhash.Sum64String("other.example/path")), "games other.example/path"
		}
		key, field := "0x"+digits[:4], digits[4:]
		m := r.Do(t, "HGET", key, field)
		if got, err := m.Text(); err != nil || got != want {
			t.Errorf("layout %d: HGET %s %s is %q, %v; want %q", layout, key, field, got, err, want)
		}
		if s := report.String(); !strings.Contains(s, "3 entries written, 0 of them over another") || !strings.Contains(s, "look-ups are wrong") {
			t.Errorf("layout %d: the report says\n%s", layout, s)
		}
	}
}
