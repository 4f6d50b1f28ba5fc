package filter

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"
)

func TestMinutesAreASet(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var m Minutes
		want := map[int64]bool{}
		for range random.IntN(40) {
			at := 1000 + random.Int64N(60)
			m.Add(at)
			want[at] = true
		}
		got := slices.Collect(m.All())
		if len(got) != len(want) || !slices.IsSorted(got) {
			t.Fatalf("got the minutes %v, want those of %v", got, want)
		}
		for i, s := range m {
			if i > 0 && m[i-1].Last+1 >= s.First {
				t.Fatalf("%v has minutes in a row in two spans", m)
			}
		}
		if len(m) == 0 {
			continue
		}
		if again, err := ParseMinutes(m.Text(1000), 1000); err != nil || !slices.Equal(again, m) {
			t.Fatalf("%v is written as %q, which is read as %v, %v", m, m.Text(1000), again, err)
		}
	}
}

func TestTextsThatAreNoMinutesAreRefused(t *testing.T) {
	for _, s := range []string{"", "a", "3-1", "1,1", "0-3,2", "-1", "1-", "0-600000", "1, 2"} {
		if m, err := ParseMinutes(s, 0); err == nil {
			t.Errorf("%q was read as %v", s, m)
		}
	}
}

func TestMinutesOfOneTransactionAreBounded(t *testing.T) {
	var m Minutes
	for i := range int64(3 * maxSpans) {
		m.Add(2 * i)
	}
	if len(m) != maxSpans {
		t.Errorf("got %d spans, want %d", len(m), maxSpans)
	}
}

// TestTheMinutesOfATransaction: what is not known to have moved counts at its beginning and its end.
func TestTheMinutesOfATransaction(t *testing.T) {
	start := time.Date(2026, 5, 1, 12, 0, 59, 0, time.UTC)
	first := MinuteOf(start)
	block := Verdict{Action: Block}
	for what, tt := range map[string]struct {
		t    Transaction
		want Minutes
	}{
		"a short one":                   {Transaction{Record: Record{BytesOut: 1}}, Minutes{{first, first}}},
		"over the turn of a minute":     {Transaction{Record: Record{BytesOut: 1, Duration: 2 * time.Second}}, Minutes{{first, first + 1}}},
		"a long wait":                   {Transaction{Record: Record{BytesOut: 1, Duration: 5 * time.Minute}}, Minutes{{first, first}, {first + 5, first + 5}}},
		"a long wait for nothing":       {Transaction{Record: Record{Duration: 5 * time.Minute}}, Minutes{{first, first}}},
		"what the server knows":         {Transaction{Record: Record{Duration: 5 * time.Minute, Minutes: Minutes{{7, 9}}}}, Minutes{{7, 9}}},
		"refused":                       {Transaction{Verdict: block}, nil},
		"refused after it was sent":     {Transaction{Verdict: block, Record: Record{Server: netip.MustParseAddr("192.0.2.1")}}, Minutes{{first, first}}},
		"a question for a name":         {Transaction{Proto: DNS}, nil},
		"allowed without a closer look": {Transaction{Verdict: Verdict{Action: Allow}}, Minutes{{first, first}}},
	} {
		tt.t.Start = start
		if got := tt.t.Used(); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", what, got, tt.want)
		}
	}
}
