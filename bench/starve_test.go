package main

import (
	"slices"
	"strings"
	"testing"
)

// TestTimesOfAGeneratorThatFellBehindAreNoFigures: they are named as such and count for nothing, but a
// failure counts.
func TestTimesOfAGeneratorThatFellBehindAreNoFigures(t *testing.T) {
	full, few := slices.Repeat([]float64{10}, 160), slices.Repeat([]float64{4000}, 100)
	awake, asleep := slices.Repeat([]float64{1}, 800), slices.Repeat([]float64{300}, 800)
	for name, tt := range map[string]struct {
		e    experience
		want bool
	}{
		"in time":            {experience{ms: full, late: awake}, false},
		"fewer requests":     {experience{ms: few, late: awake}, true},
		"it slept too long":  {experience{ms: full, late: asleep}, true},
		"once it was late":   {experience{ms: full, late: append(slices.Clone(awake), 300)}, false},
		"nothing was asked":  {experience{late: awake}, true},
		"requests took long": {experience{ms: slices.Repeat([]float64{900}, 160), late: awake}, false},
	} {
		if got := tt.e.behind(); got != tt.want {
			t.Errorf("%s: behind %v, want %v", name, got, tt.want)
		}
	}
	var b strings.Builder
	all := []attack{{name: "none"}, {name: "kept up"}, {name: "fell behind"}}
	had := map[string]*experience{"none": {ms: full}, "kept up": {ms: full, held: 3000}, "fell behind": {ms: few, held: 187, fell: true, failed: 2}}
	if err := printStarved(&b, options{rounds: 1}, all, had); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| kept up | 3000 | 160 | 0 | 10.0 | 10 | 0 |", "| fell behind | 187 | 100 | 2 | generator behind | generator behind | 0 |", "failures 0: 2: **missed**", "10 ms: **reached**", "does not keep up with: 1\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the report lacks %q: %s", want, b.String())
		}
	}
}
