package main

import (
	"slices"
	"strings"
	"testing"
)

const sample = `{"Action":"output","Package":"a","Test":"TestX","Output":"    x_test.go:1: squid is not installed\n"}
{"Action":"skip","Package":"a","Test":"TestX"}
{"Action":"output","Package":"a","Test":"TestY","Output":"    x_test.go:2: with the race detector\n"}
{"Action":"skip","Package":"a","Test":"TestY"}
{"Action":"output","Package":"a","Test":"TestZ","Output":"    x_test.go:3: got 1, want 2\n"}
{"Action":"fail","Package":"a","Test":"TestZ"}
{"Action":"output","Package":"a","Output":"FAIL\ta\t0.1s\n"}
{"Action":"fail","Package":"a"}
{"Action":"pass","Package":"a","Test":"TestY"}
`

func TestSkippedTestsAreListedAtTheEnd(t *testing.T) {
	var out strings.Builder
	r := run{out: &out, output: map[test][]string{}, skipped: map[test]string{}, passed: map[test]bool{}}
	if err := r.read(strings.NewReader(sample)); err != nil {
		t.Fatal(err)
	}
	r.summary()
	want := "    x_test.go:3: got 1, want 2\nFAIL\ta\t0.1s\n\nSkipped tests: 1\n  a TestX: squid is not installed\n"
	if out.String() != want || !r.failed {
		t.Errorf("the report is %q, failed %v; want %q", out.String(), r.failed, want)
	}
}

// TestOutputOfUnfinishedTestsIsShown covers a package that ran out of time.
func TestOutputOfUnfinishedTestsIsShown(t *testing.T) {
	var out strings.Builder
	r := run{out: &out, output: map[test][]string{}, skipped: map[test]string{}, passed: map[test]bool{}}
	err := r.read(strings.NewReader(`{"Action":"output","Package":"a","Test":"TestX","Output":"panic: test timed out after 10m0s\n"}
{"Action":"output","Package":"b","Test":"TestY","Output":"of another package\n"}
{"Action":"fail","Package":"a"}
`))
	if want := "panic: test timed out after 10m0s\n"; err != nil || out.String() != want || !r.failed {
		t.Errorf("the report is %q, failed %v, %v; want %q", out.String(), r.failed, err, want)
	}
}

func TestTestsThatTheRaceDetectorChanges(t *testing.T) {
	for _, c := range []struct {
		text string
		want []string
	}{
		{"func TestA(t *testing.T) {\n\ttesting.AllocsPerRun(1, f)\n}\nfunc TestB(t *testing.T) {}\n", []string{"TestA"}},
		{"func TestA(t *testing.T) {\n}\nfunc help() {\n\tif race.On {\n}\nfunc TestB(t *testing.T) {}\n", []string{"TestA", "TestB"}},
		{"func TestA(t *testing.T) {}\n", nil},
		{"func BenchmarkA(b *testing.B) {\n\ttesting.AllocsPerRun(1, f)\n}\nfunc TestB(t *testing.T) {}\n", nil},
	} {
		if got := changedIn(c.text); !slices.Equal(got, c.want) {
			t.Errorf("reason of %q is %q, want %q", c.text, got, c.want)
		}
	}
}
