package simulate

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"shuultuur/test/data"
)

func TestLogs(t *testing.T) {
	for _, c := range []struct {
		name, log                         string
		requests, objects, bytes, leftOut int64
	}{
		{"squid", "1000.1 20 192.0.2.1 TCP_MISS/200 500 GET http://a.example/ - DIRECT/192.0.2.2 text/html\n" +
			"1000.2 20 192.0.2.1 TCP_HIT/200 500 GET http://a.example/ - NONE/- text/html\n" +
			"1000.3 20 192.0.2.1 TCP_TUNNEL/200 900 CONNECT b.example:443 - DIRECT/192.0.2.2 -\n", 2, 1, 1000, 1},
		{"combined", `192.0.2.1 - - [22/Nov/2026:10:00:00 +0000] "GET /x HTTP/1.1" 200 700 "-" "agent"` + "\n" +
			`192.0.2.1 - - [22/Nov/2026:10:00:01 +0000] "POST /x HTTP/1.1" 200 700 "-" "agent"` + "\n", 1, 1, 700, 1},
		{"events", `{"url":"http://a.example/","method":"GET","status":200,"bytes_out":30}` + "\n" + `{"url":"http://b.example/","method":"GET","status":403,"bytes_out":30}` + "\n", 1, 1, 30, 1},
		{"trace", "1 100 20\n2 101 30\n3 100 20\n", 3, 2, 70, 0},
		{"combined with quotes", `192.0.2.1 - "a b" [22/Nov/2026:10:00:00 +0000] "GET /x?a=\"b\" HTTP/1.1" 200 700 "-" "agent \"x\""` + "\n" +
			`192.0.2.1 - "POST [1 \" b" [22/Nov/2026:10:00:00 +0000] "GET /y HTTP/1.1" 200 - "-" "agent"` + "\n" + `"[` + "\n" + `[] "GET /` + "\n", 2, 2, 701, 2},
		{"a line that is too long", "1 100 20\n" + strings.Repeat("x", 3*maxLine) + "\r\n3 100 20", 2, 1, 40, 1},
		{"messages between requests", "1 100 20\nerror at 12\n2 100 20\n2026/11/26 04:00:01 kid1| Rotating log files into 7 GET\n3 101 twenty\n", 2, 1, 40, 3},
		{"squid without sizes", "1000.1 20 192.0.2.1 TCP_MISS/200 - GET http://a.example/ - DIRECT/192.0.2.2 text/html\n" +
			"1000.1 20 ::1 TCP_MISS_ABORTED/000 0 GET http://a.example/ - DIRECT/192.0.2.2 text/html\n" +
			"1000.1     20 ::1 TCP_REFRESH_UNMODIFIED/304 120 GET http://a.example/ anna DIRECT/192.0.2.2 text/html extra fields\n", 1, 1, 120, 2},
		{"events of every kind", `{"url":"http://a.example/","method":"GET","status":200,"bytes_out":-3}` + "\n" + `{"url":"http://a.example/","method":"GET","status":"200"}` + "\n" +
			`{"url":1}` + "\n" + `{"host":"a.example","proto":"dns"}` + "\n" + `{"url":"http://a.example/","method":"GET","status":304,"bytes_out":18446744073709551616}` + "\n", 1, 1, 1, 4},
		{"a log with zeros in it", "1 100 20\n\x00\x00\x00\x002 101 30\n3 100 20\n4 100 20\n5 100 20\n6 100 20\n7 100 20\n", 6, 1, 120, 1},
		{"nonsense", "what is this\n{\n\"[\n1 2\n", 0, 0, 0, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr, err := Read(strings.NewReader(c.log), t.TempDir(), "")
			if err != nil {
				t.Fatal(err)
			}
			defer tr.Close()
			if tr.Requests != c.requests || tr.Objects != c.objects || tr.Bytes != c.bytes || tr.Skipped != c.leftOut {
				t.Errorf("got %d requests, %d objects, %d bytes, %d skipped lines; want %d, %d, %d, %d", tr.Requests, tr.Objects, tr.Bytes, tr.Skipped, c.requests, c.objects, c.bytes, c.leftOut)
			}
		})
	}
}

// TestBaseIsPutBeforePaths: a path and the URL that it stands for are one object.
func TestBaseIsPutBeforePaths(t *testing.T) {
	const log = `192.0.2.1 - - [22/Nov/2026:10:00:00 +0000] "GET /x HTTP/1.1" 200 700 "-" "agent"` + "\n" +
		`192.0.2.1 - - [22/Nov/2026:10:00:01 +0000] "GET http://a.example/x HTTP/1.1" 200 700 "-" "agent"` + "\n"
	for base, want := range map[string]int64{"": 2, "http://a.example": 1, "http://a.example/": 1, "http://b.example": 2} {
		tr, err := Read(strings.NewReader(log), t.TempDir(), base)
		if err != nil {
			t.Fatal(err)
		}
		if tr.Close(); tr.Objects != want {
			t.Errorf("with the base %q there are %d objects, want %d", base, tr.Objects, want)
		}
	}
}

func TestALogInUTF16IsRefused(t *testing.T) {
	if _, err := Read(strings.NewReader("\xff\xfe1\x00 \x002\x00 \x003\x00\n\x00"), t.TempDir(), ""); err == nil || !strings.Contains(err.Error(), "convert it to UTF-8") {
		t.Errorf("reading a log in UTF-16: %v, want advice to convert it to UTF-8", err)
	}
}

// TestATruncatedLogIsReadAsFarAsPossible: a compressed log that is still being written, or
// damaged, is read as far as possible.
func TestATruncatedLogIsReadAsFarAsPossible(t *testing.T) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	for i := range 100_000 {
		fmt.Fprintf(z, "%d %d %d\n", i, i*7919%50_000, 1000+i%5000)
	}
	z.Close()
	damaged := bytes.Clone(b.Bytes())
	clear(damaged[len(damaged)/2:])
	for name, log := range map[string][]byte{"cut": b.Bytes()[:b.Len()/2], "damaged": damaged, "wrong checksum": append(bytes.Clone(b.Bytes()[:b.Len()-8]), make([]byte, 8)...), "numbers": append(bytes.Repeat([]byte{0, 0, 0, 1, 0, 0, 0, 2}, 1000), 0, 0)} {
		tr, err := Read(bytes.NewReader(log), t.TempDir(), "")
		if err != nil {
			t.Errorf("%s: reading the log: %v", name, err)
			continue
		}
		r, err := Run(t.Context(), tr, Options{Shares: []float64{0.05}})
		tr.Close()
		if err != nil || r.Broken == "" || r.Requests < 1000 {
			t.Errorf("%s: got %d requests, Broken %q, error %v; want at least 1000 and a reason", name, r.Requests, r.Broken, err)
		}
		var table, page strings.Builder
		if err := r.Table(&table); err != nil || !strings.Contains(table.String(), "breaks off") {
			t.Errorf("%s: the table does not say that the log breaks off: %v", name, err)
		}
		if err := r.HTML(&page); err != nil || !strings.Contains(page.String(), "breaks off") {
			t.Errorf("%s: the page does not say that the log breaks off: %v", name, err)
		}
	}
}

// promise checks that the default policy writes at most a quarter as much as LRU and has at
// least its hits, for a size of a twentieth of all bytes; the guide has other sizes.
func promise(t *testing.T, tr *Trace) {
	t.Helper()
	r, err := Run(t.Context(), tr, Options{Shares: []float64{0.05}, Policies: []string{"s3-fifo"}})
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(r.Results); i += 2 {
		base, ours := r.Results[i], r.Results[i+1]
		t.Logf("size %5.1f %%: LRU hits %.3f, %s hits %.3f with %.2f of the writes", 100*float64(ours.Size)/float64(r.Footprint), base.Hits, ours.Policy, ours.Hits, ours.OfLRU)
		if ours.OfLRU > 0.25 || ours.Hits < base.Hits {
			t.Errorf("size %d: hit ratio %.3f, LRU has %.3f; %.2f of the writes of LRU, want at most 0.25", ours.Size, ours.Hits, base.Hits, ours.OfLRU)
		}
	}
}

func TestPromiseHoldsOnRealTraces(t *testing.T) {
	for _, name := range []string{"adaptsize.trace.gz", "web12.trace.gz"} {
		t.Run(name, func(t *testing.T) {
			f, err := os.Open(data.Path(t, "traces", name))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			tr, err := Read(f, t.TempDir(), "")
			if err != nil {
				t.Fatal(err)
			}
			defer tr.Close()
			promise(t, tr)
		})
	}
}

// zipf writes a trace shaped like that of a content delivery network: popularity by Zipf's
// law, log-normal sizes independent of it.
func zipf(requests int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	const alpha, objects = 0.9, 1.5
	n := objects * float64(requests)
	sizes := map[uint64]int64{}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	for i := range requests {
		id := uint64(math.Pow(r.Float64()*(math.Pow(n, 1-alpha)-1)+1, 1/(1-alpha)))
		if sizes[id] == 0 {
			sizes[id] = 1 + min(int64(math.Exp(math.Log(12000)+1.6*r.NormFloat64())), 64<<20)
		}
		fmt.Fprintln(z, i, id, sizes[id])
	}
	z.Close()
	return b.Bytes()
}

func TestPromiseHoldsOnAZipfTrace(t *testing.T) {
	n := 20_000
	tr, err := Read(bytes.NewReader(zipf(n)), t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	promise(t, tr)
}

// TestNumbersAreExact: the result of sorting in files equals that of counting in a map.
func TestNumbersAreExact(t *testing.T) {
	var log bytes.Buffer
	r := rand.New(rand.NewPCG(3, 4))
	want := map[int]int{}
	var order []int
	for i := range 2_000 {
		id := r.IntN(5000)
		want[id]++
		order = append(order, id)
		fmt.Fprintln(&log, i, fmt.Sprint("http://example.org/", id), 10+id)
	}
	tr, err := Read(&log, t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	if tr.Objects != int64(len(want)) {
		t.Errorf("got %d objects, want %d", tr.Objects, len(want))
	}
	ids := map[int]uint32{}
	i := 0
	err = tr.eachRequest(t.Context(), func(id uint32, size int64) {
		if old, ok := ids[order[i]]; ok && old != id || size != int64(10+order[i]) {
			t.Fatalf("request %d has number %d and size %d; its object had number %d before", i, id, size, old)
		}
		ids[order[i]] = id
		i++
	})
	if err != nil || i != len(order) {
		t.Errorf("reading the trace gave %d requests and the error %v, want %d", i, err, len(order))
	}
}

func TestReportInAllForms(t *testing.T) {
	tr, err := Read(bytes.NewReader(zipf(2000)), t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	r, err := Run(t.Context(), tr, Options{Shares: []float64{0.05, 0.1}})
	if err != nil {
		t.Fatal(err)
	}
	var table, page bytes.Buffer
	if err := r.Table(&table); err != nil {
		t.Fatal(err)
	}
	if err := r.HTML(&page); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"s3-fifo", "bloom", "always", "lru", "disk: off"} {
		if !strings.Contains(table.String(), want) || !strings.Contains(page.String(), want) {
			t.Errorf("the table or the page lacks %q", want)
		}
	}
	if strings.Contains(table.String(), "admission:") {
		t.Error("the advice names an admission policy, but no disk")
	}
	r.Advice.Disk = 1 << 30
	if yaml := r.Advice.YAML(); !strings.Contains(yaml, "disk: 1GiB\n  admission: ") {
		t.Errorf("the advice with a disk is %s", yaml)
	}
	if !strings.Contains(page.String(), "<polyline") {
		t.Error("the page has no plot")
	}
}

func FuzzLine(f *testing.F) {
	f.Add([]byte(`1000.1 20 192.0.2.1 TCP_MISS/200 500 GET http://a.example/ - DIRECT/192.0.2.2 text/html`))
	f.Add([]byte(`x - - [d] "GET / HTTP/1.0" 200 5`))
	f.Add([]byte(`{"url":"http://a/","method":"GET","status":200}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			return
		}
		if url, _, ok := parse(line); ok && len(url) == 0 {
			t.Errorf("parse(%q) returned an empty URL", line)
		}
	})
}
