//go:build !small

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shuultuur/lib/neural/nettest"
)

func TestModelCheckNamesMissingOperators(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, b []byte) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	good := write("good.onnx", nettest.Means(32))
	write("good.onnx.yaml", []byte("size: 32x32\nlabels: [red, green]\nthresholds: {red: 0.5}\n"))
	for file, c := range map[string]struct {
		status int
		want   []string
	}{
		good: {0, []string{"can run", "labels red, green"}},
		write("bad.onnx", nettest.New(13, 1, 3).Op("GRU", "out", nil, "in").File("out")): {1, []string{"GRU (1 times)", "There are: Abs"}},
		write("no.onnx", []byte("text")):                                                 {1, []string{"reading an ONNX model"}},
	} {
		var out bytes.Buffer
		status := dispatch(t.Context(), env{stdout: &out, stderr: &out}, []string{"model", "check", file})
		for _, want := range c.want {
			if status != c.status || !strings.Contains(out.String(), want) {
				t.Errorf("%s: status %d, %s, want %d and %q", file, status, &out, c.status, want)
			}
		}
	}
	var out bytes.Buffer
	if status := dispatch(t.Context(), env{stdout: &out, stderr: &out}, []string{"model", "bench", "-n", "2", good}); status != 0 || !strings.Contains(out.String(), "2 pictures") {
		t.Errorf("model bench: status %d, %s", status, &out)
	}
}
