package picture

import "testing"

// The sizes are those of Chromium's naturalWidth and naturalHeight.
func TestAnSVGHasTheSizeThatBrowsersGiveIt(t *testing.T) {
	for text, want := range map[string][2]int{
		`<svg xmlns="http://www.w3.org/2000/svg" width="300" height="150"/>`:                                                                        {300, 150},
		`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 400 100"/>`:                                                                           {300, 75},
		`<svg xmlns="http://www.w3.org/2000/svg"/>`:                                                                                                 {300, 150},
		`<svg xmlns="http://www.w3.org/2000/svg" width="50" viewBox="0 0 400 100"/>`:                                                                {50, 13},
		`<svg xmlns="http://www.w3.org/2000/svg" width="50%" height="20%" viewBox="0 0 400 100"/>`:                                                  {300, 75},
		`<svg xmlns="http://www.w3.org/2000/svg" width="10mm" height="2in"/>`:                                                                       {38, 192},
		"\ufeff<?xml version='1.0'?>\n<!-- <svg width='1'> --><!DOCTYPE svg [<!ENTITY a '>'>]>\n<s:svg data-width='7' height = '20px' width='1e2'>": {100, 20},
		`<svg viewBox="0,0,10,20" height="40">`:                                                                                                     {20, 40},
		`<svg title="a > b" width="70" height="60">`:                                                                                                {70, 60},
		`<svg width="0" height="10"/>`:                                                                                                              {},
		`<svg width="1e300" height="10"/>`:                                                                                                          {},
		`<html><svg width="3" height="10"/>`:                                                                                                        {},
		`<svg`:                                                                                                                                      {300, 150},
		`<svg width="`:                                                                                                                              {300, 150},
		`<!-- `:                                                                                                                                     {},
		"":                                                                                                                                          {},
	} {
		w, h, ok := SVGSize([]byte(text))
		if w != want[0] || h != want[1] || ok != (want[0] > 0) {
			t.Errorf("SVGSize(%s) = %d, %d, %v, want %v", text, w, h, ok, want)
		}
	}
}

func FuzzSVGSize(f *testing.F) {
	f.Add([]byte(`<?xml version='1.0'?><!DOCTYPE svg [<!ENTITY a '>'>]><s:svg viewBox="0 0 1 2" height = '20px' width='1e2'>`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if w, h, ok := SVGSize(b); ok != (w > 0 && h > 0) || w > MaxPixels || h > MaxPixels {
			t.Errorf("SVGSize returned %d, %d, %v", w, h, ok)
		}
	})
}
