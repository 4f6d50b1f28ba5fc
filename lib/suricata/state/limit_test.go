package state

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"shuultuur/lib/suricata/rule"
)

// TestLimitsAreReadAndMistakesNameTheirPlace reads lines of threshold.config.
func TestLimitsAreReadAndMistakesNameTheirPlace(t *testing.T) {
	got, err := ReadLimits("threshold.config", strings.NewReader("# none\nsuppress\tgen_id 1,\tsig_id\t7, track by_src, \\\n ip [10.0.0.0/8,!10.1.1.1]\n"))
	if err != nil || len(got) != 1 || got[0].GID != 1 || got[0].SID != 7 || got[0].Addresses != "[10.0.0.0/8,!10.1.1.1]" {
		t.Errorf("ReadLimits returned %+v, %v", got, err)
	}
	for line, want := range map[string]string{
		"suppress gen_id 1, sig_id x": `threshold.config:2: sig_id "x" is not a number`,
		"limit gen_id 1, sig_id 2":    `threshold.config:2: "limit" is not threshold, rate_filter or suppress`,
		"threshold gen_id 1, track x": `threshold.config:2: track "x"`,
		"threshold gen_id 1, sig_id 1, type limits, track by_src, count 1, seconds 60":                     `threshold.config:2: type "limits" is not`,
		"threshold gen_id 1, sig_id 1, type limit, track by_src, seconds 60":                               `threshold.config:2: threshold has no count`,
		"threshold gen_id 1, sig_id 1, type backoff, track by_flow, count 1, seconds 60":                   `threshold.config:2: threshold has no multiplier`,
		"rate_filter gen_id 1, sig_id 1, track by_src, count 1, seconds 60, new_action explode, timeout 3": `threshold.config:2: new_action "explode" is not`,
		"rate_filter gen_id 1, sig_id 1, track by_src, count 1, seconds 60, new_action drop":               `threshold.config:2: rate_filter has no timeout`,
		"suppress gen_id 1, sig_id 1, track by_src":                                                        `threshold.config:2: suppress has either both`,
		"suppress sig_id 1": `threshold.config:2: suppress has no gen_id`,
	} {
		if _, err := ReadLimits("threshold.config", strings.NewReader("\n"+line)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("reading the line %s: %v, want %s", line, err, want)
		}
	}
}

func TestThresholdsLimitAlerts(t *testing.T) {
	for _, tc := range []struct {
		kind string
		want string // of six matches, one each second: an alert, the action alone, nothing
	}{
		{"type limit, track by_src, count 2, seconds 60", "++aaaa"},
		{"type limit, track by_src, count 1, seconds 3", "+aa+aa"},
		{"type threshold, track by_src, count 2, seconds 60", "-+-+-+"},
		{"type threshold, track by_src, count 1, seconds 60", "++++++"},
		{"type threshold, track by_src, count 3, seconds 2", "------"},
		{"type both, track by_src, count 3, seconds 60", "--+aaa"},
		{"type both, track by_src, count 2, seconds 3", "-+a-+a"},
		{"type backoff, track by_src, count 1, multiplier 2", "++a+aa"},
		{"type backoff, track by_src, count 2, multiplier 2", "-+a+aa"},
		{"type detection_filter, track by_src, count 3, seconds 60", "---+++"},
		{"type detection_filter, track by_dst, count 1, seconds 2", "-+-+-+"},
		{"type detection_filter, track by_src, count 2, seconds 60, unique_on src_port", "------"},
		{"type detection_filter, track by_src, count 2, seconds 60, unique_on dst_port", "----++"},
		{"type detection_filter, track by_src, count 9, seconds 60, unique_on dst_port", "------"},
	} {
		th, err := rule.ParseThreshold(tc.kind)
		if err != nil {
			t.Fatal(err)
		}
		s, got := New(), ""
		for i := range 6 {
			o := &Occurrence{Rule: new(rule.Rule), Src: netip.MustParseAddrPort("192.0.2.1:1000"),
				Dst: netip.AddrPortFrom(netip.MustParseAddr("192.0.2.2"), uint16(80+i/2)), Now: time.Unix(int64(1000+i), 0)}
			switch alerts, acts := s.allow(th, o, 0); {
			case alerts:
				got += "+"
			case acts:
				got += "a"
			default:
				got += "-"
			}
		}
		if got != tc.want {
			t.Errorf("%s: six matches give %s, want %s", tc.kind, got, tc.want)
		}
	}
	if _, err := rule.ParseThreshold("track by_src, count 2, seconds 60, unique_on port"); err == nil {
		t.Error("unique_on port is accepted")
	}
}

// A line may continue in any number of others.
func TestContinuedLinesTakeLinearTime(t *testing.T) {
	const n = 400_000
	from := time.Now()
	got, err := ReadLimits("x", strings.NewReader("suppress gen_id 1,"+strings.Repeat("\\\n", n)+"sig_id 7\n"))
	if took := time.Since(from); err != nil || len(got) != 1 || got[0].SID != 7 || took > 5*time.Second {
		t.Errorf("%d lines that continue give %v, %v after %s", n, got, err, took)
	}
}
