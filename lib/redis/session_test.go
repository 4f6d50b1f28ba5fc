package redis_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"shuultuur/lib/redis"
	"shuultuur/test/redistest"
)

func session(t *testing.T, c *redis.Client, most int) *redis.Session {
	t.Helper()
	s := c.Session(t.Context(), most)
	t.Cleanup(s.Close)
	return s
}

func hashOf(t *testing.T, s *redis.Session, key string) map[string]string {
	t.Helper()
	got := map[string]string{}
	if err := s.Hash(key, func(f, v []byte) error { got[string(f)] = string(v); return nil }); err != nil {
		t.Fatal(err)
	}
	return got
}

func TestLargeFilesAreReadWhole(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Do(t, "ACL", "SETUSER", "reader", "on", ">secret", "~*", "+@read", "+@connection")
	s := session(t, connect(t, redis.Config{Addresses: []string{server.Addr}, DB: 2, Username: "reader", Password: "secret"}, redis.Options{}), 300_000)
	want, keys := map[string]string{}, []string{}
	writer := connect(t, redis.Config{Addresses: []string{server.Addr}, DB: 2}, redis.Options{})
	// Values smaller, as large and larger than the buffer, and longer than are
	// read.
	var hset, sadd, mset []string
	for i := range 20_000 {
		f, v := fmt.Sprintf("f%d", i), strings.Repeat("v", i%100)
		switch i {
		case 100, 200, 300:
			v = strings.Repeat("w", (64<<10)-400+i)
		case 400:
			v = strings.Repeat("x", 400_000)
		}
		hset, sadd, mset = append(hset, f, v), append(sadd, f), append(mset, "k:"+f, v)
		want[f] = v[:min(len(v), 300_000)]
		keys = append(keys, "k:"+f)
	}
	do(t, writer, append([]string{"HSET", "h"}, hset...)...)
	do(t, writer, append([]string{"SADD", "s"}, sadd...)...)
	do(t, writer, append([]string{"MSET"}, mset...)...)
	if got := hashOf(t, s, "h"); !maps.Equal(got, want) {
		t.Errorf("Hash: of %d fields %d were read, or values differ", len(want), len(got))
	}
	if got := hashOf(t, s, "none"); len(got) != 0 {
		t.Errorf("Hash of a missing key: got %d fields", len(got))
	}
	members := map[string]bool{}
	if err := s.Members("s", func(m []byte) error { members[string(m)] = true; return nil }); err != nil || len(members) != len(want) {
		t.Errorf("Members: got %d, error %v", len(members), err)
	}
	found := map[string]bool{}
	if err := s.Keys("k:*", func(k []byte) error { found[string(k)] = true; return nil }); err != nil || len(found) != len(want) {
		t.Errorf("Keys: got %d, error %v", len(found), err)
	}
	keys = append(keys, "h", "k:none") // of another type, and none
	at := 0
	if err := s.Strings(len(keys), func(i int, b []byte) []byte { return append(b, keys[i]...) }, func(i int, v []byte) error {
		if i != at || string(v) != want[strings.TrimPrefix(keys[i], "k:")] || (v == nil) != (i >= len(want)) {
			t.Errorf("value %d of key %s: wrong, with %d bytes", i, keys[i], len(v))
		}
		at++
		return nil
	}); err != nil || at != len(keys) {
		t.Errorf("values of keys: got %d, error %v", at, err)
	}
	if n, err := s.Length("h"); n != len(want) || err != nil {
		t.Errorf("Length: got %d, error %v", n, err)
	}
	listed := map[string]bool{}
	if err := s.Fields("h", func(f []byte) error { listed[string(f)] = true; return nil }); err != nil || len(listed) != len(want) {
		t.Errorf("Fields: got %d, error %v", len(listed), err)
	}
	fields := append(slices.Sorted(maps.Keys(want)), "none")
	at = 0
	if err := s.Values("h", len(fields), func(i int, b []byte) []byte { return append(b, fields[i]...) }, func(i int, v []byte) error {
		if i != at || string(v) != want[fields[i]] || (v == nil) != (i == len(want)) {
			t.Errorf("value %d of field %s: wrong, with %d bytes", i, fields[i], len(v))
		}
		at++
		return nil
	}); err != nil || at != len(fields) {
		t.Errorf("values of fields: got %d, error %v", at, err)
	}
	if err := s.Members("h", func([]byte) error { return nil }); err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
		t.Errorf("Members of a hash: got %v, want WRONGTYPE", err)
	}
	stop := errors.New("enough")
	if err := s.Hash("h", func(_, _ []byte) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("Hash whose callback fails: got %v, want its error", err)
	}
	if got := hashOf(t, s, "h"); len(got) != len(want) {
		t.Errorf("Hash after that error: got %d fields", len(got))
	}
}

func TestKeysOfAClusterAreReadWhereTheyAre(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, 3)
	c := connect(t, redis.Config{Addresses: []string{nodes[0].Addr}, Cluster: true}, redis.Options{})
	s := session(t, c, 100)
	var keys []string
	for i := range 30 {
		h, k := fmt.Sprintf("h%d", i), fmt.Sprintf("k%d", i)
		do(t, c, "HSET", h, "f", h)
		do(t, c, "SET", k, k)
		keys = append(keys, k)
		if got := hashOf(t, s, h); len(got) != 1 || got["f"] != h {
			t.Errorf("hash %s of the cluster: got %v", h, got)
		}
	}
	found := map[string]bool{}
	if err := s.Keys("k*", func(k []byte) error { found[string(k)] = true; return nil }); err != nil || len(found) != len(keys) {
		t.Errorf("Keys of the cluster: got %d, error %v", len(found), err)
	}
	do(t, c, "HSET", "h-of-another-type", "f", "v")
	others := append(keys, "none", "h-of-another-type")
	if err := s.Strings(len(others), func(i int, b []byte) []byte { return append(b, others[i]...) }, func(i int, v []byte) error {
		if i < len(keys) && string(v) != keys[i] || i >= len(keys) && v != nil {
			t.Errorf("value of %s in the cluster: got %q", others[i], v)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

func TestAServerThatHangsIsNotWaitedForLong(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := session(t, connect(t, at(server.Addr), redis.Options{}), 100)
	hashOf(t, s, "h")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	server.Pause(t)
	began := time.Now()
	if err := s.Hash("h", func(_, _ []byte) error { return nil }); err == nil || ctx.Err() != nil {
		t.Errorf("Hash with a paused server returned after %v: %v", time.Since(began), err)
	}
	server.Resume(t)
	hashOf(t, s, "h")
}
