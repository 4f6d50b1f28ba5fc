package phrase

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"shuultuur/content"
	"shuultuur/filter"
	"shuultuur/test/race"
)

// In compatibility modes, too, the findings do not depend on how a page arrives.
func TestArrivingEqualsWholeInCompatibilityModes(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	bits := []string{"sex", "SEX", " toy", "sex toy", "<b>", "</b>", "<", ">", " ", "casino", "bonus", "é", "É", "\xc9", "\xe9", "\xe2", "%73ex", "%73", "%", "%4", "казино", "КАЗИНО", "<title>", "</title>", "<meta x", "</head>", "<body>", "\n", "word "}
	for _, compat := range []string{"dansguardian", "e2guardian-5.3", "e2guardian-5.5"} {
		for mode := range 4 {
			for preserve := range 3 {
				for _, unhex := range []bool{false, true} {
					c := newCheck(t, testLists{
						weighted:  "<sex toy><10>\n<sex><3>\n<casino>,<bonus><20>\n<казино><7>\n<é><2>\n< word ><-5>\n<toy ><1>\n",
						banned:    "<bonus bonus>\n",
						exception: "<casino casino>\n",
					}, Config{Compat: compat, PhraseFilterMode: &mode, PreserveCase: &preserve, HexDecodeContent: &unhex, Full: true})
					for range 20 {
						var page []byte
						for range 3 + r.IntN(60) {
							page = append(page, bits[r.IntN(len(bits))]...)
						}
						tr := transaction("text/html", "", page)
						want, err := c.Find(t.Context(), tr, filter.ResponseBody, nil)
						tr.Body.Release()
						if err != nil {
							t.Fatal(err)
						}
						tr = transaction("text/html", "", nil)
						tr.Body.Reset(content.Describe("text/html", ""), content.Limits{})
						var got []filter.Finding
						for rest := page; ; {
							n := min(len(rest), r.IntN(12))
							tr.Body.Append(bytes.Clone(rest[:n]))
							if rest = rest[n:]; len(rest) == 0 {
								tr.Body.Finish()
							}
							if got, err = c.Find(t.Context(), tr, filter.ResponseBody, nil); err != nil {
								t.Fatal(err)
							}
							if len(rest) == 0 {
								break
							}
							tr.Body.Forget()
						}
						tr.Body.Release()
						if !reflect.DeepEqual(got, want) {
							t.Fatalf("%s, mode %d, case %d, decoded %v: %q gives in pieces\n%v, whole\n%v", compat, mode, preserve, unhex, page, got, want)
						}
					}
				}
			}
		}
	}
}

// A page is searched once, however often it is judged as it arrives.
func TestArrivingPagesTakeLinearTime(t *testing.T) {
	race.Without(t)
	for _, compat := range []string{"modern", "dansguardian", "e2guardian-5.3", "e2guardian-5.5"} {
		for name, piece := range map[string]string{
			"text": "lorem ipsum ", "tags": "<b>", "an open tag": "<b ", "percent": "%", "letters": "é", "titles": "<title>x</title>",
		} {
			modes := []int{2, 3}
			if compat == "modern" {
				modes = []int{-1}
			}
			for _, mode := range modes {
				yes := true
				cfg := Config{Compat: compat}
				if mode >= 0 {
					cfg.PhraseFilterMode, cfg.HexDecodeContent = &mode, &yes
				}
				c := newCheck(t, testLists{weighted: "<sex><3>\n"}, cfg)
				tr := &filter.Transaction{Body: &content.Body{}}
				tr.Body.Reset(content.Describe("text/html; charset=utf-8", ""), content.Limits{Ratio: 1 << 20})
				page := []byte(strings.Repeat(piece, 1<<20/len(piece)))
				from := time.Now()
				for len(page) > 0 {
					n := min(4<<10, len(page))
					tr.Body.Append(page[:n])
					page = page[n:]
					if _, err := c.Find(context.Background(), tr, filter.ResponseBody, nil); err != nil {
						t.Fatal(err)
					}
				}
				tr.Body.Release()
				if took := time.Since(from); took > 4*time.Second { // to search everything anew at each piece takes far longer
					t.Errorf("%s: 1 MiB of %s in pieces of 4 KiB take %s", fmt.Sprint(compat, " ", mode), name, took)
				}
			}
		}
	}
}
