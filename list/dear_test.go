package list

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shuultuur/lib/setting"
	"shuultuur/list/adblock"
	"shuultuur/test/race"
)

// TestDearExpressionsDelayNoRequest: lists of hundreds of them are read in seconds, what exceeds the
// budget is refused by line, and the first request does not wait for what is left.
func TestDearExpressionsDelayNoRequest(t *testing.T) {
	race.Without(t)
	for _, format := range []FormatName{Expressions, "e2guardian-regexp", Pihole, Adblock} {
		for pattern, refused := range map[string]bool{
			"[a-z]{900}q%d": true, "^[a-z]{5,9%02d}[0-9]{2,9}\\.(com|net)/": true, "(a|b|c|d|e){200}q%d": true, "(a|b|c|d|e){900}q%d": true, "(.{0,30}){30}z%d": true,
			"casino%d(a|b|c|d|e){9}": false, "(ads|b[0-9]|c%d)(x|y)": false,
		} {
			var text strings.Builder
			for i := range 300 {
				line := fmt.Sprintf(pattern, i%90)
				if format == Adblock {
					line = "/" + line + "/"
				}
				fmt.Fprintln(&text, line)
			}
			file := filepath.Join(t.TempDir(), "list")
			if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			r, err := Compile(t.Context(), "x", Config{Format: format, Path: setting.Source(file), Fetched: true}, file+".list")
			if err != nil {
				t.Fatal(err)
			}
			if took := time.Since(begin); took > 20*time.Second {
				t.Errorf("%s, %s: reading took %v", format, pattern, took)
			}
			if r.Bad > 0 != refused || refused && (len(r.Problems) == 0 || r.Problems[0].Line == 0 || !strings.Contains(r.Problems[0].Reason, "dear")) {
				t.Errorf("%s, %s: %d are refused: %v", format, pattern, r.Bad, r.Problems[:min(1, len(r.Problems))])
			}
			f, err := Open(file + ".list")
			if err != nil {
				t.Fatal(err)
			}
			f.Prepare()
			url := "http://www.example.com/" + strings.Repeat("abcdefghi", 100) + "q1"
			begin = time.Now()
			if _, err := f.Ask(url); err != nil {
				t.Error(err)
			}
			var q Query
			host, target, _ := cutURL(url)
			q.SetURL(host, target)
			var found []Match
			if f.Rules().Requests() {
				var request adblock.Request
				request.Set(url, adblock.Document, "")
				found, err = f.Rules().Judge(&request, found)
			}
			if err == nil {
				_, err = f.Search(&q, found)
			}
			if took := time.Since(begin); err != nil || took > 4*time.Second {
				t.Errorf("%s, %s: the first requests take %v, %v", format, pattern, took, err)
			} else {
				t.Logf("%s, %s: %d refused; two requests take %v", format, pattern, r.Bad, took)
			}
			f.Close()
		}
	}
}
