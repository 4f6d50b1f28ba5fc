//go:build unix

package zone

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"shuultuur/test/race"
	"shuultuur/test/reading"
)

// deepZone returns a zone of size bytes. Its names have 60 labels, of which they share two.
func deepZone(size int) string {
	var b strings.Builder
	b.WriteString(tiny)
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, "%sx%d A 192.0.2.1\n", strings.Repeat(fmt.Sprintf("%c.", 'a'+i%26), 57), i)
	}
	return b.String()
}

// Checking and serving names of many labels takes time in proportion to the file, although each
// has many empty names above it.
func TestNamesOfManyLabelsAreCheckedQuickly(t *testing.T) {
	race.Without(t)
	const atLeast, each = 200 * time.Millisecond, time.Microsecond // for each byte
	for _, size := range []int{100_000, 400_000} {
		from := reading.ProcessorTime()
		z, err := Read(strings.NewReader(deepZone(size)), "x.test.", "")
		if err != nil {
			t.Fatal(err)
		}
		if problems := Check(z); len(problems) > 0 {
			t.Error(problems[0])
		}
		took := reading.ProcessorTime() - from
		if most := atLeast + time.Duration(size)*each; took > most {
			t.Errorf("a zone of %d bytes takes %s, more than %s", size, took, most)
		}
		t.Logf("a zone of %d bytes takes %s", size, took)
		served, err := compile(z, 1)
		if err != nil {
			t.Fatal(err)
		}
		if names := 58*len(z.Records)/60 - 60; served.nodes < names || len(served.arena) > 100*size {
			t.Errorf("a zone of %d bytes and %d records has %d names, in %d bytes", size, len(z.Records), served.nodes, len(served.arena))
		}
	}
}

// Names between records and the apex exist, each once, in order, below the name that is next.
func TestEmptyNamesAboveRecordsExistOnce(t *testing.T) {
	z, err := Read(strings.NewReader(tiny+"a.b.c A 192.0.2.1\nx.b.c A 192.0.2.1\nb.c.d A 192.0.2.1\n*.q.w A 192.0.2.1\n\\000.\\001.e A 192.0.2.1\nc.d TXT a\n"), "x.test.", "")
	if err != nil {
		t.Fatal(err)
	}
	b := &builder{z: z, nodes: map[string]*node{}, proofs: map[string]*node{}, buf: make([]byte, 65536)}
	b.t, err = compile(z, 1)
	if err != nil {
		t.Fatal(err)
	}
	b.t.arena = b.t.arena[:arenaStart]
	if err := b.gather(); err != nil {
		t.Fatal(err)
	}
	if err := b.shape(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, n := range b.sorted {
		got = append(got, fmt.Sprintf("%s %d", strings.TrimSuffix(b.print(n), ".x.test."), n.kids))
	}
	want := "x.test. 5|c 1|b.c 2|a.b.c 0|x.b.c 0|d 1|c.d 1|b.c.d 0|e 1|\\001.e 1|\\000.\\001.e 0|ns 0|w 1|q.w 1|*.q.w 0"
	if all := strings.Join(got, "|"); all != want {
		t.Errorf("the names and how many are below each:\n%s, want\n%s", all, want)
	}
}
