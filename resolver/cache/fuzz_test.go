package cache

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"
)

// FuzzPuts compares the cache with a map: an entry in the cache is the latest one and complete,
// for all sizes and kinds of answers.
func FuzzPuts(f *testing.F) {
	f.Add(uint64(1), uint16(100), uint16(40), uint8(50))
	f.Add(uint64(2), uint16(9000), uint16(300), uint8(0))
	f.Add(uint64(3), uint16(16000), uint16(12000), uint8(100))
	f.Fuzz(func(t *testing.T, seed uint64, names, size uint16, negative uint8) {
		c, now := newCache(t, MinSize, time.Hour)
		rnd := rand.New(rand.NewPCG(seed, 1))
		last := map[int]uint32{}
		for i := range uint32(20_000) {
			k := rnd.IntN(int(names) + 1)
			switch rnd.IntN(8) {
			case 0, 1, 2, 3:
				body, e, st, _ := c.Get(key(k), now, 30, nil)
				put, ok := last[k]
				if st == Miss {
					continue
				}
				if !ok || binary.LittleEndian.Uint32(body) != put || len(body) < 4 || !bytes.Equal(body[4:], bytes.Repeat([]byte{byte(put)}, len(body)-4)) {
					t.Fatalf("name %d: got %d bytes of put %d, the last was %d, entry %+v", k, len(body), binary.LittleEndian.Uint32(body), put, e)
				}
			case 4:
				c.Fail(key(k), now)
				now = now.Add(time.Second)
			default:
				body := make([]byte, 4+rnd.IntN(int(size)+1))
				binary.LittleEndian.PutUint32(body, i)
				for j := range body[4:] {
					body[4+j] = byte(i)
				}
				e := &Entry{Body: body, TTL: 300}
				if rnd.IntN(100) < int(negative) {
					e.Flags = Negative
				}
				if c.Put(key(k), now, e); entryHead+5+20+len(body) > maxEntry-8 {
					delete(last, k) // if it is too long, the old entry may stay
					c.Flush()
					clear(last)
					continue
				}
				last[k] = i
			}
		}
		if st := c.Stats(); st.Bytes > 2*MinSize || st.Entries > len(last) {
			t.Fatalf("the cache has %+v for %d names", st, len(last))
		}
	})
}
