package net

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"shuultuur/test/peer"
	"slices"
	"strconv"
	"testing"
	"time"
)

// An oracle is a model with what ONNX Runtime makes of some pictures.
type oracle struct {
	Name    string
	Model   string
	Shape   []int
	Photos  int
	MS      float64 // processor time of a picture in ONNX Runtime
	Outputs []int
}

// oracles runs ONNX Runtime, or skips the test where it is not there.
func oracles(t *testing.T, photos int) (dir string, all []oracle) {
	t.Helper()
	python := peer.Python(t, "numpy", "PIL", "onnx", "onnxruntime")
	dir = t.TempDir()
	out, err := exec.Command(python, "testdata/oracle.py", dir, strconv.Itoa(photos)).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	b, err := os.ReadFile(filepath.Join(dir, "index.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	return dir, all
}

func floatsOf(t *testing.T, file string) []float32 {
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

func compare(t *testing.T, o oracle, n *Net, in, want []float32, photos int) {
	w := n.Worker()
	size := volume(n.Input)
	var times []time.Duration
	worst := 0.0
	for i := range photos {
		copy(w.Input(), in[i*size:(i+1)*size])
		start := time.Now()
		out, err := w.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		times = append(times, time.Since(start))
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
	slices.Sort(times)
	t.Logf("%s: %d pictures differ by at most %.1g; %.1f ms a picture (ONNX Runtime %.1f), %d million multiplications, %.1f MB a worker",
		n.k.name, photos, worst, float64(times[len(times)/2].Microseconds())/1000, o.MS, n.Work/1_000_000, float64(n.Memory)/(1<<20))
}
