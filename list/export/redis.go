// Package export writes lists for other programs that look categories up. A [Redis] takes compiled
// lists one after another and says at the end how often hashes of names collide.
package export

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/cespare/xxhash/v2"

	"shuultuur/list"
)

// probes is the number of absent names with which false matches are counted.
const probes = 2_000_000

// A Redis writes the entries of lists as commands for Redis: for each the hash of its name, with
// its category as the value.
type Redis struct {
	w       *bufio.Writer
	layout  int
	entries int
	left    int // exceptions
	hashes  []uint64
}

// NewRedis returns one that writes to w. layout is the number of bits of a hash: 32, or 64, with
// which the value has the name too.
func NewRedis(w io.Writer, layout int) *Redis {
	return &Redis{w: bufio.NewWriterSize(w, 1<<16), layout: layout}
}

// Add writes the entries of a list. Exceptions, networks, expressions and rules are left out.
func (x *Redis) Add(ctx context.Context, f *list.File) (err error) {
	var failed error
	err = f.Entries(func(entry list.Entry) bool {
		if entry.Exception {
			x.left++
			return true
		}
		x.entries++
		if x.entries&0xfff == 0 && ctx.Err() != nil {
			failed = ctx.Err()
			return false
		}
		failed = x.put(entry)
		return failed == nil
	})
	if err == nil {
		err = failed
	}
	return err
}

// Flush writes what is buffered.
func (x *Redis) Flush() error { return x.w.Flush() }

func (x *Redis) hash(name string) uint64 {
	if x.layout == 32 {
		return uint64(xxh32(name))
	}
	return xxhash.Sum64String(name)
}

// put writes one entry as a command of the Redis protocol.
func (x *Redis) put(entry list.Entry) error {
	h := x.hash(entry.Key)
	x.hashes = append(x.hashes, h)
	digits := fmt.Sprintf("%0*x", x.layout/4, h)
	value := entry.Category
	if x.layout == 64 {
		value += " " + entry.Key
	}
	b := append(x.w.AvailableBuffer(), "*4\r\n$4\r\nHSET\r\n"...)
	for _, s := range [...]string{"0x" + digits[:4], digits[4:], value} {
		b = append(strconv.AppendInt(append(b, '$'), int64(len(s)), 10), "\r\n"...)
		b = append(append(b, s...), "\r\n"...)
	}
	_, err := x.w.Write(b)
	return err
}

// Report says how often hashes collide.
func (x *Redis) Report(w io.Writer) {
	slices.Sort(x.hashes)
	all := len(x.hashes)
	x.hashes = slices.Compact(x.hashes)
	fmt.Fprintf(w, "%d entries written, %d of them over another with the same hash, %d exceptions left out\n", all, all-len(x.hashes), x.left)
	hits := 0
	rnd := rand.New(rand.NewPCG(1, 2))
	for range probes {
		// No list has a name under this domain, which is reserved (RFC 2606).
		if _, found := slices.BinarySearch(x.hashes, x.hash(strconv.FormatUint(rnd.Uint64(), 36)+".invalid")); found {
			hits++
		}
	}
	fmt.Fprintf(w, "of %d names that are in no list, %d have the hash of one that is: %.5f %% of look-ups are wrong", probes, hits, 100*float64(hits)/probes)
	if x.layout == 64 {
		fmt.Fprint(w, " where the name is not compared")
	}
	fmt.Fprintln(w)
}

// xxh32 is the hash XXH32 with seed 0, as its specification has it.
func xxh32(s string) uint32 {
	const p1, p2, p3, p4, p5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393
	rotate := func(x uint32, n int) uint32 { return x<<n | x>>(32-n) }
	word := func(i int) uint32 {
		return uint32(s[i]) | uint32(s[i+1])<<8 | uint32(s[i+2])<<16 | uint32(s[i+3])<<24
	}
	var h uint32 = p5
	i := 0
	if len(s) >= 16 {
		zero := uint32(0)
		v := [4]uint32{zero + p1, p2, 0, zero - p1}
		v[0] += p2
		for ; i+16 <= len(s); i += 16 {
			for j := range v {
				v[j] = rotate(v[j]+word(i+4*j)*p2, 13) * p1
			}
		}
		h = rotate(v[0], 1) + rotate(v[1], 7) + rotate(v[2], 12) + rotate(v[3], 18)
	}
	h += uint32(len(s))
	for ; i+4 <= len(s); i += 4 {
		h = rotate(h+word(i)*p3, 17) * p4
	}
	for ; i < len(s); i++ {
		h = rotate(h+uint32(s[i])*p5, 11) * p1
	}
	h = (h ^ h>>15) * p2
	h = (h ^ h>>13) * p3
	return h ^ h>>16
}
