package main

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
)

// tones are skin tones by the individual typology angle in degrees (Chardon, Cretois and
// Hourseau 1991), with the least angle of each.
var tones = []struct {
	name  string
	least float64
}{{"very light", 55}, {"light", 41}, {"intermediate", 28}, {"tan", 10}, {"brown", -30}, {"dark", -180}}

// tone returns the index of a colour's tone.
func tone(r, g, b int) int {
	linear := func(v int) float64 {
		f := float64(v) / 255
		if f <= 0.04045 {
			return f / 12.92
		}
		return math.Pow((f+0.055)/1.055, 2.4)
	}
	lr, lg, lb := linear(r), linear(g), linear(b)
	f := func(t float64) float64 {
		if t > 216./24389 {
			return math.Cbrt(t)
		}
		return (24389./27*t + 16) / 116
	}
	y, z := f(0.2126*lr+0.7152*lg+0.0722*lb), f((0.0193*lr+0.1192*lg+0.9505*lb)/1.089)
	angle := math.Atan2(116*y-66, 200*(y-z)) * 180 / math.Pi // of L* - 50 and b*
	for i, t := range tones {
		if angle >= t.least {
			return i
		}
	}
	return len(tones) - 1
}

// A sample is a pixel that was not used for training.
type sample struct {
	score float64 // ratio of the likelihoods of skin and of other colours
	skin  bool
	tone  int
	found bool // the table says skin
}

// report prints the accuracy for each tone. Balanced accuracy is the mean of the share of skin
// that was found and of other pixels that were not.
func report(all []sample) {
	var n, found [2]float64
	of, ok := make([]float64, len(tones)), make([]float64, len(tones))
	for _, s := range all {
		k, f := 0, 0.0
		if s.found {
			f = 1
		}
		if s.skin {
			k = 1
			of[s.tone]++
			ok[s.tone] += f
		}
		n[k]++
		found[k] += f
	}
	wrong := found[0] / n[0]
	fmt.Println("| tone of skin | unseen pixels | found | balanced accuracy |\n|--|--:|--:|--:|")
	for i, t := range tones {
		if of[i] > 0 {
			fmt.Printf("| %s | %.0f | %.3f | %.4f |\n", t.name, of[i], ok[i]/of[i], (ok[i]/of[i]+1-wrong)/2)
		}
	}
	fmt.Printf("| all | %.0f | %.3f | %.4f |\n\nOf %.0f other pixels %.4f are taken for skin.\n", n[1], found[1]/n[1], (found[1]/n[1]+1-wrong)/2, n[0], wrong)
}

// plot draws a curve for each tone, and one for all: the share of skin that is found, over the
// share of other pixels that are mistaken for skin.
func plot(file string, all []sample) error {
	slices.SortFunc(all, func(a, b sample) int { return cmp.Compare(b.score, a.score) })
	colours := []string{"#e69f00", "#56b4e9", "#009e73", "#0072b2", "#d55e00", "#7b3f00"}
	var svg strings.Builder
	svg.WriteString(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 560" font-family="sans-serif" font-size="13">` +
		`<rect width="640" height="560" fill="#fff"/><rect x="60" y="20" width="480" height="480" fill="none" stroke="#888"/>`)
	for i := range 5 {
		v := float64(i) / 4
		fmt.Fprintf(&svg, `<text x="%.0f" y="518" text-anchor="middle">%.3f</text><text x="52" y="%.0f" text-anchor="end">%.2f</text>`, 60+480*v, v*widest, 504-480*v, v)
	}
	svg.WriteString(`<text x="300" y="545" text-anchor="middle">other pixels taken for skin</text><text transform="translate(16 260) rotate(-90)" text-anchor="middle">skin found</text>`)
	for i := -1; i < len(tones); i++ {
		name, colour, width := "all", "#000", 2.5
		if i >= 0 {
			name, colour, width = tones[i].name, colours[i], 1.5
		}
		points, area := curve(all, i)
		if points == "" {
			continue
		}
		fmt.Fprintf(&svg, `<polyline fill="none" stroke="%s" stroke-width="%.1f" points="%s"/><text x="330" y="%d" fill="%s">%s: area %.4f</text>`, colour, width, points, 360+18*(i+1), colour, name, area)
	}
	svg.WriteString("</svg>\n")
	return os.WriteFile(file, []byte(svg.String()), 0o644)
}

// widest is the share of other pixels at the end of the plot: more is useless.
const widest = 0.1

// curve returns the points for a tone, -1 for all, and the area under the whole curve.
func curve(all []sample, tone int) (points string, area float64) {
	var n [2]float64
	counts := func(s *sample) bool { return !s.skin || tone < 0 || s.tone == tone }
	for i := range all {
		if s := &all[i]; counts(s) {
			n[map[bool]int{true: 1}[s.skin]]++
		}
	}
	if n[1] == 0 || n[0] == 0 {
		return "", 0
	}
	var b strings.Builder
	x, y := 0.0, 0.0
	lastX, lastY := 0.0, 0.0
	drawnX, drawnY := 0.0, 0.0
	fmt.Fprint(&b, "60,500")
	for i := range all {
		s := &all[i]
		if counts(s) && s.skin {
			y += 1 / n[1]
		} else if counts(s) {
			x += 1 / n[0]
		}
		if i+1 < len(all) && all[i+1].score == s.score {
			continue // equal scores give one point
		}
		area += (x - lastX) * (y + lastY) / 2
		if x <= widest && x-drawnX+y-drawnY > 0.0005 {
			fmt.Fprintf(&b, " %.1f,%.1f", 60+480*x/widest, 500-480*y)
			drawnX, drawnY = x, y
		}
		lastX, lastY = x, y
	}
	return b.String(), area
}
