package message

import "testing"

func TestGzipIsAcceptedUnlessItsWeightIsZero(t *testing.T) {
	for value, want := range map[string]bool{
		"gzip": true, "GZIP": true, "x-gzip": true, "br, gzip;q=0.5": true, "deflate,gzip ; q=0.05": true,
		"": false, "br": false, "gzip;q=0": false, "gzip; q=0.000": false, "notgzip": false,
	} {
		if got := AcceptsGzip([]byte(value)); got != want {
			t.Errorf("AcceptsGzip(%q) = %v, want %v", value, got, want)
		}
	}
}
