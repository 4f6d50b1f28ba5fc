package why

import (
	"strings"
	"testing"

	"shuultuur/policy"
)

func TestAnExpectationThatNobodyCanAskIsAMistake(t *testing.T) {
	long := "http://" + strings.Repeat("a", 64) + ".example/"
	e := &Expectations{Policies: policy.Config{{Name: "pupils", Expect: []policy.Expectation{{URL: []string{"gopher://a.example/"}}, {URL: []string{long}}}}}}
	err := e.Unmet(t.Context())
	if err == nil || !strings.Contains(err.Error(), "policies[0].expect[0].url") || !strings.Contains(err.Error(), "policies[0].expect[1].url") || !strings.Contains(err.Error(), "1 to 63 characters") {
		t.Errorf("unmet: %v, want both keys", err)
	}
}
