package picture

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"image"
	"image/color"
	"image/gif"
	"math"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"shuultuur/test/peer"
	"shuultuur/test/race"
	"strings"
	"testing"
)

// Pillow decodes JPEGs with libjpeg-turbo and WebPs with libwebp, as browsers do.
func TestEveryEncodingIsDecodedLikeByPillow(t *testing.T) {
	race.Without(t)
	python := peer.Python(t, "numpy", "PIL")
	dir := t.TempDir()
	out, err := exec.Command(python, "testdata/decode.py", dir).CombinedOutput()
	if err != nil {
		t.Fatalf("decode.py failed: %v\n%s", err, out)
	}
	index, err := os.ReadFile(filepath.Join(dir, "index"))
	if err != nil {
		t.Fatal(err)
	}
	files := 0
	for line := range strings.Lines(string(index)) {
		var name string
		var w, h int
		if _, err := fmt.Sscan(line, &name, &w, &h); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(filepath.Join(dir, name+".raw"))
		if err != nil {
			t.Fatal(err)
		}
		files++
		p, err := Shrink(b)
		if err != nil {
			t.Errorf("%s: Shrink returned %v", name, err)
			continue
		}
		if p.Full.Width != w || p.Full.Height != h {
			t.Errorf("%s: the size is %d × %d, want %d × %d", name, p.Full.Width, p.Full.Height, w, h)
			continue
		}
		sum := 0.0
		for i := range len(want) / 3 {
			r, g, b := p.RGB(i%(w/8), i/(w/8))
			for k, v := range [3]uint8{r, g, b} {
				sum += math.Abs(float64(v) - float64(want[3*i+k]))
			}
		}
		// Chroma that is reduced is not made fine by triangles at an eighth.
		if mean := sum / float64(len(want)); mean > 6 {
			t.Errorf("%s: the decoded picture differs by %.1f in the mean, want at most 6", name, mean)
		}
		if cut := strings.HasPrefix(name, "cut") && !strings.Contains(name, "p2"); p.Cut != cut {
			t.Errorf("%s: Cut is %v, want %v", name, p.Cut, cut)
		}
		if _, _, err := PDQ(b); err != nil {
			t.Errorf("%s: PDQ returned %v", name, err)
		}
	}
	t.Logf("decoded %d files", files)
}

func TestUnusualBitmapsAreDecoded(t *testing.T) {
	colours := [4]color.NRGBA{{255, 0, 0, 255}, {0, 255, 0, 255}, {0, 0, 255, 255}, {255, 255, 255, 255}}
	head := func(bits, compression int, size, w, h int32) []byte {
		b := make([]byte, 40)
		little.PutUint32(b, uint32(size))
		little.PutUint32(b[4:], uint32(w))
		little.PutUint32(b[8:], uint32(h))
		little.PutUint16(b[12:], 1)
		little.PutUint16(b[14:], uint16(bits))
		little.PutUint32(b[16:], uint32(compression))
		return b
	}
	palette := func(n int) (b []byte) {
		for i := range n {
			c := colours[i%4]
			b = append(b, c.B, c.G, c.R, 0)
		}
		return b
	}
	file := func(parts ...[]byte) []byte {
		b := []byte("BM\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00")
		for _, p := range parts[:len(parts)-1] {
			b = append(b, p...)
		}
		little.PutUint32(b[10:], uint32(len(b)))
		return append(b, parts[len(parts)-1]...)
	}
	os2 := []byte{12, 0, 0, 0, 2, 0, 2, 0, 1, 0, 24, 0}
	for _, c := range []struct {
		name string
		b    []byte
	}{
		{"24 bits", file(head(24, 0, 40, 2, 2), []byte{255, 0, 0, 255, 255, 255, 0, 0, 0, 0, 255, 0, 255, 0, 0, 0})},
		{"from the top", file(head(24, 0, 40, 2, -2), []byte{0, 0, 255, 0, 255, 0, 0, 0, 255, 0, 0, 255, 255, 255, 0, 0})},
		{"of OS/2", file(os2, []byte{255, 0, 0, 255, 255, 255, 0, 0, 0, 0, 255, 0, 255, 0, 0, 0})},
		{"4 bits", file(head(4, 0, 40, 2, 2), palette(16), []byte{0x23, 0, 0, 0, 0x01, 0, 0, 0})},
		{"runs of 4 bits", file(head(4, 2, 40, 2, 2), palette(16), []byte{2, 0x23, 0, 0, 2, 0x01, 0, 1})},
		{"runs of 8 bits with a jump", file(head(8, 1, 40, 2, 2), palette(256), []byte{1, 2, 1, 3, 0, 2, 0, 0, 0, 0, 1, 0, 1, 1, 0, 1})},
		{"masks", file(head(32, 3, 40, 2, 2), []byte{0, 0, 0, 255, 0, 0, 255, 0, 0, 255, 0, 0}, []byte{0, 255, 0, 0, 0, 255, 255, 255, 0, 0, 0, 255, 0, 0, 255, 0})},
	} {
		m, err := decodeBMP(c.b)
		if err != nil {
			t.Errorf("%s: decodeBMP returned %v", c.name, err)
			continue
		}
		for i, want := range colours {
			if got := m.NRGBAAt(i%2, i/2); got != want {
				t.Errorf("%s: pixel %d is %v, want %v", c.name, i, got, want)
			}
		}
		for n := range c.b {
			_, _ = decodeBMP(c.b[:n]) // may fail, but not panic
		}
	}
}

func TestTheLargestPictureOfAnIconIsJudged(t *testing.T) {
	small, large := encode(t, scene(16, 16), "png"), encode(t, scene(128, 100), "png")
	b := []byte{0, 0, 1, 0, 2, 0}
	at := 6 + 2*16
	for _, p := range []struct {
		w, h byte
		b    []byte
	}{{16, 16, small}, {128, 100, large}} {
		b = append(b, p.w, p.h, 0, 0, 1, 0, 32, 0)
		b = binary.LittleEndian.AppendUint32(b, uint32(len(p.b)))
		b = binary.LittleEndian.AppendUint32(b, uint32(at))
		at += len(p.b)
	}
	b = append(append(b, small...), large...)
	p, err := Shrink(b)
	if err != nil || p.Full != (Head{Format: ICO, Width: 128, Height: 100}) {
		t.Fatalf("Shrink of an icon returned %v, %v", p, err)
	}
	if _, err := Shrink(b[:len(b)-len(large)/2]); err == nil {
		t.Error("Shrink accepts a truncated icon")
	}
}

func TestTheFullestFrameIsJudged(t *testing.T) {
	g := &gif.GIF{}
	for i := range 5 {
		m := image.NewPaletted(image.Rect(0, 0, 100, 80), color.Palette{color.White, color.Black, color.NRGBA{200, 100, 50, 255}})
		if i == 3 {
			for k := range m.Pix {
				m.Pix[k] = uint8(k * k % 7919 % 3)
			}
		}
		g.Image, g.Delay = append(g.Image, m), append(g.Delay, 10)
	}
	var b bytes.Buffer
	if err := gif.EncodeAll(&b, g); err != nil {
		t.Fatal(err)
	}
	stills := Stills(b.Bytes())
	if len(stills) != 2 {
		t.Fatalf("Stills returned %d pictures, want the first and the fourth", len(stills))
	}
	for i, want := range []bool{false, true} {
		p, err := Shrink(stills[i])
		if err != nil {
			t.Fatal(err)
		}
		dark := false
		for _, v := range p.Y {
			dark = dark || v < 200
		}
		if dark != want {
			t.Errorf("picture %d is dark: %v, want %v", i, dark, want)
		}
	}
	for n := range b.Len() {
		_ = Stills(b.Bytes()[:n]) // must not panic
	}
}

func FuzzStills(f *testing.F) {
	f.Add(encode(f, scene(70, 70), "gif"))
	p := chunksOf(encode(f, scene(70, 70), "png"), maxChunks)
	f.Add(encodeChunks([]chunk{p[0], {"acTL", make([]byte, 8)}, p[1], {"fcTL", append(append(make([]byte, 4), p[0].data[:8]...), make([]byte, 14)...)}, {"fdAT", append(make([]byte, 4), p[1].data...)}}))
	f.Add([]byte("RIFF\x40\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x02\x00\x00\x00\x63\x00\x00\x63\x00\x00ANMF\x18\x00\x00\x00\x00\x00\x00\x00\x00\x00\x63\x00\x00\x63\x00\x00\x10\x00\x00\x00ALPH\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, s := range Stills(b) {
			if head, err := Look(s); err == nil && head.Width*head.Height < 1<<18 {
				_, _ = Shrink(s)
			}
		}
	})
}

func TestPicturesInDataURLsAreFoundHoweverTheyAreWritten(t *testing.T) {
	p := encode(t, scene(100, 100), "jpeg")
	text := base64.StdEncoding.EncodeToString(p)
	svg := `<svg xmlns="http://www.w3.org/2000/svg"><image href="data:image/jpeg;base64,` + text + `"/></svg>`
	inURL := func(media, text string) string {
		return `<svg xmlns="http://www.w3.org/2000/svg"><image href="data:` + media + `;base64,` + base64.StdEncoding.EncodeToString([]byte(text)) + `"/></svg>`
	}
	for name, html := range map[string]string{
		"attribute":         `<img src="data:image/jpeg;base64,` + text + `">`,
		"upper case":        `<IMG SRC='DATA:IMAGE/JPEG;BASE64,` + text + `'>`,
		"no quotes":         `<img src=data:image/jpeg;base64,` + text + ` alt=x>`,
		"lines":             `<img src="data:image/jpeg;base64, ` + text[:76] + "\r\n" + text[76:] + `">`,
		"style":             `<p style="background: url(data:image/jpeg;base64,` + text + `)">`,
		"no type":           `<img src="data:;base64,` + text + `">`,
		"a wrong type":      `<img src="data:text/plain;charset=x;base64,` + text + `">`,
		"percent signs":     `<img src="data:image/jpeg;base64,` + strings.ReplaceAll(text, "/", "%2F") + `">`,
		"references":        `<img src="data:image/jpeg;base64,` + strings.NewReplacer("+", "&#43;", "/", "&sol;", "=", "&#x3d;").Replace(text) + `">`,
		"quoted by names":   `<p style="background: url(&quot;data:image/jpeg;base64,` + text + `&quot;)">`,
		"srcset":            `<img srcset="data:image/jpeg;base64,` + text + ` 2x">`,
		"srcset of two":     `<img srcset="data:image/gif;base64,` + strings.Repeat("AAAA", 800) + ` 1x, data:image/jpeg;base64,` + text + ` 2x">`,
		"script":            `<script>i.src = "data:image\/jpeg;base64,` + strings.NewReplacer("/", `\/`, "+", `\u002b`, "=", `\x3D`).Replace(text) + `"</script>`,
		"markup in JSON":    `{"html": "<img src=\"data:image\/jpeg;base64,` + strings.ReplaceAll(text, "/", `\/`) + `\">"}`,
		"svg and a percent": `<img src="data:image/svg+xml,<svg width='100%' xmlns='http://www.w3.org/2000/svg'><image href='data:image/jpeg;base64,` + text + `'/></svg>">`,
		"no padding":        `<img src="data:image/jpeg;base64,` + strings.TrimRight(text, "=") + `">`,
		"not base64":        `<img src="data:image/jpeg,` + url.PathEscape(string(p)) + `">`,
		"svg":               svg,
		"svg in base64":     `<img src="data:image/svg+xml;base64,` + base64.StdEncoding.EncodeToString([]byte(svg)) + `">`,
		"svg with percents": `<img src="data:image/svg+xml,` + url.PathEscape(svg) + `">`,
		"svg in svg in svg": inURL("image/svg+xml", inURL("image/svg+xml", svg)),
		"a frame":           strings.Replace(inURL("text/html", `<img src="data:image/jpeg;base64,`+text+`">`), "image href", "iframe src", 1),
		"a style sheet":     strings.Replace(inURL("text/css", `p { background: url(data:image/jpeg;base64,`+text+`) }`), "image href", "link rel=stylesheet href", 1),
		"after others":      `<a href="mailto:x"><img src="data:image/gif;base64,R0lGOD"><script>x={data:1}</script><img src="data:image/jpeg;base64,` + text + `">`,
	} {
		all := Embedded([]byte(html), 4)
		if len(all) != 1 || !bytes.Equal(all[0], p) {
			t.Errorf("%s: Embedded returned %d pictures, want 1", name, len(all))
		}
	}
	if got := Embedded([]byte(strings.Repeat(`<img src="data:image/jpeg;base64,`+text+`">`, 9)), 4); len(got) != 4 {
		t.Errorf("Embedded returned %d of 9 pictures, want 4", len(got))
	}
}
