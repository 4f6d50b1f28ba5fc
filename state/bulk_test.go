package state

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"shuultuur/state/redistest"
)

func bulkSession(t *testing.T, r Redis, most int) *Session {
	t.Helper()
	client, err := r.Connect(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	b, err := r.Bulk(t.TempDir(), client)
	if err != nil {
		t.Fatal(err)
	}
	s := b.Session(t.Context(), most)
	t.Cleanup(s.Close)
	return s
}

func hashOf(t *testing.T, s *Session, key string) map[string]string {
	t.Helper()
	got := map[string]string{}
	if err := s.Hash(key, func(f, v []byte) error { got[string(f)] = string(v); return nil }); err != nil {
		t.Fatal(err)
	}
	return got
}

func TestWhatIsLargeIsReadWhole(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Do(t, "ACL", "SETUSER", "reader", "on", ">secret", "~*", "+@read", "+@connection")
	s := bulkSession(t, Redis{Addresses: []string{server.Addr}, DB: 2, Username: "reader", Password: "secret"}, 300_000)
	want, keys := map[string]string{}, []string{}
	writer := server.Client(t)
	do := func(words ...string) {
		t.Helper()
		c, release := writer.Dedicate()
		defer release()
		for _, cmd := range [][]string{{"SELECT", "2"}, words} {
			if err := c.Do(t.Context(), c.B().Arbitrary(cmd...).Build()).Error(); err != nil {
				t.Fatal(err)
			}
		}
	}
	// Values below, at and above what the buffer holds, and longer than are read.
	var hset, sadd, mset []string
	for i := range 20_000 {
		f, v := fmt.Sprintf("f%d", i), strings.Repeat("v", i%100)
		switch i {
		case 100, 200, 300:
			v = strings.Repeat("w", connBuffer-400+i)
		case 400:
			v = strings.Repeat("x", 400_000)
		}
		hset, sadd, mset = append(hset, f, v), append(sadd, f), append(mset, "k:"+f, v)
		want[f] = v[:min(len(v), 300_000)]
		keys = append(keys, "k:"+f)
	}
	do(append([]string{"HSET", "h"}, hset...)...)
	do(append([]string{"SADD", "s"}, sadd...)...)
	do(append([]string{"MSET"}, mset...)...)
	if got := hashOf(t, s, "h"); !maps.Equal(got, want) {
		t.Errorf("of %d fields %d were read", len(want), len(got))
	}
	if got := hashOf(t, s, "none"); len(got) != 0 {
		t.Errorf("%d fields of nothing", len(got))
	}
	members := map[string]bool{}
	if err := s.Members("s", func(m []byte) error { members[string(m)] = true; return nil }); err != nil || len(members) != len(want) {
		t.Errorf("%d members, %v", len(members), err)
	}
	found := map[string]bool{}
	if err := s.Keys("k:*", func(k []byte) error { found[string(k)] = true; return nil }); err != nil || len(found) != len(want) {
		t.Errorf("%d keys, %v", len(found), err)
	}
	keys = append(keys, "h", "k:none") // of another type, and none
	at := 0
	if err := s.Strings(len(keys), func(i int, b []byte) []byte { return append(b, keys[i]...) }, func(i int, v []byte) error {
		if i != at || string(v) != want[strings.TrimPrefix(keys[i], "k:")] || (v == nil) != (i >= len(want)) {
			t.Errorf("%d: %s: %d bytes", i, keys[i], len(v))
		}
		at++
		return nil
	}); err != nil || at != len(keys) {
		t.Errorf("%d values, %v", at, err)
	}
	if n, err := s.Length("h"); n != len(want) || err != nil {
		t.Errorf("%d fields are counted, %v", n, err)
	}
	listed := map[string]bool{}
	if err := s.Fields("h", func(f []byte) error { listed[string(f)] = true; return nil }); err != nil || len(listed) != len(want) {
		t.Errorf("%d fields are listed, %v", len(listed), err)
	}
	fields := append(slices.Sorted(maps.Keys(want)), "none")
	at = 0
	if err := s.Values("h", len(fields), func(i int, b []byte) []byte { return append(b, fields[i]...) }, func(i int, v []byte) error {
		if i != at || string(v) != want[fields[i]] || (v == nil) != (i == len(want)) {
			t.Errorf("%d: %s: %d bytes", i, fields[i], len(v))
		}
		at++
		return nil
	}); err != nil || at != len(fields) {
		t.Errorf("%d values of fields, %v", at, err)
	}
	if err := s.Members("h", func([]byte) error { return nil }); err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
		t.Errorf("a hash as a set: %v", err)
	}
	stop := errors.New("enough")
	if err := s.Hash("h", func(_, _ []byte) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("stopped: %v", err)
	}
	if got := hashOf(t, s, "h"); len(got) != len(want) {
		t.Errorf("after an error %d fields", len(got))
	}
	// Page by page it is the same.
	paged := map[string]string{}
	if err := s.at("h", func(c *bulkConn) error {
		return c.walk(true, func(f, v []byte) error { paged[string(f)] = string(v); return nil }, "HSCAN", "h")
	}); err != nil || !maps.Equal(paged, want) {
		t.Errorf("page by page %d fields of %d, %v", len(paged), len(want), err)
	}
}

func TestKeysOfAClusterAreReadWhereTheyAre(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, 3)
	s := bulkSession(t, Redis{Addresses: []string{nodes[0].Addr}, Cluster: true}, 100)
	var keys []string
	for i := range 30 {
		h, k := fmt.Sprintf("h%d", i), fmt.Sprintf("k%d", i)
		if err := errors.Join(
			s.client.Do(t.Context(), s.client.B().Hset().Key(h).FieldValue().FieldValue("f", h).Build()).Error(),
			s.client.Do(t.Context(), s.client.B().Set().Key(k).Value(k).Build()).Error()); err != nil {
			t.Fatal(err)
		}
		keys = append(keys, k)
		if got := hashOf(t, s, h); len(got) != 1 || got["f"] != h {
			t.Errorf("%s: %v", h, got)
		}
	}
	found := map[string]bool{}
	if err := s.Keys("k*", func(k []byte) error { found[string(k)] = true; return nil }); err != nil || len(found) != len(keys) {
		t.Errorf("%d keys, %v", len(found), err)
	}
	if err := s.Strings(len(keys), func(i int, b []byte) []byte { return append(b, keys[i]...) }, func(i int, v []byte) error {
		if string(v) != keys[i] {
			t.Errorf("%s: %q", keys[i], v)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// answering is a connection on which a server has said b.
func answering(b []byte) *bulkConn {
	conn, _ := net.Pipe()
	return &bulkConn{conn: conn, r: bufio.NewReaderSize(bytes.NewReader(b), 64), w: bufio.NewWriter(conn), most: 100, stop: func() bool { return true }}
}

func FuzzAnswers(f *testing.F) {
	f.Add([]byte("*4\r\n$1\r\na\r\n$2\r\nbb\r\n$-1\r\n$0\r\n\r\n"))
	f.Add([]byte("*2\r\n$200\r\n" + strings.Repeat("x", 200) + "\r\n$-1\r\n"))
	f.Add([]byte("*-1\r\n"))
	f.Add([]byte("*1000000000\r\n$99999999999999999999\r\n"))
	f.Add([]byte("-MOVED 1 a:1\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, pairs := range []bool{false, true} {
			c := answering(b)
			size := 0
			n, err := c.header('*')
			if err != nil {
				continue
			}
			_ = c.elements(n, pairs, func(x, y []byte) error { size += len(x) + len(y); return nil })
			if size > len(b) {
				t.Errorf("%d bytes of %d", size, len(b))
			}
		}
	})
}

func TestAServerThatHangsIsNotWaitedForLong(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := bulkSession(t, Redis{Addresses: []string{server.Addr}}, 100)
	hashOf(t, s, "h")
	ctx, cancel := context.WithTimeout(t.Context(), 10*silence)
	defer cancel()
	server.Pause(t)
	began := time.Now()
	if err := s.Hash("h", func(_, _ []byte) error { return nil }); err == nil || ctx.Err() != nil {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
	server.Resume(t)
	hashOf(t, s, "h")
	if got := slices.Collect(maps.Keys(s.conns)); len(got) != 1 {
		t.Errorf("connections %v", got)
	}
}
