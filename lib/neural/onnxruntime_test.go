package neural

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"shuultuur/test/peer"
	"shuultuur/test/race"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// An oracle is a model with the results of ONNX Runtime for some pictures.
type oracle struct {
	Name    string
	Model   string
	Shape   []int
	Photos  int
	Outputs []int
}

// oracles runs ONNX Runtime, or skips the test if it is missing.
func oracles(t *testing.T, photos int) (dir string, all []oracle) {
	t.Helper()
	python := peer.Python(t, "numpy", "PIL", "onnx", "onnxruntime")
	dir = t.TempDir()
	out, err := exec.Command(python, "testdata/oracle.py", dir, strconv.Itoa(photos)).CombinedOutput()
	if err != nil {
		t.Fatalf("oracle.py failed: %v\n%s", err, out)
	}
	return dir, index(t, dir)
}

func index(t testing.TB, dir string) (all []oracle) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "index.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

func floatsOf(t testing.TB, file string) []float32 {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	x := make([]float32, len(b)/4)
	for i := range x {
		x[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return x
}

func TestResultsAreThoseOfONNXRuntime(t *testing.T) {
	race.Without(t)
	photos := 200
	if testing.Short() {
		photos = 20
	}
	dir, all := oracles(t, photos)
	for _, o := range all {
		t.Run(o.Name, func(t *testing.T) {
			b, err := os.ReadFile(o.Model)
			if err != nil {
				t.Fatal(err)
			}
			g, err := Read(b)
			if err != nil {
				t.Fatal(err)
			}
			in, want := floatsOf(t, filepath.Join(dir, o.Name+".in")), floatsOf(t, filepath.Join(dir, o.Name+".out"))
			for i, k := range kernels {
				n, err := g.compile(o.Shape, k)
				if err != nil {
					t.Fatal(err)
				}
				pictures := o.Photos
				if i > 0 {
					pictures = min(pictures, 3) // the best one does all
				}
				compare(t, o, n, in, want, pictures)
			}
		})
	}
}

// BenchmarkBesideONNXRuntime runs each model here and in ONNX Runtime in turn, each on one
// thread, and reports the processor time of both.
func BenchmarkBesideONNXRuntime(b *testing.B) {
	python := peer.Python(b, "numpy", "PIL", "onnx", "onnxruntime")
	dir := b.TempDir()
	c := exec.Command(python, "testdata/oracle.py", dir, "20", "serve")
	c.Stderr = b.Output()
	ask, err := c.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := c.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = ask.Close() // ends it
		_ = c.Wait()
	})
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		b.Fatal("oracle.py ended early")
	}
	for _, o := range index(b, dir) {
		for _, k := range kernels {
			b.Run(o.Name+"/"+k.name, func(b *testing.B) {
				model, err := os.ReadFile(o.Model)
				if err != nil {
					b.Fatal(err)
				}
				g, err := Read(model)
				if err != nil {
					b.Fatal(err)
				}
				n, err := g.compile(o.Shape, k)
				if err != nil {
					b.Fatal(err)
				}
				w := n.Worker()
				copy(w.Input(), floatsOf(b, filepath.Join(dir, o.Name+".in")))
				const runs = 5
				var here, there, ratios []float64
				for b.Loop() {
					before := processorTime(b)
					for range runs {
						if _, err := w.Run(b.Context()); err != nil {
							b.Fatal(err)
						}
					}
					mine := processorTime(b) - before
					if _, err := fmt.Fprintln(ask, o.Name, runs); err != nil || !lines.Scan() {
						b.Fatal("oracle.py ended early")
					}
					theirs, err := strconv.ParseFloat(lines.Text(), 64)
					if err != nil {
						b.Fatal(err)
					}
					here, there, ratios = append(here, 1000*mine/runs), append(there, 1000*theirs/runs), append(ratios, mine/theirs)
				}
				slices.Sort(here)
				slices.Sort(there)
				slices.Sort(ratios)
				b.ReportMetric(here[len(here)/2], "ms")
				b.ReportMetric(there[len(there)/2], "ms-ONNXRuntime")
				b.ReportMetric(ratios[len(ratios)/2], "ratio")
				b.ReportMetric(ratios[len(ratios)-1], "ratio-most")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// processorTime returns the processor time of this process in seconds.
func processorTime(b *testing.B) float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

func compare(t *testing.T, o oracle, n *Net, in, want []float32, photos int) {
	w := n.Worker()
	size := volume(n.Input)
	worst := 0.0
	for i := range photos {
		copy(w.Input(), in[i*size:(i+1)*size])
		out, err := w.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for j, got := range out {
			if len(got) != o.Outputs[j] {
				t.Fatalf("output %d has %d numbers, want %d", j, len(got), o.Outputs[j])
			}
			for x, v := range got {
				d := math.Abs(float64(v-want[x])) / max(1, math.Abs(float64(want[x])))
				if worst = max(worst, d); !(d <= 1e-4) {
					t.Fatalf("%s, picture %d, output %d: number %d is %v, want %v", n.k.name, i, j, x, v, want[x])
				}
			}
			want = want[len(got):]
		}
	}
	t.Logf("%s: %d pictures differ by at most %.1g; %d million multiplications, %.1f MB a worker", n.k.name, photos, worst, n.Work/1_000_000, float64(n.Memory)/(1<<20))
}
