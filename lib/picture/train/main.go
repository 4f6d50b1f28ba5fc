// Train makes the table of skin colours from labelled pixels, in lines of "blue green red
// label" with label 1 for skin (UCI Skin Segmentation, Bhatt and Dhall, CC BY 4.0). It reports
// the accuracy for each skin tone on every fourth pixel, which is not used for training. With
// a second file, it plots the ROC curves:
//
//	go run ./lib/picture/train pixels.tsv.gz lib/picture/skin.table roc.svg
package main

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"log"
	"math"
	"os"
)

const side = 32

type table [side * side * side]float64

func main() {
	log.SetFlags(0)
	if len(os.Args) < 3 || len(os.Args) > 4 {
		log.Fatal("usage: train pixels.tsv.gz skin.table [roc.svg]")
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		log.Fatal(err)
	}
}

// A pixel has a colour, whose index in a table is at.
type pixel struct {
	at, tone int
	skin     bool
}

func run(in, out string, curves []string) error {
	all, err := read(in)
	if err != nil {
		return err
	}
	skin, other, t := fit(all, 3)
	var unseen []sample
	for i, p := range all {
		if i%4 == 3 {
			unseen = append(unseen, sample{score: skin[p.at] / (skin[p.at] + other[p.at] + 1e-12), skin: p.skin, tone: p.tone, found: t[p.at>>3]>>(p.at&7)&1 != 0})
		}
	}
	report(unseen)
	for _, file := range curves {
		if err := plot(file, unseen); err != nil {
			return err
		}
	}
	_, _, t = fit(all, -1)
	return os.WriteFile(out, t[:], 0o644)
}

func read(file string) (all []pixel, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	for sc := bufio.NewScanner(z); sc.Scan(); {
		var b, g, r, l int
		if _, err := fmt.Sscan(sc.Text(), &b, &g, &r, &l); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", file, sc.Text(), err)
		}
		all = append(all, pixel{r>>3<<10 | g>>3<<5 | b>>3, tone(r, g, b), l == 1})
	}
	return all, nil
}

// fit makes a table from all pixels except every fourth, beginning with skip; -1 uses all.
func fit(all []pixel, skip int) (s, o *table, bits *[4096]byte) {
	var skin, other table
	for i, p := range all {
		if i%4 == skip {
			continue
		}
		if p.skin {
			skin[p.at]++
		} else {
			other[p.at]++
		}
	}
	s, o = smooth(&skin), smooth(&other)
	return s, o, decide(s, o)
}

// decide compares the smoothed likelihoods. If no similar colour was seen, its hue decides:
// skin of every tone has red above green above blue.
func decide(s, o *table) *[4096]byte {
	var out [4096]byte
	for i := range s {
		is := s[i] > 2*o[i]
		if s[i]+o[i] < 1e-9 {
			is = likely(i>>10, i>>5&31, i&31)
		}
		if is {
			out[i>>3] |= 1 << (i & 7)
		}
	}
	return &out
}

func likely(r, g, b int) bool {
	y := .299*float64(r) + .587*float64(g) + .114*float64(b)
	cb, cr := (float64(b)-y)*.564*8+128, (float64(r)-y)*.713*8+128
	return r > g && g >= b && y > 4 && 85 <= cb && cb <= 125 && 135 <= cr && cr <= 170
}

// smooth distributes each count over neighbouring colours, and converts counts to frequencies.
func smooth(t *table) *table {
	var out table
	sum := 0.0
	for _, n := range t {
		sum += n
	}
	for i, n := range t {
		if n == 0 {
			continue
		}
		r, g, b := i>>10, i>>5&31, i&31
		for dr := -2; dr <= 2; dr++ {
			for dg := -2; dg <= 2; dg++ {
				for db := -2; db <= 2; db++ {
					x, y, z := r+dr, g+dg, b+db
					if x < 0 || y < 0 || z < 0 || x > 31 || y > 31 || z > 31 {
						continue
					}
					w := math.Exp(-1.5 * float64(dr*dr+dg*dg+db*db))
					out[x<<10|y<<5|z] += n / sum * w
				}
			}
		}
	}
	return &out
}
