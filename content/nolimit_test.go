package content

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"encoding/base64"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// repeated joins the results of f for 0 to n-1.
func repeated(n int, f func(i int) string) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(f(i))
	}
	return b.String()
}

// framed puts a document into n frames within one another.
func framed(n int, inner string) string {
	for range n {
		inner = `<iframe srcdoc="` + html.EscapeString(inner) + `"></iframe>`
	}
	return inner
}

func zipWithMany(t *testing.T, n int, last string) string {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i := range n {
		w, err := z.Create(fmt.Sprintf("word/document%d.xml", i))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(w, "<w:t>%s</w:t>", map[bool]string{true: last, false: "x"}[i == n-1])
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func tarWithMany(t *testing.T, n int, last string) string {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i := range n {
		text := map[bool]string{true: last, false: "x"}[i == n-1]
		if err := w.WriteHeader(&tar.Header{Name: strconv.Itoa(i) + ".txt", Size: int64(len(text)), Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(w, text)
	}
	w.Close()
	return b.String()
}

// A limitCase goes past one limit, behind which or across which "quayle" stands.
type limitCase struct {
	limit, typ, body string
}

func limitCases(t *testing.T) []limitCase {
	style := func(sheet, body string) string { return "<!doctype html><style>" + sheet + "</style><body>" + body }
	const html = "text/html"
	return []limitCase{
		{"mostValues", html, style(repeated(mostValues+8, func(i int) string {
			return fmt.Sprintf(".a%d::before{content:%q}", i, map[bool]string{true: "qua", false: fmt.Sprint(i)}[i == mostValues+7])
		}),
			`<p class="`+repeated(mostValues+8, func(i int) string { return fmt.Sprintf("a%d ", i) })+`">yle</p>`)},
		{"mostTried", html, style(repeated(8, func(i int) string { return fmt.Sprintf("p.b::before{content:%q}", []string{"qua", "x"}[min(i, 1)]) })+"p.b.c::before{content:'qua'}", `<p class="b c">yle</p>`)},
		{"mostNamed", html, style(":root{"+repeated(mostNamed+9, func(i int) string { return fmt.Sprintf("--v%d:%q;", i, "x") })+"--w:'qua'}p::before{content:var(--w)}", "<p>yle</p>")},
		{"mostWithin", html, style(":root{"+repeated(2*mostWithin, func(i int) string { return fmt.Sprintf("--v%d:var(--v%d);", i, i+1) })+fmt.Sprintf("--v%d:'qua'}p::before{content:var(--v0)}", 2*mostWithin), "<p>yle</p>")},
		{"maxAside", html, "<title>" + strings.Repeat("lorem ", maxAside/4) + "quayle</title>"},
		{"maxNote", html, `<iframe srcdoc="` + strings.Repeat("lorem ", maxNote/4) + `quayle"></iframe>`},
		{"mostAttrs", html, style(repeated(mostAttrs+4, func(i int) string { return fmt.Sprintf(".c%d::before{content:attr(data-a%d)}", i, i) }),
			`<p class=c`+fmt.Sprint(mostAttrs+3)+repeated(mostAttrs+4, func(i int) string { return fmt.Sprintf(" data-a%d=qua", i) })+`>yle</p>`)},
		{"mostBackward", html, "<bdo dir=rtl>elyauq" + strings.Repeat(" merol", mostBackward) + "</bdo>"},
		{"mostBackward", html, "<bdo dir=rtl>" + strings.Repeat("merol ", mostBackward) + "elyauq</bdo>"},
		{"mostNested", html, framed(mostNested+3, "quayle")},
		{"mostHosts", html, strings.Repeat("<div><template shadowrootmode=open>", mostHosts+4) + "quayle"},
		{"mostSlotted", html, "<div><template shadowrootmode=open>" + strings.Repeat("<slot name=a></slot>", mostSlotted) + "qua<slot></slot></template>yle</div>"},
		{"mostCBORDeep", "application/cbor", strings.Repeat("\x81", mostCBORDeep+1) + "\x66quayle"},
		{"mostCBORUnpacked", "application/cbor", "\x9f" + repeated(mostCBORUnpacked+1, func(i int) string {
			p := gzipOf([]string{"x", "quayle"}[i/mostCBORUnpacked])
			return "\x58" + string([]byte{byte(len(p))}) + string(p)
		}) + "\xff"},
		{"mostGap", html, "<script>document.write('qua'" + strings.Repeat(" ", 3*mostGap) + "+'yle')</script>"},
		{"mostGap", html, "<script>document.write('qua'+/*" + strings.Repeat("x", 3*mostGap) + "*/'yle')</script>"},
		{"mostList", html, "<script>document.write(['" + strings.Repeat("x", mostList) + "','qua','yle'].join(''))</script>"},
		{"mostTemplates", html, "<script>document.write(" + strings.Repeat("`${", mostTemplates+4) + "'quayle'" + strings.Repeat("}`", mostTemplates+4) + ")</script>"},
		{"mostRule", html, style(".h{"+strings.Repeat("color:red;", mostRule/5)+"display:none}", "qua<i class=h>zzz</i>yle")},
		{"mostRule", html, style(".h,"+repeated(mostRule/3, func(i int) string { return fmt.Sprintf(".x%d,", i) })+".y{display:none}", "qua<i class=h>zzz</i>yle")},
		{"mostStyled", html, style(repeated(mostStyled+9, func(i int) string { return fmt.Sprintf(".s%d{display:none}", i) }), fmt.Sprintf("qua<i class=s%d>zzz</i>yle", mostStyled+8))},
		{"mostOpen", html, style(".h{display:none}.o{display:contents}", "qua<span class=h>"+strings.Repeat("<b class=o>", mostOpen+8)+"zzz"+strings.Repeat("</b>", mostOpen+8)+"</span>yle")},
		{"mostOpen", html, style(".r{unicode-bidi:bidi-override;direction:rtl}.o{display:contents}", "<span class=r>elyauq"+strings.Repeat("<b class=o>", mostOpen+8)+" x"+strings.Repeat("</b>", mostOpen+8)+"</span>")},
		{"mostText", html, strings.Repeat("lorem ", mostText/4) + "quayle"},
		{"mostEntries", "application/vnd.openxmlformats-officedocument.wordprocessingml.document", zipWithMany(t, mostEntries+5, "quayle")},
		{"mostEntry", "application/zip", func() string {
			var b bytes.Buffer
			z := zip.NewWriter(&b)
			w, _ := z.Create("a.txt")
			w.Write(bytes.Repeat([]byte("lorem "), mostEntry/5))
			w.Write([]byte("quayle"))
			z.Close()
			return b.String()
		}()},
		{"mostMembers", "application/x-tar", tarWithMany(t, mostMembers+5, "quayle")},
		{"mostGroups", "application/rtf", `{\rtf1\ansi ` + strings.Repeat(`{\uc1 `, mostGroups+9) + `qu\u97 ?yle` + strings.Repeat("}", mostGroups+10)},
		{"mostEntities", "application/xml", "<!DOCTYPE a [" + repeated(mostEntities+9, func(i int) string { return fmt.Sprintf("<!ENTITY e%d 'quayle'>", i) }) + fmt.Sprintf("]><a>&e%d;</a>", mostEntities+8)},
		{"mostDeep", "application/xml", "<!DOCTYPE a [<!ENTITY e0 'quayle'>" + repeated(2*mostDeep, func(i int) string { return fmt.Sprintf("<!ENTITY e%d '&e%d;'>", i+1, i) }) + fmt.Sprintf("]><a>&e%d;</a>", 2*mostDeep)},
		{"mostExpansion", "application/xml", "<!DOCTYPE a [<!ENTITY e 'quayle'><!ENTITY f '" + strings.Repeat("x", 1<<10) + "'>]><a>" + strings.Repeat("&f;", mostExpansion>>10+9) + "&e;</a>"},
		{"maxCodings", html, "quayle"}, // with more codings than are undone, below
		{"mostFields", "multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data; name=" + strings.Repeat("x", mostFields+9) + "\r\nContent-Transfer-Encoding: base64\r\n\r\n" + base64.StdEncoding.EncodeToString([]byte("hello quayle")) + "\r\n--b--\r\n"},
		{"mostParts", "multipart/form-data; boundary=b", repeated(mostParts+9, func(int) string { return "--b\r\nContent-Disposition: form-data; name=a\r\n\r\nx\r\n" }) +
			"--b\r\nContent-Disposition: form-data; name=a\r\nContent-Transfer-Encoding: base64\r\n\r\n" + base64.StdEncoding.EncodeToString([]byte("hello quayle")) + "\r\n--b--\r\n"},
		{"mostJSONDeep", "application/json", strings.Repeat(`{"a":`, 3*mostJSONDeep) + `"\u0071uayle"` + strings.Repeat("}", 3*mostJSONDeep)},
		{"mostWaiting", "application/json", `{"a":"` + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("lorem ipsum ", 2*mostWaiting)+"quayle")) + `"}`},
	}
}

// Text beyond a limit is read anyway, or the body is reported as unread: no limit ends
// inspection in silence.
func TestNoLimitHidesText(t *testing.T) {
	tried := map[string]bool{}
	for n, c := range limitCases(t) {
		tried[c.limit] = true
		t.Run(fmt.Sprintf("%s %d", c.limit, n), func(t *testing.T) {
			coding := ""
			if c.limit == "maxCodings" {
				coding = strings.Repeat("gzip, ", maxCodings) + "gzip"
				for range maxCodings + 1 {
					c.body = string(encodeAll(t, "gzip", []byte(c.body)))
				}
			}
			var b Body
			b.Reset(Describe(c.typ, coding), Limits{Scripts: true})
			defer b.Release()
			b.Append([]byte(c.body))
			b.Finish()
			text, err := b.Text()
			if !strings.Contains(string(text), "quayle") && b.Unread() == AllRead && err == nil {
				t.Errorf("the word is not found, and the body counts as read: …%s", text[max(0, len(text)-60):])
			}
		})
	}
	for name, why := range map[string]string{
		"mostAdding": "TestMuchAddedTextIsBounded", "mostMessage": "conversations", "mostThreads": "conversations",
		"maxMatch": "of deflate", "mostFolds": "marks that remain in a word are a disguise, which phrases look for", "maxWindow": "larger windows are an error of the coding", "maxLabel": "longer labels name no charset",
		"maxReadings": "the number of ways in which a browser may read a body", "mostProbes": "a full table is mostStyled",
		"mostKept": "of one part, which is read besides", "mostSentText": "of one part, which is read besides",
	} {
		if tried[name] {
			t.Errorf("the limit %s has a case, and is also listed as having none (%s)", name, why)
		}
		tried[name] = true
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	limit := regexp.MustCompile(`(?m)^\s*(?:const )?((?:most|max)[A-Z]\w*)\s*=`)
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		source, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range limit.FindAllStringSubmatch(string(source), -1) {
			if !tried[m[1]] {
				t.Errorf("%s: no case exceeds the limit %s", f, m[1])
			}
		}
	}
}
