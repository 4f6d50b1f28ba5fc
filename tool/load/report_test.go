package load

import (
	"bytes"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

// fixed is a report with a value in each field.
func fixed() *Report {
	lat := func(f float64) Latency {
		return Latency{Count: 1485, Mean: 1.87696 * f, Min: 1.644 * f, P50: 1.7 * f, P90: 1.9 * f, P99: 4.5 * f, P999: 19.1 * f, Max: 19.596 * f,
			Buckets: []Bucket{{2, 1400}, {5, 80}, {20, 5}}}
	}
	return &Report{
		Started: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC), Loop: "open", Load: 500, Seconds: 3.00013, CPUSeconds: 0.25,
		Fetches: 1485, Bytes: 20279200, MaxParallel: 7, Connections: 1490, Reconnects: 2, Unfinished: 3, Unsent: 4,
		BadBodies: 12, Codes: map[int]int64{503: 85, 200: 1400},
		Errors:   map[string]int64{"timeout": 5, "changed body": 12, "status": 85},
		Examples: map[string]string{"timeout": "read tcp: i/o timeout"},
		Connect:  lat(0.1), TLS: lat(0.5), FirstByte: lat(1), Total: lat(1.2), Good: lat(1.1), Intended: lat(1.6),
		Series: []Point{{1, 500, 0, 1.7, 4.5, 5}, {2, 480, 5, 1.8, 6.5, 19.6}, {3, 505, 0, 1.6, 4.1, 4.9}},
	}
}

func golden(t *testing.T, name string, write func(io.Writer) error) {
	t.Helper()
	var got bytes.Buffer
	if err := write(&got); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

func TestReportFormats(t *testing.T) {
	r := fixed()
	golden(t, "http_load.txt", r.HTTPLoad)
	golden(t, "report.txt", r.Text)
	golden(t, "report.json", r.JSON)
	golden(t, "report.html", r.HTML)
	other := fixed()
	other.Fetches, other.BadBodies, other.Total.P99 = 2970, 0, 2.25
	delete(other.Errors, "timeout")
	golden(t, "compare.txt", func(w io.Writer) error { return Compare(w, "a.json", r, "b.json", other) })
}

func TestHTTPLoadLinesThatDependOnTheRun(t *testing.T) {
	var got strings.Builder
	if err := (&Report{Seconds: 0.005, Checksum: true, BadBodies: 3}).HTTPLoad(&got); err != nil {
		t.Fatal(err)
	}
	want := "0 fetches, 0 max parallel, 0 bytes, in 0.005 seconds\n3 bad checksums\nHTTP response codes:\n"
	if got.String() != want {
		t.Errorf("the report is %q, want %q", got.String(), want)
	}
}

func TestReportIsReadBack(t *testing.T) {
	var b bytes.Buffer
	if err := fixed().JSON(&b); err != nil {
		t.Fatal(err)
	}
	got, err := ReadReport(&b, "x.json")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(fixed(), got); diff != "" {
		t.Errorf("report after a round trip (-want +got):\n%s", diff)
	}
	for _, bad := range []string{"", "[]", "{}", `{"loop": 3}`} {
		if _, err := ReadReport(strings.NewReader(bad), "bad.json"); err == nil || !strings.Contains(err.Error(), "bad.json") {
			t.Errorf("ReadReport(%q) = %v, want an error that names the file", bad, err)
		}
	}
}

func TestHTMLNeedsNothingFromElsewhere(t *testing.T) {
	var b bytes.Buffer
	if err := fixed().HTML(&b); err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"http:", "https:", "<script", "src=", "@import", "url("} {
		if strings.Contains(b.String(), s) {
			t.Errorf("the HTML report contains %q", s)
		}
	}
	for _, s := range []string{"<polyline", "<rect", "99.9"} {
		if !strings.Contains(b.String(), s) {
			t.Errorf("the HTML report lacks %q", s)
		}
	}
	if err := (&Report{Loop: "closed"}).HTML(io.Discard); err != nil {
		t.Errorf("writing an empty report as HTML: %v", err)
	}
}

func TestBucketsHoldEveryValue(t *testing.T) {
	var d dist
	values := []time.Duration{0, time.Microsecond, 999 * time.Microsecond, time.Millisecond, 3 * time.Second, 2 * time.Hour}
	for _, v := range values {
		d.add(v)
	}
	d.add(-1) // does not apply: not a value
	sum, before := int64(0), 0.0
	for _, b := range d.latency().Buckets {
		sum += b.Count
		if b.UpTo <= before {
			t.Errorf("a bucket up to %g comes after one up to %g", b.UpTo, before)
		}
		before = b.UpTo
	}
	if sum != int64(len(values)) {
		t.Errorf("buckets hold %d values, want %d", sum, len(values))
	}
}
