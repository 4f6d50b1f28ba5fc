package cache

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shuultuur/lib/message"
)

// onDisk returns a cache that has http://example.org/a with this body only on the disk, and
// the folder.
func onDisk(t *testing.T, body string) (c *Cache, front *RoundTripper, dir string) {
	dir = t.TempDir()
	c = open(t, Config{Disk: 64 << 20}, Parts{Data: dir})
	front = c.InFrontOf(answerer(func(*message.Request) (*message.Response, error) {
		return respond(200, body, "Cache-Control", "max-age=1000"), nil
	}))
	send(t, front, t.Context(), request("GET", "http://example.org/a"))
	name := []byte("http://example.org/a")
	for end := time.Now().Add(time.Minute); c.disk.Len() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the object was not written to the disk within 10 s")
		}
	}
	c.mu.Lock()
	_, ok := c.memory.Remove(hash(name))
	c.mu.Unlock()
	if !ok {
		t.Fatal("the object was not in memory")
	}
	return c, front, dir
}

func TestAnObjectInUseIsReadFromTheDiskOnce(t *testing.T) {
	c, front, _ := onDisk(t, strings.Repeat("old ", 1000))
	name := []byte("http://example.org/a")
	first := c.get(name)
	if first == nil || c.get(name) != first {
		t.Error("an object in use was read from the disk again")
	}
	c.remove(name)
	if c.get(name) != nil {
		t.Error("a removed object is still in the cache")
	}
	if _, body, note := send(t, front, t.Context(), request("GET", "http://example.org/a")); len(body) != 4000 || !strings.Contains(note, "miss") {
		t.Errorf("after removal a request got %d bytes with Cache-Status %q, want 4000 bytes and a miss", len(body), note)
	}
	if body := string(first.body[0]); body != strings.Repeat("old ", 1000) { // current readers can still read it
		t.Errorf("the body of an object in use became %.20q after its removal", body)
	}
}

// TestDamageToAnObjectInMemoryIsNoticed: an object in memory does not hide that its record on
// the disk is damaged.
func TestDamageToAnObjectInMemoryIsNoticed(t *testing.T) {
	c, front, dir := onDisk(t, strings.Repeat("body", 200))
	held := c.get([]byte("http://example.org/a"))
	files, _ := filepath.Glob(filepath.Join(dir, "cache", "*.segment"))
	if held == nil || len(files) != 1 {
		t.Fatalf("the object is %v, the segments are %v; want an object in one segment", held, files)
	}
	f, err := os.OpenFile(files[0], os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte{'B'}, held.at+400); err != nil {
		t.Fatal(err)
	}
	if _, body, note := send(t, front, t.Context(), request("GET", "http://example.org/a")); body != strings.Repeat("body", 200) || !strings.Contains(note, "miss") {
		t.Errorf("after damage to its record a request got %.20q with Cache-Status %q, want the origin's body and a miss", body, note)
	}
	if c.disk.Damaged.Load() != 1 {
		t.Errorf("the disk counts %d damaged objects, want 1", c.disk.Damaged.Load())
	}
}
