package main

import (
	"os"
	"path/filepath"
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
	r := newRun(&out)
	if err := r.read(strings.NewReader(sample)); err != nil {
		t.Fatal(err)
	}
	r.summary()
	want := "    x_test.go:3: got 1, want 2\nFAIL\ta\t0.1s\n\nSkipped tests: 1\n  a TestX: squid is not installed\n"
	if out.String() != want || len(r.lost) != 1 || r.hopeless {
		t.Errorf("the report is %q, failed %v %v; want %q", out.String(), r.lost, r.hopeless, want)
	}
}

// TestOutputOfUnfinishedTestsIsShown covers a package that ran out of time.
func TestOutputOfUnfinishedTestsIsShown(t *testing.T) {
	var out strings.Builder
	r := newRun(&out)
	err := r.read(strings.NewReader(`{"Action":"output","Package":"a","Test":"TestX","Output":"panic: test timed out after 10m0s\n"}
{"Action":"output","Package":"b","Test":"TestY","Output":"of another package\n"}
{"Action":"fail","Package":"a"}
`))
	if want := "panic: test timed out after 10m0s\n"; err != nil || out.String() != want || !r.hopeless {
		t.Errorf("the report is %q, hopeless %v, %v; want %q", out.String(), r.hopeless, err, want)
	}
}

// TestWhatFailsUnderLoadRunsAgainAlone runs a module of its own, whose tests write down that they ran.
func TestWhatFailsUnderLoadRunsAgainAlone(t *testing.T) {
	const head = "package a\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc ran(t *testing.T) bool {\n\t_, err := os.Stat(t.Name())\n\tos.WriteFile(t.Name(), nil, 0o600)\n\treturn err == nil\n}\n"
	passes := "func Test%(t *testing.T) {}\n"
	second := "func Test%(t *testing.T) {\n\tif !ran(t) {\n\t\tt.Error(\"busy\")\n\t}\n}\n"
	never := "func Test%(t *testing.T) {\n\tran(t)\n\tt.Error(\"wrong\")\n}\n"
	panics := "func Test%(t *testing.T) {\n\tif !ran(t) {\n\t\tpanic(1)\n\t}\n}\n"
	races := "func Test%(t *testing.T) {\n\tif !ran(t) {\n\t\tt.Error(\"race detected during execution of test\")\n\t}\n}\n"
	for name, tt := range map[string]struct {
		tests    []string
		lost     int
		hopeless bool
		alone    []string
	}{
		"all pass":         {[]string{passes, passes}, 0, false, nil},
		"two under load":   {[]string{second, passes, second}, 0, false, []string{"TestA", "TestC"}},
		"one never passes": {[]string{second, never}, 1, false, []string{"TestA"}},
		"too many":         {[]string{second, second, second, second, second}, 5, false, nil},
		"a panic":          {[]string{panics, passes}, 1, true, nil},
		"a data race":      {[]string{races}, 1, true, nil},
		"does not build":   {[]string{"func Test%(t *testing.T) { x }\n"}, 0, true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			text := head
			for i, body := range tt.tests {
				text += strings.Replace(body, "%", string(rune('A'+i)), 1)
			}
			for name, text := range map[string]string{"go.mod": "module a\n\ngo 1.26\n", "a_test.go": text} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var out strings.Builder
			r := newRun(&out)
			if err := r.test(way{dir, []string{"-vet=off"}}, "."); err != nil {
				t.Fatal(err)
			}
			if err := r.again(); err != nil {
				t.Fatal(err)
			}
			var alone []string
			for _, t := range r.alone {
				alone = append(alone, t.name)
			}
			slices.Sort(alone)
			if len(r.lost) != tt.lost || r.hopeless != tt.hopeless || !slices.Equal(alone, tt.alone) {
				t.Errorf("failed %v, hopeless %v, alone %v; want %d, %v, %v\n%s", r.lost, r.hopeless, alone, tt.lost, tt.hopeless, tt.alone, out.String())
			}
		})
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
