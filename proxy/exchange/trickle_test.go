package exchange

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"shuultuur/filter"
)

// A scannedBy is a policy that trickles, and a scanner that takes its time with complete bodies and
// finds the word bad, as package policy asks one.
type scannedBy struct {
	takes    time.Duration
	awaits   bool // the scanner says that it awaits the end
	trickle  time.Duration
	patience time.Duration
}

func (scannedBy) Wants(*filter.Transaction, filter.Stage) bool { return true }

func (d scannedBy) Decide(ctx context.Context, t *filter.Transaction, s filter.Stage) {
	t.Verdict = filter.Verdict{Action: filter.Pass, Patience: d.patience, Trickle: d.trickle}
	if s != filter.ResponseBody {
		return
	}
	if !t.Body.Complete() {
		if d.awaits {
			t.Body.Wait.AwaitEnd()
		}
		return
	}
	filter.Waiting(ctx, true)
	select {
	case <-time.After(d.takes):
	case <-ctx.Done():
	}
	filter.Waiting(ctx, false)
	for p, err := range t.Body.Blocks() {
		if err != nil {
			return
		}
		if strings.Contains(string(p), "bad") {
			t.Verdict.Action = filter.Block
			t.Findings = append(t.Findings, filter.Finding{Check: "virus", Category: "virus"})
		}
	}
}

// TestAByteNowAndThen: where the policy says so, a client gets a byte of a file now and then while a
// scanner looks at it, never so much that it has the file, and the rest after the verdict.
func TestAByteNowAndThen(t *testing.T) {
	large := "\x7fELF" + strings.Repeat("\x00\x01\x02\x03", 20_000)
	for name, tt := range map[string]struct {
		d     scannedBy
		ctype string
		body  string
		held  int64
		slow  time.Duration // between two pieces of the body
		early int           // bytes before the verdict, about: each piece that arrives at the same moment may take one's place
	}{
		"not asked for":        {scannedBy{takes: time.Minute, awaits: true}, "application/x-executable", large, 1 << 20, 0, 0},
		"a slow scanner":       {scannedBy{takes: time.Minute, awaits: true, trickle: 5 * time.Second}, "application/x-executable", large, 1 << 20, 0, 11},
		"in a file":            {scannedBy{takes: time.Minute, awaits: true, trickle: 5 * time.Second}, "application/x-executable", large, 30_000, 0, 11},
		"a slow origin":        {scannedBy{takes: time.Second, awaits: true, trickle: time.Second, patience: 300 * time.Millisecond}, "application/octet-stream", large, 1 << 20, 10 * time.Second, 42},
		"a fast scanner":       {scannedBy{takes: time.Second, awaits: true, trickle: 5 * time.Second}, "application/x-executable", large, 1 << 20, 0, 0},
		"a small file":         {scannedBy{takes: time.Minute, awaits: true, trickle: time.Second}, "application/x-executable", large[:4000], 1 << 20, 0, 0},
		"little beyond a tail": {scannedBy{takes: time.Minute, awaits: true, trickle: time.Second}, "application/x-executable", large[:tail+7], 1 << 20, 0, 7},
		"for a long time":      {scannedBy{takes: time.Hour / 5, awaits: true, trickle: time.Second}, "application/x-executable", large, 30_000, 0, 720},
		"a page":               {scannedBy{takes: time.Minute, awaits: true, trickle: time.Second}, "text/html", strings.Repeat("<p>quiet ", 10_000), 1 << 20, 0, 0},
	} {
		for _, bad := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					x, i := begin(t, Config{Folder: t.TempDir()}, decider{})
					x.Engine.Decider = tt.d
					i.held = tt.held
					body := tt.body
					if bad {
						body = body[:len(body)-3] + "bad"
					}
					n := len(body) / 4
					read(t, x, "GET http://x.test/ HTTP/1.1\r\nHost: x.test\r\n\r\n")
					s := slowResponse(tt.ctype, slowly(tt.slow, body[:n], body[n:2*n], body[2*n:3*n], body[3*n:]))
					if pass, inspect := x.JudgeResponse(t.Context(), s); !pass || !inspect {
						t.Fatal("the body is not inspected")
					}
					_, err := x.InspectResponse(t.Context(), s)
					var got []byte
					if err == nil {
						got, err = io.ReadAll(s.Body)
					}
					switch {
					case !bad && (err != nil || string(got) != body):
						t.Errorf("a clean body: %d of %d bytes arrive, %v", len(got), len(body), err)
					case bad && tt.early == 0 && len(got) > 0 && tt.ctype != "text/html":
						t.Errorf("%d bytes of a bad body arrive, want none", len(got))
					case bad && tt.early == 0 && !errors.Is(err, ErrRefused):
						t.Errorf("a bad body: %v, want that it is refused", err)
					case bad && tt.early > 0 && (!errors.Is(err, ErrCut) || len(got) < tt.early-3 || len(got) > tt.early+3 || !strings.HasPrefix(body, string(got))):
						t.Errorf("%d bytes of a bad body arrive, %v; want about %d and that it is cut", len(got), err, tt.early)
					case bad && (x.T.Verdict.Action != filter.Block || len(x.T.Findings) != 1):
						t.Errorf("the record of a bad body: %+v, %+v", x.T.Verdict, x.T.Findings)
					}
				})
			})
		}
	}
}

// TestAClientThatLeavesATrickleEndsIt, in each state.
func TestAClientThatLeavesATrickleEndsIt(t *testing.T) {
	large := strings.Repeat("\x00\x01\x02\x03", 20_000)
	for name, slow := range map[string]time.Duration{"during the scan": 0, "during the transfer": time.Hour} {
		for _, patience := range []time.Duration{0, 300 * time.Millisecond} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					x, _ := begin(t, Config{Folder: t.TempDir()}, decider{})
					x.Engine.Decider = scannedBy{takes: 24 * time.Hour, awaits: true, trickle: time.Second, patience: patience}
					read(t, x, "GET http://x.test/ HTTP/1.1\r\nHost: x.test\r\n\r\n")
					s := slowResponse("application/octet-stream", slowly(slow, large[:40_000], large[40_000:]))
					x.JudgeResponse(t.Context(), s)
					if _, err := x.InspectResponse(t.Context(), s); err != nil {
						t.Fatal(err)
					}
					if slow == 0 {
						if n, err := s.Body.Read(make([]byte, 10)); n != 1 || err != nil {
							t.Errorf("the first read gives %d bytes, %v; want one", n, err)
						}
					}
					begin := time.Now()
					s.Body.Close()
					x.End()
					if took := time.Since(begin); took > time.Second {
						t.Errorf("the end takes %v", took)
					}
				})
			})
		}
	}
}
