package message

import "testing"

func TestSafeMethods(t *testing.T) {
	for method, want := range map[string]bool{"GET": true, "HEAD": true, "QUERY": true, "POST": false, "get": false, "": false, "PURGE": false} {
		if Safe(method) != want {
			t.Errorf("Safe(%q) is %v", method, !want)
		}
	}
}
