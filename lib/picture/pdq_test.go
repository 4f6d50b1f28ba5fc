package picture

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"shuultuur/test/peer"
	"shuultuur/test/race"
	"testing"
)

func TestPDQIsThatOfThePythonPackage(t *testing.T) {
	race.Without(t)
	python := peer.Python(t, "numpy", "PIL", "pdqhash")
	dir, photos := t.TempDir(), 100
	out, err := exec.Command(python, "testdata/pdq.py", dir, fmt.Sprint(photos)).CombinedOutput()
	if err != nil {
		t.Fatalf("pdq.py failed: %v\n%s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(dir, "index"))
	if err != nil {
		t.Fatal(err)
	}
	distances := map[int]int{}
	for line := range bytes.Lines(text) {
		var file, hash string
		var quality int
		if _, err := fmt.Sscan(string(line), &file, &hash, &quality); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		h, q, err := PDQ(b)
		if err != nil {
			t.Fatal(err)
		}
		want, err := parseHash(hash)
		if err != nil {
			t.Fatal(err)
		}
		d := h.Distance(want)
		distances[d]++
		if d > 4 || q != quality {
			t.Errorf("%s: the hash differs by %d bits and has the quality %d, want %d", file, d, q, quality)
		}
	}
	t.Logf("distances: %v", distances)
	if distances[0] < photos*99/100 {
		t.Errorf("%d of %d hashes are equal, want 99 %%", distances[0], photos)
	}
}

func TestBaselineJPEGsAreDecodedLikeByTheStandardLibrary(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	for _, size := range [][2]int{{64, 64}, {97, 71}, {200, 65}} {
		colour, grey := image.NewRGBA(image.Rect(0, 0, size[0], size[1])), image.NewGray(image.Rect(0, 0, size[0], size[1]))
		for y := range size[1] {
			for x := range size[0] {
				v := uint8(2*x + y + r.IntN(20))
				colour.SetRGBA(x, y, color.RGBA{v, uint8(3 * y), 255 - v, 255})
				grey.SetGray(x, y, color.Gray{v})
			}
		}
		for _, m := range []image.Image{colour, grey} {
			var b bytes.Buffer
			if err := jpeg.Encode(&b, m, &jpeg.Options{Quality: 90}); err != nil {
				t.Fatal(err)
			}
			got := decodeJPEG(b.Bytes())
			want, err := jpeg.Decode(&b)
			if got == nil || err != nil || got.Bounds() != want.Bounds() {
				t.Fatalf("a JPEG of %v was decoded to %v, %v", size, got, err)
			}
			for y := range size[1] {
				for x := range size[0] {
					r1, g1, b1, _ := got.At(x, y).RGBA()
					r2, g2, b2, _ := want.At(x, y).RGBA()
					for _, d := range []int{int(r1>>8) - int(r2>>8), int(g1>>8) - int(g2>>8), int(b1>>8) - int(b2>>8)} {
						if d > 4 || d < -4 {
							t.Fatalf("%T of %v: the pixel %d, %d differs by %d", m, size, x, y, d)
						}
					}
				}
			}
		}
	}
}

func FuzzPDQ(f *testing.F) {
	f.Add(halves(f, 80, 70))
	f.Fuzz(func(t *testing.T, b []byte) {
		head, _ := Look(b)
		if head.Width*head.Height > 1<<18 {
			return
		}
		_, _, _ = PDQ(b) // may fail, but not panic
	})
}

// parseHash parses 64 hexadecimal digits.
func parseHash(s string) (h Hash, err error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != 32 {
		return h, fmt.Errorf("%q is not a PDQ hash: write 64 hexadecimal digits", s)
	}
	for i, c := range b {
		h[3-i/8] = h[3-i/8]<<8 | uint64(c)
	}
	return h, nil
}
