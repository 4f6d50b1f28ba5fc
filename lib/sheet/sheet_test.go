package sheet

import "testing"

func TestNoCellIsAFormula(t *testing.T) {
	for s, want := range map[string]string{"": "", "a=1": "a=1", "=1": "'=1", "+1": "'+1", "-1": "'-1", "@x": "'@x", "＝1": "'＝1", "＠SUM": "'＠SUM", "＋1": "'＋1", "－1": "'－1", "\t=1": "'\t=1", "\r=1": "'\r=1", "\n=1": "'\n=1", "日": "日", "\xff=": "\xff="} {
		if got := Cell(s); got != want {
			t.Errorf("Cell(%q) = %q, want %q", s, got, want)
		}
	}
}
