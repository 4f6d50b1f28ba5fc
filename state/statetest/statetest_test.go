package statetest_test

import (
	"testing"
	"testing/synctest"

	"shuultuur/state"
	"shuultuur/state/statetest"
)

// TestAGoodStorePasses runs the suite on the store of one process.
func TestAGoodStorePasses(t *testing.T) {
	statetest.Run(t, func(t *testing.T, test func(*testing.T, statetest.Store)) {
		synctest.Test(t, func(t *testing.T) {
			m, err := state.New(state.Config{})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			test(t, m)
		})
	})
}
