package main

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	check "shuultuur/check/picture"
	"shuultuur/lib/picture"
	"shuultuur/lib/setting"
)

const pictureAbout = "Pictures: a JPEG of a megapixel, and lists of 10 million hashes"

// The targets, in milliseconds of processor time per megapixel.
const (
	pictureShare  = 80 // times as fast as go-nude
	pictureDecode = 4
	pictureBlur   = 5
	listedMost    = 1
)

// goNude measures go-nude in a separate module, which keeps the dependency out of this one:
// processor time of its process per picture, including decoding.
const goNude = `package main

import (
	"fmt"
	"os"
	"syscall"

	nude "github.com/koyachi/go-nude"
)

func main() {
	spent := func() int64 {
		var u syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
		return u.Utime.Nano() + u.Stime.Nano()
	}
	start := spent()
	for range 5 {
		if _, err := nude.IsNude(os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	fmt.Println((spent() - start) / 5)
}
`

// pictures measures the processing of a picture on one processor.
func pictures(ctx context.Context, _ options, out io.Writer) error {
	dir, err := os.MkdirTemp("", "shuultuur-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	b, err := photo(1, 1152, 864)
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "photo.jpg")
	if err := os.WriteFile(file, b, 0o644); err != nil {
		return err
	}
	fmt.Fprintf(out, "### %s\n\n1152 × 864 pixels, %d KiB, 4:2:0.\n\n| of a megapixel | CPU ms | KiB allocated |\n|--|--:|--:|\n", pictureAbout, len(b)>>10)
	row := func(name string, do func() error) (ms float64, err error) {
		ms, kib, err := measureCall(do)
		fmt.Fprintf(out, "| %s | %.2f | %.0f |\n", name, ms, kib)
		return ms, err
	}
	decoded, err := row("decoded at an eighth", func() error { _, err := picture.Shrink(b); return err })
	if err != nil {
		return err
	}
	judged, err := row("decoded, and skin and dHash", func() error {
		p, err := picture.Shrink(b)
		if err == nil {
			p.Skin()
			p.DHash()
		}
		return err
	})
	if err != nil {
		return err
	}
	blurred, err := row("blurred", func() error { _, err := picture.Blur(b); return err })
	if err != nil {
		return err
	}
	if _, err := row("PDQ", func() error { _, _, err := picture.PDQ(b); return err }); err != nil {
		return err
	}
	if _, err := row("image/jpeg", func() error { _, err := jpeg.Decode(bytes.NewReader(b)); return err }); err != nil {
		return err
	}
	nude, err := runGoNude(ctx, dir, file)
	if err == nil {
		fmt.Fprintf(out, "| go-nude | %.2f | |\n", nude)
	}
	fmt.Fprintln(out)
	if err != nil {
		fmt.Fprintln(os.Stderr, "go-nude:", err)
		fmt.Fprintln(out, "* go-nude is left out: its module cannot be had here; GO_NUDE names a folder with its source")
	} else {
		say(out, fmt.Sprintf("≥ %d × go-nude", pictureShare), nude/judged, "×", nude/judged >= pictureShare)
	}
	say(out, fmt.Sprintf("≤ %d ms for decoding at an eighth", pictureDecode), decoded, " ms", decoded <= pictureDecode)
	say(out, fmt.Sprintf("≤ %d ms for blurring", pictureBlur), blurred, " ms", blurred <= pictureBlur)
	return inHashLists(ctx, dir, b, out)
}

func say(out io.Writer, target string, got float64, unit string, reached bool) {
	fmt.Fprintf(out, "* target %s: %.2f%s: **%s**\n", target, got, unit, verdict(reached))
}

// measureCall measures the processor time and memory of one call.
func measureCall(do func() error) (ms, kib float64, err error) {
	var before, after runtime.MemStats
	if err := do(); err != nil {
		return 0, 0, err
	}
	runtime.GC()
	runtime.ReadMemStats(&before)
	start, n := processorTime(), 0
	for ; n < 20 || processorTime()-start < 500*time.Millisecond; n++ {
		if err := do(); err != nil {
			return 0, 0, err
		}
	}
	spent := processorTime() - start
	runtime.ReadMemStats(&after)
	return spent.Seconds() * 1000 / float64(n), float64(after.TotalAlloc-before.TotalAlloc) / float64(n) / 1024, nil
}

// photo makes a picture with smooth areas, edges and grain.
func photo(seed uint64, w, h int) ([]byte, error) {
	r := rand.New(rand.NewPCG(seed, 1))
	m := image.NewRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			v := 128 + 80*math.Sin(float64(x)/97+float64(seed))*math.Cos(float64(y)/61)
			n := float64(r.IntN(10))
			c := color.RGBA{uint8(v + n), uint8(230 - v + n), uint8(float64(x)/6 + n), 255}
			if (x/190+y/150+int(seed))%5 == 0 {
				c = color.RGBA{uint8(215 + n), uint8(165 + n), uint8(135 + n), 255}
			}
			m.SetRGBA(x, y, c)
		}
	}
	var b bytes.Buffer
	err := jpeg.Encode(&b, m, &jpeg.Options{Quality: 80})
	return b.Bytes(), err
}

// runGoNude fetches and builds go-nude, or uses the source in the folder GO_NUDE, and returns
// its milliseconds per picture.
func runGoNude(ctx context.Context, dir, file string) (float64, error) {
	build := filepath.Join(dir, "gonude")
	if err := os.Mkdir(build, 0o755); err != nil {
		return 0, err
	}
	mod := "module bench\n\ngo 1.24\n"
	get := []string{"get", "github.com/koyachi/go-nude@latest"}
	if folder := os.Getenv("GO_NUDE"); folder != "" {
		mod += "\nrequire github.com/koyachi/go-nude v0.0.0\n\nreplace github.com/koyachi/go-nude => " + strconv.Quote(folder) + "\n"
		get = []string{"mod", "tidy"}
	}
	for name, text := range map[string]string{"go.mod": mod, "main.go": goNude} {
		if err := os.WriteFile(filepath.Join(build, name), []byte(text), 0o644); err != nil {
			return 0, err
		}
	}
	for _, args := range [][]string{get, {"build", "-o", "gonude", "."}} {
		c := exec.CommandContext(ctx, "go", args...)
		c.Dir, c.Env = build, append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
		if output, err := c.CombinedOutput(); err != nil {
			return 0, fmt.Errorf("go %s: %w: %.200s", args[0], err, output)
		}
	}
	c := exec.CommandContext(ctx, filepath.Join(build, "gonude"), file)
	c.Env = append(os.Environ(), "GOMAXPROCS=1")
	output, err := c.Output()
	if err != nil {
		return 0, err
	}
	ns, err := strconv.ParseFloat(strings.TrimSpace(string(output)), 64)
	return ns / 1e6, err
}

// inLists is the number of hashes in the lists.
const inLists = 10_000_000

// inHashLists measures the lookup of a picture that is on no list.
func inHashLists(ctx context.Context, dir string, b []byte, out io.Writer) error {
	fmt.Fprintf(out, "\n| a list of %d million | read in CPU s | MB of memory | CPU ms for a picture's hash |\n|--|--:|--:|--:|\n", inLists/1_000_000)
	var missed []string
	for _, kind := range []struct {
		name  string
		words int
	}{{"pdq", 4}, {"dhash", 1}, {"sha256", 4}} {
		file := filepath.Join(dir, kind.name)
		if err := writeHashes(file, kind.words); err != nil {
			return err
		}
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		start := processorTime()
		c, err := check.New(check.Config{Hashes: map[string]check.HashList{"l": {File: setting.File(file), Type: kind.name}}}, check.Parts{})
		if err != nil {
			return err
		}
		read := processorTime() - start
		runtime.GC()
		runtime.ReadMemStats(&after)
		p, err := picture.Shrink(b)
		if err != nil {
			return err
		}
		h, quality, err := picture.PDQ(b)
		if err != nil {
			return err
		}
		r := rand.New(rand.NewPCG(3, 3))
		ms, _, err := measureCall(func() error {
			for i := range h { // another picture each time
				h[i] = r.Uint64()
			}
			if kind.name == "dhash" {
				for i := range p.Y {
					p.Y[i] = uint8(r.Uint32())
				}
			}
			c.LookUp(b, p, h, quality)
			return ctx.Err()
		})
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "| %s | %.1f | %d | %.2f |\n", kind.name, read.Seconds(), (after.HeapAlloc-before.HeapAlloc)>>20, ms)
		if ms > listedMost {
			missed = append(missed, kind.name)
		}
		runtime.KeepAlive(c)
		if err := os.Remove(file); err != nil {
			return err
		}
	}
	fmt.Fprintln(out)
	verdict := "**reached**"
	if len(missed) > 0 {
		verdict = "**missed** by " + strings.Join(missed, ", ")
	}
	_, err := fmt.Fprintf(out, "* target ≤ %d ms for a picture with %d million hashes: %s\n\n", listedMost, inLists/1_000_000, verdict)
	return err
}

// writeHashes writes a list of random hashes.
func writeHashes(file string, words int) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer f.Close()
	r := rand.New(rand.NewPCG(5, 6))
	var text []byte
	for i := range inLists {
		for range words {
			text = fmt.Appendf(text, "%016x", r.Uint64())
		}
		text = append(text, '\n')
		if len(text) > 1<<20 || i == inLists-1 {
			if _, err := f.Write(text); err != nil {
				return err
			}
			text = text[:0]
		}
	}
	return f.Close()
}
