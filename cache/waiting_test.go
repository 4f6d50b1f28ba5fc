package cache

import (
	"strings"
	"testing"
	"time"
)

// idle returns a cache whose disk has a record of an older object under the name, with nothing
// in memory. Nothing more is written to its disk.
func idle(t *testing.T, name, older string) *Cache {
	c, err := New(Config{Disk: 64 << 20, Memory: 4 << 20}, Parts{Data: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.shelf.put(textObject(name, older))
	c.write(<-c.writes)
	evict(c, name)
	if o := c.get([]byte(name)); o == nil || o.record == nil || text(o) != older {
		t.Fatal("the older object is not on the disk")
	}
	return c
}

func textObject(name, body string) *object {
	b := newBlocks()
	b.add(len(body))
	b.grow(copy(b.last()[:len(body)], body))
	o := &object{name: name, url: name, host: "example.org", body: b.list, blocks: b, length: int64(len(body)), size: int64(len(body)), verdicts: &verdicts{}}
	o.res.Status = 200
	o.facts.Received = time.Now()
	return o
}

func text(o *object) string {
	var b strings.Builder
	for _, p := range o.body {
		b.Write(p)
	}
	return b.String()
}

// evict makes an object leave memory as by an eviction.
func evict(c *Cache, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := hash([]byte(name))
	if o, ok := c.memory.Remove(k); ok {
		c.onRemoved(k, o)
	}
}

func TestAnObjectThatLeftMemoryAndWaitsForTheDiskIsServed(t *testing.T) {
	name, older, newer := "http://example.org/a", strings.Repeat("older", 2000), strings.Repeat("newer", 2000)
	c := idle(t, name, older)
	c.shelf.put(textObject(name, newer))
	evict(c, name)
	o := c.get([]byte(name))
	if o == nil || text(o) != newer {
		t.Fatal("the object that waits to be written is not found")
	}
	// Readers continue while it is written and others reuse memory.
	c.write(<-c.writes)
	for range 64 {
		b := newBlocks()
		b.add(len(newer))
		b.grow(copy(b.last()[:len(newer)], older))
	}
	if text(o) != newer {
		t.Error("the memory of an object in use was reused")
	}
	if o := c.get([]byte(name)); o == nil || o.record == nil || text(o) != newer {
		t.Error("the newer object is not on the disk")
	}
}

func TestADroppedWriteRemovesTheOlderObject(t *testing.T) {
	name := "http://example.org/a"
	c := idle(t, name, "older")
	for range maxWrites {
		c.writes <- textObject("http://example.org/b", "b")
	}
	c.shelf.put(textObject(name, "newer"))
	if c.dropped.Load() != 1 {
		t.Fatalf("%d writes were dropped because the queue was full, want 1", c.dropped.Load())
	}
	evict(c, name)
	if o := c.get([]byte(name)); o != nil {
		t.Errorf("after the newer object left memory, the older one was found: %q", text(o))
	}
}

func TestAnObjectIsNotServedFromTheDiskWhileItIsOutOfDateThere(t *testing.T) {
	name := "http://example.org/a"
	c := idle(t, name, "older")
	c.mu.Lock()
	c.writing = hash([]byte(name)) // an older one is being written, and was removed meanwhile
	c.mu.Unlock()
	if o := c.get([]byte(name)); o != nil {
		t.Errorf("a removed object was found: %q", text(o))
	}
}
