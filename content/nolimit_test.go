package content_test

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

	"shuultuur/test/race"

	"shuultuur/content"
	"shuultuur/content/coding"
	"shuultuur/content/data"
	"shuultuur/content/limit"
	"shuultuur/test/reading"
	"shuultuur/test/webpage"
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
		{"mostValues", html, style(repeated(reading.Limit("mostValues")+8, func(i int) string {
			return fmt.Sprintf(".a%d::before{content:%q}", i, map[bool]string{true: "qua", false: fmt.Sprint(i)}[i == reading.Limit("mostValues")+7])
		}),
			`<p class="`+repeated(reading.Limit("mostValues")+8, func(i int) string { return fmt.Sprintf("a%d ", i) })+`">yle</p>`)},
		{"mostTried", html, style(repeated(8, func(i int) string { return fmt.Sprintf("p.b::before{content:%q}", []string{"qua", "x"}[min(i, 1)]) })+"p.b.c::before{content:'qua'}", `<p class="b c">yle</p>`)},
		{"mostNamed", html, style(":root{"+repeated(reading.Limit("mostNamed")+9, func(i int) string { return fmt.Sprintf("--v%d:%q;", i, "x") })+"--w:'qua'}p::before{content:var(--w)}", "<p>yle</p>")},
		{"mostWithin", html, style(":root{"+repeated(2*reading.Limit("mostWithin"), func(i int) string { return fmt.Sprintf("--v%d:var(--v%d);", i, i+1) })+fmt.Sprintf("--v%d:'qua'}p::before{content:var(--v0)}", 2*reading.Limit("mostWithin")), "<p>yle</p>")},
		{"maxAside", html, "<title>" + strings.Repeat("lorem ", reading.Limit("maxAside")/4) + "quayle</title>"},
		{"maxNote", html, `<iframe srcdoc="` + strings.Repeat("lorem ", reading.Limit("maxNote")/4) + `quayle"></iframe>`},
		{"mostAttrs", html, style(repeated(reading.Limit("mostAttrs")+4, func(i int) string { return fmt.Sprintf(".c%d::before{content:attr(data-a%d)}", i, i) }),
			`<p class=c`+fmt.Sprint(reading.Limit("mostAttrs")+3)+repeated(reading.Limit("mostAttrs")+4, func(i int) string { return fmt.Sprintf(" data-a%d=qua", i) })+`>yle</p>`)},
		{"mostBackward", html, "<bdo dir=rtl>elyauq" + strings.Repeat(" merol", 1<<10) + "</bdo>"},
		{"mostBackward", html, "<bdo dir=rtl>" + strings.Repeat("merol ", 1<<10) + "elyauq</bdo>"},
		{"mostNested", html, framed(reading.Limit("mostNested")+3, "quayle")},
		{"mostHosts", html, strings.Repeat("<div><template shadowrootmode=open>", reading.Limit("mostHosts")+4) + "quayle"},
		{"mostSlotted", html, "<div><template shadowrootmode=open>" + strings.Repeat("<slot name=a></slot>", reading.Limit("mostSlotted")) + "qua<slot></slot></template>yle</div>"},
		{"MostCBORDeep", "application/cbor", strings.Repeat("\x81", data.MostCBORDeep+1) + "\x66quayle"},
		{"MostCBORUnpacked", "application/cbor", "\x9f" + repeated(data.MostCBORUnpacked+1, func(i int) string {
			p := reading.Gzip([]string{"x", "quayle"}[i/data.MostCBORUnpacked])
			return "\x58" + string([]byte{byte(len(p))}) + string(p)
		}) + "\xff"},
		{"mostGap", html, "<script>document.write('qua'" + strings.Repeat(" ", 3*reading.Limit("mostGap")) + "+'yle')</script>"},
		{"mostGap", html, "<script>document.write('qua'+/*" + strings.Repeat("x", 3*reading.Limit("mostGap")) + "*/'yle')</script>"},
		{"mostList", html, "<script>document.write(['" + strings.Repeat("x", reading.Limit("mostList")) + "','qua','yle'].join(''))</script>"},
		{"mostTemplates", html, "<script>document.write(" + strings.Repeat("`${", reading.Limit("mostTemplates")+4) + "'quayle'" + strings.Repeat("}`", reading.Limit("mostTemplates")+4) + ")</script>"},
		{"mostRule", html, style(".h{"+strings.Repeat("color:red;", reading.Limit("mostRule")/5)+"display:none}", "qua<i class=h>zzz</i>yle")},
		{"mostRule", html, style(".h,"+repeated(reading.Limit("mostRule")/3, func(i int) string { return fmt.Sprintf(".x%d,", i) })+".y{display:none}", "qua<i class=h>zzz</i>yle")},
		{"mostStyled", html, style(repeated(reading.Limit("mostStyled")+9, func(i int) string { return fmt.Sprintf(".s%d{display:none}", i) }), fmt.Sprintf("qua<i class=s%d>zzz</i>yle", reading.Limit("mostStyled")+8))},
		{"mostOpen", html, style(".h{display:none}.o{display:contents}", "qua<span class=h>"+strings.Repeat("<b class=o>", reading.Limit("mostOpen")+8)+"zzz"+strings.Repeat("</b>", reading.Limit("mostOpen")+8)+"</span>yle")},
		{"mostOpen", html, style(".r{unicode-bidi:bidi-override;direction:rtl}.o{display:contents}", "<span class=r>elyauq"+strings.Repeat("<b class=o>", reading.Limit("mostOpen")+8)+" x"+strings.Repeat("</b>", reading.Limit("mostOpen")+8)+"</span>")},
		{"mostText", html, strings.Repeat("lorem ", reading.Limit("mostText")/4) + "quayle"},
		{"mostMembers", "application/vnd.openxmlformats-officedocument.wordprocessingml.document", zipWithMany(t, reading.Limit("mostMembers")+5, "quayle")},
		{"mostScript", "application/zip", "#!/bin/sh\n" + strings.Repeat("# nothing\n", reading.Limit("mostScript")/10+9) + zipWithMany(t, 1, "quayle")},
		{"mostMembers", "application/x-tar", tarWithMany(t, reading.Limit("mostMembers")+5, "quayle")},
		{"mostGroups", "application/rtf", `{\rtf1\ansi ` + strings.Repeat(`{\uc1 `, reading.Limit("mostGroups")+9) + `qu\u97 ?yle` + strings.Repeat("}", reading.Limit("mostGroups")+10)},
		{"mostEntities", "application/xml", "<!DOCTYPE a [" + repeated(reading.Limit("mostEntities")+9, func(i int) string { return fmt.Sprintf("<!ENTITY e%d 'quayle'>", i) }) + fmt.Sprintf("]><a>&e%d;</a>", reading.Limit("mostEntities")+8)},
		{"mostDeep", "application/xml", "<!DOCTYPE a [<!ENTITY e0 'quayle'>" + repeated(2*reading.Limit("mostDeep"), func(i int) string { return fmt.Sprintf("<!ENTITY e%d '&e%d;'>", i+1, i) }) + fmt.Sprintf("]><a>&e%d;</a>", 2*reading.Limit("mostDeep"))},
		{"MostExpansion", "application/xml", "<!DOCTYPE a [<!ENTITY e 'quayle'><!ENTITY f '" + strings.Repeat("x", 1<<10) + "'>]><a>" + strings.Repeat("&f;", limit.MostExpansion>>10+9) + "&e;</a>"},
		{"maxCodings", html, "quayle"}, // with more codings than are undone, below
		{"mostFields", "multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data; name=" + strings.Repeat("x", reading.Limit("mostFields")+9) + "\r\nContent-Transfer-Encoding: base64\r\n\r\n" + base64.StdEncoding.EncodeToString([]byte("hello quayle")) + "\r\n--b--\r\n"},
		{"mostParts", "multipart/form-data; boundary=b", repeated(reading.Limit("mostParts")+9, func(int) string { return "--b\r\nContent-Disposition: form-data; name=a\r\n\r\nx\r\n" }) +
			"--b\r\nContent-Disposition: form-data; name=a\r\nContent-Transfer-Encoding: base64\r\n\r\n" + base64.StdEncoding.EncodeToString([]byte("hello quayle")) + "\r\n--b--\r\n"},
		{"MostDeep", "application/json", strings.Repeat(`{"a":`, 3*data.MostDeep) + `"\u0071uayle"` + strings.Repeat("}", 3*data.MostDeep)},
		{"mostWaiting", "application/json", `{"a":"` + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("lorem ipsum ", 2*reading.Limit("mostWaiting"))+"quayle")) + `"}`},
	}
}

// Text beyond a limit is read anyway, or the body is reported as unread: no limit ends
// inspection in silence.
func TestNoLimitHidesText(t *testing.T) {
	race.Without(t)
	tried := map[string]bool{}
	for n, c := range limitCases(t) {
		tried[c.limit] = true
		t.Run(fmt.Sprintf("%s %d", c.limit, n), func(t *testing.T) {
			codings := ""
			if c.limit == "maxCodings" {
				codings = strings.Repeat("gzip, ", coding.MaxCodings) + "gzip"
				for range coding.MaxCodings + 1 {
					c.body = string(webpage.EncodeAll(t, "gzip", []byte(c.body)))
				}
			}
			var b content.Body
			b.Reset(content.Describe(c.typ, codings), content.Limits{Scripts: true})
			defer b.Release()
			b.Append([]byte(c.body))
			b.Finish()
			text, err := b.Text()
			if !strings.Contains(string(text), "quayle") && b.Unread() == content.AllRead && err == nil {
				t.Errorf("the word is not found, and the body counts as read: …%s", text[max(0, len(text)-60):])
			}
		})
	}
	const connection = "of what begins a connection: TestConnectionsBehindWrappersAreRecognised"
	for name, why := range map[string]string{
		"mostSaid": connection, "mostAsked": connection, "mostRun": connection, "mostRuns": connection, "mostPairs": connection, "mostStart": connection, "mostBefore": connection, "mostAhead": connection,
		"mostLayered": "a list that is packed more often is damaged",
		"mostAdding":  "TestMuchAddedTextIsBounded", "MostUnpacked": "conversations", "mostThreads": "conversations", "mostSame": "of the same piece in a row, which is kept as often",
		"maxMatch": "of deflate", "mostFolds": "marks that remain in a word are a disguise, which phrases look for", "maxWindow": "larger windows are an error of the coding", "maxLabel": "longer labels name no charset",
		"maxReadings": "the number of ways in which a browser may read a body", "mostProbes": "a full table is mostStyled",
		"mostStates": "TestReadersWithoutProgressEnd", "mostEncryption": "TestBooksAreEncryptedWhereTheirTextIs",
		"mostKept": "of one part, which is read besides", "mostSentText": "of one part, which is read besides",
	} {
		if tried[name] {
			t.Errorf("the limit %s has a case, and is also listed as having none (%s)", name, why)
		}
		tried[name] = true
	}
	var files []string
	for _, dir := range []string{"", "element", "media", "prose", "coding", "limit", "data", "conversation", "document"} {
		all, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, all...)
	}
	limit := regexp.MustCompile(`(?m)^\s*(?:const )?((?:most|Most|max)[A-Z]\w*)\s*=`)
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
