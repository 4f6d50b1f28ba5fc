package redis_test

import (
	"flag"
	"os"
	"testing"
)

// TestMain lets many tests run concurrently, whatever the number of processors:
// most of them wait for a Redis or for time to pass.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "24"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
