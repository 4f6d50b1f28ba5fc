package list

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// generated is an invented list with the structure of the largest public one:
// 69 categories, about 360 different sets of them, names of 18.6 bytes on
// average. Entry i depends only on seed and i, so that nothing must be stored.
type generated struct {
	seed uint64
	n    int
}

func mix(x uint64) uint64 { // splitmix64
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

var topLevels = []string{"com", "com", "com", "com", "net", "org", "info", "ru", "de", "fr", "co.uk", "xyz", "online"}

// name appends entry i: a word, the number (so that all differ), a top level,
// and for one in four a subdomain.
func (g generated) name(b []byte, i int) []byte {
	r := mix(g.seed ^ uint64(i)*0x2545f4914f6cdd1d)
	if r&3 == 0 {
		b = append(b, []string{"www.", "m.", "shop.", "blog."}[r>>2&3]...)
	}
	for n := 5 + r>>4%8; n > 0; n-- {
		b = append(b, "etaoinshrdlucmpg"[r>>(8+n*4)&15])
	}
	b = strconv.AppendUint(b, uint64(i), 36)
	b = append(b, '.')
	return append(b, topLevels[r>>58%uint64(len(topLevels))]...)
}

// categories returns the categories of entry i: one, or for one entry in eight
// one of some 290 sets of two or three.
func (g generated) categories(i int) []int {
	r := mix(g.seed + 1 ^ uint64(i)*0x9e3779b97f4a7c15)
	c := int(r>>32) % 69
	if r&7 != 0 {
		return []int{c}
	}
	set := mix(r>>8%290 + 12345)
	a := int(set>>8) & 0xffff % 69
	all := []int{a, (a + 1 + int(set>>24)&0xffff%68) % 69}
	if third := (a + 1 + int(set>>40)&0xffff%68) % 69; set&1 == 1 && third != all[1] {
		all = append(all, third)
	}
	return all
}

// write writes the list as a squidGuard tree.
func (g generated) write(t testing.TB, dir string) {
	t.Helper()
	var out [69]*bufio.Writer
	for c := range out {
		d := filepath.Join(dir, fmt.Sprintf("category%02d", c))
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
		f, err := os.Create(filepath.Join(d, "domains"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		out[c] = bufio.NewWriter(f)
	}
	var b []byte
	for i := range g.n {
		b = append(g.name(b[:0], i), '\n')
		for _, c := range g.categories(i) {
			out[c].Write(b)
		}
	}
	for _, w := range out {
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
	}
}

// missing appends a name that is not in the list but looks like it.
func (g generated) missing(b []byte, i int) []byte {
	return append(generated{g.seed, 0}.name(append(b, "www."...), g.n+i), "/x"[:0]...)
}
